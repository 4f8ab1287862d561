// Test labels: first

#include "penstock/file_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "base/bits.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "memory/stream/file_fixture.h"
#include "memory/stream/file_reader.h"
#include "memory/stream/file_writer.h"
#include "memory/stream/recovery.h"
#include "os/memory.h"
#include "test/support/injection.h"

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;
constexpr size_t sector = io::sector_bytes;

using FileReaderTest = FileStreamTest;
using FileWriterTest = FileStreamTest;

// Returns a random size, often one at which something begins or ends.
size_t interesting_size(Random& random) {
  const size_t edges[] = {0,
                          1,
                          sector - 1,
                          sector,
                          sector + 1,
                          block_bytes - 1,
                          block_bytes,
                          block_bytes + 1,
                          3 * block_bytes};
  const uint64_t pick = random.below(std::size(edges) + 6);
  return pick < std::size(edges) ? edges[pick] : random.below(40 * block_bytes);
}

io::Injection disturbed(uint64_t seed) {
  return {.seed = seed, .short_transfer = 0.15, .delay = 0.1, .delay_us_max = 300};
}

// Compares [at, at + bytes) of the stream block by block, upwards: a library's memcmp may touch the
// higher block first.
void expect_equal(const FileReaderCore& reader, const std::byte* model, uint64_t at,
                  uint64_t bytes) {
  while (bytes > 0) {
    const std::byte* from = reader.begin() + at;
    const auto in_block = reinterpret_cast<uintptr_t>(from) % block_bytes;
    const uint64_t step = std::min<uint64_t>(bytes, block_bytes - in_block);
    ASSERT_EQ(std::memcmp(from, model + at, step), 0) << "at " << at << ", " << step << " bytes";
    at += step;
    bytes -= step;
  }
}

void expect_zeros_behind_the_end(const FileReaderCore& reader) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(reader.end());
  const size_t rest = round_up(end, block_bytes) - end + os::page_bytes;
  const std::byte* zeros = reader.end();
  ASSERT_TRUE(
      std::all_of(zeros, zeros + rest, [](std::byte byte) { return byte == std::byte{0}; }));
}

// Stores upwards, block by block: the library's memcpy and memset may store the first bytes last,
// or the last ones first.
void store_upwards(std::byte* to, const std::vector<std::byte>& from) {
  for (size_t at = 0; at < from.size();) {
    const size_t in_block = reinterpret_cast<uintptr_t>(to + at) % block_bytes;
    const size_t step = std::min(from.size() - at, block_bytes - in_block);
    std::memcpy(to + at, &from[at], step);
    at += step;
  }
}
void store_ones(std::byte* to, size_t bytes) {
  store_upwards(to, std::vector<std::byte>(bytes, std::byte{1}));
}

// Steps forward, jumps forward, and comes back as far as allowed, until the end.
void walk(const FileReaderCore& reader, const std::vector<std::byte>& data, uint64_t offset,
          uint32_t comeback_blocks, Random& random) {
  const std::byte* model = data.data() + offset;
  const uint64_t bytes = reader.bytes();
  const uint64_t in_front = reinterpret_cast<uintptr_t>(reader.begin()) % block_bytes;
  auto block_of = [&](uint64_t at) { return (at + in_front) / block_bytes; };
  uint64_t at = 0, farthest = 0;
  while (at < bytes) {
    const uint64_t step = std::min<uint64_t>(
        1 + random.below(random.below(4) == 0 ? 3 * block_bytes : 5000), bytes - at);
    expect_equal(reader, model, at, step);
    if (testing::Test::HasFatalFailure()) return;
    at += step;
    farthest = std::max(farthest, block_of(at - 1));
    if (random.below(8) == 0) at += random.below(6 * block_bytes);
    if (random.below(3) == 0 && at <= bytes) {
      const uint64_t lowest_block = farthest - std::min<uint64_t>(farthest, comeback_blocks);
      const uint64_t lowest = lowest_block == 0 ? 0 : lowest_block * block_bytes - in_front;
      if (at > lowest) at = lowest + random.below(at - lowest);
    }
    if (random.below(60) == 0) return;  // not everybody reads to the end
  }
}

TEST_P(FileReaderTest, AnyRangeReadsAsTheFile) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    FileReaderCore::Options options{.read_ahead_blocks = static_cast<uint32_t>(1 + random.below(5)),
                                    .comeback_blocks = static_cast<uint32_t>(random.below(4))};
    // The pool sometimes has fewer blocks than the window: one for the data and the comeback blocks
    // are enough.
    const auto spare = static_cast<uint32_t>(random.below(options.read_ahead_blocks + 1));
    open(block_bytes, options.comeback_blocks + 1 + spare,
         random.below(2) == 0 ? disturbed(seed) : io::Injection{});
    if (IsSkipped()) return;
    const auto data = random_bytes(interesting_size(random), seed);
    io::File file = temporary(data);
    const uint64_t offset = random.below(3) == 0 ? 0 : random.below(data.size() + 1);
    const uint64_t bytes =
        random.below(2) == 0 ? data.size() - offset : random.below(data.size() - offset + 1);
    auto reader = FileReaderCore::open(*io_, file, offset, bytes, options);
    ASSERT_TRUE(reader) << reader.error().message();
    ASSERT_EQ((*reader)->bytes(), bytes);
    walk(**reader, data, offset, options.comeback_blocks, random);
    if (!HasFatalFailure()) expect_zeros_behind_the_end(**reader);
    ASSERT_FALSE(HasFatalFailure());
    EXPECT_TRUE((*reader)->status());
    reader->reset();
    expect_all_blocks_free();
  }
}

