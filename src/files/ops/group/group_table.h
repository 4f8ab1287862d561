#pragma once

// Groups in memory: one entry for each key, with the key and its aggregates so far.
//
// An entry is a *partial*. Partials can be written to temporaries and read back, and be combined
// with items and with other partials of their key. group_lines.h draws the partials of lines. Those
// of fixed formats are the key followed by the requested aggregates; with `distinct` the first item
// itself.
//
//   partial of numbers, kv64, records     key | count 8 | sum 8 or 16 | min 8 | max 8
//
// (Little-endian.) Sums of signed values take 16 bytes, because the order in which partials meet
// must not decide whether they overflow; results have 8. All other results equal their partials.

#include <array>
#include <atomic>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/ops/group/group_lines.h"
#include "items/items.h"
#include "os/memory.h"
#include "penstock/files.h"
#include "sorting/sort/item.h"

namespace penstock::files {

using penstock::ValueField;

// The layout of keys, values and counts in items, partials and results. Thread safety: one thread,
// as copies share the state of lines; keys and results, which change nothing, any thread.
class GroupLayout {
 public:
  // Fails if the format has no such value, or no aggregate is requested.
  static Result<GroupLayout> make(const items::Format& format, const Aggregates& aggregates,
                                  const GroupLinesOptions& lines = {});

  // A copy with a state of its own.
  GroupLayout clone() const;

  const items::Format& item_format() const { return item_; }
  // Sets the number of fields that each row must have, when the header is known.
  void set_row_fields(size_t fields) { item_.row_fields = fields; }
  const items::Format& partial_format() const { return partial_; }
  // A result: the key, and 8 bytes each for count, sum, min and max in this order; a line if the
  // items are lines.
  const items::Format& result_format() const { return result_; }
  // nullptr if items have a fixed size.
  GroupLines* lines() const { return lines_.get(); }

  // The columns that rows of CSV need to be indexed by (bowtie::BatchReader).
  std::vector<size_t> columns() const { return lines_ ? lines_->columns() : std::vector<size_t>(); }
  // The partials that an item becomes: one, or more with values (group_values.h).
  size_t entries() const { return lines_ ? lines_->entries() : 1; }
  // The key of an entry of item `i`: a part of the item, or made in `scratch`; empty if there is
  // none.
  std::optional<std::string_view> key_of_item(const bowtie::Items& items, size_t i, size_t entry,
                                              KeyScratch& scratch) const {
    if (lines_) return lines_->key_of_item(items, i, entry, scratch);
    return items[i].substr(item_.key_offset, item_.key_bytes);
  }
  std::string_view key_of_partial(std::string_view partial) const {
    return items::key_of(partial_, partial);
  }
  // Bytes of a partial beside its key and text; and all bytes of a partial with a usual key.
  uint64_t fixed_bytes() const;
  uint64_t usual_bytes() const;
  // REQUIRES: there is a count.
  uint64_t count_of_partial(std::string_view partial) const;
  // Returns whether a complete group has a result.
  bool is_kept(std::string_view partial) const { return !lines_ || lines_->is_kept(partial); }
  // A number whose order is the order of the keys; ties are decided by the bytes. Numbers have no
  // ties.
  uint64_t prefix_of_key(std::string_view key) const;

  // Writes the partial of an entry of item `i` to `to`. Errors of this, add_item(), add_partial()
  // and join(): a sum of unsigned values does not fit 8 bytes; those of GroupLines.
  Status make_partial(const bowtie::Items& items, size_t i, size_t entry, std::string_view key,
                      std::string& to) const;
  // Adds an item, or a partial, of the same key. Returns false and changes nothing if the partial
  // is too narrow (GroupLines::widen()).
  Result<bool> add_item(char* partial, const bowtie::Items& items, size_t i) const;
  Result<bool> add_partial(char* partial, std::string_view other) const;
  Status join(std::string& partial, std::string_view other) const;
  // Appends the result of a complete partial. `of_values`: the results that its values make.
  // Errors: a sum does not fit 8 bytes; those of GroupLines.
  Status append_result(std::string_view partial, std::string& to,
                       std::span<const std::string> of_values = {}) const;

 private:
  // The aggregates of a key. The sum has room for 64-bit values of either sign.
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
  // The offset of the aggregates in a partial.
  size_t aggregates_offset() const { return partial_.key_bytes; }

  items::Format item_;
  items::Format partial_;
  items::Format result_;
  Aggregates aggregates_;
  ValueField value_;
  std::shared_ptr<GroupLines> lines_;
};

// The bucket, of `buckets`, that a key belongs to. Each level spreads the keys of one bucket evenly
// again.
uint32_t bucket_of(std::string_view key, uint32_t level, uint32_t buckets);

// An item of a batch, with its key.
struct KeyedItem {
  std::string_view key;
  uint64_t hash = 0;
  uint32_t item = 0;   // its number in the batch
  uint32_t entry = 0;  // the number of the partial among those of the item
};

// Copies of keys, which keep their addresses until clear(). Thread safety: one thread.
class KeyRoom {
 public:
  std::string_view copy(std::string_view bytes);
  void clear();
  uint64_t bytes() const { return bytes_; }

