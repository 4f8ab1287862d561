#pragma once

// The tournament tree over the next items of sorted inputs.

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/bowtie/computations.h"

namespace penstock::bowtie {

// A loser tree. Leaves are the inputs, inner node i holds the loser of the match between the
// winners below it. When the winner has been written its input advances, and only the matches on
// its way to the root are played again.
//
// A match is mostly one comparison of two numbers, the prefixes of the keys, which lie in the
// nodes. Keys that have to be computed from an item are computed once for each, and kept.
class MergeTree {
 public:
  using Odd = decltype(MergeOptions::odd);
  MergeTree(Streams& streams, const items::Format& format, bool descending, Odd odd = {})
      : order_(format, descending),
        makes_keys_(format.keys != nullptr),
        odd_(std::move(odd)),
        losers_(streams.inputs()) {
    for (uint32_t i = 0; i < streams.inputs(); ++i) {
      leaves_.push_back({.reader = ItemReader(streams.input(i), format, streams.item_bytes_max()),
                         .key = LongText(streams),
                         .key_before = LongText(streams)});
    }
  }

  Status start() {
    for (Leaf& leaf : leaves_) {
      if (!leaf.reader.next()) {
        if (auto status = leaf.reader.status(); !status) return status;
      }
      seat(leaf);
      if (!leaf.has_room) return leaf.reader.no_room();
    }
    winner_ = build(1).leaf;
    return {};
  }
  bool done() const { return leaves_[winner_].reader.done(); }
  const ItemReader& winner() const { return leaves_[winner_].reader; }
  uint64_t prefix() const { return leaves_[winner_].prefix; }
  std::string_view key() const { return key_of(leaves_[winner_]); }
  const items::ItemOrder& order() const { return order_; }

  // Advances past the winner, which has been written. Errors: unsorted, or those of reading.
  Status next() {
    Leaf& leaf = leaves_[winner_];
    if (!advance(leaf)) {
      if (!leaf.has_room) return leaf.reader.no_room();
      if (auto status = leaf.reader.status(); !status) return status;
      return failure(ErrorCode::unsorted, "merge: it is not sorted",
                     fmt::format("input {}", winner_), "sort it first");
    }
    replay();
    return {};
  }

 private:
  struct Leaf {
    ItemReader reader;
    uint64_t prefix = 0;       // ~0 at the end
    LongText key, key_before;  // `key` only if makes_keys_
    bool has_room = true;      // for these
  };
  struct Player {
    uint64_t prefix;
    uint32_t leaf;
  };

  void seat(Leaf& leaf) const {
    if (leaf.reader.done()) {
      leaf.prefix = ~uint64_t{0};
      return;
    }
    const std::string_view item = leaf.reader.item();
    bool is_read = true;
    if (makes_keys_) {
      leaf.has_room = leaf.key.make(
          item.size(), [&](std::string& key) { is_read = order_.append_key(item, key); });
      leaf.prefix = order_.prefix_of_bytes(leaf.key.view());
    } else {
      leaf.prefix = order_.prefix(item);
    }
    if ((!is_read || !leaf.reader.is_even()) && odd_)
      odd_(static_cast<uint32_t>(&leaf - leaves_.data()), leaf.reader.lines(), item);
  }

  // REQUIRES: the keys are not numbers.
  std::string_view key_of(const Leaf& leaf) const {
    return makes_keys_ ? leaf.key.view() : items::key_of(order_.format(), leaf.reader.item());
  }
  int compare_keys(std::string_view a, std::string_view b) const {
    return order_.format().numeric() ? 0 : order_.compare_keys(a, b);
  }

  // Moves to the next item, or the end. Returns false if it is out of order, or after an error.
  bool advance(Leaf& leaf) const {
    const uint64_t before = leaf.prefix;
    if (!makes_keys_) {
      const std::string_view item = leaf.reader.item();
      if (leaf.reader.next_at_hand()) {
        leaf.prefix = order_.prefix(leaf.reader.item());
        const bool ascends =
            leaf.prefix > before ||
            (leaf.prefix == before && order_.compare_ties(item, leaf.reader.item()) <= 0);
        leaf.reader.leave_last();
        return ascends;
      }
      const std::string_view key = items::key_of(order_.format(), item);
      leaf.has_room = leaf.key_before.make(key.size(), [&](std::string& to) { to = key; });
      if (!leaf.has_room) return false;
    } else {
      leaf.key.swap(leaf.key_before);
    }
    leaf.reader.next();
    seat(leaf);
    if (!leaf.has_room) return false;
    if (leaf.reader.done()) return leaf.reader.status().has_value();
    const bool ascends =
        leaf.prefix > before ||
        (leaf.prefix == before && compare_keys(leaf.key_before.view(), key_of(leaf)) <= 0);
    leaf.key_before.leave();
    return ascends;
  }

  void replay() {
    Player contender{leaves_[winner_].prefix, winner_};
    for (size_t node = (leaves_.size() + winner_) / 2; node > 0; node /= 2) {
      Player& other = losers_[node];
      bool loses = other.prefix < contender.prefix;
      if (other.prefix == contender.prefix) [[unlikely]]
        loses = tie_before(other.leaf, contender.leaf);
      // The winner is unpredictable, so the two are swapped without a branch.
      const uint64_t mask = uint64_t{0} - uint64_t{loses};
      const uint64_t prefix = (other.prefix ^ contender.prefix) & mask;
      const uint32_t leaf = (other.leaf ^ contender.leaf) & static_cast<uint32_t>(mask);
      other = {other.prefix ^ prefix, other.leaf ^ leaf};
      contender = {contender.prefix ^ prefix, contender.leaf ^ leaf};
    }
    winner_ = contender.leaf;
  }

  // The winner below a node of the implicit tree whose leaves are nodes n to 2n - 1.
  Player build(size_t node) {
    if (node >= leaves_.size()) {
      const auto leaf = static_cast<uint32_t>(node - leaves_.size());
      return {leaves_[leaf].prefix, leaf};
    }
    const Player left = build(2 * node);
    const Player right = build(2 * node + 1);
    const bool left_wins = left.prefix != right.prefix ? left.prefix < right.prefix
                                                       : tie_before(left.leaf, right.leaf);
    losers_[node] = left_wins ? right : left;
    return left_wins ? left : right;
  }

  // Returns whether leaf `a` goes before `b`. REQUIRES: their prefixes are equal.
  bool tie_before(uint32_t a, uint32_t b) const {
    const Leaf& left = leaves_[a];
    const Leaf& right = leaves_[b];
    if (left.reader.done() || right.reader.done()) return !left.reader.done();
    const int order = compare_keys(key_of(left), key_of(right));
    return order != 0 ? order < 0 : a < b;
  }

  items::ItemOrder order_;
  const bool makes_keys_;
  const Odd odd_;
  std::vector<Leaf> leaves_;
  std::vector<Player> losers_;
  uint32_t winner_ = 0;
};

}  // namespace penstock::bowtie
