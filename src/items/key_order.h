#pragma once

// The order of items by keys that are made for each: one string of bytes, such that the order of
// these strings, byte by byte, is the order of the items.
//
// So everything that orders strings orders what they stand for: eight bytes of a key travel with an
// item, what several have in common is skipped, and no comparison ever looks at fields or digits.

#include <string>
#include <string_view>
#include <utility>

namespace penstock::items {

// Thread safety: immutable.
class KeyOrder {
 public:
  virtual ~KeyOrder() = default;

  // Appends the item's key. `item` comes without what ends it.
  virtual void append(std::string_view item, std::string& to) const = 0;
  // Which order it is: a sort that is resumed must find the same.
  const std::string& name() const { return name_; }
  // Items of equal keys are equal, byte by byte.
  bool is_total() const { return is_total_; }

 protected:
  KeyOrder(std::string name, bool is_total) : name_(std::move(name)), is_total_(is_total) {}

 private:
  std::string name_;
  bool is_total_;
};

}  // namespace penstock::items
