#include "files/bowtie/computations.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "files/bowtie/device_profile.h"
#include "files/bowtie/planner.h"
#include "io/whole_file_fixture.h"
#include "items/keys/text/text_order.h"
#include "penstock/base.h"

namespace penstock::bowtie {
namespace {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

struct Format {
  const char* name;
  uint32_t record_bytes;
  const char* key;
  const char* text_key = nullptr;  // makes a key for each line
  bool csv = false;
};
constexpr Format formats[] = {{"u64", 0, ""},
                              {"i32", 0, ""},
                              {"f64", 0, ""},
                              {"kv64", 0, ""},
                              {"record", 100, "3:10"},
                              {"record", 13, "0:4"},
                              {"lines", 0, ""},
                              {"lines", 0, "", "1.2,1.3"},
                              {"lines", 0, "", nullptr, true}};

items::Format format_of(const Format& named) {
  items::Format format = *items::parse_format(named.name, named.record_bytes, named.key);
  if (named.text_key != nullptr)
    format.keys = *items::TextOrder::make({.keys = {named.text_key}, .stable = true});
  if (named.csv) format.csv = ',';
  return format;
}

// Few distinct keys, so that there are ties.
std::vector<items::ItemKey> keys_of(const items::ItemOrder& order,
                                    const std::vector<std::string>& items) {
  std::vector<items::ItemKey> keys;
  for (const std::string& item : items) keys.push_back(order.item_key(item));
  return keys;
}

std::string random_item(Random& random, const items::Format& format) {
  if (!format.fixed()) {
    std::string line(random.below(4) == 0 ? random.below(300) : random.below(8), 'a');
    for (char& letter : line) letter = static_cast<char>('a' + random.below(3));
    return line + '\n';
  }
  std::string item(format.record_bytes, 0);
  for (char& byte : item) byte = static_cast<char>(random.below(3));
  if (format.type == items::Type::f64) {
    const double value = static_cast<double>(random.below(100)) - 50;
    std::memcpy(item.data(), &value, sizeof value);
  }
  return item;
}

std::string joined(const std::vector<std::string>& items) {
  std::string all;
  for (const std::string& item : items) all += item;
  return all;
}

RunOptions small() {
  return {.memory_bytes = 2 * MiB, .block_bytes = 4096};
}

TEST(Merge, IsAStableSortOfItsInputs) {
  for (const Format& named : formats) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      if (!tried()) continue;
      SCOPED_TRACE(fmt::format("{} {} seed {}", named.name, named.record_bytes, seed));
      Random random(seed);
      const items::Format format = format_of(named);
      const MergeOptions options{.descending = seed % 2 == 0, .unique = seed % 3 == 0};
      const items::ItemOrder order(format, options.descending);
      auto before = [&](const std::string& a, const std::string& b) {
        return order.compare(a, b) < 0;
      };
      const TemporaryFolder folder;
      std::vector<Input> inputs;
      std::vector<std::string> all;
      const uint64_t files = 1 + random.below(20);
      for (uint64_t i = 0; i < files; ++i) {
        std::vector<std::string> items(random.below(4) == 0 ? 0 : random.below(2000));
        for (std::string& item : items) item = random_item(random, format);
        std::stable_sort(items.begin(), items.end(), before);
        all.insert(all.end(), items.begin(), items.end());
        std::string text = joined(items);
        // The last line of a file may lack its newline.
        if (!format.fixed() && !items.empty() && items.back().size() > 1 && random.below(2) == 0)
          text.pop_back();
        write_file(folder / fmt::format("{}", i), text);
        inputs.push_back({.path = folder / fmt::format("{}", i)});
      }
      std::stable_sort(all.begin(), all.end(), before);
      if (options.unique) {
        all.erase(std::unique(all.begin(), all.end(),
                              [&](const std::string& a, const std::string& b) {
                                return order.compare(a, b) == 0;
                              }),
                  all.end());
      }
      const auto result = run(std::move(inputs), {{.path = folder / "out", .bytes_max = 64 * MiB}},
                              merge(format, options), small());
      ASSERT_TRUE(result.has_value()) << result.error().message();
      ASSERT_TRUE(io::read_whole(folder / "out") == joined(all));
    }
  }
}

