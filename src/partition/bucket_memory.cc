// The five methods. Each says where a full line goes (place), and hands over its blocks.

#include "partition/bucket_memory.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "base/bits.h"
#include "partition/shared_pieces.h"
#include "partition/shared_streams.h"
#include "stream/ring_stream.h"

namespace penstock::partition_internal {
namespace {

// What a line still holds goes behind `at`, where the destination says. Returns its end.
std::byte* write_rest(const Destination& to, uint32_t bucket, std::byte* at,
                      std::span<const std::byte> rest) {
  if (rest.empty()) return at;
  if (reinterpret_cast<uintptr_t>(at) % to.unit_bytes == 0)
    at = to.place(to.self, bucket, at, rest.data());
  std::memcpy(at, rest.data(), rest.size());
  return at + rest.size();
}

constexpr size_t small_line = static_cast<size_t>(LineBytes::small);

// Of methods that claim each line. An atomic addition waits until the non-temporal stores before it
// are in memory, about 160 ns: larger lines cost less than that (table 3.3 of the thesis). A thread
// that is alone adds without.
LineBytes claimed_line(unsigned workers) {
  return workers == 1 ? LineBytes::small : LineBytes::large;
}

// A claim costs about 160 ns: its atomic addition waits until the non-temporal stores before it are
// in memory. An unfilled piece costs copying, about 0.1 ns a byte, and each worker leaves one in
// each bucket. The sum is least where both are equal. All of a bucket's unfilled pieces together
// are at most an eighth of the block that it ends in.
size_t piece_bytes(const MemoryOptions& options, size_t block_bytes) {
  if (options.workers == 1) return block_bytes;
  const uint64_t pieces_unfilled = uint64_t{options.workers} * options.buckets;
  const uint64_t square = 1600 * options.bytes_max / pieces_unfilled;
  size_t piece = small_line;
  while (4 * piece * piece <= square && 2 * piece * options.workers <= block_bytes / 8) piece *= 2;
  return piece;
}

static_assert(static_cast<int>(RingWrap::conditional) ==
              static_cast<int>(stream::Wrap::conditional));
static_assert(static_cast<int>(RingWrap::handler) == static_cast<int>(stream::Wrap::handler));
static_assert(static_cast<int>(RingWrap::mask) == static_cast<int>(stream::Wrap::mask));
stream::Wrap wrap_of(RingWrap wrap) {
  return static_cast<stream::Wrap>(wrap);
}

// One after the other, each worker's blocks, of which the last is not full.
void append(Chain& chain, std::vector<pool::BlockId> blocks, uint64_t bytes, size_t block_bytes) {
  const uint64_t end = chain.blocks.size() * block_bytes + bytes;
  chain.blocks.insert(chain.blocks.end(), blocks.begin(), blocks.end());
  chain.extent_bytes = chain.blocks.size() * block_bytes;
  if (end < chain.extent_bytes) chain.holes.push_back({end, chain.extent_bytes});
}

// ---- M-1A: streams of each worker's own

class PrivateStreams final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    auto memory = std::make_unique<PrivateStreams>(pool, options);
    for (unsigned worker = 0; worker < options.workers; ++worker) {
      auto streams = SharedStreams::open(
          pool,
          {.streams = options.buckets, .bytes_max = options.bytes_max, .reserve = options.reserve});
      if (!streams) return std::unexpected(std::move(streams.error()));
      memory->streams_.push_back(std::move(*streams));
    }
    return memory;
  }
  PrivateStreams(pool::Pool& pool, const MemoryOptions& options)
      : block_bytes_(pool.block_bytes()),
        buckets_(options.buckets),
        bytes_(uint64_t{options.workers} * options.buckets) {}

  Destination destination(unsigned) override { return {}; }
  std::byte* start(unsigned worker, uint32_t bucket) override {
    return streams_[worker]->begin(bucket);
  }
  void finish(unsigned worker, uint32_t bucket, std::byte* at,
              std::span<const std::byte> rest) override {
    if (!rest.empty()) std::memcpy(at, rest.data(), rest.size());
    bytes(worker, bucket) = static_cast<uint64_t>(at - start(worker, bucket)) + rest.size();
  }
  bool rows() const override { return streams_.size() == 1; }
  void stop_growing() override {
    for (const auto& streams : streams_) streams->stop_growing();
  }
  std::span<std::byte> row(uint32_t bucket) override {
    return {start(0, bucket), bytes(0, bucket)};
  }
  uint64_t row_blocks(uint32_t bucket) const override { return streams_[0]->blocks(bucket); }
  Chain take(uint32_t bucket) override {
    Chain chain;
    for (unsigned worker = 0; worker < streams_.size(); ++worker)
      append(chain, streams_[worker]->take_blocks(bucket), bytes(worker, bucket), block_bytes_);
    return chain;
  }

