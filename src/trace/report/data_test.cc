#include "trace/report/data.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "base/trials.h"
#include "trace/report/random_requests.h"

namespace penstock::report {
namespace {

std::string inflated(const std::string& packed) {
  std::string plain(64 << 20, '\0');
  auto bytes = static_cast<uLongf>(plain.size());
  EXPECT_EQ(
      uncompress(reinterpret_cast<Bytef*>(plain.data()), &bytes,
                 reinterpret_cast<const Bytef*>(packed.data()), static_cast<uLong>(packed.size())),
      Z_OK);
  plain.resize(bytes);
  return plain;
}

// Reads numbers as the page's script does.
class Numbers {
 public:
  explicit Numbers(std::string bytes) : bytes_(std::move(bytes)) {}
  uint64_t next() {
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_.at(at_++));
      number |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return number;
    }
  }
  int64_t next_signed() {
    const uint64_t n = next();
    return static_cast<int64_t>(n >> 1) ^ -static_cast<int64_t>(n & 1);
  }
  std::vector<int64_t> column(uint64_t count, bool is_signed) {
    const uint64_t bytes = next();
    const size_t begin = at_;
    std::vector<int64_t> values(count);
    for (int64_t& value : values) value = is_signed ? next_signed() : static_cast<int64_t>(next());
    EXPECT_EQ(at_ - begin, bytes);
    return values;
  }
  void skip(uint64_t bytes) { at_ += bytes; }
  bool at_end() const { return at_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

TEST(PageData, SingleRequestsComeBackAsTheyWere) {
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  TraceOnDisk trace;
  const std::vector<MadeRequest> requests = random_requests(random, 3000, 3, 2);
  // A sync in the middle, and one at the end.
  std::vector<MadeRequest> with_syncs = requests;
  with_syncs.push_back(with_syncs.back());
  with_syncs.back().bytes = 0;
  with_syncs.back().latency_ns = 7000;
  with_syncs.insert(with_syncs.begin() + 1000, with_syncs[1000]);
  with_syncs[1000].bytes = 0;
  with_syncs[1000].latency_ns = 2000;
  write_trace(trace.path(), with_syncs, {"a", "b", "c"});
  auto summary = summarize(trace.path());
  ASSERT_TRUE(summary);
  const std::string data = pack_data(*summary, summary->files, 1 << 20);
  EXPECT_LE(data.size(), size_t{1} << 20);

  Numbers numbers(inflated(data));
  EXPECT_EQ(numbers.next(), 2u);
  EXPECT_EQ(numbers.next(), 0u);
  EXPECT_EQ(numbers.next(), 3000u);
  EXPECT_EQ(static_cast<double>(numbers.next()), summary->addresses);
  ASSERT_EQ(numbers.next(), 3u);
  std::vector<uint64_t> bases;
  for (const FileFigures& file : summary->files) {
    bases.push_back(numbers.next());
    EXPECT_EQ(bases.back(), file.base_address);
    EXPECT_EQ(numbers.next(), file.bytes_shown());
    EXPECT_EQ(numbers.next(), 0u);
  }
  ASSERT_EQ(numbers.next(), 2u);
  std::vector<int64_t> processes = {numbers.next_signed(), numbers.next_signed()};
  const uint64_t bins = numbers.next();
  EXPECT_EQ(bins, summary->timeline.bins().size());
  numbers.next();
  numbers.next();
  uint64_t seeks = 0, syncs = 0;
  for (uint64_t column = 0; column < 13; ++column) {
    for (uint64_t i = 0; i < bins; ++i) {
      const uint64_t value = numbers.next();
      if (column == 2) seeks += value;
      if (column == 3) syncs += value;
    }
  }
  EXPECT_EQ(seeks, summary->totals.device_seeks);
  EXPECT_EQ(syncs, 2u);
  numbers.next();
  for (uint64_t starts = numbers.next(); starts > 0; --starts) numbers.next_signed();
  EXPECT_EQ(numbers.next(), 1u);  // each sync at its place
  ASSERT_EQ(numbers.next(), 2u);
  for (const uint64_t wanted : {1000u, 1u, 20u, 2000u, 1u, 70u}) EXPECT_EQ(numbers.next(), wanted);

  EXPECT_EQ(numbers.next(), 0u);  // no pictures: all requests are there
  ASSERT_EQ(numbers.next(), 1u);
  EXPECT_EQ(numbers.next(), 0u);
  ASSERT_EQ(numbers.next(), 3000u);
  const auto addresses = numbers.column(3000, true), bytes = numbers.column(3000, true),
             kinds = numbers.column(3000, false), starts = numbers.column(3000, true),
             latencies = numbers.column(3000, false);
  EXPECT_TRUE(numbers.at_end());
  int64_t end = 0, size = 0, start = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    const MadeRequest& wanted = requests[i];
    size += bytes[i];
    start += starts[i];
    const int64_t address = end + addresses[i];
    end = address + size;
    const auto file = std::ranges::find(summary->files, wanted.file, &FileFigures::file);
    ASSERT_EQ(static_cast<uint64_t>(address), file->base_address + wanted.offset) << i;
    ASSERT_EQ(static_cast<uint64_t>(size), wanted.bytes);
    ASSERT_EQ(kinds[i] & 1, wanted.access == trace::Access::write);
    ASSERT_EQ(processes.at(static_cast<size_t>(kinds[i] / 4)), wanted.process);
    ASSERT_EQ(static_cast<uint64_t>(start), (wanted.start_ns - summary->start_ns) / 100);
    ASSERT_EQ(static_cast<uint64_t>(latencies[i]), wanted.latency_ns / 100);
  }
}

TEST(PageData, KeepsToItsRoom) {
  // Random addresses are the worst case for a picture.
  const uint64_t seed = seed_of_run();
  SCOPED_TRACE(seed);
  Random random(seed);
  std::vector<MadeRequest> requests;
  for (uint64_t i = 0; i < 300'000; ++i) {
    requests.push_back({.file = 0,
                        .offset = random.below(1 << 30),
                        .bytes = 4096,
                        .access = random.below(2) == 0 ? trace::Access::read : trace::Access::write,
                        .process = 5,
                        .start_ns = i * 1000,
                        .latency_ns = random.below(100'000)});
  }
  TraceOnDisk trace;
  write_trace(trace.path(), requests, {"a"});
  auto summary = summarize(trace.path(), {.single_requests = 50'000});
  ASSERT_TRUE(summary);
  size_t last = ~size_t{0};
  for (const size_t room : {size_t{3'000'000}, size_t{1'000'000}, size_t{400'000}}) {
    const std::string data = pack_data(*summary, summary->files, room);
    EXPECT_LE(data.size(), room);
    EXPECT_LE(data.size(), last);
    last = data.size();
  }
}

}  // namespace
}  // namespace penstock::report
