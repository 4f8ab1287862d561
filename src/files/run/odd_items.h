#pragma once

// Odd items of a run: those with key values that their order cannot read
// (items/keys/text/odd_value.h), and rows of CSV with more or fewer fields than the header. Each
// operation counts an item where it makes the item's key for the first time.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "items/items.h"

namespace penstock::files {

enum class OddKind : uint8_t { value, length };

// Items of one kind, of an input or of several, and the first of them.
struct FoundItems {
  uint64_t items = 0;
  uint64_t row = 0;        // number of the first; 0: not known
  std::string first = {};  // "row 3, column price: '$30' is no number and sorts as 0"
  std::string hint = {};
  std::string_view noun = {};
};
using FoundByInput = std::map<std::string, FoundItems>;
// Returns the items of all inputs together. The first is that of the first input that has one, in the
// order of `names`, and begins with the input's name.
FoundItems together(const FoundByInput& found, const std::vector<std::string>& names);
std::string notice_of_lengths(const FoundItems& found);

// Thread safety: any thread.
class OddItems {
 public:
  explicit OddItems(bool counts_lengths) : counts_lengths_(counts_lengths) {}

  // Adds `count` items of an input, of which `item` is the first. `row`: its number in the input,
  // 1-based with the header; 0: not known. REQUIRES: is_odd(kind, format, item).
  void add(OddKind kind, const std::string& input, uint64_t row, const items::Format& format,
           std::string_view item, uint64_t count = 1) EXCLUDES_LOCK(mutex_);
  // Adds an item to each kind that it is of.
  void note(const std::string& input, uint64_t row, const items::Format& format,
            std::string_view item) EXCLUDES_LOCK(mutex_);
  // Forgets the items of an input, which is read again.
  void forget(const std::string& input) EXCLUDES_LOCK(mutex_);
  // Returns a notice for each kind of which there are items.
  std::vector<std::string> notices(const std::vector<std::string>& inputs) EXCLUDES_LOCK(mutex_);

 private:
  FoundByInput& of(OddKind kind) REQUIRES_LOCK(mutex_) {
    return kind == OddKind::value ? values_ : lengths_;
  }

  const bool counts_lengths_;
  Mutex mutex_;
  FoundByInput values_ GUARDED_BY(mutex_);
  FoundByInput lengths_ GUARDED_BY(mutex_);
};

bool is_odd(OddKind kind, const items::Format& format, std::string_view item);

// Returns the beginning of a notice, "row 3, column price: '$30' is no number and sorts as 0", and
// the advice behind it. `row`: 0 if it is not known.
std::string describe(const items::OddValue& value, const items::Format& format, uint64_t row);
std::string hint_for(const items::OddValue& value, const items::Format& format, uint64_t row);

}  // namespace penstock::files
