#include "files/sort/spill/packed_numbers.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "files/sort/sort_fixture.h"
#include "files/sort/spill/spill_codec.h"
#include "io/file.h"

namespace penstock::external {
namespace {

constexpr size_t block_bytes = 64 * KiB;

// A block, and room behind it that may be overwritten.
std::vector<std::byte> random_block(Random& random, size_t word_bytes, size_t columns) {
  std::vector<std::byte> block(block_bytes + packed_group_bytes);
  uint64_t shared[2], mask[2];
  for (size_t c = 0; c < columns; ++c) {
    shared[c] = random.next();
    const uint64_t bits = random.below(8 * word_bytes + 1);
    mask[c] = 0;
    if (bits > 0) mask[c] = ~uint64_t{0} >> (64 - bits) << random.below(8 * word_bytes - bits + 1);
  }
  for (size_t at = 0; at < block.size(); at += word_bytes) {
    const size_t c = at / word_bytes % columns;
    const uint64_t word = (shared[c] & ~mask[c]) | (random.next() & mask[c]);
    std::memcpy(block.data() + at, &word, word_bytes);
  }
  return block;
}

// Number of bits from the lowest to the highest one that differs, summed over the columns.
uint64_t bits_that_differ(const std::vector<std::byte>& block, size_t word_bytes, size_t columns,
                          size_t bytes) {
  uint64_t first[2] = {}, differs[2] = {}, bits = 0;
  for (size_t at = 0; at < bytes; at += word_bytes) {
    const size_t c = at / word_bytes % columns;
    uint64_t word = 0;
    std::memcpy(&word, block.data() + at, word_bytes);
    if (at < columns * word_bytes) first[c] = word;
    differs[c] |= word ^ first[c];
  }
  for (size_t c = 0; c < columns; ++c) {
    unsigned high = 0, low = 64;
    for (unsigned bit = 0; bit < 64; ++bit) {
      if ((differs[c] >> bit & 1) == 0) continue;
      high = bit + 1;
      low = std::min(low, bit);
    }
    bits += high > low ? high - low : 0;
  }
  return bits;
}

TEST(PackedNumbers, RestoreTheNumbersAndTakeOnlyTheBitsThatDiffer) {
  Random random(seed_of_run());
  for (uint64_t i = 0; i < trials(2000); ++i) {
    const size_t item_bytes = size_t{4} << random.below(3);
    const size_t word_bytes = std::min<size_t>(item_bytes, 8);
    const size_t columns = item_bytes / word_bytes;
    const size_t items = random.below(4) == 0 ? block_bytes / item_bytes
                                              : 1 + random.below(block_bytes / item_bytes);
    const size_t bytes = items * item_bytes;
    SCOPED_TRACE(testing::Message() << items << " items of " << item_bytes);
    std::vector<std::byte> block = random_block(random, word_bytes, columns);
    const std::vector<std::byte> before = block;
    const uint64_t bits = bits_that_differ(block, word_bytes, columns, bytes);
    const size_t groups = ceil_div(bytes, 64 * columns);
    const size_t least_bytes = ceil_div(groups * bits, 8 * word_bytes) * 64 + columns * 16;
    const size_t packed = pack_numbers(item_bytes, block.data(), bytes);
    if (round_up(least_bytes, io::sector_bytes) >= bytes) {
      ASSERT_EQ(packed, 0u);
      ASSERT_EQ(std::memcmp(block.data(), before.data(), bytes), 0);
      continue;
    }
    ASSERT_EQ(packed, least_bytes);
    // A block that is read back has nothing of the former contents behind its bytes.
    std::memset(block.data() + packed, 0xa5, block.size() - packed);
    ASSERT_TRUE(unpack_numbers(item_bytes, block.data(), packed, bytes));
    ASSERT_EQ(std::memcmp(block.data(), before.data(), bytes), 0);
    const size_t written = round_up(bytes, 64 * columns);
    for (size_t at = written; at < block.size(); ++at) ASSERT_EQ(block[at], std::byte{0xa5});
  }
}

TEST(PackedNumbers, ABlockOfAnotherLengthIsRefused) {
  Random random(seed_of_run());
  std::vector<std::byte> block(block_bytes + packed_group_bytes);
  for (size_t at = 0; at < block_bytes; at += 8) {
    const uint64_t word = random.below(1 << 20);
    std::memcpy(block.data() + at, &word, 8);
  }
  const size_t packed = pack_numbers(8, block.data(), block_bytes);
  ASSERT_GT(packed, 0u);
  for (const size_t wrong : {size_t{0}, size_t{15}, packed - 64, packed + 64})
    EXPECT_FALSE(unpack_numbers(8, block.data(), wrong, block_bytes));
  EXPECT_FALSE(unpack_numbers(8, block.data(), packed, block_bytes / 2));
  EXPECT_FALSE(unpack_numbers(16, block.data(), packed, block_bytes));
}

TEST(PackedNumbers, DamagedBlocksNeverWriteElsewhere) {
  Random random(seed_of_run());
  for (int i = 0; i < 300; ++i) {
    const size_t item_bytes = size_t{4} << random.below(3);
    std::vector<std::byte> block =
        random_block(random, std::min<size_t>(item_bytes, 8), item_bytes > 8 ? 2 : 1);
    const size_t packed = pack_numbers(item_bytes, block.data(), block_bytes);
    if (packed == 0) continue;
    for (int j = 0; j < 3; ++j)
      block[packed - 1 - random.below(std::min<size_t>(packed, 64))] =
          static_cast<std::byte>(random.next());
    std::memset(block.data() + block_bytes, 0xa5, packed_group_bytes);
    (void)unpack_numbers(item_bytes, block.data(), packed, block_bytes);
    for (size_t at = block_bytes; at < block.size(); ++at) ASSERT_EQ(block[at], std::byte{0xa5});
  }
}

class PackingTest : public SortFixture {};

// The values of pairs are sampled all over the part of the input that a bucket's block comes from:
// those at the beginning may be unlike the others.
TEST_F(PackingTest, ATrialKnowsTheValuesOfAllOfTheInput) {
  SortOptions chosen = options({items::Type::kv64, 16});
  Context context(chosen);
  for (const bool ends_small : {true, false}) {
    Random random(seed_of_run());
    std::vector<uint64_t> words(2 * 64 * KiB);
    std::vector<uint64_t> keys;
    for (size_t i = 0; i < words.size(); i += 2) {
      words[i] = random.below(1 << 16);
      words[i + 1] = ends_small || i < words.size() / 2 ? random.below(256) : random.next();
      keys.push_back(words[i]);
    }
    write(path("in"), {reinterpret_cast<const char*>(words.data()), words.size() * 8});
    const auto file = io::File::open_read(path("in"));
    ASSERT_TRUE(file) << file.error().message();
    const std::vector<files::Piece> pieces = {{.file = &*file, .bytes = words.size() * 8}};
    const auto trial = try_packing(context, pieces, keys, 16, 4096);
    ASSERT_TRUE(trial) << trial.error().message();
    // 12 of 128 bits differ in the keys, and 8 or 64 in the values.
    EXPECT_NEAR(trial->ratio, ends_small ? 20 / 128. : 76 / 128., 2 / 128.);
    EXPECT_GT(trial->compress_bytes_per_s, 1e6);
    EXPECT_GT(trial->inflate_bytes_per_s, 1e6);
  }
}

}  // namespace
}  // namespace penstock::external
