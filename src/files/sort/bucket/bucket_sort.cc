#include "files/sort/bucket/bucket_sort.h"

#include <algorithm>
#include <utility>

#include "base/bits.h"
#include "files/sort/spill/spill_codec.h"
#include "items/keys/codec.h"
#include "os/memory.h"

// Outline for all formats:
//
//   split         every item goes to its bucket; buckets that memory cannot hold, to temporaries
//   buckets       in the order of the output, in runs of those that fit: read, sort, write
//                 a bucket between them that is too large is split like an input
//
// An input that fits is the case in which nothing goes to temporaries. All levels have the whole
// memory, one after the other: when a large bucket is split again, those before it are stored and
// those behind it are on disk, because the kept buckets are always the first ones, none behind a
// large one (block_keeper.cc).
//
// If the sort can be resumed, a split is recorded when it is complete, and a bucket when it is
// stored (resume.h); the recorded steps of an earlier run are used at every level. The journal has
// the numbers of blocks and not their sizes, so a sort with a journal does not compress.
//
// A large bucket whose blocks are compressed is first written as it is to another temporary, and
// read from there, because the stream that reads an input's pieces knows only plain blocks. It is
// rare (a sample that erred), or the plan would not compress because the input is too large.
//
// Invariant: a bucket's temporaries stay until its items are in the temporaries of the new split,
// in the output (with `resume`: and this is recorded), or in the plain copy.

namespace penstock::external {
namespace {

// Largest depth. Each level divides by eight at least: keys still together cannot be told apart.
constexpr unsigned split_depth_max = 16;

// Order of the numbers in temporaries: encoded, they are plain numbers of the same size, ascending.
items::ItemOrder order_of_encoded(const SortOptions& options) {
  if (!options.format.numeric()) return options.order();
  items::Format plain = options.format;
  plain.type = items::encoded_type(plain.type);
  return items::ItemOrder(plain);
}

}  // namespace

BucketSort::BucketSort(Context& context, uint64_t memory_bytes,
                       std::vector<std::string> directories, bool compresses, Resume* resume)
    : context_(context),
      memory_bytes_(memory_bytes),
      directories_(std::move(directories)),
      compresses_(compresses && resume == nullptr),
      resume_(resume) {}

Result<Stored> BucketSort::run(SortedInput input, const Target& target) {
  const Level level{.resume = resume_,
                    .plan = plan_buckets(context_.options, memory_bytes_,
                                         {.bytes = input.bytes,
                                          .known = input.known,
                                          .item_bytes = input.sample.item_bytes,
                                          .in_order = in_order(context_.options, target)})};
  if (auto status = check_lists(level.plan, input.bytes); !status)
    return std::unexpected(status.error());
  stats_.read_block_bytes = level.plan.read_block_bytes;
  const bool is_split = resume_ != nullptr && resume_->has_split({});
  auto parts = is_split ? take_split(level) : split(std::move(input), level);
  if (!parts) return std::unexpected(parts.error());
  stats_.read = parts->read;
  return sort_buckets(*parts, level, target);
}

Result<Split> BucketSort::split(SortedInput input, const Level& level) {
  const BucketPlan& plan = level.plan;
  if (auto status = arena_.open(plan.arena_bytes, plan.block_bytes); !status)
    return std::unexpected(status.error());
  if (touches_first_) os::touch(arena_.begin(), arena_.bytes());
  context_.set_step("distribute");
  if (plan.fits) context_.occupancy().expect_input(plan.arena_bytes);
  const SpillPlace place = level.resume != nullptr ? level.resume->place_for_split()
                                                   : SpillPlace{.directories = directories_};
  auto split = split_items(context_,
                           {.pieces = input.pieces,
                            .keys = input.keys,
                            .encoded = level.depth > 0,
                            .plan = plan,
                            .compresses = compresses_,
                            .place = place,
                            .arena = arena_},
                           std::move(input.sample));
  if (!split) return split;
  if (level.resume != nullptr) {
    if (auto status = save_split(*level.resume, level.id, *split); !status)
      return std::unexpected(status.error());
  }
  if (split->spilled_bytes > 0) stats_.levels = std::max(stats_.levels, level.depth + 1);
  stats_.spilled_bytes += split->spilled_bytes;
  stats_.stored_bytes += split->stored_bytes;
  if (level.depth == 0) stats_.kept_bytes += split->kept_bytes();
  return split;
}

Result<Split> BucketSort::take_split(const Level& level) {
  if (auto status = arena_.open(level.plan.arena_bytes, level.plan.block_bytes); !status)
    return std::unexpected(status.error());
  stats_.levels = std::max(stats_.levels, level.depth + 1);
  return external::take_split(*level.resume, level.id);
}

Result<Stored> BucketSort::sort_buckets(Split& split, const Level& level, const Target& target) {
  const BucketPlan& plan = level.plan;
  Resume* const resume = level.resume;
  auto done = [&](const SplitBucket& bucket) {
    return resume != nullptr ? resume->done(bucket.id) : std::nullopt;
  };
  // Whether the bucket is sorted in one piece or not at all, and no earlier run began with it.
  auto ready = [&](const SplitBucket& bucket) {
    const bool fits = bucket.constant || region_bytes_of(context_.options.format, bucket.bytes,
                                                         bucket.items) <= plan.region_bytes_max;
    const bool split_before = resume != nullptr && resume->has_split(bucket.id);
    return fits && !split_before && !done(bucket);
  };
  Stored total;
  for (auto first = split.buckets.begin(); first != split.buckets.end();) {
    const Target next{target.file, target.offset + total.bytes};
    Result<Stored> stored;
    if (auto before = done(*first)) {
      stored = *before;
      ++first;
    } else if (context_.set_step("sort"); ready(*first)) {
      const auto last = std::find_if_not(first, split.buckets.end(), ready);
      stored = sort_in_pipeline(context_,
                                {.buckets = {first, last},
                                 .plan = plan,
                                 .arena = arena_,
                                 .spills = split.spills,
                                 .target = next,
                                 .resume = resume},
                                stats_.times);
      first = last;
    } else {
      // The bucket has the arena for itself: no bucket is kept there any more.
      const uint64_t list_bytes = std::min(split.list_bytes(), memory_bytes_);
      memory_bytes_ -= list_bytes;
      stored = sort_again(*first, split.spills, next, level);
      memory_bytes_ += list_bytes;
      if (!stored) return stored;
      if (auto status = arena_.open(plan.arena_bytes, plan.block_bytes); !status)
        return std::unexpected(status.error());
      ++first;
    }
    if (!stored) return stored;
    total += *stored;
  }
  return total;
}

// Sorts a bucket that is too large. If the sort can be resumed, the bucket's temporaries are
// released when those of the new split are complete. If the new split stays in memory, a later run
// can only begin with the bucket itself.
Result<Stored> BucketSort::sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                                      const Level& above) {
  if (above.depth + 1 == split_depth_max) {
    return failure(ErrorCode::unsupported, "distinguish the keys of a bucket", "sort",
                   "a larger -S");
  }
  const double item_bytes = static_cast<double>(bucket.bytes) / static_cast<double>(bucket.items);
  Level level{
      .depth = above.depth + 1,
      .id = bucket.id,
      .resume = above.resume,
      .plan = plan_buckets(context_.options,
                           memory_beside_extents(memory_bytes_, bucket.bytes, spills.block_bytes()),
                           {.bytes = bucket.bytes,
                            .item_bytes = item_bytes,
                            .in_order = in_order(context_.options, target)})};
  if (auto status = check_lists(level.plan, bucket.bytes); !status)
    return std::unexpected(status.error());
  if (above.resume != nullptr && above.resume->has_split(bucket.id)) {
    auto parts = take_split(level);
    if (!parts) return std::unexpected(parts.error());
    return sort_buckets(*parts, level, target);
  }
  if (level.plan.fits) level.resume = nullptr;
  const bool recorded_below = above.resume == nullptr || level.resume != nullptr;

  io::File inflated;
  std::vector<files::Piece> pieces;
  const bool is_plain = bucket.stored_blocks.empty();
  if (is_plain) {
    const size_t extent_bytes = extent_bytes_for(memory_bytes_, spills.block_bytes());
    pieces.push_back(
        {.bytes = bucket.bytes,
         .extents = spills.extents(bucket.spill, bucket.spilled, bucket.bytes, extent_bytes),
         .extent_bytes = extent_bytes});
  } else {
    auto file = inflate(bucket, spills);
    if (!file) return std::unexpected(file.error());
    inflated = std::move(*file);
    pieces.push_back({.file = &inflated, .bytes = bucket.bytes});
    spills.release(bucket.spill);
  }
  bucket.spilled = {};
  spills.wait_until_free();  // the split may need the space of all released parts
  auto sample = files::take_sample(context_, order_of_encoded(context_.options), pieces,
                                   files::sample_places(bucket.bytes));
  if (!sample) return std::unexpected(sample.error());
  auto parts = split(
      {.pieces = pieces, .bytes = bucket.bytes, .sample = std::move(*sample), .keys = bucket.keys},
      level);
  if (!parts) return std::unexpected(parts.error());
  pieces.clear();
  if (is_plain && recorded_below) {
    spills.release(bucket.spill);
    spills.wait_until_free();  // the next level may need the space
  }
  auto stored = sort_buckets(*parts, level, target);
  if (!stored || recorded_below) return stored;
  const ResumeDone done{.id = bucket.id, .offset = target.offset, .stored = *stored};
  if (auto status = above.resume->finished({&done, 1}, *target.file); !status)
    return std::unexpected(status.error());
  spills.release(bucket.spill);
  return stored;
}

