#include "files/sort/spill/block_arena.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"
#include "base/thread.h"
#include "penstock/base.h"

namespace penstock::external {

Status BlockArena::open(uint64_t bytes, size_t block_bytes) {
  bytes = round_up(bytes, os::page_bytes);
  if (auto status = acquire_memory(bytes); !status) return status;
  block_bytes_ = block_bytes;
  blocks_ = static_cast<uint32_t>(bytes / block_bytes);
  touched_ = 0;
  free_.clear();
  return {};
}

Status BlockArena::acquire_memory(uint64_t bytes) {
  if (memory_.bytes() == bytes) return {};
  close();
  auto memory = os::huge_buffer(bytes, "sort", "a smaller -S");
  if (!memory) return std::unexpected(memory.error());
  memory_ = std::move(*memory);
  return {};
}

std::jthread BlockArena::start_touching(uint64_t bytes) const {
  std::jthread thread;
  (void)try_start_thread(thread, [=, this](const std::stop_token& stop) { touch(bytes, stop); });
  return thread;
}

// The system clears a page at its first use, and on a machine whose memory is full of cached files
// it has to evict some of these first: 0.4 to 9 GB/s, which can be slower than the disk. Pages are
// touched by stores that keep their contents, because populating a step of 2 MiB locks the address
// space meanwhile: that was 6 ms if the host of a virtual machine had to find the memory, and
// delayed each map and unmap of the input's blocks.
void BlockArena::touch(uint64_t bytes, const std::stop_token& stop) const {
  const uint64_t end = std::min(bytes, memory_.bytes());
  for (uint64_t at = 0; at < end && !stop.stop_requested(); at += os::huge_page_bytes) {
    auto step = static_cast<size_t>(std::min<uint64_t>(os::huge_page_bytes, end - at));
    os::touch(begin() + at, step);
  }
}

uint32_t BlockArena::acquire() {
  if (!free_.empty()) {
    uint32_t block = free_.back();
    free_.pop_back();
    return block;
  }
  return touched_ < blocks_ ? touched_++ : no_block;
}

// Filling a gap leaves a gap at the block's old place, which is filled next, and so on, until a gap
// is left that no block belongs into. The other misplaced blocks form cycles; one block of each
// cycle steps aside into a gap.
void BlockArena::arrange(const std::vector<uint32_t>& wanted) {
  std::vector<uint32_t> place_of(blocks_, no_block);  // place where a block's contents belong
  for (uint32_t to = 0; to < wanted.size(); ++to) {
    if (wanted[to] != no_block) place_of[wanted[to]] = to;
  }
  std::vector<uint32_t> lies_at(wanted);  // block that now holds the contents wanted here
  uint32_t gap = no_block;
  for (uint32_t i = 0; i < blocks_; ++i) {
    if (place_of[i] == no_block) gap = i;  // the last such block is seldom wanted for anything else
  }
  PENSTOCK_CHECK(gap != no_block, "blocks are arranged with one to spare");

  auto copy = [&](uint32_t from, uint32_t to) {
    std::memcpy(block(to), block(from), block_bytes_);
  };
  auto fill = [&](uint32_t hole) {
    while (hole < wanted.size() && lies_at[hole] != no_block && lies_at[hole] != hole) {
      uint32_t from = lies_at[hole];
      copy(from, hole);
      lies_at[hole] = hole;
      place_of[from] = no_block;
      place_of[hole] = hole;
      hole = from;
    }
    return hole;
  };
  for (uint32_t i = 0; i < blocks_; ++i) {
    if (place_of[i] != no_block) continue;
    uint32_t left = fill(i);
    if (i == gap) gap = left;
  }
  for (uint32_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] == no_block || lies_at[i] == i) continue;
    uint32_t aside = place_of[i];
    copy(i, gap);
    lies_at[aside] = gap;
    place_of[gap] = aside;
    place_of[i] = no_block;
    gap = fill(i);
  }
}

std::optional<uint64_t> RegionRing::place_for(uint64_t bytes) const {
  PENSTOCK_CHECK(bytes != 0 && bytes <= bytes_, "a region fits the ring");
  if (regions_.empty()) return 0;
  uint64_t first = regions_.front().begin;
  uint64_t last = regions_.back().end;
  bool wrapped = regions_.back().begin < first;
  uint64_t limit = wrapped ? first : bytes_;
  if (last + bytes <= limit) return last;
  if (!wrapped && bytes <= first) return 0;
  return std::nullopt;
}

std::optional<uint64_t> RegionRing::allocate(uint64_t bytes) {
  auto begin = place_for(bytes);
  if (begin) regions_.push_back({*begin, *begin + bytes, false});
  return begin;
}

void RegionRing::release(uint64_t begin) {
  auto found = std::find_if(regions_.begin(), regions_.end(), [=](const Region& region) {
    return region.begin == begin && !region.released;
  });
  PENSTOCK_CHECK(found != regions_.end(), "a region is released once");
  found->released = true;
  while (!regions_.empty() && regions_.front().released) regions_.pop_front();
}

}  // namespace penstock::external
