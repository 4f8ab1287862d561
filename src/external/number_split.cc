#include "external/number_split.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "external/block_keeper.h"
#include "external/file_io.h"
#include "external/number_type.h"
#include "external/splitters.h"
#include "record/codec.h"
#include "sort/item.h"
#include "sort/line_scatter.h"

// The naive way copies every number to the end of its bucket and looks whether there is room, and a
// number is so small that a branch and a copy for each cost more than the disk does. Here the inner
// loop is the one of the sort in memory (sort/line_scatter.h): items gather in a line of 256 bytes
// for each bucket, and full lines go past the caches into the bucket's block. Where a block ends
// the loop asks for room, once in many thousand items, and everything else happens there: the full
// block is kept, or goes to its bucket's temporary, and a free one takes its place
// (block_keeper.cc).
//
// A bucket of one key whose items have no values is only counted.
//
// Errors: the inner loop cannot be left, so after the first failed write the rest of the window is
// thrown away, and then the run ends.

namespace penstock::external {
namespace {

// Of the input, between two looks at errors and progress; at most a block of any reader.
constexpr size_t window_bytes = 64 * KiB;
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
  Splitter(Context& context, const BucketPlan& plan, sorting::BucketMap map,
           const sorting::KeyRange& keys, const SpillPlace& place, BlockArena& arena)
      : format_(context.options.format),
        plan_(plan),
        map_(std::move(map)),
        keys_(keys),
        block_items_(arena.block_bytes() / sizeof(T)),
        scatter_(map_.buckets),
        counted_(map_.buckets),
        keeper_(context,
                {.buckets = map_.buckets,
                 .write_blocks = plan.write_blocks,
                 .expects_to_spill = !plan.fits,
                 .written_blocks_max = listed_blocks_max(plan)},
                place, arena) {
    scatter_.ask_for_room(
        [](void* self, uint32_t bucket, Destination& destination) {
          static_cast<Splitter*>(self)->make_room(bucket, destination);
        },
        this);
    if (!std::is_same_v<T, sorting::KeyValue> || !context.options.unique) return;
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket)
      constant_.push_back(constant(bucket));
    if (std::ranges::find(constant_, true) != constant_.end()) rests_.resize(map_.buckets);
  }

  Status open() { return keeper_.open(); }

  // So few at a time that what was just distributed is in the cache when it is added up.
  void add(const T* encoded, size_t count) {
    constexpr size_t items_max = 8192 / sizeof(T);
    while (count > 0) {
      const size_t here = std::min(count, items_max);
      scatter_.add(encoded, here, map_, {}, encoded + here);
      read_ += sum_of(std::span(encoded, here));
      if (!rests_.empty()) add_to_rests(encoded, here);
      encoded += here;
      count -= here;
    }
  }

  Status status() const { return keeper_.status(); }

  Result<Split> finish() {
    for (uint32_t bucket = 0; bucket < map_.buckets; ++bucket) close(bucket);
    Scatter::finish();
    auto region = [this](uint32_t bucket) -> std::optional<uint64_t> {
      const uint64_t bytes = keeper_.bytes(bucket);
      const uint64_t region_bytes = bytes > 0 ? region_bytes_of(format_, bytes, 0) : 0;
      if (region_bytes > plan_.region_bytes_max) return std::nullopt;
      return region_bytes;
    };
    auto split = keeper_.finish(region);
    if (!split) return split;
    for (uint32_t number = 0; number < map_.buckets; ++number) {
      SplitBucket& bucket = split->buckets[number];
      bucket.bytes += counted_[number].items * sizeof(T);
      bucket.items = bucket.bytes / sizeof(T);
      bucket.keys = keys_of(number);
      bucket.constant = constant(number);
    }
    for (uint32_t number = 0; number < rests_.size(); ++number)
      split->buckets[number].rest = rests_[number].sum;
    std::erase_if(split->buckets, [](const SplitBucket& bucket) { return bucket.bytes == 0; });
    split->read = read_;
    return split;
  }

 private:
  using Scatter = sorting::LineScatter<T>;
  using Destination = typename Scatter::Destination;