 private:
  uint64_t& bytes(unsigned worker, uint32_t bucket) {
    return bytes_[uint64_t{worker} * buckets_ + bucket];
  }

  const size_t block_bytes_;
  const uint32_t buckets_;
  std::vector<uint64_t> bytes_;
  std::vector<std::unique_ptr<SharedStreams>> streams_;
};

// ---- M-1B: rings of each worker's own

class PrivateRings final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    auto memory = std::make_unique<PrivateRings>(pool, options);
    for (unsigned worker = 0; worker < options.workers; ++worker) {
      auto rings = stream::RingGroup::open(
          pool,
          {.streams = options.buckets, .wrap = wrap_of(options.wrap), .reserve = options.reserve});
      if (!rings) return std::unexpected(std::move(rings.error()));
      memory->rings_.push_back(std::move(*rings));
    }
    return memory;
  }
  PrivateRings(pool::Pool& pool, const MemoryOptions& options)
      : wrap_(options.wrap),
        block_bytes_(pool.block_bytes()),
        buckets_(options.buckets),
        in_last_(uint64_t{options.workers} * options.buckets) {}

  Destination destination(unsigned worker) override {
    stream::RingGroup* const rings = rings_[worker].get();
    switch (wrap_) {
      case RingWrap::conditional:
        return {place_conditional, rings, block_bytes_};
      case RingWrap::handler:
        return {place_by_handler, rings, small_line};
      case RingWrap::mask:
        break;
    }
    return {place_masked, rings, small_line};
  }
  void finish(unsigned worker, uint32_t bucket, std::byte* at,
              std::span<const std::byte> rest) override {
    std::byte* const end = write_rest(destination(worker), bucket, at, rest);
    const auto last =
        end == nullptr ? 0 : static_cast<uint64_t>(end - rings_[worker]->begin(bucket));
    in_last_[uint64_t{worker} * buckets_ + bucket] = last % block_bytes_;
  }
  Chain take(uint32_t bucket) override {
    Chain chain;
    for (unsigned worker = 0; worker < rings_.size(); ++worker) {
      std::vector<pool::BlockId> blocks = rings_[worker]->take_blocks(bucket);
      const uint64_t in_last = in_last_[uint64_t{worker} * buckets_ + bucket];
      const uint64_t unused = in_last == 0 ? 0 : block_bytes_ - in_last;
      const uint64_t bytes = blocks.size() * block_bytes_ - unused;
      append(chain, std::move(blocks), bytes, block_bytes_);
    }
    return chain;
  }

 private:
  static std::byte* place_conditional(void* self, uint32_t bucket, std::byte*, const std::byte*) {
    auto& rings = *static_cast<stream::RingGroup*>(self);
    rings.reset(bucket);
    return rings.begin(bucket);
  }
  static std::byte* place_by_handler(void* self, uint32_t bucket, std::byte* at,
                                     const std::byte* line) {
    uint64_t word;
    std::memcpy(&word, line, sizeof word);
    return stream::RingGroup::store_first(
        at != nullptr ? at : static_cast<stream::RingGroup*>(self)->begin(bucket), word);
  }
  static std::byte* place_masked(void* self, uint32_t bucket, std::byte* at, const std::byte*) {
    const auto& rings = *static_cast<stream::RingGroup*>(self);
    std::byte* const begin = rings.begin(bucket);
    if (at == nullptr) return begin;
    return begin + (static_cast<uint64_t>(at - begin) & (rings.ring_bytes() - 1));
  }

  const RingWrap wrap_;
  const size_t block_bytes_;
  const uint32_t buckets_;
  std::vector<uint64_t> in_last_;  // 0: the last block is full, or there is none
  std::vector<std::unique_ptr<stream::RingGroup>> rings_;
};

// ---- M-2A and M-2B: a line is claimed by an atomic addition to the bucket's length

