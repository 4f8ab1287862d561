// Sorted stretches by themselves: each is found where it lies, a sorted input is copied, and a
// merge of stretches continues the sort's progress.

#include "files/sort/ways/sorted_stretches.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/sort_fixture.h"
#include "io/file.h"
#include "items/items.h"

namespace penstock::external {
namespace {

using Items = std::vector<std::string>;

const Format i32 = {Type::i32, 4, 0, 4};
const Format records = {Type::record, 24, 4, 9};

constexpr uint64_t memory_bytes = 14 * MiB;
constexpr uint32_t many = 1000;

std::string joined(const Items& items) {
  std::string text;
  for (const std::string& item : items) text += item;
  return text;
}

class StretchesTest : public SortFixture {
 protected:
  // Writes a file of `items`, whose piece leaves out the first `skipped` bytes.
  files::Piece put(const std::string& data, uint64_t skipped = 0) {
    const std::string name = path(fmt::format("in{}", files_.size()));
    write(name, data);
    files_.push_back(std::make_unique<io::File>(*io::File::open_read(name)));
    return {.file = files_.back().get(), .offset = skipped, .bytes = data.size() - skipped};
  }
  io::File create_output() const {
    auto file = io::File::create_output(path("out"));
    EXPECT_TRUE(file) << file.error().message();
    return std::move(*file);
  }
  std::string published(io::File& output) const {
    EXPECT_TRUE(output.publish());
    return read(path("out"));
  }
  // Items whose order changes at random places, at most this often. Ends tell equal keys apart.
  static Items in_stretches(Random& random, const SortOptions& chosen, size_t count,
                            uint64_t stretches) {
    const Format& format = chosen.format;
    Items items(count);
    for (uint32_t number = 0; std::string & item : items) {
      item.resize(format.fixed() ? format.record_bytes : random.below(40));
      const uint64_t key = random.below(count);
      for (size_t i = 0; i < item.size(); ++i)
        item[i] = static_cast<char>('a' + mix64(key + i / 8) % 26);
      if (!format.fixed()) item += '\n';
      if (format.fixed() && format.key_offset + format.key_bytes < format.record_bytes)
        std::memcpy(&item[format.record_bytes - sizeof number], &number, sizeof number);
      ++number;
    }
    const items::ItemOrder order = chosen.order();
    auto before = [&](const auto& a, const auto& b) { return order.compare(a, b) < 0; };
    std::vector<size_t> cuts = {0, count};
    while (cuts.size() < stretches + 1) cuts.push_back(random.below(count));
    std::ranges::sort(cuts);
    for (size_t i = 1; i < cuts.size(); ++i) {
      std::stable_sort(items.begin() + static_cast<ptrdiff_t>(cuts[i - 1]),
                       items.begin() + static_cast<ptrdiff_t>(cuts[i]), before);
    }
    return items;
  }
  // The files are removed when the test ends.
  std::vector<std::unique_ptr<io::File>> files_;
};

TEST_F(StretchesTest, EachIsFoundWhereItLies) {
  Random random(seed_of_run());
  for (const Format& format : {u64, i32, records, lines}) {
    for (const bool descending : {false, true}) {
      if (!tried()) continue;
      SCOPED_TRACE(fmt::format("seed {}, {}, descending {}", seed_of_run(),
                               items::name_of(format.type), descending));
      SortOptions chosen = options(format);
      chosen.descending = descending;
      const items::ItemOrder order = chosen.order();
      std::vector<files::Piece> pieces, expected;
      uint64_t items = 0, bytes = 0, longest = 0;
      for (const size_t count : {50'000, 1, 3000}) {
        const Items some = in_stretches(random, chosen, count, 1 + random.below(8));
        // Bytes in front of the piece do not count.
        pieces.push_back(put("12345678" + joined(some), 8));
        uint64_t start = 8, at = 8;
        for (size_t i = 0; i < some.size(); ++i) {
          if (i > 0 && order.compare(some[i - 1], some[i]) > 0) {
            expected.push_back({.file = pieces.back().file, .offset = start, .bytes = at - start});
            start = at;
          }
          at += some[i].size();
          longest = std::max<uint64_t>(longest, some[i].size());
        }
        expected.push_back({.file = pieces.back().file, .offset = start, .bytes = at - start});
        items += some.size();
        bytes += pieces.back().bytes;
      }
      Context context(chosen);
      const auto found = find_stretches(context, pieces, memory_bytes, many, nullptr);
      ASSERT_TRUE(found) << found.error().message();
      EXPECT_FALSE(found->are_copied);
      EXPECT_EQ(found->items, items);
      EXPECT_EQ(found->bytes, bytes);
      if (!format.numeric()) {
        EXPECT_EQ(found->item_bytes_max, longest);
      }
      ASSERT_EQ(found->pieces.size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(found->pieces[i].file, expected[i].file) << i;
        EXPECT_EQ(found->pieces[i].offset, expected[i].offset) << i;
        EXPECT_EQ(found->pieces[i].bytes, expected[i].bytes) << i;
      }
      // Exactly this many stretches are found; with a limit that is one lower, none.
      const auto most = static_cast<uint32_t>(expected.size());
      const auto all = find_stretches(context, pieces, memory_bytes, most, nullptr);
      ASSERT_TRUE(all) << all.error().message();
      EXPECT_EQ(all->pieces.size(), most);
      const auto none = find_stretches(context, pieces, memory_bytes, most - 1, nullptr);
      ASSERT_TRUE(none) << none.error().message();
      EXPECT_TRUE(none->pieces.empty());
    }
  }
}

TEST_F(StretchesTest, ALineThatIsTooLongForALookIsNoError) {
  const std::vector<files::Piece> pieces = {put("a\n" + std::string(8 * MiB, 'b') + "\n")};
  const SortOptions chosen = options(lines);
  Context context(chosen);
  const auto found = find_stretches(context, pieces, memory_bytes, many, nullptr);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_TRUE(found->pieces.empty());
}

// The input has any number of files, a header, and last lines that lack their newlines.
TEST_F(StretchesTest, ASortedInputIsCopiedWhileItIsChecked) {
  Random random(seed_of_run());
  for (const Format& format : {u64, lines}) {
    for (const bool in_order : {true, false}) {
      SCOPED_TRACE(
          fmt::format("seed {}, {}, {}", seed_of_run(), items::name_of(format.type), in_order));
      const SortOptions chosen = options(format);
      Items items = in_stretches(random, chosen, 60'000, 1);
      if (!in_order) std::swap(items[items.size() - 2], items.front());
      std::vector<files::Piece> pieces;
      const size_t third = items.size() / 3;
      for (size_t i = 0; i < 3; ++i) {
        const auto from = items.begin() + static_cast<ptrdiff_t>(i * third);
        std::string text = joined({from, from + static_cast<ptrdiff_t>(third)});
        if (format.has_line_ends()) text.pop_back();
        pieces.push_back(put(text));
      }
      const std::string header = "a header\n";
      io::File output = create_output();
      ASSERT_TRUE(io::write_exactly(output, 0, reinterpret_cast<const std::byte*>(header.data()),
                                    header.size()));
      const Target target{&output, header.size()};
      Context context(chosen);
      const auto found =
          find_stretches(context, pieces, memory_bytes, in_order ? 1 : many, &target);
      ASSERT_TRUE(found) << found.error().message();
      EXPECT_EQ(found->are_copied, in_order);
      EXPECT_EQ(found->items, items.size());
      EXPECT_EQ(found->bytes, joined(items).size());
      if (in_order) {
        EXPECT_TRUE(published(output) == header + joined(items));
      } else {
        EXPECT_GT(found->pieces.size(), 3u);
      }
    }
  }
}

// The merge is stable, with all options that a sort may have.
TEST_F(StretchesTest, AMergeEqualsAStableSort) {
  Random random(seed_of_run());
  for (const Format& format : {Format{Type::kv64, 16}, records, lines}) {
    for (int round = 0; round < 4; ++round) {
      SortOptions chosen = options(format);
      chosen.descending = random.below(2) == 0;
      chosen.unique = round == 1;
      if (round == 2) chosen.top = 1234;
      SCOPED_TRACE(fmt::format("seed {}, {}, round {}, descending {}", seed_of_run(),
                               items::name_of(format.type), round, chosen.descending));
      Items items = in_stretches(random, chosen, 5'000, 5);
      const files::Piece piece = put(joined(items));
      Context context(chosen);
      const auto found = find_stretches(context, {piece}, memory_bytes, many, nullptr);
      ASSERT_TRUE(found) << found.error().message();
      io::File output = create_output();
      const auto stored = merge_stretches(context, found->pieces, memory_bytes, {&output, 0});
      ASSERT_TRUE(stored) << stored.error().message();
      const items::ItemOrder order = chosen.order();
      std::ranges::stable_sort(
          items, [&](const auto& a, const auto& b) { return order.compare(a, b) < 0; });
      if (chosen.unique) {
        auto equal = [&](const auto& a, const auto& b) { return order.compare(a, b) == 0; };
        items.erase(std::ranges::unique(items, equal).begin(), items.end());
      }
      if (chosen.top) items.resize(*chosen.top);
      EXPECT_EQ(stored->items, items.size());
      EXPECT_EQ(stored->bytes, joined(items).size());
      EXPECT_TRUE(published(output) == joined(items));
    }
  }
}

// A merge is a phase of the sort: it reports that phase, and the sort's cancellation ends it.
TEST_F(StretchesTest, AMergeGoesOnWithTheProgressOfTheSort) {
  Random random(seed_of_run());
  std::atomic<bool> cancel{false};
  std::vector<std::string> phases;
  SortOptions chosen = options(u64);
  chosen.cancel = &cancel;
  chosen.progress = [&](const files::Progress& progress) {
    phases.emplace_back(progress.phase);
    EXPECT_EQ(progress.total_bytes, 12345u);
  };
  const files::Piece piece = put(joined(in_stretches(random, chosen, 100'000, 4)));
  SortOptions quiet = options(u64);
  Context looking(quiet);
  const auto found = find_stretches(looking, {piece}, memory_bytes, many, nullptr);
  ASSERT_TRUE(found) << found.error().message();
  // The first report of a run comes at once.
  Context context(chosen);
  context.set_phase("merge", 12345);
  io::File output = create_output();
  ASSERT_TRUE(merge_stretches(context, found->pieces, memory_bytes, {&output, 0}));
  ASSERT_FALSE(phases.empty());
  for (const std::string& phase : phases) EXPECT_EQ(phase, "merge");
  cancel = true;
  io::File unused = create_output();
  const auto stopped = merge_stretches(context, found->pieces, memory_bytes, {&unused, 0});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::interrupted);
}

}  // namespace
}  // namespace penstock::external
