#pragma once

// The body of penstock::Snapshot: see include/penstock/rewire.h for use, table_core.cc for how one
// is taken.

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "memory/rewire/range.h"
#include "memory/rewire/read_only_range.h"
#include "memory/rewire/table_core.h"
#include "penstock/base.h"

namespace penstock::rewire {

// Thread safety: all members, from any thread.
class SnapshotCore final : public ReadOnlyRange {
 public:
  // REQUIRES: the range shows all of the snapshot.
  static Result<std::shared_ptr<SnapshotCore>> open(std::shared_ptr<TableCore> table,
                                                    std::unique_ptr<Range> range, uint64_t epoch);
  ~SnapshotCore();
  // Makes the snapshot report its end to the table, which has counted it.
  void count() { counted_ = true; }

  const Range& range() const { return *range_; }
  const TableCore& table() const { return *table_; }
  uint64_t epoch() const { return epoch_; }

  static Status keep_while(std::shared_ptr<SnapshotCore> core, pid_t child);

 private:
  Label label() const noexcept override { return {name_.c_str(), table_->options().policy}; }

  SnapshotCore(std::shared_ptr<TableCore> table, std::unique_ptr<Range> range, uint64_t epoch);

  const std::shared_ptr<TableCore> table_;
  const uint64_t epoch_;
  const std::string name_;  // for messages
  bool counted_ = false;
};

}  // namespace penstock::rewire