 private:
  static constexpr size_t block_bytes = 16 << 10;
  struct Block {
    std::unique_ptr<char[]> bytes;
    size_t size = 0;
  };
  std::vector<Block> blocks_;
  size_t used_blocks_ = 0;
  size_t used_bytes_ = 0;  // bytes used in the last used block
  uint64_t bytes_ = 0;
};

// A batch of items or partials with their keys, divided by the shares of a table that own the keys.
//
// Thread safety: one thread at a time. Invariant: items and keys stay readable while the batch's
// bytes do.
class KeyedBatch {
 public:
  enum class Kind { item, partial };
  // Made keys take at most about so many bytes; `items_max`: room for so many items is there from
  // the beginning.
  explicit KeyedBatch(size_t shares, size_t items_max = 0,
                      uint64_t key_bytes_max = uint64_t{64} << 10);

  // Computes the keys of the items from number `first` on, and returns of how many: fewer than
  // there are if their keys take much room.
  size_t assign(const GroupLayout& layout, const bowtie::Items& items, size_t first, Kind kind);
  void clear();
  // Bytes of made keys.
  uint64_t made_bytes() const { return room_.bytes(); }
  // Frees the memory of long keys. REQUIRES: the batch is not used until it is assigned again.
  void free_texts() {
    clear();
    std::string().swap(scratch_.key);
    std::string().swap(scratch_.value);
  }

  size_t shares() const { return shares_.size(); }
  std::span<const KeyedItem> share(size_t number) const { return shares_[number]; }
  const bowtie::Items& items() const { return items_; }
  // The numbers of the items that may be odd (files/run/odd_items.h).
  std::span<const uint32_t> odd() const { return odd_; }
  Kind kind() const { return kind_; }
  // The partial of an item, made in `room` or a part of the batch.
  Result<std::string_view> partial_of(const GroupLayout& layout, const KeyedItem& item,
                                      std::string& room) const;

 private:
  bowtie::Items items_ = bowtie::Items({});
  Kind kind_ = Kind::item;
  std::vector<std::vector<KeyedItem>> shares_;
  uint64_t key_bytes_max_;
  KeyScratch scratch_;
  KeyRoom room_;
  std::vector<uint32_t> odd_;
};

// The list of a key in a table that keeps items whole (GroupTable::keep_items()). It follows the key
// in the partial. The items of a side are neighbours, in the order in which they came.
struct KeyList {
  uint32_t first = 0;  // places of its first and last item; 0: none
  uint32_t last = 0;
  uint32_t sides = 0;               // sides that have the key
  uint32_t last_side : 31 = 0;      // 1 + the number of the last of them in the order of reading
  uint32_t has_first_side : 1 = 0;  // the first side of the join has the key

  static constexpr uint32_t side_mask = 0x7fffffff;
  static constexpr uint64_t place_unit = 8;  // bytes
  static KeyList of(const char* partial) {
    KeyList list;
    std::memcpy(&list, partial + RowHead::bytes + RowHead::at(partial).key_bytes, sizeof list);
    return list;
  }
};

// How a table keeps the items of a side, which follows other sides.
struct KeptSide {
  uint32_t number = 0;    // in the order of reading
  uint32_t side = 0;      // in the order of the join
  bool adds_keys = true;  // keeps keys that no side before has
  // Whether it keeps the items of a key: [number of sides before that have it][the first side of the
  // join has it].
  std::vector<std::array<bool, 2>> keeps = {};
};

// Open addressing: a slot holds 32 bits of the hash and the place of a partial; partials lie one
// behind the other. Half of the slots stay free, so that probes are short, and so that sort() finds
// its memory there: two slots a partial are a pair of eight bytes of the key and the place.
//
// A place in a large table is in no cache. So the slots of some items, then the partials to which
// these lead, are prefetched before the items are added: in bursts, because a prefetch whose page
// is not in the TLB holds up what follows, and only neighbouring ones wait together.
//
// A table has one or more shares, each for one thread: a share owns the keys whose hashes begin
// with its number, a part of the slots, and chunks of the partials' memory, which it takes as it
// needs them. So threads share nothing but a counter, no key is in two shares, and sort() orders
// all shares at once.
//
// A partial that is too narrow for its sums (group_lines.h) is written once more, wide, and the
// narrow one is dead.
//
// For a join, a table keeps items whole instead of combining them: each key has a list of them,
// which lie among the partials as dead ones, and are linked by their places.
//
// Memory is taken from the system as partials come, and never more than was given.
//
// Thread safety: each share belongs to one thread at a time; everything else to one thread, while
// no share is used. Invariants: no two partials have the same key; a share's size is at most half
// of its slots.
class GroupTable {
  struct Data;

