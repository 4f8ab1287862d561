#include "penstock/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>

#include "base/temporary_folder_fixture.h"
#include "io/whole_file_fixture.h"
#include "os/memory.h"
#include "penstock/file_stream.h"

namespace penstock {
namespace {

class PublicFiles : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(folder_ / "temporaries");
    uint64_t state = 1;
    for (uint64_t& number : numbers_)
      number = state = state * 6364136223846793005u + 1442695040888963407u;
    write("in", numbers_);
  }
  void TearDown() override {
    EXPECT_TRUE(std::filesystem::is_empty(folder_ / "temporaries")) << "temporaries were left";
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::vector<uint64_t>& numbers) const {
    std::ofstream(path(name), std::ios::binary)
        .write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(8 * numbers.size()));
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(path(name), std::ios::binary) << text;
  }
  std::string text(const std::string& name) const { return io::read_whole(path(name)); }
  std::vector<uint64_t> numbers(const std::string& name) const {
    const std::string bytes = text(name);
    std::vector<uint64_t> read(bytes.size() / 8);
    std::memcpy(read.data(), bytes.data(), 8 * read.size());
    return read;
  }
  std::vector<uint64_t> sorted() const {
    std::vector<uint64_t> copy = numbers_;
    std::ranges::sort(copy);
    return copy;
  }
  FilesOptions options(const std::string& input = "in", const std::string& format = "u64") const {
    return {.inputs = {path(input)},
            .output = path("out"),
            .items = {.name = format},
            .memory_bytes = os::resident_memory().bytes + 64 * MiB,
            .temp_directories = {path("temporaries")}};
  }
  // Returns `piece_bytes` bytes per call, then `error` if there is one.
  std::shared_ptr<Source> source(size_t piece_bytes, std::optional<Error> error = {}) const {
    return callback_source([this, piece_bytes, error,
                            done = size_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
      const auto all = std::as_bytes(std::span(numbers_));
      const size_t bytes = std::min({piece_bytes, into.size(), all.size() - done});
      if (bytes == 0 && error) return std::unexpected(*error);
      std::memcpy(into.data(), all.data() + done, bytes);
      done += bytes;
      return bytes;
    });
  }

  std::vector<uint64_t> numbers_ = std::vector<uint64_t>(300'000);
  const TemporaryFolder vanishing_;
  const std::filesystem::path folder_ = vanishing_.path();
};

TEST_F(PublicFiles, AFileIsSortedWithStatistics) {
  const auto plan = plan_sort_files(options());
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->input_bytes, 8 * numbers_.size());
  EXPECT_FALSE(std::filesystem::exists(path("out")));
  const auto done = sort_files(options(), {.threads = 1});
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(numbers("out"), sorted());
  EXPECT_EQ(done->items, numbers_.size());
  EXPECT_EQ(done->method, SortMethod::in_memory);
  const std::string json = to_json(*done);
  EXPECT_NE(json.find("\"items\": 300000"), std::string::npos) << json;
  EXPECT_NE(to_json(*plan).find("\"version\": 2"), std::string::npos);
}

TEST_F(PublicFiles, TheTopItemsAreTheHeadOfTheSort) {
  const auto done = top_items(options(), 5);
  ASSERT_TRUE(done) << done.error().message();
  auto first = sorted();
  first.resize(5);
  EXPECT_EQ(numbers("out"), first);
}

std::string row(const std::string& key, const std::string& payload) {
  std::string made(RowHead::bytes, '\0');
  made += key + payload;
  RowHead{static_cast<uint32_t>(made.size()), static_cast<uint32_t>(key.size())}.store(made.data());
  return made;
}

