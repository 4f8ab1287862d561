#include "external/number_sort.h"

#include <algorithm>

#include "bowtie/addresses.h"
#include "external/bucket_runs.h"
#include "record/codec.h"

// The outline:
//
//   split         every item goes to its bucket; what memory does not hold, to temporaries
//   buckets       those that are in memory, then the others: read, sort, write
//                 one that is too large to be sorted in memory is itself an input: the same again
//
// Where the sort can be resumed, a split is written down when it is whole, and a bucket when it is
// stored (resume.h): what an earlier run has done is taken from there, at every level.
//
// An input that fits is the case in which nothing goes to temporaries. All levels have the whole
// memory, one after the other: when a large bucket is split again, those before it are stored and
// those behind it are on disk, because what is kept are always the first ones, and none behind a
// large one (block_keeper.cc).

namespace penstock::external {
namespace {

// Each level divides by sixteen at least; what is not done by then cannot be told apart.
constexpr unsigned depth_max = 16;

// What lies in temporaries is encoded: plain numbers of the same size, in ascending order.
SortOptions options_of_encoded(const SortOptions& options) {
  SortOptions plain = options;
  plain.descending = false;
  plain.progress = {};
  switch (record::item_bytes_of(options.format.type)) {
    case 4:
      plain.format.type = record::Type::u32;
      break;
    case 16:
      plain.format.type = record::Type::kv64;
      break;
    default:
      plain.format.type = record::Type::u64;
  }
  return plain;
}

}  // namespace

NumberSort::NumberSort(Context& context, uint64_t memory_bytes,
                       std::vector<std::string> directories, Resume* resume)
    : context_(context),
      memory_bytes_(memory_bytes),
      directories_(std::move(directories)),
      resume_(resume) {}

Result<Stored> NumberSort::run(const std::vector<Piece>& pieces, uint64_t bytes, bool known,
                               Sample sample, const Target& target, const sorting::KeyRange& keys) {
  bool ordered = in_order(context_.options, target);
  BucketPlan plan = plan_buckets(context_.options, memory_bytes_,
                                 {.bytes = bytes, .known = known, .in_order = ordered});
  if (auto status = check_lists(plan, bytes); !status) return std::unexpected(status.error());
  if (ordered) {
    if (auto status = open_ordered(target, bytes, known, plan); !status)
      return std::unexpected(status.error());
  }
  auto parts = resume_ != nullptr && resume_->has_split({})
                   ? take_split(plan, {}, 0)
                   : split(pieces, plan, std::move(sample), keys, 0, {}, resume_);
  if (!parts) return std::unexpected(parts.error());
  stats_.read = parts->read;
  auto stored = sort_buckets(*parts, plan, target, 0, resume_);
  if (stored && ordered_ != nullptr) {
    if (auto status = ordered_->finish(); !status) return std::unexpected(status.error());
  }
  return stored;
}

// Behind what an earlier run has written.
Status NumberSort::open_ordered(const Target& target, uint64_t bytes, bool known,
                                const BucketPlan& plan) {
  uint64_t bytes_max = known ? bytes : bowtie::stream_address_bytes;
  uint64_t done_bytes = resume_ != nullptr ? resume_->progress().bytes_done : 0;
  auto output = OrderedOutput::open(context_.options, {target.file, target.offset + done_bytes},
                                    bytes_max, plan.output_block_bytes, plan.output_blocks);
  if (!output) return std::unexpected(output.error());
  ordered_ = std::move(*output);
  return {};
}

Result<Split> NumberSort::split(const std::vector<Piece>& pieces, const BucketPlan& plan,
                                Sample sample, const sorting::KeyRange& keys, unsigned depth,
                                BucketId id, Resume* resume) {
  if (auto status = arena_.open(plan.arena_bytes, plan.block_bytes); !status)
    return std::unexpected(status.error());
  context_.set_step("distribute");
  if (plan.fits) context_.occupancy().expect_input(plan.arena_bytes);
  const SpillPlace place =
      resume != nullptr ? resume->place_for_split() : SpillPlace{.directories = directories_};
  auto split = split_numbers(context_, pieces, std::move(sample), keys, plan, place, arena_);
  if (!split) return split;
  if (resume != nullptr) {
    if (auto status = save_split(*resume, id, *split); !status)
      return std::unexpected(status.error());
  }
  if (split->spilled_bytes > 0) stats_.levels = std::max(stats_.levels, depth + 1);
  stats_.spilled_bytes += split->spilled_bytes;
  if (depth == 0) stats_.kept_bytes += split->kept_bytes();
  return split;
}

Result<Split> NumberSort::take_split(const BucketPlan& plan, BucketId id, unsigned depth) {
  if (auto status = arena_.open(plan.arena_bytes, plan.block_bytes); !status)
    return std::unexpected(status.error());
  stats_.levels = std::max(stats_.levels, depth + 1);
  return external::take_split(*resume_, id);
}

Result<Stored> NumberSort::sort_buckets(Split& split, const BucketPlan& plan, const Target& target,
                                        unsigned depth, Resume* resume) {
  auto fits = [&](const SplitBucket& bucket) {
    return bucket.constant || region_bytes_of(context_.options.format, bucket.bytes,
                                              bucket.items) <= plan.region_bytes_max;
  };
  auto sort = [&](std::span<const SplitBucket> buckets, const Target& next) {
    return sort_number_buckets(context_, buckets, plan, arena_, split.spills, next, ordered_.get(),
                               resume, stats_.times);
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
Result<Stored> NumberSort::sort_again(SplitBucket& bucket, SpillSet& spills, const Target& target,
                                      unsigned depth, Resume* resume) {
  if (depth == depth_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "sort",
                   "a larger -S");
  }
  const uint64_t left_bytes =
      memory_beside_extents(memory_bytes_, bucket.bytes, spills.block_bytes());
  BucketPlan plan = plan_buckets(context_.options, left_bytes,
                                 {.bytes = bucket.bytes, .in_order = ordered_ != nullptr});
  if (auto status = check_lists(plan, bucket.bytes); !status)
    return std::unexpected(status.error());
  if (resume != nullptr && resume->has_split(bucket.id)) {
    auto parts = take_split(plan, bucket.id, depth);
    if (!parts) return std::unexpected(parts.error());
    return sort_buckets(*parts, plan, target, depth, resume);
  }
  Resume* below = plan.fits ? nullptr : resume;
  const bool spilled = !bucket.spilled.empty();
  const size_t extent_bytes = extent_bytes_for(memory_bytes_, spills.block_bytes());
  std::vector<Piece> pieces = {
      {.bytes = bucket.bytes,
       .extents = spills.extents(bucket.spill, bucket.spilled, bucket.bytes, extent_bytes),
       .extent_bytes = extent_bytes}};
  bucket.spilled = {};
  SortOptions plain = options_of_encoded(context_.options);
  Context sampling(plain);
  auto sample = take_sample(sampling, pieces, sample_places(bucket.bytes));
  if (!sample) return std::unexpected(sample.error());
  auto parts = split(pieces, plan, std::move(*sample), bucket.keys, depth, bucket.id, below);
  if (!parts) return std::unexpected(parts.error());
  pieces.clear();
  const bool recorded_below = resume == nullptr || below != nullptr;
  if (spilled && recorded_below) spills.release(bucket.spill);
  auto stored = sort_buckets(*parts, plan, target, depth, below);
  if (!stored || recorded_below) return stored;
  if (ordered_ != nullptr) {
    if (auto status = ordered_->flush(); !status) return std::unexpected(status.error());
  }
  if (auto status = record_whole(*resume, bucket.id, target, *stored); !status)
    return std::unexpected(status.error());
  if (spilled) spills.release(bucket.spill);
  return stored;
}

}  // namespace penstock::external
