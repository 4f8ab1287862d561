#include "external/bucket_runs.h"

#include <algorithm>

namespace penstock::external {

Result<Stored> sort_in_runs(Context& context, BlockArena& arena, std::span<SplitBucket> buckets,
                            const Target& target, const Resume* resume, const BucketWork& work) {
  const uint64_t arena_bytes = arena.bytes();
  const size_t block_bytes = arena.block_bytes();
  auto done = [&](const SplitBucket& bucket) {
    return resume != nullptr ? resume->done(bucket.id) : std::nullopt;
  };
  auto ready = [&](const SplitBucket& bucket) {
    const bool split_before = resume != nullptr && resume->has_split(bucket.id);
    return work.fits(bucket) && !split_before && !done(bucket);
  };
  Stored total;
  for (auto first = buckets.begin(); first != buckets.end();) {
    const Target next{target.file, target.offset + total.bytes};
    Result<Stored> stored;
    if (auto before = done(*first)) {
      stored = *before;
      ++first;
    } else if (context.set_step("sort"); ready(*first)) {
      const auto last = std::find_if_not(first, buckets.end(), ready);
      stored = work.sort({first, last}, next);
      first = last;
    } else {
      stored = work.split_again(*first, next);
      if (!stored) return stored;
      if (auto status = arena.open(arena_bytes, block_bytes); !status)
        return std::unexpected(status.error());
      ++first;
    }
    if (!stored) return stored;
    total += *stored;
  }
  return total;
}

Status record_whole(Resume& resume, BucketId id, const Target& target, const Stored& stored) {
  const ResumeDone done{.id = id, .offset = target.offset, .stored = stored};
  return resume.finished({&done, 1}, *target.file);
}

}  // namespace penstock::external