struct alignas(64) Length {
  // Relaxed: the addition only divides the bucket among the workers.
  uint64_t claim(LineBytes line) {
    const auto more = static_cast<size_t>(line);
    if (line == LineBytes::large) return bytes.fetch_add(more, std::memory_order_relaxed);
    const uint64_t at = bytes.load(std::memory_order_relaxed);  // alone
    bytes.store(at + more, std::memory_order_relaxed);
    return at;
  }
  std::atomic<uint64_t> bytes{0};
};

class SharedRings final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    if (pool.block_bytes() / static_cast<size_t>(claimed_line(options.workers)) <= options.workers)
      return failure(ErrorCode::invalid_argument, "share ring streams", options.name,
                     "blocks of more KiB than there are threads");
    auto rings = stream::RingGroup::open(pool, {.streams = options.buckets,
                                                .wrap = stream::Wrap::mask,
                                                .threads = options.workers,
                                                .reserve = options.reserve});
    if (!rings) return std::unexpected(std::move(rings.error()));
    return std::make_unique<SharedRings>(std::move(*rings), options);
  }
  SharedRings(std::unique_ptr<stream::RingGroup> rings, const MemoryOptions& options)
      : line_(claimed_line(options.workers)),
        rings_(std::move(rings)),
        lengths_(std::make_unique<Length[]>(options.buckets)) {}

  LineBytes line_bytes() const override { return line_; }
  Destination destination(unsigned) override { return {place, this, static_cast<size_t>(line_)}; }
  void leave(unsigned) override { rings_->leave(); }
  void finish(unsigned, uint32_t bucket, std::byte*, std::span<const std::byte> rest) override {
    while (!rest.empty()) {
      const uint64_t at = lengths_[bucket].bytes.load(std::memory_order_relaxed);
      const size_t in_block =
          std::min<size_t>(rest.size(), rings_->block_bytes() - at % rings_->block_bytes());
      lengths_[bucket].bytes.store(at + in_block, std::memory_order_relaxed);
      std::memcpy(rings_->begin(bucket) + at % rings_->ring_bytes(), rest.data(), in_block);
      rest = rest.subspan(in_block);
    }
  }
  Chain take(uint32_t bucket) override {
    return {.blocks = rings_->take_blocks(bucket),
            .extent_bytes = lengths_[bucket].bytes.load(std::memory_order_relaxed)};
  }

 private:
  static std::byte* place(void* self, uint32_t bucket, std::byte*, const std::byte*) {
    const auto& all = *static_cast<SharedRings*>(self);
    const uint64_t at = all.lengths_[bucket].claim(all.line_);
    return all.rings_->begin(bucket) + (at & (all.rings_->ring_bytes() - 1));
  }

  const LineBytes line_;
  const std::unique_ptr<stream::RingGroup> rings_;
  const std::unique_ptr<Length[]> lengths_;
};

class StreamsOfAll final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    auto streams = SharedStreams::open(
        pool,
        {.streams = options.buckets, .bytes_max = options.bytes_max, .reserve = options.reserve});
    if (!streams) return std::unexpected(std::move(streams.error()));
    return std::make_unique<StreamsOfAll>(std::move(*streams), options);
  }
  StreamsOfAll(std::unique_ptr<SharedStreams> streams, const MemoryOptions& options)
      : line_(claimed_line(options.workers)),
        streams_(std::move(streams)),
        lengths_(std::make_unique<Length[]>(options.buckets)) {}

  LineBytes line_bytes() const override { return line_; }
  Destination destination(unsigned) override { return {place, this, static_cast<size_t>(line_)}; }
  void finish(unsigned, uint32_t bucket, std::byte*, std::span<const std::byte> rest) override {
    if (rest.empty()) return;
    const uint64_t at = lengths_[bucket].bytes.fetch_add(rest.size(), std::memory_order_relaxed);
    std::memcpy(streams_->begin(bucket) + at, rest.data(), rest.size());
  }
  bool rows() const override { return true; }
  void stop_growing() override { streams_->stop_growing(); }
  std::span<std::byte> row(uint32_t bucket) override {
    return {streams_->begin(bucket), lengths_[bucket].bytes.load(std::memory_order_relaxed)};
  }
  uint64_t row_blocks(uint32_t bucket) const override { return streams_->blocks(bucket); }
  Chain take(uint32_t bucket) override {
    return {.blocks = streams_->take_blocks(bucket),
            .extent_bytes = lengths_[bucket].bytes.exchange(0, std::memory_order_relaxed)};
  }

 private:
  static std::byte* place(void* self, uint32_t bucket, std::byte*, const std::byte*) {
    const auto& all = *static_cast<StreamsOfAll*>(self);
    return all.streams_->begin(bucket) + all.lengths_[bucket].claim(all.line_);
  }

  const LineBytes line_;
  const std::unique_ptr<SharedStreams> streams_;
  const std::unique_ptr<Length[]> lengths_;
};

