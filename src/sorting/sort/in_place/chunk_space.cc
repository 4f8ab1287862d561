#include "sorting/sort/in_place/chunk_space.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "base/bits.h"
#include "base/check.h"

// A distribution in place, without moving pages.
//
// Swapping items until each lies in its bucket is in place, too, but needs random access and two
// passes, because the buckets' bounds must be known. The paper (000, section 5) returns pages that
// were read to the streams' system, and takes them as the next pages of a bucket: one pass, but
// each block costs two changes of the address space, about 5 us alone and 60 us when another thread
// runs; blocks must be large for that, and a thousand buckets of large blocks waste much memory;
// pages become small, and memory that cannot be moved (shared, locked, file-backed) must be copied.
//
// Here the array itself is the pool. It is cut into chunks of a few KiB. A chunk that was read is
// free, and becomes the next chunk of any bucket; a bucket is a list of chunks. So the first pass
// needs no more than one partly filled chunk for each bucket and thread. Then every bucket has to
// move to its place, which costs nothing if it is there already:
//
//   1. A sample predicts the place of each bucket: its region of the array.
//   2. Input is not read from front to back but from all regions in turn, at the same pace. As the
//      buckets fill, each finds chunks free in its own region.
//   3. All regions are moved towards the end by a little more than the sample may be wrong (the
//      last ones reach into the spare chunks). Buckets are then finished in order: one is read into
//      the cache, its chunks are free, and its sorted items go to their final place. By then no
//      other bucket's chunks are there, because all that still contain items lie further on.
//
//     array  |0 0 0|1 1 1 1|2 2|3 3 3 3|4 4 4     final places (known after the pass)
//     chunks     |0 0 0|1 1 1 1|2 2|3 3 3 3|4 4 4  their chunks; the last ones in spare chunks
//
// If the guess fails, no chunk is free when its region's bucket needs one (any other is taken), or
// items lie where output must go (clear() moves them to a free chunk): correct in any case, and
// slower by a copy of that chunk. Input that must be read in order (stable sorts) is the extreme:
// about every chunk is copied once.
//
// Several threads. With one lock over all chunks, taken for each of them, one thread was twice as
// fast as the best other sort, but sixteen were half as fast. A thread that distributes needs no
// other. It fills as many chunks as it reads, and at most one more for each bucket. So it takes the
// chunks that it has read, and begins with a share of the spare chunks; and as it reads all regions
// at one pace, too, it finds its own chunks free in the region that it wants. Only their numbers
// move, in lists of the thread; the state of the chunks themselves is written at the end, from the
// buckets' lists (join()). From then on, when buckets are finished, any thread may move chunks that
// contain items; a bucket takes the lock three times, and chunks are copied without it.
//
// Invariants, under the lock, when all shares are joined: every chunk is in one State. A taken,
// reading or moving chunk is owner->chunks[index], except for the new place of a move (reading),
// which enters the list when the copy is done. Free chunks are in the list of their region, each
// once (a list may also contain chunks that have become `output` since; take() drops them). Chunks
// with items, and partly filled ones, are never more than the array's and spare_chunks together:
// spare_chunks must be at least the number of partly filled chunks at one time (threads * buckets),
// plus a few that are read. A share's part of them must be at least its buckets, and one more for
// input that lies in no chunk.
//
// Waiting. clear() waits for chunks that another thread is reading, and begins to wait when it is
// moving none. begin_reading() waits for chunks that are being moved. A thread whose chunks are
// `reading` neither clears nor waits: chunks that it begins to read again are `reading` already. So
// no thread waits for one that waits.