TEST_P(FileReaderTest, AnyOrderOfAccessIsRight) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 2; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    open(block_bytes, 2 + static_cast<uint32_t>(random.below(4)), disturbed(seed));
    if (IsSkipped()) return;
    const auto data = random_bytes(20 * block_bytes + 5, seed);
    io::File file = temporary(data);
    auto reader =
        FileReaderCore::open(*io_, file, 0, data.size(),
                             {.read_ahead_blocks = static_cast<uint32_t>(1 + random.below(3))});
    ASSERT_TRUE(reader);
    for (int i = 0; i < 400; ++i) {
      size_t at = random.below(data.size() - 8);
      if (i % 10 == 0) at = (1 + random.below(19)) * block_bytes - 4;  // reaches into two blocks
      ASSERT_EQ(std::memcmp((*reader)->begin() + at, &data[at], 8), 0) << at;
    }
    reader->reset();
    expect_all_blocks_free();
  }
}

TEST_P(FileReaderTest, ExtentsReadAsTheirConcatenation) {
  Random random(seed_of_run());
  open(block_bytes, 8, disturbed(seed_of_run()));
  if (IsSkipped()) return;
  const auto data = random_bytes(20 * block_bytes, 5);
  io::File files[2] = {temporary(data), temporary(data)};
  std::vector<Extent> extents;
  std::vector<std::byte> model;
  for (int i = 0; i < 30; ++i) {
    const auto bytes = static_cast<uint32_t>(i == 29 ? 777 : block_bytes);
    const uint64_t offset = random.below(19) * block_bytes + (i % 5 == 0 ? random.below(500) : 0);
    extents.push_back({&files[i % 2], offset, bytes});
    model.insert(model.end(), data.begin() + static_cast<ptrdiff_t>(offset),
                 data.begin() + static_cast<ptrdiff_t>(offset + bytes));
  }
  auto reader = FileReaderCore::open(*io_, extents, {});
  ASSERT_TRUE(reader) << reader.error().message();
  ASSERT_EQ((*reader)->bytes(), model.size());
  expect_equal(**reader, model.data(), 0, model.size());
  expect_zeros_behind_the_end(**reader);
  reader->reset();
  expect_all_blocks_free();
  std::swap(extents.front(), extents.back());
  EXPECT_FALSE(FileReaderCore::open(*io_, extents, {}));
}

