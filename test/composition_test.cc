// Combinations of parts of the library, as programs make them: a program's code that one part calls uses another
// part through its plain pointer. Every place that calls such code is tried with every part that serves faults.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/temporary_folder_fixture.h"
#include "penstock/penstock.hpp"

namespace penstock {
namespace {

constexpr size_t block_bytes = 16 * KiB;
constexpr size_t blocks = 8;
constexpr size_t bytes = blocks * block_bytes;

char byte_of(uint64_t offset) {
  return static_cast<char>('a' + offset / block_bytes);
}

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().message());
  return std::move(*result);
}

// A part that serves faults: its use by the program's code, and the check afterwards.
struct Part {
  std::function<void()> use;
  std::function<void()> end = [] {};
};

// Whether every byte has the value of its place.
bool is_right(const char* begin) {
  for (uint64_t i = 0; i < bytes; ++i) {
    if (begin[i] != byte_of(i)) return false;
  }
  return true;
}

void store(char* begin) {
  for (uint64_t i = 0; i < bytes; ++i) begin[i] = byte_of(i);
}

std::function<Result<size_t>(std::span<std::byte>)> giver() {
  return [at = uint64_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
    const size_t some = std::min<uint64_t>(into.size(), bytes - at);
    for (size_t i = 0; i < some; ++i) into[i] = static_cast<std::byte>(byte_of(at++));
    return some;
  };
}

// ---- parts

using MakePart = Part (*)(const TemporaryFolder& folder);

Part file_reader(const TemporaryFolder& folder) {
  const std::string path = folder / "read";
  {
    std::vector<char> data(bytes);
    store(data.data());
    std::ofstream(path, std::ios::binary).write(data.data(), bytes);
  }
  auto file =
      std::make_shared<FileReader>(value_of(FileReader::open(path, {.block_bytes = block_bytes})));
  return {[file] { EXPECT_TRUE(is_right(file->begin<char>())); }};
}

Part file_writer(const TemporaryFolder& folder) {
  const std::string path = folder / "written";
  auto file = std::make_shared<FileWriter>(
      value_of(FileWriter::open(path, {.bytes_max = bytes, .block_bytes = block_bytes})));
  return {[file] { store(file->begin<char>()); },
          [file, path] {
            EXPECT_TRUE(file->finish(bytes));
            std::vector<char> data(bytes);
            std::ifstream(path, std::ios::binary).read(data.data(), bytes);
            EXPECT_TRUE(is_right(data.data()));
          }};
}

Part pull_stream(const TemporaryFolder&) {
  auto stream = std::make_shared<PullStream>(value_of(PullStream::open(
      {.bytes = bytes, .block_bytes = block_bytes},
      [give = giver()](std::span<std::byte> block, uint64_t) mutable { return give(block); })));
  return {[stream] { EXPECT_TRUE(is_right(stream->begin<char>())); }};
}

Part source_stream(const TemporaryFolder&) {
  auto stream = std::make_shared<SourceStream>(value_of(
      SourceStream::open(callback_source(giver()), "source", {.block_bytes = block_bytes})));
  return {[stream] { EXPECT_TRUE(is_right(stream->begin<char>())); }};
}

Part sink_stream(const TemporaryFolder&) {
  auto got = std::make_shared<std::string>();
  auto stream = std::make_shared<SinkStream>(value_of(
      SinkStream::open(callback_sink([got](std::span<const std::byte> from) -> Status {
                         got->append(reinterpret_cast<const char*>(from.data()), from.size());
                         return {};
                       }),
                       "sink", {.block_bytes = block_bytes})));
  return {[stream] { store(stream->begin<char>()); },
          [stream, got] {
            EXPECT_TRUE(stream->finish(bytes));
            EXPECT_TRUE(got->size() == bytes && is_right(got->data()));
          }};
}

template <class Stream, Mechanism mechanism = Mechanism::automatic>
auto open_pipe() {
  typename Stream::Options options{.bytes = bytes, .block_bytes = block_bytes};
  if constexpr (requires { options.mechanism; }) options.mechanism = mechanism;
  return std::make_shared<Stream>(value_of(Stream::open(options)));
}