// Writes a bucket as it was before its blocks were compressed to a temporary of its own.
Result<io::File> BucketSort::inflate(const SplitBucket& bucket, const SpillSet& spills) {
  auto file = io::File::create_temporary(directories_.front());
  if (!file) return file;
  file->keep_checks();
  const size_t block_bytes = spills.block_bytes();
  // Nothing else needs the memory now. Inflating takes a block and a scratch block.
  if (auto status = arena_.open(block_bytes, block_bytes); !status)
    return std::unexpected(status.error());
  std::vector<std::byte> spare;
  for (size_t i = 0; i < bucket.spilled.size(); ++i) {
    if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
    const uint64_t offset = i * block_bytes;
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(block_bytes, bucket.bytes - offset));
    const StoredBlock& stored = bucket.stored_blocks[i];
    const stream::Extent extent =
        spills.part(bucket.spill).numbered(bucket.spilled[i], stored.bytes);
    std::byte* const data = arena_.block(0);
    if (auto status = io::read_exactly(*extent.file, extent.offset, data,
                                       round_up(stored.bytes, io::sector_bytes));
        !status)
      return std::unexpected(status.error());
    if (auto status = restore_block(context_.options.format, data, stored, bytes, spare,
                                    spills.location_of(bucket.spilled[i]));
        !status)
      return std::unexpected(status.error());
    if (auto status = io::write_exactly(*file, offset, data, bytes); !status)
      return std::unexpected(status.error());
  }
  return file;
}

}  // namespace penstock::external
