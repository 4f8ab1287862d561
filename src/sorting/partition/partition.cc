// Partitioning, from the outside in: check the options, open the buckets' memory, let workers
// distribute the input, write the rests of their lines, close the holes, and map the blocks of each
// bucket in a row.
//
// Workers claim the input in jobs of 2 MiB, or, if order matters, take one part of it each. In
// place, a job is a block: only its worker reads it, so it returns to the pool when that worker has
// read it.
//
// The calling thread is worker 0.

#include "penstock/partition.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <utility>

#include "base/access.h"
#include "base/bits.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "os/limits.h"
#include "sorting/partition/bucket_function.h"
#include "sorting/partition/join.h"
#include "sorting/partition/pass.h"
#include "sorting/partition/shared_pieces.h"
#include "sorting/partition/workers.h"

namespace penstock {

namespace partition_internal {

using scatter::BucketMap;

// Limit on the mappings of one partition; the rest is left to other code. Beyond the kernel's limit
// a fault handler could not report the error.
uint64_t mappings_max() {
  static const uint64_t limit = os::limits().mappings_max.value_or(65530);
  return limit / 5 * 4;
}

Status check_mappings(const pool::Pool& pool, uint64_t mappings, const std::string& name) {
  // Pages moved by userfaultfd split no mapping.
  if (pool.mechanism() == pool::Mechanism::uffd_move || mappings <= mappings_max()) return {};
  return failure(ErrorCode::out_of_mappings,
                 "bring blocks into rows with up to " + std::to_string(mappings) + " mappings",
                 name, "larger blocks, or a larger vm.max_map_count");
}

// The error of a pool that lacks blocks although it reported them free. Blocks watched by
// userfaultfd may be a mapping each, even at home.
std::unexpected<Error> no_blocks_left(uint64_t blocks, const std::string& name) {
  const std::string attempted = "take " + std::to_string(blocks) + " blocks for buckets";
  if (blocks > mappings_max())
    return failure(ErrorCode::out_of_mappings, attempted, name,
                   "larger blocks, or a larger vm.max_map_count");
  return failure(ErrorCode::out_of_memory, attempted, name,
                 "more memory, or a pool that nobody else takes from meanwhile");
}

// The result. A bucket's blocks are mapped in a row in range_, or are still in the method's memory.
class Core {
 public:
  struct Row {
    std::byte* begin = nullptr;  // begin of the first block
    uint64_t start = 0;          // offset of the items in it
    uint64_t bytes = 0;
    std::vector<pool::BlockId> blocks;
    size_t mapped = 0;  // number of blocks mapped; the others are at home
  };

  Core(std::shared_ptr<pool::Pool> pool, uint32_t buckets)
      : pool_(std::move(pool)), rows_(buckets) {}
  ~Core() {
    for (uint32_t bucket = 0; memory_ == nullptr && bucket < rows_.size(); ++bucket)
      release(bucket);
    memory_.reset();
    if (range_.begin() != nullptr) pool_->release(range_);
  }

  void release(uint32_t bucket) {
    Row& row = rows_[bucket];
    if (memory_ != nullptr) row.blocks = memory_->take(bucket).blocks;
    for (size_t i = 0; i < row.blocks.size(); ++i) {
      if (i < row.mapped) {
        const int error = pool_->unmap(row.blocks[i], row.begin + i * pool_->block_bytes());
        PENSTOCK_CHECK(error == 0, "a block of a bucket cannot be taken home");
      }
      pool_->give(row.blocks[i]);
    }
    row = {};
  }

  void keep_in(std::unique_ptr<BucketMemory> memory) {
    memory_ = std::move(memory);
    for (uint32_t bucket = 0; bucket < rows_.size(); ++bucket) {
      const BucketMemory::Row row = memory_->row(bucket);
      rows_[bucket].begin = row.bytes.data();
      rows_[bucket].bytes = row.bytes.size();
      stats.blocks += static_cast<uint32_t>(row.blocks);
    }
    stats.blocks_peak = stats.blocks;
  }