TEST_F(PublicFiles, RowsAreSortedByTheirKeysUnchanged) {
  std::vector<std::pair<std::string, std::string>> rows;
  std::string data;
  for (size_t i = 0; i < 40'000; ++i) {
    const uint64_t number = numbers_[i];
    rows.emplace_back(std::string(number % 3, '\0') + std::to_string(number % 5000),
                      std::to_string(i) + std::string(number % 70, '\n'));
  }
  for (const auto& [key, payload] : rows) data += row(key, payload);
  write("in", data);
  auto expected = [&](size_t begin, size_t end) {
    std::string all;
    for (size_t i = begin; i < end; ++i) all += row(rows[i].first, rows[i].second);
    return all;
  };
  std::ranges::stable_sort(rows, {}, &std::pair<std::string, std::string>::first);

  std::string sunk;
  FilesOptions given = options("in", "rows");
  given.sink = callback_sink([&](std::span<const std::byte> from) -> Status {
    sunk.append(reinterpret_cast<const char*>(from.data()), from.size());
    return {};
  });
  auto done = sort_files(given);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->items, rows.size());
  EXPECT_TRUE(sunk == expected(0, rows.size()));

  for (const uint64_t count : {uint64_t{0}, uint64_t{7}, uint64_t{30'000}}) {
    ASSERT_TRUE(top_items(options("in", "rows"), count));
    EXPECT_TRUE(text("out") == expected(0, count)) << count;
  }

  PartitionFilesOptions parts{.parts = 3};
  given = options("in", "rows");
  given.output = path("part-{}");
  for (const auto by : {PartitionFilesBy::hash, PartitionFilesBy::range}) {
    parts.by = by;
    const auto parted = partition_files(given, parts);
    ASSERT_TRUE(parted) << parted.error().message();
    FilesOptions merge = options("in", "rows");
    merge.inputs.clear();
    for (const FilePart& part : parted->parts) {
      FilesOptions each = options("in", "rows");
      each.inputs = {part.path};
      each.output = part.path;
      ASSERT_TRUE(sort_files(each));
      merge.inputs.push_back(part.path);
    }
    const auto merged = merge_files(merge);
    ASSERT_TRUE(merged) << merged.error().message();
    EXPECT_TRUE(text("out") == expected(0, rows.size()));
    const auto checked = check_file(options("out", "rows"), 2);
    ASSERT_TRUE(checked) << checked.error().message();
    EXPECT_EQ(checked->count, rows.size());
    EXPECT_FALSE(checked->first_unsorted);
  }
}

TEST_F(PublicFiles, MalformedRowsAreRefused) {
  const std::string good = row("a", "payload") + row("b", "");
  for (const std::string& bad :
       {good.substr(0, good.size() - 1), good + "x", std::string(100, '\0'),
        good + std::string("\x09\0\0\0\x02\0\0\0x", 9)}) {
    write("in", bad);
    std::filesystem::remove(path("out"));
    const FilesOptions given = options("in", "rows");
    const auto sorted = sort_files(given);
    const auto merged = merge_files(given);
    const auto checked = check_file(given, 2);
    for (const Error* error :
         {sorted ? nullptr : &sorted.error(), merged ? nullptr : &merged.error(),
          checked ? nullptr : &checked.error()}) {
      ASSERT_NE(error, nullptr);
      EXPECT_EQ(error->code, ErrorCode::corrupt) << error->message();
    }
    EXPECT_FALSE(std::filesystem::exists(path("out")));
  }
  FilesOptions given = options("in", "rows");
  EXPECT_FALSE(group_files(given, {.aggregates = {.count = true}}));
  given.inputs.push_back(path("in"));
  EXPECT_FALSE(join_files(given));
  EXPECT_FALSE(join_lines(given));
  given.items.keys = {"1"};
  EXPECT_FALSE(sort_files(given));
}

TEST_F(PublicFiles, BadWordsAreReportedByTheirOption) {
  FilesOptions given = options();
  given.items.csv = true;
  const auto done = sort_files(given);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(done.error().message().find("csv=true"), std::string::npos) << done.error().message();
}

TEST_F(PublicFiles, AHeaderOfNumPyIsNoItemInAnyOperation) {
  std::string npy("\x93NUMPY\x01\0v\0{'descr': '<u8', }", 27);
  npy.resize(40, ' ');
  write("x.npy", npy);
  FilesOptions files{.inputs = {path("x.npy")},
                     .output = path("x.npy"),
                     .items = {.name = "u64"},
                     .temp_directories = {path("temporaries")}};
  FilesOptions parts = files, pair = files, lines = files;
  parts.output = path("p-{}");
  pair.inputs.push_back(path("in"));
  lines.items = {};
  FilesOptions line_pair = pair;
  line_pair.items = {};
  const auto failed = [](const auto& result) {
    return result ? std::string("done") : result.error().message();
  };
  for (const std::string& said :
       {failed(sort_files(files, {})), failed(sort_files(lines, {})),
        failed(plan_sort_files(files, {})), failed(merge_files(pair, {})),
        failed(partition_files(parts, {.parts = 2})),
        failed(group_files(files, {.aggregates = {.count = true}})), failed(join_files(pair, {})),
        failed(join_lines(line_pair, {.keys = {{{"1"}, {"1"}}}})), failed(check_file(files, 1))})
    EXPECT_NE(said.find("np.load("), said.npos) << said;
  EXPECT_EQ(text("x.npy"), npy);
  files.source.decompress = false;
  EXPECT_TRUE(sort_files(files, {}).has_value()) << "bytes that are meant";
}

TEST_F(PublicFiles, LinesAreOrderedByTheLettersOfGnuSort) {
  write("text", "b 10\na 9\nc 100\n");
  FilesOptions given = options("text", "lines");
  given.items.keys = {"2"};
  given.items.letters = "n";
  ASSERT_TRUE(sort_files(given));
  EXPECT_EQ(text("out"), "a 9\nb 10\nc 100\n");
  given.items.descending = true;
  ASSERT_TRUE(sort_files(given));
  EXPECT_EQ(text("out"), "c 100\nb 10\na 9\n");
  // Characters after an unknown letter do not hide the error.
  given.items.letters = "numeric";
  const auto done = sort_files(given);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::invalid_argument);
  EXPECT_NE(done.error().message().find("\"u\""), std::string::npos) << done.error().message();
}

