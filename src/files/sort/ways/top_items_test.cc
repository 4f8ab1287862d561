// Test labels: slow-threads, loops

// The first K items, compared with the beginning of a stable sort of all items.

#include "files/sort/ways/top_items.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "files/bowtie/computations.h"
#include "files/sort/sort_fixture.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "test/support/injection.h"

namespace penstock::external {
namespace {

using Items = std::vector<std::string>;

const Format formats[] = {
    {Type::u32, 4, 0, 4}, {Type::u64, 8},           {Type::i32, 4, 0, 4},
    {Type::i64, 8},       {Type::f32, 4, 0, 4},     {Type::f64, 8},
    {Type::kv64, 16},     {Type::record, 24, 4, 9}, {Type::lines, 1},
};

class TopTest : public SortFixture {
 protected:
  // Without ballast, so that the least memory is the program's.
  TopTest() { ballast_ = std::vector<char>(); }

  // Sorts near the least memory. The memory of the test itself is not the sort's.
  static Result<SortStats> sort(SortOptions options) {
    ::malloc_trim(0);
    // A 32nd of a budget is kept back.
    const uint64_t needed_bytes = os::resident_memory().bytes + 18 * MiB;
    options.memory_bytes = std::max<uint64_t>(32 * MiB, needed_bytes + needed_bytes / 31);
    return sort_files(options);
  }

  // `keys`: approximate number of different keys.
  static std::string random_item(Random& random, const Format& format, uint64_t keys) {
    const uint64_t key = mix64(random.below(keys));
    if (!format.fixed()) {
      std::string line = fmt::format("{:x}", key).substr(0, 1 + key % 15);
      if (key % 5 == 0) line.insert(0, "the same beginning");
      return line + '\n';
    }
    std::string item(format.record_bytes, '\0');
    for (char& byte : item) byte = static_cast<char>(random.next());
    for (uint32_t i = 0; i < format.key_bytes; ++i)
      item[format.key_offset + i] = static_cast<char>(mix64(key + i / 8) >> (8 * (i % 8)));
    return item;
  }

  static void write(const std::string& path, const Items& items, bool newline_at_end = true) {
    std::string text;
    for (const std::string& item : items) text += item;
    if (!newline_at_end && text.ends_with('\n')) text.pop_back();
    std::ofstream(path, std::ios::binary) << text;
  }

  // Writes each to a file.
  std::vector<files::Piece> pieces_of(const std::vector<Items>& files, bool newline_at_end = true) {
    std::vector<files::Piece> pieces;
    for (const Items& items : files) {
      const std::string name = path(fmt::format("piece{}", opened_.size()));
      write(name, items, newline_at_end);
      opened_.push_back(std::make_unique<io::File>(*io::File::open_read(name)));
      pieces.push_back({.file = opened_.back().get(), .bytes = std::filesystem::file_size(name)});
    }
    return pieces;
  }

  // Result of `sort`.
  static Items sorted(Items items, const SortOptions& options) {
    const items::ItemOrder order = options.order();
    std::ranges::stable_sort(items,
                             [&](const auto& a, const auto& b) { return order.compare(a, b) < 0; });
    if (options.unique) {
      auto equal = [&](const auto& a, const auto& b) { return order.compare(a, b) == 0; };
      items.erase(std::ranges::unique(items, equal).begin(), items.end());
    }
    return items;
  }
  // Result of `head`.
  static std::string head(const Items& items, uint64_t count) {
    std::string text;
    for (size_t i = 0; i < std::min<uint64_t>(items.size(), count); ++i) text += items[i];
    return text;
  }
  static std::string model(const Items& items, const SortOptions& options) {
    return head(sorted(items, options), *options.top);
  }

