#include "memory/stream/cached_reader.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "memory/stream/file_fixture.h"
#include "memory/stream/recovery.h"
#include "penstock/file_stream.h"

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;

class CachedReaderTest : public testing::Test {
 protected:
  void open(const std::vector<std::byte>& data, uint32_t memory_blocks,
            ErrorPolicy policy = ErrorPolicy::zeros) {
    reader_.reset();
    std::ofstream(path_, std::ios::binary)
        .write(reinterpret_cast<const char*>(data.data()),
               static_cast<std::streamsize>(data.size()));
    auto file = io::File::open_read(path_, io::Caching::buffered);
    ASSERT_TRUE(file) << file.error().message();
    file_ = std::move(*file);
    auto reader = CachedReader::open(
        file_, data.size(),
        {.block_bytes = block_bytes, .memory_blocks = memory_blocks, .policy = policy});
    ASSERT_TRUE(reader) << reader.error().message();
    reader_ = std::move(*reader);
  }
  // Mappings of the file, as /proc/self/maps lists them.
  std::vector<std::string> mappings() const {
    std::ifstream maps("/proc/self/maps");
    std::vector<std::string> ours;
    for (std::string line; std::getline(maps, line);) {
      if (line.ends_with(path_)) ours.push_back(line);
    }
    return ours;
  }
  // Bytes of the file that are mapped.
  uint64_t mapped_bytes() const {
    uint64_t bytes = 0;
    for (const std::string& line : mappings()) {
      uint64_t begin = 0, end = 0;
      std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
      bytes += end - begin;
    }
    return bytes;
  }
  // The page tables order what is mapped and unmapped; the thread sanitizer does not know that.
  __attribute__((no_sanitize("thread"))) std::byte load(uint64_t at) const {
    return *const_cast<const volatile std::byte*>(reader_->begin() + at);
  }

  const TemporaryFolder folder_;
  const std::string path_ = folder_ / "file";
  io::File file_;
  std::unique_ptr<CachedReader> reader_;
};

// Otherwise each access would unmap one place and map another.
TEST_F(CachedReaderTest, PlacesThatAreReadInTurnStayMapped) {
  constexpr uint32_t places = 5;
  const auto data = random_bytes(100 * block_bytes, 7);
  open(data, 8);
  auto look = [&](uint64_t at) {
    for (uint64_t place = 0; place < places; ++place) {
      const uint64_t here = place * data.size() / places + at;
      ASSERT_EQ(load(here), data[here]);
    }
  };
  for (uint64_t at = 0; at < 100; ++at) look(at);
  const std::vector<std::string> before = mappings();
  EXPECT_GE(before.size(), places);
  EXPECT_LE(mapped_bytes(), 8 * block_bytes);
  look(100);
  EXPECT_EQ(mappings(), before);
}

TEST_F(CachedReaderTest, AReaderThatGoesOnGetsMoreAtATimeAndKeepsTheBlockThatItComesFrom) {
  const auto data = random_bytes(100 * block_bytes, 10);
  open(data, 8);
  for (const auto& [block, mapped] : {std::pair{40, 1}, {41, 3}, {43, 7}, {47, 8}, {54, 8}}) {
    ASSERT_EQ(load(block * block_bytes), data[block * block_bytes]);
    EXPECT_EQ(mapped_bytes(), mapped * block_bytes) << block;
  }
  const std::vector<std::string> before = mappings();
  ASSERT_EQ(load(54 * block_bytes - 1), data[54 * block_bytes - 1]);
  ASSERT_EQ(load(61 * block_bytes - 1), data[61 * block_bytes - 1]);
  EXPECT_EQ(mappings(), before);
}

TEST_F(CachedReaderTest, AnyOrderOfAccessIsRightWithinTheMemory) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(40); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const auto data = random_bytes(1 + random.below(60 * block_bytes), seed);
    const auto memory_blocks = static_cast<uint32_t>(2 + random.below(30));
    open(data, memory_blocks);
    for (int access = 0; access < 200; ++access) {
      const uint64_t at = random.below(data.size());
      const uint64_t bytes =
          std::min<uint64_t>(1 + random.below(3 * block_bytes), data.size() - at);
      ASSERT_EQ(std::memcmp(reader_->begin() + at, &data[at], bytes), 0) << at;
      ASSERT_LE(mapped_bytes(), memory_blocks * block_bytes);
    }
    const std::byte* const end = reader_->begin() + data.size();
    const size_t zeros = round_up(data.size(), block_bytes) - data.size() + os::page_bytes;
    ASSERT_TRUE(std::all_of(end, end + zeros, [](std::byte byte) { return byte == std::byte{0}; }));
    ASSERT_TRUE(reader_->status());
  }
}