TEST_F(PublicFiles, SourcesAreInputsToo) {
  FilesOptions given = options();
  given.sources = {source(12'345), source(100)};
  const auto done = sort_files(given);
  ASSERT_TRUE(done) << done.error().message();
  std::vector<uint64_t> all;
  for (int i = 0; i < 3; ++i) all.insert(all.end(), numbers_.begin(), numbers_.end());
  std::ranges::sort(all);
  EXPECT_EQ(numbers("out"), all);
}

// The data before the error are whole items, so only the error shows that some are missing.
TEST_F(PublicFiles, ASourceThatFailsIsNoEndOfItsData) {
  write("out", std::string("before"));
  for (const char* operation : {"sort", "merge", "partition", "group", "check"}) {
    SCOPED_TRACE(operation);
    FilesOptions given = options();
    given.inputs.clear();
    given.sources = {source(80'000, Error{ErrorCode::io, "receive", "peer 7"})};
    const std::string what = operation;
    std::optional<Error> error;
    auto keep = [&](const auto& done) {
      if (!done) error = done.error();
    };
    if (what == "sort") keep(sort_files(given));
    if (what == "merge") {
      std::ranges::sort(numbers_);
      keep(merge_files(given));
    }
    if (what == "partition") {
      given.output = path("part-{}");
      keep(partition_files(given, {.parts = 3}));
      EXPECT_FALSE(std::filesystem::exists(path("part-0")));
    }
    if (what == "group") keep(group_files(given, {.aggregates = {.count = true}}));
    if (what == "check") keep(check_file(given));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->code, ErrorCode::io) << error->message();
    EXPECT_EQ(error->subject, "peer 7");
    EXPECT_EQ(text("out"), "before");
  }
}

TEST_F(PublicFiles, ASinkGetsTheOutputAndIsClosed) {
  struct Gathered final : Sink {
    std::string bytes;
    int closed = 0;
    Status write(std::span<const std::byte> from) override {
      bytes.append(reinterpret_cast<const char*>(from.data()), from.size());
      return {};
    }
    Status close() override {
      ++closed;
      return {};
    }
  };
  const auto gathered = std::make_shared<Gathered>();
  FilesOptions given = options();
  given.sink = gathered;
  const auto done = sort_files(given);
  ASSERT_TRUE(done) << done.error().message();
  const auto expected = sorted();
  ASSERT_EQ(gathered->bytes.size(), 8 * expected.size());
  EXPECT_EQ(std::memcmp(gathered->bytes.data(), expected.data(), gathered->bytes.size()), 0);
  EXPECT_EQ(gathered->closed, 1);
  EXPECT_FALSE(std::filesystem::exists(path("out")));

  const auto fails = std::make_shared<Gathered>();
  given.inputs = {path("missing")};
  given.sink = fails;
  EXPECT_EQ(sort_files(given).error().code, ErrorCode::not_found);
  EXPECT_EQ(fails->closed, 0);
}

TEST_F(PublicFiles, ASinkThatFailsEndsTheRun) {
  FilesOptions given = options();
  given.sink = callback_sink([](std::span<const std::byte>) -> Status {
    return failure(ErrorCode::out_of_space, "keep", "the other side");
  });
  const auto done = sort_files(given);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().subject, "the other side") << done.error().message();
}

// The run is over when the sink gets its last bytes: only the sink knows of the error.
TEST_F(PublicFiles, ASinkThatFailsAtTheEndFailsTheRun) {
  struct Late final : Sink {
    Status write(std::span<const std::byte>) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      return fails_in_close ? Status{} : failure(ErrorCode::out_of_space, "keep", "the far side");
    }
    Status close() override { return failure(ErrorCode::out_of_space, "keep", "the far side"); }
    bool fails_in_close = false;
  };
  write("few", std::vector<uint64_t>{2, 1});
  for (const bool fails_in_close : {false, true}) {
    const auto sink = std::make_shared<Late>();
    sink->fails_in_close = fails_in_close;
    FilesOptions given = options("few");
    given.sink = sink;
    const auto done = sort_files(given);
    ASSERT_FALSE(done) << fails_in_close;
    EXPECT_EQ(done.error().subject, "the far side");
  }
}

// A source and a sink that block until they are cancelled.
struct Waiting final : Source, Sink {
  Result<size_t> read(std::span<std::byte>) override {
    cancelled.wait(false);
    return failure(ErrorCode::cancelled, "read", "a peer");
  }
  Status write(std::span<const std::byte>) override {
    reached = true;
    reached.notify_all();
    cancelled.wait(false);
    return failure(ErrorCode::cancelled, "write", "a peer");
  }
  void cancel() override {
    cancelled = true;
    cancelled.notify_all();
  }
  std::atomic<bool> cancelled{false};
  std::atomic<bool> reached{false};  // set by a write
};

TEST_F(PublicFiles, CancelEndsTheWaitForASourceOrASink) {
  for (const bool source : {true, false}) {
    SCOPED_TRACE(source);
    const auto waiting = std::make_shared<Waiting>();
    std::atomic<bool> cancel{false};
    FilesOptions given = options();
    given.cancel = &cancel;
    if (source) {
      given.sources = {waiting};
    } else {
      given.sink = waiting;
    }
    std::jthread caller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      cancel = true;
    });
    const auto done = sort_files(given);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ErrorCode::interrupted) << done.error().message();
  }
}

