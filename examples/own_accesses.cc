// Records which bytes of which files a command reads and writes, and reads the trace.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "penstock/trace.h"

using penstock::trace::Access;
using penstock::trace::Request;

namespace {

constexpr size_t bytes = 1'000'000;

int report(const penstock::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

int run(const std::string& folder) {
  const std::string from = folder + "/from", to = folder + "/to", trace = folder + "/run.trace";
  std::ofstream(from) << std::string(bytes, 'x');

  // dd makes plain calls, unlike cp on file systems that copy by themselves.
  const auto done = penstock::trace::capture(
      {.output = trace,
       .backend = penstock::trace::Backend::ptrace,
       .command = {"dd", "if=" + from, "of=" + to, "bs=64K", "status=none"}});
  if (!done) {
    if (done.error().code != penstock::ErrorCode::unsupported) return report(done.error());
    std::printf("skipped: %s\n", done.error().message().c_str());
    return 0;
  }
  std::printf("%llu calls, exit code %d\n", static_cast<unsigned long long>(done->totals.events),
              done->totals.exit_code);

  uint64_t read = 0, written = 0;
  const auto sums = penstock::trace::convert_file(
      trace, {.under = folder}, [&](std::span<const Request> requests) -> penstock::Status {
        for (const Request& request : requests)
          (request.access == Access::read ? read : written) += request.bytes;
        return {};
      });
  if (!sums) return report(sums.error());
  for (const auto& file : sums->files) {
    if (!file.path.starts_with(folder)) continue;
    std::printf("%s: %llu bytes read, %llu written\n", file.path.c_str(),
                static_cast<unsigned long long>(file.read_bytes),
                static_cast<unsigned long long>(file.written_bytes));
  }
  return read == bytes && written == bytes && sums->exit_code == 0 ? 0 : 1;
}

}  // namespace

int main() {
  std::string folder = (std::filesystem::temp_directory_path() / "accesses-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return 1;
  const int result = run(folder);
  std::filesystem::remove_all(folder);
  return result;
}
