#include "external/string_split.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/bits.h"
#include "external/block_keeper.h"
#include "external/file_io.h"
#include "external/item_view.h"
#include "external/splitters.h"

// One thread reads items through one plain pointer and copies each to the end of its bucket. A
// bucket is a string of bytes: an item may begin at the end of one block and end in the next, so
// that no block has a gap. Where a block ends another is asked for, and there the disk is waited
// for (block_keeper.cc). Items of one bucket keep the order of the input, which is what stable
// sorts build on.

namespace penstock::external {
namespace {

// Windows of the input between two looks at errors and progress; at most a block of any reader.
constexpr size_t window_bytes = 64 * KiB;

// The buckets' ends.
class Buckets {
 public:
  // `keeps_rests`: whether only the first item of a bucket may be read again.
  Buckets(BlockKeeper& keeper, uint32_t buckets, size_t block_bytes, bool keeps_rests)
      : keeper_(keeper),
        block_bytes_(block_bytes),
        ends_(buckets),
        rests_(keeps_rests ? buckets : 0) {}

  // `sum`: of the item.
  void append(uint32_t bucket, const char* data, size_t bytes, const ItemSum& sum) {
    End& end = ends_[bucket];
    sum_ += sum;
    if (!rests_.empty() && end.items > 0) rests_[bucket] += sum;
    ++end.items;
    if (bytes <= end.room) {
      std::memcpy(end.at, data, bytes);
      end.at += bytes;
      end.room -= bytes;
      return;
    }
    append_across(bucket, data, bytes);
  }

  // The item that was appended last goes on.
  void append_across(uint32_t bucket, const char* data, size_t bytes) {
    End& end = ends_[bucket];
    while (bytes > 0) {
      if (end.room == 0) {
        end.at = keeper_.next_block(bucket);
        end.room = block_bytes_;
      }
      const size_t piece = std::min(bytes, end.room);
      std::memcpy(end.at, data, piece);
      data += piece;
      bytes -= piece;
      end.at += piece;
      end.room -= piece;
    }
  }

  uint64_t items(uint32_t bucket) const { return ends_[bucket].items; }
  ItemSum rest(uint32_t bucket) const { return rests_.empty() ? ItemSum{} : rests_[bucket]; }
  const ItemSum& sum() const { return sum_; }

  void close() {
    for (uint32_t bucket = 0; bucket < ends_.size(); ++bucket) {
      if (keeper_.has_block(bucket)) keeper_.close(bucket, block_bytes_ - ends_[bucket].room);
    }
  }

 private:
  struct End {
    std::byte* at = nullptr;
    size_t room = 0;
    uint64_t items = 0;
  };

  BlockKeeper& keeper_;
  const size_t block_bytes_;
  std::vector<End> ends_;
  ItemSum sum_;                 // of all items
  std::vector<ItemSum> rests_;  // of a bucket's, without the first; empty: nobody asks
};

// How items are told apart and classified. Buckets are numbered in the order of the output.
class Router {
 public:
  Router(const SortOptions& options, Sample sample, uint32_t buckets)
      : format_(options.format),
        descending_(options.descending),
        splitters_(std::move(sample.strings), buckets) {}

  uint32_t buckets() const { return splitters_.buckets(); }
  bool constant(uint32_t bucket) const { return splitters_.constant(number(bucket)); }

  // Takes whole items from [at, end) and says where it stopped. `last`: nothing follows `end`; a
  // line there needs no newline of its own and gets one.
  const std::byte* route(const std::byte* at, const std::byte* end, bool last, Buckets& out) const {
    return format_.fixed() ? route_records(at, end, out) : route_lines(at, end, last, out);
  }

 private:
  // Its number among all in ascending order, or from there.
  uint32_t number(uint32_t bucket) const { return descending_ ? buckets() - 1 - bucket : bucket; }

  const std::byte* route_records(const std::byte* at, const std::byte* end, Buckets& out) const {
    const size_t bytes = format_.record_bytes;
    for (; static_cast<size_t>(end - at) >= bytes; at += bytes) {
      const std::string_view item(reinterpret_cast<const char*>(at), bytes);
      out.append(number(splitters_.classify(key_of(format_, item))), item.data(), bytes,
                 sum_of_item(format_, item));
    }
    return at;
  }

