#pragma once

// The entries that stand behind the descriptors of each process. Processes may share a table.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "penstock/trace.h"

namespace penstock::trace {

// The table of one process, or of several that share it. An Entry is a value with `empty()`, which
// is true for Entry{}.
//
// Thread safety: none.
// Invariants: small numbers, which nearly all are, stand in an array, others in a map; no entry of
// the map is empty, but one that place() has just made.
template <class Entry>
class DescriptorTable {
 public:
  // nullptr: nothing stands there. Good until the next call that changes the table.
  Entry* find(int32_t descriptor) {
    if (descriptor < 0) return nullptr;
    if (descriptor < low_max) {
      const auto index = static_cast<size_t>(descriptor);
      return index < low_.size() && !low_[index].empty() ? &low_[index] : nullptr;
    }
    const auto found = high_.find(descriptor);
    return found == high_.end() ? nullptr : &found->second;
  }

  // An empty entry removes what stands there. No negative number has an entry.
  void set(int32_t descriptor, const Entry& entry) {
    if (entry.empty()) {
      erase(descriptor, descriptor);
    } else if (descriptor >= 0) {
      place(descriptor) = entry;
    }
  }
  // The entry to put something into at once. REQUIRES: descriptor >= 0.
  Entry& place(int32_t descriptor) {
    if (descriptor >= low_max) return high_[descriptor];
    low_.resize(std::max(low_.size(), slots_for(descriptor)));
    return low_[static_cast<size_t>(descriptor)];
  }
  // The length that the array needs for a descriptor, and has.
  static size_t slots_for(int32_t descriptor) {
    return descriptor >= 0 && descriptor < low_max ? static_cast<size_t>(descriptor) + 1 : 0;
  }
  size_t slots() const { return low_.size(); }

  // Visits what stands in [first, last] as (descriptor, entry); an entry may be emptied.
  template <class Visit>
  void visit(int32_t first, int32_t last, const Visit& visit) {
    if (last < 0) return;
    if (first == last && first >= low_max) {  // one number, not a walk through all
      const auto found = high_.find(first);
      if (found == high_.end()) return;
      visit(first, found->second);
      if (found->second.empty()) high_.erase(found);
      return;
    }
    const auto end = std::min(low_.size(), static_cast<size_t>(last) + 1);
    for (auto i = static_cast<size_t>(std::max(first, 0)); i < end; ++i) {
      if (!low_[i].empty()) visit(static_cast<int32_t>(i), low_[i]);
    }
    if (last < low_max || high_.empty()) return;
    for (auto at = high_.begin(); at != high_.end();) {
      if (at->first >= first && at->first <= last) visit(at->first, at->second);
      at = at->second.empty() ? high_.erase(at) : std::next(at);
    }
  }
  void erase(int32_t first, int32_t last) {
    visit(first, last, [](int32_t, Entry& entry) { entry = {}; });
  }

 private:
  static constexpr int32_t low_max = 1024;

  std::vector<Entry> low_;
  std::unordered_map<int32_t, Entry> high_;
};

// The tables of all processes.
//
// Thread safety: none.
// Invariants: a table lives as long as a process uses it.
template <class Entry>
class DescriptorTables {
 public:
  using Table = DescriptorTable<Entry>;

  // A process that was not heard of gets an empty table.
  Table& of(int32_t process) {
    if (last_table_ != nullptr && process == last_process_) return *last_table_;
    Table* table = pointer(process).get();
    last_process_ = process;
    last_table_ = table;
    return *table;
  }
  // nullptr: nothing stands there.
  Entry* find(int32_t process, int32_t descriptor) { return of(process).find(descriptor); }
  // The same as a value.
  Entry get(int32_t process, int32_t descriptor) {
    const Entry* entry = find(process, descriptor);
    return entry == nullptr ? Entry{} : *entry;
  }

  // The table of a process, to be shared with another or replaced.
  std::shared_ptr<Table>& pointer(int32_t process) {
    last_table_ = nullptr;
    std::shared_ptr<Table>& table = tables_[process];
    if (table == nullptr) table = std::make_shared<Table>();
    return table;
  }
  // The child's table is the parent's own, or a copy.
  void fork(int32_t parent, int32_t child, bool shares) {
    const std::shared_ptr<Table> from = pointer(parent);
    pointer(child) = shares ? from : std::make_shared<Table>(*from);
  }
  void forget(int32_t process) {
    tables_.erase(process);
    last_table_ = nullptr;
  }
  void clear() {
    for (auto& [process, table] : tables_) table->erase(0, INT32_MAX);
  }

  // Names in `event` another descriptor of its file that shares the position with the event's own,
  // as is_same(process, descriptor, entry) tells. False: there is none.
  template <class IsSame>
  bool find_alias(Event& event, const IsSame& is_same) {
    bool found = false;
    for (auto& [process, table] : tables_) {
      table->visit(0, INT32_MAX, [&](int32_t descriptor, const Entry& entry) {
        const bool itself = process == event.process && descriptor == event.descriptor;
        if (found || itself || entry.file != event.file) return;
        found = is_same(process, descriptor, entry);
        if (found) std::tie(event.child, event.descriptor2) = std::tie(process, descriptor);
      });
    }
    return found;
  }

 private:
  std::unordered_map<int32_t, std::shared_ptr<Table>> tables_;
  // The last process asked for: most events are of the same as the one before.
  int32_t last_process_ = 0;
  Table* last_table_ = nullptr;
};

}  // namespace penstock::trace