TEST_P(FileReaderTest, ManyReadersShareOnePool) {
  Random random(seed_of_run());
  constexpr size_t readers_count = 6;
  open(block_bytes, readers_count * 3, disturbed(seed_of_run()));
  if (IsSkipped()) return;
  const auto data = random_bytes(30 * block_bytes, 6);
  io::File file = temporary(data);
  std::vector<std::unique_ptr<FileReaderCore>> readers;
  std::vector<uint64_t> at(readers_count, 0);
  for (size_t i = 0; i < readers_count; ++i) {
    auto reader = FileReaderCore::open(*io_, file, i * 1000, data.size() - i * 1000,
                                       {.read_ahead_blocks = 2});
    ASSERT_TRUE(reader);
    readers.push_back(std::move(*reader));
  }
  for (int step = 0; step < 1500; ++step) {
    const size_t i = random.below(readers_count);
    const uint64_t bytes = std::min<uint64_t>(random.below(20'000), readers[i]->bytes() - at[i]);
    expect_equal(*readers[i], data.data() + i * 1000, at[i], bytes);
    ASSERT_FALSE(HasFatalFailure());
    at[i] += bytes;
  }
  readers.clear();
  expect_all_blocks_free();
}

TEST_P(FileReaderTest, PrepareMakesAWindowReadyForASystemCall) {
  open(block_bytes, 6);
  if (IsSkipped()) return;
  const auto data = random_bytes(9 * block_bytes, 7);
  io::File file = temporary(data), copy = temporary();
  ASSERT_TRUE(copy.set_size(data.size()));
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(),
                                     {.read_ahead_blocks = 2, .comeback_blocks = 2});
  ASSERT_TRUE(reader);
  for (size_t at = 1000; at + 2 * block_bytes < data.size(); at += block_bytes) {
    const std::byte* from = (*reader)->begin() + at;
    (*reader)->prepare(from, 2 * block_bytes);
    ASSERT_EQ(::pwrite(copy.buffered_descriptor(), from, 2 * block_bytes, static_cast<off_t>(at)),
              static_cast<ssize_t>(2 * block_bytes));
  }
  std::vector<std::byte> back(data.size() - 1000 - block_bytes);
  ASSERT_TRUE(io::read_exactly(copy, 1000, back.data(), 7 * block_bytes));
  EXPECT_EQ(std::memcmp(back.data(), &data[1000], 7 * block_bytes), 0);
}

// Blocks that read-ahead brought in before the error are data or zeros, block by block; after the
// first zeros all are zeros.
TEST_P(FileReaderTest, AfterAnErrorTheRestIsZerosAndTheStatusSaysWhy) {
  for (uint64_t calls : {0, 1, 5, 9}) {
    open(block_bytes, 5,
         {.seed = 1, .error = EIO, .error_after = calls, .error_operation = io::Operation::read});
    if (IsSkipped()) return;
    const auto data = random_bytes(20 * block_bytes, 8);
    io::File file = temporary(data);
    auto reader = FileReaderCore::open(*io_, file, 0, data.size(), {.read_ahead_blocks = 3});
    ASSERT_TRUE(reader);
    size_t good_blocks = 0;
    for (size_t block = 0; block < 20; ++block) {
      const std::byte* from = (*reader)->begin() + block * block_bytes;
      const bool zeros = std::all_of(from, from + block_bytes,
                                     [](std::byte byte) { return byte == std::byte{0}; });
      if (zeros) continue;
      ASSERT_EQ(std::memcmp(from, &data[block * block_bytes], block_bytes), 0);
      ASSERT_EQ(good_blocks++, block) << "data after an error";
    }
    EXPECT_LE(good_blocks, calls);
    EXPECT_FALSE(HasFatalFailure());
    ASSERT_FALSE((*reader)->status());
    EXPECT_EQ((*reader)->status().error().system_errno, EIO);
    EXPECT_LE(pool_->blocks_committed(), 5u);
    reader->reset();
    expect_all_blocks_free();
  }
}

TEST_P(FileReaderTest, AFileThatIsShorterThanExpectedIsAnError) {
  open(block_bytes, 5);
  if (IsSkipped()) return;
  const auto data = random_bytes(3 * block_bytes + 100, 9);
  io::File file = temporary(data);
  auto reader = FileReaderCore::open(*io_, file, 0, data.size() + 1, {.read_ahead_blocks = 3});
  ASSERT_TRUE(reader);
  expect_equal(**reader, data.data(), 0, 3 * block_bytes);
  EXPECT_TRUE((*reader)->status());
  EXPECT_EQ(*((*reader)->begin() + 3 * block_bytes), std::byte{0});
  ASSERT_FALSE((*reader)->status());
  EXPECT_EQ((*reader)->status().error().code, ErrorCode::corrupt);
}

TEST_P(FileReaderTest, AnErrorEndsTheCodeAtItsRecoveryPoint) {
  open(block_bytes, 5,
       {.seed = 1, .error = EIO, .error_after = 4, .error_operation = io::Operation::read});
  if (IsSkipped()) return;
  const auto data = random_bytes(20 * block_bytes, 10);
  io::File file = temporary(data);
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(),
                                     {.read_ahead_blocks = 1, .policy = ErrorPolicy::recover});
  ASSERT_TRUE(reader);
  for (int round = 0; round < 3; ++round) {
    uint64_t read = 0;
    auto sum = RecoveryPoint::run([&] {
      uint64_t total = 0;
      for (const std::byte* at = (*reader)->begin(); at != (*reader)->end(); at += block_bytes) {
        total += static_cast<uint64_t>(*at);
        ++read;
      }
      return total;
    });
    ASSERT_FALSE(sum);
    EXPECT_EQ(sum.error().system_errno, EIO);
    // Threads may execute two reads in flight in either order.
    if (round == 0) {
      EXPECT_TRUE(read == 3 || read == 4) << read;
    } else {
      EXPECT_EQ(read, 0u) << "nothing is read again after an error";
    }
  }
  auto prepared =
      RecoveryPoint::run([&] { (*reader)->prepare((*reader)->begin() + 10 * block_bytes, 1); });
  EXPECT_FALSE(prepared);
  reader->reset();
  expect_all_blocks_free();
}

TEST_P(FileReaderTest, AnEmptyPoolIsAnErrorAndNotAHang) {
  open(block_bytes, 2);
  if (IsSkipped()) return;
  const auto data = random_bytes(4 * block_bytes, 11);
  io::File file = temporary(data);
  const pool::BlockId first = io_->take(), second = io_->take();
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(),
                                     {.read_ahead_blocks = 1, .policy = ErrorPolicy::recover});
  ASSERT_TRUE(reader);
  auto touched = RecoveryPoint::run([&] { return *(*reader)->begin(); });
  ASSERT_FALSE(touched);
  EXPECT_EQ(touched.error().code, ErrorCode::out_of_memory);
  reader->reset();
  io_->give(first);
  io_->give(second);
  expect_all_blocks_free();
}

TEST_P(FileReaderTest, StopEndsTheProcessWithTheMessage) {
  auto read_it = [&] {
    open(block_bytes, 4,
         {.seed = 1, .error = EIO, .error_after = 0, .error_operation = io::Operation::read});
    io::File file = temporary(random_bytes(100, 1));
    auto reader = FileReaderCore::open(*io_, file, 0, 100, {.policy = ErrorPolicy::stop});
    if ((*reader)->begin()[0] == std::byte{0}) ::_exit(0);
  };
  open(block_bytes, 4);
  if (IsSkipped()) return;
  close();
  EXPECT_DEATH(read_it(), "cannot read 100 bytes at offset 0: Input/output error");
}

class Pipe {
 public:
  explicit Pipe(const std::filesystem::path& directory) {
    const std::string name = (directory / "pipe").string();
    EXPECT_EQ(::mkfifo(name.c_str(), 0600), 0);
    const int keep_open = ::open(name.c_str(), O_RDWR);
    in = io::File::open_read(name).value();
    out = io::File::create_output(name).value();
    ::close(keep_open);
    std::filesystem::remove(name);
  }
  io::File in, out;
};

