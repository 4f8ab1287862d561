#include "external/distribute.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "external/file_io.h"
#include "external/item_view.h"
#include "external/memory_plan.h"
#include "record/codec.h"
#include "sort/item.h"
#include "stream/copy_forward.h"

// One thread reads items through one plain pointer and writes each through the plain pointer of its
// bucket. All waiting (for the disk to deliver, for a free block to write into) happens in the
// faults of these pointers; several reads and writes are in flight meanwhile. Items of one bucket
// keep the order of the input, which is what stable sorts build on.

namespace penstock::external {
namespace {

constexpr size_t batch_items = 512;
// Windows of the input between two looks at cancellation and progress; at most a block of any
// reader.
constexpr size_t window_bytes = 64 * KiB;
// Address space that all buckets together may reserve: half of what a process has.
constexpr uint64_t reserve_bytes_max = 64 * TiB;

// The writers of all buckets, on one pool and one engine.
class BucketWriters {
 public:
  BucketWriters(Context& context, Spill& spill) : context_(context), spill_(spill) {}

  Status open(const DistributionPlan& plan, uint32_t buckets, uint64_t input_bytes) {
    auto files = FileIo::open(context_.options, plan.write_block_bytes,
                              std::max(plan.write_blocks, buckets + 2));
    if (!files) return std::unexpected(files.error());
    files_ = std::move(*files);
    bytes_max_ = input_bytes == 0 ? reserve_bytes_max / buckets : input_bytes + 4 * block_bytes_max;
    bytes_max_ = std::min(bytes_max_, reserve_bytes_max / buckets);
    block_bytes_ = plan.write_block_bytes;
    uint64_t all_bytes = input_bytes == 0 ? reserve_bytes_max / 16 : input_bytes;
    auto extents =
        BucketExtents::open(spill_, buckets, all_bytes / plan.write_block_bytes + buckets + 1);
    if (!extents) return std::unexpected(extents.error());
    extents_ = std::move(*extents);
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      auto writer = stream::FileWriterCore::open(files_.io(), extents_->sink(bucket),
                                                 {.bytes_max = bytes_max_});
      if (!writer) return std::unexpected(writer.error());
      writers_.push_back(std::move(*writer));
      ends_.push_back(writers_.back()->begin());
      lines_.push_back(0);
    }
    return {};
  }

  void append(uint32_t bucket, std::string_view item) {
    ends_[bucket] = stream::copy_forward(ends_[bucket], item.data(), item.size());
    ++lines_[bucket];
  }

  std::byte** ends() { return ends_.data(); }

  // Between windows: has a write failed, and is there address space left in every bucket for one
  // more?
  Status check_room() {
    for (uint32_t bucket = 0; bucket < writers_.size(); ++bucket) {
      if (auto status = writers_[bucket]->status(); !status) return status;
      if (bytes(bucket) + 2 * block_bytes_max > bytes_max_) {
        return failure(ErrorCode::out_of_memory,
                       "hold so much in one bucket: its address space is used up", "sort",
                       "a larger -S, which makes for fewer buckets");
      }
    }
    return {};
  }

  Status finish() {
    for (uint32_t bucket = 0; bucket < writers_.size(); ++bucket)
      writers_[bucket]->flush(ends_[bucket]);
    for (uint32_t bucket = 0; bucket < writers_.size(); ++bucket) {
      if (auto status = writers_[bucket]->finish(ends_[bucket]); !status) return status;
    }
    return {};
  }

  uint64_t bytes(uint32_t bucket) const {
    return static_cast<uint64_t>(ends_[bucket] - writers_[bucket]->begin());
  }
  Bucket take(uint32_t bucket) const {
    Bucket result;
    result.bytes = bytes(bucket);
    const record::Format& format = context_.options.format;
    result.items = format.fixed() ? result.bytes / format.record_bytes : lines_[bucket];
    result.pieces.push_back({.bytes = result.bytes,
                             .extents = extents_->extents(bucket),
                             .extent_bytes = block_bytes_});
    return result;
  }

