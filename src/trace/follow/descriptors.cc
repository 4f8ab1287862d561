#include "trace/follow/descriptors.h"

#include <algorithm>

namespace penstock::trace {

Descriptors::Table& Descriptors::table_of(int32_t process) {
  if (last_table_ != nullptr && process == last_process_) return *last_table_;
  TablePointer& table = processes_[process];
  if (table == nullptr) table = std::make_shared<Table>();
  last_process_ = process;
  last_table_ = table.get();
  return *table;
}

Descriptors::Entry* Descriptors::find_entry(Table& table, int32_t descriptor) {
  if (descriptor < 0) return nullptr;
  if (descriptor < low_max) {
    const auto index = static_cast<size_t>(descriptor);
    if (index >= table.low.size() || table.low[index].description == Entry::none) return nullptr;
    return &table.low[index];
  }
  const auto found = table.high.find(descriptor);
  return found == table.high.end() ? nullptr : &found->second;
}

void Descriptors::free(uint32_t description) {
  const Description& freed = descriptions_[description].description;
  if (freed.writes) --writers_[freed.file];
  free_.push_back(description);
}

void Descriptors::clear(Entry& entry) {
  if (entry.description == Entry::none) return;
  --entries_;
  if (--descriptions_[entry.description].entries == 0) free(entry.description);
  entry = {};
}

// Counts the entry as one more name of its description, and then closes what stood there: it may
// be the same.
void Descriptors::set(Table& table, int32_t descriptor, Entry entry) {
  const size_t slots =
      descriptor >= 0 && descriptor < low_max ? static_cast<size_t>(descriptor) + 1 : 0;
  const size_t more_slots = slots > table.low.size() ? slots - table.low.size() : 0;
  if (descriptor < 0 || entries_ >= entries_max || slots_ + more_slots > entries_max) {
    overflowed_ |= descriptor >= 0;
    if (descriptions_[entry.description].entries == 0) free(entry.description);
    return;
  }
  ++descriptions_[entry.description].entries;
  ++entries_;
  slots_ += more_slots;
  if (descriptor < low_max) {
    const auto index = static_cast<size_t>(descriptor);
    if (index >= table.low.size()) table.low.resize(index + 1);
    clear(table.low[index]);
    table.low[index] = entry;
  } else {
    Entry& place = table.high[descriptor];
    clear(place);
    place = entry;
  }
}

Description* Descriptors::find(int32_t process, int32_t descriptor) {
  const Entry* entry = find_entry(table_of(process), descriptor);
  return entry == nullptr ? nullptr : &descriptions_[entry->description].description;
}

void Descriptors::open(int32_t process, int32_t descriptor, const Description& description,
                       bool close_on_exec) {
  uint32_t index;
  if (free_.empty()) {
    index = static_cast<uint32_t>(descriptions_.size());
    descriptions_.emplace_back();
  } else {
    index = free_.back();
    free_.pop_back();
  }
  descriptions_[index] = {description, 0};
  if (description.writes) {
    if (description.file >= writers_.size()) writers_.resize(description.file + size_t{1});
    ++writers_[description.file];
  }
  set(table_of(process), descriptor, {index, close_on_exec});
}

bool Descriptors::share(int32_t process, int32_t descriptor, int32_t of_process,
                        int32_t of_descriptor, bool close_on_exec) {
  const Entry* entry = find_entry(table_of(of_process), of_descriptor);
  if (entry == nullptr) return false;
  set(table_of(process), descriptor, {entry->description, close_on_exec});
  return true;
}

void Descriptors::close(int32_t process, int32_t descriptor) {
  close_range(process, descriptor, descriptor);
}

template <class Visit>
void Descriptors::visit(Table& table, int32_t first, int32_t last, const Visit& visit) {
  if (last < 0) return;
  if (first == last && first >= low_max) {  // one number, not a walk through all
    const auto found = table.high.find(first);
    if (found == table.high.end()) return;
    visit(found->second);
    if (found->second.description == Entry::none) table.high.erase(found);
    return;
  }
  const auto end = std::min(table.low.size(), static_cast<size_t>(last) + 1);
  for (auto i = static_cast<size_t>(std::max(first, 0)); i < end; ++i) {
    if (table.low[i].description != Entry::none) visit(table.low[i]);
  }
  if (last < low_max || table.high.empty()) return;
  for (auto at = table.high.begin(); at != table.high.end();) {
    if (at->first >= first && at->first <= last) visit(at->second);
    at = at->second.description == Entry::none ? table.high.erase(at) : std::next(at);
  }
}

void Descriptors::close_range(int32_t process, int32_t first, int32_t last) {
  visit(table_of(process), first, last, [&](Entry& entry) { clear(entry); });
}

void Descriptors::mark_range(int32_t process, int32_t first, int32_t last, bool close_on_exec) {
  visit(table_of(process), first, last, [&](Entry& entry) { entry.close_on_exec = close_on_exec; });
}

Descriptors::TablePointer Descriptors::copy(const Table& table) {
  auto made = std::make_shared<Table>();
  for (size_t i = 0; i < table.low.size(); ++i) {
    if (table.low[i].description != Entry::none) set(*made, static_cast<int32_t>(i), table.low[i]);
  }
  for (const auto& [descriptor, entry] : table.high) set(*made, descriptor, entry);
  return made;
}

// The last user of a table closes what is open in it.
void Descriptors::forget(TablePointer& table) {
  last_table_ = nullptr;
  if (table != nullptr && table.use_count() == 1) {
    visit(*table, 0, INT32_MAX, [&](Entry& entry) { clear(entry); });
    slots_ -= table->low.size();
  }
  table = nullptr;
}

void Descriptors::fork(int32_t parent, int32_t child, bool shares) {
  if (parent == child) return;
  (void)table_of(parent);
  exit(child);
  const TablePointer& from = processes_[parent];
  TablePointer made = shares ? from : copy(*from);
  processes_[child] = std::move(made);
  last_table_ = nullptr;
}

void Descriptors::exec(int32_t process) {
  Table& table = table_of(process);
  TablePointer& pointer = processes_[process];
  // A table that was shared becomes the process's own.
  if (pointer.use_count() > 1) pointer = copy(table);
  visit(*pointer, 0, INT32_MAX, [&](Entry& entry) {
    if (entry.close_on_exec) clear(entry);
  });
  last_table_ = nullptr;
}

void Descriptors::exit(int32_t process) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return;
  forget(found->second);
  processes_.erase(found);
}

}  // namespace penstock::trace
