// One snapshot: a range that never changes, and what happens to who writes there.

#include "rewire/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/thread.h"
#include "os/process_end.h"
#include "stream/recovery.h"

namespace penstock::rewire {

SnapshotCore::SnapshotCore(std::shared_ptr<TableCore> table, std::unique_ptr<Range> range,
                           uint64_t epoch)
    : table_(std::move(table)),
      range_(std::move(range)),
      epoch_(epoch),
      name_(fmt::format("snapshot {} of {}", epoch, table_->options().name)) {}

Result<std::shared_ptr<SnapshotCore>> SnapshotCore::open(std::shared_ptr<TableCore> table,
                                                         std::unique_ptr<Range> range,
                                                         uint64_t epoch) {
  std::shared_ptr<SnapshotCore> core(new SnapshotCore(std::move(table), std::move(range), epoch));
  auto registration = fault::Registration::add(core->range_->begin(), core->range_->bytes(), *core);
  if (!registration) return std::unexpected(std::move(registration.error()));
  core->registration_ = std::move(*registration);
  return core;
}

SnapshotCore::~SnapshotCore() {
  registration_ = {};
  range_.reset();  // its pages lose their references before the table looks at them
  if (counted_) table_->snapshot_ended();
}

// Fault path. All slots show a page that may be read: whoever faults here wrote.
fault::Outcome SnapshotCore::on_fault(const fault::Fault& fault) noexcept {
  if (fault.access != fault::Access::write) return fault::Outcome::decline;
  char text[160];
  std::snprintf(text, sizeof text, "write to byte %llu: a snapshot can only be read",
                static_cast<unsigned long long>(fault.address - range_->begin()));
  [[maybe_unused]] const bool recovered =
      stream::fail(table_->options().policy, {ErrorCode::invalid_argument, text, name_.c_str(), 0},
                   fault.context);
  return fault::Outcome::retry;
}

Result<size_t> SnapshotCore::prepare(std::byte* address, size_t bytes, fault::Access access) {
  if (access == fault::Access::write)
    return failure(ErrorCode::invalid_argument, "write to a snapshot: it can only be read", name_);
  return std::min<size_t>(bytes, static_cast<size_t>(range_->end() - address));
}

// A thread that waits for the child costs a stack that is never touched, and gives the pages back
// the moment they are free, whatever the program does meanwhile. It is nobody's to join: neither
// the table nor its user need be there when the child ends.
Status SnapshotCore::keep_while(std::shared_ptr<SnapshotCore> core, pid_t child) {
  if (Status status = core->table_->check_owned("keep a snapshot for a process"); !status)
    return status;
  auto end = os::ProcessEnd::of(child);
  if (!end) return std::unexpected(std::move(end.error()));
  std::thread keeper;
  Status status = start_thread(keeper, [kept = std::move(core), end = std::move(*end)]() mutable {
    end.wait();
    kept.reset();
  });
  if (status) keeper.detach();
  return status;
}

}  // namespace penstock::rewire
