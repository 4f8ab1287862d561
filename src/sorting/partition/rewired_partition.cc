// How one pass over the input ends in one array.
//
// One array without holes needs the counts of the buckets first, and counting reads the input
// twice. Without counting, nobody knows where in the array a bucket begins, so its items must be
// written elsewhere; copying them into the array is the second pass again.
//
// But the place at which a page was written does not decide its place in the array. Buckets grow by
// pages of a pool (the method M3 of this folder: shared_pieces.cc), written at home. When the input
// is read, the pages of bucket 0, then those of bucket 1 and so on are the array, with one
// exception: the last page of each bucket is not full, and a page in the middle of an array must
// be. The place behind bucket i's last item belongs to bucket i + 1, whose items may stand in any
// order, so a few of them can be moved there from its end. Then all pages but the very last are
// full, and are mapped in a row: one system call for each run of neighbours.
//
//   written     [0 0 0 0][0 - - -]  [1 1 1 1][1 1 1 -]  [2 2 - -]
//   completed   [0 0 0 0][0 1 1 1]  [1 1 1 1][2 2]
//
// A page of which f bytes are filled can be completed in two ways. Fill it: P - f bytes move from
// the next bucket's end. Or empty it: the f bytes go to the front of one of the next bucket's
// pages, and the items that stood there go behind the bucket's end, if there is room: 2 f bytes
// move, and a page is free. The cheaper way is taken, which copies P / 3 per bucket on average
// instead of P / 2; and far less if the buckets are a little longer than a number of pages, as they
// are whenever sizes are powers of two.
//
// Order. A bucket's end is moved to its front, so this cannot be stable; with `stable`, all items
// move up over the holes instead, which copies all but the first bucket (close_holes() on one chain
// of all pages).
//
// Costs, for n bytes in k buckets of pages of P bytes: k * P / 3 bytes copied, which is little if n
// / k is many pages, and as much as n if it is less than one; n / P mappings made.

#include "base/out_of_memory.h"
#include "penstock/partition.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <memory>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "base/check.h"
#include "memory/pool/page_store.h"
#include "memory/pool/pool.h"
#include "memory/rewire/vector_core.h"
#include "penstock/base.h"
#include "sorting/partition/bucket_function.h"
#include "sorting/partition/join.h"
#include "sorting/partition/pass.h"
#include "sorting/partition/shared_pieces.h"

namespace penstock {
namespace partition_internal {
namespace {

// A store's pages in the role of blocks for the buckets' memory and close_holes(): taken, written
// at home, and returned. They never leave home as blocks do: they are shown elsewhere, as pages.
class PagesAsBlocks final : public pool::Pool {
 public:
  explicit PagesAsBlocks(std::shared_ptr<pool::PageStore> store) : store_(std::move(store)) {
    block_bytes_ = store_->page_bytes();
    blocks_max_ = store_->pages_max();
    pages_ = store_->pages();
  }

  pool::BlockId take() noexcept override { return store_->take_run(1).first; }
  void give(pool::BlockId page) noexcept override { store_->release({page, 1}); }
  std::byte* home(pool::BlockId page) const noexcept override { return store_->home(page); }
  uint32_t blocks_free() const noexcept override { return store_->pages_free(); }
  uint32_t blocks_committed() const noexcept override { return store_->pages_committed(); }

  pool::Mechanism mechanism() const override { return pool::Mechanism::shared; }
  int fault_signal() const override { return SIGSEGV; }
  Result<os::Reservation> reserve(uint64_t) override {
    return failure(ErrorCode::unsupported, "reserve addresses for a page pool's blocks");
  }
  void release(os::Reservation&) override {}
  int map(pool::BlockId, std::byte*) noexcept override { return EOPNOTSUPP; }
  int remap(pool::BlockId, std::byte*, std::byte*) noexcept override { return EOPNOTSUPP; }
  int unmap(pool::BlockId, std::byte*) noexcept override { return EOPNOTSUPP; }
  void trim() noexcept override {}

