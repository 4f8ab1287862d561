// Test labels: slow-threads, loops

// The sort of records, lines and rows in files, compared with std::stable_sort: memory from the
// least on, inputs from half of it to several times as much, with and without compression.

#include <fmt/format.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "base/random.h"
#include "base/trials.h"
#include "files/sort/bucket/bucket_sort.h"
#include "files/sort/sort_fixture.h"
#include "files/sort/spill/spill_codec.h"
#include "io/engine.h"
#include "io/file.h"
#include "os/sanitizer.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

const Format rows = *items::parse_format("rows");

std::vector<std::string_view> items_of(const Format& format, std::string_view data) {
  std::vector<std::string_view> items;
  for (size_t at = 0; at < data.size();) {
    size_t bytes = format.record_bytes;
    if (format.has_line_ends()) bytes = std::min(data.find('\n', at), data.size() - 1) + 1 - at;
    if (format.type == Type::rows) bytes = RowHead::at(data.data() + at).row_bytes;
    items.push_back(data.substr(at, bytes));
    at += bytes;
  }
  return items;
}

// The model.
std::string sorted_by_model(const SortOptions& options, std::string_view data) {
  const Format& format = options.format;
  auto items = items_of(format, data);
  auto key = [&](std::string_view item) { return items::key_of(format, item); };
  std::stable_sort(items.begin(), items.end(), [&](auto a, auto b) {
    return options.descending ? key(a) > key(b) : key(a) < key(b);
  });
  if (options.unique) {
    items.erase(
        std::unique(items.begin(), items.end(), [&](auto a, auto b) { return key(a) == key(b); }),
        items.end());
  }
  std::string out;
  out.reserve(data.size() + 1);
  for (std::string_view item : items) {
    out += item;
    if (items::lacks_line_end(format, item)) out += '\n';
  }
  return out;
}

// Properties that make sorts of text hard, one of them at a time or several.
struct TextShape {
  uint64_t keys = ~uint64_t{0};  // number of different keys
  size_t prefix_bytes = 0;       // common prefix of all keys
  size_t least_bytes = 0;
  size_t most_bytes = 40;
  double giant_share = 0;  // share of the items that have one key
  size_t long_bytes = 0;   // longest of a few long lines
};

std::string random_text(Random& random, const Format& format, const TextShape& shape,
                        uint64_t bytes) {
  std::string data;
  data.reserve(bytes + shape.long_bytes + 512);
  while (data.size() < bytes) {
    uint64_t key = mix64(random.below(shape.keys));
    if (random.unit() < shape.giant_share) key = mix64(0);
    if (format.fixed()) {
      const size_t at = data.size();
      data.resize(at + format.record_bytes, 'r');
      std::memcpy(data.data() + at, &at, std::min<size_t>(8, format.record_bytes));
      for (uint32_t i = 0; i < format.key_bytes; ++i) {
        data[at + format.key_offset + i] =
            i < shape.prefix_bytes ? 'p' : static_cast<char>(mix64(key + i / 8) >> (8 * (i % 8)));
      }
      // Distinguishes items with equal keys.
      if (format.key_offset + format.key_bytes + 8 <= format.record_bytes)
        std::memcpy(data.data() + at + format.key_offset + format.key_bytes, &at, 8);
    } else {
      const size_t at = data.size();
      const bool is_row = format.type == Type::rows;
      if (is_row) data.resize(at + RowHead::bytes);
      data.append(shape.prefix_bytes, 'p');
      size_t length = shape.least_bytes + key % (shape.most_bytes - shape.least_bytes + 1);
      if (shape.long_bytes > 0 &&
          random.below(bytes / 64 / (bytes / shape.long_bytes / 4 + 1)) == 0)
        length = random.below(shape.long_bytes);
      for (size_t i = 0; i < length; ++i) {
        const auto byte = static_cast<char>(mix64(key + i / 8) >> (8 * (i % 8)));
        data += byte == '\n' ? ' ' : static_cast<char>(i % 3 == 0 ? byte : byte & 0x0f);
        if (data.back() == '\n') data.back() = ' ';
      }
      if (!is_row) {
        data += '\n';
        continue;
      }
      const size_t key_bytes = data.size() - at - RowHead::bytes;
      data.append(std::to_string(at)).append(random.below(20), '\0');
      RowHead{static_cast<uint32_t>(data.size() - at), static_cast<uint32_t>(key_bytes)}.store(
          data.data() + at);
    }
  }
  if (format.has_line_ends() && random.below(2) == 0 && data.size() > 1 &&
      data[data.size() - 2] != '\n')
    data.pop_back();
  return data;
}

