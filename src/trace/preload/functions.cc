#include "trace/preload/functions.h"

// The table has, in the order of their addresses, two numbers for each function: where it begins
// and where it is described, both from the table's own place on. The description (DWARF's "frame
// description entry") has the length.
//
//   .eh_frame_hdr    0  version 1, then how its numbers are coded: 1b, 03 and 3b are what all
//                       linkers write
//                    4  where .eh_frame is;  8  entries;  12  the entries
//   a description    0  bytes;  4  which form;  8  begin, from here on;  12  bytes of code

namespace penstock::trace::preload {
namespace {

uint64_t u64(const uint8_t* at) {
  uint64_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
uint32_t u32(const uint8_t* at) {
  uint32_t value;
  __builtin_memcpy(&value, at, sizeof value);
  return value;
}
uint64_t distance(const uint8_t* at) {
  return static_cast<uint64_t>(static_cast<int32_t>(u32(at)));
}

}  // namespace

void Functions::open(const uint8_t* file, uint64_t file_bytes, uint64_t code_offset) {
  constexpr uint64_t elf_header_bytes = 64, segment_bytes = 56;
  constexpr uint32_t load = 1, note = 4, exceptions = 0x6474e550;
  if (file_bytes < elf_header_bytes || u32(file) != 0x464c457f) return;
  const uint64_t segments_at = u64(file + 32);
  const auto segments = static_cast<uint64_t>(file[56] | file[57] << 8);
  if (segments_at > file_bytes || segments > (file_bytes - segments_at) / segment_bytes) return;
  uint64_t table_bytes = 0;
  bool has_code = false;
  for (uint64_t i = 0; i < segments; ++i) {
    const uint8_t* segment = file + segments_at + i * segment_bytes;
    const uint64_t offset = u64(segment + 8), address = u64(segment + 16);
    const uint64_t bytes = u64(segment + 32);
    if (u32(segment) == load && (u32(segment + 4) & 1) != 0 && code_offset >= (offset & ~4095ul) &&
        code_offset < offset + bytes) {
      code_address_ = address - offset + code_offset;
      has_code = true;
    } else if (u32(segment) == note && offset <= file_bytes && bytes <= file_bytes - offset) {
      is_of_go_ |= has_note_of_go(file + offset, bytes);
    } else if (u32(segment) == exceptions) {
      header_ = offset;
      header_address_ = address;
      table_bytes = bytes;
    }
  }
  if (!has_code || table_bytes < 12 || header_ > file_bytes || table_bytes > file_bytes - header_) {
    return;
  }
  const uint8_t* header = file + header_;
  if (header[0] != 1 || header[1] != 0x1b || header[2] != 0x03 || header[3] != 0x3b) return;
  file_ = file;
  file_bytes_ = file_bytes;
  entries_ = u32(header + 8);
  if (entries_ > (table_bytes - 12) / 8) entries_ = (table_bytes - 12) / 8;
}

bool Functions::find(uint64_t at, uint64_t& begin, uint64_t& end) const {
  if (file_ == nullptr) return false;
  const uint64_t address = code_address_ + at;
  const auto* entries = file_ + header_ + 12;
  uint64_t low = 0, high = entries_;  // the last one that begins at or before it
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (header_address_ + distance(entries + middle * 8) <= address) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == 0) return false;
  const uint8_t* entry = entries + (low - 1) * 8;
  const uint64_t first = header_address_ + distance(entry);
  // Both tables lie in one segment.
  const uint64_t described = header_ + distance(entry + 4);
  if (described > file_bytes_ || file_bytes_ - described < 16) return false;
  const uint8_t* description = file_ + described;
  const uint64_t description_address = header_address_ + distance(entry + 4);
  if (description_address + 8 + distance(description + 8) != first) return false;  // another coding
  const uint64_t bytes = u32(description + 12);
  if (address >= first + bytes || first < code_address_) return false;
  begin = first - code_address_;
  end = begin + bytes;
  return true;
}

}  // namespace penstock::trace::preload
