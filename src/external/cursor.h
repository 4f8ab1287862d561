#pragma once

// Walks over the items of one piece in order: for checking, and for what looks at single items.

#include <string_view>

#include "external/context.h"
#include "external/input.h"

namespace penstock::external {

// Thread safety: one thread. Invariant: while !done(), item() is whole and readable, and key() is
// its place in the order (numbers: all of it; others: up to ties, which compare() decides).
class Cursor {
 public:
  // An item that is longer than the reader's blocks is an error. `name` of the piece, for messages.
  Cursor(const SortOptions& options, std::string name, std::shared_ptr<PieceReader> reader)
      : options_(options),
        name_(std::move(name)),
        reader_(std::move(reader)),
        block_bytes_(reader_->block_bytes()),
        at_(reader_->begin()),
        end_(at_) {}

  // Goes to the first or next item. False: done, or an error that status() tells.
  bool next();
  bool done() const { return done_; }
  Status status() const;

  std::string_view item() const { return item_; }
  // Only of the last item of a file: the newline is not there.
  bool lacks_newline() const { return lacks_newline_; }
  uint64_t key() const { return key_; }
  std::string_view full_key() const;

  // Below 0, 0 or above: the order of two items of one format, with the options' direction.
  static int compare(const SortOptions& options, uint64_t key_a, std::string_view full_a,
                     uint64_t key_b, std::string_view full_b);

 private:
  bool find_item();

  const SortOptions& options_;
  std::string name_;
  std::shared_ptr<PieceReader> reader_;
  size_t block_bytes_;
  const std::byte* at_;   // the next item
  const std::byte* end_;  // what is known to be readable
  std::string_view item_;
  uint64_t key_ = 0;
  bool lacks_newline_ = false;
  bool done_ = false;
  bool too_long_ = false;
  bool cut_off_ = false;
};

// An item that a cursor has passed, kept because its block may be gone: to find disorder and
// repeats.
class LastItem {
 public:
  bool any() const { return any_; }
  void set(const Cursor& cursor) {
    key_ = cursor.key();
    full_.assign(cursor.full_key());
    any_ = true;
  }
  int compare(const SortOptions& options, const Cursor& cursor) const {
    return Cursor::compare(options, key_, full_, cursor.key(), cursor.full_key());
  }

 private:
  uint64_t key_ = 0;
  std::string full_;
  bool any_ = false;
};

}  // namespace penstock::external
