#include "items/format.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>
#include <vector>

#include "base/did_you_mean.h"
#include "items/keys/codec.h"
#include "items/keys/field_order.h"

namespace penstock::items {

constexpr TypeRow type_table[] = {
    {"u32", &fixed_framing},  {"u64", &fixed_framing},    {"i32", &fixed_framing},
    {"i64", &fixed_framing},  {"f32", &fixed_framing},    {"f64", &fixed_framing},
    {"kv64", &fixed_framing}, {"record", &fixed_framing}, {"lines", &line_framing},
    {"rows", &row_framing},   {"jsonl", &json_framing}};

namespace {

// Records that are one number, with the key of field_order.h that they have.
struct NumberRecord {
  std::string_view name;
  const char* key;
  uint32_t record_bytes;
};

constexpr auto number_records =
    std::to_array<NumberRecord>({{"u128", "0:16:u128", 16}, {"i128", "0:16:i128", 16}});

constexpr uint32_t benchmark_key_bytes = 10;

bool parse_number(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::unexpected<Error> bad_record_key(std::string_view key, std::string hint) {
  return failure(ErrorCode::invalid_argument, "use this key", fmt::format("--key {}", key),
                 std::move(hint));
}

Result<Format> record_format(uint32_t record_bytes, std::string_view key) {
  Format format{.type = Type::record,
                .record_bytes = record_bytes == 0 ? benchmark_record_bytes : record_bytes};
  if (key.empty()) {
    format.key_bytes = std::min(format.record_bytes, benchmark_key_bytes);
    return format;
  }
  const size_t colon = key.find(':');
  if (colon == std::string_view::npos || !parse_number(key.substr(0, colon), format.key_offset) ||
      !parse_number(key.substr(colon + 1), format.key_bytes)) {
    return bad_record_key(key, "OFFSET:BYTES, as in --key 0:10");
  }
  if (format.key_bytes == 0 ||
      uint64_t{format.key_offset} + format.key_bytes > format.record_bytes) {
    return bad_record_key(key,
                          fmt::format("a key of at least 1 byte inside the {} bytes of a record",
                                      format.record_bytes));
  }
  return format;
}

// Returns the way to read data of a kind that is no format, or else the formats.
std::string hint_of_format(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> others[] = {
      {"csv", "--csv, without --format"},
      {"tsv", "--tsv, without --format"},
      {"json", "--jsonl, for an object in each line; jq -c '.[]' FILE makes lines of an array"},
      {"ndjson", "--jsonl"},
      {"txt", "--format lines, the default"},
      {"text", "--format lines, the default"},
      {"parquet", "penstock sort --by COLUMN, which sorts tables"},
      {"arrow", "penstock sort --by COLUMN, which sorts tables"}};
  for (const auto& [other, hint] : others) {
    if (name == other) return hint;
  }
  std::vector<std::string> names;
  for (const TypeRow& each : type_table) names.emplace_back(each.name);
  for (const NumberRecord& each : number_records) names.emplace_back(each.name);
  const std::string_view nearest = nearest_name(name, names);
  if (!nearest.empty()) return fmt::format("--format {}", nearest);
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

Result<Format> parse_format(std::string_view name, uint32_t record_bytes, std::string_view key) {
  const auto* const number = std::ranges::find(number_records, name, &NumberRecord::name);
  if (number != number_records.end()) {
    auto order = field_order({number->key}, number->record_bytes);
    if (!order) return std::unexpected(order.error());
    return Format{.type = Type::record,
                  .record_bytes = number->record_bytes,
                  .key_bytes = number->record_bytes,
                  .keys = std::move(*order)};
  }
  const auto* const found = std::ranges::find(type_table, name, &TypeRow::name);
  if (found == std::end(type_table)) {
    return failure(ErrorCode::invalid_argument, "use this format", fmt::format("--format {}", name),
                   hint_of_format(name));
  }
  const auto type = static_cast<Type>(found - type_table);
  if (type == Type::record) return record_format(record_bytes, key);
  Format format{.type = type, .record_bytes = 1, .key_bytes = 0};
  if (format.numeric()) {
    format.record_bytes = item_bytes_of(type);
    format.key_bytes = std::min(format.record_bytes, 8u);
  }
  return format;
}

Status check_size(const Format& format, uint64_t bytes, const std::string& path) {
  if (!format.fixed() || bytes % format.record_bytes == 0) return {};
  return failure(ErrorCode::corrupt,
                 fmt::format("read its {} bytes as items of {}", bytes, format.record_bytes), path,
                 "another --format or --record");
}

namespace {

// Calls the codec of `type`, whose keys must be as wide as `Bits`.
template <bool decoding, class Bits>
Bits recode(Type type, Bits bits) {
  return with_codec(type, [&]<class Codec>(Codec) -> Bits {
    if constexpr (std::same_as<typename Codec::Bits, Bits>) {
      return decoding ? Codec::decode(bits) : Codec::encode(bits);
    } else {
      PENSTOCK_CHECK(false, "a key codec was asked for keys of another width");
    }
  });
}

}  // namespace

uint64_t encode_key64(Type type, uint64_t bits) {
  return recode<false>(type, bits);
}
uint64_t decode_key64(Type type, uint64_t key) {
  return recode<true>(type, key);
}
uint32_t encode_key32(Type type, uint32_t bits) {
  return recode<false>(type, bits);
}
uint32_t decode_key32(Type type, uint32_t key) {
  return recode<true>(type, key);
}

uint64_t prefix_of(const std::byte* data, size_t bytes) {
  if (bytes >= 8) return load_big_endian(data);
  auto byte_at = [&](size_t at) {
    return uint64_t{std::to_integer<uint8_t>(data[at])} << 8 * (7 - at);
  };
  // The halves overlap in equal bytes.
  if (bytes >= 4) {
    const uint64_t first = __builtin_bswap32(load<uint32_t>(data));
    const uint64_t last = __builtin_bswap32(load<uint32_t>(data + bytes - 4));
    return first << 32 | last << 8 * (8 - bytes);
  }
  return bytes == 0 ? 0 : byte_at(0) | byte_at(bytes / 2) | byte_at(bytes - 1);
}

}  // namespace penstock::items
