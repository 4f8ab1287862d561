#pragma once

// The body of penstock::Changes (include/penstock/rewire.h).

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "memory/rewire/snapshot.h"
#include "memory/rewire/table_core.h"
#include "penstock/base.h"

namespace penstock::rewire {

// Thread safety: one thread at a time. Invariant: it has one reference on each page of changed_,
// and nobody else has any.
class ChangesCore {
 public:
  // `base` may be null: then a change starts from what the table shows at the first call of page().
  ChangesCore(std::shared_ptr<TableCore> table, std::shared_ptr<SnapshotCore> base);
  ~ChangesCore() { clear(); }

  Result<std::byte*> page(uint64_t slot);
  uint64_t size() const { return changed_.size(); }
  Status apply(bool must_be_unwritten);
  void clear();

 private:
  const std::shared_ptr<TableCore> table_;
  const std::shared_ptr<SnapshotCore> base_;
  std::map<uint64_t, PageId> changed_;  // by slot
};

}  // namespace penstock::rewire