class StringSortTest : public SortFixture {
 protected:
  // Sorts with `more` than the least memory. The memory of the test itself is not the sort's.
  static Result<SortStats> sort(SortOptions chosen, uint64_t more = 0) {
    chosen.memory_bytes = budget_bytes() + more;
    os::reset_peak_resident_memory();
    return sort_files(chosen);
  }
  SortStats sort_and_compare(const SortOptions& chosen, const std::string& data,
                             uint64_t more = 0) {
    write(path("in"), data);
    auto stats = sort(chosen, more);
    EXPECT_TRUE(stats) << stats.error().message();
    if (!stats) return {};
    const std::string expected = sorted_by_model(chosen, data);
    const std::string sorted = read(path("out"));
    EXPECT_EQ(sorted.size(), expected.size());
    EXPECT_TRUE(sorted == expected);
    return *stats;
  }
};

TEST_F(StringSortTest, RandomInputsGiveWhatAStableSortGives) {
  const uint64_t rounds = os::shadowed ? 5 : trials(12);
  for (uint64_t round = 0; round < rounds; ++round) {
    Random random(seed_of_run() + round);
    Format format = round % 3 == 0 ? rows : lines;
    TextShape shape;
    if (round % 3 == 1) {
      format.type = Type::record;
      format.record_bytes = 3 + static_cast<uint32_t>(random.below(200));
      format.key_bytes = 1 + static_cast<uint32_t>(random.below(format.record_bytes));
      format.key_offset =
          static_cast<uint32_t>(random.below(format.record_bytes - format.key_bytes + 1));
    } else {
      shape.least_bytes = random.below(4);
      shape.most_bytes = shape.least_bytes + random.below(100);
      if (random.below(3) == 0) shape.long_bytes = 200 * KiB;
    }
    if (random.below(3) == 0) shape.prefix_bytes = random.below(20);
    if (random.below(3) == 0) shape.keys = 1 + random.below(5000);
    if (random.below(4) == 0) shape.giant_share = 0.6;
    SortOptions chosen = options(format);
    chosen.descending = random.below(2) == 0;
    chosen.unique = random.below(4) == 0;
    chosen.compression = random.below(2) == 0 ? Compression::always : Compression::never;
    chosen.threads = 1 + static_cast<unsigned>(random.below(6));
    const uint64_t bytes = 4 * MiB + random.below(os::shadowed ? 12 * MiB : 36 * MiB);
    const uint64_t more = random.below(2) * random.below(16 * MiB);
    SCOPED_TRACE(fmt::format(
        "seed {} round {}: {} bytes, {} of {}, key {}+{}, texts {} to {}, prefix {}, {} keys, "
        "descending {}, unique {}, compressed {}, threads {}, {} more memory",
        seed_of_run(), round, bytes, items::name_of(format.type), format.record_bytes,
        format.key_offset, format.key_bytes, shape.least_bytes, shape.most_bytes,
        shape.prefix_bytes, shape.keys, chosen.descending, chosen.unique,
        chosen.compression == Compression::always, chosen.threads, more));
    const SortStats stats =
        sort_and_compare(chosen, random_text(random, format, shape, bytes), more);
    if (!os::shadowed) {
      EXPECT_LE(stats.peak_rss_bytes, stats.budget_bytes);
    }
    if (HasFailure()) return;
  }
}

