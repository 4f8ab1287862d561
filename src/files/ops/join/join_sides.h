#pragma once

// The merge-join, whatever its items are and whatever becomes of the pairs. Both sides are read in
// step: the one whose key comes first goes on, and where the keys are equal the product of the two
// groups is written.
//
// One of two groups has to be held, because the other is gone over once for each of its items. The
// right one is held as it is read; when it grows beyond its room, the left one is held instead, if
// that fits: the product of all left items with the right ones held so far is written, these are
// let go, and from there on each right item meets all left ones as it comes. So only a key that is
// too frequent on both sides at once is an error; its product would seldom be what anybody wants.
//
// Where one side has ended no more pairs come, but the other is read to its end: pairs may have
// been missed because it is not in order, and only its end tells.

#include <optional>
#include <string>

#include "files/bowtie/computations.h"
#include "items/items.h"

namespace penstock::files {

// One sorted input. Invariant: until done() item(), prefix() and key() are of the present item.
// Thread safety: one thread.
class JoinSide {
 public:
  // Without an `input` the side holds nothing but `header`, the head that was taken off it. `name`: for
  // messages that no input's number is known for.
  JoinSide(bowtie::Streams& streams, std::optional<uint32_t> input, const items::Format& format,
           bool descending, std::string header = {}, std::string name = {});

  // Goes to the first item.
  Status start();
  Status next();
  Status go_to_end();

  bool done() const { return done_; }
  uint64_t prefix() const { return key_.prefix; }
  std::string_view item() const { return reader_->item(); }
  // The bytes by which it is ordered; of a number none, which is all in the prefix.
  const std::string& key() const { return key_.bytes; }
  const items::ItemOrder& order() const { return order_; }
  const items::Format& format() const { return order_.format(); }
  // The head of the input; its lines have their ends. Empty: there is none.
  const std::string& header() const { return header_; }

 private:
  std::optional<bowtie::ItemReader> reader_;
  std::string subject_;  // for messages
  items::ItemOrder order_;
  std::string header_;
  bool done_ = false;
  uint64_t items_ = 0;  // up to the present one
  uint64_t lines_ = 0;  // up to its end, the head's counted
  uint64_t line_ = 0;   // where it begins
  items::ItemKey key_, key_before_;
};

// What becomes of the items.
class JoinWriter {
 public:
  virtual ~JoinWriter() = default;

  // Before the first item, when the sides know their headers.
  virtual Status begin(const JoinSide& /*left*/, const JoinSide& /*right*/) { return {}; }
  // What is held of a right item, and written beside a left one. Readable until the next call.
  virtual std::string_view piece_of_right(const JoinSide& right) = 0;
  virtual Status pair(std::string_view left_item, std::string_view right_piece) = 0;
  virtual bool wants_pairs() const { return true; }
  // An item that has no other. 0: of the left side.
  virtual bool wants_alone(int /*side*/) const { return false; }
  virtual Status alone(int /*side*/, std::string_view /*item*/) { return {}; }
};

struct JoinRoom {
  uint64_t bytes_max = 0;    // of what may be held of a key, for each side
  bool equal_sizes = false;  // of what is held of a side
};

// Both have been started.
Status join_sides(JoinSide& left, JoinSide& right, JoinWriter& writer, const JoinRoom& room);

}  // namespace penstock::files
