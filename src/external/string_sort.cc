#include "external/string_sort.h"

#include <algorithm>

#include "external/bucket_plan.h"
#include "external/bucket_runs.h"
#include "external/spill_codec.h"
#include "external/string_pipeline.h"

// The outline:
//
//   split         every item goes to its bucket; what memory does not hold, to temporaries
//   buckets       those that are in memory, then the others: read, sort, gather and write
//                 one that is too large to be sorted in memory is itself an input: the same again
//
// An input that fits is the case in which nothing goes to temporaries. All levels have the whole
// memory, one after the other: when a large bucket is split again, those before it are stored and
// those behind it are on disk, because what is kept are always the first ones, and none behind a
// large one (block_keeper.cc).
//
// Where the sort can be resumed, a split is written down when it is whole, and a bucket when it is
// stored (resume.h): what an earlier run has done is taken from there, at every level. The journal
// knows the numbers of blocks and not what they take, so with it nothing is compressed.
//
// A large bucket whose blocks are compressed is written once more as it is, and read from there:
// the stream that reads an input's pieces knows only plain ones. It is rare (a sample that erred),
// or there is so much input for so little memory that the plan would not compress.

namespace penstock::external {
namespace {

// Each level divides by a hundred or so; what is not done by then cannot be told apart.
constexpr unsigned depth_max = 6;

}  // namespace

StringSort::StringSort(Context& context, uint64_t memory_bytes,
                       std::vector<std::string> directories, bool compresses, Resume* resume)
    : context_(context),
      memory_bytes_(memory_bytes),
      directories_(std::move(directories)),
      compresses_(compresses && resume == nullptr),
      resume_(resume) {}

Result<Stored> StringSort::run(const std::vector<Piece>& pieces, uint64_t bytes, bool known,
                               Sample sample, const Target& target) {
  Origin origin;
  return sort_pieces(pieces, bytes, known, std::move(sample), target, 0, origin, resume_);
}

Result<Stored> StringSort::sort_pieces(const std::vector<Piece>& pieces, uint64_t bytes, bool known,
                                       Sample sample, const Target& target, unsigned depth,
                                       Origin& origin, Resume* resume) {
  if (depth == depth_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "sort",
                   "a larger -S");
  }
  uint64_t left_bytes = memory_bytes_;
  if (depth > 0) {
    left_bytes = memory_beside_extents(memory_bytes_, bytes, origin.block_bytes);
  }
  const BucketPlan plan =
      plan_buckets(context_.options, left_bytes,
                   {.bytes = bytes, .known = known, .item_bytes = sample.item_bytes});
  if (auto status = check_lists(plan, bytes); !status) return std::unexpected(status.error());
  if (depth == 0) stats_.read_block_bytes = plan.read_block_bytes;
  if (auto status = arena_.open(plan.arena_bytes, plan.block_bytes); !status)
    return std::unexpected(status.error());
  auto parts = resume != nullptr && resume->has_split(origin.id)
                   ? take_split(*resume, origin.id)
                   : split(pieces, plan, std::move(sample), depth, origin.id, resume);
  if (!parts) return std::unexpected(parts.error());
  if (depth == 0) stats_.read = parts->read;
  if (parts->spilled_bytes > 0 || resume != nullptr)
    stats_.levels = std::max(stats_.levels, depth + 1);
  // Without a record of its own a bucket is not done before all of it is.
  const bool recorded = resume_ == nullptr || resume != nullptr;
  if (recorded) origin.release();
  return sort_buckets(*parts, plan, target, depth, resume);
}

Result<Split> StringSort::split(const std::vector<Piece>& pieces, const BucketPlan& plan,
                                Sample sample, unsigned depth, BucketId id, Resume* resume) {
  context_.set_step("distribute");
  const SpillPlace place =
      resume != nullptr ? resume->place_for_split() : SpillPlace{.directories = directories_};
  auto split = split_strings(context_, pieces, std::move(sample), plan, compresses_, place, arena_);
  if (!split) return split;
  if (resume != nullptr) {
    if (auto status = save_split(*resume, id, *split); !status)
      return std::unexpected(status.error());
  }
  stats_.spilled_bytes += split->spilled_bytes;
  stats_.stored_bytes += split->stored_bytes;
  if (depth == 0) stats_.kept_bytes += split->kept_bytes();
  return split;
}

