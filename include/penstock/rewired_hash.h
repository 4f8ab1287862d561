#pragma once

// A hash table whose directory is the page table: extendible hashing, in which the bucket of a key
// is found by arithmetic alone.
//
//   auto pool = penstock::PagePool::open({.bytes_max = 4 * penstock::GiB});
//   auto index = penstock::RewiredHash<uint64_t, uint64_t>::open(*pool);
//   index->insert(key, value);
//   if (uint64_t* found = index->find(key)) use(*found);
//
// A bucket is a page. With a directory of depth d, the slot of a key is the low d bits of its hash,
// and the slots are addresses that lie side by side; so the key's bucket begins at base + slot *
// page_bytes, where another table would look into an array of pointers. A bucket that all of 2^k
// slots share is one page mapped 2^k times. When a bucket is full, half of its slots are rewired to
// another page, and its entries are divided between the two; when it has one slot only, the
// directory is doubled before, by mapping all of it once more behind itself. Nothing else moves,
// ever: no insertion waits for the whole table to be copied.
//
// When it pays. Not for the look-up that is spared: an array of pointers is small and stays in a
// cache, and with the same buckets of 2 MiB it finds and inserts as fast. With smaller buckets it
// is ahead, by half and more, for it can put them into huge pages, which a page table cannot: take
// pages of 2 MiB. What is gained is the rest: code without a directory to look after, two to four
// times the speed of std::unordered_map, and no insertion that waits for the whole table to be
// rehashed (15 ms against 2 s at 2^23 keys). `bench rewire-hash` measures all of it.
//
// Source: section 6 of the paper named in penstock/page_pool.h (hash tables on rewired memory); R.
// Fagin et al., "Extendible hashing" (1979).

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "penstock/error.h"
#include "penstock/page_pool.h"

namespace penstock {

// The usual hash function, mixed so that all 64 bits depend on all of the key.
template <class K>
struct MixedHash {
  uint64_t operator()(const K& key) const {
    auto hash = static_cast<uint64_t>(std::hash<K>()(key));
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
  }
};

struct RewiredHashOptions {
  // Buckets from the beginning, a power of two: as many as there will be spares the splits.
  uint64_t buckets = 1;
  // The largest directory: address space of so many pages. 2^25 at most; 0: four slots for each of
  // the pool's pages.
  uint64_t slots_max = 0;
  std::string name = "rewired hash";  // for messages
};

namespace rewire {

class Range;

// The slots, and which page each shows; knows nothing of entries.
// Thread safety: one thread at a time. Invariants: the slots [0, 2^depth) show a page each, the
// others nothing. The page of a bucket of depth l is shown in all slots with the same low l bits,
// and in no others.
class HashDirectory {
 public:
  static Result<HashDirectory> open(const PagePool& pool, const RewiredHashOptions& options);
  HashDirectory(HashDirectory&&) noexcept;
  HashDirectory& operator=(HashDirectory&&) noexcept;
  ~HashDirectory();

  // Where the bucket of a hash begins.
  std::byte* bucket(uint64_t hash) const { return base_ + ((hash << page_shift_) & offset_mask_); }
  uint64_t slots() const { return (offset_mask_ >> page_shift_) + 1; }
  uint32_t depth() const { return static_cast<uint32_t>(std::countr_zero(slots())); }
  size_t page_bytes() const { return size_t{1} << page_shift_; }
  uint64_t mappings() const;
  const std::string& name() const { return name_; }

  // The bucket of `hash`, of depth l, becomes two of depth l + 1: those of its slots in which bit l
  // is set show a new page, which is returned, with undefined contents. Errors, which change
  // nothing: out_of_memory, out_of_mappings; invalid_argument, where the directory is as large as
  // it may become.
  Result<std::byte*> split(uint64_t hash, uint32_t bucket_depth);

 private:
  HashDirectory();
  Status show_new(uint64_t first_slot, uint64_t count, uint64_t step);
  Status double_slots();
  Status error_of(int error, const char* attempted) const;

