#pragma once

// The inner loops, compiled once per instruction set (kernels_impl.h); kernels() chooses.

#include <cstddef>
#include <cstdint>

#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/item.h"
#include "sorting/scatter/key_order.h"

namespace penstock::scatter {

// Memory for the next lines of an array.
struct Room {
  std::byte* next = nullptr;
  std::byte* limit = nullptr;  // no line fits any more from here on: ask for more room
};
// Gives an array more room. `line` is what will be written there.
struct RoomMaker {
  void (*make)(void* self, uint32_t array, Room& room, const std::byte* line) = nullptr;
  void* self = nullptr;
};

enum class LineBytes : uint16_t { small = 256, large = 1024 };
inline constexpr size_t small_line_bytes = static_cast<size_t>(LineBytes::small);

// State of scattering to arrays outside of the cache: see lines.h.
struct Lines {
  std::byte* lines = nullptr;  // one line for each array
  uint32_t* at = nullptr;      // per array: offset of the next item in `lines`
  Room* rooms = nullptr;       // per array
  uint32_t line_bytes = small_line_bytes;
  bool aligned = true;  // rooms are multiples of 64 bytes
  bool usual = true;    // rooms are aligned, and lines are small
  RoomMaker maker;
};

// State of scattering within the cache: every bucket has a slot for `end - begin` items.
template <class T>
struct Slots {
  struct Fill {
    uint32_t at;   // offset of the next item, in bytes from `base`
    uint32_t end;  // end of the slot
  };
  std::byte* base;
  Fill* fills;  // per bucket
  T* spilled;   // items whose slot was full, in order; room for an eighth and 512
  size_t spilled_count;
  size_t read_count;  // items read so far
};

template <class T>
struct Kernels {
  // Scatters items to the ends of many arrays, by way of the lines. `ahead`: items that will be
  // read next. REQUIRES: `order` is plain, or the map is by range or by splitters.
  void (*scatter_lines)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Lines& lines, const T* ahead);
  // Scatters items, encoded, to slots. False if more than an eighth of all so far did not fit: the
  // caller has to give up. REQUIRES: `map` is by range; T is not KeyValue32.
  bool (*scatter_slots)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Slots<T>& slots, const T* ahead);
  // Adds to counts[bucket] the number of its items. REQUIRES: `map` is by range or by splitters; T
  // is uint32_t, uint64_t or KeyValue64.
  void (*count)(const T* items, size_t count, const BucketMap& map, uint32_t* counts) = nullptr;
};

// For uint32_t, uint64_t, KeyValue32, KeyValue64, Key128; uint8_t and uint16_t have scatter_lines
// only, for maps that are tables.
template <class T>
const Kernels<T>& kernels();

}  // namespace penstock::scatter
