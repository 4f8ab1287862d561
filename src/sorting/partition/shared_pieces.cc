#include "sorting/partition/shared_pieces.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "os/futex.h"
#include "os/memory.h"
#include "sorting/partition/join.h"

// M3, the method that the thesis asks for: as fast as private buckets, with the memory of shared
// ones.
//
// The costs of the other methods. Private buckets (1A, 1B) end in a partly filled block for each
// thread and bucket. Shared ones (2A, 2B) end in one, but each line is claimed by an atomic
// addition for which all threads contend; and all of them map blocks while they work, which with
// several threads means interrupting the other cores.
//
// Here nothing is mapped while items move. A block is written at its home, where its memory is
// already visible, and only its number is noted in the bucket's table. In the end all blocks of a
// bucket are mapped in a row of addresses, in one go, when the other threads have nothing to do.
//
// A thread claims a piece of many lines with one atomic addition to the bucket's length, and fills
// it line by line as its own. The addition costs more than it seems: besides the transfer of the
// cache line, it waits until all non-temporal stores before it are in memory, about 160 ns. Claimed
// line by line it would take longer than everything else; here it is paid once per piece. The
// bucket's length also locates the memory: length / block_bytes is the entry of the table. The
// thread that claims the first piece of a block takes one from the pool; threads that have claimed
// behind it wait for the entry, which takes as long as popping a list.
//
// A thread claims when it has a full line to write, not before, so each bucket has at most one
// unfilled piece per thread. These holes are closed in the end by items from the bucket's end
// (join.cc): threads * 2^b * piece_bytes / 2 on average, some per cent of the input.
//
// Begins of buckets. Buckets of uniform keys grow alike. If each began with a block, all of them
// would be written at nearly the same place of their blocks. In blocks of 2 MiB these are addresses
// whose low 21 bits are nearly equal, and they share a few sets of each cache: 3.0 ns a key for
// 1024 buckets, instead of 1.5. So buckets begin at sixteen places, each a 128th of a block behind
// the one before.
//
// A single thread takes whole blocks: it shares them with nobody, and its order is kept. So if
// several are to keep the order, each has its own pieces, and of each bucket the first thread's
// blocks come before the second's.

namespace penstock::partition_internal {
namespace {

using scatter::Room;
using scatter::RoomMaker;

// A claim costs about 160 ns: its atomic addition waits until the non-temporal stores before it are
// in memory. An unfilled piece costs copying, about 0.1 ns a byte, and each worker leaves one in
// each bucket. The sum is least if both are equal. All of a bucket's unfilled pieces together are
// at most an eighth of the block that it ends in.
size_t piece_bytes_for(const MemoryOptions& options, size_t block_bytes) {
  if (options.workers == 1) return block_bytes;
  const uint64_t pieces_unfilled = uint64_t{options.workers} * options.buckets;
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a bucket, or nothing is partitioned
  const uint64_t square = 1600 * options.bytes_max / pieces_unfilled;
  size_t piece = scatter::small_line_bytes;
  while (4 * piece * piece <= square && 2 * piece * options.workers <= block_bytes / 8) piece *= 2;
  return piece;
}

constexpr uint64_t starts = 16;
// Distance of two begins.
size_t start_unit(size_t block_bytes) {
  return round_down(block_bytes / 128, scatter::small_line_bytes);
}
// The most unused bytes in front of the buckets, of which at most `used` get items.
uint64_t bytes_before(uint32_t buckets, uint64_t used, size_t block_bytes) {
  const uint64_t rest = buckets % starts;
  const uint64_t units = buckets / starts * (starts * (starts - 1) / 2) + rest * (rest - 1) / 2;
  return std::min(units, used * (starts - 1)) * start_unit(block_bytes);
}

// Thread safety: each worker's place() by that worker; everything else when all are done.
// Invariants: a bucket is a row of pieces without gaps, from its start in the first block on; each
// piece has been claimed by exactly one worker, and none crosses a block. A block's number in the
// table is 0 until the worker that claimed its first piece has taken it from the pool.
class SharedPieces final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options);
  ~SharedPieces() override;  // returns the blocks not taken out

  RoomMaker room_maker(unsigned worker) override { return {make_room, &workers_[worker]}; }
  // Whether the pool ran out of blocks. Lines were dropped then.
  bool failed() const override { return failed_.load(std::memory_order_relaxed); }
  void finish(unsigned worker, uint32_t bucket, Room room,
              std::span<const std::byte> rest) override {
    std::byte* const end = write_rest(room_maker(worker), bucket, room, rest);
    workers_[worker].buckets[bucket].unfilled_bytes = static_cast<uint64_t>(room.limit - end);
  }
  Chain take(uint32_t bucket) override;