 private:
  Context& context_;
  Spill& spill_;
  uint64_t bytes_max_ = 0;
  size_t block_bytes_ = 0;
  FileIo files_;
  std::unique_ptr<BucketExtents> extents_;
  std::vector<std::unique_ptr<stream::FileWriterCore>> writers_;
  std::vector<std::byte*> ends_;
  std::vector<uint64_t> lines_;  // counted where their bytes do not tell
};

// How items of a format are told apart and classified. route() takes whole items from [at, end) and
// says where it stopped.
template <class Item>
class NumberRouter {
 public:
  NumberRouter(const SortOptions& options, Sample sample, uint32_t buckets)
      : options_(options), splitters_(std::move(sample.numbers), buckets) {}

  uint32_t buckets() const { return splitters_.buckets(); }

  const std::byte* route(const std::byte* at, const std::byte* end, bool, BucketWriters& out) {
    while (static_cast<size_t>(end - at) >= sizeof(Item)) {
      size_t count = std::min(batch_items, static_cast<size_t>(end - at) / sizeof(Item));
      const auto* items = reinterpret_cast<const Item*>(at);
      const Item* encoded = plain_ ? items : encode(at, count);
      std::byte** ends = out.ends();
      uint32_t numbers[batch_items];
      for (size_t i = 0; i < count; ++i)
        numbers[i] = splitters_.classify(sorting::key_of(encoded[i]));
      for (size_t i = 0; i < count; ++i) {
        std::byte* to = ends[numbers[i]];
        std::memcpy(to, items + i, sizeof(Item));
        ends[numbers[i]] = to + sizeof(Item);
      }
      at += count * sizeof(Item);
    }
    return at;
  }

  void describe(uint32_t number, Bucket& bucket) const {
    bucket.key_min = splitters_.key_min(number);
    bucket.key_max = splitters_.key_max(number);
    if (sizeof(Item) == 4) bucket.key_max = std::min<uint64_t>(bucket.key_max, ~uint32_t{0});
    bucket.constant = splitters_.constant(number);
  }
  bool reversed() const { return false; }  // descending keys are encoded so that they ascend

 private:
  const Item* encode(const std::byte* at, size_t count) {
    std::memcpy(encoded_, at, count * sizeof(Item));
    record::encode_keys(options_.format.type, reinterpret_cast<std::byte*>(encoded_), count,
                        options_.descending);
    return encoded_;
  }

  const SortOptions& options_;
  NumberSplitters splitters_;
  const bool plain_ = record::keys_are_plain(options_.format.type, options_.descending);
  Item encoded_[batch_items];
};

class StringRouter {
 public:
  StringRouter(const SortOptions& options, Sample sample, uint32_t buckets)
      : options_(options), splitters_(std::move(sample.strings), buckets) {}

  uint32_t buckets() const { return splitters_.buckets(); }

  // `last`: nothing follows `end`; a line there needs no newline of its own and gets one.
  const std::byte* route(const std::byte* at, const std::byte* end, bool last, BucketWriters& out) {
    const record::Format& format = options_.format;
    while (at < end) {
      std::string_view item;
      bool whole = true;
      if (format.fixed()) {
        if (static_cast<size_t>(end - at) < format.record_bytes) break;
        item = item_at(format, at, end);
      } else {
        const void* newline = std::memchr(at, '\n', static_cast<size_t>(end - at));
        if (newline == nullptr && !last) break;
        whole = newline != nullptr;
        item = whole ? item_at(format, at, end)
                     : std::string_view(reinterpret_cast<const char*>(at),
                                        static_cast<size_t>(end - at));
      }
      uint32_t number = splitters_.classify(whole ? key_of(format, item) : item);
      out.append(number, item);
      if (!whole) *out.ends()[number]++ = std::byte{'\n'};
      at += item.size();
    }
    return at;
  }

  void describe(uint32_t number, Bucket& bucket) const {
    bucket.constant = splitters_.constant(number);
  }
  bool reversed() const { return options_.descending; }