TEST_F(StringSortTest, AnInputSomewhatLargerThanMemorySpillsSomewhat) {
  Random random(seed_of_run());
  for (const Format& format : {Format{Type::record, 100, 0, 10}, lines}) {
    SortOptions chosen = options(format);
    const SortStats stats = sort_and_compare(
        chosen, random_text(random, format, {.least_bytes = 60, .most_bytes = 100}, 20 * MiB),
        4 * MiB);
    EXPECT_EQ(stats.method, Method::distribute);
    EXPECT_GT(stats.kept_bytes, 4 * MiB);
    EXPECT_LT(stats.temp_bytes, 15 * MiB);
    EXPECT_NEAR(static_cast<double>(stats.kept_bytes + stats.spilled_bytes), 20. * MiB, 1. * MiB);
  }
}

TEST_F(StringSortTest, AnInputThatFitsWritesOnlyTheOutput) {
  Random random(seed_of_run());
  const std::string data = random_text(random, lines, {}, 4 * MiB);
  SortOptions chosen = options(lines);
  chosen.compression = Compression::always;
  const SortStats stats = sort_and_compare(chosen, data);
  EXPECT_EQ(stats.method, Method::in_memory);
  EXPECT_EQ(stats.temp_bytes, 0u);
  EXPECT_EQ(stats.passes, 1u);
}

TEST_F(StringSortTest, OneGiantKeyIsCopiedWhateverItsSize) {
  Random random(seed_of_run());
  for (const Format& format : {Format{Type::record, 64, 8, 8}, lines, rows}) {
    for (bool unique : {false, true}) {
      for (Compression compression : {Compression::always, Compression::never}) {
        if (!tried() || (format.type == Type::rows && compression == Compression::always)) continue;
        SCOPED_TRACE(fmt::format("{} unique {} compressed {}", items::name_of(format.type), unique,
                                 compression == Compression::always));
        SortOptions chosen = options(format);
        chosen.unique = unique;
        chosen.compression = compression;
        chosen.descending = unique;
        const SortStats stats = sort_and_compare(
            chosen, random_text(random, format, {.most_bytes = 70, .giant_share = 0.9}, 24 * MiB));
        if (!os::shadowed) {
          EXPECT_LE(stats.peak_rss_bytes, stats.budget_bytes);
        }
      }
    }
  }
}

