#pragma once

// A window of numbers that several threads distribute side by side. Its items are counted, each
// bucket is given room for exactly its count (in the order of the windows, so that equal keys keep
// their order), and then the items are written there, beside other windows.
//
// The inner loop writes whole lines past the caches, at multiples of their length. The room of a
// window begins and ends anywhere, and its neighbours belong to other threads. So the first line of
// a bucket is filled from the offset at which its room begins. When the line is full, only the
// window's own part of it is copied, and the line itself is written to a scratch area. The part of
// the last line that was filled is copied as well.

#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "files/sort/item_sum.h"
#include "files/sort/number_encoder.h"
#include "files/sort/split/distributor.h"
#include "sorting/scatter/lines.h"

namespace penstock::external {

// Thread safety: one thread at a time. Calls: count(), add_room() for each bucket in order, fill().
template <class T>
class NumberWindow final : public ItemWindow {
 public:
  NumberWindow(const scatter::BucketMap& map, const NumberEncoder<T>& encoder)
      : map_(map),
        encoder_(encoder),
        counts_(map.buckets),
        positions_(map.buckets),
        lines_(map.buckets) {
    lines_.ask_for_room(
        {[](void* self, uint32_t bucket, scatter::Room& room, const std::byte* line) {
           static_cast<NumberWindow*>(self)->make_room(bucket, room, line);
         },
         this});
  }

  // Counts and sums up the items of each bucket.
  void count() {
    counts_.assign(counts_.size(), 0);
    pieces_.clear();
    for (FillPosition& position : positions_) position = {};
    sum = {};
    for_each_chunk([this](std::span<const T> items) {
      scatter::kernels<T>().count(items.data(), items.size(), map_, counts_.data());
      sum += sum_of(items);
    });
  }
  uint64_t items(uint32_t bucket) const { return counts_[bucket]; }

  // Adds room for the bucket's next items. A bucket without room is only counted. REQUIRES: all
  // rooms of a bucket but the last end at multiples of a line, all but the first begin there.
  void add_room(uint32_t bucket, std::byte* from, std::byte* to) {
    FillPosition& position = positions_[bucket];
    if (position.room == no_room) {
      position.room = static_cast<uint32_t>(pieces_.size());
      position.skipped = reinterpret_cast<uintptr_t>(from) % line_bytes;
    }
    pieces_.push_back({from, to});
  }

  void fill() {
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket)
      if (counts_[bucket] > 0) lines_.begin_within(bucket, positions_[bucket].skipped);
    for_each_chunk([this](std::span<const T> items) {
      lines_.add(items.data(), items.size(), map_, {}, items.data() + items.size());
    });
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket)
      if (counts_[bucket] > 0) write_rest(bucket);
    scatter::finish_stores();
  }

 private:
  static constexpr size_t line_bytes = scatter::small_line_bytes;
  static constexpr uint32_t no_room = ~uint32_t{0};

  struct FillPosition {
    uint32_t room = no_room;  // index in pieces_ of the room that is being filled
    size_t skipped = 0;       // unused bytes in front of its first line, until that is full
  };

  // The chunks are small enough that counted items are still in the cache when they are summed up.
  template <class Use>
  void for_each_chunk(const Use& use) {
    constexpr size_t chunk_items = 8 * KiB / sizeof(T);
    const std::byte* at = begin;
    for (auto left = static_cast<size_t>(end() - at) / sizeof(T); left > 0;) {
      const std::span<const T> encoded = encoder_.encode(at, std::min(left, chunk_items));
      use(encoded);
      at += encoded.size_bytes();
      left -= encoded.size();
    }
  }

  scatter::Room& room_of(FillPosition& position) {
    if (pieces_[position.room].next == pieces_[position.room].limit) ++position.room;
    return pieces_[position.room];
  }

  // Called by the inner loop when the bucket's line is full.
  void make_room(uint32_t bucket, scatter::Room& room, const std::byte* line) {
    FillPosition& position = positions_[bucket];
    if (position.room == no_room) {
      room = {unread_, unread_ + sizeof(unread_)};
      return;
    }
    scatter::Room& piece = room_of(position);
    if (const size_t skipped = std::exchange(position.skipped, 0); skipped > 0) {
      std::memcpy(piece.next, line + skipped, line_bytes - skipped);
      piece.next += line_bytes - skipped;
      room = {unread_, unread_ + line_bytes};
      return;
    }
    room = {piece.next, round_down(piece.limit, line_bytes)};
    piece.next = room.limit;
  }

  void write_rest(uint32_t bucket) {
    FillPosition& position = positions_[bucket];
    const std::span<const std::byte> rest = lines_.rest(bucket).subspan(position.skipped);
    if (position.room == no_room || rest.empty()) return;
    const scatter::Room& room = lines_.room_of(bucket);
    std::byte* const to = room.next != room.limit ? room.next : room_of(position).next;
    std::memcpy(to, rest.data(), rest.size());
  }

  const scatter::BucketMap& map_;
  NumberEncoder<T> encoder_;
  std::vector<uint32_t> counts_;
  std::vector<FillPosition> positions_;
  std::vector<scatter::Room> pieces_;  // bucket by bucket
  scatter::LineScatter<T> lines_;
  alignas(64) std::byte unread_[4 * KiB];
};

}  // namespace penstock::external
