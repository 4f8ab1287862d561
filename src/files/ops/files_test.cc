// Test labels: loops

// Merging, partitioning, grouping and joining of files against plain models.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "files/bowtie/computations.h"
#include "files/ops/check/check_input.h"
#include "files/ops/group/group_files.h"
#include "files/ops/join/join_files.h"
#include "files/ops/merge/merge_files.h"
#include "files/ops/partition/partition_files.h"
#include "files/run/memory_plan.h"
#include "io/engine.h"
#include "io/file.h"
#include "io/whole_file_fixture.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "test/support/injection.h"

namespace penstock::files {
namespace {

using Items = std::vector<std::string>;

// The least budget that works beside the memory that the process has already.
uint64_t least_memory_bytes() {
  // A 32nd of a budget is reserved.
  const uint64_t needed_bytes = os::resident_memory().bytes + 28 * MiB;
  return std::max<uint64_t>(files_memory_bytes_min, needed_bytes + needed_bytes / 31);
}

struct Folder : TemporaryFolder {
  Folder() { std::filesystem::create_directory(temporaries()); }
  std::string temporaries() const { return *this / "temporaries"; }
};

items::Format format_of(const std::string& name, uint32_t record_bytes = 0,
                        const std::string& key = "") {
  auto format = items::parse_format(name, record_bytes, key);
  EXPECT_TRUE(format.has_value());
  return *format;
}

std::vector<items::Format> all_formats() {
  std::vector<items::Format> formats;
  for (const char* name : {"u32", "u64", "i32", "i64", "f32", "f64", "kv64", "lines"})
    formats.push_back(format_of(name));
  formats.push_back(format_of("record", 24, "4:9"));
  formats.push_back(format_of("record", 16, "0:16"));
  return formats;
}

// A random item with one of `keys` keys.
std::string random_item(Random& random, const items::Format& format, uint64_t keys) {
  const uint64_t key = mix64(random.below(keys));
  if (!format.fixed()) {
    std::string line = key % 16 == 0 ? "" : fmt::format("{:x}", key).substr(0, 1 + key % 13);
    if (key % 7 == 0) line += std::string("\0\x01z", 3);
    return line + '\n';
  }
  std::string item(format.record_bytes, '\0');
  for (char& byte : item) byte = static_cast<char>(random.next());
  for (uint32_t i = 0; i < format.key_bytes; ++i)
    item[format.key_offset + i] = static_cast<char>(mix64(key + i / 8) >> (8 * (i % 8)));
  // The bits of floats may be NaNs of either sign, which have an order, too.
  return item;
}

void write_items(const std::string& path, const Items& items, bool newline_at_end = true) {
  std::ofstream file(path, std::ios::binary);
  std::string text;
  for (const std::string& item : items) text += item;
  if (!newline_at_end && text.ends_with('\n')) text.pop_back();
  file << text;
}

std::string read_all(const std::string& path) {
  EXPECT_TRUE(std::filesystem::exists(path)) << path;
  return io::read_whole(path);
}

Items read_items(const std::string& path, const items::Format& format) {
  const std::string text = read_all(path);
  Items items;
  for (size_t at = 0; at < text.size();) {
    size_t bytes = format.record_bytes;
    if (!format.fixed()) bytes = std::min(text.find('\n', at), text.size() - 1) + 1 - at;
    items.push_back(text.substr(at, bytes));
    at += bytes;
  }
  return items;
}

void sort_items(Items& items, const items::Format& format, bool descending = false) {
  const items::ItemOrder order(format, descending);
  std::ranges::stable_sort(items,
                           [&](const auto& a, const auto& b) { return order.compare(a, b) < 0; });
}

std::string key_of(const items::Format& format, const std::string& item) {
  if (format.fixed()) return item.substr(format.key_offset, format.key_bytes);
  return item.substr(0, item.size() - 1);
}

template <class T>
void append_bytes(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string joined(const Items& items) {
  std::string text;
  for (const std::string& item : items) text += item;
  return text;
}

FilesOptions files_options(const Folder& folder, const items::Format& format,
                           std::vector<std::string> inputs, const std::string& output = "out") {
  return {{.inputs = std::move(inputs),
           .output = folder / output,
           .memory_bytes = least_memory_bytes(),
           .temp_directories = {folder.temporaries()}},
          format};
}

struct Injected {
  explicit Injected(const io::Injection& injection) { io::inject(injection); }
  ~Injected() { io::inject({}); }
};

// Random inputs in several files, some of them empty, and all their items in order.
struct Inputs {
  std::vector<std::string> paths;
  std::vector<Items> items;
  Items all() const {
    Items result;
    for (const Items& each : items) result.insert(result.end(), each.begin(), each.end());
    return result;
  }
};

Inputs random_inputs(Random& random, const Folder& folder, const items::Format& format,
                     size_t files, size_t items_max, uint64_t keys, bool sorted,
                     bool descending = false) {
  Inputs inputs;
  for (size_t i = 0; i < files; ++i) {
    Items items(random.below(4) == 0 ? 0 : random.below(items_max));
    for (std::string& item : items) item = random_item(random, format, keys);
    if (sorted) sort_items(items, format, descending);
    // The last line may lack its newline unless it is empty: then there would be no line.
    const bool newline =
        format.fixed() || items.empty() || items.back().size() < 2 || random.below(2) == 0;
    inputs.paths.push_back(folder / fmt::format("in{}", i));
    write_items(inputs.paths.back(), items, newline);
    inputs.items.push_back(std::move(items));
  }
  return inputs;
}

// ---- Merge.

TEST(MergeFiles, EqualsAStableSort) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const items::Format& format : all_formats()) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, items::name_of(format.type)));
      Random random(seed * 100 + static_cast<uint64_t>(format.type));
      const Folder folder;
      const bool descending = random.below(2) == 0;
      const bool unique = random.below(3) == 0;
      const Inputs inputs =
          random_inputs(random, folder, format, 1 + random.below(9), 1 + random.below(800),
                        1 + random.below(500), true, descending);
      MergeFilesOptions options{files_options(folder, format, inputs.paths)};
      options.descending = descending;
      options.unique = unique;
      const auto done = merge_files(options);
      ASSERT_TRUE(done.has_value()) << done.error().message();
      Items expected = inputs.all();
      sort_items(expected, format, descending);
      if (unique) {
        expected.erase(std::unique(expected.begin(), expected.end(),
                                   [&](const auto& a, const auto& b) {
                                     return key_of(format, a) == key_of(format, b);
                                   }),
                       expected.end());
      }
      ASSERT_EQ(read_all(folder / "out"), joined(expected));
    }
  }
}