TEST_F(StringSortTest, LongLinesInShortInputsAreSorted) {
  Random random(seed_of_run());
  std::string data;
  for (int i = 0; i < 6; ++i) {
    data.append(700'000 + random.below(1000), static_cast<char>('f' - i));
    data += '\n';
  }
  // Memory that earlier cases left, or the thread sanitizer takes, counts as the program's.
  sort_and_compare(options(lines), data, os::shadowed ? 32 * MiB : 8 * MiB);
}

TEST_F(StringSortTest, AnItemThatIsTooLongIsAnErrorWithItsOffset) {
  const std::string beginning = "one\ntwo\n";
  for (const uint64_t more : {uint64_t{0}, 24 * MiB}) {
    // The input goes on for as much again: one that fits may be a single item.
    write(path("in"),
          beginning + std::string(40 * MiB + more, 'x') + "\n" + std::string(8 * MiB, '\n'));
    const auto stats = sort(options(lines), more);
    ASSERT_FALSE(stats);
    EXPECT_EQ(stats.error().code, ErrorCode::out_of_memory) << stats.error().message();
    EXPECT_EQ(stats.error().subject, path("in"));
    EXPECT_EQ(stats.error().hint, "a larger -S");
    EXPECT_NE(stats.error().message().find(
                  fmt::format("line at byte {} of more than ", beginning.size())),
              std::string::npos)
        << stats.error().message();
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
}

TEST_F(StringSortTest, KeysThatAreHardToTellApart) {
  Random random(seed_of_run());
  // Trailing zeros, which eight bytes cannot tell from nothing; long common prefixes; repeats.
  std::string data;
  while (data.size() < 12 * MiB) {
    data.append(random.below(40), 'a');
    data.append(random.below(12), '\0');
    if (random.below(3) == 0) data += std::to_string(random.below(10));
    data += '\n';
  }
  for (bool descending : {false, true}) {
    SortOptions chosen = options(lines);
    chosen.descending = descending;
    sort_and_compare(chosen, data);
  }
}

TEST_F(StringSortTest, CompressionMakesTemporariesSmallerAndNothingElse) {
  Random random(seed_of_run());
  std::string data;
  while (data.size() < 40 * MiB) {
    data += fmt::format("{:016x} the quick brown fox jumps over the lazy dog again and again\n",
                        random.next());
  }
  SortOptions chosen = options(lines);
  chosen.compression = Compression::always;
  const SortStats small = sort_and_compare(chosen, data);
  EXPECT_LT(small.temp_bytes * 10, small.spilled_bytes * 9);
  EXPECT_GT(small.spilled_bytes, 20 * MiB);
  chosen.compression = Compression::never;
  const SortStats plain = sort_and_compare(chosen, data);
  EXPECT_EQ(plain.temp_bytes, plain.spilled_bytes);
  EXPECT_EQ(plain.items, small.items);
}

TEST_F(StringSortTest, CompressesWhenThatPays) {
  Random random(seed_of_run());
  std::string text;
  while (text.size() < 40 * MiB)
    text +=
        fmt::format("{:08x} all of the same, or nearly so, or not at all\n", random.below(1 << 30));
  write(path("in"), text);
  auto compresses = [&](double bytes_per_s, const Format& format) {
    SortOptions chosen = options(format);
    chosen.memory_bytes = budget_bytes();
    chosen.device = std::make_shared<const bowtie::DeviceProfile>(bowtie::DeviceProfile{
        .name = "made up", .read_bytes_per_s = bytes_per_s, .write_bytes_per_s = bytes_per_s});
    auto plan = plan_sort(chosen);
    EXPECT_TRUE(plan) << plan.error().message();
    EXPECT_EQ(plan->compresses, plan->temp_bytes < plan->spilled_bytes);
    return plan->compresses;
  };
  EXPECT_TRUE(compresses(20e6, lines));
  EXPECT_FALSE(compresses(50e9, lines));
  const Format format{Type::record, 64, 0, 8};
  std::string noise(40 * MiB, '\0');
  for (size_t i = 0; i < noise.size(); i += 8) {
    const uint64_t word = random.next();
    std::memcpy(noise.data() + i, &word, 8);
  }
  write(path("in"), noise);
  EXPECT_FALSE(compresses(20e6, format));
}

TEST_F(StringSortTest, AnErrorAtAnyRequestEndsCleanly) {
  Random random(seed_of_run());
  write(path("in"), random_text(random, lines, {.least_bytes = 10}, 24 * MiB));
  for (Compression compression : {Compression::always, Compression::never}) {
    expect_clean_ends([&] {
      SortOptions chosen = options(lines);
      chosen.compression = compression;
      return sort(chosen);
    });
  }
}

TEST_F(StringSortTest, CanBeCancelledAtAnyTime) {
  Random random(seed_of_run());
  write(path("in"), random_text(random, lines, {.least_bytes = 10}, 24 * MiB));
  bool done = false;
  for (int looks = 0; !done; looks += 1 + looks / 2) {
    std::atomic<bool> cancel{false};
    int left = looks;
    SortOptions chosen = options(lines);
    chosen.cancel = &cancel;
    chosen.compression = Compression::always;
    std::atomic<int> reports{0};
    chosen.progress = [&](const files::Progress&) {
      if (reports++ >= left) cancel = true;
    };
    auto stats = sort(chosen);
    done = stats.has_value();
    if (!done) {
      EXPECT_EQ(stats.error().code, ErrorCode::interrupted);
      EXPECT_FALSE(std::filesystem::exists(path("out")));
    }
  }
}

// ---- parts of a run

// A split with its arguments, without the run around it.
class SplitTest : public StringSortTest {
 protected:
  void open(const std::string& data) {
    write(path("in"), data);
    chosen_ = options(lines);
    auto file = io::File::open_read(path("in"));
    ASSERT_TRUE(file);
    input_ = std::move(*file);
    auto output = io::File::create_output(path("out"));
    ASSERT_TRUE(output);
    output_ = std::move(*output);
    pieces_ = {{.file = &input_, .bytes = data.size()}};
  }
  Result<Split> split(Context& context, const BucketPlan& plan, files::Sample sample,
                      bool compresses) {
    return split_items(context,
                       {.pieces = pieces_,
                        .plan = plan,
                        .compresses = compresses,
                        .place = place_,
                        .arena = arena_},
                       std::move(sample));
  }
  Result<Stored> sort_buckets(Context& context, const BucketPlan& plan, Split& split) {
    PipelineTimes times;
    return sort_in_pipeline(context,
                            {.buckets = split.buckets,
                             .plan = plan,
                             .arena = arena_,
                             .spills = split.spills,
                             .target = {&output_, 0}},
                            times);
  }

  SortOptions chosen_;
  io::File input_;
  io::File output_;
  std::vector<files::Piece> pieces_;
  const SpillPlace place_{.directories = {path("temporaries")}};
  BlockArena arena_;
};

TEST_F(SplitTest, ADamagedBlockIsReported) {
  Random random(seed_of_run());
  open(random_text(random, lines, {.keys = 1000, .least_bytes = 30}, 24 * MiB));
  Context context(chosen_);
  auto sample =
      files::take_sample(context, chosen_.order(), pieces_, files::sample_places(24 * MiB));
  ASSERT_TRUE(sample);
  const BucketPlan plan = plan_buckets(
      chosen_, 14 * MiB, {.bytes = pieces_.front().bytes, .item_bytes = sample->item_bytes});
  ASSERT_TRUE(arena_.open(plan.arena_bytes, plan.block_bytes));
  auto split = this->split(context, plan, std::move(*sample), true);
  ASSERT_TRUE(split) << split.error().message();
  const SplitBucket& bucket = split->buckets.back();
  ASSERT_FALSE(bucket.spilled.empty());
  ASSERT_FALSE(bucket.constant);
  const uint32_t stored_bytes = bucket.stored_blocks.front().bytes;
  ASSERT_LT(stored_bytes, split->spills.block_bytes());
  const stream::Extent extent =
      split->spills.part(bucket.spill).numbered(bucket.spilled.front(), stored_bytes);
  std::vector<std::byte> noise(extent.bytes);
  for (std::byte& byte : noise) byte = static_cast<std::byte>(random.next());
  ASSERT_TRUE(io::write_exactly(*extent.file, extent.offset, noise.data(), noise.size()));
  auto stored = sort_buckets(context, plan, *split);
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().code, ErrorCode::corrupt) << stored.error().message();
}

// All buckets fill their blocks at the same time, and there are no other blocks for all of them.
TEST_F(SplitTest, ItemsThatGoRoundTheBucketsKeepTheirOrder) {
  std::string data;
  for (uint64_t i = 0; data.size() < 24 * MiB; ++i)
    data += fmt::format("{:03}{:>60}\n", i % 100, i);
  open(data);
  chosen_.format = {.type = Type::record, .record_bytes = 64, .key_bytes = 3};
  chosen_.threads = 4;
  Context context(chosen_);
  auto sample =
      files::take_sample(context, chosen_.order(), pieces_, files::sample_places(24 * MiB));
  ASSERT_TRUE(sample);
  BucketPlan plan =
      plan_buckets(chosen_, 14 * MiB, {.bytes = pieces_.front().bytes, .item_bytes = 64});
  ASSERT_EQ(plan.split_threads, 4u);
  plan.buckets = 120;  // one for each key
  plan.block_bytes = files::block_bytes_min;
  ASSERT_TRUE(arena_.open(150 * plan.block_bytes, plan.block_bytes));
  auto split = this->split(context, plan, std::move(*sample), false);
  ASSERT_TRUE(split) << split.error().message();
  EXPECT_GE(split->buckets.size(), 100u);
  auto stored = sort_buckets(context, plan, *split);
  ASSERT_TRUE(stored) << stored.error().message();
  ASSERT_TRUE(output_.publish());
  EXPECT_TRUE(read(path("out")) == sorted_by_model(chosen_, data));
}

TEST_F(SplitTest, ABucketThatIsTooLargeIsSplitAgainCompressedOrNot) {
  Random random(seed_of_run());
  const std::string data = random_text(random, lines, {.least_bytes = 20}, 30 * MiB);
  for (bool compresses : {false, true}) {
    SCOPED_TRACE(compresses);
    open(data);
    Context context(chosen_);
    BucketSort sort(context, 14 * MiB, {path("temporaries")}, compresses);
    // An empty sample makes one bucket.
    auto stored =
        sort.run({.pieces = pieces_, .bytes = pieces_.front().bytes, .sample = {.item_bytes = 40}},
                 {&output_, 0});
    ASSERT_TRUE(stored) << stored.error().message();
    EXPECT_GE(sort.stats().levels, 2u);
    ASSERT_TRUE(output_.publish());
    EXPECT_TRUE(read(path("out")) == sorted_by_model(chosen_, data));
  }
}

TEST(SpillCodec, RestoresTheBytes) {
  Random random(seed_of_run());
  for (size_t bytes : {size_t{1}, size_t{4096}, size_t{100'000}, size_t{2 * MiB}}) {
    std::vector<std::byte> data(bytes), stored(bytes), back(bytes);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random.below(4));
    const size_t taken = compress_block(data.data(), bytes, stored.data());
    if (bytes < 100) continue;
    ASSERT_GT(taken, 0u);
    EXPECT_LE(taken, bytes - bytes / shrinks_by);
    ASSERT_TRUE(inflate_block(stored.data(), taken, back.data(), bytes));
    EXPECT_EQ(data, back);
    EXPECT_FALSE(inflate_block(stored.data(), taken / 2, back.data(), bytes));
    EXPECT_FALSE(inflate_block(stored.data(), taken, back.data(), bytes / 2));
  }
}

TEST(SpillCodec, RejectsBlocksThatDoNotShrinkByAnEighth) {
  Random random(seed_of_run());
  std::vector<std::byte> data(64 * KiB), stored(64 * KiB);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.next());
  EXPECT_EQ(compress_block(data.data(), data.size(), stored.data()), 0u);
}

TEST(SpillCodec, DamagedBlocksAreRejectedOrRestoredToTheRightSize) {
  Random random(seed_of_run());
  std::vector<std::byte> data(64 * KiB), stored(64 * KiB), back(64 * KiB);
  for (std::byte& byte : data) byte = static_cast<std::byte>(random.below(3));
  const size_t taken = compress_block(data.data(), data.size(), stored.data());
  ASSERT_GT(taken, 0u);
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    auto damaged = std::make_unique<std::byte[]>(taken);  // its end is where the allocator says
    std::copy_n(stored.data(), taken, damaged.get());
    for (int j = 0; j < 3; ++j)
      damaged[random.below(taken)] = static_cast<std::byte>(random.next());
    refused += !inflate_block(damaged.get(), taken, back.data(), back.size());
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace penstock::external
