#pragma once

// The room in which a distribution is in place: an array that is input, buckets and output at once.
//
// See chunk_space.cc for the idea.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::sorting {

class ChunkSpace {
 public:
  // Chunks that together hold one sequence of bytes, in order; all are full but the last.
  struct List {
    std::vector<uint32_t> chunks;
    uint32_t region = 0;  // where its chunks are best
  };

  struct Options {
    std::byte* array = nullptr;
    uint64_t array_bytes = 0;  // a multiple of chunk_bytes
    size_t chunk_bytes = 0;
    uint32_t spare_chunks = 0;   // beyond the array; address space until used
    bool array_is_input = true;  // otherwise all of it is free at the start
  };
  static Result<std::unique_ptr<ChunkSpace>> open(const Options& options);

  uint32_t array_chunks() const { return array_chunks_; }
  size_t chunk_bytes() const { return chunk_bytes_; }
  std::byte* address(uint32_t chunk) const {
    return chunk < array_chunks_ ? array_ + uint64_t{chunk} * chunk_bytes_
                                 : spare_.begin() + uint64_t{chunk - array_chunks_} * chunk_bytes_;
  }

  // Region i is about where the output of bucket i will be: it takes the share shares[i] of the
  // array, moved towards the end by `shift_chunks`.
  void divide(std::span<const uint64_t> shares, uint32_t shift_chunks);
  // The chunks of the array in an order that frees all regions at the same pace.
  std::vector<uint32_t> interleaved() const;

  // All of these are thread-safe, but for two calls about one list at a time.
  //
  // Appends a free chunk to the list and returns its address. `stays`: as after begin_reading(). A
  // chunk must, as long as it is written while other threads may call clear().
  std::byte* append(List& list, bool stays = false) EXCLUDES_LOCK(mutex_) {
    return append_after(list, stays, {});
  }
  // The same, when these chunks of the input have been read and are free again: one lock for both,
  // which waits for all stores before it.
  std::byte* append_after(List& list, bool stays, std::span<const uint32_t> read)
      EXCLUDES_LOCK(mutex_);
  // Chunks of the input have been read.
  void release_input(std::span<const uint32_t> chunks) EXCLUDES_LOCK(mutex_);
  // From now on the chunk stays where it is until release().
  std::byte* begin_reading(List& list, size_t index) EXCLUDES_LOCK(mutex_);
  void begin_reading(List& list) EXCLUDES_LOCK(mutex_);  // all of them
  // The chunks still hold items, and may be moved again.
  void end_reading(List& list) EXCLUDES_LOCK(mutex_);
  void release(List& list, size_t index) EXCLUDES_LOCK(mutex_);
  void release(List& list) EXCLUDES_LOCK(mutex_);
  // Makes [from, to) of the array free for output, for good: moves what lies there elsewhere, waits
  // for what is being read.
  void clear(const std::byte* from, const std::byte* to) EXCLUDES_LOCK(mutex_);

  uint64_t chunks_moved() const { return moved_; }

 private:
  static constexpr uint32_t none = ~uint32_t{0};
  enum class State : uint8_t { input, free, taken, reading, output };
  struct Chunk {
    List* owner;     // taken, reading
    uint32_t index;  // in owner->chunks
    uint32_t next_free;
    uint32_t region;
    State state;
  };

  ChunkSpace() = default;
  uint32_t take(uint32_t region) REQUIRES_LOCK(mutex_);
  void put(uint32_t chunk) REQUIRES_LOCK(mutex_);
  uint32_t pop(uint32_t region) REQUIRES_LOCK(mutex_);

  std::byte* array_ = nullptr;
  uint32_t array_chunks_ = 0;
  uint32_t chunks_total_ = 0;
  size_t chunk_bytes_ = 0;
  os::Reservation spare_;
  std::vector<uint32_t> region_starts_;  // chunk of the array where each region begins, and an end

  Mutex mutex_;
  Condition read_;
  std::vector<Chunk> chunks_;
  std::vector<uint32_t> free_heads_ GUARDED_BY(mutex_);    // one of each region
  std::vector<uint64_t> free_regions_ GUARDED_BY(mutex_);  // a bit for each that is not empty
  uint32_t spare_next_ GUARDED_BY(mutex_) = 0;             // the first that was never used
  uint64_t moved_ = 0;
};

}  // namespace penstock::sorting
