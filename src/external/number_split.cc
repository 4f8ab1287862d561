#include "external/number_split.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/bits.h"
#include "base/check.h"
#include "base/thread.h"
#include "external/file_io.h"
#include "external/number_type.h"
#include "external/splitters.h"
#include "file/engine.h"
#include "record/codec.h"
#include "sort/item.h"
#include "sort/line_scatter.h"

// The naive way writes every item through a pointer of its bucket, and a fault at the end of each
// block hands it to the disk. That is how records still go (distribute.cc), but a number is so
// small that a branch, a copy and a share of a fault for each cost more than the disk does. Here
// the inner loop is the one of the sort in memory (sort/line_scatter.h): items gather in a line of
// 256 bytes for each bucket, and full lines go past the caches into the bucket's block. Where a
// block ends the loop asks for room, once in many thousand items, and everything else happens
// there:
//
//   the full block is kept, or goes to its bucket's temporary; a free one takes its place.
//
// What is kept. Nothing is written before memory runs out. Then the bucket that will be sorted last
// goes to its temporary, all of it at once, and from then on each of its blocks as it fills; then
// the one before it, and so on:
//
//        0                       spilled_from_              buckets
//        |   kept: in memory     |   on disk, or on the way |
//
// So what stays in memory is what the second phase begins with: it has something to sort and to
// write while it reads the rest. An input that is larger than memory by a little spills a little,
// and more memory is never slower.
//
// Waiting. A write gives its block back when it has ended. At least plan.write_blocks are free or
// being written while anything is spilled, so that the disk has enough to do; the loop waits only
// when none is free, and that is how the disk slows it down. Blocks never run out for good: each
// bucket fills one, the others are kept (and can be spilled), free, or being written.
//
// Where the sort shall be resumed (resume.h) nothing is kept: spilled_from_ is 0 from the start.
//
// A bucket of one key whose items have no values is only counted.
//
// Errors: the inner loop cannot be left, so after the first failed write the rest of the window is
// thrown away, and then the run ends.

namespace penstock::external {
namespace {

// Of the input, between two looks at errors and progress; at most a block of any reader.
constexpr size_t window_bytes = 64 * KiB;
constexpr uint32_t spills_max = 16;
constexpr unsigned depth_max = 64;
// By range, if no bucket gets more than this many times its share by the sample; else by splitters.
constexpr double uneven_max = 1.2;

// Cuts the keys into equal ranges where these hold about equally much, which is faster to
// classify, or else where the sample says.
sorting::BucketMap map_for(std::vector<uint64_t> sample, uint32_t buckets) {
  std::sort(sample.begin(), sample.end());
  if (sample.size() >= size_t{8} * buckets && sample.front() != sample.back()) {
    auto map = sorting::BucketMap::by_range({sample.front(), sample.back()}, buckets);
    std::vector<uint64_t> counts(map.buckets, 0);
    for (uint64_t key : sample) ++counts[map(key)];
    uint64_t most = *std::max_element(counts.begin(), counts.end());
    if (static_cast<double>(most) * buckets <= uneven_max * static_cast<double>(sample.size()))
      return map;
  }
  return sorting::BucketMap::by_splitters(number_bounds(std::move(sample), buckets));
}

template <class T>
class Splitter {
 public:
  Splitter(Context& context, const NumberPlan& plan, sorting::BucketMap map,
           const sorting::KeyRange& keys, const SpillPlace& place, BlockArena& arena)
      : context_(context),
        plan_(plan),
        map_(std::move(map)),
        keys_(keys),
        place_(place),
        arena_(arena),
        block_items_(arena.block_bytes() / sizeof(T)),
        scatter_(map_.buckets),
        growing_(map_.buckets),
        spilled_from_(place.stays() ? 0 : map_.buckets),
        requests_(arena.blocks()) {
    scatter_.ask_for_room(
        [](void* self, uint32_t bucket, Destination& destination) {
          static_cast<Splitter*>(self)->make_room(bucket, destination);
        },
        this);
  }

  Status open() {
    auto engine = file::Engine::open({.depth = depth_max, .kind = context_.options.engine});
    if (!engine) return std::unexpected(engine.error());
    engine_ = std::move(*engine);
    if (plan_.fits && !place_.stays()) return {};
    return result_.spills.open(place_, std::min(spills_max, map_.buckets), arena_.block_bytes());
  }

  void add(const T* encoded, size_t count) {
    scatter_.add(encoded, count, map_, {}, encoded + count);
    result_.bytes += count * sizeof(T);
  }

  Status status() const {
    if (error_ == 0) return {};
    return system_error(error_, "write", result_.spills.name());
  }

