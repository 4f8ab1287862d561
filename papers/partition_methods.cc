// The four methods. Each provides room for full lines (make_room), and hands over its blocks.

#include "papers/partition_methods.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "base/bits.h"
#include "papers/block_reserve.h"
#include "papers/shared_streams.h"
#include "sorting/partition/join.h"

namespace penstock::papers {
namespace {

using partition_internal::BucketMemory;
using partition_internal::Chain;
using partition_internal::MemoryOptions;
using partition_internal::Method;
using scatter::LineBytes;
using scatter::Room;
using scatter::RoomMaker;

// Line size of methods that claim each line. An atomic addition waits until the non-temporal stores
// before it are in memory, about 160 ns: larger lines cost less than that (table 3.3 of the
// thesis). A single thread adds without atomic operations.
LineBytes claimed_line(unsigned workers) {
  return workers == 1 ? LineBytes::small : LineBytes::large;
}

Room line_at(std::byte* at, LineBytes line) {
  return {at, at + static_cast<size_t>(line)};
}

// Takes blocks in a fault handler, from a reserve.
class FaultingMemory : public BucketMemory {
 public:
  explicit FaultingMemory(pool::Pool& pool) : reserve_(pool) {}
  bool take_ahead(uint64_t blocks) { return reserve_.fill(blocks); }
  bool complete() override {
    reserve_.give_back();
    return false;
  }

 protected:
  BlockReserve reserve_;
};

// ---- M-1A: streams of each worker's own

class PrivateStreams final : public FaultingMemory {
 public:
  PrivateStreams(pool::Pool& pool, const MemoryOptions& options)
      : FaultingMemory(pool),
        block_bytes_(pool.block_bytes()),
        buckets_(options.buckets),
        bytes_(uint64_t{options.workers} * options.buckets) {}
  Status open(pool::Pool& pool, const MemoryOptions& options) {
    for (unsigned worker = 0; worker < options.workers; ++worker) {
      auto streams = SharedStreams::open(
          pool, {.streams = options.buckets, .bytes_max = options.bytes_max, .reserve = &reserve_});
      if (!streams) return std::unexpected(std::move(streams.error()));
      streams_.push_back(std::move(*streams));
    }
    return {};
  }

