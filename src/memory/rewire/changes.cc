// Differential updates: changes to a table are made on copies of its pages, which then replace the
// pages.
//
// A store into the table faults on each first write after a snapshot, readers see the changes one
// by one, and there is no going back. Here a page is copied on request, without a fault; nobody
// sees the copy, and apply() is a system call for each run of neighbours. Copies are taken from the
// pool in the order of the requests, so pages that are changed from front to back are one run.
// Applying costs 5 us a run, whatever was changed; copying 200 us for each 2 MiB. It pays if a page
// gets many changes, if the old pages would have been copied for a snapshot anyway, or if changes
// must appear at once. For a few stores it does not.
//
// If the table is written meanwhile, the changed pages win, unless a snapshot is the base. Then the
// write is detected: a slot shows its page until it is written, and while the snapshot is held here
// no other page can have its number.

#include "memory/rewire/changes.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "memory/rewire/copy_page.h"

namespace penstock::rewire {

ChangesCore::ChangesCore(std::shared_ptr<TableCore> table, std::shared_ptr<SnapshotCore> base)
    : table_(std::move(table)), base_(std::move(base)) {}

Result<std::byte*> ChangesCore::page(uint64_t slot) {
  pool::PageStore& store = table_->store();
  const std::string& name = table_->options().name;
  if (slot >= table_->slots())
    return failure(ErrorCode::invalid_argument, fmt::format("change page {}", slot), name,
                   fmt::format("pages 0 to {}", table_->slots() - 1));
  const auto behind = changed_.lower_bound(slot);
  if (behind != changed_.end() && behind->first == slot) return store.home(behind->second);
  const PageId before = behind == changed_.begin() ? no_page : std::prev(behind)->second;
  const PageRun own = store.take_run(1, before);
  if (own.count == 0)
    return failure(ErrorCode::out_of_memory,
                   fmt::format("copy page {} to change it: none of the pool's {} pages is free",
                               slot, store.pages_max()),
                   name, "a larger pool, or apply() earlier");
  // Without a base the slot may be written, and its page be replaced, right now. Reading through
  // the table always finds some page of this slot.
  const std::byte* const from =
      base_ ? store.home(base_->range().page(slot)) : table_->live().address(slot);
  copy_page(store.home(own.first), from, table_->page_bytes(), 0);
  changed_.emplace_hint(behind, slot, own.first);
  return store.home(own.first);
}

Status ChangesCore::apply(bool must_be_unwritten) {
  std::vector<TableCore::Change> changes;
  changes.reserve(changed_.size());
  for (const auto& [slot, page] : changed_) {
    const bool checked = must_be_unwritten && base_;
    changes.push_back({slot, page, checked ? base_->range().page(slot) : no_page});
  }
  TableCore::Applied applied = table_->apply(changes);
  for (size_t i = 0; i < applied.count; ++i) changed_.erase(changed_.begin());
  return std::move(applied.status);
}

void ChangesCore::clear() {
  for (const auto& [slot, page] : changed_) table_->store().release({page, 1});
  changed_.clear();
}

}  // namespace penstock::rewire
