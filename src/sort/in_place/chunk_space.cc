#include "sort/in_place/chunk_space.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"

// A distribution in place, without moving pages.
//
// The naive way in place swaps items until each lies in its bucket: random access, and two passes,
// because the buckets' bounds must be known. The paper's way (000, section 5) gives pages that were
// read back to the system of streams, and takes them as the next pages of a bucket: one pass, but
// each block costs two changes of the address space, about 5 us alone and 60 us when another thread
// runs; blocks must be large for that, and a thousand buckets of large blocks waste much memory;
// pages become small, and what cannot be moved (shared, locked, file-backed) must be copied.
//
// Here the array itself is the pool. It is cut into chunks of a few KiB. A chunk that was read is
// free, and becomes the next chunk of any bucket; a bucket is a list of chunks. So the first pass
// needs no more than one partly filled chunk for each bucket and thread. What remains is to bring
// every bucket to its place, and that costs nothing if it is there already:
//
//   1. About where each bucket will end up is known from a sample: its region of the array.
//   2. Input is not read from front to back but from all regions in turn, at the same pace. As the
//      buckets fill, each finds chunks free in its own region.
//   3. All regions are moved towards the end by a little more than the sample may be wrong (the
//      last ones reach into the spare chunks). Buckets are then finished in order: one is read into
//      the cache, its chunks are free, and its sorted items go to their final place. By then nobody
//      else's chunks are there, for all that still hold something lie further on.
//
//     array  |0 0 0|1 1 1 1|2 2|3 3 3 3|4 4 4     final places (known after the pass)
//     chunks     |0 0 0|1 1 1 1|2 2|3 3 3 3|4 4 4  where they are; the last ones in spare chunks
//
// Where the guess fails, a chunk is not free when its region's bucket needs one (any other is
// taken), or something lies where output must go (clear() moves it to a free chunk): correct in
// any case, and a copy of that chunk slower. Input that must be read in order (stable sorts) is the
// extreme: about every chunk is copied once.
//
// Invariants, under the lock: every chunk is in one State. A `taken` or `reading` chunk is
// owner->chunks[index]. Free chunks are in the list of their region, each once (a list may also
// hold chunks that have become `output` since; pop() drops them). Chunks that hold items, and
// partly filled ones, are never more than the array's and spare_chunks together: spare_chunks must
// be at least what is partly filled at one time (threads * buckets), plus a few that are read.
//
// Who waits for whom: clear() waits for chunks that another thread is reading. Reading never waits
// but for the lock, so there is no cycle.