namespace penstock::sorting {

Result<std::unique_ptr<ChunkSpace>> ChunkSpace::open(const Options& options) {
  std::unique_ptr<ChunkSpace> space(new ChunkSpace);
  space->array_ = options.array;
  space->chunk_bytes_ = options.chunk_bytes;
  space->array_chunks_ = static_cast<uint32_t>(options.array_bytes / options.chunk_bytes);
  space->chunks_total_ = space->array_chunks_ + options.spare_chunks;
  uint64_t spare_bytes =
      round_up(uint64_t{options.spare_chunks} * options.chunk_bytes, os::huge_page_bytes);
  auto spare =
      os::zeroed(spare_bytes, "get memory to sort in", "spare chunks", {}, os::huge_page_bytes);
  if (!spare) return std::unexpected(spare.error());
  spare->charge();
  space->spare_ = std::move(*spare);
  // A list of n numbers has used arrays of fewer than 4n together, and each distribution (at most
  // three are nested) lists each chunk once.
  auto numbers = os::ZeroedTable<uint32_t>::open(
      16 * uint64_t{space->chunks_total_} + 2 * numbers_min * options.lists,
      "get memory to sort in", "lists of chunks");
  if (!numbers) return std::unexpected(numbers.error());
  space->numbers_ = std::move(*numbers);
  // Small ones would waste a huge page.
  if (spare_bytes >= 8 * os::huge_page_bytes)
    (void)os::advise_huge(space->spare_.begin(), spare_bytes, true);
  space->chunks_.resize(space->chunks_total_);
  const State first = options.array_is_input ? State::input : State::free;
  for (Chunk& chunk : std::span(space->chunks_).first(space->array_chunks_)) chunk.state = first;
  for (Chunk& chunk : std::span(space->chunks_).subspan(space->array_chunks_))
    chunk.state = State::free;
  uint64_t everything = 1;
  space->divide({&everything, 1}, 0);
  return space;
}

void ChunkSpace::divide(std::span<const uint64_t> shares, uint32_t shift_chunks) {
  uint64_t total = 0;
  for (uint64_t share : shares) total += share;
  region_starts_.clear();
  double before = 0;
  for (uint64_t share : shares) {
    double start = shift_chunks + before / static_cast<double>(total) * array_chunks_;
    region_starts_.push_back(static_cast<uint32_t>(std::min<double>(start, array_chunks_)));
    before += static_cast<double>(share);
  }
  region_starts_.push_back(array_chunks_);
  MutexLock lock(mutex_);
  // Chunks before the first region are used last: one more region.
  PENSTOCK_CHECK(spare_region() <= std::numeric_limits<uint16_t>::max(), "too many regions");
  const auto shares_end = static_cast<uint16_t>(shares.size());
  for (uint16_t region = 0; region < shares_end; ++region) {
    for (uint32_t i = region_starts_[region]; i < region_starts_[region + 1]; ++i)
      chunks_[i].region = region;
  }
  for (uint32_t i = 0; i < region_starts_[0]; ++i) chunks_[i].region = shares_end;
  for (uint32_t i = array_chunks_; i < chunks_total_; ++i)
    chunks_[i].region = static_cast<uint16_t>(spare_region());
  free_.open(spare_region(), chunks_total_);  // each chunk is in it at most once
  for (uint32_t i = chunks_total_; i-- > 0;) {
    if (chunks_[i].state == State::free) put(i);
  }
}

uint32_t ChunkSpace::rounds(unsigned threads) const {
  constexpr uint32_t rounds_each = 8;
  const auto regions = static_cast<uint32_t>(region_starts_.size() - 1);
  return std::max(array_chunks_ / regions, rounds_each * threads);
}

void ChunkSpace::list_round(uint32_t round, uint32_t rounds, std::vector<uint32_t>& chunks) const {
  chunks.clear();
  auto add = [&](uint32_t begin, uint32_t end) {
    const uint64_t count = end - begin;
    const uint64_t last = count * (round + 1) / rounds;
    for (uint64_t i = count * round / rounds; i < last; ++i)
      chunks.push_back(begin + static_cast<uint32_t>(i));
  };
  add(0, region_starts_[0]);
  for (size_t i = 0; i + 1 < region_starts_.size(); ++i)
    add(region_starts_[i], region_starts_[i + 1]);
}

// ---- numbers in lists

uint32_t* ChunkSpace::new_numbers(uint32_t capacity) const {
  // Relaxed: nobody had the memory before, and the list publishes its address.
  const uint64_t at = numbers_used_.fetch_add(capacity, std::memory_order_relaxed);
  PENSTOCK_CHECK(at + capacity <= numbers_.size(),
                 "a sort in place has no room for the numbers of chunks");
  return numbers_.begin() + at;
}

uint32_t* ChunkSpace::reused_numbers(uint32_t capacity) {
  uint32_t*& first = recycled_[static_cast<size_t>(std::countr_zero(capacity))];
  if (first == nullptr) return new_numbers(capacity);
  uint32_t* const numbers = first;
  std::memcpy(&first, numbers, sizeof(first));
  return numbers;
}

void ChunkSpace::recycle_numbers(ListedChunks chunks) {
  if (chunks.capacity_ == 0) return;
  uint32_t*& first = recycled_[static_cast<size_t>(std::countr_zero(chunks.capacity_))];
  std::memcpy(chunks.numbers_, &first, sizeof(first));
  first = chunks.numbers_;
}

void ChunkSpace::ListedChunks::move_to(uint32_t* numbers) {
  std::copy(begin(), end(), numbers);
  capacity_ = longer();
  numbers_ = numbers;
}

void ChunkSpace::recycle(std::span<List* const> lists) {
  MutexLock lock(mutex_);
  for (List* list : lists) recycle_numbers(std::exchange(list->chunks, {}));
}

// ---- numbers of free chunks

void ChunkSpace::Numbers::open(uint32_t regions, size_t expected) {
  heads_.assign(regions + 1, none);
  filled_.assign(ceil_div(regions, 64), 0);
  nodes_.clear();
  nodes_.reserve(expected);
  free_node_ = none;
}

void ChunkSpace::Numbers::put(uint32_t region, uint32_t chunk) {
  uint32_t node = free_node_;
  if (node != none) {
    free_node_ = nodes_[node].next;
    nodes_[node] = {chunk, heads_[region]};
  } else {
    node = static_cast<uint32_t>(nodes_.size());
    nodes_.push_back({chunk, heads_[region]});
  }
  heads_[region] = node;
  if (region + 1 < regions()) filled_[region / 64] |= uint64_t{1} << (region % 64);
}

uint32_t ChunkSpace::Numbers::pop(uint32_t region) {
  const uint32_t node = heads_[region];
  if (node == none) return none;
  heads_[region] = nodes_[node].next;
  nodes_[node].next = free_node_;
  free_node_ = node;
  if (heads_[region] == none && region + 1 < regions())
    filled_[region / 64] &= ~(uint64_t{1} << (region % 64));
  return nodes_[node].chunk;
}

uint32_t ChunkSpace::Numbers::take(uint32_t region) {
  const uint32_t spare = regions() - 1;
  for (uint32_t wanted : {region, spare}) {
    if (uint32_t chunk = pop(wanted); chunk != none) return chunk;
  }
  // Further regions first: their chunks are in nobody's way for longer. Then the nearest region in
  // front, which will be written last of these: usually with the bucket's end. Last, the array's
  // start.
  uint64_t word = region / 64;
  uint64_t bits = filled_[word] & (~uint64_t{0} << (region % 64));
  while (bits == 0 && ++word < filled_.size()) bits = filled_[word];
  const auto next =
      static_cast<uint32_t>(word * 64 + static_cast<unsigned>(std::countr_zero(bits)));
  if (bits != 0 && next + 1 < spare) return pop(next);
  word = region / 64;
  bits = filled_[word] & ~(~uint64_t{0} << (region % 64));
  while (bits == 0 && word-- > 0) bits = filled_[word];
  if (bits != 0)
    return pop(
        static_cast<uint32_t>(word * 64 + 63 - static_cast<unsigned>(std::countl_zero(bits))));
  return pop(spare - 1);
}

// ---- shares

ChunkSpace::Share ChunkSpace::share(unsigned threads) {
  Share share;
  share.space_ = this;
  const uint32_t spare = (chunks_total_ - array_chunks_) / threads;
  share.free_.open(spare_region(), 2 * size_t{spare});
  share.round_.reserve(array_chunks_ / rounds(threads) + region_starts_.size() + 1);
  MutexLock lock(mutex_);
  std::vector<uint32_t> chunks(spare);
  for (uint32_t& chunk : chunks) {
    chunk = free_.pop(spare_region());
    PENSTOCK_CHECK(chunk != none, "more shares than threads");
  }
  for (size_t i = spare; i-- > 0;) share.free_.put(spare_region(), chunks[i]);
  return share;
}

std::byte* ChunkSpace::Share::append(List& list) {
  const uint32_t chunk = free_.take(list.region);
  PENSTOCK_CHECK(chunk != none, "a thread that sorts in place has no free chunk");
  if (list.chunks.is_full()) list.chunks.move_to(space_->new_numbers(list.chunks.longer()));
  list.chunks.add(chunk);
  return space_->address(chunk);
}

void ChunkSpace::join(Share& share, std::span<List> lists) {
  for (List& list : lists) {
    for (uint32_t i = 0; i < list.chunks.size(); ++i) {
      Chunk& chunk = chunks_[list.chunks[i]];
      chunk.state = State::taken;
      chunk.owner = &list;
      chunk.index = i;
    }
  }
  MutexLock lock(mutex_);
  for (uint32_t region = 0; region < share.free_.regions(); ++region) {
    for (uint32_t chunk = share.free_.pop(region); chunk != none; chunk = share.free_.pop(region))
      put(chunk);
  }
  share.free_ = {};
}

// ---- functions for any thread and any chunk

void ChunkSpace::put(uint32_t chunk) {
  chunks_[chunk].state = State::free;
  chunks_[chunk].owner = nullptr;
  free_.put(chunks_[chunk].region, chunk);
}

uint32_t ChunkSpace::take(uint32_t region) {
  for (;;) {
    const uint32_t chunk = free_.take(region);
    PENSTOCK_CHECK(chunk != none, "a sort in place has no free chunk");
    if (chunks_[chunk].state == State::free) return chunk;
  }
}

// Prefetches states before the lock is taken: mostly other threads have written them.
void ChunkSpace::prefetch_table(uint64_t first, uint64_t end) const {
  constexpr size_t line_bytes = 64;
  const auto* from = reinterpret_cast<const std::byte*>(chunks_.data() + first);
  const auto* to = reinterpret_cast<const std::byte*>(chunks_.data() + end);
  for (; from < to; from += line_bytes) __builtin_prefetch(from, 1);
}

std::byte* ChunkSpace::append(List& list, bool stays) {
  MutexLock lock(mutex_);
  uint32_t chunk = take(list.region);
  chunks_[chunk].state = stays ? State::reading : State::taken;
  chunks_[chunk].owner = &list;
  chunks_[chunk].index = static_cast<uint32_t>(list.chunks.size());
  if (list.chunks.is_full()) {
    const ListedChunks full = list.chunks;
    list.chunks.move_to(reused_numbers(full.longer()));
    recycle_numbers(full);
  }
  list.chunks.add(chunk);
  return address(chunk);
}

std::byte* ChunkSpace::begin_reading(List& list, size_t index) {
  MutexLock lock(mutex_);
  while (chunks_[list.chunks[index]].state == State::moving) changed_.wait(mutex_);
  chunks_[list.chunks[index]].state = State::reading;
  return address(list.chunks[index]);
}

void ChunkSpace::begin_reading(std::span<List* const> lists) {
  // The region of most of their chunks.
  const uint32_t region = lists.front()->region;
  if (region + 1 < region_starts_.size()) {
    uint64_t count = 0;
    for (const List* list : lists) count += list->chunks.size();
    const uint64_t start = region_starts_[region];
    prefetch_table(start, std::min<uint64_t>(start + count, region_starts_[region + 1]));
  }
  MutexLock lock(mutex_);
  // Waits before it has begun with any.
  auto moves = [this](uint32_t chunk) { return chunks_[chunk].state == State::moving; };
  auto some_move = [&](const List* list) { return std::ranges::any_of(list->chunks, moves); };
  while (std::ranges::any_of(lists, some_move)) changed_.wait(mutex_);
  for (List* list : lists) {
    for (uint32_t chunk : list->chunks) chunks_[chunk].state = State::reading;
  }
}

void ChunkSpace::end_reading(std::span<List* const> lists) {
  MutexLock lock(mutex_);
  for (List* list : lists) {
    for (uint32_t chunk : list->chunks) {
      if (chunks_[chunk].state == State::reading) chunks_[chunk].state = State::taken;
    }
  }
  changed_.notify_all();
}

void ChunkSpace::release(List& list, size_t index) {
  MutexLock lock(mutex_);
  put(list.chunks[index]);
  changed_.notify_all();
}

void ChunkSpace::release(std::span<List* const> lists) {
  MutexLock lock(mutex_);
  for (List* list : lists) {
    for (uint32_t chunk : list->chunks) put(chunk);
    recycle_numbers(std::exchange(list->chunks, {}));
  }
  changed_.notify_all();
}

void ChunkSpace::clear(const std::byte* from, const std::byte* to) {
  if (to <= array_ || from == to) return;
  auto first = from <= array_ ? 0 : static_cast<uint64_t>(from - array_) / chunk_bytes_;
  auto end =
      std::min<uint64_t>(array_chunks_, ceil_div(static_cast<uint64_t>(to - array_), chunk_bytes_));
  if (first >= end) return;
  prefetch_table(first, end);
  Move memory[moves_max];
  for (;;) {
    const std::span<const Move> moves = std::span(memory).first(begin_moves(first, end, memory));
    if (moves.empty()) return;
    for (const Move& move : moves) std::memcpy(address(move.to), address(move.from), chunk_bytes_);
    end_moves(moves);
  }
}

// New places are `reading` until the chunks are copied, so that nobody moves them again.
size_t ChunkSpace::begin_moves(uint64_t& first, uint64_t end, std::span<Move> moves) {
  MutexLock lock(mutex_);
  for (;;) {
    // Free chunks in the range must not become new places of chunks moved out of it.
    for (Chunk& chunk : std::span(chunks_).subspan(first, end - first)) {
      if (chunk.state == State::free) chunk.state = State::output;
    }
    while (first < end && chunks_[first].state == State::output) ++first;  // permanently
    if (first == end) return 0;
    size_t count = 0;
    for (uint64_t i = first; i < end && count < moves.size(); ++i) {
      Chunk& chunk = chunks_[i];
      if (chunk.state != State::taken) continue;
      chunk.state = State::moving;
      const uint32_t to = take(chunk.owner->region);
      chunks_[to] = {chunk.owner, chunk.index, chunks_[to].region, State::reading};
      moves[count++] = {static_cast<uint32_t>(i), to};
    }
    if (count > 0) return count;
    changed_.wait(mutex_);
  }
}

void ChunkSpace::end_moves(std::span<const Move> moves) {
  MutexLock lock(mutex_);
  for (const Move& move : moves) {
    Chunk& from = chunks_[move.from];
    from.owner->chunks.numbers_[from.index] = move.to;
    from.state = State::output;
    chunks_[move.to].state = State::taken;
  }
  moved_ += moves.size();
  changed_.notify_all();
}

}  // namespace penstock::sorting