 private:
  // A cache line each: workers claim in different buckets at the same time.
  struct alignas(64) Cursor {
    std::atomic<uint64_t> claimed_bytes{0};
  };
  // The piece that a worker fills.
  struct ClaimedPiece {
    uint64_t end = 0;  // bytes from the beginning of the bucket
    uint64_t unfilled_bytes = 0;
  };
  struct Worker {
    SharedPieces* all;
    std::unique_ptr<ClaimedPiece[]> buckets;
  };
  using Entry = std::atomic<uint32_t>;  // block + 1
  static constexpr uint32_t none_left = ~uint32_t{0};

  SharedPieces(pool::Pool& pool, const MemoryOptions& options)
      : pool_(pool),
        block_bytes_(pool.block_bytes()),
        buckets_(options.buckets),
        piece_bytes_(piece_bytes_for(options, block_bytes_)),
        entries_per_bucket_(
            ceil_div(options.bytes_max + options.workers * piece_bytes_, block_bytes_) + 2),
        start_unit_(options.staggered ? start_unit(block_bytes_) : 0),
        cursors_(std::make_unique<Cursor[]>(options.buckets)) {
    for (uint32_t bucket = 0; bucket < buckets_; ++bucket)
      cursors_[bucket].claimed_bytes.store(start_of(bucket), std::memory_order_relaxed);
    for (unsigned worker = 0; worker < options.workers; ++worker)
      workers_.push_back({this, std::make_unique<ClaimedPiece[]>(options.buckets)});
  }
  static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
    auto& worker = *static_cast<Worker*>(self);
    room = worker.all->claim(worker, bucket);
  }
  Room claim(Worker& worker, uint32_t bucket);
  // Start of the bucket, in bytes of its first block. Pieces smaller than a block do not cross one,
  // so they begin at multiples of their size.
  uint64_t start_of(uint32_t bucket) const {
    const uint64_t start = bucket % starts * start_unit_;
    return piece_bytes_ < block_bytes_ ? round_down(start, piece_bytes_) : start;
  }
  Entry& entry(uint32_t bucket, uint64_t index) const {
    return table_[bucket * entries_per_bucket_ + index];
  }

  pool::Pool& pool_;
  const size_t block_bytes_;
  const uint32_t buckets_;
  const size_t piece_bytes_;  // a power of two, at most a block
  const uint64_t entries_per_bucket_;
  const size_t start_unit_;
  const std::unique_ptr<Cursor[]> cursors_;
  std::vector<Worker> workers_;
  os::ZeroedTable<Entry> table_;
  os::Reservation waste_;
  std::atomic<bool> failed_{false};
};

Result<std::unique_ptr<BucketMemory>> SharedPieces::open(pool::Pool& pool,
                                                         const MemoryOptions& options) {
  std::unique_ptr<SharedPieces> pieces(new SharedPieces(pool, options));
  constexpr const char* attempted = "commit the table of blocks";
  constexpr const char* hint = "larger blocks, or fewer buckets";
  auto table = os::ZeroedTable<Entry>::open(pieces->entries_per_bucket_ * options.buckets,
                                            attempted, "partition", hint);
  if (!table) return std::unexpected(std::move(table.error()));
  pieces->table_ = std::move(*table);
  // Memory for lines to be dropped.
  auto waste = os::zeroed(os::page_bytes, attempted, "partition", hint, os::huge_page_bytes);
  if (!waste) return std::unexpected(std::move(waste.error()));
  pieces->waste_ = std::move(*waste);
  return pieces;
}

SharedPieces::~SharedPieces() {
  for (uint32_t bucket = 0; table_.begin() != nullptr && bucket < buckets_; ++bucket) {
    if (cursors_[bucket].claimed_bytes.load(std::memory_order_relaxed) == start_of(bucket))
      continue;
    for (uint64_t index = 0; index < entries_per_bucket_; ++index) {
      const uint32_t found = entry(bucket, index).load(std::memory_order_relaxed);
      if (found == 0) break;
      if (found != none_left) pool_.give(found - 1);
    }
  }
}