Result<Stored> StringSort::sort_buckets(Split& split, const BucketPlan& plan, const Target& target,
                                        unsigned depth, Resume* resume) {
  auto fits = [&](const SplitBucket& bucket) {
    return bucket.constant || region_bytes_of(context_.options.format, bucket.bytes,
                                              bucket.items) <= plan.region_bytes_max;
  };
  auto sort = [&](std::span<const SplitBucket> buckets, const Target& next) {
    return sort_string_buckets(context_, buckets, plan, arena_, split.spills, next, resume);
  };
  auto split_again = [&](SplitBucket& bucket, const Target& next) {
    const uint64_t list_bytes = std::min(split.list_bytes(), memory_bytes_);
    memory_bytes_ -= list_bytes;
    auto stored = sort_again(bucket, split.spills, next, depth + 1, resume);
    memory_bytes_ += list_bytes;
    return stored;
  };
  return sort_in_runs(context_, arena_, split.buckets, target, resume,
                      {.fits = fits, .sort = sort, .split_again = split_again});
}

// Where it can be resumed, the bucket's temporaries go when those of the new split are whole. If
// that is made in memory alone, there is nothing to go on with but the bucket itself.
Result<Stored> StringSort::sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                                      unsigned depth, Resume* resume) {
  const double item_bytes = static_cast<double>(bucket.bytes) / static_cast<double>(bucket.items);
  Origin origin{.id = bucket.id,
                .spills = &spills,
                .spill = bucket.spill,
                .block_bytes = spills.block_bytes()};
  if (resume != nullptr && resume->has_split(bucket.id)) {
    origin.spills = nullptr;
    return sort_pieces({}, bucket.bytes, true, {.item_bytes = item_bytes}, target, depth, origin,
                       resume);
  }
  const size_t extent_bytes = extent_bytes_for(memory_bytes_, spills.block_bytes());
  file::File plain;
  std::vector<Piece> pieces;
  if (bucket.stored_bytes.empty()) {
    pieces.push_back(
        {.bytes = bucket.bytes,
         .extents = spills.extents(bucket.spill, bucket.spilled, bucket.bytes, extent_bytes),
         .extent_bytes = extent_bytes});
  } else {
    auto inflated = inflate(bucket, spills);
    if (!inflated) return std::unexpected(inflated.error());
    plain = std::move(*inflated);
    pieces.push_back({.file = &plain, .bytes = bucket.bytes});
    origin.release();
  }
  auto sample = take_sample(context_, pieces, sample_places(bucket.bytes));
  if (!sample) return std::unexpected(sample.error());
  sample->item_bytes = item_bytes;
  const BucketPlan plan = plan_buckets(
      context_.options, memory_beside_extents(memory_bytes_, bucket.bytes, spills.block_bytes()),
      {.bytes = bucket.bytes, .item_bytes = item_bytes});
  Resume* below = plan.fits ? nullptr : resume;
  auto stored =
      sort_pieces(pieces, bucket.bytes, true, std::move(*sample), target, depth, origin, below);
  if (!stored) return stored;
  if (resume != nullptr && below == nullptr) {
    if (auto status = record_whole(*resume, bucket.id, target, *stored); !status)
      return std::unexpected(status.error());
  }
  origin.release();
  return stored;
}

// A bucket as it was before its blocks were compressed, in a temporary of its own.
Result<file::File> StringSort::inflate(const SplitBucket& bucket, const SpillSet& spills) {
  auto file = file::File::create_temporary(directories_.front());
  if (!file) return file;
  file->keep_checks();
  const size_t block_bytes = spills.block_bytes();
  // Nothing else needs the memory now.
  if (auto status = arena_.open(2 * block_bytes, block_bytes); !status)
    return std::unexpected(status.error());
  uint64_t offset = 0;
  for (size_t i = 0; i < bucket.spilled.size(); ++i) {
    if (auto status = context_.pulse(); !status) return std::unexpected(status.error());
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(block_bytes, bucket.bytes - offset));
    const size_t stored_bytes = bucket.stored_bytes[i];
    const stream::Extent extent =
        spills.part(bucket.spill).numbered(bucket.spilled[i], static_cast<uint32_t>(stored_bytes));
    std::byte* data = arena_.block(0);
    // Whole sectors, as it was written: so it is checked.
    if (auto status = file::read_exactly(*extent.file, extent.offset, data,
                                         round_up(stored_bytes, file::sector_bytes));
        !status)
      return std::unexpected(status.error());
    if (stored_bytes < bytes) {
      data = arena_.block(1);
      if (!inflate_block(arena_.block(0), stored_bytes, data, bytes)) {
        return failure(ErrorCode::corrupt, "read back what was written: a block is damaged",
                       spills.name());
      }
    }
    if (auto status = file::write_exactly(*file, offset, data, bytes); !status)
      return std::unexpected(status.error());
    offset += bytes;
  }
  return file;
}

}  // namespace penstock::external