template <class Stream, Mechanism mechanism = Mechanism::automatic>
Part consumer(const TemporaryFolder&) {
  auto stream = open_pipe<Stream, mechanism>();
  auto producer = std::make_shared<std::jthread>([stream] {
    store(stream->writer());
    EXPECT_TRUE(stream->finish(bytes));
  });
  return {[stream] { EXPECT_TRUE(is_right(stream->reader())); }, [producer] { producer->join(); }};
}

template <class Stream, Mechanism mechanism = Mechanism::automatic>
Part producer(const TemporaryFolder&) {
  auto stream = open_pipe<Stream, mechanism>();
  auto consumer =
      std::make_shared<std::jthread>([stream] { EXPECT_TRUE(is_right(stream->reader())); });
  return {[stream] { store(stream->writer()); },
          [stream, consumer] {
            EXPECT_TRUE(stream->finish(bytes));
            consumer->join();
          }};
}

Part region(const TemporaryFolder&) {
  const BlockPool pool = value_of(BlockPool::open({.block_bytes = block_bytes, .blocks = blocks}));
  auto range = std::make_shared<Region>(value_of(Region::open(
      pool, {.bytes = bytes}, [pool](Region::Blocks& shown, const Region::Fault& fault) -> Status {
        BlockPool::Block block = pool.take();
        if (!block) return failure(ErrorCode::out_of_memory, "take a block");
        std::memset(block.bytes().data(), byte_of(fault.index * block_bytes), block_bytes);
        if (const int error = shown.show(fault.index, std::move(block)); error != 0)
          return system_error(error, "show a block", "region");
        return {};
      })));
  return {[range] { EXPECT_TRUE(is_right(range->begin<char>())); }};
}

Part vector(const TemporaryFolder&) {
  const PagePool pool = value_of(PagePool::open({.bytes_max = 4 * MiB}));
  auto letters =
      std::make_shared<RewiredVector<uint64_t>>(value_of(RewiredVector<uint64_t>::open(pool)));
  return {[letters] {
            uint64_t* window = value_of(letters->append_window());
            for (uint64_t i = 0; i < bytes / 8; ++i) *window++ = i;
            EXPECT_TRUE(letters->append_end(window));
          },
          [letters] {
            ASSERT_EQ(letters->size(), bytes / 8);
            for (uint64_t i = 0; i < bytes / 8; ++i) ASSERT_EQ((*letters)[i], i);
          }};
}

// ---- places

// A place that calls the program's code: it calls `use` once.
using Place = void (*)(const TemporaryFolder& folder, const std::function<void()>& use);

FilesOptions sort_of(const TemporaryFolder& folder) {
  const std::string path = folder / "to_sort";
  std::vector<uint64_t> values(10'000);
  for (uint64_t i = 0; i < values.size(); ++i) values[i] = i * 0x9e3779b97f4a7c15u;
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * sizeof(uint64_t)));
  FilesOptions options{.inputs = {path}, .output = folder / "sorted"};
  options.items.name = "u64";
  options.memory_bytes = 64 * MiB;
  return options;
}

std::function<Status(std::span<const std::byte>)> once(const std::function<void()>& use) {
  return [use, used = false](std::span<const std::byte>) mutable -> Status {
    if (!std::exchange(used, true)) use();
    return {};
  };
}

void sink_of_a_sort(const TemporaryFolder& folder, const std::function<void()>& use) {
  FilesOptions options = sort_of(folder);
  options.sink = callback_sink(once(use));
  const auto sorted = sort_files(options);
  EXPECT_TRUE(sorted) << sorted.error().message();
}

void source_of_a_sort(const TemporaryFolder& folder, const std::function<void()>& use) {
  FilesOptions options = sort_of(folder);
  options.sources.push_back(
      callback_source([use, given = false](std::span<std::byte> into) mutable -> Result<size_t> {
        if (std::exchange(given, true)) return 0;
        use();
        std::memset(into.data(), 1, 8);
        return 8;
      }));
  const auto sorted = sort_files(options);
  EXPECT_TRUE(sorted) << sorted.error().message();
}

void source_of_a_stream(const TemporaryFolder&, const std::function<void()>& use) {
  auto stream = value_of(SourceStream::open(
      callback_source([use, given = false](std::span<std::byte> into) mutable -> Result<size_t> {
        if (std::exchange(given, true)) return 0;
        use();
        into[0] = std::byte{'x'};
        return 1;
      }),
      "source", {.block_bytes = block_bytes}));
  EXPECT_EQ(*stream.begin<char>(), 'x');
}