  std::byte* base_ = nullptr;
  uint64_t offset_mask_ = 0;
  uint32_t page_shift_ = 0;
  uint64_t slots_max_ = 0;
  std::string name_;
  std::shared_ptr<Range> range_;
};

// The entries of one page: groups of eight, and for each entry a byte that tells whether it is
// there, and 7 bits of its hash. An entry is in the first group that had room, from the one on that
// the upper half of its hash says; so a group that was never full ends the search.
//
//   0                 64                64 + 8 * groups
//   | depth, counts   | 8 tags a group  | 8 entries a group ...
template <class K, class V>
class HashBucket {
 public:
  struct Entry {
    K key;
    V value;
  };
  struct Shape {  // the same for all pages of a table
    explicit Shape(size_t page_bytes)
        : groups(static_cast<uint32_t>((page_bytes - head_bytes - alignof(Entry)) /
                                       (8 + 8 * sizeof(Entry)))),
          used_max(groups * 7),
          entries_at((head_bytes + 8 * size_t{groups} + alignof(Entry) - 1) / alignof(Entry) *
                     alignof(Entry)) {}
    uint32_t groups;
    uint32_t used_max;  // entries and graves: one eighth stays empty
    size_t entries_at;
  };
  struct Head {
    uint32_t depth;
    uint32_t size;
    uint32_t graves;  // places of erased entries that a search must pass
  };

  HashBucket(std::byte* page, const Shape& shape) : page_(page), shape_(shape) {}

  void clear(uint32_t depth) {
    std::memset(page_, 0, head_bytes + 8 * size_t{shape_.groups});
    head().depth = depth;
  }
  Head& head() { return *reinterpret_cast<Head*>(page_); }
  bool is_full() { return head().size + head().graves >= shape_.used_max; }

  Entry* find(uint64_t hash, const K& key) {
    const uint64_t wanted = tag_of(hash) * lowest_bits;
    for (uint32_t group = group_of(hash);; group = next(group)) {
      const uint64_t tags = load(group);
      // Of each byte that is equal the highest bit; at times of one above it too, which the key
      // then tells apart.
      for (uint64_t match = zeros_of(tags ^ wanted); match != 0; match &= match - 1) {
        Entry* const entry = entry_at(8 * group + std::countr_zero(match) / 8);
        if (entry->key == key) return entry;
      }
      if (zeros_of(tags) != 0) return nullptr;
    }
  }

  // REQUIRES: the key is not there; not is_full().
  Entry* insert(uint64_t hash, const K& key, const V& value) {
    uint32_t group = group_of(hash);
    uint64_t tags = load(group);
    while ((~tags & highest_bits) == 0) tags = load(group = next(group));
    const uint32_t place = 8 * group + std::countr_zero(~tags & highest_bits) / 8;
    if (tag_at(place) == grave) --head().graves;
    tag_at(place) = static_cast<uint8_t>(tag_of(hash));
    ++head().size;
    return new (entry_at(place)) Entry{key, value};
  }

  void erase(const Entry* entry) {
    const auto place = static_cast<uint32_t>(entry - entry_at(0));
    const bool ends_search = zeros_of(load(place / 8)) != 0;
    tag_at(place) = ends_search ? 0 : grave;
    head().graves += !ends_search;
    --head().size;
  }

  template <class Visit>
  void for_each(Visit visit) {
    for (uint32_t group = 0; group < shape_.groups; ++group) {
      for (uint64_t full = load(group) & highest_bits; full != 0; full &= full - 1)
        visit(*entry_at(8 * group + std::countr_zero(full) / 8));
    }
  }

 private:
  static constexpr size_t head_bytes = 64;
  static constexpr uint64_t lowest_bits = 0x0101010101010101u;
  static constexpr uint64_t highest_bits = 0x8080808080808080u;
  static constexpr uint8_t grave = 1;  // 0: empty; from 128 on: an entry

