#include "external/split/split.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "external/split/distributor.h"
#include "files/cursor.h"

// The frame of a distribution, which shows the input to it, window by window. What it does with the
// items of its format is a distributor's business (distributor.h), and where their blocks go that
// of the keeper (block_keeper.cc).

namespace penstock::external {
namespace {

// Of the input, between two looks at errors and progress; at most a block of any reader.
constexpr size_t window_bytes = 64 * KiB;

// Makes the memory that a split fills resident ahead of its use, where a processor has nothing else
// to do, until the thread is gone: as much as there is input for sure. (Of few distinct numbers,
// which are counted, that is more than is used.)
std::jthread touch_ahead(const Context& context, const std::vector<Piece>& pieces,
                         const BlockArena& arena) {
  if (context.options.threads == 1) return {};
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return arena.start_touching(bytes);
}

// Whole items of a piece. A line may be longer than any window: the pointer goes on behind it.
Status split_piece(Context& context, const std::string& name, PieceReader& reader,
                   size_t item_bytes_max, Distributor& distributor) {
  const std::byte* at = reader.begin();
  const uint64_t items_before = distributor.read.items;
  for (size_t window = window_bytes;;) {
    if (auto status = context.pulse(); !status) return status;
    if (auto status = distributor.keeper.status(); !status) return status;
    const size_t bytes = reader.available(at, window);
    if (bytes == 0) return reader.status();
    const bool last = bytes < window;
    const std::byte* const stop = distributor.add(at, at + bytes, last);
    if (distributor.fault)
      return bad_row(
          name, context.options.format.header_lines + distributor.read.items - items_before,
          reader.offset() + static_cast<uint64_t>(stop - reader.begin()), *distributor.fault);
    if (stop != at) {
      at = stop;
      window = window_bytes;
      continue;
    }
    if (last) {
      return failure(ErrorCode::corrupt,
                     "read the last " + std::to_string(bytes) + " bytes as an item", name,
                     "another --format or --record");
    }
    if (window >= item_bytes_max) {
      return failure(ErrorCode::out_of_memory,
                     "hold the item at byte " + std::to_string(at - reader.begin()) +
                         ": it is longer than " + std::to_string(window) + " bytes",
                     name, "a larger -S");
    }
    window = std::min<size_t>(2 * window, item_bytes_max);
  }
}

}  // namespace

uint64_t Split::kept_bytes() const {
  uint64_t bytes = 0;
  for (const SplitBucket& bucket : buckets) bytes += bucket.spilled.empty() ? bucket.bytes : 0;
  return bytes;
}

uint64_t Split::list_bytes() const {
  uint64_t bytes = 0;
  for (const SplitBucket& bucket : buckets) {
    bytes += bucket.spilled.size() *
             (bucket.stored_bytes.empty() ? list_bytes_per_block : list_bytes_per_compressed_block);
  }
  return bytes;
}

Result<Split> split_items(Context& context, const SplitInput& input, Sample sample) {
  const BucketPlan& plan = input.plan;
  const record::Format& format = context.options.format;
  const auto distributor = format.numeric()
                               ? number_distributor(context, input, std::move(sample.numbers))
                               : string_distributor(context, input, std::move(sample.strings));
  BlockKeeper& keeper = distributor->keeper;
  if (auto status = keeper.open(); !status) return std::unexpected(status.error());
  const size_t extent_bytes = input.pieces.front().extent_bytes;
  const size_t read_block_bytes = extent_bytes != 0 ? extent_bytes : plan.read_block_bytes;
  const auto blocks = static_cast<uint32_t>(
      std::max<uint64_t>(plan.read_blocks * plan.read_block_bytes / read_block_bytes, 4));
  // An item of the longest kind may begin at the end of a block.
  const auto comeback_blocks =
      static_cast<uint32_t>(ceil_div(plan.item_bytes_max, read_block_bytes));
  PieceReaders readers(context.options, {.block_bytes = read_block_bytes,
                                         .read_ahead_blocks = blocks - 1,
                                         .comeback_blocks = comeback_blocks});
  std::jthread toucher;
  for (const Piece& piece : input.pieces) {
    auto reader = readers.open(piece);
    if (!reader) return std::unexpected(reader.error());
    // Only now: to open the first one looks at what the kernel can do, on memory of its own.
    if (!toucher.joinable()) toucher = touch_ahead(context, input.pieces, input.arena);
    const std::string name =
        piece.file != nullptr ? piece.file->path() : input.place.directories.front();
    if (auto status = split_piece(context, name, **reader, plan.item_bytes_max, *distributor);
        !status)
      return std::unexpected(status.error());
  }
  distributor->close();
  auto region_bytes = [&](uint32_t number) -> std::optional<uint64_t> {
    SplitBucket bucket;
    distributor->describe(number, bucket);
    const uint64_t bytes = keeper.bytes(number);
    if (bytes == 0) return 0;
    const uint64_t region = region_bytes_of(format, bytes, bucket.constant ? 0 : bucket.items);
    if (region > plan.region_bytes_max) return std::nullopt;
    return region;
  };
  auto split = keeper.finish(region_bytes);
  if (!split) return split;
  for (uint32_t number = 0; number < split->buckets.size(); ++number)
    distributor->describe(number, split->buckets[number]);
  std::erase_if(split->buckets, [](const SplitBucket& bucket) { return bucket.bytes == 0; });
  split->read = distributor->read;
  return split;
}

Status save_split(Resume& resume, BucketId of, Split& split) {
  const uint32_t number = resume.next_split();
  const auto buckets = static_cast<uint32_t>(split.buckets.size());
  for (uint32_t i = 0; i < buckets; ++i) split.buckets[i].id = {number, i};
  return resume.save_split(of, split.read, split.spills, buckets, [&](uint32_t i) {
    const SplitBucket& bucket = split.buckets[i];
    return ResumeBucket{.keys = bucket.keys,
                        .bytes = bucket.bytes,
                        .items = bucket.items,
                        .constant = bucket.constant,
                        .part = bucket.spill,
                        .rest = bucket.rest,
                        .blocks = bucket.spilled};
  });
}

Result<Split> take_split(Resume& resume, BucketId of) {
  ResumeSplit saved = resume.take_split(of);
  auto spills = resume.open_spills(saved);
  if (!spills) return std::unexpected(spills.error());
  Split split;
  split.spills = std::move(*spills);
  split.read = saved.read;
  for (uint32_t i = 0; i < saved.buckets.size(); ++i) {
    ResumeBucket& bucket = saved.buckets[i];
    split.buckets.push_back({.keys = bucket.keys,
                             .bytes = bucket.bytes,
                             .items = bucket.items,
                             .constant = bucket.constant,
                             .spilled = std::move(bucket.blocks),
                             .spill = bucket.part,
                             .rest = bucket.rest,
                             .id = {saved.number, i}});
  }
  return split;
}

}  // namespace penstock::external
