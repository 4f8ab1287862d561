// Operations over files whose inputs and outputs are Penstock's streams: each kind of source with
// each kind of sink, and runs that are connected by streams.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/temporary_folder_fixture.h"
#include "penstock/file_stream.h"
#include "penstock/files.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

constexpr size_t block_bytes = 64 * KiB;
// Many blocks, the last one partly filled.
constexpr uint64_t small_bytes = 1 * MiB + 8 * 1001;
// More than the budget.
constexpr uint64_t large_bytes = 34 * MiB + 8 * 1001;

using Bytes = std::vector<std::byte>;

std::span<const std::byte> bytes_of(const std::vector<uint64_t>& numbers) {
  return std::as_bytes(std::span(numbers));
}

// Copies through a stream's pointer, forward and within its comeback.
void copy_forward(std::byte* to, const std::byte* from, size_t bytes) {
  for (size_t at = 0; at < bytes; at += block_bytes)
    std::memcpy(to + at, from + at, std::min(block_bytes, bytes - at));
}

// A source that copies `bytes` bytes from a pointer. `stream` keeps the pointer alive.
template <class Stream>
std::unique_ptr<Source> source_at(std::shared_ptr<Stream> stream, const std::byte* from,
                                  uint64_t bytes) {
  return callback_source(
      [stream, from, left = bytes](std::span<std::byte> into) mutable -> Result<size_t> {
        const auto some = static_cast<size_t>(std::min<uint64_t>(left, into.size()));
        copy_forward(into.data(), from, some);
        from += some;
        left -= some;
        return some;
      });
}

// One stream between two threads: the sink of one run and the source of another.
struct Pipe {
  explicit Pipe(uint64_t bytes)
      : stream(RemapStream::open({.bytes = bytes, .block_bytes = block_bytes})) {}

  Result<RemapStream> stream;
  uint64_t written = 0;
  uint64_t read = 0;
};

std::shared_ptr<Sink> sink_to(const std::shared_ptr<Pipe>& pipe) {
  class PipeSink final : public Sink {
   public:
    explicit PipeSink(std::shared_ptr<Pipe> pipe) : pipe_(std::move(pipe)) {}
    Status write(std::span<const std::byte> from) override {
      copy_forward(pipe_->stream->writer<std::byte>() + pipe_->written, from.data(), from.size());
      pipe_->written += from.size();
      return {};
    }
    Status close() override { return pipe_->stream->finish(pipe_->written); }
    void cancel() override {
      pipe_->stream->fail(Side::producer, {.code = ErrorCode::cancelled, .attempted = "write on"});
    }

   private:
    std::shared_ptr<Pipe> pipe_;
  };
  return std::make_shared<PipeSink>(pipe);
}

std::shared_ptr<Source> source_from(const std::shared_ptr<Pipe>& pipe) {
  return callback_source([pipe](std::span<std::byte> into) -> Result<size_t> {
    const auto ready = pipe->stream->wait_ready(pipe->read);
    if (!ready) return std::unexpected(ready.error());
    const auto some =
        static_cast<size_t>(std::min<uint64_t>({*ready - pipe->read, into.size(), block_bytes}));
    std::memcpy(into.data(), pipe->stream->reader<std::byte>() + pipe->read, some);
    pipe->read += some;
    return some;
  });
}

class StreamPairs : public testing::Test {
 protected:
  void SetUp() override { make(small_bytes); }