  RoomMaker room_maker(unsigned) override { return {}; }
  std::byte* start(unsigned worker, uint32_t bucket) override {
    return streams_[worker]->begin(bucket);
  }
  void finish(unsigned worker, uint32_t bucket, Room room,
              std::span<const std::byte> rest) override {
    std::byte* const end = write_rest({}, bucket, room, rest);
    bytes(worker, bucket) = static_cast<uint64_t>(end - start(worker, bucket));
  }
  bool complete() override {
    FaultingMemory::complete();
    for (const auto& streams : streams_) streams->stop_growing();
    return streams_.size() == 1;
  }
  Row row(uint32_t bucket) override {
    return {{start(0, bucket), bytes(0, bucket)}, streams_[0]->blocks(bucket)};
  }
  Chain take(uint32_t bucket) override {
    Chain chain;
    for (unsigned worker = 0; worker < streams_.size(); ++worker)
      append(
          chain,
          {.blocks = streams_[worker]->take_blocks(bucket), .extent_bytes = bytes(worker, bucket)},
          block_bytes_);
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

class PrivateRings final : public FaultingMemory {
 public:
  PrivateRings(pool::Pool& pool, const MemoryOptions& options, Wrap wrap)
      : FaultingMemory(pool),
        wrap_(wrap),
        block_bytes_(pool.block_bytes()),
        buckets_(options.buckets),
        in_last_(uint64_t{options.workers} * options.buckets) {}
  Status open(pool::Pool& pool, const MemoryOptions& options) {
    for (unsigned worker = 0; worker < options.workers; ++worker) {
      auto rings =
          RingGroup::open(pool, {.streams = options.buckets, .wrap = wrap_, .reserve = &reserve_});
      if (!rings) return std::unexpected(std::move(rings.error()));
      rings_.push_back(std::move(*rings));
    }
    return {};
  }

  RoomMaker room_maker(unsigned worker) override {
    switch (wrap_) {
      case Wrap::conditional:
        return {make_conditional, rings_[worker].get()};
      case Wrap::handler:
        return {make_by_handler, rings_[worker].get()};
      case Wrap::mask:
        break;
    }
    return {make_masked, rings_[worker].get()};
  }
  void finish(unsigned worker, uint32_t bucket, Room room,
              std::span<const std::byte> rest) override {
    std::byte* const end = write_rest(room_maker(worker), bucket, room, rest);
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
      append(chain, {.blocks = std::move(blocks), .extent_bytes = bytes}, block_bytes_);
    }
    return chain;
  }

 private:
  static void make_conditional(void* self, uint32_t bucket, Room& room, const std::byte*) {
    auto& rings = *static_cast<RingGroup*>(self);
    rings.reset(bucket);
    room = {rings.begin(bucket), rings.begin(bucket) + rings.block_bytes()};
  }
  // The other two ask at each line.
  static void make_by_handler(void* self, uint32_t bucket, Room& room, const std::byte* line) {
    uint64_t word;
    std::memcpy(&word, line, sizeof word);
    std::byte* const at =
        room.next != nullptr ? room.next : static_cast<RingGroup*>(self)->begin(bucket);
    room = line_at(RingGroup::store_first(at, word), LineBytes::small);
  }
  static void make_masked(void* self, uint32_t bucket, Room& room, const std::byte*) {
    const auto& rings = *static_cast<RingGroup*>(self);
    std::byte* const begin = rings.begin(bucket);
    const uint64_t at = room.next != nullptr ? static_cast<uint64_t>(room.next - begin) : 0;
    room = line_at(begin + (at & (rings.ring_bytes() - 1)), LineBytes::small);
  }

  const Wrap wrap_;
  const size_t block_bytes_;
  const uint32_t buckets_;
  std::vector<uint64_t> in_last_;  // 0: the last block is full, or there is none
  std::vector<std::unique_ptr<RingGroup>> rings_;
};

// ---- M-2A and M-2B: a line is claimed by an atomic addition to the bucket's length

struct alignas(64) Length {
  // Relaxed: the addition only divides the bucket among the workers.
  uint64_t claim(LineBytes line) {
    const auto more = static_cast<size_t>(line);
    if (line == LineBytes::large) return bytes.fetch_add(more, std::memory_order_relaxed);
    const uint64_t at = bytes.load(std::memory_order_relaxed);  // a single thread
    bytes.store(at + more, std::memory_order_relaxed);
    return at;
  }
  std::atomic<uint64_t> bytes{0};
};

class SharedRings final : public FaultingMemory {
 public:
  SharedRings(pool::Pool& pool, const MemoryOptions& options)
      : FaultingMemory(pool),
        line_(claimed_line(options.workers)),
        lengths_(std::make_unique<Length[]>(options.buckets)) {}
  Status open(pool::Pool& pool, const MemoryOptions& options) {
    if (pool.block_bytes() / static_cast<size_t>(line_) <= options.workers)
      return failure(ErrorCode::invalid_argument, "share ring streams", options.name,
                     "blocks of more KiB than there are threads");
    auto rings = RingGroup::open(pool, {.streams = options.buckets,
                                        .wrap = Wrap::mask,
                                        .threads = options.workers,
                                        .reserve = &reserve_});
    if (!rings) return std::unexpected(std::move(rings.error()));
    rings_ = std::move(*rings);
    return {};
  }

  LineBytes line_bytes() const override { return line_; }
  RoomMaker room_maker(unsigned) override { return {make_room, this}; }
  void leave(unsigned) override { rings_->leave(); }
  void finish(unsigned, uint32_t bucket, Room, std::span<const std::byte> rest) override {
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
  static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
    const auto& all = *static_cast<SharedRings*>(self);
    const uint64_t at = all.lengths_[bucket].claim(all.line_);
    room = line_at(all.rings_->begin(bucket) + (at & (all.rings_->ring_bytes() - 1)), all.line_);
  }

  const LineBytes line_;
  std::unique_ptr<RingGroup> rings_;
  const std::unique_ptr<Length[]> lengths_;
};

class StreamsOfAll final : public FaultingMemory {
 public:
  StreamsOfAll(pool::Pool& pool, const MemoryOptions& options)
      : FaultingMemory(pool),
        line_(claimed_line(options.workers)),
        lengths_(std::make_unique<Length[]>(options.buckets)) {}
  Status open(pool::Pool& pool, const MemoryOptions& options) {
    auto streams = SharedStreams::open(
        pool, {.streams = options.buckets, .bytes_max = options.bytes_max, .reserve = &reserve_});
    if (!streams) return std::unexpected(std::move(streams.error()));
    streams_ = std::move(*streams);
    return {};
  }