  const std::byte* route_lines(const std::byte* at, const std::byte* end, bool last,
                               Buckets& out) const {
    while (at < end) {
      const auto* text = reinterpret_cast<const char*>(at);
      const auto left = static_cast<size_t>(end - at);
      const void* newline = std::memchr(at, '\n', left);
      if (newline == nullptr) {
        if (!last) break;
        const uint32_t bucket = number(splitters_.classify({text, left}));
        out.append(bucket, text, left, sum_of_item(format_, {text, left}));
        out.append_across(bucket, "\n", 1);
        return end;
      }
      const auto bytes = static_cast<size_t>(static_cast<const char*>(newline) - text);
      out.append(number(splitters_.classify({text, bytes})), text, bytes + 1,
                 sum_of_item(format_, {text, bytes}));
      at += bytes + 1;
    }
    return at;
  }

  const record::Format& format_;
  const bool descending_;
  const StringSplitters splitters_;
};

// Whole items of a piece, window by window. A line may be longer than any window: the pointer goes
// on behind it.
Status route_piece(Context& context, const std::string& name, PieceReader& reader,
                   size_t item_bytes_max, const Router& router, const BlockKeeper& keeper,
                   Buckets& out) {
  const std::byte* at = reader.begin();
  size_t window = window_bytes;
  for (;;) {
    if (auto status = context.pulse(); !status) return status;
    if (auto status = keeper.status(); !status) return status;
    const size_t bytes = reader.available(at, window);
    if (bytes == 0) break;
    const std::byte* stop = router.route(at, at + bytes, bytes < window, out);
    if (stop == at && bytes == window) {
      if (window >= item_bytes_max) {
        return failure(ErrorCode::out_of_memory,
                       "hold the item at byte " + std::to_string(at - reader.begin()) +
                           ": it is longer than " + std::to_string(window) + " bytes",
                       name, "a larger -S");
      }
      window = std::min<size_t>(2 * window, item_bytes_max);
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

}  // namespace

Result<Split> split_strings(Context& context, const std::vector<Piece>& pieces, Sample sample,
                            const BucketPlan& plan, bool compresses, const SpillPlace& place,
                            BlockArena& arena) {
  const Router router(context.options, std::move(sample), plan.buckets);
  BlockKeeper keeper(context,
                     {.buckets = router.buckets(),
                      .write_blocks = plan.write_blocks,
                      .expects_to_spill = !plan.fits,
                      .compresses = compresses,
                      .written_blocks_max = listed_blocks_max(plan)},
                     place, arena);
  if (auto status = keeper.open(); !status) return std::unexpected(status.error());
  Buckets buckets(keeper, router.buckets(), plan.block_bytes, context.options.unique);
  const size_t read_block_bytes =
      pieces.front().extent_bytes != 0 ? pieces.front().extent_bytes : plan.read_block_bytes;
  // An item of the longest kind may begin at the end of a block.
  const auto comeback_blocks =
      static_cast<uint32_t>(ceil_div(plan.item_bytes_max, read_block_bytes));
  auto files = FileIo::open(context.options, read_block_bytes, plan.read_blocks + comeback_blocks);
  if (!files) return std::unexpected(files.error());
  // Behind the files: to open the first one looks at what the kernel can do, on memory of its own.
  const std::jthread toucher = touch_ahead(context, pieces, arena);
  for (const Piece& piece : pieces) {
    auto reader = PieceReader::open(files->io(), piece, plan.read_blocks - 2, comeback_blocks);
    if (!reader) return std::unexpected(reader.error());
    const std::string name = piece.file != nullptr ? piece.file->path() : place.directories.front();
    if (auto status =
            route_piece(context, name, **reader, plan.item_bytes_max, router, keeper, buckets);
        !status)
      return std::unexpected(status.error());
  }
  buckets.close();
  auto region = [&](uint32_t bucket) -> std::optional<uint64_t> {
    const uint64_t bytes = keeper.bytes(bucket);
    const uint64_t items = router.constant(bucket) ? 0 : buckets.items(bucket);
    const uint64_t region_bytes =
        bytes > 0 ? region_bytes_of(context.options.format, bytes, items) : 0;
    if (region_bytes > plan.region_bytes_max) return std::nullopt;
    return region_bytes;
  };
  auto split = keeper.finish(region);
  if (!split) return split;
  for (uint32_t bucket = 0; bucket < router.buckets(); ++bucket) {
    split->buckets[bucket].items = buckets.items(bucket);
    split->buckets[bucket].constant = router.constant(bucket);
    split->buckets[bucket].rest = buckets.rest(bucket);
  }
  split->read = buckets.sum();
  std::erase_if(split->buckets, [](const SplitBucket& bucket) { return bucket.bytes == 0; });
  return split;
}

}  // namespace penstock::external
