#include "generate/generator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "generate/lines.h"
#include "generate/sort_benchmark.h"
#include "items/keys/codec.h"

namespace penstock::generate {

using namespace items;
namespace {

using D = Distribution;

constexpr Type all_types[] = {Type::u32, Type::u64,  Type::i32,    Type::i64,  Type::f32,
                              Type::f64, Type::kv64, Type::record, Type::lines};
constexpr Type numeric_types[] = {Type::u32, Type::u64, Type::i32, Type::i64,
                                  Type::f32, Type::f64, Type::kv64};

GeneratorOptions options_of(Type type, Distribution distribution, uint64_t count,
                            uint64_t seed = 1) {
  GeneratorOptions options;
  options.format = *parse_format(name_of(type));
  options.distribution = distribution;
  options.count = count;
  options.seed = seed;
  return options;
}

std::vector<std::byte> make(const Generator& generator, uint64_t first, uint64_t count) {
  std::vector<std::byte> data(count * generator.item_bytes_max());
  data.resize(generator.fill(first, count, data.data()));
  return data;
}

std::vector<std::byte> make(const GeneratorOptions& options) {
  auto generator = Generator::open(options);
  EXPECT_TRUE(generator) << generator.error().message();
  return make(*generator, 0, options.count);
}

// Keys of a numeric input, as integers whose order is the order of the numbers.
std::vector<uint64_t> keys_of(Type type, const std::vector<std::byte>& data) {
  std::vector<uint64_t> keys;
  for (size_t at = 0; at < data.size(); at += item_bytes_of(type)) {
    const std::byte* item = data.data() + at;
    keys.push_back(item_bytes_of(type) == 4 ? encode_key32(type, load<uint32_t>(item))
                                            : encode_key64(type, load<uint64_t>(item)));
  }
  return keys;
}
std::vector<uint64_t> keys(Type type, Distribution distribution, uint64_t count) {
  return keys_of(type, make(options_of(type, distribution, count)));
}

// Numbers of an input of small natural numbers.
std::vector<double> values(Type type, Distribution distribution, uint64_t count) {
  const auto data = make(options_of(type, distribution, count));
  std::vector<double> found;
  for (size_t at = 0; at < data.size(); at += item_bytes_of(type)) {
    const std::byte* item = data.data() + at;
    switch (type) {
      case Type::u32:
        found.push_back(load<uint32_t>(item));
        break;
      case Type::i32:
        found.push_back(load<int32_t>(item));
        break;
      case Type::f32:
        found.push_back(load<float>(item));
        break;
      case Type::f64:
        found.push_back(load<double>(item));
        break;
      case Type::i64:
        found.push_back(static_cast<double>(load<int64_t>(item)));
        break;
      default:
        found.push_back(static_cast<double>(load<uint64_t>(item)));
    }
  }
  return found;
}

std::vector<std::string> lines(Distribution distribution, uint64_t count) {
  const auto data = make(options_of(Type::lines, distribution, count));
  std::vector<std::string> found(1);
  for (const std::byte byte : data) {
    if (byte == std::byte{'\n'})
      found.emplace_back();
    else
      found.back().push_back(static_cast<char>(byte));
  }
  EXPECT_EQ(found.back(), "");
  found.pop_back();
  EXPECT_EQ(found.size(), count);
  return found;
}

TEST(Generator, PiecesEqualTheWholeForEveryFormatAndDistribution) {
  Random random(17);
  for (const Type type : all_types) {
    for (const Distribution distribution : distributions_of(type)) {
      for (const uint64_t count : {1, 2, 1500}) {
        auto generator = Generator::open(options_of(type, distribution, count));
        ASSERT_TRUE(generator) << generator.error().message();
        const auto whole = make(*generator, 0, count);
        std::vector<std::byte> joined;
        for (uint64_t first = 0; first < count;) {
          const uint64_t piece = 1 + random.below(count - first);
          const auto data = make(*generator, first, piece);
          joined.insert(joined.end(), data.begin(), data.end());
          first += piece;
        }
        ASSERT_EQ(joined, whole) << name_of(type) << " " << name_of(distribution) << " " << count;
      }
    }
  }
}

TEST(Generator, EmptyInputsAreMade) {
  for (const Type type : all_types) {
    for (const Distribution distribution : distributions_of(type)) {
      EXPECT_TRUE(make(options_of(type, distribution, 0)).empty());
    }
  }
}

TEST(Generator, SeedsMakeDifferentInputs) {
  for (const Type type : numeric_types) {
    EXPECT_NE(make(options_of(type, D::uniform, 100, 1)),
              make(options_of(type, D::uniform, 100, 2)));
  }
}

TEST(Generator, NamesAndDistributionsFitTogether) {
  for (const Type type : all_types) {
    for (const Distribution distribution : distributions_of(type)) {
      EXPECT_EQ(*parse_distribution(name_of(distribution)), distribution);
    }
  }
  EXPECT_FALSE(parse_distribution("gauss"));
  EXPECT_FALSE(Generator::open(options_of(Type::u64, D::nan_mix, 1)));
  EXPECT_FALSE(Generator::open(options_of(Type::u64, D::empty_heavy, 1)));
  EXPECT_FALSE(Generator::open(options_of(Type::lines, D::rootdup, 1)));
  auto bad = options_of(Type::u64, D::bexp, 1);
  bad.t = 1;
  EXPECT_FALSE(Generator::open(bad));
  auto numbers = options_of(Type::u64, D::uniform, 1);
  numbers.ascii = true;
  EXPECT_FALSE(Generator::open(numbers));
  auto late = options_of(Type::record, D::uniform, 2);
  late.start = ~uint64_t{0} - 1;
  EXPECT_FALSE(Generator::open(late));
}

TEST(Generator, SortedRisesReverseFallsAndBothSpanTheRange) {
  for (const Type type : numeric_types) {
    auto rising = keys(type, D::sorted, 3000);
    EXPECT_TRUE(std::ranges::is_sorted(rising, std::less_equal<>())) << name_of(type);
    const uint64_t range = item_bytes_of(type) == 4 ? ~uint32_t{0} : ~uint64_t{0};
    EXPECT_LT(rising.front(), range / 1000);
    EXPECT_GT(rising.back(), range - range / 100);
    auto falling = keys(type, D::reverse, 3000);
    std::ranges::reverse(rising);
    EXPECT_EQ(falling, rising);
  }
}

TEST(Generator, MoreItemsThanKeysStayInOrder) {
  const uint64_t count = uint64_t{5} << 32;
  for (const Type type : {Type::u32, Type::i32, Type::f32}) {
    auto generator = Generator::open(options_of(type, D::sorted, count));
    const auto head = keys_of(type, make(*generator, 0, 1000));
    const auto tail = keys_of(type, make(*generator, count - 1000, 1000));
    EXPECT_TRUE(std::ranges::is_sorted(head));
    EXPECT_TRUE(std::ranges::is_sorted(tail));
    EXPECT_LT(std::set<uint64_t>(head.begin(), head.end()).size(), 300u);
    EXPECT_GT(tail.front(), 0xfe000000u);
  }
}

TEST(Generator, AlmostSortedSwapsAboutRootOfNItems) {
  for (const Type type : numeric_types) {
    for (const uint64_t count : {5, 10'000, 12'345}) {
      const auto sorted = keys(type, D::sorted, count);
      auto almost = keys(type, D::almost_sorted, count);
      uint64_t moved = 0;
      for (size_t i = 0; i < count; ++i) moved += sorted[i] != almost[i];
      EXPECT_LE(moved * moved, count);
      if (count > 100) {
        EXPECT_GE(4 * moved * moved, count);
      }
      std::ranges::sort(almost);
      EXPECT_EQ(almost, sorted);
    }
  }
}

TEST(Generator, SortedTailIsSortedUpToItsLastHundredth) {
  for (const Type type : numeric_types) {
    const auto all = keys(type, D::sorted_tail, 10'000);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.begin() + 9'899));
    EXPECT_FALSE(std::is_sorted(all.begin() + 9'899, all.end()));
  }
}

TEST(Generator, AllEqualHasOneFiniteValue) {
  for (const Type type : numeric_types) {
    const auto all = keys(type, D::all_equal, 100);
    EXPECT_EQ(std::ranges::count(all, all[0]), 100);
  }
  EXPECT_TRUE(std::isfinite(values(Type::f64, D::all_equal, 1)[0]));
}

TEST(Generator, DuplicateDistributionsFollowTheirFormulas) {
  for (const uint64_t n : {1, 2, 1000, 5000}) {
    const auto root = static_cast<uint64_t>(std::floor(std::sqrt(static_cast<double>(n))));
    for (const Type type : numeric_types) {
      const auto roots = values(type, D::rootdup, n), twos = values(type, D::twodup, n),
                 eights = values(type, D::eightdup, n);
      const size_t stride = type == Type::kv64 ? 2 : 1;
      if (stride == 2) continue;
      for (uint64_t i = 0; i < n; ++i) {
        uint64_t eighth = 1;
        for (int k = 0; k < 8; ++k) eighth = eighth * i % n;
        ASSERT_EQ(roots[i], static_cast<double>(i % root));
        ASSERT_EQ(twos[i], static_cast<double>((i * i + n / 2) % n));
        ASSERT_EQ(eights[i], static_cast<double>((eighth + n / 2) % n)) << n << " " << i;
      }
    }
  }
}

TEST(Generator, LargeCountsMultiplyWithoutOverflow) {
  const uint64_t n = (uint64_t{1} << 40) + 15, i = n - 12345;
  auto generator = Generator::open(options_of(Type::u64, D::eightdup, n));
  __uint128_t power = 1;
  for (int k = 0; k < 8; ++k) power = power * i % n;
  EXPECT_EQ(load<uint64_t>(make(*generator, i, 1).data()),
            static_cast<uint64_t>((power + n / 2) % n));
}

TEST(Generator, ZipfFavoursSmallRanks) {
  const uint64_t n = 100'000;
  for (const Type type : {Type::u32, Type::u64, Type::f32, Type::i64}) {
    std::map<double, int> seen;
    for (const double value : values(type, D::zipf, n)) ++seen[value];
    EXPECT_EQ(seen.begin()->first, 1);
    EXPECT_LE(seen.rbegin()->first, static_cast<double>(n));
    const double harmonic = std::log(static_cast<double>(n)) + 0.5772;
    EXPECT_NEAR(seen[1], static_cast<double>(n) / harmonic, 500);
    EXPECT_NEAR(seen[4], static_cast<double>(n) / harmonic / 4, 250);
  }
}

TEST(Generator, ExponentialHasItsMeanAndMedian) {
  auto all = values(Type::u64, D::exponential, 100'000);
  double sum = 0;
  for (const double value : all) sum += value;
  const double mean = std::ldexp(1.0, 58);
  EXPECT_NEAR(sum / 1e5 / mean, 1, 0.02);
  std::ranges::sort(all);
  EXPECT_NEAR(all[50'000] / mean, std::log(2.0), 0.02);
  EXPECT_NEAR(values(Type::u32, D::exponential, 1)[0],
              std::ldexp(values(Type::u64, D::exponential, 1)[0], -32), 1);
}

TEST(Generator, BexpBitsAreZeroOnceInT) {
  for (const double t : {10.0, 30.0, 100.0, 300.0}) {
    auto options = options_of(Type::u64, D::bexp, 50'000);
    options.t = t;
    const auto data = make(options);
    std::vector<double> zeros(64);
    for (size_t at = 0; at < data.size(); at += 8) {
      for (int bit = 0; bit < 64; ++bit)
        zeros[bit] += ((load<uint64_t>(&data[at]) >> bit) & 1) == 0;
    }
    const double expected = 50'000 / t;
    for (const double count : zeros) EXPECT_NEAR(count, expected, 5.5 * std::sqrt(expected)) << t;
  }
}

TEST(Generator, BitPatternsAreAsNamed) {
  for (const Type type : {Type::u32, Type::u64, Type::i32, Type::i64}) {
    const unsigned width = item_bytes_of(type) * 8;
    const uint64_t sign = type == Type::i32 || type == Type::i64 ? uint64_t{1} << (width - 1) : 0;
    std::set<uint64_t> low, bucket;
    for (const uint64_t key : keys(type, D::low_bits_only, 1000))
      low.insert((key ^ sign) >> (width / 4));
    EXPECT_EQ(low, std::set<uint64_t>{0});
    for (const uint64_t key : keys(type, D::high_bit_zero, 1000))
      ASSERT_EQ((key ^ sign) >> (width - 1), 0u);
    for (const uint64_t key : keys(type, D::one_bucket, 1000)) bucket.insert(key >> (width - 16));
    EXPECT_EQ(bucket.size(), 1u);
    const auto uniform = keys(type, D::uniform, 1000);
    const auto upper =
        std::ranges::count_if(uniform, [&](uint64_t key) { return key >> (width - 1); });
    EXPECT_NEAR(static_cast<double>(upper), 500, 80);
  }
}

TEST(Generator, FloatsAreFiniteOfBothSignsAndNanMixHasAllKinds) {
  for (const Type type : {Type::f32, Type::f64}) {
    for (const Distribution distribution : distributions_of(type)) {
      const auto all = values(type, distribution, 4000);
      const auto nans = std::ranges::count_if(all, [](double x) { return std::isnan(x); });
      const auto infinite = std::ranges::count_if(all, [](double x) { return std::isinf(x); });
      const auto negative = std::ranges::count_if(all, [](double x) { return std::signbit(x); });
      if (distribution == D::nan_mix) {
        EXPECT_GT(nans, 100);
        EXPECT_GT(infinite, 20);
        EXPECT_GT(std::ranges::count(all, 0.0), 20);
      } else {
        EXPECT_EQ(nans + infinite, 0) << name_of(distribution);
      }
      if (distribution == D::uniform || distribution == D::sorted || distribution == D::nan_mix) {
        EXPECT_NEAR(static_cast<double>(negative), 2000, 300);
      }
    }
  }
}

TEST(Generator, PairsCarryTheirIndex) {
  for (const Distribution distribution : distributions_of(Type::kv64)) {
    const auto pairs = make(options_of(Type::kv64, distribution, 1000));
    const auto alone = make(options_of(Type::u64, distribution, 1000));
    for (uint64_t i = 0; i < 1000; ++i) {
      ASSERT_EQ(load<uint64_t>(&pairs[i * 16]), load<uint64_t>(&alone[i * 8]));
      ASSERT_EQ(load<uint64_t>(&pairs[i * 16 + 8]), i);
    }
  }
}

TEST(Generator, RecordsAreTheBenchmarksFromAnyStart) {
  auto options = options_of(Type::record, D::uniform, 300);
  options.start = 123'456'789'012;
  for (const bool ascii : {false, true}) {
    options.ascii = ascii;
    std::vector<std::byte> expected(30'000);
    fill_benchmark_records(ascii ? BenchmarkKind::ascii : BenchmarkKind::binary, options.start, 300,
                           expected.data());
    EXPECT_EQ(make(options), expected);
  }
}

TEST(Generator, RecordKeysFollowTheDistribution) {
  const auto records = make(options_of(Type::record, D::rootdup, 400));
  const auto numbers = make(options_of(Type::u64, D::rootdup, 400));
  const auto plain = make(options_of(Type::record, D::uniform, 400));
  for (size_t i = 0; i < 400; ++i) {
    ASSERT_EQ(load_big_endian(&records[i * 100]), load<uint64_t>(&numbers[i * 8]));
    ASSERT_EQ(load<uint16_t>(&records[i * 100 + 8]), 0);
    ASSERT_TRUE(std::equal(&records[i * 100 + 10], &records[i * 100] + 100, &plain[i * 100 + 10]));
  }
}

TEST(Generator, SkewDrawsTheFirstEightKeyBytesFromZipf) {
  const uint64_t n = 50'000;
  for (const bool ascii : {false, true}) {
    auto options = options_of(Type::record, D::uniform, n);
    options.ascii = ascii;
    const auto plain = make(options);
    options.skew = 1.5;
    const auto skewed = make(options);
    std::unordered_map<uint64_t, uint64_t> seen;
    for (size_t i = 0; i < n; ++i) {
      ++seen[load<uint64_t>(&skewed[i * 100])];
      ASSERT_TRUE(std::equal(&skewed[i * 100 + 8], &skewed[i * 100] + 100, &plain[i * 100 + 8]));
      if (ascii) {
        for (size_t k = 0; k < 8; ++k) {
          ASSERT_GE(skewed[i * 100 + k], std::byte{0x20});
          ASSERT_LT(skewed[i * 100 + k], std::byte{0x7f});
        }
      }
    }
    uint64_t most = 0;
    for (const auto& [key, count] : seen) most = std::max(most, count);
    // The sum of k^-1.5 over all k is 2.612.
    EXPECT_NEAR(static_cast<double>(most), static_cast<double>(n) / 2.612, 600);
  }
}

TEST(Generator, LinesAreAsNamed) {
  const auto sorted = lines(D::sorted, 2000);
  EXPECT_TRUE(std::ranges::is_sorted(sorted, std::less_equal<>()));
  EXPECT_TRUE(std::ranges::is_sorted(lines(D::reverse, 2000), std::greater_equal<>()));
  const auto equal = lines(D::all_equal, 50);
  EXPECT_EQ(std::set<std::string>(equal.begin(), equal.end()).size(), 1u);
  EXPECT_GT(equal[0].size(), 10u);
  EXPECT_NEAR(static_cast<double>(std::ranges::count(lines(D::empty_heavy, 4000), "")), 3000, 200);
  const auto prefixed = lines(D::common_prefix, 1000);
  for (const auto& line : prefixed) ASSERT_TRUE(line.starts_with("https://example.org/a/path/"));
  const auto zipf = lines(D::zipf, 5000);
  std::map<std::string, int> seen;
  for (const auto& line : zipf) ++seen[line];
  EXPECT_GT(std::ranges::max_element(seen, {}, [](auto& entry) { return entry.second; })->second,
            300);
  const auto text = lines(D::uniform, 5000);
  size_t longest = 0;
  for (const auto& line : text) longest = std::max(longest, line.size());
  EXPECT_GT(longest, 300u);
  EXPECT_LT(longest, line_bytes_max);
  EXPECT_GT(std::ranges::count(text, ""), 20);
}

TEST(Generator, TotalBytesAreExactForFixedFormatsAndCloseForLines) {
  for (const Type type : all_types) {
    for (const Distribution distribution : distributions_of(type)) {
      auto generator = Generator::open(options_of(type, distribution, 5000));
      const auto bytes = static_cast<double>(make(*generator, 0, 5000).size());
      EXPECT_NEAR(static_cast<double>(generator->total_bytes()), bytes,
                  type == Type::lines ? 0.2 * bytes : 0);
    }
  }
}

}  // namespace
}  // namespace penstock::generate
