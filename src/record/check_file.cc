#include "record/check_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/bits.h"
#include "base/thread.h"
#include "penstock/base.h"
#include "record/transfer.h"

namespace penstock::record {
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
  PartCheck(const file::File& file, const CheckFileOptions& options, Part part)
      : file_(file), part_(part), next_(part.begin), checker_(options.check, part.begin) {}

  void run() { status_ = read_all(); }

  const Status& status() const { return status_; }
  Checker& checker() { return checker_; }

 private:
  Status read_all() {
    auto engine = file::Engine::open({.depth = transfers_in_flight});
    if (!engine) return std::unexpected(engine.error());
    std::vector<Transfer> transfers;
    for (unsigned i = 0; i < transfers_in_flight; ++i) transfers.emplace_back(read_bytes);
    for (Transfer& transfer : transfers) submit_next(**engine, transfer);
    Status status;
    bool more = true;
    for (size_t turn = 0; more && status; ++turn) {
      Transfer& transfer = transfers[turn % transfers.size()];
      more = transfer.submitted;
      if (more) status = take(**engine, transfer, more);
    }
    for (Transfer& transfer : transfers) (void)transfer.wait(**engine);  // the buffers end here
    return status;
  }

  // Checks what a read has brought and begins another; says whether there may be more.
  Status take(file::Engine& engine, Transfer& transfer, bool& more) {
    const auto bytes = transfer.wait(engine);
    if (!bytes) return std::unexpected(bytes.error());
    checker_.add({transfer.buffer.get(), *bytes});
    more = *bytes == transfer.request.bytes;
    if (!more) {
      return failure(ErrorCode::io, "read to the end: it became shorter meanwhile", file_.path());
    }
    submit_next(engine, transfer);
    return {};
  }

  void submit_next(file::Engine& engine, Transfer& transfer) {
    const uint64_t bytes = std::min(read_bytes, part_.end - next_);
    if (bytes == 0) return;
    transfer.submit(engine, file::Operation::read, file_, next_, bytes);
    next_ += bytes;
  }

  const file::File& file_;
  const Part part_;
  uint64_t next_;  // where the next read begins
  Checker checker_;
  Status status_;
};

Error about(const std::string& path, Error error) {
  if (error.subject.empty()) error.subject = path;
  return error;
}

Status check_size(const file::File& file, const Format& format, uint64_t bytes) {
  if (!format.fixed() || bytes % format.record_bytes == 0) return {};
  return failure(ErrorCode::corrupt,
                 fmt::format("read {} bytes as items of {} bytes: {} are left over", bytes,
                             format.record_bytes, bytes % format.record_bytes),
                 file.path(), "another --format or --record");
}

}  // namespace

Result<CheckResult> check_file(const file::File& file, const CheckFileOptions& options) {
  const auto bytes = file.size();
  if (!bytes) return std::unexpected(bytes.error());
  if (auto whole = check_size(file, options.check.format, *bytes); !whole)
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

}  // namespace penstock::record