TEST(MergeFiles, ThousandsOfTinyFilesTakeSeveralPasses) {
  Random random(7);
  const Folder folder;
  const items::Format format = format_of("lines");
  const Inputs inputs = random_inputs(random, folder, format, 1500, 6, 100'000, true);
  const auto done = merge_files({files_options(folder, format, inputs.paths)});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_GT(done->passes, 1u);
  Items expected = inputs.all();
  sort_items(expected, format);
  EXPECT_EQ(read_all(folder / "out"), joined(expected));
  EXPECT_EQ(done->items, expected.size());
  // All bytes went to temporaries between two passes.
  EXPECT_EQ(done->bytes, joined(expected).size());
  EXPECT_EQ(done->temp_bytes, (done->passes - 1) * done->bytes);
}

TEST(MergeFiles, ReportsTheItemOfAnUnsortedInputAndLeavesNothing) {
  const Folder folder;
  const items::Format format = format_of("lines");
  write_items(folder / "a", {"a\n", "c\n"});
  write_items(folder / "b", {"a\n", "d\n", "b\n"});
  const auto done = merge_files({files_options(folder, format, {folder / "a", folder / "b"})});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::unsorted);
  EXPECT_EQ(done.error().subject, folder / "b");
  EXPECT_NE(done.error().attempted.find("line 3"), std::string::npos) << done.error().message();
  EXPECT_EQ(folder.files(), 2u);
}

// The number of an input means nothing in one of many merges.
TEST(MergeFiles, ReportsTheUnsortedFileAmongMany) {
  Random random(8);
  const Folder folder;
  const items::Format format = format_of("lines");
  const Inputs inputs = random_inputs(random, folder, format, 700, 6, 100'000, true);
  write_items(folder / "in600", {"b\n", "a\n"});
  const auto done = merge_files({files_options(folder, format, inputs.paths)});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::unsorted);
  EXPECT_EQ(done.error().subject, folder / "in600");
  EXPECT_NE(done.error().attempted.find("line 2"), std::string::npos) << done.error().message();
  EXPECT_EQ(folder.files(), 700u);
}

TEST(MergeFiles, TopIgnoresDisorderBehindTheFirstItems) {
  const Folder folder;
  write_items(folder / "a", {"a\n", "c\n", "b\n"});
  write_items(folder / "b", {"d\n"});
  for (const bool both : {false, true}) {
    MergeFilesOptions options{files_options(folder, format_of("lines"), {folder / "a"})};
    options.top = 2;
    if (both) options.inputs.push_back(folder / "b");
    const auto done = merge_files(options);
    ASSERT_TRUE(done.has_value()) << done.error().message();
    EXPECT_EQ(read_all(folder / "out"), "a\nc\n");
    options.top = 3;
    EXPECT_FALSE(merge_files(options));
  }
}

