// Fields of records, in the order that NumPy's structured arrays sort in.

#include "items/keys/field_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/random.h"

namespace penstock::items {
namespace {

constexpr uint32_t record_bytes = 24;

std::string key_of(const KeyOrder& order, const std::string& record) {
  std::string key;
  order.append(record, key);
  return key;
}

template <class T>
void put(std::string& record, size_t offset, T value, bool big_endian) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  if (big_endian) std::reverse(bytes, bytes + sizeof value);
  std::memcpy(record.data() + offset, bytes, sizeof value);
}

// Two records, of which one has the lesser number, or equal ones: so have their keys.
template <class T>
void compare_numbers(const std::string& type, std::vector<T> values, uint64_t seed) {
  Random random(seed);
  for (int i = 0; i < 200; ++i) {
    T value;
    const uint64_t bits = random.next();
    std::memcpy(&value, &bits, sizeof value);
    if (value == value) values.push_back(value);  // no NaN
  }
  for (const bool big_endian : {false, true}) {
    for (const bool reverse : {false, true}) {
      constexpr const char* directions[2][2] = {{"", ":desc"}, {":asc", ":r"}};
      const auto order = field_order({"4:" + std::to_string(sizeof(T)) + ":" + type +
                                      (big_endian ? "be" : "") + directions[big_endian][reverse]},
                                     record_bytes);
      ASSERT_TRUE(order.has_value()) << order.error().message();
      for (const T a : values) {
        const T b = values[random.below(values.size())];
        std::string records[2] = {std::string(record_bytes, 'x'), std::string(record_bytes, 'y')};
        put(records[0], 4, a, big_endian);
        put(records[1], 4, b, big_endian);
        const int order_of_keys = key_of(**order, records[0]).compare(key_of(**order, records[1]));
        const int wanted = (a < b ? -1 : a > b ? 1 : 0) * (reverse ? -1 : 1);
        if (a == b && std::signbit(static_cast<double>(a)) != std::signbit(static_cast<double>(b)))
          continue;
        EXPECT_EQ(order_of_keys < 0   ? -1
                  : order_of_keys > 0 ? 1
                                      : 0,
                  wanted)
            << type << " " << +a << " " << +b;
      }
    }
  }
}

TEST(FieldOrder, NumbersOrderAsNumbers) {
  compare_numbers<uint8_t>("u8", {0, 255}, 1);
  compare_numbers<uint16_t>("u16", {0, 0xffff, 256, 1}, 2);
  compare_numbers<uint32_t>("u32", {0, 0xffffffff, 1}, 3);
  compare_numbers<uint64_t>("u64", {0, ~uint64_t{0}, 1, 256}, 4);
  compare_numbers<int8_t>("i8", {0, -1, 127, -128}, 5);
  compare_numbers<int16_t>("i16", {0, -1, 1, -32768}, 6);
  compare_numbers<int32_t>("i32", {0, -1, 1, INT32_MIN, INT32_MAX}, 7);
  compare_numbers<int64_t>("i64", {0, -1, 1, INT64_MIN, INT64_MAX}, 8);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  compare_numbers<float>(
      "f32", {0, -0.0f, 1, -1, static_cast<float>(infinity), static_cast<float>(-infinity)}, 9);
  compare_numbers<double>("f64", {0, -0.0, 1, -1, infinity, -infinity, 1e-310}, 10);
}

TEST(FieldOrder, NumbersOf128BitsOrderAsNumbers) {
  Random random(11);
  using Unsigned = __uint128_t;
  std::vector<Unsigned> values = {0, 1, ~Unsigned{0}, Unsigned{1} << 127, ~Unsigned{0} >> 1};
  for (int i = 0; i < 200; ++i)
    values.push_back((Unsigned{random.next()} << 64 | random.next()) >> random.below(128));
  for (const bool is_signed : {false, true}) {
    for (const bool big_endian : {false, true}) {
      const auto order = field_order(
          {std::string("4:16:") + (is_signed ? "i128" : "u128") + (big_endian ? "be" : "")},
          record_bytes);
      ASSERT_TRUE(order.has_value()) << order.error().message();
      for (const Unsigned a : values) {
        const Unsigned b = values[random.below(values.size())];
        std::string records[2] = {std::string(record_bytes, 'x'), std::string(record_bytes, 'y')};
        put(records[0], 4, a, big_endian);
        put(records[1], 4, b, big_endian);
        const int order_of_keys = key_of(**order, records[0]).compare(key_of(**order, records[1]));
        const bool is_less =
            is_signed ? static_cast<__int128_t>(a) < static_cast<__int128_t>(b) : a < b;
        EXPECT_EQ(order_of_keys < 0, is_less);
        EXPECT_EQ(order_of_keys == 0, a == b);
      }
    }
  }
}

TEST(FieldOrder, NansComeLast) {
  const auto order = field_order({"0:8:f64"}, record_bytes);
  ASSERT_TRUE(order.has_value());
  const double values[] = {-std::numeric_limits<double>::infinity(), -0.0,         0.0,
                           std::numeric_limits<double>::infinity(),  std::nan(""), -std::nan("")};
  std::string last;
  for (const double value : values) {
    std::string record(record_bytes, '\0');
    put(record, 0, value, false);
    const std::string key = key_of(**order, record);
    EXPECT_LT(last, key) << value;
    last = key;
  }
}

// Keys of a field of NumPy's type, in either byte order: in the order of the values that `values`
// lists, each with its place among them, where equal places are equal keys.
template <class T>
void expect_order(const std::string& type, const std::vector<std::pair<T, int>>& values) {
  for (const bool big_endian : {false, true}) {
    const auto order = field_order(
        {"0:" + std::to_string(sizeof(T)) + ":" + (big_endian ? ">" : "<") + type}, record_bytes);
    ASSERT_TRUE(order.has_value()) << order.error().message();
    auto key = [&](const T& value) {
      std::string record(record_bytes, '\0');
      // Each number of a compound by itself.
      using Part = std::remove_cvref_t<decltype(value[0])>;
      for (size_t i = 0; i < sizeof(T) / sizeof(Part); ++i)
        put(record, i * sizeof(Part), value[i], big_endian);
      return key_of(**order, record);
    };
    for (const auto& [a, place_a] : values) {
      for (const auto& [b, place_b] : values) {
        const int order_of_keys = key(a).compare(key(b));
        EXPECT_EQ((order_of_keys > 0) - (order_of_keys < 0),
                  (place_a > place_b) - (place_a < place_b))
            << type << " " << place_a << " " << place_b;
      }
    }
  }
}

TEST(FieldOrder, HalfFloatsOrderAsNumbers) {
  using Half = std::array<uint16_t, 1>;
  // -inf, -2, -the least subnormal, -0, 0, the least subnormal, 1, 65504, inf, NaN, NaN with a
  // sign.
  const uint16_t in_order[] = {0xfc00, 0xc000, 0x8001, 0x8000, 0,     0x0001,
                               0x3c00, 0x7bff, 0x7c00, 0x7e00, 0xfe00};
  std::vector<std::pair<Half, int>> values;
  for (const uint16_t bits : in_order)
    values.push_back({Half{bits}, static_cast<int>(values.size())});
  expect_order("f2", values);
}

TEST(FieldOrder, TimesOrderAsTheyPassAndNoTimeIsLast) {
  using Time = std::array<int64_t, 1>;
  const std::vector<std::pair<Time, int>> values = {
      {{INT64_MIN + 1}, 0}, {{-1}, 1}, {{0}, 2}, {{1}, 3}, {{INT64_MAX}, 4}, {{INT64_MIN}, 5}};
  for (const char* type : {"M8[ns]", "m8[D]", "M8", "m8[25s]"}) expect_order(type, values);
}

TEST(FieldOrder, CodePointsOrderAsNumbers) {
  using Text = std::array<char32_t, 3>;
  expect_order<Text>("U3", {{{U'\0', U'\0', U'\0'}, 0},
                            {{U'a', U'\0', U'\0'}, 1},
                            {{U'a', U'b', U'\0'}, 2},
                            {{U'\u00e9', U'a', U'a'}, 3},
                            {{U'\u4e00', U'\0', U'\0'}, 4},
                            {{U'\U0001f600', U'\0', U'\0'}, 5}});
}

// NumPy's order: "[R + Rj, R + nanj, nan + Rj, nan + nanj]".
template <class T>
void check_complex(const std::string& type) {
  constexpr T nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T infinity = std::numeric_limits<T>::infinity();
  using Complex = std::array<T, 2>;
  expect_order<Complex>(type, {{{-infinity, 9}, 0},
                               {{-1, -2}, 1},
                               {{-1, 2}, 2},
                               {{3, -infinity}, 3},
                               {{3, infinity}, 4},
                               {{-5, nan}, 5},
                               {{7, -nan}, 6},
                               {{nan, -1}, 7},
                               {{-nan, 4}, 8},
                               {{nan, nan}, 9},
                               {{-nan, nan}, 9}});
}
TEST(FieldOrder, ComplexNumbersOrderAsNumPySortsThem) {
  check_complex<float>("c8");
  check_complex<double>("c16");
}

TEST(FieldOrder, TheFirstKeyCountsMost) {
  const auto type = parse_dtype("[('id', '<u4'), ('', '|V4'), ('name', 'S8'), ('x', '>f8')]");
  ASSERT_TRUE(type.has_value());
  EXPECT_EQ(type->bytes, record_bytes);
  const auto order = field_order({"name:r", "x", "id"}, record_bytes, *type);
  ASSERT_TRUE(order.has_value()) << order.error().message();
  auto record = [](uint32_t id, const char* name, double x) {
    std::string made(record_bytes, '\0');
    put(made, 0, id, false);
    std::memcpy(made.data() + 8, name, std::strlen(name));
    put(made, 16, x, true);
    return made;
  };
  const std::string in_order[] = {record(9, "b", -1), record(1, "b", 5), record(2, "b", 5),
                                  record(0, "a", -9)};
  for (size_t i = 1; i < std::size(in_order); ++i)
    EXPECT_LT(key_of(**order, in_order[i - 1]), key_of(**order, in_order[i])) << i;
}

TEST(FieldOrder, DescriptionsOfNumPy) {
  const auto words = parse_dtype("<u8, >f4,S10,?");
  ASSERT_TRUE(words.has_value());
  EXPECT_EQ(words->bytes, 23u);
  EXPECT_EQ(words->fields[1].name, "f1");
  EXPECT_TRUE(words->fields[1].big_endian);
  EXPECT_TRUE(parse_dtype("[('a','<u8',())]").has_value());
  const auto list = parse_dtype(" [('a','<i2'),('v','<f4',(2, 3)),('b','|S1',3),] ");
  ASSERT_TRUE(list.has_value());
  EXPECT_EQ(list->bytes, 2u + 24u + 3u);
  EXPECT_EQ(list->fields[1].bytes, 24u);
  EXPECT_EQ(list->fields[2].offset, 26u);
  for (const char* bad : {"",
                          "[]",
                          "x4",
                          "<u3",
                          "<f1",
                          "<f16",
                          "|O8",
                          "<c4",
                          "<M4",
                          "<M8[ns",
                          "<M8]",
                          "<U0",
                          "<U1073741824",
                          "<u8,",
                          "[('a','<u8')",
                          "[('a' '<u8')]",
                          "S0",
                          "[('a','<u8',(0,))]",
                          "[('a','<u8',(2 3))]",
                          "[('a','<u8',(2",
                          "<u8;<u8",
                          "S4294967295,S1",
                          "[('a','S65536',(65536,65536))]"}) {
    EXPECT_FALSE(parse_dtype(bad).has_value()) << bad;
  }
}

TEST(FieldOrder, BadKeysAreTold) {
  for (const char* bad : {"", "4", "4:", "x", "4:0", "20:8", "4:8:u32", "4:8:q", "4:8:u64:x",
                          "0:3:u24", "0:2:f8", "0:8:U2", "-1:4", "0:8:", "4294967295:4294967295"}) {
    const auto order = field_order({bad}, record_bytes);
    ASSERT_FALSE(order.has_value()) << bad;
    EXPECT_EQ(order.error().code, ErrorCode::invalid_argument);
  }
  EXPECT_TRUE(field_order({"16:8:>u8"}, record_bytes).has_value());
}

}  // namespace
}  // namespace penstock::items
