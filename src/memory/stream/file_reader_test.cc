#include "memory/stream/file_reader.h"

#include "memory/fault/registry.h"
#include "memory/stream/file_fixture.h"
#include "memory/stream/file_writer.h"

// Tests of a reader over whole files are in file_stream_test.cc.

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;

using FileReaderTest = FileStreamTest;

// Another thread may just have mapped the block. But if a mapped block faults again and again, the
// reader cannot mend it and must decline, or the program would hang.
TEST_P(FileReaderTest, RepeatedFaultsInAMappedBlockAreDeclined) {
  open(block_bytes, 4);
  if (IsSkipped()) return;
  const auto data = random_bytes(2 * block_bytes, 1);
  const io::File file = temporary(data);
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(), {});
  ASSERT_TRUE(reader) << reader.error().message();
  auto* const address = const_cast<std::byte*>((*reader)->begin());
  EXPECT_EQ(std::memcmp(address, data.data(), 1), 0);
  const fault::Fault fault = {address, fault::Access::read, nullptr};
  for (uint32_t i = 0; i < idle_faults_max; ++i)
    ASSERT_EQ((*reader)->on_fault(fault), fault::Outcome::retry) << i;
  EXPECT_EQ((*reader)->on_fault(fault), fault::Outcome::decline);
}

// A pool whose blocks refuse to go home while `sticks` is set.
class StuckPool final : public pool::Pool {
 public:
  explicit StuckPool(pool::Pool& pool) : pool_(pool) {
    block_bytes_ = pool.block_bytes();
    blocks_max_ = pool.blocks_max();
    pages_ = pool.pages();
  }
  bool sticks = false;  // while they are used
  int unmap_error = 0;

  pool::Mechanism mechanism() const override { return pool_.mechanism(); }
  int fault_signal() const override { return pool_.fault_signal(); }
  Result<os::Reservation> reserve(uint64_t bytes) override { return pool_.reserve(bytes); }
  void release(os::Reservation& range) override { pool_.release(range); }
  pool::BlockId take() noexcept override { return pool_.take(); }
  void give(pool::BlockId block) noexcept override { pool_.give(block); }
  std::byte* home(pool::BlockId block) const noexcept override { return pool_.home(block); }
  int map(pool::BlockId block, std::byte* to) noexcept override { return pool_.map(block, to); }
  int remap(pool::BlockId block, std::byte* from, std::byte* to) noexcept override {
    return pool_.remap(block, from, to);
  }
  int unmap(pool::BlockId block, std::byte* from) noexcept override {
    return unmap_error != 0 ? unmap_error : pool_.unmap(block, from);
  }
  int unmap_in_use(pool::BlockId block, std::byte* from, Protection protection) noexcept override {
    return sticks ? ENOMEM : pool_.unmap_in_use(block, from, protection);
  }
  int flush_unmaps() noexcept override { return pool_.flush_unmaps(); }
  int free_page_tables(std::span<std::byte> piece) noexcept override {
    return pool_.free_page_tables(piece);
  }
  uint32_t blocks_free() const noexcept override { return pool_.blocks_free(); }
  uint32_t blocks_committed() const noexcept override { return pool_.blocks_committed(); }
  void trim() noexcept override { pool_.trim(); }

 private:
  pool::Pool& pool_;
};

// Such a block may be inaccessible. A consumer that comes back gets an error, not endless faults.
TEST_P(FileReaderTest, ABlockThatCannotBeUnmappedIsAnError) {
  open(block_bytes, 3);
  if (IsSkipped()) return;
  const auto data = random_bytes(4 * block_bytes, 1);
  const io::File file = temporary(data);
  StuckPool pool(*pool_);
  BlockIo io(pool, *engine_);
  auto reader = FileReaderCore::open(io, file, 0, data.size(),
                                     {.read_ahead_blocks = 1, .keeps_blocks = true});
  ASSERT_TRUE(reader) << reader.error().message();
  const auto read_block = [&](size_t block) {
    auto* const address = const_cast<std::byte*>((*reader)->begin()) + block * block_bytes;
    return (*reader)->prepare(address, 1, fault::Access::read);
  };
  EXPECT_TRUE(read_block(0));
  EXPECT_TRUE(read_block(1));
  // The reader wants the first block's memory for read-ahead, and goes on without it.
  pool.sticks = true;
  EXPECT_TRUE(read_block(2));
  const auto again = read_block(0);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().system_errno, ENOMEM);
}

TEST_P(FileReaderTest, ABlockThatCannotBeUnmappedIsLostWithItsStream) {
  open(block_bytes, 4);
  if (IsSkipped()) return;
  const auto data = random_bytes(2 * block_bytes, 1);
  const io::File file = temporary(data), other = temporary();
  StuckPool pool(*pool_);
  BlockIo io(pool, *engine_);
  {
    auto reader = FileReaderCore::open(io, file, 0, data.size(), {});
    auto writer = FileWriterCore::open(io, other, 0, {.bytes_max = data.size()});
    ASSERT_TRUE(reader && writer);
    EXPECT_EQ(*(*reader)->begin(), data[0]);
    *(*writer)->begin() = std::byte(1);
    pool.unmap_error = EBUSY;
    const Status finished = (*writer)->finish(1);
    ASSERT_FALSE(finished);
    EXPECT_EQ(finished.error().system_errno, EBUSY);
  }
  EXPECT_LE(pool.blocks_free(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FileReaderTest, all_kinds, name_of);

}  // namespace
}  // namespace penstock::stream