// Numbers are merged in batches if windows are large compared with the number of inputs, and item
// by item otherwise. The result is the same.
TEST(Merge, NumbersAreSortedStablyForAnyWindowSize) {
  enum class Keys { any, few, close, one };
  for (const char* name : {"u32", "i32", "f32", "u64", "i64", "f64", "kv64"}) {
    for (const Keys keys : {Keys::any, Keys::few, Keys::close, Keys::one}) {
      for (uint64_t seed = 1; seed <= 2; ++seed) {
        if (!tried()) continue;
        SCOPED_TRACE(fmt::format("{} keys {} seed {}", name, static_cast<int>(keys), seed));
        Random random(seed + 10 * static_cast<uint64_t>(keys));
        const items::Format format = *items::parse_format(name);
        MergeOptions options{.descending = random.below(2) == 0, .unique = random.below(3) == 0};
        const items::ItemOrder order(format, options.descending);
        const TemporaryFolder folder;
        std::vector<Input> inputs;
        std::vector<std::string> all;
        const uint64_t files = 1 + random.below(random.below(2) == 0 ? 5 : 70);
        auto before = [&](const std::string& a, const std::string& b) {
          return order.compare(a, b) < 0;
        };
        for (uint64_t i = 0; i < files; ++i) {
          std::vector<std::string> items(random.below(4) == 0 ? random.below(3)
                                                              : random.below(60'000 / files));
          for (uint64_t k = 0; k < items.size(); ++k) {
            // Random bits, among them NaNs of either sign.
            uint64_t key = random.next();
            if (keys == Keys::few) key = key % 7 * 0x1000000010000000;
            if (keys == Keys::close) key = random.below(1000) + i * 300;
            if (keys == Keys::one) key = 42;
            items[k].assign(format.record_bytes, 0);
            std::memcpy(items[k].data(), &key, format.key_bytes);
            const uint64_t value = i << 32 | k;
            if (format.record_bytes > 8) std::memcpy(items[k].data() + 8, &value, sizeof value);
          }
          std::stable_sort(items.begin(), items.end(), before);
          all.insert(all.end(), items.begin(), items.end());
          write_file(folder / fmt::format("{}", i), joined(items));
          inputs.push_back({.path = folder / fmt::format("{}", i)});
        }
        std::stable_sort(all.begin(), all.end(), before);
        if (options.unique) {
          auto same = [&](const std::string& a, const std::string& b) {
            return order.compare(a, b) == 0;
          };
          all.erase(std::unique(all.begin(), all.end(), same), all.end());
        }
        if (random.below(3) == 0) {
          options.items_max = random.below(all.size() + 10);
          all.resize(std::min<uint64_t>(all.size(), options.items_max));
        }
        uint64_t items = 0;
        options.items = &items;
        const size_t block_bytes = size_t{4096} << 3 * random.below(3);
        const auto result =
            run(std::move(inputs), {{.path = folder / "out", .bytes_max = 64 * MiB}},
                merge(format, options),
                {.memory_bytes = 2 * MiB + (files + 1) * 2 * block_bytes,
                 .block_bytes = block_bytes,
                 .comeback_blocks = 0});
        ASSERT_TRUE(result.has_value()) << result.error().message();
        EXPECT_EQ(items, all.size());
        ASSERT_TRUE(io::read_whole(folder / "out") == joined(all));
      }
    }
  }
}

// The disorder is found wherever in its blocks it is, unless items_max ends the merge before.
TEST(Merge, ReportsTheUnsortedInputOfNumbers) {
  Random random(5);
  const items::Format format = *items::parse_format("u64");
  for (uint64_t round = 0; round < trials(16); ++round) {
    const TemporaryFolder folder;
    const uint64_t files =
        1 + random.below(100);  // so many that some of these are merged by a tree
    const uint64_t count = 2 + random.below(2000);
    const uint64_t wrong_file = random.below(files);
    const uint64_t wrong = 1 + random.below(count - 1);
    std::vector<Input> inputs;
    for (uint64_t i = 0; i < files; ++i) {
      std::vector<uint64_t> keys(count);
      for (uint64_t k = 0; k < count; ++k) keys[k] = (k + 1) * files + i;
      if (i == wrong_file) keys[wrong] = keys[wrong - 1] - 1;
      write_file(folder / fmt::format("{}", i),
                 {reinterpret_cast<const char*>(keys.data()), count * sizeof(uint64_t)});
      inputs.push_back({.path = folder / fmt::format("{}", i)});
    }
    // The number of items in order, up to the one in front of the wrong one.
    const uint64_t fine = wrong * files - files + wrong_file + 1;
    for (const uint64_t items_max : {fine, fine + 1}) {
      const auto result = run(inputs, {{.path = folder / "out", .bytes_max = 64 * MiB}},
                              merge(format, {.items_max = items_max}),
                              {.memory_bytes = 4 * MiB, .block_bytes = 4096, .comeback_blocks = 0});
      if (items_max == fine) {
        ASSERT_TRUE(result.has_value()) << result.error().message();
        EXPECT_EQ(result->output_bytes[0], fine * sizeof(uint64_t));
      } else {
        ASSERT_FALSE(result.has_value());
        EXPECT_EQ(result.error().code, ErrorCode::unsorted);
        EXPECT_EQ(result.error().subject, fmt::format("input {}", wrong_file));
      }
    }
  }
}

TEST(Merge, SaysWhichInputIsNotSorted) {
  const TemporaryFolder folder;
  write_file(folder / "a", "a\nb\n");
  write_file(folder / "b", "b\na\n");
  const auto result =
      run({{.path = folder / "a"}, {.path = folder / "b"}}, {{.path = folder / "out"}},
          merge(*items::parse_format("lines")), small());
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::unsorted);
  EXPECT_EQ(result.error().subject, "input 1");
}

TEST(Merge, RefusesHalfAnItemAndALineLongerThanAWindow) {
  const TemporaryFolder folder;
  write_file(folder / "half", std::string(12, 'x'));
  write_file(folder / "long", std::string(100'000, 'x'));
  for (auto [name, format, code] : {std::tuple{"half", "u64", ErrorCode::corrupt},
                                    {"long", "lines", ErrorCode::out_of_memory}}) {
    const auto result = run({{.path = folder / name}}, {{.path = folder / "out"}},
                            merge(*items::parse_format(format)), small());
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, code);
  }
}

// Blocks have 4096 bytes, and a window has one block; the line may begin at any offset.
TEST(Lines, AreReadUpToTheSizeOfAWindowAtAnyOffset) {
  Random random(11);
  const auto lines = *items::parse_format("lines");
  for (int round = 0; round < 60; ++round) {
    const TemporaryFolder folder;
    const bool too_long = round % 2 == 1;
    std::vector<size_t> lengths(random.below(40));
    for (size_t& length : lengths) length = random.below(300);
    std::ranges::sort(lengths);
    std::string text;
    for (size_t length : lengths) text += std::string(length, 'a') + '\n';
    text += std::string(4095 + (too_long ? 1 : 0), 'b') + '\n';
    if (random.below(2) == 0) text += "c\n";
    write_file(folder / "in", text);
    const RunOptions options{.memory_bytes = 2 * MiB, .block_bytes = 4096};
    const auto to_first = [](const Items& items, uint32_t* outputs) {
      std::fill_n(outputs, items.size(), 0);
    };
    const auto computation = random.below(2) == 0 ? merge(lines) : distribute(lines, to_first);
    const auto result =
        run({{.path = folder / "in"}}, {{.path = folder / "out"}}, computation, options);
    if (too_long) {
      ASSERT_FALSE(result.has_value()) << round;
      EXPECT_EQ(result.error().code, ErrorCode::out_of_memory);
    } else {
      ASSERT_TRUE(result.has_value()) << round << result.error().message();
      EXPECT_EQ(io::read_whole(folder / "out"), text);
    }
  }
}

TEST(Distribute, EachItemGoesWhereItBelongs) {
  for (const Format& named : formats) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(fmt::format("{} {} seed {}", named.name, named.record_bytes, seed));
      Random random(seed);
      const items::Format format = format_of(named);
      const items::ItemOrder order(format);
      std::vector<std::string> items(3000);
      for (std::string& item : items) item = random_item(random, format);
      const TemporaryFolder folder;
      write_file(folder / "in", joined(items));
      ToOutput to;
      uint32_t outputs = 0;
      if (seed % 2 == 0) {
        std::vector<std::string> bounds;
        for (int k = 0; k < 6; ++k) bounds.push_back(items[random.below(items.size())]);
        std::sort(bounds.begin(), bounds.end(), [&](const std::string& a, const std::string& b) {
          return order.compare(a, b) < 0;
        });
        to = by_range({order, keys_of(order, bounds)});
        outputs = 7;
      } else {
        // The last 3 bits of the first byte, in which the keys differ.
        outputs = 8;
        to = by_key_bits(format, 5, 3);
      }
      std::vector<std::string> expected(outputs);
      for (const std::string& item : items) {
        uint32_t target = 0;
        const std::string_view view = item;
        to(format.fixed() ? Items(reinterpret_cast<const std::byte*>(item.data()), item.size(), 1)
                          : Items(std::span(&view, 1)),
           &target);
        ASSERT_LT(target, outputs);
        expected[target] += item;
      }
      std::vector<Output> files;
      for (uint32_t j = 0; j < outputs; ++j)
        files.push_back({.path = folder / fmt::format("out{}", j)});
      const auto result =
          run({{.path = folder / "in"}}, std::move(files), distribute(format, to), small());
      ASSERT_TRUE(result.has_value()) << result.error().message();
      for (uint32_t j = 0; j < outputs; ++j)
        ASSERT_TRUE(io::read_whole(folder / fmt::format("out{}", j)) == expected[j]) << j;
    }
  }
}

