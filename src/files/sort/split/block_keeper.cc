#include "files/sort/split/block_keeper.h"

#include <algorithm>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "files/run/space.h"
#include "files/sort/plan/bucket_plan.h"
#include "files/sort/spill/packed_numbers.h"
#include "files/sort/spill/spill_codec.h"
#include "io/crc32c.h"

// Writing everything to temporaries and reading it back is nearly all of the work for an input that
// is only somewhat larger than memory, and none of it is needed for what memory could have held.
//
// Here a full block stays where it is until memory runs out. Then the bucket that will be sorted
// last goes to its temporary, all of it at once, and from then on each of its blocks as it fills;
// then the bucket before it, and so on:
//
//        0                       spilled_from_              buckets
//        |   kept: in memory     |   on disk, or on the way |
//
// The second phase begins with the kept buckets: it can sort and write these while it reads the
// rest. An input a little larger than memory spills a little, and more memory is never slower.
//
// A bucket is kept or spilled as a whole when the distribution ends. It may need more of the arena
// while it is sorted than it fills now (pairs beside items, padding that aligns it to its place in
// the output): the caller says how much, and buckets that do not fit then go to temporaries, too.
//
// Waiting. A write releases its block when it has ended. At least write_blocks are free or being
// written while anything is spilled, which keeps the disk busy. A caller waits for a block only
// when none is free: that is how the disk slows a distribution down. Blocks never run out for good:
// each bucket fills one; the others are kept (and can be spilled), free, or on their way.
//
// Several threads. One at a time asks for blocks, but each fills its blocks later, beside the
// others. So a block that leaves memory may still be being filled, and waits (pending_writes_)
// until all fills have ended that had begun before. A fill needs nothing of the keeper, so it ends.
//
// Compression. Numbers are packed in place. Other items are compressed into a spare block, which is
// always free, and the full block becomes the spare one. Other blocks are written as they are.
//
// If the sort can be resumed (resume.h), nothing is kept: spilled_from_ is 0 from the start.
//
// Errors: distributions cannot always stop where they are, so after the first failed write all
// blocks are released as if they were written, until the caller checks status().

