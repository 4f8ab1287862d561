#pragma once

// Shared parts of the tests of file streams: a pool and an engine of each kind, and files with
// known contents.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "base/trials.h"
#include "io/engine.h"
#include "io/file.h"
#include "memory/pool/pool.h"
#include "memory/stream/block_io.h"
#include "test/support/injection.h"

namespace penstock::stream {

inline std::vector<std::byte> random_bytes(size_t bytes, uint64_t seed) {
  std::vector<std::byte> data(bytes);
  Random random(seed);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word =
        random.next() |
        0x0101010101010101u;  // no byte is zero, unlike the memory that must not show through
    std::memcpy(&data[i], &word, std::min<size_t>(8, bytes - i));
  }
  return data;
}

// Drops the file's pages, so that only its disk has them. (Not if its file system is memory.)
inline void drop_from_page_cache(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::fsync(fd), 0);
  EXPECT_EQ(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(fd);
}

using Kinds = std::tuple<pool::Mechanism, io::EngineKind>;

// Fixture over mechanisms of pools (those of this kernel) and kinds of engines.
class FileStreamTest : public testing::TestWithParam<Kinds> {
 protected:
  ~FileStreamTest() override { close(); }

  // REQUIRES: no stream is open.
  void open(size_t block_bytes, uint32_t blocks, const io::Injection& injection = {}) {
    close();
    io::inject(injection);
    auto pool = pool::Pool::open(
        {.block_bytes = block_bytes, .blocks_max = blocks, .mechanism = std::get<0>(GetParam())});
    if (!pool) GTEST_SKIP() << pool.error().message();
    auto engine = io::Engine::open({.depth = 16, .kind = std::get<1>(GetParam())});
    if (!engine) GTEST_SKIP() << engine.error().message();
    pool_ = std::move(*pool);
    engine_ = std::move(*engine);
    io_ = std::make_unique<BlockIo>(*pool_, *engine_);
  }
  void close() {
    io_.reset();
    engine_.reset();
    pool_.reset();
    io::inject({});
  }
  io::File temporary() {
    auto file = io::File::create_temporary(folder_.path());
    EXPECT_TRUE(file);
    return std::move(*file);
  }
  io::File temporary(const std::vector<std::byte>& contents) {
    const io::Injection injection = io::injected();
    io::inject({});
    io::File file = temporary();
    EXPECT_TRUE(io::write_exactly(file, 0, contents.data(), contents.size()));
    io::inject(injection);
    return file;
  }
  void expect_all_blocks_free() {
    io_->wait_writes();
    EXPECT_EQ(pool_->blocks_free(), pool_->blocks_max());
  }

  const TemporaryFolder folder_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<io::Engine> engine_;
  std::unique_ptr<BlockIo> io_;
};

inline std::string name_of(const testing::TestParamInfo<Kinds>& kinds) {
  const auto [mechanism, engine] = kinds.param;
  return std::string(pool::name_of(mechanism)) +
         (engine == io::EngineKind::threads ? "_threads" : "_io_uring");
}

inline const auto all_kinds = testing::Combine(
    testing::Values(pool::Mechanism::mremap, pool::Mechanism::uffd_move, pool::Mechanism::shared),
    testing::Values(io::EngineKind::io_uring, io::EngineKind::threads));

}  // namespace penstock::stream
