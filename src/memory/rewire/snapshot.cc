// One snapshot: a range that never changes.

#include "memory/rewire/snapshot.h"

#include <fmt/format.h>

#include <thread>
#include <utility>

#include "base/thread.h"
#include "os/process_end.h"

namespace penstock::rewire {

SnapshotCore::SnapshotCore(std::shared_ptr<TableCore> table, std::unique_ptr<Range> range,
                           uint64_t epoch)
    : ReadOnlyRange("a snapshot", std::move(range)),
      table_(std::move(table)),
      epoch_(epoch),
      name_(fmt::format("snapshot {} of {}", epoch, table_->options().name)) {}

Result<std::shared_ptr<SnapshotCore>> SnapshotCore::open(std::shared_ptr<TableCore> table,
                                                         std::unique_ptr<Range> range,
                                                         uint64_t epoch) {
  std::shared_ptr<SnapshotCore> core(new SnapshotCore(std::move(table), std::move(range), epoch));
  if (auto watched = core->watch(); !watched) return std::unexpected(std::move(watched.error()));
  return core;
}

SnapshotCore::~SnapshotCore() {
  stop_watching();
  range_.reset();  // its pages lose their references before the table counts them
  if (counted_) table_->snapshot_ended();
}

// A detached thread waits for the child. It costs a stack that is hardly touched, and releases the
// pages the moment they are free, whatever the program does meanwhile. Neither the table nor its
// user need exist when the child ends.
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