  std::vector<std::unique_ptr<io::File>> opened_;
};

TEST_F(TopTest, EqualsTheBeginningOfAStableSort) {
  constexpr uint64_t seed = 31;
  SCOPED_TRACE(fmt::format("seed {}", seed));
  Random random(seed);
  for (const Format& format : formats) {
    for (int round = 0; round < 12; ++round) {
      SCOPED_TRACE(fmt::format("{} {}", items::name_of(format.type), round));
      const uint64_t keys = round % 3 == 0 ? 1 + random.below(30) : uint64_t{1} << 40;
      Items items(random.below(4) == 0 ? random.below(5) : random.below(60'000));
      for (std::string& item : items) item = random_item(random, format, keys);
      SortOptions chosen = options(format);
      chosen.descending = random.below(2) == 0;
      chosen.unique = random.below(3) == 0;
      chosen.threads = 1 + static_cast<unsigned>(random.below(3));
      const uint64_t counts[] = {0,
                                 1,
                                 random.below(10),
                                 random.below(items.size() + 1),
                                 items.size(),
                                 items.size() + random.below(10),
                                 ~uint64_t{0}};
      chosen.top = counts[random.below(std::size(counts))];
      const std::string expected = model(items, chosen);
      write(path("in"), items, format.fixed() || random.below(2) == 0);
      auto stats = sort(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      ASSERT_TRUE(read(path("out")) == expected) << *chosen.top << " of " << items.size();
      EXPECT_EQ(stats->bytes, expected.size());
    }
  }
}

// Descending and ascending inputs: each item is a candidate, or none is.
TEST_F(TopTest, TakesInputsInTheWorstOrder) {
  for (const Format& format : {formats[1], formats[6], formats[7], formats[8]}) {
    Random random(5);
    Items items(os::shadowed ? 60'000 : 250'000);
    for (std::string& item : items) item = random_item(random, format, items.size());
    const items::ItemOrder order(format);
    for (const bool best_last : {true, false}) {
      std::ranges::stable_sort(items, [&](const auto& a, const auto& b) {
        return best_last ? order.compare(a, b) > 0 : order.compare(a, b) < 0;
      });
      SortOptions chosen = options(format);
      chosen.top = 2000;
      write(path("in"), items);
      auto stats = sort(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_EQ(stats->method, Method::top);
      EXPECT_TRUE(read(path("out")) == model(items, chosen));
    }
  }
}

TEST_F(TopTest, ReadsTheInputOnceAndWritesNothingElse) {
  for (const Format& format : {formats[1], formats[7], formats[8]}) {
    Random random(6);
    Items items(400'000);
    for (std::string& item : items) item = random_item(random, format, ~uint64_t{0});
    write(path("in"), items);
    SortOptions chosen = options(format);
    chosen.top = 100;
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_EQ(stats->method, Method::top);
    EXPECT_EQ(stats->passes, 1u);
    EXPECT_EQ(stats->items, 100u);
    EXPECT_EQ(stats->bytes_written, stats->bytes);
    EXPECT_EQ(stats->temp_bytes, 0u);
    const uint64_t bytes = std::filesystem::file_size(path("in"));
    const uint64_t sample_bytes = stats->phases.front().bytes_read;
    EXPECT_EQ(stats->bytes_read, bytes + sample_bytes);
  }
}

// Memory is filled with items, each of which is a candidate when it comes.
TEST_F(TopTest, StaysWithinItsMemory) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer takes memory of its own";
  const Format& format = formats[8];
  std::string text;
  for (int i = 0; i < 1'000'000; ++i) text += fmt::format("{:039}\n", 2'000'000 - i);
  std::ofstream(path("in"), std::ios::binary) << text;
  std::string().swap(text);
  SortOptions chosen = options(format);
  ::malloc_trim(0);
  if (!os::reset_peak_resident_memory()) GTEST_SKIP() << "/proc/self/clear_refs cannot be written";
  bool any = false;
  for (const uint64_t count : {70'000, 100'000, 115'000, 125'000, 135'000}) {
    chosen.top = count;
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    any = any || stats->method == Method::top;
    EXPECT_LE(stats->peak_rss_bytes, stats->budget_bytes) << count;
  }
  EXPECT_TRUE(any) << "none of them was kept in memory";
}

// The room is full with exactly `count` items, and the items that follow are among the first.
TEST_F(TopTest, AnExactlyFullRoomKeepsLaterItems) {
  constexpr size_t count = 20;
  // Room for texts is 16 MiB at first, with 24 bytes beside each.
  constexpr size_t line_bytes = 16 * MiB / count - 32;
  Items items;
  for (const char first : {'n', 'm'}) {
    std::string line(line_bytes, 'x');
    line.front() = first;
    line.back() = '\n';
    items.insert(items.end(), count, line);
  }
  const std::vector<files::Piece> pieces = pieces_of({items});
  SortOptions chosen = options(formats[8]);
  chosen.top = count;
  Context context(chosen);
  auto output = io::File::create_output(path("out"));
  ASSERT_TRUE(output) << output.error().message();
  const auto stored = sort_top(context, pieces, 128 * MiB, count, {&*output, 0});
  ASSERT_TRUE(stored) << stored.error().message();
  ASSERT_TRUE(output->publish());
  EXPECT_TRUE(read(path("out")) == model(items, chosen));
}

// No item exceeds the limit: the newlines that files lack have room, too.
TEST_F(TopTest, KeepingAllOfSeveralFilesHasRoomForTheirNewlines) {
  constexpr uint64_t memory_bytes = 16 * MiB;
  std::vector<Items> files(8);
  std::string expected;
  // The files fill some whole blocks, and their newlines come on top.
  for (Items& items : files) {
    const size_t bytes = 128 * KiB + (expected.empty() ? files.size() - 1 : 0);
    items = {std::string(bytes / 2, 'a') + '\n', std::string(bytes - bytes / 2 - 2, 'b') + '\n'};
    for (const std::string& item : items) expected += item;
  }
  SortOptions chosen = options(formats[8]);
  Context context(chosen);
  auto file = io::File::create_temporary(path("temporaries"));
  ASSERT_TRUE(file) << file.error().message();
  const TopLimit limit{.number = ~uint64_t{0}};
  const auto kept = keep_below(context, pieces_of(files, false), memory_bytes, limit, *file);
  ASSERT_TRUE(kept) << kept.error().message();
  EXPECT_EQ(kept->items, 2 * files.size());
  ASSERT_EQ(kept->bytes, expected.size());
  std::string found(expected.size(), '\0');
  ASSERT_TRUE(
      io::read_exactly(*file, 0, std::as_writable_bytes(std::span(found)).data(), found.size()));
  EXPECT_TRUE(found == expected);
}

// No space is required for an output that is never written, and no disk is probed that is not used.
TEST_F(TopTest, AnInputLargerThanTheDiskNeedsNoSpace) {
  auto space = io::space_of(directory_.string());
  ASSERT_TRUE(space);
  write(path("in"), {});
  std::error_code error;
  std::filesystem::resize_file(path("in"), (space->free_bytes / MiB + 64 * KiB) * MiB, error);
  if (error) GTEST_SKIP() << "no file here can be so large";
  SortOptions chosen = options(formats[1]);
  chosen.memory_bytes = 1 * GiB;
  for (const uint64_t count : {0, 10, 1'000'000}) {
    chosen.top = count;
    auto plan = plan_sort(chosen);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_EQ(plan->method, count == 0 ? Method::empty : Method::top);
    for (const SortPhase& phase : plan->phases) EXPECT_NE(phase.name, "probe the disk");
  }
  chosen.top.reset();
  auto plan = plan_sort(chosen);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, ErrorCode::out_of_space);
}

// An input that fits in memory still needs space for the output.
TEST_F(TopTest, TheOutputNeedsSpace) {
  const std::string folder = "/dev/shm";
  auto space = io::space_of(folder);
  if (!space) GTEST_SKIP() << folder << " is not there";
  SortOptions chosen = options(formats[1]);
  const uint64_t item_bytes = chosen.format.record_bytes;
  write(path("in"), {});
  std::error_code error;
  std::filesystem::resize_file(path("in"), 4 * (space->free_bytes / item_bytes) * item_bytes,
                               error);
  if (error) GTEST_SKIP() << "no file here can be so large";
  chosen.memory_bytes = 16 * std::max(space->free_bytes, GiB);
  chosen.output = folder + "/penstock-top-" + std::to_string(::getpid());
  for (const uint64_t share : {2, 8}) {
    chosen.top = 4 * (space->free_bytes / item_bytes) / share;
    auto plan = plan_sort(chosen);
    EXPECT_EQ(plan.has_value(), share == 8);
    if (plan) {
      EXPECT_EQ(plan->method, Method::top);
    } else {
      EXPECT_EQ(plan.error().code, ErrorCode::out_of_space) << plan.error().message();
    }
  }
}

// A file system of its own, for the object's lifetime.
class SmallDisk {
 public:
  SmallDisk(const std::string& path, uint64_t size_mib) : path_(path) {
    std::filesystem::create_directory(path);
    is_mounted_ =
        ::mount("tmpfs", path.c_str(), "tmpfs", 0, fmt::format("size={}m", size_mib).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) ::umount2(path_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  const std::string path_;
  bool is_mounted_ = false;
};

// More items than memory holds: a filtered part is sorted, or all items.
TEST_F(TopTest, MoreThanMemoryHoldsGoesThroughTemporaries) {
  Random random(7);
  for (const Format& format : {formats[6], formats[7], formats[8]}) {
    const uint64_t bytes = format.fixed() ? format.record_bytes : 40;
    Items items;
    for (const auto& [share, unique] : {std::pair{0.4, false}, std::pair{0.4, true},
                                        std::pair{0.8, false}, std::pair{0.8, true}}) {
      if (!tried()) continue;
      SCOPED_TRACE(fmt::format("{} {} {}", items::name_of(format.type), share, unique));
      if (items.empty()) {
        items.resize(24 * MiB / bytes);
        for (std::string& item : items) item = random_item(random, format, ~uint64_t{0});
        write(path("in"), items, false);
      }
      SortOptions chosen = options(format);
      chosen.unique = unique;
      chosen.descending = format.type == Type::kv64;
      chosen.top = static_cast<uint64_t>(share * static_cast<double>(items.size()));
      auto stats = sort(chosen);
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_TRUE(read(path("out")) == model(items, chosen));
      EXPECT_NE(stats->method, Method::top);
      if (format.fixed() && share < 0.5 && !unique) {
        EXPECT_LT(stats->temp_bytes, 2 * items.size() * bytes * 6 / 10);
      }
    }
  }
}

// A useless sample: the first half of the input holds the last items.
TEST_F(TopTest, ManyEqualKeysAroundTheLimit) {
  Random random(8);
  const Format& format = formats[6];
  Items items(2'000'000);
  for (std::string& item : items) item = random_item(random, format, 3);
  write(path("in"), items);
  SortOptions chosen = options(format);
  chosen.top = 900'000;
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_TRUE(read(path("out")) == model(items, chosen));
}

// The first items in order are long, and so few that a sample hardly sees one: 34 MB.
Items items_longer_than_a_sample_says() {
  Items items;
  Random random(9);
  for (int i = 0; i < 400; ++i) items.push_back("a" + std::string(60'000, 'a') + '\n');
  for (int i = 0; i < 600'000; ++i) items.push_back(fmt::format("b{:x}\n", random.next()));
  return items;
}

TEST_F(TopTest, ItemsLongerThanTheSampleSaidAreSortedAll) {
  const Items items = items_longer_than_a_sample_says();
  write(path("in"), items);
  SortOptions chosen = options(formats[8]);
  chosen.top = 20'000;
  auto stats = sort(chosen);
  ASSERT_TRUE(stats) << stats.error().message();
  EXPECT_TRUE(read(path("out")) == model(items, chosen));
}

// All items are sorted then, which takes space for all, 33 MiB, and once more for the 23 MiB of
// long ones that are split again: that is free before they are split a third time.
TEST_F(TopTest, ItemsLongerThanTheSampleSaidNeedSpaceForAll) {
  if (os::shadowed) GTEST_SKIP() << "what a sanitizer takes is memory in which they may fit";
  const Items items = items_longer_than_a_sample_says();
  write(path("in"), items);
  SortOptions chosen = options(formats[8]);
  chosen.top = 20'000;
  chosen.temp_directories = {path("small")};
  for (const uint64_t size_mib : {60, 24}) {
    const SmallDisk disk(path("small"), size_mib);
    if (!disk.is_mounted()) GTEST_SKIP() << "no small file system can be mounted";
    auto stats = sort(chosen);
    EXPECT_EQ(stats.has_value(), size_mib == 60) << (stats ? "" : stats.error().message());
    if (stats) {
      EXPECT_TRUE(read(path("out")) == model(items, chosen));
    } else {
      EXPECT_EQ(stats.error().code, ErrorCode::out_of_space) << stats.error().message();
    }
  }
}

// A named pipe of which both ends are open.
class HeldPipe {
 public:
  explicit HeldPipe(const std::string& path) {
    EXPECT_EQ(::mkfifo(path.c_str(), 0600), 0);
    // O_NONBLOCK: opening does not wait for a writer.
    read_end_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    write_end_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::fcntl(read_end_, F_SETFL, 0), 0);
  }
  HeldPipe(const HeldPipe&) = delete;
  HeldPipe& operator=(const HeldPipe&) = delete;
  ~HeldPipe() {
    close_read_end();
    close_write_end();
  }

  // Writes until the reader is gone; then closes this end.
  void write_all(std::string_view text) {
    while (!text.empty()) {
      const ssize_t bytes = ::write(write_end_, text.data(), text.size());
      if (bytes <= 0) break;
      text.remove_prefix(static_cast<size_t>(bytes));
    }
    close_write_end();
  }
  // Reads until the writer is gone.
  std::string read_all() const {
    std::string text;
    std::vector<char> piece(64 * KiB);
    for (ssize_t bytes; (bytes = ::read(read_end_, piece.data(), piece.size())) > 0;)
      text.append(piece.data(), static_cast<size_t>(bytes));
    return text;
  }
  void close_read_end() { close_end(read_end_); }
  void close_write_end() { close_end(write_end_); }

 private:
  static void close_end(int& descriptor) {
    if (descriptor >= 0) ::close(std::exchange(descriptor, -1));
  }

  int read_end_ = -1;
  int write_end_ = -1;
};

TEST_F(TopTest, ReadsAPipeAndWritesAPipe) {
  ::signal(SIGPIPE, SIG_IGN);
  for (const Format& format : {formats[3], formats[8]}) {
    Random random(10);
    Items items(os::shadowed ? 1'000'000 : 1'800'000);
    for (std::string& item : items) item = random_item(random, format, ~uint64_t{0});
    write(path("in"), items);
    const std::string text = read(path("in"));
    const Items expected = sorted(items, options(format));
    for (const uint64_t count : {uint64_t{50}, uint64_t{900'000}}) {
      SortOptions chosen = options(format);
      chosen.inputs = {path("from")};
      chosen.output = path("to");
      chosen.top = count;
      std::string result;
      Result<SortStats> stats;
      {
        // Both ends are open until the sort has ended, so that no thread waits for a failed end.
        HeldPipe from(path("from"));
        HeldPipe to(path("to"));
        std::jthread feeder([&] { from.write_all(text); });
        std::jthread reader([&] { result = to.read_all(); });
        stats = sort(chosen);
        from.close_read_end();
        to.close_write_end();
      }
      for (const std::string& fifo : {path("from"), path("to")}) ::unlink(fifo.c_str());
      ASSERT_TRUE(stats) << stats.error().message();
      EXPECT_TRUE(result == head(expected, count)) << count;
    }
  }
}

TEST_F(TopTest, TheFirstItemsOfAMergeEndItEarly) {
  Random random(11);
  const Format& format = formats[6];
  SortOptions chosen = options(format);
  chosen.merge_only = true;
  chosen.inputs.clear();
  Items all;
  for (int file = 0; file < 5; ++file) {
    Items items(random.below(50'000));
    for (std::string& item : items) item = random_item(random, format, 1000);
    const items::ItemOrder order(format);
    std::ranges::stable_sort(items,
                             [&](const auto& a, const auto& b) { return order.compare(a, b) < 0; });
    chosen.inputs.push_back(path(fmt::format("in{}", file)));
    write(chosen.inputs.back(), items);
    all.insert(all.end(), items.begin(), items.end());
  }
  for (const bool unique : {false, true}) {
    chosen.unique = unique;
    chosen.top = 700;
    auto stats = sort(chosen);
    ASSERT_TRUE(stats) << stats.error().message();
    EXPECT_TRUE(read(path("out")) == model(all, chosen));
    EXPECT_EQ(stats->items, 700u);
    EXPECT_TRUE(stats->predicted.phases.empty()) << "nobody knows how much of it is read";
  }
}

TEST_F(TopTest, ErrorsLeaveTheOutputAsItWas) {
  Random random(12);
  Items items(200'000);
  for (std::string& item : items) item = random_item(random, formats[1], ~uint64_t{0});
  write(path("in"), items);
  write(path("out"), {"old"});
  SortOptions chosen = options(formats[1]);
  chosen.top = 1000;
  const std::atomic<bool> cancel{true};
  chosen.cancel = &cancel;
  auto stats = sort(chosen);
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::interrupted);
  chosen.cancel = nullptr;
  io::inject({.error = EIO, .error_after = 30});
  stats = sort(chosen);
  io::inject({});
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::io);
  EXPECT_EQ(read(path("out")), "old");
}

// The search goes back from the file's end, or by the lengths of rows: over several windows.
TEST_F(TopTest, TheEndOfTheFirstItemsIsFoundInAFile) {
  Random random(13);
  constexpr size_t before_bytes = 4096;
  auto row_of = [](const std::string& text) {
    const RowHead head = {.row_bytes = static_cast<uint32_t>(RowHead::bytes + text.size()),
                          .key_bytes = 3};
    return std::string(reinterpret_cast<const char*>(&head), RowHead::bytes) + text;
  };
  const Format all[] = {{Type::u64, 8},
                        {Type::lines, 1},
                        {.type = Type::lines, .record_bytes = 1, .csv = ','},
                        {Type::rows, 1}};
  for (const Format& format : all) {
    SCOPED_TRACE(
        fmt::format("type {}, csv {}", static_cast<int>(format.type), format.csv.has_value()));
    Items items(9'000);
    for (std::string& item : items) {
      const std::string text(3 + random.below(100), 'x');
      item = format.fixed()              ? std::string(8, 'x')
             : format.type == Type::rows ? row_of(text)
             : format.csv                ? fmt::format("a,\"{}\n\"\"\"\n", text)
                                         : text + '\n';
    }
    std::string data(before_bytes, '\n');
    for (const std::string& item : items) data += item;
    auto file = io::File::create_temporary(path("temporaries"));
    ASSERT_TRUE(file) << file.error().message();
    ASSERT_TRUE(io::write_exactly(*file, 0, std::as_bytes(std::span(data)).data(), data.size()));
    const Stored stored = {.bytes = data.size() - before_bytes, .items = items.size()};
    SortOptions chosen = options(format);
    for (const uint64_t count : {0, 1, 2, 17, 4'500, 8'999, 9'000, 9'001}) {
      const auto bytes = bytes_of_first(chosen, *file, before_bytes, stored, count);
      ASSERT_TRUE(bytes) << bytes.error().message();
      EXPECT_EQ(*bytes, head(items, count).size()) << count;
    }
    if (format.fixed()) continue;
    const Stored more = {.bytes = stored.bytes, .items = 2 * stored.items};
    const uint64_t none = format.type == Type::rows ? stored.items + 1 : 1;
    EXPECT_EQ(bytes_of_first(chosen, *file, before_bytes, more, none).error().code,
              ErrorCode::corrupt);
  }
}

}  // namespace
}  // namespace penstock::external