namespace penstock::sorting {

Result<std::unique_ptr<ChunkSpace>> ChunkSpace::open(const Options& options) {
  std::unique_ptr<ChunkSpace> space(new ChunkSpace);
  space->array_ = options.array;
  space->chunk_bytes_ = options.chunk_bytes;
  space->array_chunks_ = static_cast<uint32_t>(options.array_bytes / options.chunk_bytes);
  space->chunks_total_ = space->array_chunks_ + options.spare_chunks;
  uint64_t spare_bytes =
      round_up(uint64_t{options.spare_chunks} * options.chunk_bytes, os::huge_page_bytes);
  auto spare = os::Reservation::reserve(spare_bytes);
  if (!spare) return std::unexpected(spare.error());
  spare->charge();
  space->spare_ = std::move(*spare);
  if (int error = os::commit(space->spare_.begin(), spare_bytes); error != 0)
    return system_error(error, "get memory to sort in", "spare chunks");
  // Small ones would take a huge page for little.
  if (spare_bytes >= 8 * os::huge_page_bytes)
    (void)os::advise_huge(space->spare_.begin(), spare_bytes, true);
  State first = options.array_is_input ? State::input : State::free;
  space->chunks_.assign(space->chunks_total_, Chunk{nullptr, 0, none, 0, State::free});
  for (uint32_t i = 0; i < space->array_chunks_; ++i) space->chunks_[i].state = first;
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
  // What lies before the first region is used last: one region more.
  auto regions = static_cast<uint32_t>(shares.size()) + 1;
  free_heads_.assign(regions, none);
  free_regions_.assign(ceil_div(regions, 64), 0);
  for (uint32_t region = 0; region + 1 < regions; ++region) {
    for (uint32_t i = region_starts_[region]; i < region_starts_[region + 1]; ++i)
      chunks_[i].region = region;
  }
  for (uint32_t i = 0; i < region_starts_[0]; ++i) chunks_[i].region = regions - 1;
  for (uint32_t i = array_chunks_; i < chunks_total_; ++i) chunks_[i].region = regions - 2;
  spare_next_ = array_chunks_;
  for (uint32_t i = array_chunks_; i-- > 0;) {
    if (chunks_[i].state == State::free) put(i);
  }
}

std::vector<uint32_t> ChunkSpace::interleaved() const {
  // A chunk that is the k-th of m in its region comes at (k + 1/2) / m of the way: counting sort.
  std::vector<uint32_t> places(array_chunks_);
  std::vector<uint32_t> starts(array_chunks_ + 1, 0);
  auto place_region = [&](uint32_t begin, uint32_t end) {
    for (uint32_t i = begin; i < end; ++i) {
      places[i] = static_cast<uint32_t>((2 * uint64_t{i - begin} + 1) * array_chunks_ /
                                        (2 * uint64_t{end - begin}));
      ++starts[places[i] + 1];
    }
  };
  place_region(0, region_starts_[0]);
  for (size_t i = 0; i + 1 < region_starts_.size(); ++i)
    place_region(region_starts_[i], region_starts_[i + 1]);
  for (uint32_t i = 0; i < array_chunks_; ++i) starts[i + 1] += starts[i];
  std::vector<uint32_t> order(array_chunks_);
  for (uint32_t i = 0; i < array_chunks_; ++i) order[starts[places[i]]++] = i;
  return order;
}

void ChunkSpace::put(uint32_t chunk) {
  Chunk& freed = chunks_[chunk];
  freed.state = State::free;
  freed.owner = nullptr;
  freed.next_free = free_heads_[freed.region];
  free_heads_[freed.region] = chunk;
  free_regions_[freed.region / 64] |= uint64_t{1} << (freed.region % 64);
}

uint32_t ChunkSpace::pop(uint32_t region) {
  while (free_heads_[region] != none) {
    uint32_t chunk = free_heads_[region];
    free_heads_[region] = chunks_[chunk].next_free;
    if (chunks_[chunk].state == State::free) return chunk;
  }
  free_regions_[region / 64] &= ~(uint64_t{1} << (region % 64));
  return none;
}

uint32_t ChunkSpace::take(uint32_t region) {
  if (uint32_t chunk = pop(region); chunk != none) return chunk;
  if (spare_next_ < chunks_total_) return spare_next_++;
  // Further on first: what lies there is in nobody's way for longer.
  auto regions = static_cast<uint32_t>(free_heads_.size());
  for (uint32_t turn = 0; turn < 2; ++turn) {
    uint32_t at = turn == 0 ? region + 1 : 0;
    uint32_t end = turn == 0 ? regions : region + 1;
    while (at < end) {
      uint64_t bits = free_regions_[at / 64] >> (at % 64);
      if (bits == 0) {
        at = static_cast<uint32_t>(round_down(at, 64)) + 64;
        continue;
      }
      at += static_cast<uint32_t>(std::countr_zero(bits));
      if (at >= end) break;
      if (uint32_t chunk = pop(at); chunk != none) return chunk;
      ++at;
    }
  }
  PENSTOCK_CHECK(false, "a sort in place has no free chunk");
  return none;
}

std::byte* ChunkSpace::append_after(List& list, bool stays, std::span<const uint32_t> read) {
  MutexLock lock(mutex_);
  for (uint32_t chunk : read) put(chunk);
  uint32_t chunk = take(list.region);
  chunks_[chunk].state = stays ? State::reading : State::taken;
  chunks_[chunk].owner = &list;
  chunks_[chunk].index = static_cast<uint32_t>(list.chunks.size());
  list.chunks.push_back(chunk);
  return address(chunk);
}

void ChunkSpace::release_input(std::span<const uint32_t> chunks) {
  MutexLock lock(mutex_);
  for (uint32_t chunk : chunks) put(chunk);
}

std::byte* ChunkSpace::begin_reading(List& list, size_t index) {
  MutexLock lock(mutex_);
  chunks_[list.chunks[index]].state = State::reading;
  return address(list.chunks[index]);
}

void ChunkSpace::begin_reading(List& list) {
  MutexLock lock(mutex_);
  for (uint32_t chunk : list.chunks) chunks_[chunk].state = State::reading;
}

void ChunkSpace::end_reading(List& list) {
  MutexLock lock(mutex_);
  for (uint32_t chunk : list.chunks) chunks_[chunk].state = State::taken;
  read_.notify_all();
}

void ChunkSpace::release(List& list, size_t index) {
  MutexLock lock(mutex_);
  put(list.chunks[index]);
  read_.notify_all();
}

void ChunkSpace::release(List& list) {
  MutexLock lock(mutex_);
  for (uint32_t chunk : list.chunks) put(chunk);
  list.chunks.clear();
  read_.notify_all();
}

void ChunkSpace::clear(const std::byte* from, const std::byte* to) {
  if (to <= array_ || from == to) return;
  auto first = from <= array_ ? 0 : static_cast<uint64_t>(from - array_) / chunk_bytes_;
  auto end =
      std::min<uint64_t>(array_chunks_, ceil_div(static_cast<uint64_t>(to - array_), chunk_bytes_));
  MutexLock lock(mutex_);
  // What is free in the range must not become the new place of what is moved out of it.
  for (uint64_t i = first; i < end; ++i) {
    if (chunks_[i].state == State::free) chunks_[i].state = State::output;
  }
  for (uint64_t i = first; i < end; ++i) {
    Chunk& chunk = chunks_[i];
    while (chunk.state == State::reading) read_.wait(mutex_);
    if (chunk.state == State::taken) {
      chunk.state = State::output;  // not to be taken for its own new place
      uint32_t to_chunk = take(chunk.owner->region);
      std::memcpy(address(to_chunk), address(static_cast<uint32_t>(i)), chunk_bytes_);
      chunks_[to_chunk].state = State::taken;
      chunks_[to_chunk].owner = chunk.owner;
      chunks_[to_chunk].index = chunk.index;
      chunk.owner->chunks[chunk.index] = to_chunk;
      ++moved_;
    }
    chunk.state = State::output;
  }
}

}  // namespace penstock::sorting