namespace penstock::external {
namespace {

constexpr unsigned requests_max = 64;
constexpr uint32_t no_block = BlockArena::no_block;

}  // namespace

BlockKeeper::BlockKeeper(const BlockKeeperOptions& options, const SpillPlace& place,
                         BlockArena& arena)
    : options_(options),
      place_(place),
      arena_(arena),
      growing_(options.buckets),
      spilled_from_(place.stays() ? 0 : options.buckets),
      lists_(lists_bytes()) {}

uint64_t BlockKeeper::lists_bytes() const {
  return requests_max * sizeof(io::Request) + written_blocks_ * list_bytes_per_block;
}

Status BlockKeeper::open() {
  return options_.expects_to_spill || place_.stays() ? open_spills() : Status{};
}

Status BlockKeeper::open_spills() {
  if (auto opened = ring_.open({.depth = requests_max}); !opened) return opened;
  return spills_.open(place_, std::min(files::spill_parts_max, options_.buckets),
                      arena_.block_bytes(), options_.compresses);
}

Status BlockKeeper::status() const {
  if (error_) return std::unexpected(*error_);
  return {};
}

std::byte* BlockKeeper::next_block(uint32_t bucket) {
  Growing& growing = growing_[bucket];
  if (growing.current != no_block) {
    growing.bytes += arena_.block_bytes();
    const uint32_t block = std::exchange(growing.current, no_block);
    if (bucket < spilled_from_) {
      growing.kept.push_back(block);
    } else {
      write(bucket, block, arena_.block_bytes());
    }
  }
  growing.current = acquire_block();
  return arena_.block(growing.current);
}

uint32_t BlockKeeper::acquire_block() {
  while (spilled_from_ > 0 &&
         arena_.blocks_free() + ring_.in_flight() + pending_writes_.size() < options_.write_blocks)
    spill_down_to(spilled_from_ - 1);
  provide(1);
  return arena_.acquire();
}

void BlockKeeper::provide(uint64_t blocks) {
  for (;;) {
    write_filled();
    if (arena_.blocks_free() >= blocks + spare_blocks()) return;
    if (!ring_.idle()) {
      finish_write();
    } else if (!pending_writes_.empty()) {
      fills_.wait_for(pending_writes_.front().fills);
    } else {
      PENSTOCK_CHECK(spilled_from_ > 0, "every bucket has a block, and some are left over");
      spill_down_to(spilled_from_ - 1);
    }
  }
}

// Spills the full blocks of this bucket and of all behind it.
void BlockKeeper::spill_down_to(uint32_t bucket) {
  while (spilled_from_ > bucket) {
    Growing& growing = growing_[--spilled_from_];
    uint64_t left = growing.bytes;
    for (const uint32_t block : std::exchange(growing.kept, {})) {
      const auto bytes = std::min<uint64_t>(left, arena_.block_bytes());
      write(spilled_from_, block, bytes);
      left -= bytes;
    }
  }
}

// A kept bucket keeps its last block.
void BlockKeeper::close(uint32_t bucket, uint64_t block_bytes) {
  Growing& growing = growing_[bucket];
  if (growing.current == no_block) return;
  if (block_bytes == 0) return drop(bucket);
  growing.bytes += block_bytes;
  if (bucket < spilled_from_) growing.kept.push_back(std::exchange(growing.current, no_block));
}

void BlockKeeper::drop(uint32_t bucket) {
  const uint32_t block = std::exchange(growing_[bucket].current, no_block);
  if (block != no_block) arena_.release(block);
}

void BlockKeeper::spill_rest(uint32_t bucket) {
  Growing& growing = growing_[bucket];
  if (growing.current == no_block) return;
  const uint64_t spilled = growing.spilled.size() * arena_.block_bytes();
  write(bucket, std::exchange(growing.current, no_block), growing.bytes - spilled);
}

// Spills whole buckets that memory cannot hold: first a bucket too large to be sorted there and all
// behind it, then the last buckets until each one's region, in whole blocks, fits the arena.
Result<Split> BlockKeeper::finish(const RegionBytes& region_bytes) {
  write_filled();
  for (uint32_t bucket = 0; bucket < spilled_from_; ++bucket) {
    if (!region_bytes(bucket)) spill_down_to(bucket);
  }
  uint64_t blocks = 0;
  for (uint32_t bucket = 0; bucket < spilled_from_; ++bucket) {
    blocks += ceil_div(*region_bytes(bucket), arena_.block_bytes());
    if (blocks + 1 > arena_.blocks()) spill_down_to(bucket);
  }
  for (uint32_t bucket = spilled_from_; bucket < options_.buckets; ++bucket) spill_rest(bucket);
  while (!ring_.idle()) finish_write();
  if (auto status = this->status(); !status) return std::unexpected(status.error());
  Split split;
  for (uint32_t bucket = 0; bucket < options_.buckets; ++bucket) {
    Growing& growing = growing_[bucket];
    const bool spilled = !growing.spilled.empty();
    if (spilled) spills_.keep(spill_of(bucket));
    split.buckets.push_back({.bytes = growing.bytes,
                             .spilled = std::move(growing.spilled),
                             .kept = std::move(growing.kept),
                             .stored_blocks = std::move(growing.stored_blocks),
                             .spill = spilled ? spill_of(bucket) : 0});
  }
  split.spills = std::move(spills_);
  split.lists = std::move(lists_);
  split.spilled_bytes = spilled_bytes_;
  split.stored_bytes = stored_bytes_;
  return split;
}

// Writes the block, which is released when it is written.
void BlockKeeper::write(uint32_t bucket, uint32_t block, uint64_t bytes) {
  pending_writes_.push_back({bucket, block, bytes, fills_.begun()});
  write_filled();
}

void BlockKeeper::write_filled() {
  while (!pending_writes_.empty() && pending_writes_.front().fills <= fills_.ended()) {
    const PendingWrite next = pending_writes_.front();
    pending_writes_.pop_front();
    start_write(next.bucket, next.block, next.bytes);
  }
}

void BlockKeeper::start_write(uint32_t bucket, uint32_t block, uint64_t bytes) {
  if (ring_.full()) finish_write();
  if (!error_ && spills_.empty()) {
    if (auto status = open_spills(); !status) error_ = status.error();
  }
  if (!error_ && written_blocks_ == options_.written_blocks_max) {
    error_ = failure(ErrorCode::out_of_memory,
                     "hold longer lists of the blocks in temporaries: " +
                         std::to_string(spilled_bytes_ / GiB) +
                         " GiB of the input were written there, and more follows",
                     "sort", "a larger -S, or a plain file instead of a pipe")
                 .error();
  }
  if (error_ || bytes == 0) return arena_.release(block);
  ++written_blocks_;
  lists_.set(lists_bytes());
  Growing& growing = growing_[bucket];
  uint64_t stored_bytes = bytes;
  if (options_.compresses) {
    block = compress(block, bytes, &stored_bytes);
    append_to_list(growing.stored_blocks,
                   {static_cast<uint32_t>(stored_bytes),
                    io::crc32c(arena_.block(block), static_cast<size_t>(stored_bytes))});
  }
  Spill& spill = spills_.part(spill_of(bucket));
  const stream::Extent extent = spill.place(static_cast<uint32_t>(stored_bytes));
  append_to_list(growing.spilled, spill.number_of(extent));
  // Whole sectors are written, including bytes behind the items, so that the request is direct.
  ring_.submit({.operation = io::Operation::write,
                .file = extent.file,
                .offset = extent.offset,
                .data = arena_.block(block),
                .bytes = round_up(stored_bytes, io::sector_bytes),
                .tag = block});
  spilled_bytes_ += bytes;
  stored_bytes_ += stored_bytes;
}

// Returns the block that holds the compressed data.
uint32_t BlockKeeper::compress(uint32_t block, uint64_t bytes, uint64_t* stored_bytes) {
  if (options_.number_bytes > 0) {
    const size_t packed = pack_numbers(options_.number_bytes, arena_.block(block), bytes);
    if (packed > 0) *stored_bytes = packed;
    return block;
  }
  const uint32_t to = arena_.acquire();
  if (to == no_block) return block;
  const size_t compressed = compress_block(arena_.block(block), bytes, arena_.block(to));
  if (compressed == 0) {
    arena_.release(to);
    return block;
  }
  *stored_bytes = compressed;
  arena_.release(block);
  return to;
}

void BlockKeeper::finish_write() {
  const io::Request& request = ring_.wait_any();
  if (auto status = ring_.status(); !status && !error_) error_ = status.error();
  arena_.release(static_cast<uint32_t>(request.tag));
}

}  // namespace penstock::external
