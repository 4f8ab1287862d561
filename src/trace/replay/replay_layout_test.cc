// Test labels: one-thread

#include "trace/replay/replay_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "io/file.h"
#include "penstock/base.h"

namespace penstock::trace {
namespace {

using io::sector_bytes;

ConvertedFile file_of(uint64_t used_bytes, FileKind kind = FileKind::regular) {
  ConvertedFile file;
  file.first_path = "/file";
  file.kind = kind;
  file.peak_bytes = used_bytes + 3 * GiB;  // reserved and never written: not laid out
  file.used_bytes = used_bytes;
  return file;
}

TEST(ReplayLayout, FilesAreContiguousApartAndAsLongAsTheirData) {
  for (const uint64_t seed : {1u, 2u, 3u, 4u}) {
    SCOPED_TRACE(seed);
    Random random(seed);
    std::vector<ConvertedFile> files;
    std::vector<TouchedRange> touched;
    for (int i = 0; i < 300; ++i) {
      const uint64_t peak = random.below(uint64_t{1} << (1 + random.below(33))) + 1;
      files.push_back(
          file_of(peak, random.below(10) == 0 ? FileKind::block_device : FileKind::regular));
      touched.emplace_back();
      if (random.below(5) == 0) continue;  // opened, and never accessed
      const uint64_t offset = random.below(peak);
      touched.back().add(offset, 1 + random.below(2 * peak));
      touched.back().add(random.below(peak), 1);
    }
    for (const Room room : {Room::peak, Room::touched}) {
      const auto layout = lay_out(files, touched, room);
      ASSERT_TRUE(layout);
      EXPECT_EQ(layout->bytes % sector_bytes, 0u);
      uint64_t last_end = 0;
      uint64_t in_it = 0;
      for (size_t i = 0; i < files.size(); ++i) {
        const FileExtent& extent = layout->extents[i];
        if (touched[i].end == 0) {
          EXPECT_EQ(extent.bytes, 0u);
          EXPECT_FALSE(layout->address(static_cast<uint32_t>(i), 0, 1));
          continue;
        }
        ++in_it;
        const bool part = room == Room::touched || files[i].kind == FileKind::block_device;
        EXPECT_EQ(extent.base % (extent.bytes >= MiB ? MiB : sector_bytes), 0u);
        EXPECT_LE(extent.skipped_bytes, touched[i].low);
        EXPECT_GE(extent.skipped_bytes + extent.bytes, touched[i].end);
        if (!part) {
          EXPECT_EQ(extent.skipped_bytes, 0u);
          EXPECT_EQ(extent.bytes,
                    round_up(std::max(files[i].used_bytes, touched[i].end), sector_bytes));
        } else {
          EXPECT_LT(extent.bytes, touched[i].end - touched[i].low + 2 * sector_bytes);
        }
        if (last_end != 0) {
          EXPECT_GT(extent.base, last_end) << "no gap before file " << i;
        }
        last_end = extent.base + extent.bytes;
        // Both ends have addresses, and the byte behind has none.
        const auto low = layout->address(static_cast<uint32_t>(i), touched[i].low, 1);
        const auto last = layout->address(static_cast<uint32_t>(i), touched[i].end - 1, 1);
        ASSERT_TRUE(low && last);
        EXPECT_EQ(*last - *low, touched[i].end - 1 - touched[i].low);
        EXPECT_FALSE(
            layout->address(static_cast<uint32_t>(i), extent.skipped_bytes + extent.bytes, 1));
      }
      EXPECT_EQ(layout->bytes, last_end);
      EXPECT_EQ(layout->files, in_it);
    }
  }
}

TEST(ReplayLayout, SmallFilesTakeLittleMoreThanTheirBytes) {
  const std::vector<ConvertedFile> files(100'000, file_of(100));
  std::vector<TouchedRange> touched(files.size());
  for (TouchedRange& of_file : touched) of_file.add(0, 100);
  const auto layout = lay_out(files, touched, Room::peak);
  ASSERT_TRUE(layout);
  EXPECT_LE(layout->bytes, 2 * sector_bytes * files.size());
}

TEST(ReplayLayout, SizesOfHostileTracesAreAnErrorAndDoNotWrapAround) {
  std::vector<ConvertedFile> files = {file_of(largest_offset), file_of(largest_offset),
                                      file_of(largest_offset)};
  std::vector<TouchedRange> touched(3);
  for (TouchedRange& of_file : touched) of_file.add(0, 10);
  const auto layout = lay_out(files, touched, Room::peak);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code, ErrorCode::unsupported);
  // Their touched ranges are small.
  const auto small = lay_out(files, touched, Room::touched);
  ASSERT_TRUE(small);
  EXPECT_LE(small->bytes, 6 * sector_bytes);
  touched[1].add(largest_offset - 1, 1);
  EXPECT_FALSE(lay_out(files, touched, Room::touched));
}

TEST(ReplayLayout, AnAddressWhoseSumsWouldOverflowIsRefused) {
  const std::vector<ConvertedFile> files = {file_of(8192)};
  std::vector<TouchedRange> touched(1);
  touched[0].add(4096, 100);
  const auto layout = lay_out(files, touched, Room::touched);
  ASSERT_TRUE(layout);
  EXPECT_TRUE(layout->address(0, 4096, 4096));
  EXPECT_FALSE(layout->address(0, 4096, 4097));
  EXPECT_FALSE(layout->address(0, 0, 1));
  EXPECT_FALSE(layout->address(0, 8192, ~uint64_t{0}));
  EXPECT_FALSE(layout->address(0, ~uint64_t{0}, 1));
  EXPECT_FALSE(layout->address(7, 0, 1));
}

}  // namespace
}  // namespace penstock::trace