  Result<SplitResult> finish() {
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) close(bucket);
    Scatter::finish();
    // What memory does not hold goes as a whole: a bucket too large to be sorted there and what
    // follows it; then what there is no room for, each bucket in blocks of its own and with what
    // will align it to its place in the output.
    for (uint32_t bucket = 0; bucket < spilled_from_; ++bucket) {
      if (!growing_[bucket].counted && bytes_of(bucket) > plan_.bucket_bytes_max)
        spill_down_to(bucket);
    }
    uint64_t blocks = 0;
    for (uint32_t bucket = 0; bucket < spilled_from_; ++bucket) {
      if (!growing_[bucket].counted && bytes_of(bucket) > 0)
        blocks += ceil_div(region_bytes(bytes_of(bucket)), arena_.block_bytes());
      if (blocks + 1 > arena_.blocks()) spill_down_to(bucket);
    }
    for (uint32_t bucket = spilled_from_; bucket < map_.buckets; ++bucket) spill_rest(bucket);
    while (in_flight_ > 0) finish_write();
    if (auto status = this->status(); !status) return std::unexpected(status.error());

    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) {
      if (growing_[bucket].items == 0) continue;
      Growing& grown = growing_[bucket];
      if (!grown.spilled.empty()) result_.spills.keep(spill_of(bucket));
      result_.buckets.push_back({.keys = keys_of(bucket),
                                 .bytes = bytes_of(bucket),
                                 .constant = constant(bucket),
                                 .spilled = std::move(grown.spilled),
                                 .kept = std::move(grown.kept),
                                 .spill = spill_of(bucket)});
    }
    return std::move(result_);
  }

 private:
  using Scatter = sorting::LineScatter<T>;
  using Destination = typename Scatter::Destination;
  static constexpr uint32_t no_block = BlockArena::no_block;

  struct Growing {
    uint32_t current = BlockArena::no_block;
    bool counted = false;        // of one key and no values: its block is filled again and again
    uint64_t items = 0;          // of full blocks; in the end, all
    std::vector<uint32_t> kept;  // full blocks; in the end, with the last one
    std::vector<uint32_t> spilled;
  };

  sorting::KeyRange keys_of(uint32_t bucket) const {
    sorting::KeyRange keys = map_.keys_of(bucket);
    return {std::max(keys.low, keys_.low), std::min(keys.high, keys_.high)};
  }
  bool constant(uint32_t bucket) const {
    sorting::KeyRange keys = keys_of(bucket);
    return keys.low == keys.high;
  }
  uint64_t bytes_of(uint32_t bucket) const { return growing_[bucket].items * sizeof(T); }
  uint32_t spill_of(uint32_t bucket) const { return result_.spills.part_of(bucket, map_.buckets); }

  // In the inner loop: the bucket has no block, or it is full.
  void make_room(uint32_t bucket, Destination& destination) {
    Growing& growing = growing_[bucket];
    if (growing.current == no_block) {
      growing.counted = !std::is_same_v<T, sorting::KeyValue> && constant(bucket);
    } else {
      growing.items += block_items_;
      if (!growing.counted) complete(bucket);
    }
    if (growing.current == no_block) growing.current = take();
    T* block = reinterpret_cast<T*>(arena_.block(growing.current));
    destination = {block, block + block_items_};
  }

  // The current block is full.
  void complete(uint32_t bucket) {
    Growing& growing = growing_[bucket];
    uint32_t block = std::exchange(growing.current, no_block);
    if (bucket < spilled_from_) {
      growing.kept.push_back(block);
    } else {
      Scatter::finish();
      write(bucket, block, arena_.block_bytes());
    }
  }

  uint32_t take() {
    while (spilled_from_ > 0 && arena_.blocks_free() + in_flight_ < plan_.write_blocks)
      spill_down_to(spilled_from_ - 1);
    for (;;) {
      uint32_t block = arena_.take();
      if (block != no_block) return block;
      PENSTOCK_CHECK(in_flight_ > 0, "every bucket has a block, and some are left over");
      finish_write();
    }
  }

  // The full blocks of this bucket, and of those behind it, go to temporaries.
  void spill_down_to(uint32_t bucket) {
    Scatter::finish();
    while (spilled_from_ > bucket) {
      Growing& growing = growing_[--spilled_from_];
      uint64_t left = growing.items * sizeof(T);
      for (uint32_t block : std::exchange(growing.kept, {})) {
        auto bytes = std::min<uint64_t>(left, arena_.block_bytes());
        write(spilled_from_, block, bytes);
        left -= bytes;
      }
    }
  }

  // What its line and its current block hold is counted. Kept buckets keep the block.
  void close(uint32_t bucket) {
    scatter_.flush(bucket);
    Growing& growing = growing_[bucket];
    if (growing.current == no_block) return;
    uint64_t rest = block_items_ - scatter_.room(bucket) + scatter_.line_items(bucket);
    growing.items += rest;
    if (growing.counted) {
      arena_.give(std::exchange(growing.current, no_block));
    } else if (bucket < spilled_from_) {
      growing.kept.push_back(std::exchange(growing.current, no_block));
    }
  }

  void spill_rest(uint32_t bucket) {
    Growing& growing = growing_[bucket];
    if (growing.current == no_block) return;
    uint64_t spilled = growing.spilled.size() * arena_.block_bytes();
    write(bucket, std::exchange(growing.current, no_block), bytes_of(bucket) - spilled);
  }

