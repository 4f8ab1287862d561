#pragma once

// An order of items by made keys: each item gets one string of bytes, and the order of these
// strings, byte by byte, is the order of the items.
//
// So everything that sorts strings sorts such items: eight bytes of a key travel with an item,
// common prefixes are skipped, and no comparison looks at fields or digits.

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "items/framing/framing.h"
#include "items/keys/text/odd_value.h"

namespace penstock::items {

// Thread safety: immutable.
class KeyOrder {
 public:
  virtual ~KeyOrder() = default;

  // Appends the item's key. `item` lacks its line end. Returns false if the item may have an odd
  // value, which find_odd_value() finds out.
  virtual bool append(std::string_view item, std::string& to) const = 0;
  // Looks for a fault of the item, too, and appends the key if there is none. Returns false, and does
  // nothing, if the rules of the item's format do not concern its keys.
  virtual bool append_checked(std::string_view /*item*/, std::string& /*to*/, bool& /*is_read*/,
                              std::optional<ItemFault>& /*fault*/) const {
    return false;
  }
  // Finds the first value that its key cannot read, if such values cause a notice. Only a
  // `described` one has more than its text.
  virtual std::optional<OddValue> find_odd_value(std::string_view /*item*/,
                                                 bool /*described*/) const {
    return {};
  }
  // Returns a name of the order, which a resumed sort compares.
  const std::string& name() const { return name_; }
  // Returns whether items of equal keys are equal, byte by byte.
  bool is_total() const { return is_total_; }

 protected:
  KeyOrder(std::string name, bool is_total) : name_(std::move(name)), is_total_(is_total) {}

 private:
  std::string name_;
  bool is_total_;
};

}  // namespace penstock::items