 private:
  const std::shared_ptr<pool::PageStore> store_;
};

static_assert(pool::no_page == pool::no_block);

// Pages that return to the store in the destructor.
class Pages {
 public:
  explicit Pages(pool::Pool& pool) : pool_(pool) {}
  ~Pages() {
    for (const PageId page : list) pool_.give(page);
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  std::vector<PageId> list;

 private:
  pool::Pool& pool_;
};

// Returns the pages of remaining chains to the store.
struct ChainsEnd {
  pool::Pool& pool;
  std::vector<Chain>& chains;
  ~ChainsEnd() {
    for (const Chain& chain : chains) {
      for (const pool::BlockId page : chain.blocks) pool.give(page);
    }
  }
};

// ---- completing

// Copies by non-temporal stores, which do not read what they replace, a third of all that an
// ordinary copy moves. The bytes have left the caches, and will not be read soon.
void copy_past_caches(std::byte* to, const std::byte* from, uint64_t bytes) {
#if defined(__SSE2__)
  constexpr uint64_t line_bytes = 64, ahead_bytes = 1024;
  const uint64_t head = std::min<uint64_t>(bytes, -reinterpret_cast<uintptr_t>(to) % line_bytes);
  std::memcpy(to, from, head);
  to += head, from += head, bytes -= head;
  for (; bytes >= line_bytes; bytes -= line_bytes, to += line_bytes, from += line_bytes) {
    __builtin_prefetch(from + ahead_bytes);
    const auto* const source = reinterpret_cast<const __m128i*>(from);
    auto* const target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source), b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2), d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
  }
  _mm_sfence();  // in memory before another thread learns of it
#endif
  std::memcpy(to, from, bytes);
}

// The array as made so far: pages, all full but the last, and the bytes filled. Takes buckets in
// order.
class Row {
 public:
  Row(pool::Pool& pool, Pages& pages, Pages& unused)
      : pool_(pool), page_bytes_(pool.block_bytes()), pages_(pages.list), unused_(unused.list) {}

  // `bucket`: its pages, of which the first `bytes` are filled. The row takes over all of them.
  void append(std::vector<PageId> bucket, uint64_t bytes) {
    const uint64_t last = filled_ % page_bytes_;
    if (last != 0) {
      const uint64_t end = bytes % page_bytes_;
      const bool has_room = bytes > page_bytes_ && end != 0 && end + last <= page_bytes_;
      if (has_room && 2 * last < page_bytes_ - last) {
        empty_last(bucket, bytes, last);
        bytes += last;
        filled_ -= last;
      } else {
        const uint64_t moved = std::min(page_bytes_ - last, bytes);
        fill_last(bucket, bytes, last, moved);
        bytes -= moved;
        filled_ += moved;
      }
    }
    const uint64_t used = ceil_div(bytes, page_bytes_);
    pages_.insert(pages_.end(), bucket.begin(), bucket.begin() + static_cast<ptrdiff_t>(used));
    unused_.insert(unused_.end(), bucket.begin() + static_cast<ptrdiff_t>(used), bucket.end());
    filled_ += bytes;
  }

  uint64_t copied_bytes() const { return copied_; }

 private:
  void copy(std::byte* to, const std::byte* from, uint64_t bytes) {
    copy_past_caches(to, from, bytes);
    copied_ += bytes;
  }

  // Copies the bucket's last bytes, which may be in two pages, to the row's last page.
  void fill_last(const std::vector<PageId>& bucket, uint64_t bytes, uint64_t last, uint64_t moved) {
    std::byte* to = pool_.home(pages_.back()) + last;
    for (uint64_t left = moved; left != 0;) {
      const uint64_t end = (bytes - 1) % page_bytes_ + 1;  // in the bucket's last page
      const uint64_t part = std::min(left, end);
      copy(to, pool_.home(bucket[(bytes - 1) / page_bytes_]) + end - part, part);
      to += part;
      bytes -= part;
      left -= part;
    }
  }

  // Empties the row's last page: its bytes go to the front of the bucket, and the bytes that stood
  // there go behind the bucket.
  void empty_last(const std::vector<PageId>& bucket, uint64_t bytes, uint64_t last) {
    std::byte* const front = pool_.home(bucket.front());
    copy(pool_.home(bucket[bytes / page_bytes_]) + bytes % page_bytes_, front, last);
    copy(front, pool_.home(pages_.back()), last);
    unused_.push_back(pages_.back());
    pages_.pop_back();
  }

