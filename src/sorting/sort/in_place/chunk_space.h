#pragma once

// The memory of a distribution in place: an array that is input, buckets and output at once.
//
// See chunk_space.cc for the idea.

#include <algorithm>
#include <array>
#include <atomic>
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
  static constexpr uint32_t numbers_min = 4;

 public:
  // The numbers of a list's chunks. They grow in memory that the space has reserved, so that an
  // append cannot fail when items are between two places.
  class ListedChunks {
   public:
    size_t size() const { return size_; }
    const uint32_t* begin() const { return numbers_; }
    const uint32_t* end() const { return numbers_ + size_; }
    uint32_t operator[](size_t index) const { return numbers_[index]; }
    void clear() { size_ = 0; }

   private:
    friend class ChunkSpace;
    bool is_full() const { return size_ == capacity_; }
    // Capacity after growing; at least room for an address when the list has ended.
    uint32_t longer() const { return std::max(2 * capacity_, numbers_min); }
    void move_to(uint32_t* numbers);  // `numbers` has longer() capacity
    void add(uint32_t chunk) { numbers_[size_++] = chunk; }

    uint32_t* numbers_ = nullptr;
    uint32_t size_ = 0;
    uint32_t capacity_ = 0;
  };
  // Chunks that together contain one sequence of bytes, in order; all are full but the last.
  struct List {
    ListedChunks chunks = {};
    uint32_t region = 0;  // region that its chunks should be in
  };

  struct Options {
    std::byte* array = nullptr;
    uint64_t array_bytes = 0;  // a multiple of chunk_bytes
    size_t chunk_bytes = 0;
    uint32_t spare_chunks = 0;   // beyond the array; only addresses until used
    bool array_is_input = true;  // otherwise all of it is free at the start
    uint64_t lists = 0;          // lists of the first distribution, in all shares together
  };
  static Result<std::unique_ptr<ChunkSpace>> open(const Options& options);

  uint32_t array_chunks() const { return array_chunks_; }
  size_t chunk_bytes() const { return chunk_bytes_; }
  std::byte* address(uint32_t chunk) const {
    return chunk < array_chunks_ ? array_ + uint64_t{chunk} * chunk_bytes_
                                 : spare_.begin() + uint64_t{chunk - array_chunks_} * chunk_bytes_;
  }

  // Divides the array: region i is about where the output of bucket i will be. It takes the share
  // shares[i] of the array, moved towards the end by `shift_chunks`.
  void divide(std::span<const uint64_t> shares, uint32_t shift_chunks);
  // The array in rounds, each with some chunks of every region, so that all regions get free at the
  // same pace. A thread reads one round at a time: its items go to the chunks that it has freed.
  uint32_t rounds(unsigned threads) const;
  void list_round(uint32_t round, uint32_t rounds, std::vector<uint32_t>& chunks) const;

  // For distributing an array that is input: each thread gets a share(), after divide() and before
  // any append(). When all have been joined, the calls below are allowed.
  class Share;
  Share share(unsigned threads) EXCLUDES_LOCK(mutex_);
  // One of several threads that read the array.
  struct Reader {
    unsigned index;
    unsigned threads;
    bool in_order;
    std::atomic<uint32_t>& next_round;  // starts at 0, shared by all
  };
  // Calls read(chunk, next) for its chunks, which become the share's: in order for its part of the
  // array, otherwise for the rounds that it claims. `next` is the chunk to be read after it.
  template <class Read>
  void read_array(const Reader& reader, Share& share, Read read) const;
  void join(Share& share, std::span<List> lists) EXCLUDES_LOCK(mutex_);

  // All of these are thread-safe, except for two calls about one list at a time.
  //
  // Appends a free chunk to the list and returns its address. `stays`: nobody moves it before
  // end_reading(). Needed if other threads may call clear() while it is written.
  std::byte* append(List& list, bool stays = false) EXCLUDES_LOCK(mutex_);
  // Keeps the chunk in place until release().
  std::byte* begin_reading(List& list, size_t index) EXCLUDES_LOCK(mutex_);
  void begin_reading(std::span<List* const> lists) EXCLUDES_LOCK(mutex_);  // all chunks
  // Allows moving the chunks again; they still contain items.
  void end_reading(std::span<List* const> lists) EXCLUDES_LOCK(mutex_);
  void release(List& list, size_t index) EXCLUDES_LOCK(mutex_);
  void release(std::span<List* const> lists) EXCLUDES_LOCK(mutex_);
  // Ends the lists, which are empty: others may reuse the memory of their numbers.
  void recycle(std::span<List* const> lists) EXCLUDES_LOCK(mutex_);
  // Makes [from, to) of the array free for output, permanently: moves chunks with items elsewhere,
  // waits for those being read.
  void clear(const std::byte* from, const std::byte* to) EXCLUDES_LOCK(mutex_);

  uint64_t chunks_moved() const { return moved_; }

 private:
  static constexpr uint32_t none = ~uint32_t{0};
  enum class State : uint8_t { input, free, taken, reading, moving, output };
  struct Chunk {
    List* owner = nullptr;  // taken, reading, moving
    uint32_t index = 0;     // in owner->chunks
    uint16_t region = 0;
    State state = State::input;
  };

  // Numbers of chunks, in a list for each region. Thread safety: none.
  class Numbers {
   public:
    // The region behind the last contains the spare chunks.
    void open(uint32_t regions, size_t expected);
    void put(uint32_t region, uint32_t chunk);
    // Takes a chunk of this region, of the spare ones, of those further on, or any; or `none`.
    uint32_t take(uint32_t region);
    uint32_t pop(uint32_t region);
    uint32_t regions() const { return static_cast<uint32_t>(heads_.size()); }

   private:
    struct Node {
      uint32_t chunk;
      uint32_t next;
    };
    std::vector<uint32_t> heads_;   // nodes, one for each region
    std::vector<uint64_t> filled_;  // a bit for each region that has chunks
    std::vector<Node> nodes_;
    uint32_t free_node_ = none;  // the first unused node
  };

  struct Move {
    uint32_t from;
    uint32_t to;
  };
  static constexpr size_t moves_max = 64;  // at a time

  ChunkSpace() = default;
  uint32_t* new_numbers(uint32_t capacity) const;
  uint32_t* reused_numbers(uint32_t capacity) REQUIRES_LOCK(mutex_);
  void recycle_numbers(ListedChunks chunks) REQUIRES_LOCK(mutex_);
  uint32_t spare_region() const { return static_cast<uint32_t>(region_starts_.size()); }
  uint32_t take(uint32_t region) REQUIRES_LOCK(mutex_);
  void put(uint32_t chunk) REQUIRES_LOCK(mutex_);
  // Begins moves out of the range and returns their number. Waits for chunks being read there, and
  // steps over those that are cleared.
  size_t begin_moves(uint64_t& first, uint64_t end, std::span<Move> moves) EXCLUDES_LOCK(mutex_);
  void end_moves(std::span<const Move> moves) EXCLUDES_LOCK(mutex_);
  void prefetch_table(uint64_t first, uint64_t end) const;

  std::byte* array_ = nullptr;
  uint32_t array_chunks_ = 0;
  uint32_t chunks_total_ = 0;
  size_t chunk_bytes_ = 0;
  os::Reservation spare_;
  os::ZeroedTable<uint32_t> numbers_;  // memory for lists
  mutable std::atomic<uint64_t> numbers_used_{0};
  std::vector<uint32_t> region_starts_;  // first chunk of each region in the array, and an end

  Mutex mutex_;
  Condition changed_;  // a state, from reading or moving
  std::vector<Chunk> chunks_;
  Numbers free_ GUARDED_BY(mutex_);  // some listed chunks are output by now
  // Unused arrays of numbers, by the logarithm of their capacity; each has the next one's address.
  std::array<uint32_t*, 32> recycled_ GUARDED_BY(mutex_) = {};
  uint64_t moved_ = 0;  // changed under the lock, read when all threads have ended
};