  static uint64_t zeros_of(uint64_t bytes) { return (bytes - lowest_bits) & ~bytes & highest_bits; }
  // Bits 25 to 31; the directory uses those below, the groups those above.
  static uint64_t tag_of(uint64_t hash) { return (hash >> 25 & 0x7f) | 0x80; }
  uint32_t group_of(uint64_t hash) const {
    return static_cast<uint32_t>((hash >> 32) * shape_.groups >> 32);
  }
  uint32_t next(uint32_t group) const { return group + 1 == shape_.groups ? 0 : group + 1; }

  uint8_t& tag_at(uint32_t place) { return reinterpret_cast<uint8_t*>(page_ + head_bytes)[place]; }
  uint64_t load(uint32_t group) const {
    uint64_t tags;
    std::memcpy(&tags, page_ + head_bytes + 8 * size_t{group}, sizeof tags);
    return std::endian::native == std::endian::little ? tags : __builtin_bswap64(tags);
  }
  Entry* entry_at(size_t place) const {
    return reinterpret_cast<Entry*>(page_ + shape_.entries_at) + place;
  }

  std::byte* const page_;
  const Shape& shape_;
};

// Divides the entries of a bucket between it and the new one `to`: those in whose hash the bit of
// the bucket's depth is set go there. With to == nullptr the bucket only loses its graves.
// `scratch` is room for a page.
template <class K, class V, class Hash>
void divide(std::byte* from, std::byte* to, size_t page_bytes, std::byte* scratch,
            const typename HashBucket<K, V>::Shape& shape, const Hash& hash) {
  std::memcpy(scratch, from, page_bytes);
  HashBucket<K, V> before(scratch, shape), low(from, shape);
  const uint32_t depth = before.head().depth;
  HashBucket<K, V> high(to == nullptr ? from : to, shape);
  low.clear(to == nullptr ? depth : depth + 1);
  if (to != nullptr) high.clear(depth + 1);
  before.for_each([&](const typename HashBucket<K, V>::Entry& entry) {
    const uint64_t h = hash(entry.key);
    (to != nullptr && (h >> depth & 1) != 0 ? high : low).insert(h, entry.key, entry.value);
  });
}

}  // namespace rewire

// Thread safety: as std::unordered_map: one thread that changes it, or any number that only find.
// (Directory: for the bench, which puts an array of pointers in its place.)
template <class K, class V, class Hash = MixedHash<K>, class Directory = rewire::HashDirectory>
class RewiredHash {
  static_assert(std::is_trivially_copyable_v<K> && std::is_trivially_copyable_v<V>,
                "entries move between pages without being told");
  static_assert(alignof(K) <= alignof(std::max_align_t) && alignof(V) <= alignof(std::max_align_t));
  using Bucket = rewire::HashBucket<K, V>;

 public:
  using Options = RewiredHashOptions;
  struct Inserted {
    V* value;  // the new one, or that which was there
    bool is_new;
  };

  // Errors: invalid_argument, when an entry is too large for pages of the pool; out_of_memory,
  // out_of_mappings.
  static Result<RewiredHash> open(const PagePool& pool, const Options& options = {},
                                  Hash hash = {}) {
    if (pool.page_bytes() < 8 * 8 * sizeof(typename Bucket::Entry))
      return failure(ErrorCode::invalid_argument, "open a hash table", options.name,
                     "a pool of larger pages: one must hold 64 entries");
    auto directory = Directory::open(pool, options);
    if (!directory) return std::unexpected(std::move(directory.error()));
    return RewiredHash(std::move(*directory), std::move(hash));
  }

  // nullptr: not there. A pointer is valid until the next insert, erase of its key, or clear.
  V* find(const K& key) {
    const uint64_t hash = hash_(key);
    auto* const entry = Bucket(directory_.bucket(hash), shape_).find(hash, key);
    return entry == nullptr ? nullptr : &entry->value;
  }
  const V* find(const K& key) const { return const_cast<RewiredHash*>(this)->find(key); }
  bool contains(const K& key) const { return find(key) != nullptr; }

