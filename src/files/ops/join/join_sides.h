#pragma once

// The merge-join of two or more sides of any format. All sides are read in step: those with the
// least key advance, and the product of their groups, the items with this key, is written.
//
// All groups but one have to be held, because each item of that one meets all of them. The first
// group passes by, the others are held as they are read. If one of these exceeds its room, it passes
// by instead, and the first one is held: the product of all groups with the items held so far is
// written, these are released, and from there on each further item meets all others as it is read.
// So only a key that is too frequent on two sides is an error; its product is seldom wanted.
//
// When one side has ended no more matches may follow, but the others are read to their ends: an
// unsorted side may have missed matches, and only reading it to the end finds that out.

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/bowtie/computations.h"
#include "files/run/odd_items.h"
#include "items/items.h"

namespace penstock::files {

// The beginning of a side.
struct SideHead {
  const items::Format& format;
  std::string_view header;                // the head with its line ends; empty if there is none
  std::optional<std::string_view> first;  // the first item; empty if there is none
};

// One sorted input. Invariant: until done(), item(), prefix() and key() belong to the present item.
// Thread safety: one thread.
class JoinSide {
 public:
  // Without an `input` the side is empty but for `header`, the head that was removed from it.
  // `name`: for messages. `odd_items`: count the side's; nullptr: they are not counted. `is_checked`:
  // the input is a sorted copy, whose items and order need no check.
  JoinSide(bowtie::Streams& streams, std::optional<uint32_t> input, const items::Format& format,
           bool descending, std::string header = {}, std::string name = {},
           OddItems* odd_items = nullptr, bool is_checked = false);

  // Moves to the first item.
  Status start();
  Status next();
  Status go_to_end();

  bool done() const { return done_; }
  uint64_t prefix() const { return prefix_; }
  std::string_view item() const { return reader_->item(); }
  // The bytes of the key; empty for a number, whose key is the prefix.
  std::string_view key() const { return key_.view(); }
  const items::ItemOrder& order() const { return order_; }
  bowtie::Streams& streams() const { return streams_; }
  // The error of an item whose key has no room in memory.
  Status no_room() const { return reader_->no_room(); }
  const items::Format& format() const { return order_.format(); }
  // The head of the input with its line ends; empty if there is none.
  const std::string& header() const { return header_; }
  SideHead head() const;

 private:
  bowtie::Streams& streams_;
  std::optional<uint32_t> input_;
  std::optional<bowtie::ItemReader> reader_;  // from start() on, if there is an input
  const std::string name_;
  std::string subject_;  // for messages
  OddItems* odd_items_;
  bool is_checked_;
  items::ItemOrder order_;
  std::string header_;
  bool done_ = false;
  uint64_t items_ = 0;  // items up to the present one
  uint64_t lines_ = 0;  // lines up to its end, with the head's
  uint64_t line_ = 0;   // line on which it begins
  uint64_t prefix_ = 0;
  bowtie::LongText key_, key_before_;
};

std::vector<SideHead> heads_of(const std::vector<JoinSide>& sides);

// One item of each side; nullopt if the side has none with the key.
using JoinRow = std::span<const std::optional<std::string_view>>;

// The keys whose rows are written. The default is the inner join.
struct JoinKinds {
  bool pairs = true;               // keys that all sides have
  std::array<bool, 2> alone = {};  // other keys: those of the first side, and those of other sides
  // Writes each chosen item of the first side once, without the others; `alone` then are keys that no
  // other side has.
  bool first_only = false;

  // Returns whether a key is wanted that `present` of `sides` have, the first one or not.
  bool wants(bool has_first, size_t present, size_t sides) const {
    if (present == sides) return pairs;
    return alone[has_first ? 0 : 1] && !(first_only && (present > 1 || !has_first));
  }
  // Returns whether a key may be wanted that `present` sides have, and any of `unread` others.
  // `has_first`: nullopt if the first side is one of the others.
  bool may_want(std::optional<bool> has_first, size_t present, size_t unread, size_t sides) const {
    for (size_t all = std::max<size_t>(present, 1); all <= present + unread; ++all) {
      for (const bool first : {false, true}) {
        const bool can_be = has_first ? first == *has_first
                            : first   ? all > present
                                      : all < present + unread;
        if (can_be && wants(first, all, sides)) return true;
      }
    }
    return false;
  }
};

// Receives the rows of a join.
class JoinWriter {
 public:
  virtual ~JoinWriter() = default;

  // Called before the first row, when the sides know their headers.
  virtual Status begin(const std::vector<SideHead>& /*sides*/) { return {}; }
  // The part of an item, of another side than the first one, that is held and written beside the
  // first side's. Readable until the next call.
  virtual std::string_view piece_of(const JoinSide& side) { return side.item(); }
  virtual Status write(JoinRow row) = 0;
  // Called after the last row, or after an error of the sides: rows before it may have an error of
  // their own.
  virtual Status end() { return {}; }
};

struct JoinRoom {
  uint64_t bytes_max = 0;    // the most bytes of one key that each side may hold
  bool equal_sizes = false;  // all pieces that a side holds have the same size
};

// Joins the sides. REQUIRES: all have been started.
Status join_sides(std::vector<JoinSide>& sides, JoinWriter& writer, const JoinKinds& kinds,
                  const JoinRoom& room);

}  // namespace penstock::files