  // The block is free again when it is written.
  void write(uint32_t bucket, uint32_t block, uint64_t bytes) {
    if (error_ != 0 || bytes == 0) return arena_.give(block);
    Spill& spill = result_.spills.part(spill_of(bucket));
    stream::Extent extent = spill.place(static_cast<uint32_t>(bytes));
    growing_[bucket].spilled.push_back(spill.number_of(extent));
    // Whole sectors, whatever stands behind the items: all of it goes direct.
    requests_[block] = {.operation = file::Operation::write,
                        .file = extent.file,
                        .offset = extent.offset,
                        .data = arena_.block(block),
                        .bytes = round_up(bytes, file::sector_bytes),
                        .tag = block};
    engine_->submit(requests_[block]);
    ++in_flight_;
    ++result_.spill_writes;
    result_.spilled_bytes += bytes;
  }

  void finish_write() {
    file::Request* request = engine_->wait_any();
    PENSTOCK_CHECK(request != nullptr, "a write that is in flight ends");
    --in_flight_;
    if (request->error != 0 && error_ == 0) error_ = request->error;
    arena_.give(static_cast<uint32_t>(request->tag));
  }

  Context& context_;
  const NumberPlan& plan_;
  const sorting::BucketMap map_;
  const sorting::KeyRange keys_;
  const SpillPlace& place_;
  BlockArena& arena_;
  const size_t block_items_;
  Scatter scatter_;
  std::vector<Growing> growing_;
  uint32_t spilled_from_;  // buckets from here on go to temporaries
  SplitResult result_;
  std::vector<file::Request> requests_;  // one for each block
  uint32_t in_flight_ = 0;
  int error_ = 0;                         // the first errno of a write
  std::unique_ptr<file::Engine> engine_;  // goes first: it waits for what is in flight
};

template <class T>
class Feeder {
 public:
  Feeder(Context& context, Splitter<T>& splitter) : context_(context), splitter_(splitter) {}

  Status feed(PieceReader& reader, const std::string& name, bool encoded) {
    const std::byte* at = reader.begin();
    while (size_t bytes = reader.available(at, window_bytes)) {
      if (auto status = context_.pulse(); !status) return status;
      if (auto status = splitter_.status(); !status) return status;
      if (bytes % sizeof(T) != 0) {
        return failure(ErrorCode::corrupt,
                       "read the last " + std::to_string(bytes % sizeof(T)) + " bytes as an item",
                       name, "another --format or --record");
      }
      add(at, bytes / sizeof(T), encoded);
      at += bytes;
    }
    return reader.status();
  }

 private:
  void add(const std::byte* from, size_t count, bool encoded) {
    const SortOptions& options = context_.options;
    if (encoded || record::keys_are_plain(options.format.type, options.descending))
      return splitter_.add(reinterpret_cast<const T*>(from), count);
    while (count > 0) {
      size_t here = std::min(count, std::size(encoded_));
      std::memcpy(static_cast<void*>(encoded_), from, here * sizeof(T));
      record::encode_keys(options.format.type, reinterpret_cast<std::byte*>(encoded_), here,
                          options.descending);
      splitter_.add(encoded_, here);
      from += here * sizeof(T);
      count -= here;
    }
  }

  Context& context_;
  Splitter<T>& splitter_;
  alignas(64) T encoded_[2048];
};

template <class T>
Result<SplitResult> split(Context& context, const std::vector<Piece>& pieces, Sample sample,
                          const sorting::KeyRange& keys, const NumberPlan& plan,
                          const SpillPlace& place, BlockArena& arena) {
  arena.cut(plan.block_bytes);
  Splitter<T> splitter(context, plan, map_for(std::move(sample.numbers), plan.buckets), keys, place,
                       arena);
  if (auto status = splitter.open(); !status) return std::unexpected(status.error());
  std::jthread toucher;
  if (context.options.threads > 1) {
    auto status =
        start_thread(toucher, [&arena](const std::stop_token& stop) { arena.touch(stop); });
    if (!status) return std::unexpected(status.error());
  }
  Feeder<T> feeder(context, splitter);
  size_t read_block_bytes =
      pieces.front().extent_bytes != 0 ? pieces.front().extent_bytes : plan.read_block_bytes;
  auto blocks = static_cast<uint32_t>(
      std::max<uint64_t>(plan.read_blocks * plan.read_block_bytes / read_block_bytes, 4));
  auto files = FileIo::open(context.options, read_block_bytes, blocks + 1);
  if (!files) return std::unexpected(files.error());
  for (const Piece& piece : pieces) {
    auto reader = PieceReader::open(files->io(), piece, blocks - 2);
    if (!reader) return std::unexpected(reader.error());
    std::string name = piece.file != nullptr ? piece.file->path() : place.directories.front();
    // What was spilled before is encoded already.
    if (auto status = feeder.feed(**reader, name, piece.file == nullptr); !status)
      return std::unexpected(status.error());
  }
  return splitter.finish();
}

}  // namespace

Result<SplitResult> split_numbers(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                  const sorting::KeyRange& keys, const NumberPlan& plan,
                                  const SpillPlace& place, BlockArena& arena) {
  return with_number_type(context.options.format.type, [&]<class T>() {
    return split<T>(context, pieces, std::move(sample), keys, plan, place, arena);
  });
}

}  // namespace penstock::external