 private:
  const SortOptions& options_;
  StringSplitters splitters_;
};

// Whole items of a piece, window by window. A line may be longer than any window: the pointer goes
// on behind it.
template <class Router>
Status route_piece(Context& context, const std::string& name, PieceReader& reader,
                   size_t item_bytes_max, Router& router, BucketWriters& out) {
  const std::byte* at = reader.begin();
  size_t window = window_bytes;
  for (;;) {
    if (auto status = context.pulse(); !status) return status;
    if (auto status = out.check_room(); !status) return status;
    size_t bytes = reader.available(at, window);
    if (bytes == 0) break;
    const std::byte* stop = router.route(at, at + bytes, bytes < window, out);
    if (stop == at && bytes == window) {
      if (window >= item_bytes_max) {
        return failure(ErrorCode::out_of_memory,
                       "hold an item that is longer than " + std::to_string(window) + " bytes",
                       name, "a larger -S");
      }
      window *= 2;
      continue;
    }
    if (stop == at) {
      return failure(ErrorCode::corrupt,
                     "read the last " + std::to_string(bytes) + " bytes as an item", name,
                     "another --format or --record");
    }
    at = stop;
    window = window_bytes;
  }
  return reader.status();
}

template <class Router>
Result<std::vector<Bucket>> distribute_with(Context& context, const std::vector<Piece>& pieces,
                                            Router router, const DistributionPlan& plan,
                                            Spill& spill) {
  uint64_t bytes = 0;
  bool known = true;
  for (const Piece& piece : pieces) {
    bytes += piece.bytes + 1;
    known = known && piece.reader == nullptr;
  }
  BucketWriters writers(context, spill);
  if (auto status = writers.open(plan, router.buckets(), known ? bytes : 0); !status) {
    return std::unexpected(status.error());
  }
  size_t read_block_bytes =
      pieces.front().extent_bytes != 0 ? pieces.front().extent_bytes : plan.read_block_bytes;
  // An item of the longest kind may begin at the end of a block.
  auto comeback_blocks = static_cast<uint32_t>(ceil_div(plan.read_block_bytes, read_block_bytes));
  auto files = FileIo::open(context.options, read_block_bytes, plan.read_blocks + comeback_blocks);
  if (!files) return std::unexpected(files.error());
  for (const Piece& piece : pieces) {
    auto reader = PieceReader::open(files->io(), piece, plan.read_blocks - 2, comeback_blocks);
    if (!reader) return std::unexpected(reader.error());
    if (auto status =
            route_piece(context, piece.file != nullptr ? piece.file->path() : spill.name(),
                        **reader, plan.read_block_bytes, router, writers);
        !status) {
      return std::unexpected(status.error());
    }
  }
  if (auto status = writers.finish(); !status) return std::unexpected(status.error());

  std::vector<Bucket> buckets;
  for (uint32_t number = 0; number < router.buckets(); ++number) {
    if (writers.bytes(number) == 0) continue;
    Bucket bucket = writers.take(number);
    router.describe(number, bucket);
    buckets.push_back(std::move(bucket));
  }
  if (router.reversed()) std::reverse(buckets.begin(), buckets.end());
  return buckets;
}

}  // namespace

Result<std::vector<Bucket>> distribute(Context& context, const std::vector<Piece>& pieces,
                                       Sample sample, const DistributionPlan& plan, Spill& spill) {
  const SortOptions& options = context.options;
  if (!options.format.numeric()) {
    return distribute_with(context, pieces, StringRouter(options, std::move(sample), plan.buckets),
                           plan, spill);
  }
  switch (record::item_bytes_of(options.format.type)) {
    case 4:
      return distribute_with(context, pieces,
                             NumberRouter<uint32_t>(options, std::move(sample), plan.buckets), plan,
                             spill);
    case 16:
      return distribute_with(
          context, pieces,
          NumberRouter<sorting::KeyValue>(options, std::move(sample), plan.buckets), plan, spill);
    default:
      return distribute_with(context, pieces,
                             NumberRouter<uint64_t>(options, std::move(sample), plan.buckets), plan,
                             spill);
  }
}

}  // namespace penstock::external