Room SharedPieces::claim(Worker& worker, uint32_t bucket) {
  // Relaxed: the addition only divides the row among the workers; the entry publishes the memory.
  std::atomic<uint64_t>& claimed_bytes = cursors_[bucket].claimed_bytes;
  size_t bytes = piece_bytes_;
  if (bytes == block_bytes_)  // one worker: its first piece begins within a block
    bytes -= claimed_bytes.load(std::memory_order_relaxed) % block_bytes_;
  const uint64_t at = claimed_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const uint64_t index = at / block_bytes_;
  const uint64_t offset = at % block_bytes_;
  uint32_t found = none_left;
  // After a failure the lengths keep growing, beyond the table in the end.
  if (index < entries_per_bucket_) {
    Entry& here = entry(bucket, index);
    if (offset == 0 || at == start_of(bucket)) {
      const pool::BlockId block = pool_.take();
      found = block == pool::no_block ? none_left : block + 1;
      here.store(found, std::memory_order_release);  // pairs with the acquire load below
    } else {
      unsigned tries = 0;
      while ((found = here.load(std::memory_order_acquire)) == 0) {
        // The system needs a while to clear a block that was never used.
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
    return {waste_.begin(), waste_.begin() + scatter::small_line_bytes};
  }
  worker.buckets[bucket].end = at + bytes;
  std::byte* const piece = pool_.home(found - 1) + offset;
  return {piece, piece + bytes};
}

Chain SharedPieces::take(uint32_t bucket) {
  const uint64_t claimed = cursors_[bucket].claimed_bytes.load(std::memory_order_relaxed);
  if (claimed == start_of(bucket)) return {};
  Chain chain{.begin_bytes = start_of(bucket), .extent_bytes = claimed};
  uint64_t entries = 0;
  while (entries < entries_per_bucket_ &&
         entry(bucket, entries).load(std::memory_order_relaxed) != 0)
    ++entries;
  chain.blocks.reserve(entries);
  chain.holes.reserve(workers_.size());
  for (uint64_t index = 0; index < entries_per_bucket_; ++index) {
    Entry& here = entry(bucket, index);
    const uint32_t found = here.load(std::memory_order_relaxed);
    if (found == 0) break;
    if (found != none_left) chain.blocks.push_back(found - 1);
    here.store(0, std::memory_order_relaxed);
  }
  for (const Worker& worker : workers_) {
    const ClaimedPiece& piece = worker.buckets[bucket];
    if (piece.unfilled_bytes != 0)
      chain.holes.push_back({piece.end - piece.unfilled_bytes, piece.end});
  }
  std::sort(chain.holes.begin(), chain.holes.end(),
            [](const Chain::Hole& a, const Chain::Hole& b) { return a.from < b.from; });
  return chain;
}

// Pieces of several workers, each of which keeps the order.
class PrivatePieces final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    auto pieces = std::make_unique<PrivatePieces>(pool);
    MemoryOptions of_one = options;
    of_one.workers = 1;
    for (unsigned worker = 0; worker < options.workers; ++worker) {
      auto own = SharedPieces::open(pool, of_one);
      if (!own) return own;
      pieces->of_worker_.push_back(std::move(*own));
    }
    return pieces;
  }
  explicit PrivatePieces(pool::Pool& pool) : pool_(pool) {}

  RoomMaker room_maker(unsigned worker) override { return of_worker_[worker]->room_maker(0); }
  bool failed() const override {
    return std::ranges::any_of(of_worker_, [](const auto& own) { return own->failed(); });
  }
  void finish(unsigned worker, uint32_t bucket, Room room,
              std::span<const std::byte> rest) override {
    of_worker_[worker]->finish(0, bucket, room, rest);
  }
  Chain take(uint32_t bucket) override {
    Chain chain;
    Chain more;
    try {
      for (const auto& own : of_worker_) {
        more = own->take(bucket);
        append(chain, more, pool_.block_bytes());
        more.blocks.clear();
      }
    } catch (const std::bad_alloc&) {
      for (const Chain* taken : {&chain, &more}) {
        for (const pool::BlockId block : taken->blocks) pool_.give(block);
      }
      throw;
    }
    return chain;
  }

 private:
  pool::Pool& pool_;
  std::vector<std::unique_ptr<BucketMemory>> of_worker_;
};

class Pieces final : public Method {
 public:
  // Every bucket may begin within a block and end in a partly filled one, and every worker may
  // leave a piece of each bucket unfilled, if there are items for that many.
  uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) const override {
    const uint64_t items = options.bytes_max / options.item_bytes;
    const uint64_t of_workers = std::min(uint64_t{options.buckets} * options.workers, items);
    uint64_t bytes = options.bytes_max;
    if (options.staggered) {
      bytes += bytes_before(options.buckets, items, block_bytes) *
               (are_private(options) ? options.workers : 1);
    }
    if (are_private(options)) return bytes / block_bytes + of_workers;
    if (options.workers > 1) bytes += of_workers * piece_bytes_for(options, block_bytes);
    return bytes / block_bytes + std::min<uint64_t>(options.buckets, items);
  }
  Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                             uint64_t) const override {
    return are_private(options) ? PrivatePieces::open(pool, options)
                                : SharedPieces::open(pool, options);
  }

 private:
  static bool are_private(const MemoryOptions& options) {
    return options.stable && options.workers > 1;
  }
};

}  // namespace

const Method& shared_pieces() {
  static const Pieces pieces;
  return pieces;
}

}  // namespace penstock::partition_internal
