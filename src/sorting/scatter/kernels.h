#pragma once

// The inner loops, compiled once per instruction set (kernels_impl.h); kernels() chooses.

#include <cstddef>
#include <cstdint>

#include "sorting/scatter/bucket_map.h"
#include "sorting/scatter/item.h"
#include "sorting/scatter/key_order.h"

namespace penstock::scatter {

// Where the next lines of an array go.
struct Room {
  std::byte* next = nullptr;
  std::byte* limit = nullptr;  // where no line fits any more, and more room is asked for
};
// Gives more room to an array. `line` is what will be written there.
struct RoomMaker {
  void (*make)(void* self, uint32_t array, Room& room, const std::byte* line) = nullptr;
  void* self = nullptr;
};

enum class LineBytes : uint16_t { small = 256, large = 1024 };
inline constexpr size_t small_line_bytes = static_cast<size_t>(LineBytes::small);

// The state of scattering to arrays outside of the cache: see lines.h.
struct Lines {
  std::byte* lines = nullptr;  // one of each array
  uint32_t* at = nullptr;      // per array: the next item, as an offset into `lines`
  Room* rooms = nullptr;       // per array
  uint32_t line_bytes = small_line_bytes;
  bool aligned = true;  // rooms are multiples of 64 bytes
  bool usual = true;    // they are, and lines are small
  RoomMaker maker;
};

// The state of scattering within the cache: every bucket has a place for `end - begin` items.
template <class T>
struct Slots {
  struct Fill {
    uint32_t at;   // bytes from `base`: where the next item goes
    uint32_t end;  // where none goes any more
  };
  std::byte* base;
  Fill* fills;  // per bucket
  T* spilled;   // items that found their bucket full, in order; room for an eighth and 512
  size_t spilled_count;
  size_t read_count;  // of items, so far
};

template <class T>
struct Kernels {
  // Items go to the ends of many arrays, by way of the lines. `ahead`: what will be read next.
  // REQUIRES: `order` is plain, or the map is by range or by splitters.
  void (*scatter_lines)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Lines& lines, const T* ahead);
  // Items go, encoded, to slots. False when more than an eighth of all so far did not fit: give up.
  // REQUIRES: `map` is by range; T is not KeyValue32.
  bool (*scatter_slots)(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
                        Slots<T>& slots, const T* ahead);
  // Adds to counts[bucket] how many of the items belong to it.
  // REQUIRES: `map` is by range or by splitters; T is uint32_t, uint64_t or KeyValue64.
  void (*count)(const T* items, size_t count, const BucketMap& map, uint32_t* counts) = nullptr;
};

// For uint32_t, uint64_t, KeyValue32, KeyValue64, Key128; of uint8_t and uint16_t scatter_lines
// alone, and maps that are tables.
template <class T>
const Kernels<T>& kernels();

}  // namespace penstock::scatter
