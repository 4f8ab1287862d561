#include "memory/stream/block_io.h"

#include <cerrno>

#include "memory/stream/file_fixture.h"

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;

using BlockIoTest = FileStreamTest;

TEST_P(BlockIoTest, WrittenBlocksComeBackAndCanBeRead) {
  open(block_bytes, 4,
       {.seed = seed_of_run(), .short_transfer = 0.2, .delay = 0.2, .delay_us_max = 500});
  if (IsSkipped()) return;
  io::File file = temporary();
  const auto data = random_bytes(32 * block_bytes, 1);
  int error = 0;
  for (size_t i = 0; i < 32; ++i) {
    const pool::BlockId block = io_->take();  // waits: the pool has only four
    ASSERT_NE(block, pool::no_block);
    std::memcpy(pool_->home(block), &data[i * block_bytes], block_bytes);
    io_->write(block, file, i * block_bytes + 100, 100, block_bytes - 100, &error);
  }
  io_->wait_writes(&error);
  EXPECT_EQ(error, 0);
  expect_all_blocks_free();
  for (size_t i = 0; i < 32; ++i) {
    const pool::BlockId block = io_->take();
    io_->read(block, file, i * block_bytes, block_bytes);
    ASSERT_EQ(io_->wait_read(block), static_cast<int64_t>(block_bytes));
    EXPECT_TRUE(io_->is_read(block));
    EXPECT_EQ(
        std::memcmp(pool_->home(block) + 100, &data[i * block_bytes + 100], block_bytes - 100), 0);
    io_->give(block);
  }
  expect_all_blocks_free();
}

TEST_P(BlockIoTest, TakeDoesNotWaitForReads) {
  open(block_bytes, 2);
  if (IsSkipped()) return;
  io::File file = temporary(random_bytes(2 * block_bytes, 2));
  const pool::BlockId first = io_->take(), second = io_->take();
  io_->read(first, file, 0, block_bytes);
  io_->read(second, file, block_bytes, 2 * block_bytes - block_bytes);
  EXPECT_EQ(io_->take(), pool::no_block);
  EXPECT_EQ(io_->wait_read(second), static_cast<int64_t>(block_bytes));
  EXPECT_EQ(io_->wait_read(first), static_cast<int64_t>(block_bytes));
  io_->give(first);
  io_->give(second);
}

TEST_P(BlockIoTest, AWriteErrorStaysInItsSlotAndTheBlocksComeBack) {
  open(block_bytes, 3,
       {.seed = 1, .error = ENOSPC, .error_after = 4, .error_operation = io::Operation::write});
  if (IsSkipped()) return;
  io::File file = temporary();
  int early = 0, late = 0;
  for (int i = 0; i < 12; ++i) {
    const pool::BlockId block = io_->take();
    ASSERT_NE(block, pool::no_block);
    std::memset(pool_->home(block), i, block_bytes);
    io_->write(block, file, static_cast<uint64_t>(i) * block_bytes, 0, block_bytes,
               i < 3 ? &early : &late);
    if (i == 2) io_->wait_writes(&early);
  }
  io_->wait_writes(&late);
  EXPECT_EQ(early, 0);
  EXPECT_EQ(late, ENOSPC);
  expect_all_blocks_free();
}

TEST_P(BlockIoTest, ReadsThatNobodyWaitsForAreWaitedForAtTheEnd) {
  open(block_bytes, 4, {.seed = 1, .delay = 1, .delay_us_max = 2000});
  if (IsSkipped()) return;
  io::File file = temporary(random_bytes(4 * block_bytes, 3));
  for (uint64_t i = 0; i < 4; ++i) io_->read(io_->take(), file, i * block_bytes, block_bytes);
  io_.reset();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

TEST_P(BlockIoTest, BlocksOfUnawaitedReadsAreUsedAgain) {
  open(block_bytes, 3);
  if (IsSkipped()) return;
  const auto data = random_bytes(2 * block_bytes, 6);
  io::File file = temporary(data);
  const auto whole = static_cast<int64_t>(block_bytes);
  for (int round = 0; round < 20; ++round) {
    const pool::BlockId first = io_->take(), second = io_->take(), third = io_->take();
    for (const pool::BlockId block : {first, second}) io_->read(block, file, 0, block_bytes);
    do {
      io_->read(third, file, 0, block_bytes);
      ASSERT_EQ(io_->wait_read(third), whole);
    } while (!io_->is_read(first) || !io_->is_read(second));
    io_->read(first, file, block_bytes, block_bytes);
    ASSERT_EQ(io_->wait_read(first), whole);
    EXPECT_EQ(std::memcmp(pool_->home(first), &data[block_bytes], block_bytes), 0);
    int error = 0;
    for (const pool::BlockId block : {second, third})
      io_->write(block, file, 0, 0, block_bytes, &error);
    io_->wait_writes(&error);
    EXPECT_EQ(error, 0);
    io_->give(first);
    expect_all_blocks_free();
  }
}

TEST_P(BlockIoTest, RequestsOfAnotherOwnerDoNotEndTheWaitForABlock) {
  open(block_bytes, 2);
  if (IsSkipped()) return;
  const auto data = random_bytes(block_bytes, 5);
  io::File file = temporary(data);
  BlockIo other(*pool_, *engine_);
  for (int round = 0; round < 20; ++round) {
    const pool::BlockId read = other.take(), written = io_->take();
    int error = 0;
    other.read(read, file, 0, block_bytes);
    io_->write(written, file, block_bytes, 0, block_bytes, &error);
    const pool::BlockId again = io_->take();
    ASSERT_EQ(again, written);
    EXPECT_EQ(error, 0);
    ASSERT_EQ(other.wait_read(read), static_cast<int64_t>(block_bytes));
    EXPECT_EQ(std::memcmp(pool_->home(read), data.data(), block_bytes), 0);
    other.give(read);
    io_->give(again);
  }
}

// The system may hold the pages of a request for a moment after it has ended; UFFDIO_MOVE then
// refuses them.
TEST_P(BlockIoTest, ABlockCanBeMappedAsSoonAsItsRequestHasEnded) {
  open(2 * MiB, 4);
  if (IsSkipped()) return;
  const auto data = random_bytes(4 * 2 * MiB, 4);
  io::File file = temporary(data);
  auto range = pool_->reserve(4 * 2 * MiB);
  ASSERT_TRUE(range);
  for (int round = 0; round < 100; ++round) {
    for (uint64_t i = 0; i < 4; ++i)
      io_->read(static_cast<pool::BlockId>(io_->take()), file, i * 2 * MiB, 2 * MiB);
    for (pool::BlockId block = 0; block < 4; ++block) {
      ASSERT_EQ(io_->wait_read(block), static_cast<int64_t>(2 * MiB));
      std::byte* to = range->begin() + block * 2 * MiB;
      ASSERT_EQ(pool_->map(block, to), 0) << "round " << round;
      ASSERT_EQ(pool_->unmap(block, to), 0);
      io_->give(block);
    }
  }
  pool_->release(*range);
}

INSTANTIATE_TEST_SUITE_P(Kinds, BlockIoTest, all_kinds, name_of);

}  // namespace
}  // namespace penstock::stream