void sink_of_a_stream(const TemporaryFolder&, const std::function<void()>& use) {
  auto stream =
      value_of(SinkStream::open(callback_sink(once(use)), "sink", {.block_bytes = block_bytes}));
  *stream.begin<char>() = 'x';
  EXPECT_TRUE(stream.finish(1));
}

void producer_of_a_pull_stream(const TemporaryFolder&, const std::function<void()>& use) {
  auto stream = value_of(PullStream::open({.bytes = block_bytes, .block_bytes = block_bytes},
                                          [use](std::span<std::byte> block, uint64_t) {
                                            use();
                                            block[0] = std::byte{'x'};
                                            return size_t{1};
                                          }));
  EXPECT_EQ(*stream.begin<char>(), 'x');
}

void handler_of_a_region(const TemporaryFolder&, const std::function<void()>& use) {
  const BlockPool pool = value_of(BlockPool::open({.block_bytes = block_bytes, .blocks = 1}));
  auto range = value_of(Region::open(pool, {.bytes = block_bytes},
                                     [&](Region::Blocks& shown, const Region::Fault&) -> Status {
                                       use();
                                       BlockPool::Block block = pool.take();
                                       block.bytes()[0] = std::byte{'x'};
                                       EXPECT_EQ(shown.show(0, std::move(block)), 0);
                                       return {};
                                     }));
  EXPECT_EQ(*range.begin<char>(), 'x');
}

void recovery_point(const TemporaryFolder&, const std::function<void()>& use) {
  EXPECT_TRUE(RecoveryPoint::run([&] { use(); }));
}

// A server's thread, which blocks all signals.
void thread_with_all_signals_blocked(const TemporaryFolder&, const std::function<void()>& use) {
  std::jthread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    use();
  });
}

const std::pair<const char*, MakePart> parts[] = {
    {"FileReader", file_reader},
    {"FileWriter", file_writer},
    {"PullStream", pull_stream},
    {"SourceStream", source_stream},
    {"SinkStream", sink_stream},
    {"RemapStreamReader", consumer<RemapStream>},
    {"RemapStreamWriter", producer<RemapStream>},
    {"RemapStreamReaderByMremap", consumer<RemapStream, Mechanism::mremap>},
    {"RemapStreamWriterByMremap", producer<RemapStream, Mechanism::mremap>},
    {"RemapStreamReaderShared", consumer<RemapStream, Mechanism::shared>},
    {"RemapStreamWriterShared", producer<RemapStream, Mechanism::shared>},
    {"GuardStreamReader", consumer<GuardStream>},
    {"GuardStreamWriter", producer<GuardStream>},
    {"Region", region},
    {"RewiredVector", vector},
};
const std::pair<const char*, Place> places[] = {
    {"InTheSinkOfASort", sink_of_a_sort},
    {"InTheSourceOfASort", source_of_a_sort},
    {"InTheSourceOfAStream", source_of_a_stream},
    {"InTheSinkOfAStream", sink_of_a_stream},
    {"InTheProducerOfAPullStream", producer_of_a_pull_stream},
    {"InTheHandlerOfARegion", handler_of_a_region},
    {"AtARecoveryPoint", recovery_point},
    {"WhereAllSignalsAreBlocked", thread_with_all_signals_blocked},
};

class Composition : public testing::TestWithParam<std::tuple<size_t, size_t>> {};

TEST_P(Composition, OnePartServesTheFaultsOfCodeThatAnotherPartCalls) {
  const auto [part_index, place_index] = GetParam();
  const TemporaryFolder folder;
  const Part part = parts[part_index].second(folder);
  places[place_index].second(folder, part.use);
  part.end();
}

INSTANTIATE_TEST_SUITE_P(Pairs, Composition,
                         testing::Combine(testing::Range(size_t{0}, std::size(parts)),
                                          testing::Range(size_t{0}, std::size(places))),
                         [](const auto& pair) {
                           return std::string(parts[std::get<0>(pair.param)].first) +
                                  places[std::get<1>(pair.param)].first;
                         });

}  // namespace
}  // namespace penstock