// ---- writing

// Fills every byte of the blocks it touches, in pieces, coming back within the window, and
// sometimes leaves out whole blocks. The model gets the same, with zeros for a block left out.
void fill_almost_in_order(std::byte* to, std::vector<std::byte>& model, uint32_t comeback_blocks,
                          Random& random) {
  const uint64_t in_front = reinterpret_cast<uintptr_t>(to) % block_bytes;
  auto block_begin = [&](uint64_t block) {
    return block == 0 ? 0 : block * block_bytes - in_front;
  };
  uint64_t first_open = 0;  // blocks below are full
  for (uint64_t block = 0; block_begin(block) < model.size();) {
    const bool leave_out = block == first_open && random.below(12) == 0 && comeback_blocks == 0;
    auto range_of = [&](uint64_t b) {
      return std::pair{block_begin(b), std::min<uint64_t>(block_begin(b + 1), model.size())};
    };
    if (leave_out) {
      const auto [from, end] = range_of(block);
      std::fill(model.begin() + static_cast<ptrdiff_t>(from),
                model.begin() + static_cast<ptrdiff_t>(end), std::byte{0});
      first_open = ++block;
      continue;
    }
    // Touch this block, and complete the blocks that are about to leave the window.
    const auto [from, end] = range_of(block);
    to[from + random.below(end - from)] = std::byte{1};
    for (; first_open + comeback_blocks <= block; ++first_open) {
      const auto [begin, stop] = range_of(first_open);
      for (uint64_t at = begin; at < stop;) {
        const uint64_t step = std::min<uint64_t>(1 + random.below(20'000), stop - at);
        std::memcpy(to + at, &model[at], step);
        at += step;
      }
    }
    ++block;
  }
  for (; block_begin(first_open) < model.size(); ++first_open) {
    const uint64_t begin = block_begin(first_open);
    const uint64_t stop = std::min<uint64_t>(block_begin(first_open + 1), model.size());
    std::memcpy(to + begin, &model[begin], stop - begin);
  }
}

TEST_P(FileWriterTest, StoresEndInTheFile) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(60); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto comeback_blocks = static_cast<uint32_t>(random.below(4));
    open(block_bytes, comeback_blocks + 1 + static_cast<uint32_t>(random.below(5)),
         random.below(2) == 0 ? disturbed(seed) : io::Injection{});
    if (IsSkipped()) return;
    const auto before = random_bytes(interesting_size(random), seed + 1);
    io::File file = temporary(before);
    auto model = random_bytes(interesting_size(random), seed + 2);
    const uint64_t offset = random.below(2) == 0 ? 0 : random.below(before.size() + 1);
    auto writer = FileWriterCore::open(
        *io_, file, offset, {.bytes_max = 40 * block_bytes, .comeback_blocks = comeback_blocks});
    ASSERT_TRUE(writer) << writer.error().message();
    fill_almost_in_order((*writer)->begin(), model, comeback_blocks, random);
    if (random.below(2) == 0) (*writer)->flush((*writer)->begin() + model.size());
    Status finished = (*writer)->finish(model.size());
    ASSERT_TRUE(finished) << finished.error().message();
    expect_all_blocks_free();

    auto expected = before;
    if (expected.size() < offset + model.size()) expected.resize(offset + model.size());
    std::copy(model.begin(), model.end(), expected.begin() + static_cast<ptrdiff_t>(offset));
    ASSERT_EQ(*file.size(), expected.size());
    std::vector<std::byte> back(expected.size());
    ASSERT_TRUE(io::read_exactly(file, 0, back.data(), back.size()));
    const auto differs =
        std::mismatch(back.begin(), back.end(), expected.begin()).first - back.begin();
    ASSERT_EQ(static_cast<size_t>(differs), back.size());
    writer->reset();
    expect_all_blocks_free();
  }
}

TEST_P(FileWriterTest, WithoutFinishTheBlocksComeBackAllTheSame) {
  open(block_bytes, 4, disturbed(1));
  if (IsSkipped()) return;
  io::File file = temporary();
  for (size_t bytes : {size_t{0}, size_t{1}, 9 * block_bytes}) {
    auto writer =
        FileWriterCore::open(*io_, file, 0, {.bytes_max = 10 * block_bytes, .comeback_blocks = 1});
    ASSERT_TRUE(writer);
    store_ones((*writer)->begin(), bytes);
    writer->reset();
    expect_all_blocks_free();
  }
}

TEST_P(FileWriterTest, TheErrorOfACallersSinkIsTheWriters) {
  open(block_bytes, 3);
  if (IsSkipped()) return;
  struct Full final : Sink {
    Status write(std::span<const std::byte>) override {
      if (++taken > 4) return penstock::failure(ErrorCode::out_of_space, "keep", "the far side");
      return {};
    }
    size_t taken = 0;
  };
  const io::File file = io::File::of_sink(std::make_shared<Full>(), "sink");
  auto writer = FileWriterCore::open(*io_, file, 0, {.bytes_max = 16 * block_bytes});
  ASSERT_TRUE(writer);
  store_ones((*writer)->begin(), 16 * block_bytes);
  Status finished = (*writer)->finish(16 * block_bytes);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(finished.error().subject, "the far side");
  expect_all_blocks_free();
}

