#include "sorting/sort/cache/cache_sort.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "base/bits.h"
#include "base/check.h"
#include "sorting/sort/cache/quick_sort.h"

// A counting partition reads the keys twice, to learn the bounds of the buckets. But the keys that
// come here are the rest of a narrow range, and mostly evenly spread in it: n keys in m buckets are
// n / m in each, give or take a few times its square root. So every bucket gets a slot of fixed
// size with room for that, and the keys are read once. Slots may have gaps: leaves read them and
// write the output. The slots use 1.2 to 1.9 times the memory of the keys, in the cache.
//
// If a slot is full, the item is spilled to a separate list, and joins its neighbours when its slot
// is sorted. If more than an eighth of the items read so far spills, the keys are not evenly
// spread: then everything is copied to the scratch memory, and quick sort takes it to the output.
//
// Storing allocates nothing, because it may overwrite the memory that was loaded. In front of the
// slots there is as much room as the spilled items take: quick sort uses it to sort them. Then a
// slot that spilled items join moves down by as many places as they need, over slots that have been
// stored, or over that room.
//
// The size of a slot is an odd number of cache lines: slots at distances of a power of two would
// share few sets of the caches.

namespace penstock::sorting {
namespace {

constexpr size_t line_bytes = 64;

// Bytes of the list of spilled items, and of the room in front of the slots.
template <class T>
size_t spilled_bytes(size_t items_max) {
  constexpr size_t extra = 512;
  return round_up((items_max / 8 + extra) * sizeof(T), line_bytes);
}

// Average number of items in a slot. Larger slots make fewer buckets, smaller leaves are faster for
// each item: measured with `penstock-bench sort`.
template <class T>
constexpr size_t slot_items_mean = 150;

template <class T>
constexpr size_t slot_items_for(size_t mean) {
  // Six and a half standard deviations: one slot in 10^10 is full.
  auto room = static_cast<size_t>(6.5 * std::sqrt(static_cast<double>(mean))) + 8;
  size_t lines = ceil_div((mean + room) * sizeof(T), line_bytes) | 1;
  return lines * line_bytes / sizeof(T);
}

template <class T>
void sort_leaf(LeafSort<T> leaf, const T* in, size_t count, const KeyRange& keys, T* out) {
  auto bits = static_cast<unsigned>(std::bit_width(keys.high - keys.low));
  leaf(in, count, keys.low, bits, out);
}

template <class T>
size_t slots_for(size_t items) {
  return std::max<size_t>(1, ceil_div(items, slot_items_mean<T>));
}

}  // namespace

template <class T>
size_t CacheSort<T>::bytes_needed(size_t items_max) {
  size_t slots = slots_for<T>(items_max);
  size_t scratch = slots * slot_items_for<T>(slot_items_mean<T>) * sizeof(T);
  size_t fills = (slots + 1) * sizeof(typename scatter::Slots<T>::Fill);
  return round_up(scratch, line_bytes) + 2 * spilled_bytes<T>(items_max) + fills;
}

template <class T>
CacheSort<T>::CacheSort(std::byte* memory, size_t items_max, const KeyOrder& order)
    : items_max_(items_max), order_(order), kernels_(&kernels<T>()), leaf_(leaf_sort<T>()) {
  size_t scratch = slots_for<T>(items_max) * slot_items_for<T>(slot_items_mean<T>) * sizeof(T);
  room_ = reinterpret_cast<T*>(memory);
  memory += spilled_bytes<T>(items_max);
  scratch_ = reinterpret_cast<T*>(memory);
  memory += round_up(scratch, line_bytes);
  spilled_ = reinterpret_cast<T*>(memory);
  memory += spilled_bytes<T>(items_max);
  fills_ = reinterpret_cast<typename scatter::Slots<T>::Fill*>(memory);
}

template <class T>
Result<CacheSort<T>> CacheSort<T>::open(size_t items_max, const KeyOrder& order) {
  size_t bytes = round_up(bytes_needed(items_max), os::page_bytes);
  if (bytes > os::huge_page_bytes / 2) bytes = round_up(bytes, os::huge_page_bytes);
  auto memory = os::huge_buffer(bytes, "scratch memory");
  if (!memory) return std::unexpected(memory.error());
  CacheSort sorter(memory->begin(), items_max, order);
  sorter.owned_ = std::move(*memory);
  return sorter;
}

template <class T>
void CacheSort<T>::load(std::span<const Piece<T>> pieces, size_t count, const KeyRange& keys) {
  PENSTOCK_CHECK(count <= items_max_, "more items than a cache sort was opened for");
  count_ = count;
  keys_ = keys;
  plan_ = Plan::copy;
  if (count <= leaf_items_max) {
    plan_ = Plan::leaf;
  } else if (keys.low != keys.high) {
    map_ = BucketMap::by_range(keys, static_cast<uint32_t>(slots_for<T>(count)));
    if (load_slots(pieces)) {
      plan_ = Plan::slots;
      return;
    }
  }
  load_copy(pieces);
}

template <class T>
bool CacheSort<T>::load_slots(std::span<const Piece<T>> pieces) {
  const size_t mean = ceil_div(count_, map_.buckets);
  slot_items_ = slot_items_for<T>(mean);
  const auto slot_bytes = static_cast<uint32_t>(slot_items_ * sizeof(T));
  // Few possible keys make few, large slots, which may need more memory than usual ones.
  if (map_.buckets * slot_items_ > slots_for<T>(items_max_) * slot_items_for<T>(slot_items_mean<T>))
    return false;
  for (uint32_t j = 0; j < map_.buckets; ++j) fills_[j] = {j * slot_bytes, (j + 1) * slot_bytes};
  scatter::Slots<T> slots = {.base = reinterpret_cast<std::byte*>(scratch_),
                             .fills = fills_,
                             .spilled = spilled_,
                             .spilled_count = 0,
                             .read_count = 0};
  for (size_t i = 0; i < pieces.size(); ++i) {
    const T* ahead = i + 1 < pieces.size() ? pieces[i + 1].items : pieces[i].items;
    if (!scatter::kernels<T>().scatter_slots(pieces[i].items, pieces[i].count, map_, order_, slots,
                                             ahead))
      return false;
  }
  spilled_count_ = slots.spilled_count;
  return true;
}

template <class T>
void CacheSort<T>::load_copy(std::span<const Piece<T>> pieces) {
  T* to = scratch_;
  for (const Piece<T>& piece : pieces) {
    if (order_.plain()) {
      std::memcpy(to, piece.items, piece.count * sizeof(T));
    } else {
      kernels_->encode(piece.items, piece.count, order_, to);
    }
    to += piece.count;
  }
}

template <class T>
void CacheSort<T>::store(T* out) noexcept {
  switch (plan_) {
    case Plan::leaf:
      sort_leaf(leaf_, static_cast<const T*>(scratch_), count_, keys_, out);
      break;
    case Plan::slots:
      return store_slots(out);
    case Plan::copy:
      quick_sort_to(scratch_, count_, out, keys_);
      break;
  }
  if (!order_.plain()) kernels_->decode(out, count_, order_);
}

template <class T>
void CacheSort<T>::store_slots(T* out) noexcept {
  T* spilled = spilled_;
  T* spilled_end = spilled_ + spilled_count_;
  if (spilled_count_ != 0) {
    // Items of one key that spilled came after those that did not: a stable sort keeps them behind.
    quick_sort(spilled_, spilled_count_, room_);
  }
  uint64_t low = map_.range.low;
  for (uint32_t j = 0; j < map_.buckets; ++j) {
    const uint64_t next_low = first_key_of(map_, j + 1);
    const uint64_t high = j + 1 == map_.buckets || next_low < low ? map_.range.high : next_low - 1;
    T* slot = scratch_ + j * slot_items_;
    size_t count = fills_[j].at / sizeof(T) - j * slot_items_;
    T* here_end = spilled;
    while (here_end < spilled_end && key_of(*here_end) <= high) ++here_end;
    const auto more = static_cast<size_t>(here_end - spilled);
    if (more == 0 && count <= leaf_items_max) {
      leaf_(slot, count, low, static_cast<unsigned>(std::bit_width(high - low)), out);
    } else if (more == 0 && low == high && !std::is_same_v<T, Key128>) {
      std::memcpy(out, slot, count * sizeof(T));
    } else {
      T* joined = slot - more;
      std::memmove(static_cast<void*>(joined), slot, count * sizeof(T));
      std::copy_n(spilled, more, joined + count);
      count += more;
      quick_sort_to(joined, count, out);
    }
    spilled = here_end;
    if (!order_.plain()) kernels_->decode(out, count, order_);
    out += count;
    low = next_low;
  }
}

template class CacheSort<uint32_t>;
template class CacheSort<uint64_t>;
template class CacheSort<KeyValue>;
template class CacheSort<Key128>;

}  // namespace penstock::sorting
