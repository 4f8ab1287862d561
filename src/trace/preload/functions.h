#pragma once

// Where the functions of an ELF file begin and end, by its table for exceptions (.eh_frame_hdr).

#include <cstddef>
#include <cstdint>

namespace penstock::trace::preload {

class Functions {
 public:
  // Of the code at this offset of the file. Without a table of the usual form, nothing is found.
  void open(const uint8_t* file, uint64_t file_bytes, uint64_t code_offset);
  // The function around `at`. All are offsets into the code.
  bool find(uint64_t at, uint64_t& begin, uint64_t& end) const;

 private:
  const uint8_t* file_ = nullptr;
  uint64_t file_bytes_ = 0;
  uint64_t header_ = 0;          // the table's offset in the file, ...
  uint64_t header_address_ = 0;  // ... and its address, as the file has it
  uint64_t code_address_ = 0;
  uint64_t entries_ = 0;
};

}  // namespace penstock::trace::preload
