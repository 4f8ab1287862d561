#include "items/check_file.h"

#include <algorithm>
#include <span>
#include <vector>

#include "base/bits.h"
#include "base/thread.h"
#include "io/request_ring.h"
#include "penstock/base.h"

namespace penstock::items {
namespace {

constexpr uint64_t read_bytes = 2 * MiB;

// The bytes [begin, end) of a file.
struct Part {
  uint64_t begin;
  uint64_t end;
};

// Parts begin at multiples of read_bytes, so that all reads but the last are whole sectors.
std::vector<Part> parts_of(uint64_t bytes, unsigned threads) {
  const uint64_t part_bytes =
      std::max(round_up(ceil_div(bytes, std::max(threads, 1u)), read_bytes), read_bytes);
  std::vector<Part> parts = {{0, std::min(part_bytes, bytes)}};
  while (parts.back().end < bytes) {
    const uint64_t begin = parts.back().end;
    parts.push_back({begin, std::min(begin + part_bytes, bytes)});
  }
  return parts;
}

// Thread safety: none; one thread per object.
class PartCheck {
 public:
  PartCheck(const io::File& file, const CheckFileOptions& options, Part part)
      : file_(file), part_(part), checker_(options.check, part.begin) {}

  void run() {
    status_ = io::read_ahead(file_, part_.begin, part_.end, read_bytes,
                             [this](uint64_t, std::span<const std::byte> bytes) -> Status {
                               checker_.add(bytes);
                               return {};
                             });
  }

  const Status& status() const { return status_; }
  Checker& checker() { return checker_; }

 private:
  const io::File& file_;
  const Part part_;
  Checker checker_;
  Status status_;
};

Error about(const std::string& path, Error error) {
  if (error.subject.empty()) error.subject = path;
  return error;
}

}  // namespace

Result<CheckResult> check_file(const io::File& file, const CheckFileOptions& options) {
  const auto bytes = file.size();
  if (!bytes) return std::unexpected(bytes.error());
  if (auto whole = check_size(options.check.format, *bytes, file.path()); !whole)
    return std::unexpected(whole.error());
  std::vector<PartCheck> checks;
  for (const Part part : parts_of(*bytes, options.threads))
    checks.emplace_back(file, options, part);
  in_threads(checks.size(), [&](size_t i) { checks[i].run(); });
  for (const PartCheck& check : checks) {
    if (!check.status()) return std::unexpected(check.status().error());
  }
  Checker& whole = checks[0].checker();
  for (size_t i = 1; i < checks.size(); ++i) whole.append(checks[i].checker());
  auto result = whole.finish();
  if (!result) return std::unexpected(about(file.path(), result.error()));
  return result;
}

}  // namespace penstock::items
