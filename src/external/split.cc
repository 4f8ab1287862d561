#include "external/split.h"

#include <utility>

#include "external/bucket_plan.h"

namespace penstock::external {

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

std::jthread touch_ahead(const Context& context, const std::vector<Piece>& pieces,
                         const BlockArena& arena) {
  if (context.options.threads == 1) return {};
  uint64_t bytes = 0;
  for (const Piece& piece : pieces) bytes += piece.bytes;
  return arena.start_touching(bytes);
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