// One thread's chunks while it distributes: its part of the spare chunks, and the chunks of the
// input that it has read. Thread safety: one thread; several shares at the same time.
class ChunkSpace::Share {
 public:
  std::byte* append(List& list);
  // Makes a chunk of the input, which has been read, free.
  void release_input(uint32_t chunk) { free_.put(space_->chunks_[chunk].region, chunk); }

 private:
  friend class ChunkSpace;
  const ChunkSpace* space_ = nullptr;
  Numbers free_;
  std::vector<uint32_t> round_;  // the chunks of a round; capacity for any
};

template <class Read>
void ChunkSpace::read_array(const Reader& reader, Share& share, Read read) const {
  if (reader.in_order) {
    const uint64_t chunks = array_chunks_;
    const auto end = static_cast<uint32_t>(chunks * (reader.index + 1) / reader.threads);
    for (auto i = static_cast<uint32_t>(chunks * reader.index / reader.threads); i < end; ++i) {
      read(i, i + 1);
      share.release_input(i);
    }
    return;
  }
  const uint32_t all = rounds(reader.threads);
  std::vector<uint32_t>& chunks = share.round_;
  for (uint32_t round = reader.next_round++; round < all; round = reader.next_round++) {
    list_round(round, all, chunks);
    for (size_t i = 0; i < chunks.size(); ++i) {
      read(chunks[i], chunks[std::min(i + 1, chunks.size() - 1)]);
      share.release_input(chunks[i]);
    }
  }
}

}  // namespace penstock::sorting
