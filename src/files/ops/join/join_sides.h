#pragma once

// The merge-join of items of any format. Both sides are read in step: the side whose key comes
// first advances, and if the keys are equal the product of the two groups is written.
//
// One of the two groups has to be held, because each item of the other meets all of it. The right
// group is held as it is read. If it exceeds its room, the left group is held instead, if it fits:
// the product of all left items with the right ones held so far is written, these are released, and
// from there on each right item meets all left ones as it is read. So only a key that is too
// frequent on both sides is an error; its product is seldom wanted.
//
// When one side has ended no more pairs follow, but the other side is read to its end: an unsorted
// side may have missed pairs, and only reading it to the end finds that out.

#include <optional>
#include <string>

#include "files/bowtie/computations.h"
#include "items/items.h"

namespace penstock::files {

// One sorted input. Invariant: until done(), item(), prefix() and key() belong to the present item.
// Thread safety: one thread.
class JoinSide {
 public:
  // Without an `input` the side is empty but for `header`, the head that was removed from it.
  // `name`: for messages about a side without an input.
  JoinSide(bowtie::Streams& streams, std::optional<uint32_t> input, const items::Format& format,
           bool descending, std::string header = {}, std::string name = {});

  // Moves to the first item.
  Status start();
  Status next();
  Status go_to_end();

  bool done() const { return done_; }
  uint64_t prefix() const { return key_.prefix; }
  std::string_view item() const { return reader_->item(); }
  // The bytes of the key; empty for a number, whose key is the prefix.
  const std::string& key() const { return key_.bytes; }
  const items::ItemOrder& order() const { return order_; }
  const items::Format& format() const { return order_.format(); }
  // The head of the input with its line ends; empty if there is none.
  const std::string& header() const { return header_; }

 private:
  std::optional<bowtie::ItemReader> reader_;
  std::string subject_;  // for messages
  items::ItemOrder order_;
  std::string header_;
  bool done_ = false;
  uint64_t items_ = 0;  // items up to the present one
  uint64_t lines_ = 0;  // lines up to its end, with the head's
  uint64_t line_ = 0;   // line on which it begins
  items::ItemKey key_, key_before_;
};

// Receives the pairs and the items without a match.
class JoinWriter {
 public:
  virtual ~JoinWriter() = default;

  // Called before the first item, when the sides know their headers.
  virtual Status begin(const JoinSide& /*left*/, const JoinSide& /*right*/) { return {}; }
  // The part of a right item that is held and written beside a left one. Readable until the next
  // call.
  virtual std::string_view piece_of_right(const JoinSide& right) = 0;
  virtual Status pair(std::string_view left_item, std::string_view right_piece) = 0;
  virtual bool wants_pairs() const { return true; }
  // True if items without a match are wanted. `side`: 0 is the left one.
  virtual bool wants_alone(int /*side*/) const { return false; }
  virtual Status alone(int /*side*/, std::string_view /*item*/) { return {}; }
};

struct JoinRoom {
  uint64_t bytes_max = 0;    // the most bytes of one key that each side may hold
  bool equal_sizes = false;  // all pieces that a side holds have the same size
};

// Joins two sides. REQUIRES: both have been started.
Status join_sides(JoinSide& left, JoinSide& right, JoinWriter& writer, const JoinRoom& room);

}  // namespace penstock::files