TEST_P(FileWriterTest, AfterAnErrorWritesAreDroppedAndFinishReportsIt) {
  open(block_bytes, 3,
       {.seed = 1, .error = ENOSPC, .error_after = 2, .error_operation = io::Operation::write});
  if (IsSkipped()) return;
  io::File file = temporary();
  auto writer =
      FileWriterCore::open(*io_, file, 0, {.bytes_max = 50 * block_bytes, .comeback_blocks = 1});
  ASSERT_TRUE(writer);
  store_ones((*writer)->begin(), 50 * block_bytes);
  Status finished = (*writer)->finish(50 * block_bytes);
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().code, ErrorCode::out_of_space);
  EXPECT_EQ(finished.error().system_errno, ENOSPC);
  expect_all_blocks_free();
}

TEST(PublicFileWriter, FinishReportsAnErrorThatTheDiskReportsLate) {
  for (const bool sync : {true, false}) {
    const std::string path = testing::TempDir() + "penstock-late-" + std::to_string(::getpid());
    auto writer = FileWriter::open(path, {.sync = sync});
    ASSERT_TRUE(writer);
    *writer->begin<char>() = 'x';
    io::inject({.error = EIO,
                .error_after = 0,
                .error_operation = sync ? io::Operation::sync : io::Operation::close});
    const Status finished = writer->finish(1);
    io::inject({});
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().system_errno, EIO);
    EXPECT_NE(::access(path.c_str(), F_OK), 0);
  }
}

TEST_P(FileWriterTest, AnErrorEndsTheCodeAtItsRecoveryPoint) {
  open(block_bytes, 3,
       {.seed = 1, .error = EIO, .error_after = 2, .error_operation = io::Operation::write});
  if (IsSkipped()) return;
  io::File file = temporary();
  auto writer = FileWriterCore::open(
      *io_, file, 0, {.bytes_max = 50 * block_bytes, .policy = ErrorPolicy::recover});
  ASSERT_TRUE(writer);
  auto stored = RecoveryPoint::run([&] {
    for (size_t block = 0; block < 50; ++block)
      std::memset((*writer)->begin() + block * block_bytes, 1, block_bytes);
  });
  ASSERT_FALSE(stored);
  EXPECT_EQ(stored.error().system_errno, EIO);
  writer->reset();
  expect_all_blocks_free();
}

TEST_P(FileWriterTest, AnErrorThatNoPolicyCanMendStopsTheProcess) {
  auto store = [&](const auto& body) {
    open(block_bytes, 3);
    io::File file = temporary();
    auto writer = FileWriterCore::open(*io_, file, 0, {.bytes_max = 4 * block_bytes});
    body(**writer);
  };
  open(block_bytes, 3);
  if (IsSkipped()) return;
  close();
  EXPECT_DEATH(
      store([](FileWriterCore& writer) { writer.begin()[4 * block_bytes] = std::byte{1}; }),
      "beyond the stream's bytes_max");
  EXPECT_DEATH(store([](FileWriterCore& writer) {
                 (void)writer.finish(0);
                 writer.begin()[0] = std::byte{1};
               }),
               "after finish");
}

TEST_P(FileWriterTest, OnlyAPlainFileCanGoBack) {
  auto store = [&] {
    open(block_bytes, 3);
    auto file = io::File::create_output("/dev/null");
    auto writer = FileWriterCore::open(*io_, *file, 0, {.bytes_max = 4 * block_bytes});
    for (size_t block : {0, 1, 0}) (*writer)->begin()[block * block_bytes] = std::byte{1};
  };
  open(block_bytes, 3);
  if (IsSkipped()) return;
  close();
  EXPECT_DEATH(store(), "before the comeback window");
}

TEST_P(FileWriterTest, AFileCanBeWrittenInAnyOrder) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 4; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    open(block_bytes, 3 + static_cast<uint32_t>(random.below(4)), disturbed(seed));
    if (IsSkipped()) return;
    io::File file = temporary();
    const uint64_t offset = random.below(10'000);
    std::vector<std::byte> model(10 * block_bytes + random.below(block_bytes));
    auto writer = FileWriterCore::open(*io_, file, offset, {.bytes_max = model.size()});
    ASSERT_TRUE(writer);
    store_upwards((*writer)->begin(), model);
    for (int i = 0; i < 200; ++i) {
      const size_t at = random.below(model.size() - 8);
      const uint64_t word = random.next();
      std::memcpy(&model[at], &word, 8);
      std::memcpy((*writer)->begin() + at, &word, 8);  // may reach into two blocks
      if (i % 10 == 0) {
        const size_t bound = (1 + random.below(9)) * block_bytes - offset % sector - 4;
        std::memcpy(&model[bound], &word, 8);
        std::memcpy((*writer)->begin() + bound, &word, 8);
      }
    }
    Status finished = (*writer)->finish(model.size());
    ASSERT_TRUE(finished) << finished.error().message();
    expect_all_blocks_free();
    std::vector<std::byte> back(model.size());
    ASSERT_TRUE(io::read_exactly(file, offset, back.data(), back.size()));
    ASSERT_EQ(std::mismatch(back.begin(), back.end(), model.begin()).first - back.begin(),
              static_cast<ptrdiff_t>(back.size()));
  }
}

