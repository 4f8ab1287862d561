#include "external/distribute.h"

#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "external/file_io.h"
#include "external/item_view.h"
#include "external/memory_plan.h"
#include "stream/copy_forward.h"

// One thread reads items through one plain pointer and writes each through the plain pointer of its
// bucket. All waiting (for the disk to deliver, for a free block to write into) happens in the
// faults of these pointers; several reads and writes are in flight meanwhile. Items of one bucket
// keep the order of the input, which is what stable sorts build on.

namespace penstock::external {
namespace {

// Windows of the input between two looks at cancellation and progress; at most a block of any
// reader.
constexpr size_t window_bytes = 64 * KiB;
constexpr uint32_t spills_max = 16;
// Address space that all buckets together may reserve: half of what a process has.
constexpr uint64_t reserve_bytes_max = 64 * TiB;

// The writers of all buckets, on one pool and one engine.
class BucketWriters {
 public:
  BucketWriters(Context& context, SpillSet& spills) : context_(context), spills_(spills) {}

  Status open(const DistributionPlan& plan, uint32_t buckets, uint64_t input_bytes) {
    auto files = FileIo::open(context_.options, plan.write_block_bytes,
                              std::max(plan.write_blocks, buckets + 2));
    if (!files) return std::unexpected(files.error());
    files_ = std::move(*files);
    bytes_max_ = input_bytes == 0 ? reserve_bytes_max / buckets : input_bytes + 4 * block_bytes_max;
    bytes_max_ = std::min(bytes_max_, reserve_bytes_max / buckets);
    uint64_t all_bytes = input_bytes == 0 ? reserve_bytes_max / 16 : input_bytes;
    auto blocks =
        BucketBlocks::open(spills_, buckets, all_bytes / plan.write_block_bytes + buckets + 1);
    if (!blocks) return std::unexpected(blocks.error());
    blocks_ = std::move(*blocks);
    for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
      auto writer = stream::FileWriterCore::open(files_.io(), blocks_->sink(bucket),
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
    result.spilled = blocks_->blocks(bucket);
    result.spill = spills_.part_of(bucket, static_cast<uint32_t>(writers_.size()));
    return result;
  }

 private:
  Context& context_;
  SpillSet& spills_;
  uint64_t bytes_max_ = 0;
  FileIo files_;
  std::unique_ptr<BucketBlocks> blocks_;
  std::vector<std::unique_ptr<stream::FileWriterCore>> writers_;
  std::vector<std::byte*> ends_;
  std::vector<uint64_t> lines_;  // counted where their bytes do not tell
};

// How items of a format are told apart and classified. route() takes whole items from [at, end) and
// says where it stopped.
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
                       "hold the item at byte " + std::to_string(at - reader.begin()) +
                           ": it is longer than " + std::to_string(window) + " bytes",
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
Result<Distribution> distribute_with(Context& context, const std::vector<Piece>& pieces,
                                     Router router, const DistributionPlan& plan,
                                     const SpillPlace& place) {
  uint64_t bytes = 0;
  bool known = true;
  for (const Piece& piece : pieces) {
    bytes += piece.bytes + 1;
    known = known && piece.reader == nullptr;
  }
  Distribution result;
  if (auto status =
          result.spills.open(place, std::min(spills_max, router.buckets()), plan.write_block_bytes);
      !status)
    return std::unexpected(status.error());
  BucketWriters writers(context, result.spills);
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
            route_piece(context, piece.file != nullptr ? piece.file->path() : result.spills.name(),
                        **reader, plan.read_block_bytes, router, writers);
        !status) {
      return std::unexpected(status.error());
    }
  }
  if (auto status = writers.finish(); !status) return std::unexpected(status.error());

  for (uint32_t number = 0; number < router.buckets(); ++number) {
    if (writers.bytes(number) == 0) continue;
    Bucket bucket = writers.take(number);
    router.describe(number, bucket);
    result.spills.keep(bucket.spill);
    result.buckets.push_back(std::move(bucket));
  }
  if (router.reversed()) std::reverse(result.buckets.begin(), result.buckets.end());
  return result;
}

}  // namespace

Result<Distribution> distribute(Context& context, const std::vector<Piece>& pieces, Sample sample,
                                const DistributionPlan& plan, const SpillPlace& place) {
  StringRouter router(context.options, std::move(sample), plan.buckets);
  return distribute_with(context, pieces, std::move(router), plan, place);
}

}  // namespace penstock::external