TEST(Distribute, AnItemsRangeIsTheNumberOfBoundsThatAreNotAfterIt) {
  for (const bool descending : {false, true}) {
    Random random(descending ? 21 : 22);
    const items::ItemOrder order(*items::parse_format("lines"), descending);
    // Many lines share their first eight bytes, and many are equal.
    auto line = [&] {
      return (random.below(3) == 0 ? "" : "the same beginning ") +
             std::to_string(random.below(40)) + '\n';
    };
    auto is_before = [&](const std::string& a, const std::string& b) {
      return order.compare(a, b) < 0;
    };
    for (size_t count : {0, 1, 7, 100}) {
      std::vector<std::string> bounds(count);
      for (std::string& bound : bounds) bound = line();
      std::ranges::sort(bounds, is_before);
      const ToOutput to = by_range({order, keys_of(order, bounds)});
      for (int k = 0; k < 300; ++k) {
        const std::string item = line();
        const std::string_view view = item;
        uint32_t range = 0;
        to(Items(std::span(&view, 1)), &range);
        EXPECT_EQ(range, std::ranges::count_if(
                             bounds, [&](const std::string& b) { return !is_before(item, b); }));
      }
    }
  }
}

TEST(Distribute, RangesAreInOrder) {
  const items::Format format = *items::parse_format("u64");
  auto text = [](uint64_t value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  const items::ItemOrder order(format);
  const ToOutput to = by_range({order, keys_of(order, {text(10), text(10), text(20)})});
  const uint64_t keys[] = {0, 9, 10, 19, 20, 99};
  uint32_t targets[6];
  to(Items(reinterpret_cast<const std::byte*>(keys), 8, 6), targets);
  EXPECT_EQ(std::vector<uint32_t>(targets, targets + 6), (std::vector<uint32_t>{0, 0, 2, 2, 3, 3}));
}

TEST(Distribute, AnOutputThatIsNotThereIsAnError) {
  const TemporaryFolder folder;
  write_file(folder / "in", std::string(80, 'x'));
  const auto result =
      run({{.path = folder / "in"}}, {{.path = folder / "out"}},
          distribute(*items::parse_format("u64"),
                     [](const Items& items, uint32_t* to) { std::fill_n(to, items.size(), 1u); }),
          small());
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
}

// ---- Plans.

Result<std::unique_ptr<io::File>> temporary_in(const std::string& directory) {
  auto file = io::File::create_temporary(directory);
  if (!file) return std::unexpected(file.error());
  return std::make_unique<io::File>(std::move(*file));
}

TEST(RunPlan, MergesInSeveralPassesAsInOne) {
  for (const std::vector<uint32_t>& factors :
       {std::vector<uint32_t>{}, std::vector<uint32_t>{4}, {3, 3}, {2, 2, 2}}) {
    Random random(factors.size() + 1);
    const items::Format format = *items::parse_format("kv64");
    const TemporaryFolder folder;
    std::vector<Input> inputs;
    std::vector<std::string> all;
    constexpr uint32_t files = 29;
    for (uint64_t i = 0; i < files; ++i) {
      std::vector<std::string> items(random.below(1000));
      for (std::string& item : items) item = random_item(random, format);
      const items::ItemOrder order(format);
      auto before = [&](const std::string& a, const std::string& b) {
        return order.compare(a, b) < 0;
      };
      std::stable_sort(items.begin(), items.end(), before);
      all.insert(all.end(), items.begin(), items.end());
      write_file(folder / fmt::format("{}", i), joined(items));
      inputs.push_back({.path = folder / fmt::format("{}", i)});
    }
    const items::ItemOrder order(format);
    std::stable_sort(all.begin(), all.end(), [&](const std::string& a, const std::string& b) {
      return order.compare(a, b) < 0;
    });
    const Plan plan = plan_with_factors({.inputs = files,
                                         .outputs = 1,
                                         .bytes = 1e6,
                                         .memory_bytes = 2 * MiB,
                                         .device = &paper_array()},
                                        factors, {});
    const auto result =
        run_plan(plan, std::move(inputs), {.path = folder / "out"}, merge(format),
                 {.run = small(), .temporary = [&] { return temporary_in(folder.path()); }});
    ASSERT_TRUE(result.has_value()) << result.error().message();
    ASSERT_TRUE(io::read_whole(folder / "out") == joined(all)) << plan.factors();
    EXPECT_EQ(result->output_bytes, joined(all).size());
    EXPECT_EQ(result->temporary_bytes, joined(all).size() * (plan.passes.size() - 1));
  }
}

TEST(RunPlan, IsForTheFilesThatItWasMadeFor) {
  const TemporaryFolder folder;
  const Plan plan = plan_with_factors(
      {.inputs = 16, .outputs = 1, .bytes = 1e6, .memory_bytes = 2 * MiB, .device = &paper_array()},
      {4}, {});
  const std::vector<Input> inputs(15, {.path = folder / "in"});
  const auto result = run_plan(plan, inputs, {.path = folder / "out"},
                               merge(*items::parse_format("u64")), {.run = small()});
  ASSERT_FALSE(result.has_value());
  EXPECT_EQ(result.error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock::bowtie