TEST(MergeFiles, APlanReportsTheTemporariesBetweenItsPasses) {
  Random random(9);
  const Folder folder;
  const items::Format format = format_of("lines");
  const Inputs inputs = random_inputs(random, folder, format, 1500, 6, 100'000, true);
  MergeFilesOptions options{files_options(folder, format, inputs.paths)};
  const auto planned = plan_merge(options);
  ASSERT_TRUE(planned.has_value()) << planned.error().message();
  ASSERT_GT(planned->passes, 1u);
  const uint64_t most = std::min(2u, planned->passes - 1) * planned->input_bytes;
  EXPECT_GE(planned->temp_bytes, planned->input_bytes);
  EXPECT_LE(planned->temp_bytes, most + planned->input_bytes / 16);
  // The traffic of a merge with `top` is not known before.
  options.top = 5;
  const auto first = plan_merge(options);
  ASSERT_TRUE(first.has_value()) << first.error().message();
  EXPECT_EQ(first->bytes_read, 0u);
  EXPECT_EQ(first->seconds, 0.0);
}

TEST(MergeFiles, IsRefusedIfTheOutputHasNoRoom) {
  const Folder folder;
  const std::string in = folder / "in";
  write_items(in, {});
  const auto space = io::space_of(io::directory_of(in));
  ASSERT_TRUE(space.has_value());
  std::error_code error;
  std::filesystem::resize_file(in, round_up(space->free_bytes / 2 + 64 * GiB, MiB), error);
  if (error) GTEST_SKIP() << "no file here can be so large";
  MergeFilesOptions options{files_options(folder, format_of("u64"), {in, in})};
  for (const auto& refused : {plan_merge(options).error(), merge_files(options).error()})
    EXPECT_EQ(refused.code, ErrorCode::out_of_space) << refused.message();
  EXPECT_EQ(folder.files(), 1u);
  options.top = 5;
  EXPECT_TRUE(plan_merge(options));
}

TEST(MergeFiles, EmptyFilesMakeAnEmptyFile) {
  const Folder folder;
  write_items(folder / "a", {});
  const auto done =
      merge_files({files_options(folder, format_of("u64"), {folder / "a", folder / "a"})});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(read_all(folder / "out"), "");
}

TEST(MergeFiles, TheOutputMayBeAnInput) {
  const Folder folder;
  write_items(folder / "a", {"a\n", "c\n"});
  write_items(folder / "b", {"b\n"});
  const auto done =
      merge_files({files_options(folder, format_of("lines"), {folder / "a", folder / "b"}, "a")});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(read_all(folder / "a"), "a\nb\nc\n");
}

// ---- Partition.

TEST(PartitionFiles, EachPartHasItsItemsInTheOrderOfTheInputs) {
  for (uint64_t seed = 1; seed <= 1; ++seed) {
    for (const items::Format& format : all_formats()) {
      for (const PartitionBy by : {PartitionBy::hash, PartitionBy::range, PartitionBy::bits}) {
        SCOPED_TRACE(fmt::format("seed {}, {}, by {}", seed, items::name_of(format.type),
                                 static_cast<int>(by)));
        Random random(seed * 100 + static_cast<uint64_t>(format.type));
        const Folder folder;
        const Inputs inputs = random_inputs(random, folder, format, 1 + random.below(6),
                                            1 + random.below(2000), 1 + random.below(1000), false);
        const uint32_t parts = by == PartitionBy::bits
                                   ? 1u << random.below(6)
                                   : static_cast<uint32_t>(1 + random.below(40));
        const auto done =
            partition_files({.files = files_options(folder, format, inputs.paths, "part-{}"),
                             .by = by,
                             .parts = parts,
                             .checksums = true});
        ASSERT_TRUE(done.has_value()) << done.error().message();
        ASSERT_EQ(done->parts.size(), parts);
        // Each key goes to one part only, and for ranges and bits the parts are in order.
        const Items all = inputs.all();
        std::map<std::string, uint32_t> part_of;
        std::vector<Items> found;
        for (uint32_t j = 0; j < parts; ++j) {
          found.push_back(read_items(done->parts[j].path, format));
          ASSERT_EQ(found.back().size(), done->parts[j].items);
          ASSERT_EQ(joined(found.back()).size(), done->parts[j].bytes);
          for (const std::string& item : found.back()) {
            auto [at, fresh] = part_of.emplace(key_of(format, item), j);
            ASSERT_EQ(at->second, j);
          }
          const auto checked = check_input({{.inputs = {done->parts[j].path}}, format},
                                           {.check = {.format = format}});
          ASSERT_TRUE(checked.has_value());
          EXPECT_EQ(checked->checksum_hex(), done->parts[j].checksum);
        }
        std::vector<Items> expected(parts);
        for (const std::string& item : all)
          expected[part_of.at(key_of(format, item))].push_back(item);
        ASSERT_EQ(found, expected);
        if (by == PartitionBy::hash) continue;
        Items concatenated;
        for (Items& part : found) {
          sort_items(part, format);
          concatenated.insert(concatenated.end(), part.begin(), part.end());
        }
        Items sorted = all;
        sort_items(sorted, format);
        for (size_t i = 0; i < sorted.size(); ++i)
          ASSERT_EQ(key_of(format, concatenated[i]), key_of(format, sorted[i])) << i;
      }
    }
  }
}

// A stream of lines needs the most memory: these parts take two passes, these inputs several
// batches.
TEST(PartitionFiles, ManyPartsAndInputsWithLittleMemory) {
  Random random(11);
  const Folder folder;
  const items::Format format = format_of("lines");
  const Inputs inputs = random_inputs(random, folder, format, 300, 20, ~0ull, false);
  const auto done =
      partition_files({.files = files_options(folder, format, inputs.paths, "part-{}"),
                       .by = PartitionBy::bits,
                       .parts = 256});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  std::vector<Items> expected(256);
  for (const std::string& item : inputs.all()) {
    const auto first = item == "\n" ? 0 : static_cast<unsigned char>(item[0]);
    expected[first].push_back(item);
  }
  for (uint32_t j = 0; j < 256; ++j)
    ASSERT_EQ(read_all(done->parts[j].path), joined(expected[j])) << j;
  EXPECT_GT(done->stats.passes, 1u);
  EXPECT_EQ(done->parts[7].path, folder / "part-007");
}

TEST(PartitionFiles, SampledRangesAreOfEqualSizes) {
  Random random(13);
  const Folder folder;
  const items::Format format = format_of("u64");
  Items items(400'000);
  for (std::string& item : items) item = random_item(random, format, ~0ull);
  write_items(folder / "in", items);
  const auto done =
      partition_files({.files = files_options(folder, format, {folder / "in"}, "part-{}"),
                       .by = PartitionBy::range,
                       .parts = 10});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  for (const FilePart& part : done->parts) {
    EXPECT_GT(part.items, 30'000u);
    EXPECT_LT(part.items, 50'000u);
  }
}

TEST(PartitionFiles, UsesTheBoundsOfAFile) {
  const Folder folder;
  const items::Format format = format_of("lines");
  write_items(folder / "in", {"b\n", "a\n", "c\n", "bb\n", "z\n"});
  write_items(folder / "bounds", {"b\n", "c\n"});
  PartitionFilesOptions options{.files = files_options(folder, format, {folder / "in"}, "part-{}"),
                                .by = PartitionBy::range,
                                .bounds_path = folder / "bounds"};
  const auto done = partition_files(options);
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_EQ(read_all(folder / "part-0"), "a\n");
  EXPECT_EQ(read_all(folder / "part-1"), "b\nbb\n");
  EXPECT_EQ(read_all(folder / "part-2"), "c\nz\n");
  write_items(folder / "bounds", {"c\n", "b\n"});
  EXPECT_EQ(partition_files(options).error().code, ErrorCode::unsorted);
  write_items(folder / "bounds", {"b\n"});
  options.parts = 3;
  EXPECT_EQ(partition_files(options).error().code, ErrorCode::invalid_argument);
}

// A changed hash would not find the parts of earlier partitions. Another program computed the
// numbers from docs/files.md.
TEST(PartitionFiles, TheHashNeverChanges) {
  const Folder folder;
  auto part_of = [&](const items::Format& format, const std::string& item) -> int {
    write_items(folder / "in", {item});
    const auto done = partition_files(
        {.files = files_options(folder, format, {folder / "in"}, "part-{}"), .parts = 100});
    if (!done) return -1;
    for (int j = 0; j < 100; ++j) {
      if (done->parts[static_cast<size_t>(j)].items == 1) return j;
    }
    return -2;
  };
  std::string number;
  append_bytes(number, uint64_t{42});
  EXPECT_EQ(part_of(format_of("u64"), number), 95);
  EXPECT_EQ(part_of(format_of("lines"), "penstock streams\n"), 93);
  EXPECT_EQ(part_of(format_of("lines"), "\n"), 88);
}

TEST(PartitionFiles, ErrorsLeaveNoFilesBehind) {
  Random random(17);
  const Folder folder;
  const items::Format format = format_of("u64");
  const Inputs inputs = random_inputs(random, folder, format, 3, 200'000, ~0ull, false);
  const size_t before = folder.files();
  for (const bool reading : {false, true}) {
    const Injected injected(
        {.error = reading ? EIO : ENOSPC,
         .error_after = 6,
         .error_operation = reading ? io::Operation::read : io::Operation::write});
    const auto done = partition_files(
        {.files = files_options(folder, format, inputs.paths, "part-{}"), .parts = 20});
    ASSERT_FALSE(done.has_value());
    EXPECT_EQ(done.error().code, reading ? ErrorCode::io : ErrorCode::out_of_space);
  }
  const auto missing = partition_files(
      {.files = files_options(folder, format, {folder / "none"}, "part-{}"), .parts = 20});
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
  EXPECT_EQ(folder.files(), before);
}

// ---- Group.

struct Sums {
  uint64_t count = 0;
  __int128_t sum = 0;
  uint64_t min = 0, max = 0;
  std::string first;
};

// The results of a plain map; their order is arbitrary unless sorted.
std::multiset<std::string> results_of(const Items& items, const items::Format& format,
                                      const Aggregates& wanted, uint32_t value_offset,
                                      uint32_t value_bytes, bool is_signed) {
  std::map<std::string, Sums> sums;
  for (const std::string& item : items) {
    Sums& of = sums[key_of(format, item)];
    uint64_t bits = 0;
    if (format.fixed()) std::memcpy(&bits, item.data() + value_offset, value_bytes);
    if (is_signed && value_bytes == 4)
      bits = static_cast<uint64_t>(int64_t{static_cast<int32_t>(bits)});
    const auto before = [&](uint64_t a, uint64_t b) {
      return is_signed ? static_cast<int64_t>(a) < static_cast<int64_t>(b) : a < b;
    };
    if (of.count++ == 0) {
      of.first = item;
      of.min = of.max = bits;
    }
    of.sum += is_signed ? __int128_t{static_cast<int64_t>(bits)} : __int128_t{bits};
    if (before(bits, of.min)) of.min = bits;
    if (before(of.max, bits)) of.max = bits;
  }
  std::multiset<std::string> results;
  for (const auto& [key, of] : sums) {
    std::string result;
    if (wanted.distinct) {
      result = of.first;
    } else if (!format.fixed()) {
      result = fmt::format("{}\t{}\n", of.count, key);
    } else {
      result = key;
      if (wanted.count) append_bytes(result, of.count);
      if (wanted.sum) append_bytes(result, static_cast<uint64_t>(of.sum));
      if (wanted.min) append_bytes(result, of.min);
      if (wanted.max) append_bytes(result, of.max);
    }
    results.insert(result);
  }
  return results;
}

items::Format result_format(const items::Format& format, const Aggregates& aggregates) {
  auto layout = GroupLayout::make(format, aggregates);
  EXPECT_TRUE(layout.has_value());
  return layout->result_format();
}

TEST(GroupFiles, EqualsAMap) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    for (const items::Format& format : all_formats()) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, items::name_of(format.type)));
      Random random(seed * 100 + static_cast<uint64_t>(format.type));
      const Folder folder;
      const Inputs inputs = random_inputs(random, folder, format, 1 + random.below(6),
                                          1 + random.below(3000), 1 + random.below(2000), false);
      Aggregates wanted;
      uint32_t offset = 0, bytes = 8;
      bool is_signed = false;
      const bool integers = format.type == items::Type::i32 || format.type == items::Type::i64 ||
                            format.type == items::Type::u32 || format.type == items::Type::u64;
      if (seed == 4) {
        wanted.distinct = true;
      } else if (integers && seed != 1) {
        bytes = format.record_bytes;
        is_signed = format.type == items::Type::i32 || format.type == items::Type::i64;
        // Sums of 64-bit numbers overflow; another test covers them.
        wanted = {.count = true, .sum = bytes == 4, .min = seed == 3, .max = true};
      } else if (format.type == items::Type::kv64) {
        offset = 8;
        wanted = {.count = seed == 2, .min = true, .max = seed == 3};
      } else if (format.type == items::Type::record && format.record_bytes == 24) {
        offset = 13, bytes = 4;
        is_signed = seed == 2;
        wanted = {.count = true,
                  .sum = true,
                  .min = true,
                  .max = seed == 1,
                  .value = ValueField{.offset = 13, .bytes = 4, .is_signed = is_signed}};
      } else {
        wanted.count = true;
      }
      const bool sorted = random.below(2) == 0;
      const auto done = group_files({.files = files_options(folder, format, inputs.paths),
                                     .aggregates = wanted,
                                     .sorted = sorted});
      ASSERT_TRUE(done.has_value()) << done.error().message();
      const auto expected = results_of(inputs.all(), format, wanted, offset, bytes, is_signed);
      const Items results = read_items(folder / "out", result_format(format, wanted));
      EXPECT_EQ(done->groups, expected.size());
      EXPECT_EQ(done->items, inputs.all().size());
      ASSERT_EQ(std::multiset<std::string>(results.begin(), results.end()), expected);
      if (!sorted) continue;
      Items in_order = results;
      if (format.fixed()) {
        sort_items(in_order, result_format(format, wanted));
      } else {
        std::ranges::sort(in_order, {}, [&](const std::string& line) {
          return wanted.count ? line.substr(line.find('\t') + 1, line.size() - line.find('\t') - 2)
                              : line.substr(0, line.size() - 1);
        });
      }
      EXPECT_EQ(results, in_order);
    }
  }
}

