#include "io/extents.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::io {
namespace {

std::string folder() {
  return std::filesystem::temp_directory_path();
}

TEST(Extents, CoverWrittenDataAndLeaveHolesOut) {
  auto file = File::create_temporary(folder());
  ASSERT_TRUE(file.has_value());
  const std::vector<std::byte> data(MiB, std::byte{7});
  // The file has a megabyte, a hole of two, and a megabyte.
  ASSERT_TRUE(write_exactly(*file, 0, data.data(), data.size()));
  ASSERT_TRUE(write_exactly(*file, 3 * MiB, data.data(), data.size()));
  auto extents = extents_of(*file);
  if (!extents && extents.error().code == ErrorCode::unsupported) {
    GTEST_SKIP() << "this file system does not tell where a file lies";
  }
  ASSERT_TRUE(extents.has_value()) << extents.error().message();
  uint64_t bytes = 0;
  uint64_t last_end = 0;
  for (const Extent& extent : *extents) {
    EXPECT_GE(extent.offset, last_end);
    last_end = extent.offset + extent.bytes;
    EXPECT_TRUE(last_end <= MiB || extent.offset >= 3 * MiB) << extent.offset;
    bytes += extent.bytes;
  }
  EXPECT_EQ(bytes, 2 * MiB);
  EXPECT_EQ(last_end, 4 * MiB);
}

TEST(Extents, NeighboursOnTheDiskAreOne) {
  auto file = File::create_temporary(folder());
  ASSERT_TRUE(file.has_value());
  // More than one extent of the usual file systems holds, so that there is something to join.
  ASSERT_TRUE(file->preallocate(300 * MiB));
  auto extents = extents_of(*file);
  if (!extents && extents.error().code == ErrorCode::unsupported) {
    GTEST_SKIP() << "this file system does not tell where a file lies";
  }
  ASSERT_TRUE(extents.has_value()) << extents.error().message();
  if (extents->empty()) GTEST_SKIP() << "this file system does not reserve space";
  for (size_t i = 1; i < extents->size(); ++i) {
    const Extent& before = (*extents)[i - 1];
    const Extent& here = (*extents)[i];
    EXPECT_FALSE(before.offset + before.bytes == here.offset &&
                 before.place + before.bytes == here.place);
  }
}

TEST(Extents, AFileWithoutDataHasNone) {
  auto file = File::create_temporary(folder());
  ASSERT_TRUE(file.has_value());
  auto extents = extents_of(*file);
  if (!extents && extents.error().code == ErrorCode::unsupported) {
    GTEST_SKIP() << "this file system does not tell where a file lies";
  }
  ASSERT_TRUE(extents.has_value());
  EXPECT_TRUE(extents->empty());
}

TEST(Extents, IsUnsupportedIfTheFileSystemDoesNotTell) {
  auto file = File::open_read("/proc/self/status");
  ASSERT_TRUE(file.has_value());
  auto extents = extents_of(*file);
  ASSERT_FALSE(extents.has_value());
  EXPECT_EQ(extents.error().code, ErrorCode::unsupported);
}

}  // namespace
}  // namespace penstock::io
