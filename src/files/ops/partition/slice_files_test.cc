// Slices against a plain model.

#include "files/ops/partition/slice_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "files/ops/partition/partition_files.h"
#include "files/run/memory_plan.h"
#include "items/checker.h"

namespace penstock::files {
namespace {

using Items = std::vector<std::string>;

struct Case {
  const char* name;
  uint32_t record_bytes;
  const char* key;
};

items::Format format_of(const Case& which) {
  auto format = items::parse_format(which.name, which.record_bytes, which.key);
  EXPECT_TRUE(format.has_value());
  return *format;
}

std::string random_item(Random& random, const items::Format& format, uint64_t keys) {
  const uint64_t key = mix64(random.below(keys));
  if (format.type == items::Type::rows) {
    const std::string text = fmt::format("{:x}", key).substr(0, key % 9);
    std::string row(RowHead::bytes + text.size() + random.below(20), 'p');
    RowHead{static_cast<uint32_t>(row.size()), static_cast<uint32_t>(text.size())}.store(
        row.data());
    return row.replace(RowHead::bytes, text.size(), text);
  }
  if (!format.fixed()) return fmt::format("{:x}", key).substr(0, key % 14) + '\n';
  std::string item(format.record_bytes, '\0');
  for (char& byte : item) byte = static_cast<char>(random.next());
  std::memcpy(item.data() + format.key_offset, &key,
              std::min<size_t>(sizeof key, format.key_bytes));
  return item;
}

// A source of text in memory that delivers a few bytes at a time.
std::shared_ptr<Source> source_of(std::string text, uint64_t seed) {
  return callback_source([text = std::move(text), at = size_t{0}, random = Random(seed)](
                             std::span<std::byte> into) mutable -> Result<size_t> {
    const size_t bytes =
        std::min({into.size(), text.size() - at, size_t{1} + random.below(50'000)});
    std::memcpy(into.data(), text.data() + at, bytes);
    at += bytes;
    return bytes;
  });
}

struct Sliced {
  std::string file;  // the output
  Result<SliceFilesResult> result;
};

Sliced slice(const items::Format& format, const std::vector<std::string>& inputs,
             SliceFilesOptions slices, bool descending, uint64_t memory_bytes) {
  auto file = std::make_shared<std::string>();
  SliceOptions options{.files = {{.memory_bytes = memory_bytes}, format},
                       .descending = descending,
                       .slices = std::move(slices)};
  for (const std::string& input : inputs)
    options.files.sources.push_back(source_of(input, input.size()));
  options.files.sink = callback_sink([file](std::span<const std::byte> from) -> Status {
    file->append(reinterpret_cast<const char*>(from.data()), from.size());
    return {};
  });
  const RunScope scope(run_state(options.files));
  auto result = slice_files(options);
  return {*file, std::move(result)};
}

std::string part_of(const Sliced& run, uint32_t part) {
  std::string text;
  for (const Slice& each : run.result->slices) {
    if (each.part == part) text += run.file.substr(each.offset, each.bytes);
  }
  return text;
}

std::string checksum_of(const items::Format& format, const std::string& text) {
  items::Checker checker({.format = format});
  checker.add(std::as_bytes(std::span(text)));
  return checker.finish()->checksum_hex();
}

class SliceFiles : public testing::TestWithParam<Case> {};

TEST_P(SliceFiles, CutsByKeyAndPosition) {
  const items::Format format = format_of(GetParam());
  for (uint64_t trial = 0; trial < trials(8); ++trial) {
    SCOPED_TRACE(trial);
    Random random(trial * 17 + 3);
    const bool descending = random.below(2) == 0;
    const uint64_t keys = trial % 3 == 0 ? 1 : 1 + random.below(5000);
    Items items(random.below(20'000));
    for (auto& item : items) item = random_item(random, format, keys);
    // Each input has a stretch of the items; the last line may lack its end.
    std::vector<std::string> inputs(1 + random.below(4));
    std::vector<std::pair<std::string, uint64_t>> placed;
    uint64_t position = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      inputs[i * inputs.size() / items.size()] += items[i];
      placed.emplace_back(items[i], position);
      position += format.type == items::Type::rows ? 1 : items[i].size();
    }
    if (format.has_line_ends() && inputs.back().size() > 1 &&
        inputs.back()[inputs.back().size() - 2] != '\n')
      inputs.back().pop_back();
    const items::ItemOrder order(format, descending);
    auto before = [&](const auto& a, const auto& b) {
      const int keys_order = order.compare(a.first, b.first);
      return keys_order < 0 || (keys_order == 0 && a.second < b.second);
    };
    SliceFilesOptions slices{.slice_bytes = 1 + random.below(30'000)};
    std::vector<std::pair<std::string, uint64_t>> cuts;
    for (uint64_t n = random.below(40); n > 0 && !placed.empty(); --n)
      cuts.push_back(placed[random.below(placed.size())]);
    std::ranges::sort(cuts, before);
    for (const auto& [item, at] : cuts) slices.cuts.push_back({item, at});
    for (size_t part = 0; part <= cuts.size(); ++part)
      slices.wanted.push_back(random.below(8) != 0);
    const Sliced run = slice(format, inputs, slices, descending, 64 * MiB);
    ASSERT_TRUE(run.result.has_value()) << run.result.error().message();
    std::vector<Items> expected(cuts.size() + 1);
    for (const auto& item : placed) {
      const auto cut = std::ranges::upper_bound(cuts, item, before);
      expected[static_cast<size_t>(cut - cuts.begin())].push_back(item.first);
    }
    uint64_t bytes = 0;
    for (uint32_t part = 0; part < expected.size(); ++part) {
      std::string text;
      for (const std::string& item : expected[part]) text += item;
      EXPECT_EQ(part_of(run, part), slices.wanted[part] ? text : "") << part;
      EXPECT_EQ(run.result->parts[part].items, expected[part].size());
      EXPECT_EQ(run.result->parts[part].bytes, text.size());
      EXPECT_EQ(run.result->parts[part].checksum, checksum_of(format, text));
      bytes += slices.wanted[part] ? text.size() : 0;
    }
    EXPECT_EQ(run.file.size(), bytes);
  }
}

TEST_P(SliceFiles, ByHashGoWhereAPartitionPutsThem) {
  const items::Format format = format_of(GetParam());
  Random random(5);
  Items items(5000);
  std::string input;
  for (auto& item : items) input += item = random_item(random, format, 300);
  const Sliced run = slice(format, {input}, {.parts = 7}, false, 64 * MiB);
  ASSERT_TRUE(run.result.has_value()) << run.result.error().message();
  std::vector<std::string> expected(7);
  std::string room;
  const items::ItemOrder order(format);
  for (const std::string& item : items)
    expected[part_of_hash(order.key(items::without_line_end(format, item), room), 7)] += item;
  for (uint32_t part = 0; part < 7; ++part) EXPECT_EQ(part_of(run, part), expected[part]);
}

INSTANTIATE_TEST_SUITE_P(Formats, SliceFiles,
                         testing::Values(Case{"u32", 0, ""}, Case{"i64", 0, ""}, Case{"f64", 0, ""},
                                         Case{"kv64", 0, ""}, Case{"record", 100, "3:9"},
                                         Case{"record", 11, "0:2"}, Case{"lines", 0, ""},
                                         Case{"rows", 0, ""}),
                         [](const auto& each) {
                           return fmt::format("{}{}", each.param.name, each.param.record_bytes);
                         });

TEST(SliceFilesLimits, ABatchGrowsForALongLineAndOneThatDoesNotFitIsAnError) {
  const items::Format format = format_of({"lines", 0, ""});
  const std::string line = std::string(20 * MiB, 'x') + '\n';
  const Sliced run = slice(format, {"b\n" + line + "a\n"}, {.cuts = {{"b", 0}}}, false, 128 * MiB);
  ASSERT_TRUE(run.result.has_value()) << run.result.error().message();
  EXPECT_EQ(part_of(run, 0), "a\n");
  EXPECT_EQ(part_of(run, 1), "b\n" + line);
  const Sliced none = slice(format, {line}, {.parts = 2}, false, 32 * MiB);
  ASSERT_FALSE(none.result.has_value());
  EXPECT_EQ(none.result.error().code, ErrorCode::out_of_memory);
}

TEST(SliceFilesLimits, AnInputWithAPartOfAnItemIsAnError) {
  const Sliced run =
      slice(format_of({"u64", 0, ""}), {"12345678", "1234567"}, {.parts = 2}, false, 64 * MiB);
  ASSERT_FALSE(run.result.has_value());
  EXPECT_EQ(run.result.error().code, ErrorCode::corrupt);
}

TEST(SliceFilesLimits, CutsThatAreNotInOrderAreRefused) {
  const Sliced run =
      slice(format_of({"lines", 0, ""}), {"a\n"}, {.cuts = {{"b", 0}, {"a", 0}}}, false, 64 * MiB);
  ASSERT_FALSE(run.result.has_value());
  EXPECT_EQ(run.result.error().code, ErrorCode::unsorted);
}

}  // namespace
}  // namespace penstock::files
