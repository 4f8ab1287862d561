#pragma once

// Groups in memory: for each key one entry, which holds the key and what was aggregated so far.
//
// Groups go to temporaries and come back as *partials*, which can be combined with other partials
// of their key as well as with items. Those of lines are drawn in group_lines.h. Those of fixed formats
// are the key followed by the aggregates, each only if it was asked for; of `distinct` the first item itself.
//
//   partial of numbers, kv64, records     key | count 8 | sum 8 or 16 | min 8 | max 8
//
// (Little-endian.) Sums of signed values are kept in 16 bytes, because whether they overflow must not
// depend on the order in which partials meet; what comes out has 8. All other results are their partials.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "files/ops/group/group_lines.h"
#include "items/items.h"
#include "os/memory.h"
#include "penstock/files.h"
#include "sorting/sort/item.h"

namespace penstock::files {

using penstock::ValueField;

// The places of keys, values and counts in items, partials and results. Thread safety: one thread; copies share the state of lines.
class GroupLayout {
 public:
  // Fails where the format has no such value, or nothing was asked for.
  static Result<GroupLayout> make(const items::Format& format, const Aggregates& aggregates,
                                  const GroupLinesOptions& lines = {});

  const items::Format& item_format() const { return item_; }
  const items::Format& partial_format() const { return partial_; }
  // A result: the key, and 8 bytes each for count, sum, min and max in this order; a line if the items are lines.
  const items::Format& result_format() const { return result_; }
  // nullptr: the items are of a fixed size.
  GroupLines* lines() const { return lines_.get(); }

  // The columns of rows of CSV that items need to have (bowtie::BatchReader).
  std::vector<size_t> columns() const { return lines_ ? lines_->columns() : std::vector<size_t>(); }
  // The key of item `i`: a part of it, or made in `room`.
  std::string_view key_of_item(const bowtie::Items& items, size_t i, std::string& room) const {
    return lines_ ? lines_->key_of_item(items, i, room)
                  : items[i].substr(item_.key_offset, item_.key_bytes);
  }
  std::string_view key_of_partial(std::string_view partial) const {
    return items::key_of(partial_, partial);
  }
  // Bytes that a partial has beside its key, and of lines the text that is shown; of a usual one all.
  uint64_t fixed_bytes() const;
  uint64_t usual_bytes() const;
  // REQUIRES: there is a count.
  uint64_t count_of_partial(std::string_view partial) const;
  // Order of these is order of keys, up to ties that comparing the bytes decides. Of numbers there
  // are none.
  uint64_t prefix_of_key(std::string_view key) const;

  // The partial of item `i`, in `to`. Errors of this, add_item() and join(): a sum of unsigned values does not fit
  // 8 bytes; those of GroupLines.
  Status make_partial(const bowtie::Items& items, size_t i, std::string_view key,
                      std::string& to) const;
  // An item, or a partial, of the same key joins a partial. False, and nothing has changed: the partial is too narrow
  // (GroupLines::widen()).
  Result<bool> add_item(char* partial, const bowtie::Items& items, size_t i) const;
  Result<bool> add_partial(char* partial, std::string_view other) const;
  Status join(std::string& partial, std::string_view other) const;
  // Appends the result that a finished partial stands for. Errors: a sum does not fit 8 bytes.
  Status append_result(std::string_view partial, std::string& to) const;

 private:
  // What is aggregated of a key. The sum holds 64-bit values of either sign.
  struct Values {
    uint64_t count = 0;
    __int128_t sum = 0;
    uint64_t min = 0;
    uint64_t max = 0;
  };
  bool sum_is_wide() const { return value_.is_signed; }
  uint64_t value_of_item(std::string_view item) const;
  Values values_of_item(std::string_view item) const;
  Values values_of_partial(const char* aggregates) const;
  void write_values(const Values& values, char* aggregates) const;
  Result<bool> combine(char* partial, const Values& values) const;
  // Where a partial's aggregates begin.
  size_t aggregates_offset() const { return partial_.key_bytes; }

  items::Format item_;
  items::Format partial_;
  items::Format result_;
  Aggregates aggregates_;
  ValueField value_;
  std::shared_ptr<GroupLines> lines_;
};

// Which of `buckets` a key goes to. Another level spreads the keys of one bucket evenly again.
uint32_t bucket_of(std::string_view key, uint32_t level, uint32_t buckets);

// Open addressing: a slot holds 32 bits of the hash and the place of a partial; partials lie one
// behind the other. Half of the slots stay free, so that probes are short, and so that sort() finds
// its memory there: two slots a partial are a pair of eight bytes of the key and the place.
//
// A place in a large table is in no cache. So many items are looked up before the first of them is added: meanwhile
// their slots, and then the partials to which these lead, are on their way from memory.
//
// A partial that is too narrow for its sums (group_lines.h) is written once more, wide, and the narrow one is dead.
//
// Memory is taken from the system as partials come, and never more than was given.
//
// Thread safety: none. Invariants: no two partials have the same key; size() is at most half of the
// slots.
class GroupTable {
 public:
  // `sorts`: what sort() takes beside the table is taken off its memory.
  static Result<GroupTable> open(const GroupLayout& layout, uint64_t memory_bytes,
                                 bool sorts = false);

