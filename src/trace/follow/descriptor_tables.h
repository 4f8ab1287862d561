#pragma once

// Tables from the descriptors of each process to entries. Processes may share a table.

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
// Invariants: entries of small numbers, which nearly all are, are in an array, the others in a map.
// No entry of the map is empty, except one that place() has just made.
template <class Entry>
class DescriptorTable {
 public:
  // Returns nullptr if there is no entry. The pointer is valid until the next change of the table.
  Entry* find(int32_t descriptor) {
    if (descriptor < 0) return nullptr;
    if (descriptor < low_max) {
      const auto index = static_cast<size_t>(descriptor);
      return index < low_.size() && !low_[index].empty() ? &low_[index] : nullptr;
    }
    const auto found = high_.find(descriptor);
    return found == high_.end() ? nullptr : &found->second;
  }

  // Sets an entry; an empty one removes it. Negative numbers have no entries.
  void set(int32_t descriptor, const Entry& entry) {
    if (entry.empty()) {
      erase(descriptor, descriptor);
    } else if (descriptor >= 0) {
      place(descriptor) = entry;
    }
  }
  // Returns the entry, or a new one that the caller fills at once. REQUIRES: descriptor >= 0.
  Entry& place(int32_t descriptor) {
    if (descriptor >= low_max) return high_[descriptor];
    low_.resize(std::max(low_.size(), slots_for(descriptor)));
    return low_[static_cast<size_t>(descriptor)];
  }
  // Returns the array's length for a descriptor.
  static size_t slots_for(int32_t descriptor) {
    return descriptor >= 0 && descriptor < low_max ? static_cast<size_t>(descriptor) + 1 : 0;
  }
  size_t slots() const { return low_.size(); }

  // Visits the entries in [first, last] as (descriptor, entry). The visitor may empty an entry.
  template <class Visit>
  void visit(int32_t first, int32_t last, const Visit& visit) {
    if (last < 0) return;
    if (first == last && first >= low_max) {  // a lookup instead of a walk through the map
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

  // Returns the table of a process; a new process gets an empty one.
  Table& of(int32_t process) {
    if (last_table_ != nullptr && process == last_process_) return *last_table_;
    Table* table = pointer(process).get();
    last_process_ = process;
    last_table_ = table;
    return *table;
  }
  // Returns nullptr if there is no entry.
  Entry* find(int32_t process, int32_t descriptor) { return of(process).find(descriptor); }
  // Returns the entry as a value; an empty one if there is none.
  Entry get(int32_t process, int32_t descriptor) {
    const Entry* entry = find(process, descriptor);
    return entry == nullptr ? Entry{} : *entry;
  }

  // Returns a process's pointer to its table, which the caller may share or replace.
  std::shared_ptr<Table>& pointer(int32_t process) {
    last_table_ = nullptr;
    std::shared_ptr<Table>& table = tables_[process];
    if (table == nullptr) table = std::make_shared<Table>();
    return table;
  }
  // Gives the child the parent's own table (`shares`), or a copy.
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

  // Finds another descriptor of the event's file that shares its position, by
  // is_same(process, descriptor, entry), and names it in `event`. Returns false if there is none.
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
  // A cache of the last lookup: successive events are mostly of one process.
  int32_t last_process_ = 0;
  Table* last_table_ = nullptr;
};

}  // namespace penstock::trace
