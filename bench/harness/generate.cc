#include "bench/harness/generate.h"

#include "bench/harness/child.h"

namespace penstock::bench {

Result<uint64_t> generate(const std::string& program, const std::string& format, uint64_t bytes,
                          const std::string& path, const std::string& order) {
  // Lines are 47 bytes in the mean.
  const uint64_t item_bytes = format == "u32"      ? 4
                              : format == "kv64"   ? 16
                              : format == "record" ? 100
                              : format == "lines"  ? 47
                                                   : 8;
  const uint64_t items = bytes / item_bytes;
  const auto made = run_child({program, "gen", "--format", format, "--dist", order, "--count",
                               std::to_string(items), "-o", path});
  if (!made) return std::unexpected(made.error());
  return items;
}

}  // namespace penstock::bench