  // Takes over the chains, even if it fails. If the homes of a bucket's blocks follow each other,
  // as with a single block, they are a row already and stay there.
  Status map_rows(std::vector<Chain> chains, const std::string& name) {
    const size_t block_bytes = pool_->block_bytes();
    uint64_t blocks_to_map = 0;
    for (uint32_t bucket = 0; bucket < rows_.size(); ++bucket) {
      Row& row = rows_[bucket];
      row.start = chains[bucket].begin_bytes;
      row.bytes = chains[bucket].extent_bytes - row.start;
      row.blocks = std::move(chains[bucket].blocks);
      stats.blocks += static_cast<uint32_t>(row.blocks.size());
      if (is_row_at_home(row.blocks)) {
        row.begin = row.blocks.empty() ? nullptr : pool_->home(row.blocks.front());
      } else {
        blocks_to_map += row.blocks.size();
      }
    }
    if (blocks_to_map == 0) return {};
    if (Status status = check_mappings(*pool_, blocks_to_map, name); !status) return status;
    auto range = pool_->reserve(blocks_to_map * block_bytes);
    if (!range) return std::unexpected(std::move(range.error()));
    range_ = std::move(*range);
    std::byte* at = range_.begin();
    for (Row& row : rows_) {
      if (is_row_at_home(row.blocks)) continue;
      row.begin = at;
      for (const pool::BlockId block : row.blocks) {
        if (const int error = pool_->map(block, at)) {
          auto failed = system_error(error, "bring blocks into a row", name,
                                     "larger blocks, or a larger vm.max_map_count");
          if (error == ENOMEM) failed.error().code = ErrorCode::out_of_mappings;
          return failed;
        }
        ++row.mapped;
        at += block_bytes;
      }
    }
    return {};
  }

  const std::vector<Row>& rows() const { return rows_; }

  PartitionStats stats;

 private:
  bool is_row_at_home(const std::vector<pool::BlockId>& blocks) const {
    for (size_t i = 1; i < blocks.size(); ++i) {
      if (pool_->home(blocks[i]) != pool_->home(blocks[i - 1]) + pool_->block_bytes()) return false;
    }
    return true;
  }

  const std::shared_ptr<pool::Pool> pool_;
  std::unique_ptr<BucketMemory> memory_;
  os::Reservation range_;
  std::vector<Row> rows_;
};

uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::steady_clock::now().time_since_epoch())
                                   .count());
}

template <class T>
Status distribute(Input<T>& input, const Buckets& to, BucketMemory& memory, unsigned threads,
                  bool stable) {
  const BucketMap& map = to.map;
  std::vector<std::unique_ptr<scatter::LineScatter<T>>> scatters;
  for (unsigned worker = 0; worker < threads; ++worker) {
    scatters.push_back(std::make_unique<scatter::LineScatter<T>>(map.buckets, memory.line_bytes()));
    scatters.back()->ask_for_room(memory.room_maker(worker));
    for (uint32_t bucket = 0; bucket < map.buckets; ++bucket) {
      if (std::byte* const start = memory.start(worker, bucket); start != nullptr)
        scatters.back()->begin(bucket, reinterpret_cast<T*>(start));
    }
  }

  const uint64_t jobs = input.jobs();
  std::atomic<uint64_t> next_job{0};
  const Status status = run_workers(threads, [&](unsigned worker) {
    const auto run = [&](uint64_t job) {
      input.with_job(job, [&](std::span<const T> items) {
        scatters[worker]->add(items.data(), items.size(), map, to.order,
                              items.data() + items.size());
      });
    };
    if (stable) {
      const uint64_t end = jobs * (worker + 1) / threads;
      for (uint64_t job = jobs * worker / threads; job < end; ++job) run(job);
    } else {
      for (uint64_t job; (job = next_job.fetch_add(1, std::memory_order_relaxed)) < jobs;) run(job);
    }
    scatter::finish_stores();
    memory.leave(worker);
  });
  if (!status) return status;

  for (unsigned worker = 0; worker < threads; ++worker) {
    for (uint32_t bucket = 0; bucket < map.buckets; ++bucket)
      memory.finish(worker, bucket, scatters[worker]->room_of(bucket),
                    scatters[worker]->rest(bucket));
  }
  return {};
}

Collected collect(pool::Pool& pool, BucketMemory& memory, uint32_t buckets, unsigned threads,
                  bool stable) {
  Collected all;
  const auto give_all = [&] {
    for (const Chain& chain : all.chains) {
      for (const pool::BlockId block : chain.blocks) pool.give(block);
    }
    all.chains.clear();
  };
  try {
    all.chains.reserve(buckets);
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      all.chains.push_back(memory.take(bucket));
      all.blocks_peak += static_cast<uint32_t>(all.chains.back().blocks.size());
    }
  } catch (const std::bad_alloc&) {
    give_all();
    throw;
  }
  if (memory.failed()) {
    give_all();
    return all;
  }
  std::atomic<uint32_t> next_bucket{0};
  std::atomic<uint64_t> copied_bytes{0};
  share_work(threads, [&](unsigned) {
    for (uint32_t bucket; (bucket = next_bucket.fetch_add(1)) < buckets;)
      copied_bytes += close_holes(pool, all.chains[bucket], stable);
  });
  all.copied_bytes = copied_bytes;
  for (Chain& chain : all.chains) give_unused(pool, chain);
  return all;
}