  // Whether so many partials of so many bytes in all fit, whatever their keys are.
  bool holds(uint64_t items, uint64_t bytes) const;
  // What so many would take.
  uint64_t bytes_for(uint64_t items, uint64_t bytes) const;
  uint64_t memory_bytes() const { return memory_bytes_; }

  enum class Kind { item, partial };
  enum class Added { combined, inserted, full };
  // Looks up items, or partials, from number `first` on, and returns how many. They stay readable while they are added.
  size_t look_up(const bowtie::Items& items, size_t first, Kind kind);
  // Adds number `i` of those that were looked up. `full`: nothing has changed. Errors: those of the layout.
  Result<Added> add(size_t i);
  // The partial of number `i`, which is not added then. Readable until the next call.
  Result<std::string_view> partial_of(size_t i);
  size_t item_bytes(size_t i) const { return (*items_)[first_ + i].size(); }

  uint64_t size() const { return size_; }
  void clear();
  // Orders the partials by key; until clear(), nothing can be added. Errors: out_of_memory.
  Status sort();

  // Calls use(partial) for each, a Status; stops at the first error and returns it.
  template <class Use>
  Status for_each(Use use) {
    uint64_t place = 0;
    for (uint64_t i = 0; i < size_; ++i) {
      if (is_sorted_) {
        place = pairs()[i].value;
        if (i + looked_up_max < size_) prefetch(pairs()[i + looked_up_max].value);
      }
      while (is_dead(place)) place += stride_of(partial_at(place).size());
      const std::string_view partial = partial_at(place);
      if (Status status = use(partial); !status) return status;
      if (!is_sorted_) place += stride_of(partial.size());
    }
    return {};
  }

 private:
  using Pair = sorting::KeyValue;  // its value: a place
  class Keys;

  explicit GroupTable(const GroupLayout& layout) : layout_(layout) {}
  uint64_t* slots() const { return reinterpret_cast<uint64_t*>(slots_.begin()); }
  Pair* pairs() const { return reinterpret_cast<Pair*>(slots_.begin()); }
  std::string_view partial_at(uint64_t place) const;
  std::string_view key_at(uint64_t place) const {
    return layout_.key_of_partial(partial_at(place));
  }
  static uint64_t stride_of(uint64_t partial_bytes);

  // All that a look finds is in the cache: nothing is won by a prefetch.
  bool is_small() const { return size_ < 4096; }
  static constexpr size_t looked_up_max = 32;

  struct Keyed {
    std::string_view key;
    uint64_t hash = 0;
    std::string room;  // of a key that is made
  };
  // From `slot` on the first one that is free, or has the tag of a hash.
  uint64_t find_slot(uint64_t hash, uint64_t slot) const;
  uint64_t first_slot(uint64_t hash) const;
  uint64_t place_at(uint64_t slot) const;
  // A usual partial may lie across two cache lines.
  void prefetch(uint64_t place) const {
    __builtin_prefetch(data_.begin() + place, 1);
    __builtin_prefetch(data_.begin() + place + layout_.usual_bytes() - 1, 1);
  }
  // The partial there was written once more.
  bool is_dead(uint64_t place) const;
  // Writes a partial behind the others, for this slot. False: it has no room.
  bool append(std::string_view partial, uint64_t hash, uint64_t slot);
  Result<Added> combine(size_t i, uint64_t slot);

  GroupLayout layout_;
  os::Reservation slots_;
  os::Reservation data_;
  uint64_t memory_bytes_ = 0;
  uint64_t slot_count_ = 0;
  uint64_t data_bytes_max_ = 0;
  uint64_t size_ = 0;
  uint64_t data_bytes_ = 0;
  bool is_sorted_ = false;
  uint64_t sort_bytes_ = 0;
  const bowtie::Items* items_ = nullptr;  // those that were looked up, from first_ on
  size_t first_ = 0;
  Kind kind_ = Kind::item;
  std::unique_ptr<Keyed[]> keyed_ = std::make_unique<Keyed[]>(looked_up_max);
  std::string made_;
};

}  // namespace penstock::files