TEST_F(CachedReaderTest, AnyThreadsReadAnywhere) {
  const auto data = random_bytes(40 * block_bytes + 5, 1);
  for (const uint32_t memory_blocks : {2, 5, 16}) {
    open(data, memory_blocks);
    std::vector<std::jthread> threads;
    for (uint64_t seed = 0; seed < 4; ++seed) {
      threads.emplace_back([&, seed] {
        Random random(seed);
        for (int access = 0; access < 2000; ++access) {
          const uint64_t at = random.below(data.size());
          EXPECT_EQ(load(at), data[at]);
        }
      });
    }
  }
}

TEST_F(CachedReaderTest, StoresStayWithTheConsumer) {
  const auto data = random_bytes(10 * block_bytes, 2);
  open(data, 4);
  auto* const begin = const_cast<std::byte*>(reader_->begin());
  begin[7] = std::byte{0};
  EXPECT_EQ(load(7), std::byte{0});
  load(5 * block_bytes), load(6 * block_bytes), load(7 * block_bytes), load(8 * block_bytes);
  EXPECT_EQ(load(7), data[7]) << "gone with its block";
  std::byte in_file{};
  EXPECT_EQ(::pread(file_.buffered_descriptor(), &in_file, 1, 7), 1);
  EXPECT_EQ(in_file, data[7]);
}

TEST_F(CachedReaderTest, AFileThatBecomesShorterReadsAsZerosAndTheStatusSaysSo) {
  const auto data = random_bytes(20 * block_bytes, 3);
  open(data, 16);
  EXPECT_EQ(load(9 * block_bytes), data[9 * block_bytes]);
  std::filesystem::resize_file(path_, 10 * block_bytes);
  EXPECT_EQ(load(8 * block_bytes), data[8 * block_bytes]);
  EXPECT_TRUE(reader_->status());
  EXPECT_EQ(load(11 * block_bytes), std::byte{0});
  ASSERT_FALSE(reader_->status());
  EXPECT_EQ(reader_->status().error().code, ErrorCode::corrupt);
  EXPECT_NE(reader_->status().error().message().find("shorter"), std::string::npos);
  EXPECT_EQ(load(10 * block_bytes - 1), data[10 * block_bytes - 1]) << "what lies in front stays";
  EXPECT_EQ(load(0), std::byte{0}) << "nothing more is read";
  EXPECT_EQ(load(data.size() - 1), std::byte{0});
}

TEST_F(CachedReaderTest, AFileThatBecomesShorterMeetsTheRecoveryPoint) {
  const auto data = random_bytes(20 * block_bytes, 4);
  open(data, 4, ErrorPolicy::recover);
  std::filesystem::resize_file(path_, 10 * block_bytes);
  for (int round = 0; round < 2; ++round) {
    const auto beyond = RecoveryPoint::run([&] { return load(15 * block_bytes); });
    ASSERT_FALSE(beyond);
    EXPECT_EQ(beyond.error().code, ErrorCode::corrupt);
  }
  EXPECT_FALSE(RecoveryPoint::run([&] { return load(block_bytes); })) << "nothing more is read";
}