// ---- M3: pieces of shared blocks

class PiecesOfAll final : public BucketMemory {
 public:
  static Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool,
                                                    const MemoryOptions& options) {
    auto pieces =
        SharedPieces::open(pool, {.buckets = options.buckets,
                                  .workers = options.workers,
                                  .bytes_max = options.bytes_max,
                                  .piece_bytes = piece_bytes(options, pool.block_bytes())});
    if (!pieces) return std::unexpected(std::move(pieces.error()));
    return std::make_unique<PiecesOfAll>(std::move(*pieces), options);
  }
  PiecesOfAll(std::unique_ptr<SharedPieces> pieces, const MemoryOptions& options)
      : pieces_(std::move(pieces)),
        workers_(options.workers),
        holes_(uint64_t{options.workers} * options.buckets) {}

  Destination destination(unsigned worker) override { return pieces_->destination(worker); }
  bool failed() const override { return pieces_->failed(); }
  void finish(unsigned worker, uint32_t bucket, std::byte* at,
              std::span<const std::byte> rest) override {
    std::byte* const end = write_rest(destination(worker), bucket, at, rest);
    const auto hole = pieces_->hole(worker, bucket, end);
    holes_[uint64_t{bucket} * workers_ + worker] = {hole.from, hole.to};
  }
  Chain take(uint32_t bucket) override {
    Chain chain{.blocks = pieces_->take_blocks(bucket),
                .extent_bytes = pieces_->extent_bytes(bucket)};
    for (unsigned worker = 0; worker < workers_; ++worker) {
      const Chain::Hole& hole = holes_[uint64_t{bucket} * workers_ + worker];
      if (hole.from < hole.to) chain.holes.push_back(hole);
    }
    std::sort(chain.holes.begin(), chain.holes.end(),
              [](const Chain::Hole& a, const Chain::Hole& b) { return a.from < b.from; });
    return chain;
  }

 private:
  const std::unique_ptr<SharedPieces> pieces_;
  const unsigned workers_;
  std::vector<Chain::Hole> holes_;
};

}  // namespace

Result<std::unique_ptr<BucketMemory>> BucketMemory::open(pool::Pool& pool,
                                                         const MemoryOptions& options) {
  switch (options.method) {
    case PartitionMethod::private_streams:
      return PrivateStreams::open(pool, options);
    case PartitionMethod::private_rings:
      return PrivateRings::open(pool, options);
    case PartitionMethod::shared_rings:
      return SharedRings::open(pool, options);
    case PartitionMethod::shared_streams:
      return StreamsOfAll::open(pool, options);
    default:
      return PiecesOfAll::open(pool, options);
  }
}

// Every bucket of every owner may end in a block that is not full, and every worker may leave a
// piece of each bucket unfilled, if there are items for so many.
uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) {
  const bool is_private = options.method == PartitionMethod::private_streams ||
                          options.method == PartitionMethod::private_rings;
  const uint64_t items = options.bytes_max / 4;  // at most
  const uint64_t ends = uint64_t{options.buckets} * (is_private ? options.workers : 1);
  uint64_t bytes = options.bytes_max;
  if (options.method == PartitionMethod::shared_pieces && options.workers > 1)
    bytes += std::min(uint64_t{options.buckets} * options.workers, items) *
             piece_bytes(options, block_bytes);
  return bytes / block_bytes + std::min(ends, items);
}

uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) {
  const uint64_t buckets = options.buckets;
  switch (options.method) {
    case PartitionMethod::private_streams:
      return blocks + std::min(blocks, options.workers * buckets);
    case PartitionMethod::shared_streams:
      return blocks + std::min(blocks, buckets);
    case PartitionMethod::private_rings:
      return 2 * std::min(blocks, options.workers * buckets);
    case PartitionMethod::shared_rings:
      return 2 * std::min(blocks, buckets);
    default:
      return 0;
  }
}

}  // namespace penstock::partition_internal
