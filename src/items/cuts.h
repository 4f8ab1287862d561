#pragma once

// Cuts of a range of keys: the places where one part ends and the next one begins.

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
  // `positions`, one for each key, separate items of equal keys: an item with the key of a cut lies
  // in front of it if its position is smaller. Without positions all such items lie behind the cut.
  // REQUIRES: the keys are in order.
  Cuts(const ItemOrder& order, std::vector<ItemKey> keys, std::vector<uint64_t> positions = {});

  const ItemOrder& order() const { return order_; }
  uint32_t parts() const { return static_cast<uint32_t>(prefixes_.size()) + 1; }

  // Returns the part of a key. REQUIRES: keys are bytes.
  uint32_t part_of(std::string_view key, uint64_t position = 0) const;
  // Returns whether a part ends in front of the successor of its first key. REQUIRES: keys are
  // bytes, in ascending order.
  bool holds_one_key(uint32_t part) const;
  // Stores the parts of `count` consecutive numbers, the first of which has `position`. REQUIRES:
  // keys are numbers.
  void parts_of(const std::byte* numbers, size_t count, uint64_t position, uint32_t* parts) const;

 private:
  template <size_t count>
  void search(const uint64_t* prefixes, size_t* cuts) const;
  size_t pass_equals(size_t cut, uint64_t prefix, std::string_view rest, uint64_t position) const;
  uint8_t length_of(std::string_view rest) const;

  ItemOrder order_;
  std::string common_;  // prefix that all keys share
  std::vector<std::string> rests_;
  std::vector<uint64_t> prefixes_;  // prefixes of rests_, or numbers
  std::vector<uint8_t> lengths_;    // length_of() each rest
  std::vector<uint64_t> positions_;
};

}  // namespace penstock::items
