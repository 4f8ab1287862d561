#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/sort.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/in_place/in_place_sort.h"
#include "sorting/sort/records/cycle_sort.h"
#include "sorting/sort/records/record_plan.h"

namespace penstock::sorting {
namespace {

using Bytes = std::vector<unsigned char>;

// Fills the key of the i-th of `count` records.
struct Pattern {
  const char* name;
  void (*fill)(Random&, size_t i, size_t count, unsigned char* key, size_t key_bytes);
};

void fill_random(Random& random, unsigned char* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) at[i] = static_cast<unsigned char>(random.next());
}
void fill_number(uint64_t number, unsigned char* at, size_t bytes) {
  for (size_t i = bytes; i-- > 0; number >>= 8) at[i] = static_cast<unsigned char>(number);
}
void fill_behind(Random& random, size_t common, unsigned char* key, size_t key_bytes) {
  const size_t same = std::min(common, key_bytes);
  std::memset(key, 0xa5, same);
  fill_random(random, key + same, key_bytes - same);
}

const Pattern patterns[] = {
    {"uniform",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) { fill_random(r, k, n); }},
    {"few distinct",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) {
       Random same(r.below(5));
       fill_random(same, k, n);
     }},
    {"all equal",
     [](Random&, size_t, size_t, unsigned char* k, size_t n) { std::memset(k, 255, n); }},
    {"all equal but one", [](Random&, size_t i, size_t count, unsigned char* k,
                             size_t n) { std::memset(k, i == count / 3 ? 6 : 7, n); }},
    {"common 8 bytes",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) { fill_behind(r, 8, k, n); }},
    {"common 16 bytes",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) { fill_behind(r, 16, k, n); }},
    {"nearly all in common",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) { fill_behind(r, n - 1, k, n); }},
    {"half share a prefix, again and again",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) {
       fill_behind(r, 8 * static_cast<size_t>(std::countr_zero(r.next() | uint64_t{1} << 60)), k,
                   n);
     }},
    {"a staircase of prefixes", [](Random& r, size_t, size_t, unsigned char* k,
                                   size_t n) { fill_behind(r, r.below(n), k, n); }},
    {"sorted", [](Random&, size_t i, size_t, unsigned char* k, size_t n) { fill_number(i, k, n); }},
    {"backwards", [](Random&, size_t i, size_t count, unsigned char* k,
                     size_t n) { fill_number(count - i, k, n); }},
    {"backwards in blocks",
     [](Random& r, size_t i, size_t count, unsigned char* k, size_t n) {
       fill_number((count - i) / 1000 * 1000 + r.below(1000), k, n);
     }},
    {"exponential",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) {
       std::memset(k, 0, n);
       fill_number(r.next() >> r.below(64), k, std::min<size_t>(n, 8));
     }},
    {"few small numbers and a huge one",
     [](Random& r, size_t i, size_t count, unsigned char* k, size_t n) {
       std::memset(k, 0, n);
       fill_number(i == count / 2 ? ~uint64_t{0} : r.below(4), k, std::min<size_t>(n, 8));
     }},
    {"two values of each byte",
     [](Random& r, size_t, size_t, unsigned char* k, size_t n) {
       for (size_t i = 0; i < n; ++i) k[i] = r.below(20) == 0 ? 1 : 0;
     }},
};

struct Case {
  size_t count = 0;
  RecordLayout layout;
  SortOptions options;
  const Pattern* pattern = nullptr;
  uint64_t seed = 0;
};