  pool::Pool& pool_;
  const uint64_t page_bytes_;
  std::vector<PageId>& pages_;
  std::vector<PageId>& unused_;
  uint64_t filled_ = 0;
  uint64_t copied_ = 0;
};

// Joins all buckets in one chain, and closes its holes in order.
uint64_t complete_in_order(pool::Pool& pool, std::vector<Chain>& chains, Pages& pages) {
  Chain all{.blocks = std::move(pages.list)};  // has capacity for all of them
  size_t holes = chains.size();
  for (const Chain& chain : chains) holes += chain.holes.size();
  all.holes.reserve(holes);
  for (Chain& chain : chains) {
    append(all, chain, pool.block_bytes());
    chain.blocks.clear();
  }
  const uint64_t copied = close_holes(pool, all, true);
  give_unused(pool, all);
  pages.list = std::move(all.blocks);
  return copied;
}

uint64_t complete(pool::Pool& pool, std::vector<Chain>& chains, Pages& pages, Pages& unused) {
  Row row(pool, pages, unused);
  for (Chain& chain : chains) row.append(std::move(chain.blocks), chain.extent_bytes);
  scatter::finish_stores();
  return row.copied_bytes();
}

// ---- the outline

std::unexpected<Error> no_pages_left(const pool::PageStore& store, uint64_t bytes,
                                     const std::string& name) {
  return failure(ErrorCode::out_of_memory,
                 "partition " + std::to_string(bytes) + " bytes on a pool of " +
                     std::to_string(store.pages_max()) + " pages of " +
                     std::to_string(store.page_bytes()) + " bytes, of which " +
                     std::to_string(store.pages_free()) + " are free",
                 name, "a larger pool, or smaller pages: each bucket may end in one more");
}

template <class T>
Result<RewiredPartitions<T>> partition_rewired(const PagePool& page_pool, std::span<const T> items,
                                               const RewiredPartitionOptions& options) {
  const auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "partition", options.name, std::move(hint));
  };
  if (options.threads == 0 || options.threads > threads_max) return refuse("1 to 1024 threads");
  if (options.stable && options.threads > 1) return refuse("one thread, to be stable");
  const auto to = make_buckets(options.by, key_shape_of<T>(), options.name);
  if (!to) return std::unexpected(to.error());

  const std::shared_ptr<pool::PageStore>& store = internal::Access::core(page_pool);
  PagesAsBlocks pool(store);
  const uint64_t bytes = items.size_bytes();
  if (ceil_div(bytes, pool.block_bytes()) > store->pages_free())
    return no_pages_left(*store, bytes, options.name);
  RewiredPartitions<T> parts;
  const uint64_t start = now_ns();

  // Items to pages.
  const uint32_t buckets = to->map.buckets;
  auto memory = shared_pieces().open(pool,
                                     {.buckets = buckets,
                                      .workers = options.threads,
                                      .bytes_max = bytes,
                                      .item_bytes = sizeof(T),
                                      .stable = options.stable,
                                      .staggered = false,
                                      .name = options.name},
                                     0);
  if (!memory) return std::unexpected(std::move(memory.error()));
  Input<WordOf<T>> input(words_of(items));
  // If the system lacks threads, one thread distributes.
  if (!distribute(input, *to, **memory, options.threads, false))
    (void)distribute(input, *to, **memory, 1, false);
  const uint64_t distributed = now_ns();

  // All pages full.
  Collected all = collect(pool, **memory, buckets, options.threads, false);
  const ChainsEnd chains_end{pool, all.chains};
  parts.stats.pages_peak = all.blocks_peak;
  if ((*memory)->failed()) return no_pages_left(*store, bytes, options.name);
  Pages pages(pool), unused(pool);
  pages.list.reserve(all.blocks_peak);
  unused.list.reserve(all.blocks_peak);
  parts.offsets.reserve(buckets + 1);
  for (const Chain& chain : all.chains)
    parts.offsets.push_back(parts.offsets.back() + chain.extent_bytes / sizeof(T));
  PENSTOCK_CHECK(parts.offsets.back() == items.size(), "items were lost on the way to their pages");
  const uint64_t copied = options.stable ? complete_in_order(pool, all.chains, pages)
                                         : complete(pool, all.chains, pages, unused);
  const uint64_t completed = now_ns();

  // In a row.
  auto core = rewire::VectorCore::open(store, {.name = options.name});
  if (!core) return std::unexpected(std::move(core.error()));
  if (Status status = (*core)->append_pages(pages.list); !status)
    return std::unexpected(std::move(status.error()));
  parts.items = internal::Access::make<RewiredVector<T>>(rewire::VectorMemory(std::move(*core)),
                                                         items.size());
  const uint64_t rewired = now_ns();

  parts.stats.distribute_ns = distributed - start;
  parts.stats.complete_ns = completed - distributed;
  parts.stats.rewire_ns = rewired - completed;
  parts.stats.copied_bytes = all.copied_bytes + copied;
  parts.stats.pages = static_cast<uint32_t>(pages.list.size());
  return parts;
}

}  // namespace
}  // namespace partition_internal

template <Sortable T>
Result<RewiredPartitions<T>> rewired_partition(const PagePool& pool, std::span<const T> items,
                                               const RewiredPartitionOptions& options) {
  return or_out_of_memory(
      [&] { return partition_internal::partition_rewired<T>(pool, items, options); });
}

#define PENSTOCK_INSTANTIATE(T)                               \
  template Result<RewiredPartitions<T>> rewired_partition<T>( \
      const PagePool& pool, std::span<const T> items, const RewiredPartitionOptions& options);
PENSTOCK_FOR_SORTABLE(PENSTOCK_INSTANTIATE)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock
