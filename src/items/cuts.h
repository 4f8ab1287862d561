#pragma once

// The cuts of a range of keys: where one part ends and the next one begins.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "items/items.h"

namespace penstock::items {

// Cuts in order: part i begins with cut i - 1 and ends in front of cut i.
//
// Thread safety: as a const object from any thread.
class Cuts {
 public:
  // REQUIRES: the keys are in order. `positions`, one for each key, tell items of equal keys apart: of items with the
  // key of a cut, those of smaller positions lie in front of it. Without positions all of them lie behind it.
  Cuts(const ItemOrder& order, std::vector<ItemKey> keys, std::vector<uint64_t> positions = {});

  const ItemOrder& order() const { return order_; }
  uint32_t parts() const { return static_cast<uint32_t>(prefixes_.size()) + 1; }

  // The part of a key that is bytes. REQUIRES: the order's keys are.
  uint32_t part_of(std::string_view key, uint64_t position = 0) const;
  // Whether a part ends in front of the successor of the key with which it begins. REQUIRES: the order's keys are bytes,
  // in ascending order.
  bool holds_one_key(uint32_t part) const;
  // The parts of numbers that stand one behind the other, the first of them at `position`. REQUIRES: the order's keys
  // are numbers.
  void parts_of(const std::byte* numbers, size_t count, uint64_t position, uint32_t* parts) const;

 private:
  template <size_t count>
  void search(const uint64_t* prefixes, size_t* cuts) const;
  size_t pass_equals(size_t cut, uint64_t prefix, std::string_view rest, uint64_t position) const;
  uint8_t length_of(std::string_view rest) const;

  ItemOrder order_;
  std::string common_;  // the beginning of all texts
  std::vector<std::string> rests_;
  std::vector<uint64_t> prefixes_;  // of the rests, or the numbers
  std::vector<uint8_t> lengths_;    // of the rests, see length_of()
  std::vector<uint64_t> positions_;
};

}  // namespace penstock::items