// Compares with a stable sort of places; the bytes around the records must stay unchanged. Records
// with room for it carry their place, which distinguishes a stable sort from one that is not, and
// two records from one that appears twice.
void expect_like_stable_sort(const Case& c) {
  const auto& [record_bytes, key_offset, key_bytes] = c.layout;
  SCOPED_TRACE(testing::Message() << c.pattern->name << ", count " << c.count << ", record "
                                  << record_bytes << ", key at " << key_offset << " of "
                                  << key_bytes << ", threads " << c.options.threads << ", stable "
                                  << c.options.stable << ", descending " << c.options.descending
                                  << ", seed " << c.seed);
  constexpr size_t around = 256;
  Random random(c.seed);
  const size_t before = around + random.below(64);  // no alignment
  Bytes memory(before + c.count * record_bytes + around);
  fill_random(random, memory.data(), before);
  fill_random(random, memory.data() + memory.size() - around, around);
  unsigned char* records = memory.data() + before;
  for (size_t i = 0; i < c.count; ++i) {
    unsigned char* record = records + i * record_bytes;
    fill_number(i, record, key_offset);
    const size_t end = key_offset + key_bytes;
    fill_number(i, record + end, record_bytes - end);
    c.pattern->fill(random, i, c.count, record + key_offset, key_bytes);
  }
  Bytes expected = memory;
  std::vector<uint32_t> places(c.count);
  std::iota(places.begin(), places.end(), 0);
  auto by_key = [&](uint32_t a, uint32_t b) {
    const int order = std::memcmp(records + a * record_bytes + key_offset,
                                  records + b * record_bytes + key_offset, key_bytes);
    return c.options.descending ? order > 0 : order < 0;
  };
  std::stable_sort(places.begin(), places.end(), by_key);
  for (size_t i = 0; i < c.count; ++i)
    std::memcpy(expected.data() + before + i * record_bytes, records + places[i] * record_bytes,
                record_bytes);

  const auto status = sort_records(records, c.count, c.layout, c.options);
  ASSERT_TRUE(status) << status.error().message();
  if (!c.options.stable) {
    // Records of equal keys may stand in any order: bring both to the same.
    auto settle = [&](unsigned char* from) {
      for (size_t start = 0; start < c.count;) {
        size_t end = start + 1;
        while (end < c.count && std::memcmp(from + start * record_bytes + key_offset,
                                            from + end * record_bytes + key_offset, key_bytes) == 0)
          ++end;
        if (end - start > 1) {
          std::vector<Bytes> equal;
          for (size_t i = start; i < end; ++i)
            equal.emplace_back(from + i * record_bytes, from + (i + 1) * record_bytes);
          std::sort(equal.begin(), equal.end());
          for (size_t i = start; i < end; ++i)
            std::copy(equal[i - start].begin(), equal[i - start].end(), from + i * record_bytes);
        }
        start = end;
      }
    };
    settle(records);
    settle(expected.data() + before);
  }
  if (memory == expected) return;
  const auto at = std::mismatch(memory.begin(), memory.end(), expected.begin()).first -
                  memory.begin() - static_cast<std::ptrdiff_t>(before);
  FAIL() << "differs in record " << at / static_cast<std::ptrdiff_t>(record_bytes) << " (byte "
         << at << " from the first record)";
}

RecordLayout random_layout(Random& random, size_t record_bytes_most) {
  RecordLayout layout;
  layout.record_bytes = 1 + random.below(record_bytes_most);
  layout.key_offset = random.below(layout.record_bytes);
  layout.key_bytes = 1 + random.below(layout.record_bytes - layout.key_offset);
  return layout;
}

SortOptions random_options(Random& random) {
  return {.threads = 1 + static_cast<unsigned>(random.below(3)),
          .descending = random.below(2) == 1,
          .stable = random.below(2) == 1};
}

TEST(RecordSort, SortsFewRecordsOfEveryLayout) {
  Random random(1);
  for (size_t turn = 0; turn < (os::shadowed ? 500 : 3000); ++turn) {
    const Pattern& pattern = patterns[turn % std::size(patterns)];
    const size_t count = turn < 100 ? turn % 4 : random.below(600);
    expect_like_stable_sort(
        {count, random_layout(random, 300), random_options(random), &pattern, turn});
    if (HasFailure()) return;
  }
}

TEST(RecordSort, SortsManyRecordsOfEveryPattern) {
  Random random(2);
  for (size_t turn = 0; turn < (os::shadowed ? 1 : 4) * std::size(patterns); ++turn) {
    const Pattern& pattern = patterns[turn % std::size(patterns)];
    const size_t count = 20'000 + random.below(os::shadowed ? 30'000 : 180'000);
    expect_like_stable_sort({count, random_layout(random, turn % 2 == 0 ? 40 : 300),
                             random_options(random), &pattern, turn});
    if (HasFailure()) return;
  }
}