  // Does nothing where the key is. Errors, which change nothing that can be found: out_of_memory,
  // out_of_mappings; invalid_argument, when more keys have hashes with the same low bits than a
  // page holds, or slots_max is too small.
  Result<Inserted> insert(const K& key, const V& value) {
    const uint64_t hash = hash_(key);
    Bucket bucket(directory_.bucket(hash), shape_);
    if (auto* const there = bucket.find(hash, key)) return Inserted{&there->value, false};
    if (!bucket.is_full()) return insert_new(hash, key, value);
    // Entries move now, and the key or the value may be part of one.
    const typename Bucket::Entry own{key, value};
    do {
      if (Status status = make_room(hash); !status)
        return std::unexpected(std::move(status.error()));
    } while (Bucket(directory_.bucket(hash), shape_).is_full());
    return insert_new(hash, own.key, own.value);
  }

  // False: it was not there. Pages never become fewer by this.
  bool erase(const K& key) {
    const uint64_t hash = hash_(key);
    Bucket bucket(directory_.bucket(hash), shape_);
    const auto* const entry = bucket.find(hash, key);
    if (entry == nullptr) return false;
    bucket.erase(entry);
    --size_;
    return true;
  }

  // All entries, in no order, as visit(const K&, V&). It must not insert or erase.
  template <class Visit>
  void for_each(Visit visit) {
    for_each_bucket([&](Bucket bucket) {
      bucket.for_each(
          [&](typename Bucket::Entry& entry) { visit(std::as_const(entry.key), entry.value); });
    });
  }
  // The buckets stay.
  void clear() {
    for_each_bucket([](Bucket bucket) { bucket.clear(bucket.head().depth); });
    size_ = 0;
  }

  uint64_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  uint64_t slots() const { return directory_.slots(); }
  uint64_t buckets() const { return buckets_; }
  uint64_t memory_bytes() const { return buckets_ * directory_.page_bytes(); }
  uint64_t mappings() const { return directory_.mappings(); }

 private:
  RewiredHash(Directory directory, Hash hash)
      : directory_(std::move(directory)),
        shape_(directory_.page_bytes()),
        hash_(std::move(hash)),
        scratch_(directory_.page_bytes()),
        buckets_(directory_.slots()) {
    for (uint64_t slot = 0; slot < buckets_; ++slot)
      Bucket(directory_.bucket(slot), shape_).clear(directory_.depth());
  }

  // REQUIRES: the key is not there, and its bucket not full.
  Inserted insert_new(uint64_t hash, const K& key, const V& value) {
    auto* const entry = Bucket(directory_.bucket(hash), shape_).insert(hash, key, value);
    ++size_;
    return {&entry->value, true};
  }

  Status make_room(uint64_t hash) {
    std::byte* to = nullptr;
    const auto head = Bucket(directory_.bucket(hash), shape_).head();
    if (head.graves < head.size) {  // else it is room enough to drop the graves
      if (auto page = directory_.split(hash, head.depth)) {
        to = *page;
        ++buckets_;
      } else if (head.graves == 0) {  // else they are what room there is
        return std::unexpected(std::move(page.error()));
      }
    }
    // The bucket at its lowest slot, which did not change its page.
    const uint64_t lowest = hash & ((uint64_t{1} << head.depth) - 1);
    rewire::divide<K, V>(directory_.bucket(lowest), to, directory_.page_bytes(), scratch_.data(),
                         shape_, hash_);
    return {};
  }

  template <class Visit>
  void for_each_bucket(Visit visit) {
    for (uint64_t slot = 0; slot < directory_.slots(); ++slot) {
      Bucket bucket(directory_.bucket(slot), shape_);
      // A bucket of several slots is met at the lowest.
      if (slot >> bucket.head().depth == 0) visit(bucket);
    }
  }

  Directory directory_;
  typename Bucket::Shape shape_;
  Hash hash_;
  std::vector<std::byte> scratch_;
  uint64_t buckets_ = 0;
  uint64_t size_ = 0;
};

}  // namespace penstock
