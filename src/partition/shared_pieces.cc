#include "partition/shared_pieces.h"

#include <algorithm>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "os/futex.h"

// M3, the method that the thesis asks for: as fast as private buckets, with the memory of shared
// ones.
//
// What the others pay. Private buckets (1A, 1B) end in a partly filled block for each thread and
// bucket. Shared ones (2A, 2B) end in one, but each line is claimed by an atomic addition that all
// threads contend for; and all of them map blocks while they work, which with several threads means
// interrupting the other cores.
//
// Here nothing is mapped while items move. A block is written at its home, where its memory is
// already seen, and only its number is noted in the bucket's table. In the end all blocks of a
// bucket are brought into a row of addresses, in one go, when the other threads have nothing to do.
//
// A thread claims a piece of many lines with one atomic addition to the bucket's length, and fills
// it line by line as if it were its own. The addition is dearer than it looks: besides the cache
// line that travels for it, it waits until all non-temporal stores before it are in memory, about
// 160 ns. Claimed line by line it would take longer than everything else; here it costs once per
// piece. The bucket's length is also what finds the memory: length / block_bytes is
// the entry of the table. Whoever claims the first piece of a block takes one from the pool; others
// that have claimed behind him wait for the entry, which takes as long as popping a list.
//
// A thread claims when it has a full line to write, not before, so each bucket has at most one
// unfilled piece per thread. These holes are closed in the end by items from the bucket's end
// (join.cc): threads * 2^b * piece_bytes / 2 on average, some per cent of the input.
//
// One thread takes whole blocks: there is nobody to share them with, and its order is kept.

namespace penstock::partition_internal {

Result<std::unique_ptr<SharedPieces>> SharedPieces::open(pool::Pool& pool, const Options& options) {
  std::unique_ptr<SharedPieces> pieces(new SharedPieces(pool));
  pieces->buckets_ = options.buckets;
  pieces->piece_bytes_ = options.piece_bytes;
  pieces->entries_per_bucket_ =
      ceil_div(options.bytes_max + options.workers * options.piece_bytes, pool.block_bytes()) + 1;
  pieces->cursors_ = std::make_unique<Cursor[]>(options.buckets);
  for (unsigned worker = 0; worker < options.workers; ++worker)
    pieces->workers_.push_back({pieces.get(), std::make_unique<uint64_t[]>(options.buckets)});

  const uint64_t table_bytes =
      round_up(pieces->entries_per_bucket_ * options.buckets * sizeof(Entry), os::page_bytes);
  auto table = os::Reservation::reserve(table_bytes, os::page_bytes);
  if (!table) return std::unexpected(std::move(table.error()));
  int error = os::commit(table->begin(), table_bytes);
  if (error == 0) pieces->table_ = std::move(*table);  // the destructor reads it

  // Where lines go when there is no memory: behind the line a unit ends, so that the next line asks
  // again.
  auto waste = os::Reservation::reserve(round_up(options.piece_bytes, os::page_bytes),
                                        std::max(options.piece_bytes, os::page_bytes));
  if (!waste) return std::unexpected(std::move(waste.error()));
  pieces->waste_ = std::move(*waste);
  if (error == 0) error = os::commit(pieces->waste_.end() - os::page_bytes, os::page_bytes);
  if (error != 0)
    return system_error(error, "commit the table of blocks", "partition",
                        "larger blocks, or fewer buckets");
  pieces->waste_line_ = pieces->waste_.end() - static_cast<size_t>(LineBytes::small);
  return pieces;
}

SharedPieces::~SharedPieces() {
  for (uint32_t bucket = 0; table_.begin() != nullptr && bucket < buckets_; ++bucket) {
    for (const pool::BlockId block : take_blocks(bucket)) pool_.give(block);
  }
}

Destination SharedPieces::destination(unsigned worker) {
  return {.place = place, .self = &workers_[worker], .unit_bytes = piece_bytes_};
}

std::byte* SharedPieces::place(void* self, uint32_t bucket, std::byte*, const std::byte*) {
  auto& worker = *static_cast<Worker*>(self);
  return worker.all->claim(worker, bucket);
}

std::byte* SharedPieces::claim(Worker& worker, uint32_t bucket) {
  // Relaxed: the addition only divides the row among the workers; the entry brings the memory.
  const uint64_t at =
      cursors_[bucket].claimed_bytes.fetch_add(piece_bytes_, std::memory_order_relaxed);
  const uint64_t index = at / block_bytes_;
  const uint64_t offset = at % block_bytes_;
  uint32_t found = none_left;
  // Without memory the lengths go on growing, beyond the table in the end.
  if (index < entries_per_bucket_) {
    Entry& here = entry(bucket, index);
    if (offset == 0) {
      const pool::BlockId block = pool_.take();
      found = block == pool::no_block ? none_left : block + 1;
      here.store(found, std::memory_order_release);  // with the load below
    } else {
      unsigned tries = 0;
      while ((found = here.load(std::memory_order_acquire)) == 0) {
        // Clearing a block that was never used takes the system a while.
        if (++tries < 100) {
          os::spin_pause();
        } else {
          std::this_thread::yield();
        }
      }
    }
  }
  if (found == none_left) [[unlikely]] {
    failed_.store(true, std::memory_order_relaxed);
    return waste_line_;
  }
  worker.piece_at[bucket] = at;
  return pool_.home(found - 1) + offset;
}

SharedPieces::Hole SharedPieces::hole(unsigned worker, uint32_t bucket,
                                      const std::byte* end) const {
  if (end == nullptr) return {0, 0};
  const uint64_t filled = reinterpret_cast<uintptr_t>(end) % piece_bytes_;
  const uint64_t at = workers_[worker].piece_at[bucket];
  return {filled == 0 ? at + piece_bytes_ : at + filled, at + piece_bytes_};
}

uint64_t SharedPieces::extent_bytes(uint32_t bucket) const {
  return cursors_[bucket].claimed_bytes.load(std::memory_order_relaxed);
}

std::vector<pool::BlockId> SharedPieces::take_blocks(uint32_t bucket) {
  std::vector<pool::BlockId> blocks;
  for (uint64_t index = 0; index < entries_per_bucket_; ++index) {
    Entry& here = entry(bucket, index);
    const uint32_t found = here.load(std::memory_order_relaxed);
    if (found == 0) break;
    if (found != none_left) blocks.push_back(found - 1);
    here.store(0, std::memory_order_relaxed);
  }
  return blocks;
}

}  // namespace penstock::partition_internal
