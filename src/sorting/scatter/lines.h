#pragma once

// One pass of scattering to growing arrays, by way of a line for each in the cache; kernels_impl.h
// explains how and why.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "base/bits.h"
#include "sorting/scatter/kernels.h"

namespace penstock::scatter {

// Completes this thread's non-temporal stores; called before another thread learns of them.
inline void finish_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

// Writes the rest of a line behind the others. Returns its end.
inline std::byte* write_rest(const RoomMaker& maker, uint32_t array, Room& room,
                             std::span<const std::byte> rest) {
  if (rest.empty()) return room.next;
  if (room.next == room.limit) maker.make(maker.self, array, room, rest.data());
  std::memcpy(room.next, rest.data(), rest.size());
  return room.next + rest.size();
}

// Thread safety: one thread.
template <class T>
class LineScatter {
 public:
  static size_t bytes_needed(uint32_t arrays) {
    return arrays * (small_line_bytes + sizeof(uint32_t) + sizeof(Room));
  }

  explicit LineScatter(uint32_t arrays, LineBytes line_bytes = LineBytes::small)
      : line_bytes_(static_cast<size_t>(line_bytes)),
        storage_(new(std::align_val_t{4096}) std::byte[arrays * line_bytes_]),
        at_(std::make_unique<uint32_t[]>(arrays)),
        rooms_(std::make_unique<Room[]>(arrays)) {
    lines_ = {.lines = storage_.get(),
              .at = at_.get(),
              .rooms = rooms_.get(),
              .line_bytes = static_cast<uint32_t>(line_bytes_),
              .usual = line_bytes == LineBytes::small};
    for (uint32_t j = 0; j < arrays; ++j) at_[j] = static_cast<uint32_t>(j * line_bytes_);
  }

  // Sets the source of room for arrays without a begin(), and for those at their limit.
  void ask_for_room(const RoomMaker& maker) { lines_.maker = maker; }
  // Declares that rooms do not begin at multiples of 64 bytes.
  void expect_unaligned() { lines_.aligned = lines_.usual = false; }

  // Continues the array at `address`, with unlimited room. Lines are written whole: the bytes in
  // front of `address` in its line are rewritten unchanged.
  void begin(uint32_t array, T* address) {
    auto* at = reinterpret_cast<std::byte*>(address);
    std::byte* line = round_down(at, line_bytes_);
    auto before = static_cast<size_t>(at - line);
    if (before != 0) std::memcpy(storage_.get() + array * line_bytes_, line, before);
    at_[array] = static_cast<uint32_t>(array * line_bytes_ + before);
    rooms_[array] = {line, nullptr};
  }

  // Continues the array `bytes` inside a line. When the line is full, the array asks for room; the
  // bytes of the line in front are not the array's.
  void begin_within(uint32_t array, size_t bytes) {
    at_[array] = static_cast<uint32_t>(array * line_bytes_ + bytes);
    rooms_[array] = {};
  }

  // Adds items. `ahead`: items that will be added next; they are fetched into the cache. REQUIRES:
  // `order` is plain, or the map is by range or by splitters.
  void add(const T* items, size_t count, const BucketMap& map, const KeyOrder& order,
           const T* ahead) {
    kernels_.scatter_lines(items, count, map, order, lines_, ahead);
  }

  // Room of the next full line.
  const Room& room_of(uint32_t array) const { return rooms_[array]; }
  // Bytes that are only in the line so far.
  std::span<const std::byte> rest(uint32_t array) const {
    return {storage_.get() + array * line_bytes_, at_[array] - array * line_bytes_};
  }
  // Address of the next item, once all are written.
  T* end(uint32_t array) const {
    return reinterpret_cast<T*>(rooms_[array].next + rest(array).size());
  }
  // Number of items that fit behind the last one, once all are written.
  size_t items_left(uint32_t array) const {
    const auto bytes = static_cast<size_t>(rooms_[array].limit - rooms_[array].next);
    return (bytes - rest(array).size()) / sizeof(T);
  }

  // Writes the rest of the line; end() is then in memory.
  void flush(uint32_t array) { write_rest(lines_.maker, array, rooms_[array], rest(array)); }

 private:
  struct Free {
    void operator()(std::byte* lines) const { operator delete[](lines, std::align_val_t{4096}); }
  };

  const Kernels<T>& kernels_ = kernels<T>();
  const size_t line_bytes_;
  std::unique_ptr<std::byte[], Free> storage_;
  std::unique_ptr<uint32_t[]> at_;
  std::unique_ptr<Room[]> rooms_;
  Lines lines_;
};

}  // namespace penstock::scatter