TEST(RecordSort, SortsByTheBytesBehindACommonPrefix) {
  static size_t common;
  const Pattern pattern = {"some bytes in common", [](Random& r, size_t, size_t, unsigned char* k,
                                                      size_t n) { fill_behind(r, common, k, n); }};
  for (common = 1; common < 20; common += 2) {
    expect_like_stable_sort({100'000, {32, 4, 24}, {.threads = 1}, &pattern, common});
    if (HasFailure()) return;
  }
}

// The layout of the sort benchmark, and sizes that the copy of a record treats separately.
TEST(RecordSort, SortsUsualLayouts) {
  const RecordLayout layouts[] = {{100, 0, 10}, {8, 0, 8},  {16, 8, 8}, {16, 0, 16},
                                  {15, 3, 9},   {7, 1, 5},  {1, 0, 1},  {512, 500, 12},
                                  {513, 0, 20}, {64, 0, 64}};
  uint64_t seed = 0;
  for (const RecordLayout& layout : layouts) {
    for (const Pattern& pattern : patterns) {
      if (seed % (os::shadowed ? 5 : 2) != 0 || !tried()) {
        ++seed;
        continue;
      }
      const SortOptions options = {.threads = 1 + static_cast<unsigned>(seed % 3),
                                   .descending = seed % 7 % 2 == 1,
                                   .stable = seed % 11 % 2 == 1};
      expect_like_stable_sort({(os::shadowed ? 2u : 5u) << 20 >> (layout.record_bytes > 16 ? 6 : 4),
                               layout, options, &pattern, seed++});
      if (HasFailure()) return;
    }
  }
}

TEST(RecordSort, SortsLargeRecords) {
  Random random(3);
  for (size_t turn = 0; turn < (os::shadowed ? 8 : 2 * std::size(patterns)); ++turn) {
    RecordLayout layout = random_layout(random, record_bytes_max);
    if (turn % 4 == 0) layout = {record_bytes_max, 0, record_bytes_max};
    if (turn % 4 == 1) layout = {2048, 1000, 40};
    const size_t count = (16u << 20) / layout.record_bytes;
    expect_like_stable_sort({std::min<size_t>(count, 20'000), layout, random_options(random),
                             &patterns[turn % std::size(patterns)], turn});
    if (HasFailure()) return;
  }
}

TEST(RecordSort, RefusesKeysOutsideOfTheRecord) {
  unsigned char records[40] = {3, 2, 1};
  const RecordLayout wrong[] = {{0, 0, 0},
                                {10, 0, 0},
                                {10, 10, 1},
                                {10, 5, 6},
                                {10, 11, 1},
                                {10, 5, ~size_t{0}},
                                {record_bytes_max + 1, 0, 1}};
  for (const RecordLayout& layout : wrong) {
    const auto status = sort_records(records, 4, layout);
    ASSERT_FALSE(status) << layout.record_bytes << " " << layout.key_offset;
    EXPECT_EQ(status.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_EQ(records[0], 3);
}

// Memory that a sort takes beside the records by its plan, without buckets that two more
// distributions have not made small.
uint64_t planned_extra_bytes(size_t count, size_t bytes, unsigned threads_max, bool stable) {
  const unsigned threads = record_threads(count, bytes, threads_max);
  if (bytes >= cycle_record_bytes_min && threads_max <= 1) {
    return count * sizeof(KeyValue) + bytes +
           extra_bytes<KeyValue>(count, {.order = {}, .stable = true});
  }
  const ChunkPlan plan = plan_records(count, bytes, threads, stable);
  const uint64_t worker = CacheSort<KeyValue>::bytes_needed(plan.bucket_items_max) +
                          plan.bucket_items_max * sizeof(KeyValue);
  if (plan.buckets == 0) return worker + count * bytes;
  const size_t chunk_bytes = plan.chunk_items * bytes;
  return threads * (worker + chunk_bytes + uint64_t{plan.buckets} * 64) +
         uint64_t{plan.spare_chunks} * chunk_bytes +
         (ceil_div(count, plan.chunk_items) + plan.spare_chunks) * 40;
}

TEST(RecordSort, TakesNoMoreMemoryThanPromised) {
  for (size_t record_bytes : {8, 16, 100, 300, 2000, 65536}) {
    for (unsigned threads : {1u, 2u, 4u, 16u}) {
      for (bool stable : {false, true}) {
        for (uint64_t bytes = 1 << 10; bytes <= uint64_t{1} << 40; bytes *= 4) {
          const uint64_t extra =
              planned_extra_bytes(bytes / record_bytes, record_bytes, threads, stable);
          const uint64_t allowed = bytes >= GiB ? bytes / 50 + (threads + 1) * 32 * MiB
                                                : std::max<uint64_t>(bytes, 8 * MiB);
          EXPECT_LE(extra, allowed) << "record " << record_bytes << ", threads " << threads
                                    << ", stable " << stable << ", bytes " << bytes;
        }
      }
    }
  }
}

}  // namespace
}  // namespace penstock::sorting
