#include "trace/follow/descriptors.h"

#include <memory>

namespace penstock::trace {

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

// Counts the entry as one more name of its description before it closes the old entry: both may
// have the same description.
void Descriptors::set(Table& table, int32_t descriptor, Entry entry) {
  const size_t slots = Table::slots_for(descriptor);
  const size_t more_slots = slots > table.slots() ? slots - table.slots() : 0;
  if (descriptor < 0 || entries_ >= entries_max || slots_ + more_slots > entries_max) {
    overflowed_ |= descriptor >= 0;
    if (descriptions_[entry.description].entries == 0) free(entry.description);
    return;
  }
  ++descriptions_[entry.description].entries;
  ++entries_;
  slots_ += more_slots;
  Entry& place = table.place(descriptor);
  clear(place);
  place = entry;
}

Description* Descriptors::find(int32_t process, int32_t descriptor) {
  const Entry* entry = tables_.find(process, descriptor);
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
  set(tables_.of(process), descriptor, {index, close_on_exec});
}

bool Descriptors::share(int32_t process, int32_t descriptor, int32_t of_process,
                        int32_t of_descriptor, bool close_on_exec) {
  const Entry* entry = tables_.find(of_process, of_descriptor);
  if (entry == nullptr) return false;
  set(tables_.of(process), descriptor, {entry->description, close_on_exec});
  return true;
}

void Descriptors::close(int32_t process, int32_t descriptor) {
  close_range(process, descriptor, descriptor);
}

void Descriptors::close_range(int32_t process, int32_t first, int32_t last) {
  tables_.of(process).visit(first, last, [&](int32_t, Entry& entry) { clear(entry); });
}

void Descriptors::mark_range(int32_t process, int32_t first, int32_t last, bool close_on_exec) {
  tables_.of(process).visit(first, last,
                            [&](int32_t, Entry& entry) { entry.close_on_exec = close_on_exec; });
}

Descriptors::Table Descriptors::copy(Table& table) {
  Table made;
  table.visit(0, INT32_MAX,
              [&](int32_t descriptor, Entry& entry) { set(made, descriptor, entry); });
  return made;
}

void Descriptors::fork(int32_t parent, int32_t child, bool shares) {
  if (parent == child) return;
  exit(child);
  const auto from = tables_.pointer(parent);
  tables_.pointer(child) = shares ? from : std::make_shared<Table>(copy(*from));
}

void Descriptors::exec(int32_t process) {
  // A shared table is copied first.
  auto& table = tables_.pointer(process);
  if (table.use_count() > 1) table = std::make_shared<Table>(copy(*table));
  table->visit(0, INT32_MAX, [&](int32_t, Entry& entry) {
    if (entry.close_on_exec) clear(entry);
  });
}

// Closes all descriptors of a table if the process was its last user.
void Descriptors::exit(int32_t process) {
  if (const auto& table = tables_.pointer(process); table.use_count() == 1) {
    table->visit(0, INT32_MAX, [&](int32_t, Entry& entry) { clear(entry); });
    slots_ -= table->slots();
  }
  tables_.forget(process);
}

}  // namespace penstock::trace