TEST_P(FileWriterTest, APipeGetsTheBytesInOrder) {
  open(block_bytes, 4, disturbed(seed_of_run()));
  if (IsSkipped()) return;
  Pipe pipe(folder_.path());
  const auto data = random_bytes(9 * block_bytes + 77, 13);
  std::vector<std::byte> got;
  std::jthread reader([&, in = std::move(pipe.in)] {
    std::byte piece[10'000];
    for (ssize_t bytes; (bytes = ::read(in.descriptor(), piece, sizeof piece)) > 0;)
      got.insert(got.end(), piece, piece + bytes);
  });
  auto writer = FileWriterCore::open(*io_, pipe.out, 0, {.bytes_max = data.size()});
  ASSERT_TRUE(writer);
  store_upwards((*writer)->begin(), data);
  ASSERT_TRUE((*writer)->finish(data.size()));
  writer->reset();
  {
    io::File closed = std::move(pipe.out);
  }
  reader.join();
  EXPECT_TRUE(got == data);
}

// Copies a file through two pointers of one thread, on one pool, by a library call that goes back
// and forth.
TEST_P(FileWriterTest, AReaderFeedsAWriter) {
  open(2 * MiB, 10);
  if (IsSkipped()) return;
  const auto data = random_bytes(40 * MiB + 123, 14);
  io::File file = temporary(data), copy = temporary();
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(), {.read_ahead_blocks = 3});
  auto writer = FileWriterCore::open(*io_, copy, 0, {.bytes_max = data.size()});
  ASSERT_TRUE(reader && writer);
  std::memcpy((*writer)->begin(), (*reader)->begin(), data.size());
  ASSERT_TRUE((*writer)->finish(data.size()));
  std::vector<std::byte> back(data.size());
  ASSERT_TRUE(io::read_exactly(copy, 0, back.data(), back.size()));
  EXPECT_TRUE(back == data);
  reader->reset();
  writer->reset();
  expect_all_blocks_free();
}

INSTANTIATE_TEST_SUITE_P(Kinds, FileReaderTest, all_kinds, name_of);
INSTANTIATE_TEST_SUITE_P(Kinds, FileWriterTest, all_kinds, name_of);

// ---- the public streams

class PublicFileStreamTest : public testing::Test {
 protected:
  std::string path(const char* name) const { return folder_ / name; }
  const TemporaryFolder folder_;
};

TEST_F(PublicFileStreamTest, AFileIsWrittenAndReadThroughPlainPointers) {
  constexpr uint64_t count = 3'000'001;
  {
    auto writer = FileWriter::open(path("numbers"), {.write_behind_blocks = 3});
    ASSERT_TRUE(writer) << writer.error().message();
    std::iota(writer->begin<uint64_t>(), writer->begin<uint64_t>() + count, uint64_t{7});
    EXPECT_FALSE(std::filesystem::exists(path("numbers")));
    ASSERT_TRUE(writer->finish(count * sizeof(uint64_t)));
  }
  EXPECT_EQ(std::filesystem::file_size(path("numbers")), count * 8);
  auto reader = FileReader::open(path("numbers"));
  ASSERT_TRUE(reader) << reader.error().message();
  FileReader moved = std::move(*reader);
  EXPECT_EQ(moved.bytes(), count * 8);
  EXPECT_EQ(moved.end<uint64_t>() - moved.begin<uint64_t>(), static_cast<ptrdiff_t>(count));
  uint64_t expected = 7;
  for (const uint64_t* at = moved.begin<uint64_t>(); at != moved.end<uint64_t>(); ++at)
    ASSERT_EQ(*at, expected++);
  EXPECT_TRUE(moved.status());
}

TEST_F(PublicFileStreamTest, EmptyAndMissingFiles) {
  {
    auto writer = FileWriter::open(path("empty"));
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->finish(0));
  }
  auto reader = FileReader::open(path("empty"));
  ASSERT_TRUE(reader);
  EXPECT_EQ(reader->begin(), reader->end());
  EXPECT_EQ(*reader->begin<char>(), 0);
  EXPECT_EQ(reader->bytes(), 0u);
  EXPECT_FALSE(FileReader::open(path("missing")));
  EXPECT_FALSE(FileReader::open(folder_.path()));
  EXPECT_FALSE(FileWriter::open(path("no/where")));
}