// More groups than fit, one giant key, and the least memory.
class LargeGroups : public testing::TestWithParam<std::tuple<std::string, bool, bool>> {};

TEST_P(LargeGroups, SpillAndComeBack) {
  const auto& [name, sorted, distinct] = GetParam();
  const items::Format format = format_of(name);
  const bool lines = name == "lines";
  const uint32_t items = lines ? 900'000 : 2'000'000;
  const uint32_t numbers = lines ? 900'000 : 1'300'000;
  // Key i is a multiple of an odd number, which has an inverse.
  constexpr uint64_t factor = 0x9e3779b97f4a7c15u;
  uint64_t inverse = 1;
  for (int i = 0; i < 6; ++i) inverse *= 2 - factor * inverse;
  Random random(23);
  const Folder folder;
  std::vector<uint32_t> counts(numbers);
  {
    std::string text;
    for (uint32_t k = 0; k < items; ++k) {
      // Half of the items have one key.
      const uint64_t i = random.below(2) == 0 ? 77 : random.below(numbers);
      if (lines) {
        fmt::format_to(std::back_inserter(text), "{:020} line\n", i * factor);
      } else {
        append_bytes(text, i * factor);
        append_bytes(text, distinct ? uint64_t{counts[i]} : uint64_t{1});
      }
      ++counts[i];
    }
    std::ofstream(folder / "in", std::ios::binary) << text;
  }
  const FilesOptions files = files_options(folder, format, {folder / "in"});
  os::reset_peak_resident_memory();
  const auto done = group_files({.files = files,
                                 .aggregates = {.count = !distinct && lines,
                                                .sum = !distinct && !lines,
                                                .distinct = distinct},
                                 .sorted = sorted});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  EXPECT_GT(done->buckets, 1u);
  EXPECT_EQ(done->items, items);
  // A sanitizer's own memory counts as the program's, and grows.
  if (!os::shadowed) {
    EXPECT_LE(done->peak_rss_bytes, files.memory_bytes);
  }
  EXPECT_EQ(folder.files(), 2u);

  const std::string found = read_all(folder / "out");
  uint64_t groups = 0;
  uint64_t before = 0;
  for (size_t at = 0; at < found.size(); ++groups) {
    uint64_t key = 0;
    uint64_t value = 0;
    if (lines) {
      const size_t end = found.find('\n', at);
      std::string_view line(found.data() + at, end - at);
      if (!distinct) {
        value = std::stoull(std::string(line));
        line.remove_prefix(line.find('\t') + 1);
      }
      key = std::stoull(std::string(line));
      at = end + 1;
    } else {
      std::memcpy(&key, found.data() + at, 8);
      std::memcpy(&value, found.data() + at + 8, 8);
      at += 16;
    }
    const uint64_t i = key * inverse;
    ASSERT_LT(i, numbers);
    ASSERT_NE(counts[i], 0u) << "once";
    // `distinct` keeps the very first item, which has number 0.
    ASSERT_EQ(value, distinct ? 0 : counts[i]);
    counts[i] = 0;
    if (sorted && groups > 0) {
      ASSERT_LT(before, key);
    }
    before = key;
  }
  EXPECT_EQ(done->groups, groups);
  EXPECT_EQ(std::ranges::count(counts, 0u), std::ranges::ssize(counts));
}