namespace {

// `blocks_ahead`: blocks that the method takes now if it would otherwise take them in a fault
// handler, which can only stop the program when there is none.
template <class T>
Result<std::unique_ptr<Core>> run(const std::shared_ptr<pool::Pool>& pool, Input<T>& input,
                                  const Buckets& to, const Method& method,
                                  const MemoryOptions& options, uint64_t blocks_ahead) {
  const uint32_t buckets = to.map.buckets;
  auto core = std::make_unique<Core>(pool, buckets);
  const uint64_t needed = method.blocks_needed(options, pool->block_bytes());
  if (Status status = check_mappings(*pool, method.mappings_needed(options, needed), options.name);
      !status)
    return std::unexpected(std::move(status.error()));
  auto memory = method.open(*pool, options, blocks_ahead);
  if (!memory) return std::unexpected(std::move(memory.error()));

  const uint64_t begin_ns = now_ns();
  if (Status status = distribute(input, to, **memory, options.workers, options.stable); !status)
    return std::unexpected(std::move(status.error()));
  const uint64_t distributed_ns = now_ns();

  PartitionStats& stats = core->stats;
  if ((*memory)->complete()) {
    core->keep_in(std::move(*memory));
  } else {
    auto all = collect(*pool, **memory, buckets, options.workers, options.stable);
    if ((*memory)->failed()) return no_blocks_left(all.blocks_peak, options.name);
    memory->reset();
    stats.blocks_peak = all.blocks_peak;
    stats.copied_bytes = all.copied_bytes;
    if (Status status = core->map_rows(std::move(all.chains), options.name); !status)
      return std::unexpected(std::move(status.error()));
  }
  stats.distribute_ns = distributed_ns - begin_ns;
  stats.join_ns = now_ns() - distributed_ns;
  return core;
}

// A bucket should have several blocks, so that little of the last one is unused, but any block may
// be a mapping. From 2 MiB on, blocks are huge pages, which are much faster to write to.
size_t block_bytes_for(const Method& method, const MemoryOptions& options) {
  const uint64_t bucket_bytes = options.bytes_max / options.buckets;
  if (bucket_bytes >= 512 * KiB) return 2 * MiB;
  size_t block_bytes =
      std::max(std::bit_floor(bucket_bytes / 4 + 1), method.block_bytes_min(options));
  const auto mappings = [&] {
    const uint64_t blocks = method.blocks_needed(options, block_bytes);
    return std::max(blocks, method.mappings_needed(options, blocks));
  };
  while (block_bytes < bucket_bytes && mappings() > mappings_max()) block_bytes *= 2;
  return block_bytes;
}

// Implements partition_by() for words.
template <class T>
Result<std::unique_ptr<Core>> partition_words(const Method& method, const BlockPool* given,
                                              Input<T> input, const KeyShape& shape,
                                              const PartitionOptions& options) {
  const auto refuse = [&](std::string hint) {
    return failure(ErrorCode::invalid_argument, "partition", options.name, std::move(hint));
  };
  const auto buckets = make_buckets(options.by, shape, options.name);
  if (!buckets) return std::unexpected(buckets.error());
  if (options.threads == 0 || options.threads > threads_max) return refuse("1 to 1024 threads");
  if (options.stable && options.threads > 1 && !method.can_be_stable())
    return refuse("one thread, or a method with buckets of each thread's own, to be stable");
  const MemoryOptions memory_options{.buckets = buckets->map.buckets,
                                     .workers = options.threads,
                                     .bytes_max = input.count() * sizeof(T),
                                     .item_bytes = sizeof(T),
                                     .stable = options.stable,
                                     .name = options.name};

  if (given != nullptr) {
    const auto& pool = internal::Access::core(*given);
    const uint64_t needed = method.blocks_needed(memory_options, pool->block_bytes());
    // In place, the input that was read makes room, except for the blocks that are being read.
    const uint64_t back = input.in_place() ? input.jobs() : 0;
    const uint64_t in_hand = input.in_place() ? std::min<uint64_t>(options.threads, back) : 0;
    if (needed + in_hand > pool->blocks_free() + back)
      return failure(ErrorCode::out_of_memory,
                     "partition with " + std::to_string(pool->blocks_free()) + " free blocks",
                     options.name, std::to_string(needed + in_hand - back) + " free blocks");
    return run(pool, input, *buckets, method, memory_options,
               needed + in_hand - std::min(needed + in_hand, back));
  }
  const size_t block_bytes =
      options.block_bytes != 0 ? options.block_bytes : block_bytes_for(method, memory_options);
  if (!std::has_single_bit(block_bytes) || block_bytes < 4 * KiB)
    return refuse("blocks of a power of two, 4096 bytes or more");
  const uint64_t needed = method.blocks_needed(memory_options, block_bytes);
  if (needed >= pool::no_block) return refuse("larger blocks");
  auto pool = BlockPool::open(
      {.block_bytes = block_bytes, .blocks = std::max(static_cast<uint32_t>(needed), 1u)});
  if (!pool) return std::unexpected(std::move(pool.error()));
  // Nobody else empties a pool opened here; but any block may be a mapping, even at home.
  const uint64_t ahead = needed > mappings_max() ? needed : 0;
  return run(internal::Access::core(*pool), input, *buckets, method, memory_options, ahead);
}

}  // namespace