 public:
  // The partials of the keys that one thread owns. Thread safety: one thread at a time.
  class Share {
   public:
    // Adds the batch's items of this share from number `at` on, and advances `at` to the first that
    // was not added: the end, an item for which the table is full, or the item whose error it
    // returns. Errors: those of the layout.
    Status add(const KeyedBatch& batch, size_t& at);
    uint64_t size() const { return size_; }
    // The fields without a value in the items that were added; clear() keeps the number.
    uint64_t empty_values() const { return empty_values_; }
    void reset_empty_values() { empty_values_ = 0; }
    // Frees the memory in which partials are made.
    void free_texts() { std::string().swap(made_); }
    // The layout, with a state that is this share's alone if there are several.
    const GroupLayout& layout() const { return layout_; }

   private:
    friend class GroupTable;
    enum class Added { yes, full };
    struct Chunk {
      uint64_t begin = 0, end = 0;  // the range of its partials
    };

    // Items whose slots, or whose partials, are prefetched at once.
    static constexpr size_t burst_items = 32;

    Share(const GroupLayout& layout, size_t number, size_t shares, uint64_t* slots,
          uint64_t slot_count, Data* data);
    // A small table is in the cache: a prefetch gains nothing.
    bool is_small() const { return size_ < 4096; }
    // Calls use(place), a Status, for each partial in the order in which they came.
    template <class Use>
    Status for_places(Use use) const {
      for (const Chunk& chunk : chunks_) {
        for (uint64_t place = chunk.begin; place < chunk.end;) {
          const uint64_t next = place + stride_at(place);
          if (!is_dead(place)) {
            if (Status status = use(place); !status) return status;
          }
          place = next;
        }
      }
      return {};
    }
    bool is_dead(uint64_t place) const;
    uint64_t stride_at(uint64_t place) const;
    // The first slot from `slot` on that is free, or has the tag of the hash.
    uint64_t find_slot(uint64_t hash, uint64_t slot) const;
    uint64_t first_slot(uint64_t hash) const;
    uint64_t place_at(uint64_t slot) const;
    std::string_view partial_at(uint64_t place) const;
    // (Inlined by force: GCC drops calls of a function that only prefetches, because it counts as
    // pure.)
    [[gnu::always_inline]] void prefetch_partial(uint64_t hash) const;
    Result<Added> add_one(const KeyedBatch& batch, const KeyedItem& item);
    Result<Added> combine(const KeyedBatch& batch, const KeyedItem& item, uint64_t slot);
    // Adds an item to a list: of a key that is there, and of a new one.
    Added keep(const KeyedBatch& batch, const KeyedItem& item, uint64_t place);
    Added keep_first(const KeyedBatch& batch, const KeyedItem& item, uint64_t slot);
    bool append_to_list(std::string_view item, char* list_bytes);
    // Takes room behind the partials. Returns false if there is none.
    bool take_room(uint64_t bytes, uint64_t& place);
    // Writes a partial behind the others, and its place to the slot. Returns false if it has no
    // room.
    bool append(std::string_view partial, uint64_t hash, uint64_t slot);
    // Counts those of the item that was just added.
    void count_empty_values(const KeyedBatch& batch) {
      if (layout_.lines() != nullptr && batch.kind() == KeyedBatch::Kind::item)
        empty_values_ += layout_.lines()->empty_values();
    }
    void clear();

    GroupLayout layout_;
    size_t number_;
    size_t shares_;
    uint64_t* slots_;
    uint64_t slot_count_;
    Data* data_;
    std::byte* partials_;
    uint64_t size_ = 0;
    uint64_t empty_values_ = 0;
    uint64_t at_ = 0, end_ = 0;  // free range of the present chunk
    std::vector<Chunk> chunks_;
    std::string made_;
    std::optional<KeptSide> kept_;
  };

  // `sorts`: `memory_bytes` includes the memory that sort() needs beside the table. `shares`: the
  // number of threads that add and sort. `partial_bytes`: the mean of a partial with its list; 0: the
  // layout's.
  static Result<GroupTable> open(const GroupLayout& layout, uint64_t memory_bytes,
                                 bool sorts = false, unsigned shares = 1,
                                 uint64_t partial_bytes = 0);

  // True if so many partials of so many bytes in all fit, whatever their keys are. (Of several
  // shares one may still be full before.)
  bool holds(uint64_t items, uint64_t bytes) const;
  // The memory that so many partials take.
  uint64_t bytes_for(uint64_t items, uint64_t bytes) const;
  uint64_t memory_bytes() const { return memory_bytes_; }
  // The bytes of all partials, and the most that there may be.
  uint64_t used_bytes() const;
  uint64_t used_bytes_max() const { return data_chunks_->bytes_max; }

