#pragma once

// Items cut out of a text that comes in pieces, in order: one mechanism, with one limit, for
// whatever reads items as their bytes arrive (ItemReader), leaves rows out (BadRows) or changes them
// (RowFilter). A caller decides where an item ends, as each has another reader of rows.
//
//   text  [ taken | text() | room() ]
//
// items::Checker has its own: it begins inside an item, is joined with other parts, and reads its
// caller's memory in place. The streams of a pass (bowtie::ItemReader, Cursor) have no need of it,
// because their bytes lie one after the other at an address.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/run_scope.h"
#include "items/items.h"
#include "os/memory.h"
#include "penstock/files.h"

namespace penstock::files {

// The longest item if `at_once` inputs are read at once: a sixteenth of the memory for all of them,
// and a quarter of that if their rows pass two filters.
uint64_t cut_bytes_max(const penstock::FilesOptions& options, size_t at_once);

// Thread safety: one thread. Memory: that of the longest item so far and a piece, memory_bytes() at
// most; the run is charged for it.
//
// Invariants: the bytes that came are dropped ones, taken(), and text(), in this order. Taken bytes
// are whole items. An item of `item_bytes_max` bytes and its line end find room, and not a byte more.
// The ends of items are looked for in at most three times the bytes of the text.
class ItemCutter {
 public:
  // An item of more than `item_bytes_max` bytes without its line end is an error. REQUIRES: `format`, which may change
  // between items, outlives the cutter.
  ItemCutter(const items::Format& format, uint64_t item_bytes_max)
      : format_(format), item_bytes_max_(item_bytes_max) {}

  static constexpr uint64_t memory_bytes(uint64_t item_bytes_max) {
    return item_bytes_max + 64 * KiB;
  }

  // Begins another text, of the input `name`. The text begins at the offset and place.
  void begin(std::string name, uint64_t offset = 0, items::Place place = {});

  // Returns room for the next bytes of the text: a piece, but not more than fit. Moves text().
  // Errors: out_of_memory if text() has more bytes than the longest item. REQUIRES: all taken bytes
  // were dropped.
  Result<std::span<std::byte>> room();
  // So many bytes were stored in the room.
  void add(size_t bytes) { end_ += bytes; }
  // No more text follows.
  void finish() { has_ended_ = true; }
  bool has_ended() const { return has_ended_; }

  // The bytes in which the next item begins.
  std::string_view text() const { return items::text_at(at(at_), end_ - at_); }
  // Returns whether text() has enough bytes for another search for the end of its first item: a
  // search in vain begins anew only when twice as many are there.
  bool is_due() const { return has_ended_ || end_ - at_ >= looks_from_ || is_full(); }
  // The first item does not end in text().
  void defer();
  // Returns whether text() is too long for one item.
  bool is_full() const { return end_ - at_ > item_bytes_max_; }

  // Takes the first `bytes` bytes of the text: an item, or a head (or a part) of `items` items.
  void take(size_t bytes, uint64_t items = 1);
  std::string_view taken() const { return items::text_at(at(begin_), at_ - begin_); }
  // Gives the last item of a text the line end that it lacks. REQUIRES: it was taken, and has_ended().
  void end_line() { *at(end_++) = std::byte(format_.line_end), at_ = end_; }
  // Drops the first `bytes` taken bytes.
  void drop(size_t bytes) { begin_ += bytes; }

  // The offset, place and input of text().
  uint64_t offset() const { return offset_; }
  const items::Place& place() const { return place_; }
  const std::string& name() const { return name_; }

 private:
  // Null at 0 before the first room().
  std::byte* at(size_t index) const { return buffer_.begin() + index; }
  std::unexpected<Error> too_long() const;

  const items::Format& format_;
  const uint64_t item_bytes_max_;
  std::string name_;
  // Invariant: room for the longest item, and two line ends.
  os::Reservation buffer_;
  MemoryCharge charge_{0};
  size_t touched_ = 0;  // bytes of the buffer
  size_t begin_ = 0, at_ = 0, end_ = 0;
  size_t looks_from_ = 0;
  bool has_ended_ = false;
  uint64_t offset_ = 0;
  items::Place place_;
};

}  // namespace penstock::files
