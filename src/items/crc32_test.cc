#include "items/crc32.h"

#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "base/random.h"

namespace penstock::items {
namespace {

uint32_t bit_by_bit(const std::byte* data, size_t bytes) {
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i) {
    crc ^= static_cast<uint32_t>(data[i]);
    for (int bit = 0; bit < 8; ++bit) crc = (crc & 1) != 0 ? (crc >> 1) ^ 0xedb88320u : crc >> 1;
  }
  return ~crc;
}

TEST(Crc32, MatchesTheStandardCheckValue) {
  const std::string_view text = "123456789";
  EXPECT_EQ(crc32(reinterpret_cast<const std::byte*>(text.data()), text.size()), 0xcbf43926u);
}

TEST(Crc32, MatchesTheDefinitionForEveryLength) {
  std::vector<std::byte> data(200);
  Random random(1);
  for (auto& byte : data) byte = static_cast<std::byte>(random.next());
  for (size_t begin = 0; begin < 8; ++begin) {
    for (size_t bytes = 0; bytes + begin <= data.size(); ++bytes) {
      ASSERT_EQ(crc32(data.data() + begin, bytes), bit_by_bit(data.data() + begin, bytes)) << bytes;
    }
  }
}

}  // namespace
}  // namespace penstock::items