// A named pipe makes a run wait for its other end, and for data from there.
TEST_F(PublicFiles, CancelEndsTheWaitForANamedPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ASSERT_EQ(::mkfifo(path("reader").c_str(), 0600), 0);
  write("lines", std::string("a 1\nb 2\n"));
  using Operation = std::function<Status(const FilesOptions&)>;
  auto status_of = [](const auto& done) { return done ? Status{} : std::unexpected(done.error()); };
  const std::pair<const char*, Operation> operations[] = {
      {"sort", [&](const FilesOptions& files) { return status_of(sort_files(files)); }},
      {"sort -m",
       [&](const FilesOptions& files) {
         return status_of(sort_files(files, {.merge_only = true}));
       }},
      {"plan", [&](const FilesOptions& files) { return status_of(plan_sort_files(files)); }},
      {"merge", [&](const FilesOptions& files) { return status_of(merge_files(files)); }},
      {"partition",
       [&](FilesOptions files) {
         files.output = path("part-{}");
         return status_of(partition_files(files, {.parts = 3}));
       }},
      {"group",
       [&](const FilesOptions& files) {
         return status_of(group_files(files, {.aggregates = {.count = true}}));
       }},
      {"join",
       [&](FilesOptions files) {
         files.inputs.push_back(path("in"));
         return status_of(join_files(files));
       }},
      {"check", [&](const FilesOptions& files) { return status_of(check_file(files)); }},
      {"to a pipe",
       [&](FilesOptions files) {
         files.inputs = {path("in")};
         files.output = path("reader");
         return status_of(sort_files(files));
       }},
      {"lines",
       [&](FilesOptions files) {
         files.items = {.keys = {"1"}, .header_lines = 1};
         return status_of(group_files(files, {.aggregates = {.count = true}}));
       }},
      {"join of lines", [&](FilesOptions files) {
         files.items = {};
         files.inputs.push_back(path("lines"));
         return status_of(join_lines(files));
       }}};
  for (const auto& [name, operation] : operations) {
    for (const bool has_writer : {false, true}) {
      SCOPED_TRACE(std::string(name) + (has_writer ? ", with a writer" : ""));
      std::atomic<bool> cancel{false};
      FilesOptions given = options("pipe");
      given.cancel = &cancel;
      int writer = -1;
      std::jthread caller([&] {
        // A run that reads no pipe never opens it.
        for (int tries = 0; has_writer && writer < 0 && tries < 200; ++tries) {
          writer = ::open(path("pipe").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
          if (writer < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
        if (writer >= 0) {
          EXPECT_EQ(::write(writer, "some", 4), 4);
        }
        cancel = true;
      });
      const Status done = operation(given);
      caller.join();
      if (writer >= 0) ::close(writer);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, ErrorCode::interrupted) << done.error().message();
      EXPECT_FALSE(std::filesystem::exists(path("out")));
    }
  }
}

// The pipe has a reader that reads nothing.
TEST_F(PublicFiles, CancelEndsTheWaitForAReaderThatReadsNothing) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int reader = ::open(path("pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  ASSERT_TRUE(sort_files(options()));
  std::filesystem::rename(path("out"), path("sorted"));
  const std::function<ErrorCode(const FilesOptions&)> operations[] = {
      [](const FilesOptions& files) { return sort_files(files).error().code; },
      [](const FilesOptions& files) { return sort_files(files, {.unique = true}).error().code; },
      [](const FilesOptions& files) { return top_items(files, 200'000).error().code; },
      [&](FilesOptions files) {
        files.inputs = {path("sorted"), path("sorted")};
        return merge_files(files).error().code;
      },
      [](const FilesOptions& files) {
        return group_files(files, {.aggregates = {.count = true}}).error().code;
      },
      [](FilesOptions files) {
        files.compressed = CompressedFormat::lz4;
        return sort_files(files).error().code;
      }};
  for (size_t i = 0; i < std::size(operations); ++i) {
    SCOPED_TRACE(i);
    std::atomic<bool> cancel{false};
    FilesOptions given = options();
    given.output = path("pipe");
    given.cancel = &cancel;
    std::jthread caller([&] {
      // Wait until the pipe is full.
      for (int waiting = 0, before = -1; waiting == 0 || waiting != before;) {
        before = waiting;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        ASSERT_EQ(::ioctl(reader, FIONREAD, &waiting), 0);
      }
      cancel = true;
    });
    EXPECT_EQ(operations[i](given), ErrorCode::interrupted);
    caller.join();
    std::vector<char> rest(1 * MiB);
    while (::read(reader, rest.data(), rest.size()) > 0) {
    }
  }
  ::close(reader);
}

TEST_F(PublicFiles, AReaderOfAFileDoesNotWaitForAPipe) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const auto reader = FileReader::open(path("pipe"));
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::unsupported) << reader.error().message();
}

// The source is slower than the rest: the first write comes while the source is asked for more.
// A sink that waits in write() until it is cancelled. While the source has not failed it accepts a
// write after a moment: a run that has read as far ahead as it may asks the source again only if
// the sink takes something.
struct WaitingOnceFailed final : Sink {
  Status write(std::span<const std::byte>) override {
    reached = true;
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::milliseconds(20), [&] { return failed || cancelled; });
    if (!failed && !cancelled) return {};
    changed.wait(lock, [&] { return cancelled; });
    return failure(ErrorCode::cancelled, "write", "a peer");
  }
  void cancel() override { set(cancelled); }
  void set(bool& what) {
    {
      const std::lock_guard lock(mutex);
      what = true;
    }
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  bool failed = false;  // the source
  bool cancelled = false;
  std::atomic<bool> reached{false};
};

TEST_F(PublicFiles, ASourceThatFailsEndsTheWaitForASink) {
  const auto waiting = std::make_shared<WaitingOnceFailed>();
  FilesOptions given = options();
  given.inputs.clear();
  given.memory_bytes = 32 * MiB;
  given.sources = {
      callback_source([&, next = uint64_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
        if (waiting->reached) {
          waiting->set(waiting->failed);
          return failure(ErrorCode::io, "receive", "peer 7");
        }
        const size_t bytes = std::min<size_t>(into.size(), 64 * KiB);
        for (size_t at = 0; at < bytes; at += 8, ++next) std::memcpy(into.data() + at, &next, 8);
        return bytes;
      })};
  given.sink = waiting;
  const auto done = merge_files(given);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().subject, "peer 7") << done.error().message();
}

TEST_F(PublicFiles, ASourceThatReturnsTooManyBytesIsRefusedByEveryOperation) {
  FilesOptions given = options();
  given.inputs.clear();
  // A source that returns the size of its own buffer.
  const auto boaster = [] {
    return callback_source([reads = 0](std::span<std::byte> into) mutable -> Result<size_t> {
      std::ranges::fill(into, std::byte{});
      return into.size() + (reads++ == 0 ? 0 : 64 * KiB);
    });
  };
  const auto code_of = [&](auto operation) {
    given.sources = {boaster()};
    const auto done = operation();
    return done ? "it worked" : done.error().message();
  };
  const std::string said[] = {
      code_of([&] { return sort_files(given); }),
      code_of([&] { return merge_files(given); }),
      code_of([&] { return check_file(given); }),
      code_of([&] { return group_files(given, {.aggregates = {.count = true}}); }),
      code_of([&] { return slice_files(given, {}); }),
      code_of([&] { return top_items(given, 3); }),
  };
  for (const std::string& each : said)
    EXPECT_NE(each.find("where there is room for"), std::string::npos) << each;
}

TEST_F(PublicFiles, CancelIsNoErrorOfASource) {
  std::atomic<bool> cancel{false};
  FilesOptions given = options();
  given.cancel = &cancel;
  given.sources = {callback_source([&](std::span<std::byte>) -> Result<size_t> {
    cancel = true;
    return failure(ErrorCode::io, "receive: the connection was closed", "peer 7");
  })};
  EXPECT_EQ(sort_files(given).error().code, ErrorCode::interrupted);
}

TEST_F(PublicFiles, ManySmallSourcesKeepToTheBudgetOfACall) {
  FilesOptions given = options();
  given.inputs.clear();
  for (int i = 0; i < 12; ++i) given.sources.push_back(source(1'000'000));
  given.memory_scope = MemoryScope::call;
  given.memory_bytes = 64 * MiB;
  const auto done = sort_files(given);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->items, 12 * numbers_.size());
  EXPECT_LE(done->peak_bytes, given.memory_bytes);
}

TEST_F(PublicFiles, SourcesAndASinkNeedNoDescriptors) {
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 80;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  FilesOptions given = options();
  given.inputs.clear();
  for (int i = 0; i < 120; ++i) given.sources.push_back(source(1'000'000));
  uint64_t bytes = 0;
  given.sink = callback_sink([&](std::span<const std::byte> from) -> Status {
    bytes += from.size();
    return {};
  });
  given.memory_scope = MemoryScope::process;
  given.memory_bytes = os::resident_memory().bytes + 256 * MiB;
  const auto done = sort_files(given, {.unique = true});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(bytes, 8 * numbers_.size());
}

TEST_F(PublicFiles, DescriptorsHavePaths) {
  const int out = ::open(path("by-descriptor").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  ASSERT_GE(out, 0);
  FilesOptions given = options();
  given.output = "/dev/fd/" + std::to_string(out);
  ASSERT_TRUE(sort_files(given));
  ::close(out);
  EXPECT_EQ(numbers("by-descriptor"), sorted());
}

TEST_F(PublicFiles, ARunThatIsCancelledLeavesNothing) {
  std::atomic<bool> cancel{true};
  FilesOptions given = options();
  given.cancel = &cancel;
  EXPECT_EQ(sort_files(given).error().code, ErrorCode::interrupted);
  given.sources = {source(100)};  // and with a source
  EXPECT_EQ(sort_files(given).error().code, ErrorCode::interrupted);
  EXPECT_FALSE(std::filesystem::exists(path("out")));
}

TEST_F(PublicFiles, ProgressIsReported) {
  std::atomic<int> calls{0};
  FilesOptions given = options();
  given.progress = [&](const FilesProgress& now) { calls += now.phase[0] != '\0'; };
  ASSERT_TRUE(sort_files(given));
  EXPECT_GT(calls, 0);
}

TEST_F(PublicFiles, TheOtherOperationsReturnStatistics) {
  const auto check = check_file(options());
  ASSERT_TRUE(check) << check.error().message();
  EXPECT_FALSE(check->sorted());
  ASSERT_TRUE(sort_files(options()));
  std::filesystem::rename(path("out"), path("sorted"));
  const auto again = check_file(options("sorted"));
  ASSERT_TRUE(again);
  EXPECT_TRUE(again->sorted());
  EXPECT_EQ(again->checksum, check->checksum);

  FilesOptions two = options("sorted");
  two.inputs.push_back(path("sorted"));
  const auto merged = merge_files(two, {.unique = true});
  ASSERT_TRUE(merged) << merged.error().message();
  EXPECT_EQ(merged->items, numbers_.size());
  EXPECT_NE(to_json(*merged).find("\"command\": \"merge\""), std::string::npos);

  const auto joined = join_files(two);
  ASSERT_TRUE(joined) << joined.error().message();
  EXPECT_EQ(joined->items, numbers_.size());

  const auto groups = group_files(two, {.aggregates = {.count = true}, .sorted = true});
  ASSERT_TRUE(groups) << groups.error().message();
  EXPECT_EQ(groups->groups, numbers_.size());
  EXPECT_EQ(numbers("out").at(1), 2u);

  FilesOptions parted = options();
  parted.output = path("part-{}");
  const auto parts = partition_files(parted, {.by = PartitionFilesBy::range, .parts = 3});
  ASSERT_TRUE(parts) << parts.error().message();
  uint64_t items = 0;
  for (const FilePart& part : parts->parts) items += part.items;
  EXPECT_EQ(items, numbers_.size());
  EXPECT_NE(to_json(*parts).find("\"by\": \"range\""), std::string::npos);
  parted.sink = callback_sink([](std::span<const std::byte>) -> Status { return {}; });
  EXPECT_FALSE(partition_files(parted, {.parts = 3}));
}

}  // namespace
}  // namespace penstock
