#pragma once

// Groups in memory: for each key one entry, which holds the key and what was aggregated so far.
//
// Groups go to temporaries and come back as *partials*, which can be combined with other partials
// of their key as well as with items. Of fixed formats a partial is the key followed by the
// aggregates; of lines it is a line, so that the same readers serve. Of `distinct` it is the first
// item itself.
//
//   partial of numbers, kv64, records     key | count 8 | sum 8 or 16 | min 8 | max 8
//   partial of lines                      count as decimal digits | tab | line | newline
//
// (Each aggregate only if it was asked for; little-endian.) Sums of signed values are kept in 16
// bytes, because whether they overflow must not depend on the order in which partials meet; what
// comes out has 8. All other results are their partials.

#include <optional>
#include <string>
#include <string_view>

#include "os/memory.h"
#include "penstock/files.h"
#include "record/items.h"

namespace penstock::files {

using penstock::Aggregates;
using penstock::ValueField;

// Where what lies in items, partials and results. Thread safety: a value.
class GroupLayout {
 public:
  // Fails where the format has no such value, or nothing was asked for.
  static Result<GroupLayout> make(const record::Format& format, const Aggregates& aggregates);

  const record::Format& item_format() const { return item_; }
  const record::Format& partial_format() const { return partial_; }
  // Of the results: the key, and 8 bytes for count, sum, min and max in this order; of lines the
  // count in decimal digits, a tab, and the line.
  const record::Format& result_format() const { return result_; }
  const Aggregates& aggregates() const { return aggregates_; }
  bool lines() const { return !item_.fixed(); }

  std::string_view key_of_item(std::string_view item) const;
  std::string_view key_of_partial(std::string_view partial) const;
  // REQUIRES: there is a count.
  uint64_t count_of_partial(std::string_view partial) const;
  // Order of these is order of keys, up to ties that comparing the bytes decides. Of numbers there
  // are none.
  uint64_t prefix_of_key(std::string_view key) const;

 private:
  friend class GroupTable;
  friend void make_partial(const GroupLayout&, std::string_view, std::string&);
  friend Status append_result(const GroupLayout&, std::string_view, std::string&);

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
  void combine(Values& into, const Values& values) const;
  // Where a partial's aggregates begin.
  size_t aggregates_offset() const { return partial_.key_bytes; }

  record::Format item_;
  record::Format partial_;
  record::Format result_;
  Aggregates aggregates_;
  ValueField value_;
};

// Appends the result that a finished partial stands for. Errors: a sum does not fit 8 bytes.
Status append_result(const GroupLayout& layout, std::string_view partial, std::string& to);

// The partial of one item, in `to`.
void make_partial(const GroupLayout& layout, std::string_view item, std::string& to);

// Which of `buckets` a key goes to. Another level spreads the keys of one bucket evenly again.
uint32_t bucket_of(std::string_view key, uint32_t level, uint32_t buckets);

// Open addressing: a slot holds 32 bits of the hash and the place of an entry; entries lie one
// behind the other. Half of the slots stay free, so that probes are short, and so that sort() finds
// its memory there: two slots an entry are a pair of the key's first bytes and the place.
//
// Memory is taken from the system as entries come, and never more than was given.
//
// Thread safety: none. Invariants: no two entries have the same key; size() is at most half of the
// slots. What is shown of an entry is readable until the next one is shown, or anything is added.
class GroupTable {
 public:
  static Result<GroupTable> open(const GroupLayout& layout, uint64_t memory_bytes);

  // Whether so many partials (or items) of so many bytes in all fit, whatever their keys are.
  bool holds(uint64_t items, uint64_t bytes) const;
  // What so many would take.
  uint64_t bytes_for(uint64_t items, uint64_t bytes) const;
  uint64_t memory_bytes() const { return memory_bytes_; }

  enum class Added { combined, inserted, full };
  // `full`: nothing has changed. Errors: a sum of unsigned values that does not fit 8 bytes.
  Result<Added> add_item(std::string_view item) { return add<false>(item); }
  Result<Added> add_partial(std::string_view partial) { return add<true>(partial); }

  uint64_t size() const { return size_; }
  void clear();
  // Orders the entries by key; until clear(), nothing can be added.
  void sort();

  // Calls use(partial) for each, a Status; stops at the first error and returns it.
  template <class Use>
  Status for_each(Use use) {
    uint64_t place = 0;
    for (uint64_t i = 0; i < size_; ++i) {
      if (is_sorted_) place = pairs()[i].place;
      if (Status status = use(partial_at(place)); !status) return status;
      if (!is_sorted_) place += stride_at(place);
    }
    return {};
  }

 private:
  // In front of a line in an entry.
  struct LineHeader {
    uint64_t count;
    uint64_t bytes;
  };
  struct Pair {
    uint64_t prefix;
    uint64_t place;
  };

  explicit GroupTable(const GroupLayout& layout) : layout_(layout) {}
  uint64_t* slots() const { return reinterpret_cast<uint64_t*>(slots_.begin()); }
  Pair* pairs() const { return reinterpret_cast<Pair*>(slots_.begin()); }
  std::string_view key_at(uint64_t place) const;
  std::string_view partial_at(uint64_t place);
  uint64_t stride_at(uint64_t place) const;
  uint64_t stride_of(uint64_t text_bytes) const;
  template <bool from_partial>
  Result<Added> add(std::string_view item);
  template <bool from_partial>
  Status combine(uint64_t place, std::string_view item);
  template <bool from_partial>
  void write_entry(uint64_t place, std::string_view item);

  GroupLayout layout_;
  os::Reservation slots_;
  os::Reservation data_;
  uint64_t memory_bytes_ = 0;
  uint64_t slot_count_ = 0;
  uint64_t data_bytes_max_ = 0;
  uint64_t size_ = 0;
  uint64_t data_bytes_ = 0;
  bool is_sorted_ = false;
  std::string shown_;
};

}  // namespace penstock::files
