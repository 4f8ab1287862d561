#pragma once

// Walks over the items of one piece in order: for checks, and for readers of single items.

#include <algorithm>
#include <string_view>

#include "files/run/input.h"
#include "files/run/odd_items.h"
#include "items/items.h"

namespace penstock::files {

// Thread safety: one thread. Invariant: while !done(), item() is whole and readable, and prefix() is
// its place in the order, up to ties.
class Cursor {
 public:
  // An item of more than so many of the reader's blocks is an error. `name`: the piece's, for
  // messages. REQUIRES: the reader has as many comeback blocks.
  Cursor(const items::ItemOrder& order, std::string name, std::shared_ptr<PieceReader> reader,
         uint32_t item_blocks_max = 1)
      : order_(order),
        name_(std::move(name)),
        reader_(std::move(reader)),
        item_bytes_max_(reader_->block_bytes() * item_blocks_max),
        at_(reader_->begin()),
        end_(at_),
        lines_(std::max<uint64_t>(reader_->head_lines(), order_.format().header_lines)) {}

  // Moves to the first or next item. Returns false at the end, or on an error (status()).
  bool next();
  bool done() const { return done_; }
  Status status() const;

  std::string_view item() const { return item_; }
  // True if the item is the last line of a file and lacks its end.
  bool lacks_newline() const { return lacks_newline_; }
  items::Place place() const {
    return {.line = line_, .row = order_.format().header_lines + items_};
  }
  uint64_t prefix() const { return prefix_; }
  // Adds the item to them if it is odd. nullptr: does nothing.
  void count_odd(OddItems* odd) const {
    if (odd != nullptr && may_be_odd_) odd->note(name_, place().row, order_.format(), item_);
  }

 private:
  bool find_item();

  items::ItemOrder order_;
  std::string name_;
  std::shared_ptr<PieceReader> reader_;
  size_t item_bytes_max_;
  const std::byte* at_;   // the next item
  const std::byte* end_;  // end of the bytes that are readable
  std::string_view item_;
  uint64_t prefix_ = 0;
  bool may_be_odd_ = false;
  uint64_t items_ = 0;  // items passed so far
  uint64_t lines_;      // lines of these items and of the head
  uint64_t line_ = 0;   // line on which the present item begins
  std::optional<items::ItemFault> fault_;
  bool lacks_newline_ = false;
  bool done_ = false;
  bool too_long_ = false;
  bool cut_off_ = false;
};

}  // namespace penstock::files