  void make(uint64_t bytes) {
    const uint64_t count = bytes / 8;
    constexpr uint64_t step = 1'000'003;  // a prime that divides none of the counts
    numbers_.resize(count);
    sorted_.resize(count);
    for (uint64_t i = 0; i < count; ++i) {
      numbers_[i] = i * step % count;
      sorted_[i] = i;
    }
    write("in", numbers_);
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  void write(const std::string& name, const std::vector<uint64_t>& numbers) const {
    std::ofstream file(path(name), std::ios::binary);
    file.write(reinterpret_cast<const char*>(numbers.data()),
               static_cast<std::streamsize>(8 * numbers.size()));
  }
  FilesOptions options() const {
    return {.items = {.name = "u64"},
            .memory_bytes = 32 * MiB,
            .temp_directories = {folder_.string()},
            .device = std::make_shared<DeviceProfile>(published_profiles().back()),
            .output_rules = {.sync = false}};
  }

  // ---- Sources of the file `name`, which holds `numbers`.

  struct Input {
    std::string name;
    std::function<std::shared_ptr<Source>(const std::string&, const std::vector<uint64_t>&)> open;
  };
  std::vector<Input> inputs() {
    using Numbers = std::vector<uint64_t>;
    return {
        {"a file",
         [](const std::string& file, const Numbers&) { return std::move(*open_source(file)); }},
        {"stretches of a file",
         [](const std::string& file, const Numbers& numbers) {
           const uint64_t half = 4 * numbers.size() / 8 * 8;
           return stretches_source({{file, 0, half}, {file, half, 8 * numbers.size() - half}});
         }},
        {"a callback",
         [](const std::string&, const Numbers& numbers) {
           auto kept = std::make_shared<Numbers>(numbers);
           return source_at(kept, bytes_of(*kept).data(), 8 * numbers.size());
         }},
        {"a FileReader",
         [](const std::string& file, const Numbers&) {
           auto reader = std::make_shared<FileReader>(
               std::move(*FileReader::open(file, {.block_bytes = block_bytes})));
           return source_at(reader, reader->begin(), reader->bytes());
         }},
        {"a SourceStream of a file",
         [](const std::string& file, const Numbers& numbers) {
           auto stream = std::make_shared<SourceStream>(
               std::move(*SourceStream::open(file, {.block_bytes = block_bytes})));
           return source_at(stream, stream->begin(), 8 * numbers.size());
         }},
        {"a SourceStream of a compressed callback",
         [](const std::string&, const Numbers& numbers) {
           Bytes packed;
           auto into = callback_sink([&](std::span<const std::byte> from) -> Status {
             packed.insert(packed.end(), from.begin(), from.end());
             return {};
           });
           auto sink = std::move(*compress(std::move(into), CompressedFormat::zstd));
           EXPECT_TRUE(sink->write(bytes_of(numbers)) && sink->close());
           auto kept = std::make_shared<Bytes>(std::move(packed));
           auto stream = std::make_shared<SourceStream>(std::move(*SourceStream::open(
               decompress(source_at(kept, kept->data(), kept->size()), "packed"), "packed",
               {.block_bytes = block_bytes})));
           return source_at(stream, stream->begin(), 8 * numbers.size());
         }},
        {"a PullStream",
         [](const std::string&, const Numbers& numbers) {
           auto stream = std::make_shared<PullStream>(std::move(*PullStream::open(
               {.bytes = 8 * numbers.size(), .block_bytes = block_bytes},
               [&numbers](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
                 const auto rest = bytes_of(numbers).subspan(offset);
                 const size_t some = std::min(rest.size(), block.size());
                 std::memcpy(block.data(), rest.data(), some);
                 return some;
               })));
           return source_at(stream, stream->begin<std::byte>(), 8 * numbers.size());
         }},
        {"a RemapStream",
         [this](const std::string&, const Numbers& numbers) {
           auto pipe = std::make_shared<Pipe>(8 * numbers.size());
           threads_.emplace_back([pipe, &numbers] {
             auto sink = sink_to(pipe);
             EXPECT_TRUE(sink->write(bytes_of(numbers)) && sink->close());
           });
           return source_from(pipe);
         }},
        {"a pipe of the system",
         [this](const std::string&, const Numbers& numbers) {
           int ends[2];
           EXPECT_EQ(::pipe(ends), 0);
           auto sink = std::shared_ptr<Sink>(std::move(*descriptor_sink(ends[1], "pipe")));
           std::shared_ptr<Source> source = std::move(*descriptor_source(ends[0], "pipe"));
           ::close(ends[0]);
           ::close(ends[1]);
           threads_.emplace_back([sink = std::move(sink), &numbers]() mutable {
             EXPECT_TRUE(sink->write(bytes_of(numbers)) && sink->close());
             sink.reset();
           });
           return source;
         }},
    };
  }

  // ---- Sinks, and the bytes that have arrived there when the run has ended.

  struct Opened {
    std::shared_ptr<Sink> sink;
    std::function<Bytes()> arrived;
  };
  struct Output {
    std::string name;
    std::function<Opened(uint64_t bytes)> open;
  };
  std::vector<Output> outputs() {
    return {
        {"a callback",
         [](uint64_t) -> Opened {
           auto all = std::make_shared<Bytes>();
           return {callback_sink([all](std::span<const std::byte> from) -> Status {
                     all->insert(all->end(), from.begin(), from.end());
                     return {};
                   }),
                   [all] { return *all; }};
         }},
        {"a compressed file",
         [this](uint64_t bytes) -> Opened {
           const std::string file = path("out.zst");
           return {
               std::move(*open_sink(file, {.sync = false, .compressed = CompressedFormat::zstd})),
               [file, bytes] {
                 Bytes all(bytes);
                 auto stream = SourceStream::open(file, {.block_bytes = block_bytes});
                 copy_forward(all.data(), stream->begin(), all.size());
                 EXPECT_TRUE(stream->at_end(stream->begin() + bytes));
                 return all;
               }};
         }},
        {"a SinkStream",
         [](uint64_t) -> Opened {
           struct Written {
             Bytes all;
             std::optional<SinkStream> stream;
             uint64_t bytes = 0;
           };
           auto to = std::make_shared<Written>();
           to->stream = std::move(*SinkStream::open(
               callback_sink([at = to.get()](std::span<const std::byte> from) -> Status {
                 at->all.insert(at->all.end(), from.begin(), from.end());
                 return {};
               }),
               "a SinkStream", {.block_bytes = block_bytes}));
           return {callback_sink([to](std::span<const std::byte> from) -> Status {
                     copy_forward(to->stream->begin() + to->bytes, from.data(), from.size());
                     to->bytes += from.size();
                     return {};
                   }),
                   [to] {
                     EXPECT_TRUE(to->stream->finish(to->bytes));
                     return to->all;
                   }};
         }},
        {"a RemapStream",
         [this](uint64_t bytes) -> Opened {
           auto pipe = std::make_shared<Pipe>(bytes);
           auto all = std::make_shared<Bytes>(bytes);
           auto reader = std::make_shared<std::jthread>([pipe, all] {
             copy_forward(all->data(), pipe->stream->reader<std::byte>(), all->size());
           });
           return {sink_to(pipe), [reader, all] {
                     reader->join();
                     return *all;
                   }};
         }},
        {"a pipe of the system",
         [](uint64_t bytes) -> Opened {
           int ends[2];
           EXPECT_EQ(::pipe(ends), 0);
           auto sink = std::shared_ptr<Sink>(std::move(*descriptor_sink(ends[1], "pipe")));
           ::close(ends[1]);
           auto all = std::make_shared<Bytes>();
           auto reader = std::make_shared<std::jthread>([from = ends[0], all, bytes] {
             auto source = descriptor_source(from, "pipe");
             ::close(from);
             all->resize(bytes);
             for (size_t at = 0; at < bytes;) {
               const auto some = (*source)->read(std::span(*all).subspan(at));
               if (!some || *some == 0) return all->resize(at);
               at += *some;
             }
           });
           return {std::move(sink), [reader, all] {
                     reader->join();
                     return *all;
                   }};
         }},
    };
  }

  static void expect_same(const Bytes& arrived, const std::vector<uint64_t>& expected) {
    ASSERT_EQ(arrived.size(), 8 * expected.size());
    EXPECT_EQ(std::memcmp(arrived.data(), expected.data(), arrived.size()), 0);
  }

  const TemporaryFolder vanishing_;
  const std::filesystem::path folder_ = vanishing_.path();
  std::vector<uint64_t> numbers_, sorted_;
  std::vector<std::jthread> threads_;  // the other ends; last member, because they use all others
};

TEST_F(StreamPairs, EverySourceIsSortedToEverySink) {
  for (const Input& input : inputs()) {
    for (const Output& output : outputs()) {
      SCOPED_TRACE(input.name + " to " + output.name);
      Opened opened = output.open(small_bytes);
      FilesOptions all = options();
      all.sources = {input.open(path("in"), numbers_)};
      all.sink = std::move(opened.sink);
      const auto done = sort_files(all);
      ASSERT_TRUE(done) << done.error().message();
      EXPECT_EQ(done->items, numbers_.size());
      expect_same(opened.arrived(), sorted_);
    }
  }
}

// Its first phase reads everything, its second one writes everything.
TEST_F(StreamPairs, ASortLargerThanItsMemoryGoesFromStreamToStream) {
  make(large_bytes);
  const auto named = [](const auto& ends) {
    return *std::ranges::find(ends, "a RemapStream", [](const auto& end) { return end.name; });
  };
  Opened opened = named(outputs()).open(large_bytes);
  FilesOptions all = options();
  all.sources = {named(inputs()).open(path("in"), numbers_)};
  all.sink = std::move(opened.sink);
  const auto done = sort_files(all);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->method, SortMethod::distribute);
  expect_same(opened.arrived(), sorted_);
}

