#pragma once

// Items of a run with key values that their order cannot read (items/keys/text/odd_value.h). Each
// operation counts an item where it makes the item's key for the first time.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "items/items.h"

namespace penstock::files {

// Thread safety: any thread.
class OddValues {
 public:
  // Adds `count` items of an input, of which `item` is the first. `row`: its number in the input,
  // 1-based with the header; 0: not known. REQUIRES: has_odd_value(format, item).
  void add(const std::string& input, uint64_t row, const items::Format& format,
           std::string_view item, uint64_t count = 1) EXCLUDES_LOCK(mutex_);
  // Forgets the items of an input, which is read again.
  void forget(const std::string& input) EXCLUDES_LOCK(mutex_);
  // Returns a notice, which is empty if there are no such items.
  std::string notice(const std::vector<std::string>& inputs) EXCLUDES_LOCK(mutex_);

 private:
  struct Input {
    uint64_t items = 0;
    uint64_t row = 0;
    std::string first = {};  // "row 3, column price: '$30' is no number and sorts as 0"
    std::string hint = {};
    std::string_view noun = {};
  };

  Mutex mutex_;
  std::map<std::string, Input> inputs_ GUARDED_BY(mutex_);
};

inline bool has_odd_value(const items::Format& format, std::string_view item) {
  return format.keys != nullptr &&
         format.keys->find_odd_value(items::without_line_end(format, item), false).has_value();
}

// Returns the beginning of a notice, "row 3, column price: '$30' is no number and sorts as 0", and
// the advice behind it. `row`: 0 if it is not known.
std::string describe(const items::OddValue& value, const items::Format& format, uint64_t row);
std::string hint_for(const items::OddValue& value, const items::Format& format, uint64_t row);

}  // namespace penstock::files
