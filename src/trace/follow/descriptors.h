#pragma once

// A model of the kernel's state between a process and a file: tables of descriptors, and open file
// descriptions, which contain the position.
//
// Thread safety: none.
// Invariants: a description lives as long as an entry of any table names it; a table lives as long
// as a process uses it. The entries of all tables together, and the slots of their arrays, stay
// below `entries_max`, whatever a trace contains.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "trace/follow/descriptor_tables.h"

namespace penstock::trace {

// An open file description.
struct Description {
  uint64_t position = 0;
  uint32_t file = 0;  // id in the trace
  bool append = false;
  bool writes = false;  // opened for writing
};

class Descriptors {
 public:
  static constexpr size_t entries_max = size_t{1} << 24;

  // Returns nullptr if the descriptor was not seen open. The pointer is valid until the next change
  // of a table.
  Description* find(int32_t process, int32_t descriptor);

  // Opens a new description, after closing the old one of that descriptor.
  void open(int32_t process, int32_t descriptor, const Description& description,
            bool close_on_exec);
  // Makes (process, descriptor) another name of (of_process, of_descriptor)'s description. Returns
  // false, and changes nothing, if that is not open.
  bool share(int32_t process, int32_t descriptor, int32_t of_process, int32_t of_descriptor,
             bool close_on_exec);
  void close(int32_t process, int32_t descriptor);
  // Close or mark all descriptors in [first, last].
  void close_range(int32_t process, int32_t first, int32_t last);
  void mark_range(int32_t process, int32_t first, int32_t last, bool close_on_exec);

  // Gives the child the parent's own table (`shares`), or a copy, in place of its own.
  void fork(int32_t parent, int32_t child, bool shares);
  void exec(int32_t process);
  void exit(int32_t process);

  // Returns the number of descriptions of a file that are open for writing.
  uint32_t writers(uint32_t file) const { return file < writers_.size() ? writers_[file] : 0; }

  // Returns whether entries_max was reached, and entries were dropped.
  bool overflowed() const { return overflowed_; }

 private:
  // An index into descriptions_, or `none`.
  struct Entry {
    static constexpr uint32_t none = ~uint32_t{0};
    uint32_t description = none;
    bool close_on_exec = false;
    bool empty() const { return description == none; }
  };
  using Table = DescriptorTable<Entry>;
  struct Counted {
    Description description;
    uint32_t entries = 0;
  };

  void set(Table& table, int32_t descriptor, Entry entry);
  void clear(Entry& entry);
  void free(uint32_t description);
  Table copy(Table& table);

  DescriptorTables<Entry> tables_;
  std::vector<Counted> descriptions_;
  std::vector<uint32_t> free_;
  std::vector<uint32_t> writers_;  // [file]
  size_t entries_ = 0;
  size_t slots_ = 0;  // slots of the arrays of all tables, used or not
  bool overflowed_ = false;
};

}  // namespace penstock::trace