TEST_F(StreamPairs, AllKindsOfSourcesAreMergedToEverySink) {
  write("sorted", sorted_);
  std::vector<uint64_t> expected;
  for (const uint64_t number : sorted_) expected.insert(expected.end(), inputs().size(), number);
  for (const Output& output : outputs()) {
    SCOPED_TRACE(output.name);
    Opened opened = output.open(8 * expected.size());
    FilesOptions all = options();
    for (const Input& input : inputs()) all.sources.push_back(input.open(path("sorted"), sorted_));
    all.sink = std::move(opened.sink);
    const auto done = merge_files(all);
    ASSERT_TRUE(done) << done.error().message();
    expect_same(opened.arrived(), expected);
  }
}

// Three runs at once, the third of which reads the outputs of the others.
TEST_F(StreamPairs, AMergeReadsTwoSortsThroughStreams) {
  const std::array pipes = {std::make_shared<Pipe>(small_bytes),
                            std::make_shared<Pipe>(small_bytes)};
  for (const auto& pipe : pipes) {
    threads_.emplace_back([this, pipe] {
      FilesOptions all = options();
      all.inputs = {path("in")};
      all.sink = sink_to(pipe);
      const auto done = sort_files(all);
      EXPECT_TRUE(done) << done.error().message();
      if (done) {
        EXPECT_EQ(done->bytes_written, small_bytes);
      }
    });
  }
  Opened opened = outputs()[0].open(2 * small_bytes);
  FilesOptions all = options();
  all.sources = {source_from(pipes[0]), source_from(pipes[1])};
  all.sink = std::move(opened.sink);
  const auto done = merge_files(all);
  ASSERT_TRUE(done) << done.error().message();
  EXPECT_EQ(done->bytes_read, 2 * small_bytes);
  EXPECT_EQ(done->bytes_written, 2 * small_bytes);
  std::vector<uint64_t> expected;
  for (const uint64_t number : sorted_) expected.insert(expected.end(), 2, number);
  expect_same(opened.arrived(), expected);
}

}  // namespace
}  // namespace penstock