  // Lends free memory of partials, so many bytes more; false if there are not so many. take_back()
  // ends all loans.
  bool lend(uint64_t bytes);
  void take_back() { data_chunks_->bytes_max += std::exchange(lent_bytes_, 0); }
  uint64_t lent_bytes() const { return lent_bytes_; }
  // From here on items are kept whole, as those of this side.
  void keep_items(const KeptSide& side) {
    for (Share& share : shares_) share.kept_ = side;
  }
  // An item of a list, and the place of the next one; 0: there is none.
  struct KeptItem {
    uint32_t side = 0, next = 0;
    std::string_view text;
  };
  KeptItem kept_item(uint32_t place) const;
  // The list of key number `i` in their order. REQUIRES: sort() was called.
  KeyList key_list(uint64_t i) const {
    return KeyList::of(reinterpret_cast<const char*>(data_.begin() + pairs()[i].value));
  }
  // Prefetch partials in the order of the keys; and the last items of their lists.
  // (Inlined by force, as Share::prefetch_partial().)
  [[gnu::always_inline]] void prefetch_sorted(uint64_t begin, uint64_t end) const {
    for (uint64_t i = begin; i < end; ++i) prefetch_lines(pairs()[i].value);
  }
  [[gnu::always_inline]] void prefetch_last(uint64_t begin, uint64_t end) const {
    for (uint64_t i = begin; i < end; ++i) {
      const uint32_t last = key_list(i).last;
      if (last != 0) prefetch_lines((uint64_t{last} - 1) * KeyList::place_unit);
    }
  }

  size_t shares() const { return shares_.size(); }
  Share& share(size_t number) { return shares_[number]; }
  const Share& share(size_t number) const { return shares_[number]; }

  uint64_t size() const;
  void clear();
  // Orders the partials by key; until clear(), nothing can be added. Errors: out_of_memory.
  Status sort();
  // The mean bytes of a partial.
  uint64_t mean_bytes() const;

  // Calls use(partial), which returns a Status, for each partial; stops at the first error and
  // returns it.
  template <class Use>
  Status for_each(Use use) {
    if (is_sorted_) return for_sorted(0, size(), use);
    for (const Share& share : shares_) {
      auto status = share.for_places([&](uint64_t place) { return use(partial_at(place)); });
      if (!status) return status;
    }
    return {};
  }
  // Calls use(partial) for partials `begin` to `end` in the order of the keys. Thread safety: any
  // thread, until clear().
  template <class Use>
  Status for_sorted(uint64_t begin, uint64_t end, Use use) const {
    for (uint64_t i = begin; i < end; ++i) {
      if (i + sorted_ahead < end) prefetch(pairs()[i + sorted_ahead].value);
      if (Status status = use(partial_at(pairs()[i].value)); !status) return status;
    }
    return {};
  }

 private:
  using Pair = sorting::KeyValue;  // its value: a place
  class Keys;
  static constexpr uint64_t sorted_ahead = 32;

  // The memory of partials, which all shares take chunks of.
  struct Data {
    std::byte* begin = nullptr;
    uint64_t bytes_max = 0;
    uint64_t chunk_bytes = 0;
    std::atomic<uint64_t> taken_bytes{0};

    // Takes a chunk of at least `bytes`, [place, end). Returns false if there is none.
    bool take(uint64_t bytes, uint64_t& place, uint64_t& end);
  };

  explicit GroupTable(const GroupLayout& layout) : layout_(layout) {}
  Pair* pairs() const { return reinterpret_cast<Pair*>(slots_.begin()); }
  std::string_view partial_at(uint64_t place) const;
  [[gnu::always_inline]] void prefetch_lines(uint64_t place) const {
    __builtin_prefetch(data_.begin() + place);
    __builtin_prefetch(data_.begin() + place + 64);
  }
  // A usual partial may lie across two cache lines.
  void prefetch(uint64_t place) const {
    __builtin_prefetch(data_.begin() + place);
    __builtin_prefetch(data_.begin() + place + layout_.usual_bytes() - 1);
  }

  GroupLayout layout_;
  os::Reservation slots_;
  os::Reservation data_;
  std::unique_ptr<Data> data_chunks_;
  uint64_t lent_bytes_ = 0;
  std::vector<Share> shares_;
  uint64_t memory_bytes_ = 0;
  uint64_t slot_count_ = 0;
  bool is_sorted_ = false;
  uint64_t sort_bytes_ = 0;
};

// The share that owns the keys of a hash.
size_t share_of(uint64_t hash, size_t shares);

}  // namespace penstock::files
