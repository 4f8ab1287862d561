#pragma once

// Walks over the items of one piece in order: for checking, and for what looks at single items.

#include <algorithm>
#include <string_view>

#include "files/run/input.h"
#include "items/items.h"

namespace penstock::files {

// The error of a row that breaks the rules. `place`: "line 3, row 2"; `offset`: where the row begins.
std::unexpected<Error> bad_row(const items::Format& format, const std::string& file,
                               const std::string& place, uint64_t offset,
                               const items::ItemFault& fault);

// Thread safety: one thread. Invariant: while !done(), item() is whole and readable, and prefix() is
// its place in the order, up to ties.
class Cursor {
 public:
  // An item that is longer than the reader's blocks is an error. `name` of the piece, for messages.
  Cursor(const items::ItemOrder& order, std::string name, std::shared_ptr<PieceReader> reader)
      : order_(order),
        name_(std::move(name)),
        reader_(std::move(reader)),
        block_bytes_(reader_->block_bytes()),
        at_(reader_->begin()),
        end_(at_),
        lines_(std::max<uint64_t>(reader_->head_lines(), order_.format().header_lines)) {}

  // Goes to the first or next item. False: done, or an error that status() tells.
  bool next();
  bool done() const { return done_; }
  Status status() const;

  std::string_view item() const { return item_; }
  // Only of the last item of a file: what ends a line is not there.
  bool lacks_newline() const { return lacks_newline_; }
  items::Place place() const {
    return {.line = line_, .row = order_.format().header_lines + items_};
  }
  uint64_t prefix() const { return prefix_; }

 private:
  bool find_item();

  items::ItemOrder order_;
  std::string name_;
  std::shared_ptr<PieceReader> reader_;
  size_t block_bytes_;
  const std::byte* at_;   // the next item
  const std::byte* end_;  // what is known to be readable
  std::string_view item_;
  uint64_t prefix_ = 0;
  uint64_t items_ = 0;  // that were passed
  uint64_t lines_;      // of them, and of the head
  uint64_t line_ = 0;   // where the present item begins
  std::optional<items::ItemFault> fault_;
  bool lacks_newline_ = false;
  bool done_ = false;
  bool too_long_ = false;
  bool cut_off_ = false;
};

}  // namespace penstock::files
