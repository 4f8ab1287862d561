#include "stream/file_reader.h"

#include "fault/registry.h"
#include "stream/file_fixture.h"

// What a reader does with whole files: file_stream_test.cc.

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;

using FileReaderTest = FileStreamTest;

// Another thread may just have brought the block. But what faults again and again is not the
// reader's to mend, and the program would hang.
TEST_P(FileReaderTest, AFaultInABlockThatIsThereIsNotOursAfterAWhile) {
  open(block_bytes, 4);
  if (IsSkipped()) return;
  const auto data = random_bytes(2 * block_bytes, 1);
  const file::File file = temporary(data);
  auto reader = FileReaderCore::open(*io_, file, 0, data.size(), {});
  ASSERT_TRUE(reader) << reader.error().message();
  auto* const address = const_cast<std::byte*>((*reader)->begin());
  EXPECT_EQ(std::memcmp(address, data.data(), 1), 0);
  const fault::Fault fault = {address, fault::Access::read, nullptr};
  for (uint32_t i = 0; i < idle_faults_max; ++i)
    ASSERT_EQ((*reader)->on_fault(fault), fault::Outcome::retry) << i;
  EXPECT_EQ((*reader)->on_fault(fault), fault::Outcome::decline);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FileReaderTest, all_kinds, name_of);

}  // namespace
}  // namespace penstock::stream