  // Of one key and no values: its block is filled again and again.
  struct Counted {
    T* block = nullptr;
    uint64_t items = 0;
  };

  sorting::KeyRange keys_of(uint32_t bucket) const {
    sorting::KeyRange keys = map_.keys_of(bucket);
    return {std::max(keys.low, keys_.low), std::min(keys.high, keys_.high)};
  }
  bool constant(uint32_t bucket) const {
    sorting::KeyRange keys = keys_of(bucket);
    return keys.low == keys.high;
  }

  // Of buckets of which only the first item is read again: what the others add up to.
  struct Rest {
    bool has_first = false;
    ItemSum sum;
  };

  void add_to_rests(const T* encoded, size_t count) {
    for (const T& item : std::span(encoded, count)) {
      const uint32_t bucket = map_(sorting::key_of(item));
      if (!constant_[bucket]) continue;
      Rest& rest = rests_[bucket];
      if (rest.has_first) rest.sum += sorting::sum_of_one(item);
      rest.has_first = true;
    }
  }

  // In the inner loop: the bucket has no block, or it is full.
  void make_room(uint32_t bucket, Destination& destination) {
    Counted& counted = counted_[bucket];
    if (counted.block != nullptr) {
      counted.items += block_items_;
      destination = {counted.block, counted.block + block_items_};
      return;
    }
    const bool first = !keeper_.has_block(bucket);
    Scatter::finish();  // any full block may be written now
    T* block = reinterpret_cast<T*>(keeper_.next_block(bucket));
    if (first && !std::is_same_v<T, sorting::KeyValue> && constant(bucket)) counted.block = block;
    destination = {block, block + block_items_};
  }

  // What its line and its present block hold is counted.
  void close(uint32_t bucket) {
    scatter_.flush(bucket);
    if (!keeper_.has_block(bucket)) return;
    const uint64_t rest = block_items_ - scatter_.room(bucket) + scatter_.line_items(bucket);
    if (counted_[bucket].block == nullptr) return keeper_.close(bucket, rest * sizeof(T));
    counted_[bucket].items += rest;
    keeper_.drop(bucket);
  }

  const record::Format& format_;
  const BucketPlan& plan_;
  const sorting::BucketMap map_;
  const sorting::KeyRange keys_;
  const size_t block_items_;
  Scatter scatter_;
  std::vector<Counted> counted_;
  ItemSum read_;
  std::vector<bool> constant_;
  std::vector<Rest> rests_;  // empty: every item is read again, or is its key
  BlockKeeper keeper_;
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
Result<Split> split(Context& context, const std::vector<Piece>& pieces, Sample sample,
                    const sorting::KeyRange& keys, const BucketPlan& plan, const SpillPlace& place,
                    BlockArena& arena) {
  Splitter<T> splitter(context, plan, map_for(std::move(sample.numbers), plan.buckets), keys, place,
                       arena);
  if (auto status = splitter.open(); !status) return std::unexpected(status.error());
  Feeder<T> feeder(context, splitter);
  size_t read_block_bytes =
      pieces.front().extent_bytes != 0 ? pieces.front().extent_bytes : plan.read_block_bytes;
  auto blocks = static_cast<uint32_t>(
      std::max<uint64_t>(plan.read_blocks * plan.read_block_bytes / read_block_bytes, 4));
  auto files = FileIo::open(context.options, read_block_bytes, blocks + 1);
  if (!files) return std::unexpected(files.error());
  // Behind the files: to open the first one looks at what the kernel can do, on memory of its own.
  const std::jthread toucher = touch_ahead(context, pieces, arena);
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

Result<Split> split_numbers(Context& context, const std::vector<Piece>& pieces, Sample sample,
                            const sorting::KeyRange& keys, const BucketPlan& plan,
                            const SpillPlace& place, BlockArena& arena) {
  return with_number_type(context.options.format.type, [&]<class T>() {
    return split<T>(context, pieces, std::move(sample), keys, plan, place, arena);
  });
}

}  // namespace penstock::external