  LineBytes line_bytes() const override { return line_; }
  RoomMaker room_maker(unsigned) override { return {make_room, this}; }
  void finish(unsigned, uint32_t bucket, Room, std::span<const std::byte> rest) override {
    if (rest.empty()) return;
    const uint64_t at = lengths_[bucket].bytes.fetch_add(rest.size(), std::memory_order_relaxed);
    std::memcpy(streams_->begin(bucket) + at, rest.data(), rest.size());
  }
  bool complete() override {
    FaultingMemory::complete();
    streams_->stop_growing();
    return true;
  }
  Row row(uint32_t bucket) override {
    return {{streams_->begin(bucket), lengths_[bucket].bytes.load(std::memory_order_relaxed)},
            streams_->blocks(bucket)};
  }
  Chain take(uint32_t bucket) override {
    return {.blocks = streams_->take_blocks(bucket),
            .extent_bytes = lengths_[bucket].bytes.exchange(0, std::memory_order_relaxed)};
  }

 private:
  static void make_room(void* self, uint32_t bucket, Room& room, const std::byte*) {
    const auto& all = *static_cast<StreamsOfAll*>(self);
    room = line_at(all.streams_->begin(bucket) + all.lengths_[bucket].claim(all.line_), all.line_);
  }

  const LineBytes line_;
  std::unique_ptr<SharedStreams> streams_;
  const std::unique_ptr<Length[]> lengths_;
};

// ---- the methods' descriptions

template <class Memory, class... More>
Result<std::unique_ptr<BucketMemory>> open_memory(pool::Pool& pool, const MemoryOptions& options,
                                                  uint64_t blocks_ahead, More... more) {
  auto memory = std::make_unique<Memory>(pool, options, more...);
  if (!memory->take_ahead(blocks_ahead))
    return partition_internal::no_blocks_left(blocks_ahead, options.name);
  if (Status status = memory->open(pool, options); !status)
    return std::unexpected(std::move(status.error()));
  return memory;
}

// Every bucket of every owner may end in a partly filled block, if there are items for that many.
uint64_t blocks_for(const MemoryOptions& options, size_t block_bytes, uint64_t owners) {
  const uint64_t items = options.bytes_max / options.item_bytes;
  return options.bytes_max / block_bytes + std::min(options.buckets * owners, items);
}

class PrivateStreamsMethod final : public Method {
  uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) const override {
    return blocks_for(options, block_bytes, options.workers);
  }
  uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) const override {
    return blocks + std::min<uint64_t>(blocks, uint64_t{options.workers} * options.buckets);
  }
  Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                             uint64_t blocks_ahead) const override {
    return open_memory<PrivateStreams>(pool, options, blocks_ahead);
  }
};

class PrivateRingsMethod final : public Method {
 public:
  explicit PrivateRingsMethod(Wrap wrap) : wrap_(wrap) {}

 private:
  uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) const override {
    return blocks_for(options, block_bytes, options.workers);
  }
  uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) const override {
    return 2 * std::min<uint64_t>(blocks, uint64_t{options.workers} * options.buckets);
  }
  Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                             uint64_t blocks_ahead) const override {
    return open_memory<PrivateRings>(pool, options, blocks_ahead, wrap_);
  }

  const Wrap wrap_;
};

class SharedMethod : public Method {
  bool can_be_stable() const override { return false; }
  uint64_t blocks_needed(const MemoryOptions& options, size_t block_bytes) const override {
    return blocks_for(options, block_bytes, 1);
  }
};

class SharedRingsMethod final : public SharedMethod {
  uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) const override {
    return 2 * std::min<uint64_t>(blocks, options.buckets);
  }
  // More KiB than there are threads.
  size_t block_bytes_min(const MemoryOptions& options) const override {
    return std::max<size_t>(4 * KiB, std::bit_ceil((options.workers + size_t{1}) * KiB));
  }
  Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                             uint64_t blocks_ahead) const override {
    return open_memory<SharedRings>(pool, options, blocks_ahead);
  }
};

class SharedStreamsMethod final : public SharedMethod {
  uint64_t mappings_needed(const MemoryOptions& options, uint64_t blocks) const override {
    return blocks + std::min<uint64_t>(blocks, options.buckets);
  }
  Result<std::unique_ptr<BucketMemory>> open(pool::Pool& pool, const MemoryOptions& options,
                                             uint64_t blocks_ahead) const override {
    return open_memory<StreamsOfAll>(pool, options, blocks_ahead);
  }
};

}  // namespace

const Method& private_streams() {
  static const PrivateStreamsMethod method;
  return method;
}
const Method& private_rings(Wrap wrap) {
  static const PrivateRingsMethod conditional(Wrap::conditional), handler(Wrap::handler),
      mask(Wrap::mask);
  return wrap == Wrap::conditional ? conditional : wrap == Wrap::handler ? handler : mask;
}
const Method& shared_rings() {
  static const SharedRingsMethod method;
  return method;
}
const Method& shared_streams() {
  static const SharedStreamsMethod method;
  return method;
}

}  // namespace penstock::papers
