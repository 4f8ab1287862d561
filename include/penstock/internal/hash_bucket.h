#pragma once

// Internals of RewiredHash (penstock/containers.h): the slots' directory, and a page's entries.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "penstock/base.h"

namespace penstock {
class PagePool;
struct RewiredHashOptions;
}  // namespace penstock

namespace penstock::rewire {

class Range;

// The slots, and the page that each shows; knows nothing of entries. Thread safety: one thread at a
// time. Invariants: each slot of [0, 2^depth) shows a page, the others show nothing. The page of a
// bucket of depth l is shown in all slots with the same low l bits, and in no others.
class HashDirectory {
 public:
  static Result<HashDirectory> open(const PagePool& pool, const RewiredHashOptions& options);
  HashDirectory(HashDirectory&&) noexcept = default;
  HashDirectory& operator=(HashDirectory&&) noexcept = default;

  // Returns the beginning of the bucket of a hash.
  std::byte* bucket(uint64_t hash) const { return base_ + ((hash << page_shift_) & offset_mask_); }
  uint64_t slots() const { return (offset_mask_ >> page_shift_) + 1; }
  uint32_t depth() const { return static_cast<uint32_t>(std::countr_zero(slots())); }
  size_t page_bytes() const { return size_t{1} << page_shift_; }
  uint64_t mappings() const;
  const std::string& name() const { return name_; }

  // Splits the bucket of `hash`, of depth l, into two of depth l + 1: those of its slots in which
  // bit l is set show a new page, which is returned with undefined contents. Errors, which change
  // nothing: out_of_memory, out_of_mappings; invalid_argument if the directory cannot grow.
  Result<std::byte*> split(uint64_t hash, uint32_t bucket_depth);

 private:
  HashDirectory() = default;
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

// The entries of one page, in groups of eight. Each entry has a tag byte, which marks it as present
// and holds 7 bits of its hash. The upper half of the hash selects the first group to try; an entry
// is in the first group that had room. So a search ends at a group that was never full.
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
  struct Shape {  // shared by all pages of a table
    explicit Shape(size_t page_bytes)
        : groups(static_cast<uint32_t>((page_bytes - head_bytes - alignof(Entry)) /
                                       (8 + 8 * sizeof(Entry)))),
          used_max(groups * 7),
          entries_at((head_bytes + 8 * size_t{groups} + alignof(Entry) - 1) / alignof(Entry) *
                     alignof(Entry)) {}
    uint32_t groups;
    uint32_t used_max;  // most entries and graves; one eighth stays empty
    size_t entries_at;
  };
  struct Head {
    uint32_t depth;
    uint32_t size;
    uint32_t graves;  // erased entries' places that a search must pass
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
      // The highest bit of each equal byte; sometimes also that of the byte above, which the
      // comparison of keys rules out.
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
  // Returns bits 25 to 31 and a set high bit; the directory uses lower bits, the groups higher
  // ones.
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

// Divides the entries of a bucket between it and the new bucket `to`, which gets those whose hash
// has the bit of the bucket's depth set. With to == nullptr the bucket only loses its graves.
// `scratch` has room for a page.
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

}  // namespace penstock::rewire