TEST_F(CachedReaderTest, PrepareMakesAWindowReadyForASystemCall) {
  const auto data = random_bytes(20 * block_bytes + 100, 5);
  open(data, 4);
  const int out = ::open((folder_ / "copy").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  auto* const begin = const_cast<std::byte*>(reader_->begin());
  EXPECT_EQ(::pwrite(out, begin, block_bytes, 0), -1);
  for (size_t at = 0; at < data.size();) {
    const auto ready = reader_->prepare(begin + at, std::min(data.size() - at, 3 * block_bytes),
                                        fault::Access::read);
    ASSERT_TRUE(ready) << ready.error().message();
    ASSERT_EQ(::pwrite(out, begin + at, *ready, static_cast<off_t>(at)),
              static_cast<ssize_t>(*ready));
    at += *ready;
  }
  std::vector<std::byte> back(data.size());
  EXPECT_EQ(::pread(out, back.data(), back.size(), 0), static_cast<ssize_t>(back.size()));
  EXPECT_EQ(back, data);
  ::close(out);
  EXPECT_TRUE(reader_->prepare(begin + data.size(), 50, fault::Access::read));
  EXPECT_FALSE(reader_->prepare(begin + 21 * block_bytes + os::page_bytes, 1, fault::Access::read));
}

// The window reaches into a block that is not mapped, and the block before it was the next to go.
TEST_F(CachedReaderTest, PrepareKeepsAllOfTheWindow) {
  const auto data = random_bytes(20 * block_bytes, 8);
  open(data, 2);
  auto* const begin = const_cast<std::byte*>(reader_->begin());
  EXPECT_EQ(load(0), data[0]);
  EXPECT_EQ(load(9 * block_bytes), data[9 * block_bytes]);
  std::byte* const window = begin + block_bytes - 10;
  const auto ready = reader_->prepare(window, 20, fault::Access::read);
  ASSERT_TRUE(ready) << ready.error().message();
  ASSERT_EQ(*ready, 20u);
  const int out = ::open((folder_ / "copy").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  EXPECT_EQ(::pwrite(out, window, 20, 0), 20);
  ::close(out);
}

TEST_F(CachedReaderTest, PreparedBlocksAreNotTheNextToGo) {
  const auto data = random_bytes(40 * block_bytes, 11);
  open(data, 3);
  const auto is_mapped = [&](uint64_t block) {
    const auto at = reinterpret_cast<uint64_t>(reader_->begin() + block * block_bytes);
    return std::ranges::any_of(mappings(), [&](const std::string& line) {
      uint64_t begin = 0, end = 0;
      std::sscanf(line.c_str(), "%lx-%lx", &begin, &end);
      return begin <= at && at < end;
    });
  };
  for (const uint64_t block : {0, 9, 5}) load(block * block_bytes);
  auto* const begin = const_cast<std::byte*>(reader_->begin());
  ASSERT_TRUE(reader_->prepare(begin, 1, fault::Access::read));
  load(15 * block_bytes);
  EXPECT_FALSE(is_mapped(9));
  EXPECT_TRUE(is_mapped(0));
  for (const uint64_t block : {20, 25, 30}) load(block * block_bytes);
  EXPECT_FALSE(is_mapped(0));
  EXPECT_EQ(mapped_bytes(), 3 * block_bytes);
}

TEST_F(CachedReaderTest, BytesAppendedMeanwhileAreNotShown) {
  const auto data = random_bytes(3 * block_bytes + 100, 9);
  open(data, 2);
  std::ofstream(path_, std::ios::binary | std::ios::app) << std::string(5000, 'x');
  for (size_t at = data.size() - 200; at < data.size(); ++at) ASSERT_EQ(load(at), data[at]);
  for (size_t at = data.size(); at < round_up(data.size(), os::page_bytes); ++at)
    ASSERT_EQ(load(at), std::byte{0});
}

TEST_F(CachedReaderTest, APublicReaderMapsAFileThatIsCached) {
  const auto data = random_bytes(30 * block_bytes, 6);
  open(data, 4);
  if (!file_.is_cached()) GTEST_SKIP() << "the system does not tell (cachestat)";
  const auto reads_of = [&] {
    auto reader = FileReader::open(path_, {.block_bytes = block_bytes});
    EXPECT_TRUE(reader) << reader.error().message();
    EXPECT_TRUE(std::equal(reader->begin(), reader->end(), data.begin(), data.end()));
    return reader->reads().blocks;
  };
  EXPECT_EQ(reads_of(), 0u);
  // If faults are injected, the file is read by requests, which meet them.
  io::inject({.seed = 1, .short_transfer = 0.5});
  EXPECT_EQ(reads_of(), 30u);
  io::inject({});
  reader_.reset();
  drop_from_page_cache(path_);
  if (!file_.is_cached()) {
    EXPECT_EQ(reads_of(), 30u);
  }
}

}  // namespace
}  // namespace penstock::stream