TEST_F(PublicFileStreamTest, AnAbandonedWriterLeavesNoFile) {
  {
    auto writer = FileWriter::open(path("file"));
    ASSERT_TRUE(writer);
    std::memset(writer->begin(), 'x', 10 * MiB);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

// ---- several threads, and blocks that stay

// A file of known words, and a reader with memory for a given number of blocks.
class SharedReaderTest : public FileStreamTest {
 protected:
  static constexpr uint64_t blocks = 40;
  static constexpr uint64_t words = blocks * block_bytes / 8 - 17;

  static uint64_t word_at(uint64_t index) { return mix64(index); }
  void open_reader(uint32_t memory_blocks, uint32_t read_ahead_blocks, uint32_t comeback_blocks,
                   const io::Injection& injection = {}) {
    std::vector<std::byte> data(words * 8);
    for (uint64_t i = 0; i < words; ++i) {
      const uint64_t word = word_at(i);
      std::memcpy(&data[8 * i], &word, 8);
    }
    open(block_bytes, memory_blocks, injection);
    if (IsSkipped()) return;
    file_ = temporary(data);
    auto reader = FileReaderCore::open(*io_, file_, 0, data.size(),
                                       {.read_ahead_blocks = read_ahead_blocks,
                                        .comeback_blocks = comeback_blocks,
                                        .policy = ErrorPolicy::stop,
                                        .keeps_blocks = true});
    ASSERT_TRUE(reader) << reader.error().message();
    reader_ = std::move(*reader);
  }
  // The page tables order what is mapped and unmapped. The thread sanitizer knows only locks and
  // atomics, and would see a race with the mmap() of the thread that unmapped a block.
  __attribute__((no_sanitize("thread"))) uint64_t load_word(uint64_t index) const {
    return reinterpret_cast<const volatile uint64_t*>(reader_->begin())[index];
  }
  void touch(uint64_t block) const {
    const uint64_t index = block * block_bytes / 8;
    EXPECT_EQ(load_word(index), word_at(index)) << block;
  }

  io::File file_;
  std::unique_ptr<FileReaderCore> reader_;
};

TEST_P(SharedReaderTest, BlocksInMemoryAreNotReadAgain) {
  open_reader(12, 1, 1);
  if (IsSkipped()) return;
  for (const uint64_t block : {0, 1, 2, 3, 4, 5, 6, 7, 3, 0, 7, 1}) touch(block);
  EXPECT_EQ(reader_->reads().blocks, 9u);  // and block 8 as read-ahead
  EXPECT_EQ(reader_->reads().again, 0u);
  // Blocks 9 to 12: the memory is full, and the block that was wanted longest ago is recycled.
  for (const uint64_t block : {9, 10, 11}) touch(block);
  EXPECT_EQ(reader_->reads().again, 0u);
  const uint64_t before = reader_->reads().blocks;
  touch(11), touch(10), touch(9);
  EXPECT_EQ(reader_->reads().blocks, before);
  touch(0);
  EXPECT_EQ(reader_->reads().again, 1u);
  reader_.reset();
  expect_all_blocks_free();
}

TEST_P(SharedReaderTest, AnyThreadsReadAnywhere) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(4); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto ahead = static_cast<uint32_t>(1 + random.below(2));
    const auto back = static_cast<uint32_t>(random.below(3));
    // Memory from too few blocks for the threads to more than the file has.
    const auto memory = static_cast<uint32_t>(ahead + back + 1 + random.below(50));
    open_reader(memory, ahead, back, disturbed(seed));
    if (IsSkipped() || HasFatalFailure()) return;
    std::atomic<uint64_t> wrong{0};
    const auto read = [&](uint64_t thread_seed, bool in_order) {
      Random here(thread_seed);
      uint64_t at = in_order ? 0 : here.below(words);
      for (int step = 0; step < 400; ++step) {
        const uint64_t end = std::min(words, at + here.below(2000));
        for (uint64_t i = at; i < end; i += 1 + here.below(200))
          wrong += load_word(i) != word_at(i);
        at = in_order ? end % words : here.below(words);
        if (here.below(10) == 0) {
          EXPECT_TRUE(reader_->status());
        }
      }
    };
    {
      std::vector<std::jthread> threads;
      for (uint64_t thread = 0; thread < 2 + seed % 3; ++thread)
        threads.emplace_back(read, seed * 100 + thread, thread % 2 == 0);
    }
    EXPECT_EQ(wrong, 0u);
    const auto reads = reader_->reads();
    EXPECT_LE(reads.blocks - reads.again, blocks);
    if (memory >= blocks + ahead) {
      EXPECT_EQ(reads.again, 0u);
    }
    reader_.reset();
    expect_all_blocks_free();
  }
}

TEST_P(SharedReaderTest, AnErrorMeetsEveryThread) {
  open_reader(4, 1, 1, {.error = EIO, .error_after = 6, .error_operation = io::Operation::read});
  if (IsSkipped()) return;
  reader_.reset();
  auto reader = FileReaderCore::open(*io_, file_, 0, words * 8,
                                     {.read_ahead_blocks = 1,
                                      .comeback_blocks = 1,
                                      .policy = ErrorPolicy::recover,
                                      .keeps_blocks = true});
  ASSERT_TRUE(reader) << reader.error().message();
  reader_ = std::move(*reader);
  std::atomic<int> told{0};
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&] {
        const Status status = RecoveryPoint::run([&] {
          for (uint64_t i = 0; i < words; i += 512) (void)load_word(i);
        });
        told += !status && status.error().code == ErrorCode::io;
      });
    }
  }
  EXPECT_EQ(told, 3);
  EXPECT_FALSE(reader_->status());
}

INSTANTIATE_TEST_SUITE_P(All, SharedReaderTest, all_kinds, name_of);

