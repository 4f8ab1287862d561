#pragma once

// What an ELF file says of its code: where the functions begin and end, by the table for exceptions
// (.eh_frame_hdr); and whether Go made it.

#include <cstddef>
#include <cstdint>

namespace penstock::trace::preload {

// Whether one of these notes is Go's (its build number: name "Go", type 4). Code of Go runs on
// small stacks that grow: below a system call it has 800 bytes left, of which what we do needs
// more.
inline bool has_note_of_go(const uint8_t* notes, uint64_t bytes) {
  const auto number = [&](uint64_t at) {
    return uint64_t{notes[at]} | uint64_t{notes[at + 1]} << 8 | uint64_t{notes[at + 2]} << 16 |
           uint64_t{notes[at + 3]} << 24;
  };
  const auto padded = [](uint64_t length) { return (length + 3) & ~uint64_t{3}; };
  for (uint64_t at = 0; at + 16 <= bytes;) {
    const uint64_t name = number(at), content = number(at + 4), type = number(at + 8);
    if (name == 4 && type == 4 && number(at + 12) == 0x6f47) return true;
    at += 12 + padded(name) + padded(content);
  }
  return false;
}

class Functions {
 public:
  // Of the code at this offset of the file. Without a table of the usual form, nothing is found.
  void open(const uint8_t* file, uint64_t file_bytes, uint64_t code_offset);
  // The function around `at`. All are offsets into the code.
  bool find(uint64_t at, uint64_t& begin, uint64_t& end) const;
  bool is_of_go() const { return is_of_go_; }

 private:
  const uint8_t* file_ = nullptr;
  uint64_t file_bytes_ = 0;
  bool is_of_go_ = false;
  uint64_t header_ = 0;          // the table's offset in the file, ...
  uint64_t header_address_ = 0;  // ... and its address, as the file has it
  uint64_t code_address_ = 0;
  uint64_t entries_ = 0;
};

}  // namespace penstock::trace::preload
