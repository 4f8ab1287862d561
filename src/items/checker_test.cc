#include "items/checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "generate/generator.h"
#include "items/crc32.h"
#include "items/hash.h"
#include "items/keys/codec.h"

namespace penstock::items {
namespace {

using Items = std::vector<std::string>;

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// The order of two items, told without the checker: -1, 0, 1.
int order_of(const Format& format, const std::string& a, const std::string& b) {
  auto signed_order = [](auto x, auto y) { return x < y ? -1 : x > y ? 1 : 0; };
  auto number = [](const std::string& item, auto zero) {
    std::memcpy(&zero, item.data(), sizeof zero);
    return zero;
  };
  switch (format.type) {
    case Type::lines:
      return signed_order(a, b);
    case Type::record:
      return signed_order(a.substr(format.key_offset, format.key_bytes),
                          b.substr(format.key_offset, format.key_bytes));
    case Type::u32:
      return signed_order(number(a, uint32_t{}), number(b, uint32_t{}));
    case Type::i32:
      return signed_order(number(a, int32_t{}), number(b, int32_t{}));
    case Type::i64:
      return signed_order(number(a, int64_t{}), number(b, int64_t{}));
    case Type::f32:
      return signed_order(encode_key32(Type::f32, number(a, uint32_t{})),
                          encode_key32(Type::f32, number(b, uint32_t{})));
    case Type::f64:
      return signed_order(encode_key64(Type::f64, number(a, uint64_t{})),
                          encode_key64(Type::f64, number(b, uint64_t{})));
    default:
      return signed_order(number(a, uint64_t{}), number(b, uint64_t{}));
  }
}

CheckResult plain_check(const CheckOptions& options, const Items& items) {
  CheckResult result;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto item = bytes_of(items[i]);
    ++result.count;
    if (options.format.type == Type::record && item.size() == 100) {
      result.checksum += crc32(item.data(), item.size());
    } else if (options.format.type == Type::record || options.format.type == Type::lines) {
      result.checksum += hash_bytes(item.data(), item.size());
    } else if (options.format.type == Type::kv64) {
      result.checksum +=
          mix64(mix64(load<uint64_t>(item.data())) ^ load<uint64_t>(item.data() + 8));
    } else {
      result.checksum +=
          mix64(item.size() == 4 ? load<uint32_t>(item.data()) : load<uint64_t>(item.data()));
    }
    if (i == 0) continue;
    const int order =
        order_of(options.format, items[i - 1], items[i]) * (options.descending ? -1 : 1);
    result.duplicates += order == 0;
    if (order > 0 && result.sorted()) result.first_unsorted = i;
  }
  return result;
}

std::string join(const Format& format, const Items& items) {
  std::string data;
  for (const auto& item : items) {
    data += item;
    if (format.type == Type::lines) data += '\n';
  }
  return data;
}

void add_in_pieces(Checker& checker, std::string_view data, Random& random) {
  const uint64_t piece_max = 1 + random.below(random.below(4) == 0 ? data.size() + 1 : 40);
  while (!data.empty()) {
    const size_t piece = std::min<size_t>(data.size(), random.below(piece_max + 1));
    checker.add(bytes_of(data.substr(0, piece)));
    data.remove_prefix(piece);
  }
}

// Parts that begin anywhere, each taken in pieces, joined in random order of neighbours.
CheckResult check_in_parts(const CheckOptions& options, std::string_view data, Random& random) {
  std::vector<size_t> cuts = {0, data.size()};
  for (uint64_t i = random.below(6); i > 0; --i) cuts.push_back(random.below(data.size() + 1));
  std::ranges::sort(cuts);
  std::vector<Checker> parts;
  for (size_t i = 0; i + 1 < cuts.size(); ++i) {
    parts.emplace_back(options, cuts[i]);
    add_in_pieces(parts.back(), data.substr(cuts[i], cuts[i + 1] - cuts[i]), random);
  }
  while (parts.size() > 1) {
    const size_t left = random.below(parts.size() - 1);
    parts[left].append(parts[left + 1]);
    parts.erase(parts.begin() + static_cast<ptrdiff_t>(left) + 1);
  }
  auto result = parts[0].finish();
  EXPECT_TRUE(result) << result.error().message();
  return result ? *result : CheckResult{};
}

void expect_equal(const CheckResult& found, const CheckResult& expected, const std::string& what) {
  ASSERT_EQ(found.count, expected.count) << what;
  ASSERT_EQ(found.duplicates, expected.duplicates) << what;
  ASSERT_EQ(found.first_unsorted, expected.first_unsorted) << what;
  ASSERT_EQ(found.checksum_hex(), expected.checksum_hex()) << what;
}

// Items with many ties in all their bytes, sometimes sorted, sometimes nearly.
Items random_items(const CheckOptions& options, Random& random) {
  const Format& format = options.format;
  Items items(random.below(40));
  for (auto& item : items) {
    const uint64_t length =
        format.fixed() ? format.record_bytes : random.below(5) * random.below(5);
    for (uint64_t i = 0; i < length; ++i)
      item.push_back(random.below(4) == 0 ? "\x01\x7f\x80\xff"[random.below(4)] : 'a');
  }
  if (random.below(3) != 0) {
    std::ranges::sort(items, [&](const auto& a, const auto& b) {
      return order_of(format, a, b) * (options.descending ? -1 : 1) < 0;
    });
    if (!items.empty() && random.below(2) == 0) {
      std::swap(items[random.below(items.size())], items[random.below(items.size())]);
    }
  }
  return items;
}

TEST(Checker, AgreesWithAPlainCheckHoweverTheBytesAreCut) {
  const std::vector<Format> formats = {*parse_format("u32"),
                                       *parse_format("u64"),
                                       *parse_format("i32"),
                                       *parse_format("i64"),
                                       *parse_format("f32"),
                                       *parse_format("f64"),
                                       *parse_format("kv64"),
                                       *parse_format("lines"),
                                       *parse_format("record"),
                                       *parse_format("record", 7, "2:3"),
                                       *parse_format("record", 13, "1:12"),
                                       *parse_format("record", 1, "0:1"),
                                       *parse_format("record", 9, "0:9")};
  const uint64_t seed = 20240;
  Random random(seed);
  for (const Format& format : formats) {
    for (int round = 0; round < 1500; ++round) {
      const CheckOptions options{format, random.below(2) == 0};
      const Items items = random_items(options, random);
      const std::string data = join(format, items);
      const CheckResult expected = plain_check(options, items);
      const std::string what = std::string(name_of(format.type)) + " round " +
                               std::to_string(round) + " seed " + std::to_string(seed);
      expect_equal(check_in_parts(options, data, random), expected, what);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Checker, ALastLineNeedsNoNewline) {
  const CheckOptions options{*parse_format("lines")};
  for (const char* text : {"b\na", "a\nb", "\n\n", "", "a", "\n", "a\n\nb"}) {
    Checker without(options), with(options);
    std::string closed = text;
    if (!closed.empty() && closed.back() != '\n') closed += '\n';
    without.add(bytes_of(text));
    with.add(bytes_of(closed));
    expect_equal(*without.finish(), *with.finish(), text);
  }
  Checker empty_lines(options);
  empty_lines.add(bytes_of("\n\n"));
  const auto result = *empty_lines.finish();
  EXPECT_EQ(result.count, 2u);
  EXPECT_EQ(result.duplicates, 1u);
}

TEST(Checker, AnItemCutShortIsAnError) {
  for (const char* name : {"u32", "f64", "kv64", "record"}) {
    const CheckOptions options{*parse_format(name)};
    std::string data(options.format.record_bytes * 3 - 1, 'x');
    Checker checker(options);
    checker.add(bytes_of(data));
    const auto result = checker.finish();
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::corrupt);
  }
}

TEST(Checker, RowsThatBreakTheRulesAreToldByNumberAndByte) {
  Format format = *parse_format("lines");
  format.csv = ',';
  format.header_lines = 1;
  CheckOptions options{format};
  options.header_bytes = 10;  // which stand in front of what is checked, in a row of their own
  const std::string text = "a,b\nc,\"d\"e\nf,g\n";
  for (size_t cut = 0; cut <= text.size(); ++cut) {  // a file comes in parts
    Checker checker(options);
    checker.add(bytes_of(text.substr(0, cut)));
    checker.add(bytes_of(text.substr(cut)));
    const auto result = checker.finish();
    ASSERT_FALSE(result) << cut;
    const std::string attempted = result.error().attempted;
    EXPECT_TRUE(attempted.starts_with("row 3: text after the quote")) << attempted;
    EXPECT_TRUE(attempted.ends_with("at byte " + std::to_string(10 + text.find('e')))) << attempted;
  }
}

TEST(Checker, ChecksumsKeepTheContentAndForgetTheOrder) {
  Random random(99);
  for (const char* name : {"u32", "u64", "kv64", "record", "lines"}) {
    const CheckOptions options{*parse_format(name)};
    Items items = random_items({*parse_format(name)}, random);
    while (items.size() < 5) items = random_items(options, random);
    auto sum = [&](const Items& of) {
      Checker checker(options);
      checker.add(bytes_of(join(options.format, of)));
      return checker.finish()->checksum_hex();
    };
    const std::string before = sum(items);
    Items shuffled = items;
    for (size_t i = shuffled.size(); i > 1; --i)
      std::swap(shuffled[i - 1], shuffled[random.below(i)]);
    EXPECT_EQ(sum(shuffled), before) << name;
    for (size_t i = 0; i < items.size(); ++i) {
      if (items[i].empty()) continue;
      Items changed = items;
      changed[i].back() = static_cast<char>(changed[i].back() ^ 1);
      EXPECT_NE(sum(changed), before) << name;
    }
    Items fewer = items;
    fewer.pop_back();
    EXPECT_NE(sum(fewer), before) << name;
  }
}

TEST(Checker, KnowsTheSortBenchmarksChecksum) {
  generate::GeneratorOptions options;
  options.format = *parse_format("record");
  options.count = 1000;
  auto generator = generate::Generator::open(options);
  std::vector<std::byte> data(100'000);
  generator->fill(0, 1000, data.data());
  __uint128_t expected = 0;
  for (size_t i = 0; i < 1000; ++i) expected += crc32(&data[i * 100], 100);
  Checker checker({options.format});
  checker.add(data);
  EXPECT_TRUE(checker.finish()->checksum == expected);
}

TEST(Checker, ChecksumsPrintAsOneNumber) {
  CheckResult result;
  EXPECT_EQ(result.checksum_hex(), "0");
  result.checksum = 0x7a0e0d4868cd4;
  EXPECT_EQ(result.checksum_hex(), "7a0e0d4868cd4");
  result.checksum = (__uint128_t{0x12} << 64) | 0x3;
  EXPECT_EQ(result.checksum_hex(), "120000000000000003");
}

}  // namespace
}  // namespace penstock::items