INSTANTIATE_TEST_SUITE_P(All, LargeGroups,
                         testing::Combine(testing::Values("kv64", "lines"), testing::Bool(),
                                          testing::Bool()));

// A tiny table: its buckets overflow soon.
// Windows of rounds span blocks, also if items, partials and results have one size that divides a
// block.
TEST(GroupFiles, RoundsOfItemsThatDivideABlockSpanBlocks) {
  const Folder folder;
  Random random(31);
  std::string text;
  for (int i = 0; i < 700'000; ++i) append_bytes(text, random.below(5000));
  text.resize(text.size() / 64 * 64);
  std::ofstream(folder / "in", std::ios::binary) << text;
  const Aggregates distinct = {.distinct = true};
  const Aggregates count = {.count = true};
  const std::tuple<const char*, uint32_t, const char*, Aggregates> cases[] = {
      {"kv64", 0, "", count},   {"kv64", 0, "", distinct},    {"u64", 0, "", distinct},
      {"u32", 0, "", distinct}, {"record", 16, "0:8", count}, {"record", 64, "0:8", distinct},
  };
  for (const auto& [name, record_bytes, key, aggregates] : cases) {
    SCOPED_TRACE(fmt::format("{} {}", name, record_bytes));
    const items::Format format = *items::parse_format(name, record_bytes, key);
    std::string results[2];
    for (const unsigned threads : {1u, 2u}) {
      FilesOptions files = files_options(folder, format, {folder / "in"});
      files.memory_bytes = 256 * MiB;
      const auto done = group_files(
          {.files = files, .aggregates = aggregates, .sorted = true, .threads = threads});
      ASSERT_TRUE(done.has_value()) << done.error().message();
      results[threads - 1] = read_all(folder / "out");
    }
    EXPECT_FALSE(results[0].empty());
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(GroupTable, HoldsAsManyPartialsAsItPromises) {
  for (const char* name : {"u64", "kv64", "lines"}) {
    const items::Format format = format_of(name);
    auto layout = GroupLayout::make(format, {.count = true});
    ASSERT_TRUE(layout.has_value());
    auto table = GroupTable::open(*layout, 256 * KiB);
    ASSERT_TRUE(table.has_value());
    uint64_t items = 0, bytes = 0;
    std::string item;
    auto make = [&](uint64_t i) {
      item.clear();
      if (format.fixed()) {
        item.resize(format.record_bytes);
        std::memcpy(item.data(), &i, 8);
      } else {
        item = fmt::format("{}\n", i);
      }
    };
    KeyScratch scratch;
    std::string partial;
    for (;; ++items) {
      make(items);
      const std::string_view view = item;
      const bowtie::Items one({&view, 1});
      const auto key = layout->key_of_item(one, 0, 0, scratch);
      ASSERT_TRUE(layout->make_partial(one, 0, 0, *key, partial).has_value());
      if (!table->holds(items + 1, bytes + partial.size())) break;
      bytes += partial.size();
    }
    EXPECT_GT(items, 1000u);
    KeyedBatch batch(1);
    // Returns false if the table is full.
    auto add = [&] {
      const std::string_view view = item;
      batch.assign(*layout, bowtie::Items({&view, 1}), 0, KeyedBatch::Kind::item);
      size_t at = 0;
      EXPECT_TRUE(table->share(0).add(batch, at).has_value());
      return at == 1;
    };
    for (uint64_t i = 0; i < items; ++i) {
      make(i);
      ASSERT_TRUE(add()) << name << ' ' << i << " of " << items;
      ASSERT_EQ(table->size(), i + 1);
    }
    // A full table reports it.
    bool full = false;
    for (uint64_t i = items; i < 100 * items && !full; ++i) {
      make(i);
      full = !add();
    }
    EXPECT_TRUE(full);
    make(0);
    const uint64_t groups = table->size();
    EXPECT_TRUE(add());
    EXPECT_EQ(table->size(), groups);
  }
}

TEST(GroupFiles, ASumThatDoesNotFitIsAnErrorThatNamesTheKey) {
  const Folder folder;
  std::string text;
  for (const uint64_t value : {uint64_t{1}, ~uint64_t{0}}) {
    append_bytes(text, uint64_t{4711});
    append_bytes(text, value);
  }
  write_items(folder / "in", {text});
  GroupFilesOptions options{.files = files_options(folder, format_of("kv64"), {folder / "in"}),
                            .aggregates = {.sum = true}};
  const auto done = group_files(options);
  ASSERT_FALSE(done.has_value());
  EXPECT_NE(done.error().message().find("4711"), std::string::npos) << done.error().message();
  EXPECT_EQ(folder.files(), 1u);
  // Signed, the same bits are 1 and -1.
  options.aggregates.value = ValueField{.offset = 8, .bytes = 8, .is_signed = true};
  const auto signed_sum = group_files(options);
  ASSERT_TRUE(signed_sum.has_value()) << signed_sum.error().message();
  EXPECT_EQ(read_all(folder / "out").substr(8), std::string(8, '\0'));
}

// A sum may leave the range on the way if the result is within it.
TEST(GroupFiles, SignedSumsDoNotDependOnTheOrder) {
  const Folder folder;
  std::string text;
  const int64_t most = std::numeric_limits<int64_t>::max();
  for (const int64_t value : {most, most, -most, -most, int64_t{-5}}) {
    append_bytes(text, uint64_t{1});
    append_bytes(text, value);
  }
  write_items(folder / "in", {text});
  GroupFilesOptions options{
      .files = files_options(folder, format_of("kv64"), {folder / "in"}),
      .aggregates = {.sum = true, .value = ValueField{.offset = 8, .bytes = 8, .is_signed = true}}};
  const auto done = group_files(options);
  ASSERT_TRUE(done.has_value()) << done.error().message();
  int64_t sum = 0;
  std::memcpy(&sum, read_all(folder / "out").data() + 8, 8);
  EXPECT_EQ(sum, -5);
}

TEST(GroupFiles, BigEndianFieldsOfAnyLength) {
  const Folder folder;
  const items::Format format = format_of("record", 8, "0:1");
  write_items(folder / "in",
              {std::string("k\x01\x00\x02", 4) + "abcd", std::string("k\x00\x00\xff", 4) + "abcd"});
  const auto done = group_files(
      {.files = files_options(folder, format, {folder / "in"}),
       .aggregates = {.sum = true,
                      .value = ValueField{.offset = 1, .bytes = 3, .big_endian = true}}});
  ASSERT_TRUE(done.has_value()) << done.error().message();
  const std::string out = read_all(folder / "out");
  ASSERT_EQ(out.size(), 9u);
  uint64_t sum = 0;
  std::memcpy(&sum, out.data() + 1, 8);
  EXPECT_EQ(sum, 0x010002u + 0xffu);
}

TEST(GroupFiles, ErrorsLeaveNoFilesBehind) {
  Random random(29);
  const Folder folder;
  const items::Format format = format_of("kv64");
  const Inputs inputs = random_inputs(random, folder, format, 4, 900'000, ~0ull, false);
  const size_t before = folder.files();
  for (const uint64_t after : {3u, 40u}) {
    for (const bool reading : {false, true}) {
      const Injected injected(
          {.error = reading ? EIO : ENOSPC,
           .error_after = after,
           .error_operation = reading ? io::Operation::read : io::Operation::write});
      const auto done = group_files({.files = files_options(folder, format, inputs.paths),
                                     .aggregates = {.count = true},
                                     .sorted = true});
      if (done) continue;
      EXPECT_EQ(done.error().code, reading ? ErrorCode::io : ErrorCode::out_of_space);
      EXPECT_EQ(folder.files(), before);
    }
  }
}

TEST(GroupFiles, ACancelledRunLeavesNothing) {
  Random random(31);
  const Folder folder;
  const std::atomic<bool> cancel = true;
  const Inputs inputs = random_inputs(random, folder, format_of("u64"), 2, 1000, 100, false);
  FilesOptions files = files_options(folder, format_of("u64"), inputs.paths);
  files.cancel = &cancel;
  const auto done = group_files({.files = files, .aggregates = {.count = true}});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::interrupted);
  EXPECT_EQ(folder.files(), 2u);
}

TEST(GroupFiles, RefusesValuesThatAreNone) {
  for (const char* name : {"f64", "lines", "record"}) {
    EXPECT_FALSE(GroupLayout::make(format_of(name), {.sum = true}).has_value()) << name;
  }
  EXPECT_FALSE(GroupLayout::make(format_of("u64"), {}).has_value());
  EXPECT_FALSE(GroupLayout::make(format_of("u64"), {.count = true, .distinct = true}).has_value());
  EXPECT_FALSE(GroupLayout::make(format_of("kv64"), {.sum = true, .value = ValueField{.offset = 9}})
                   .has_value());
}

// ---- Join.

Items join_model(const Items& left, const Items& right, const items::Format& left_format,
                 const items::Format& right_format) {
  Items result;
  for (const std::string& l : left) {
    for (const std::string& r : right) {
      if (key_of(left_format, l) != key_of(right_format, r)) continue;
      std::string rest;
      if (right_format.fixed()) {
        rest = r;
        rest.erase(right_format.key_offset, right_format.key_bytes);
      }
      result.push_back(l + rest);
    }
  }
  return result;
}

TEST(JoinFiles, MakesTheProductOfEqualKeys) {
  for (uint64_t seed = 1; seed <= 3; ++seed) {
    for (const items::Format& format : all_formats()) {
      SCOPED_TRACE(fmt::format("seed {}, {}", seed, items::name_of(format.type)));
      Random random(seed * 100 + static_cast<uint64_t>(format.type));
      const Folder folder;
      const bool descending = random.below(2) == 0;
      items::Format right = format;
      if (format.type == items::Type::record && format.record_bytes == 24)
        right = format_of("record", 13, "2:9");
      const uint64_t keys = 1 + random.below(200);
      Items items[2];
      for (int side = 0; side < 2; ++side) {
        const items::Format& of = side == 0 ? format : right;
        items[side].resize(random.below(400));
        for (std::string& item : items[side]) item = random_item(random, of, keys);
        sort_items(items[side], of, descending);
        write_items(folder / fmt::format("{}", side), items[side]);
      }
      const auto done =
          join_files({.files = files_options(folder, format, {folder / "0", folder / "1"}),
                      .right = right,
                      .descending = descending});
      ASSERT_TRUE(done.has_value()) << done.error().message();
      const Items expected = join_model(items[0], items[1], format, right);
      EXPECT_EQ(done->items, expected.size());
      ASSERT_EQ(read_all(folder / "out"), joined(expected));
    }
  }
}

// There is room for three items of a key: the right side, the left side, or neither fits.
TEST(JoinFiles, HoldsWhicheverSideFits) {
  const Folder folder;
  const items::Format format = format_of("kv64");
  auto items = [](size_t count) {
    Items result;
    for (uint64_t i = 0; i < count; ++i) {
      std::string item;
      append_bytes(item, uint64_t{9});
      append_bytes(item, i);
      result.push_back(item);
    }
    return result;
  };
  for (auto [left, right] : {std::pair<size_t, size_t>{100, 6}, {3, 100}, {100, 100}}) {
    write_items(folder / "l", items(left));
    write_items(folder / "r", items(right));
    uint64_t count = 0;
    const auto done =
        bowtie::run({{.path = folder / "l"}, {.path = folder / "r"}},
                    {{.path = folder / "out", .bytes_max = MiB}},
                    merge_join(format, format, false, 3 * 16, &count), {.memory_bytes = MiB});
    if (left == 100 && right == 100) {
      ASSERT_FALSE(done.has_value());
      EXPECT_EQ(done.error().code, ErrorCode::out_of_memory);
      EXPECT_NE(done.error().message().find("key 9"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(done.has_value()) << done.error().message();
    EXPECT_EQ(count, left * right);
    items::Format joined_items = format;
    joined_items.record_bytes = 24;
    const Items found = read_items(folder / "out", joined_items);
    const Items expected = join_model(items(left), items(right), format, format);
    EXPECT_EQ(std::multiset<std::string>(found.begin(), found.end()),
              std::multiset<std::string>(expected.begin(), expected.end()));
  }
}

TEST(JoinFiles, ReportsTheUnsortedSide) {
  const Folder folder;
  write_items(folder / "a", {"a\n", "b\n"});
  write_items(folder / "b", {"b\n", "a\n", "c\n"});
  const auto done =
      join_files({.files = files_options(folder, format_of("lines"), {folder / "a", folder / "b"}),
                  .right = format_of("lines")});
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, ErrorCode::unsorted);
  EXPECT_EQ(done.error().subject, folder / "b");
  EXPECT_EQ(folder.files(), 2u);
}

}  // namespace
}  // namespace penstock::files
