// Test labels: one-thread, nobody (the thread sanitizer has memory of its own where the parent's was)

#include <memory>

#include "memory/stream/forked_child_fixture.h"
#include "papers/bucket_stream.h"
#include "papers/ring_stream.h"

namespace penstock::stream {
namespace {

// A pool and a group, which end together.
template <class Group>
struct OnPool {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<Group> group;
};

Result<Subject> bucket(Mechanism mechanism) {
  auto pool = pool::Pool::open({.block_bytes = block_bytes,
                                .blocks_max = blocks + 2,
                                .mechanism = mechanism,
                                .strict = true});
  if (!pool) return std::unexpected(pool.error());
  auto stream = std::make_shared<OnPool<papers::BucketGroup>>();
  stream->pool = std::move(*pool);
  auto opened =
      papers::BucketGroup::open(*stream->pool, {.streams = 1, .bytes_max = blocks * block_bytes});
  if (!opened) return std::unexpected(opened.error());
  stream->group = std::move(*opened);
  std::byte* const begin = stream->group->begin(0);
  fill(begin, 0), fill(begin + block_bytes, 1);
  return Subject{.shown = begin + block_bytes,
                 .ahead = begin + 2 * block_bytes,
                 .end = [stream] { stream->group.reset(), stream->pool.reset(); },
                 .goes_on =
                     [stream, begin] {
                       fill_rest(begin);
                       return holds_all(begin);
                     }};
}

Result<Subject> ring(Mechanism mechanism) {
  auto pool = pool::Pool::open({.block_bytes = block_bytes,
                                .blocks_max = blocks + 2,
                                .mechanism = mechanism,
                                .strict = true});
  if (!pool) return std::unexpected(pool.error());
  auto stream = std::make_shared<OnPool<papers::RingGroup>>();
  stream->pool = std::move(*pool);
  auto opened = papers::RingGroup::open(*stream->pool, {.streams = 1});
  if (!opened) return std::unexpected(opened.error());
  stream->group = std::move(*opened);
  std::byte* const begin = stream->group->begin(0);
  fill(begin, 0);
  return Subject{.shown = begin,
                 .ahead = begin + block_bytes,
                 .end = [stream] { stream->group.reset(), stream->pool.reset(); },
                 .goes_on =
                     [stream, begin] {
                       for (uint64_t i = 1; i < blocks; ++i) fill(begin + i % 2 * block_bytes, i);
                       const auto taken = stream->group->take_blocks(0);
                       bool good = taken.size() == blocks;
                       for (uint64_t i = 0; good && i < blocks; ++i)
                         good = holds(stream->pool->home(taken[i]), i);
                       for (const pool::BlockId block : taken) stream->pool->give(block);
                       return good;
                     }};
}

INSTANTIATE_TEST_SUITE_P(Buckets, ForkedChild,
                         testing::ValuesIn(on_every_mechanism("bucket", bucket)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Rings, ForkedChild, testing::ValuesIn(on_every_mechanism("ring", ring)),
                         name_of_case);

}  // namespace
}  // namespace penstock::stream