TEST_F(PublicFileStreamTest, ReadingAgainIsReportedOnce) {
  constexpr size_t block = 64 * KiB;
  std::ofstream(path("file")) << std::string(20 * block, 'x');
  drop_from_page_cache(path("file"));
  if (io::File::open_read(path("file"))->is_cached()) GTEST_SKIP() << "this folder is memory";
  std::vector<std::string> notices;
  const auto read_twice = [&](uint32_t memory_blocks) {
    auto reader = FileReader::open(
        path("file"), {.block_bytes = block,
                       .memory_blocks = memory_blocks,
                       .notice = [&](const std::string& notice) { notices.push_back(notice); }});
    ASSERT_TRUE(reader) << reader.error().message();
    for (int pass = 0; pass < 2; ++pass)
      ASSERT_EQ(std::count(reader->begin<char>(), reader->end<char>(), 'x'), 20 * block);
    EXPECT_EQ(reader->reads().again, memory_blocks == 21 ? 0u : 20u);
    FileReader moved = std::move(*reader);
  };
  read_twice(21);
  EXPECT_TRUE(notices.empty());
  read_twice(4);
  ASSERT_EQ(notices.size(), 1u);
  EXPECT_NE(notices[0].find("20 of the 40 blocks"), std::string::npos) << notices[0];
}

TEST_F(PublicFileStreamTest, AReaderWithoutANoticeReadsAgain) {
  constexpr size_t block = 64 * KiB;
  std::ofstream(path("file")) << std::string(8 * block, 'x');
  drop_from_page_cache(path("file"));
  if (io::File::open_read(path("file"))->is_cached()) GTEST_SKIP() << "this folder is memory";
  auto reader = FileReader::open(path("file"), {.block_bytes = block, .memory_blocks = 4});
  ASSERT_TRUE(reader) << reader.error().message();
  for (int pass = 0; pass < 2; ++pass)
    ASSERT_EQ(std::count(reader->begin<char>(), reader->end<char>(), 'x'), 8 * block);
  EXPECT_EQ(reader->reads().again, 8u);
}

TEST_F(PublicFileStreamTest, APipeIsReadByAnother) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  const int keep_open = ::open(path("pipe").c_str(), O_RDWR);
  auto reader = FileReader::open(path("pipe"));
  ::close(keep_open);
  ASSERT_FALSE(reader);
  EXPECT_EQ(reader.error().code, ErrorCode::unsupported);
  EXPECT_NE(reader.error().message().find("SourceStream"), std::string::npos);
}

// ---- accesses that break the rules meet the policy

uint8_t load(const std::byte* at) {
  return std::to_integer<uint8_t>(*const_cast<const volatile std::byte*>(at));
}

TEST_F(PublicFileStreamTest, ALoadFarBehindTheEndMeetsThePolicy) {
  for (const bool is_cached : {true, false}) {
    constexpr size_t block = 64 * KiB;
    std::ofstream(path("file")) << std::string(block + 1, 'x');
    if (!is_cached) drop_from_page_cache(path("file"));
    auto reader =
        FileReader::open(path("file"), {.block_bytes = block, .policy = ErrorPolicy::recover});
    ASSERT_TRUE(reader) << reader.error().message();
    const Status beyond = RecoveryPoint::run([&] { load(reader->begin() + 2 * block + 4096); });
    ASSERT_FALSE(beyond);
    EXPECT_NE(beyond.error().message().find("the data end at 65537 bytes"), std::string::npos)
        << beyond.error().message();
    EXPECT_EQ(load(reader->begin() + block), 'x');
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto read_beyond = [&] {
      auto stopping = FileReader::open(path("file"), {.block_bytes = block});
      load(stopping->begin() + 2 * block + 4096);
    };
    EXPECT_DEATH(read_beyond(), "cannot serve the consumer in block 2: the data end");
  }
}

TEST_F(PublicFileStreamTest, AStoreThatBreaksARuleMeetsThePolicy) {
  constexpr size_t block = 64 * KiB;
  auto writer = FileWriter::open(
      path("file"), {.bytes_max = 4 * block, .block_bytes = block, .policy = ErrorPolicy::recover});
  ASSERT_TRUE(writer) << writer.error().message();
  std::byte* const begin = writer->begin();
  const auto store = [](std::byte* at) {
    return RecoveryPoint::run([=] { *const_cast<volatile std::byte*>(at) = std::byte{1}; });
  };
  ASSERT_TRUE(store(begin));
  const Status beyond = store(begin + 4 * block);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::invalid_argument);
  ASSERT_TRUE(writer->finish(1));
  const Status late = store(begin + 2 * block);
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(std::filesystem::file_size(path("file")), 1u);
}

TEST_F(PublicFileStreamTest, FinishRefusesAnImpossibleEnd) {
  constexpr size_t block = 64 * KiB;
  auto writer = FileWriter::open(
      path("file"), {.bytes_max = 8 * block, .block_bytes = block, .comeback_blocks = 1});
  ASSERT_TRUE(writer) << writer.error().message();
  std::byte* const begin = writer->begin();
  std::memset(begin, 'x', 4 * block);
  for (const uint64_t end : {~uint64_t{0}, uint64_t{9} * block, uint64_t{block}}) {
    const Status refused = writer->finish(end);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument) << refused.error().message();
  }
  EXPECT_FALSE(std::filesystem::exists(path("file")));
  begin[4 * block] = std::byte{'y'};
  ASSERT_TRUE(writer->finish(4 * block + 1));
  EXPECT_EQ(std::filesystem::file_size(path("file")), 4 * block + 1);
  EXPECT_EQ(writer->finish(4 * block + 1).error().code, ErrorCode::invalid_argument);
}

}  // namespace
}  // namespace penstock::stream
