#include "external/number_sort.h"

#include <algorithm>
#include <chrono>

#include "record/codec.h"

// The outline:
//
//   split         every item goes to its bucket; what memory does not hold, to temporaries
//   buckets       those that are in memory, then the others: read, sort, write
//                 one that is too large to be sorted in memory is itself an input: the same again
//
// An input that fits is the case in which nothing goes to temporaries. All levels have the whole
// memory, one after the other: when a large bucket is split again, those before it are stored and
// those behind it are on disk, because what is kept are always the first ones, and none behind a
// large one (number_split.cc).

namespace penstock::external {
namespace {

// Each level divides by sixteen at least; what is not done by then cannot be told apart.
constexpr unsigned depth_max = 16;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

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
                       std::vector<std::string> directories)
    : context_(context), memory_bytes_(memory_bytes), directories_(std::move(directories)) {}

Result<Stored> NumberSort::run(const std::vector<Piece>& pieces, uint64_t bytes, bool known,
                               Sample sample, const Target& target) {
  bool ordered = in_order(context_.options, target);
  NumberPlan plan = plan_numbers(context_.options, memory_bytes_, bytes, known, ordered);
  if (ordered) {
    uint64_t bytes_max = known ? bytes : pipe_bytes_max;
    auto output = OrderedOutput::open(context_.options, target, bytes_max, plan.read_block_bytes);
    if (!output) return std::unexpected(output.error());
    ordered_ = std::move(*output);
  }
  auto stored = sort(pieces, plan, std::move(sample), {}, target, 0, [] {});
  if (stored && ordered_ != nullptr) {
    if (auto status = ordered_->finish(); !status) return std::unexpected(status.error());
  }
  return stored;
}

Status NumberSort::use_arena(const NumberPlan& plan) {
  if (arena_ && arena_->bytes() == plan.arena_bytes) return {};
  arena_.reset();
  auto arena = BlockArena::open(plan.arena_bytes);
  if (!arena) return std::unexpected(arena.error());
  arena_ = std::move(*arena);
  return {};
}

template <class Read>
Result<Stored> NumberSort::sort(const std::vector<Piece>& pieces, const NumberPlan& plan,
                                Sample sample, const sorting::KeyRange& keys, const Target& target,
                                unsigned depth, Read read) {
  auto start = std::chrono::steady_clock::now();
  if (auto status = use_arena(plan); !status) return std::unexpected(status.error());
  context_.set_step("distribute");
  auto split =
      split_numbers(context_, pieces, std::move(sample), keys, plan, directories_, *arena_);
  if (!split) return std::unexpected(split.error());
  read();
  if (split->spilled_bytes > 0) stats_.levels = std::max(stats_.levels, depth + 1);
  stats_.spilled_bytes += split->spilled_bytes;
  stats_.spill_writes += split->spill_writes;
  if (depth == 0) {
    for (const NumberBucket& bucket : split->buckets)
      stats_.kept_bytes += bucket.extents.empty() ? bucket.bytes : 0;
  }
  stats_.split_s += seconds_since(start);

  Stored total;
  auto stored = [&](const Stored& part) {
    total.bytes += part.bytes;
    total.items += part.items;
  };
  auto next = [&] { return Target{target.file, target.offset + total.bytes}; };
  auto fits = [&](const NumberBucket& bucket) {
    return bucket.constant || bucket.bytes <= plan.bucket_bytes_max;
  };
  auto& buckets = split->buckets;
  for (auto first = buckets.begin(); first != buckets.end();) {
    start = std::chrono::steady_clock::now();
    context_.set_step("sort");
    auto last = std::find_if_not(first, buckets.end(), fits);
    if (first != last) {
      auto part = sort_number_buckets(context_, {first, last}, plan, *arena_, split->spills, next(),
                                      ordered_.get(), stats_.times);
      if (!part) return part;
      stored(*part);
      stats_.buckets_s += seconds_since(start);
    }
    if (last == buckets.end()) break;
    auto part = sort_again(*last, split->spills, next(), depth + 1);
    if (!part) return part;
    stored(*part);
    if (auto status = use_arena(plan); !status) return std::unexpected(status.error());
    arena_->cut(plan.block_bytes);
    first = last + 1;
  }
  return total;
}

Result<Stored> NumberSort::sort_again(NumberBucket& bucket, SpillSet& spills, const Target& target,
                                      unsigned depth) {
  if (depth == depth_max) {
    return failure(ErrorCode::unsupported, "tell the keys of a bucket apart", "sort",
                   "a larger -S");
  }
  NumberPlan plan =
      plan_numbers(context_.options, memory_bytes_, bucket.bytes, true, ordered_ != nullptr);
  std::vector<Piece> pieces = {{.bytes = bucket.bytes,
                                .extents = std::move(bucket.extents),
                                .extent_bytes = arena_->block_bytes()}};
  SortOptions plain = options_of_encoded(context_.options);
  Context sampling(plain);
  auto sample = take_sample(sampling, pieces, sample_places(bucket.bytes));
  if (!sample) return std::unexpected(sample.error());
  return sort(pieces, plan, std::move(*sample), bucket.keys, target, depth,
              [&] { spills.release(bucket.spill); });
}

}  // namespace penstock::external