template <class T>
Result<Partitions<T>> partition_by(const Method& method, const BlockPool* pool,
                                   Input<WordOf<T>> input, const PartitionOptions& options) {
  return or_out_of_memory([&]() -> Result<Partitions<T>> {
    auto core = partition_words(method, pool, std::move(input), key_shape_of<T>(), options);
    if (!core) return std::unexpected(std::move(core.error()));
    return internal::Access::make<Partitions<T>>(std::move(*core));
  });
}

}  // namespace partition_internal

using namespace partition_internal;

// ---- the public classes

template <Sortable T>
Partitions<T>::Partitions(std::unique_ptr<Core> core) : core_(std::move(core)) {}
template <Sortable T>
Partitions<T>::Partitions(Partitions&&) noexcept = default;
template <Sortable T>
Partitions<T>& Partitions<T>::operator=(Partitions&&) noexcept = default;
template <Sortable T>
Partitions<T>::~Partitions() = default;

template <Sortable T>
uint32_t Partitions<T>::buckets() const {
  return static_cast<uint32_t>(core_->rows().size());
}
template <Sortable T>
std::span<T> Partitions<T>::bucket(uint32_t index) const {
  const Core::Row& row = core_->rows()[index];
  return {reinterpret_cast<T*>(row.begin + row.start), row.bytes / sizeof(T)};
}
template <Sortable T>
void Partitions<T>::release(uint32_t index) {
  core_->release(index);
}
template <Sortable T>
const PartitionStats& Partitions<T>::stats() const {
  return core_->stats;
}

template <Sortable T>
Result<Partitions<T>> partition(std::span<const T> items, const PartitionOptions& options) {
  return partition_by<T>(shared_pieces(), nullptr, Input<WordOf<T>>(words_of(items)), options);
}

template <Sortable T>
Result<Partitions<T>> partition(const BlockPool& pool, std::span<const T> items,
                                const PartitionOptions& options) {
  return partition_by<T>(shared_pieces(), &pool, Input<WordOf<T>>(words_of(items)), options);
}

template <Sortable T>
Result<Partitions<T>> partition_in_place(const BlockPool& pool,
                                         std::vector<BlockPool::Block> blocks, uint64_t count,
                                         const PartitionOptions& options) {
  auto input = or_out_of_memory(
      [&] { return Input<WordOf<T>>::in_place(pool, std::move(blocks), count, options.name); });
  if (!input) return std::unexpected(std::move(input.error()));
  return partition_by<T>(shared_pieces(), &pool, std::move(*input), options);
}

template <Sortable T>
uint64_t rank_of(const T& item) {
  if constexpr (std::is_same_v<T, KeyValue32>) {
    return item.key;
  } else {
    return scatter::key_of(
        scatter::encode(std::bit_cast<scatter::ItemOf<T>>(item), scatter::key_order_of<T>(false)));
  }
}

#define PENSTOCK_INSTANTIATE(T)                                                            \
  template Status partition_internal::distribute(Input<T>&, const Buckets&, BucketMemory&, \
                                                 unsigned, bool);
PENSTOCK_INSTANTIATE(uint8_t)
PENSTOCK_INSTANTIATE(uint16_t)
PENSTOCK_INSTANTIATE(uint32_t)
PENSTOCK_INSTANTIATE(uint64_t)
PENSTOCK_INSTANTIATE(KeyValue32)
PENSTOCK_INSTANTIATE(KeyValue64)
PENSTOCK_INSTANTIATE(Key128)
#undef PENSTOCK_INSTANTIATE

#define PENSTOCK_INSTANTIATE(T)                                                             \
  template uint64_t rank_of(const T&);                                                      \
  template Result<Partitions<T>> partition_internal::partition_by<T>(                       \
      const Method&, const BlockPool*, Input<WordOf<T>>, const PartitionOptions&);          \
  template class Partitions<T>;                                                             \
  template Result<Partitions<T>> partition(std::span<const T> items,                        \
                                           const PartitionOptions& options);                \
  template Result<Partitions<T>> partition(const BlockPool& pool, std::span<const T> items, \
                                           const PartitionOptions& options);                \
  template Result<Partitions<T>> partition_in_place<T>(                                     \
      const BlockPool& pool, std::vector<BlockPool::Block> blocks, uint64_t count,          \
      const PartitionOptions& options);
PENSTOCK_FOR_SORTABLE(PENSTOCK_INSTANTIATE)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock
