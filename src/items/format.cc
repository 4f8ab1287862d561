#include "items/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "items/codec.h"
#include "items/field_order.h"
#include "items/keyed_rows.h"

namespace penstock::items {
namespace {

struct Name {
  std::string_view name;
  Type type;
  const char* key = nullptr;  // a record that is one number, as its key has it (field_order.h)
  uint32_t record_bytes = 0;
};

constexpr auto names = std::to_array<Name>({{"u32", Type::u32},
                                            {"u64", Type::u64},
                                            {"i32", Type::i32},
                                            {"i64", Type::i64},
                                            {"f32", Type::f32},
                                            {"f64", Type::f64},
                                            {"kv64", Type::kv64},
                                            {"record", Type::record},
                                            {"lines", Type::lines},
                                            {"rows", Type::rows},
                                            {"u128", Type::record, "0:16:u128", 16},
                                            {"i128", Type::record, "0:16:i128", 16}});

constexpr uint32_t benchmark_key_bytes = 10;

bool parse_number(std::string_view text, uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::unexpected<Error> bad_key(std::string_view key, std::string hint) {
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
    return bad_key(key, "OFFSET:BYTES, as in --key 0:10");
  }
  if (format.key_bytes == 0 ||
      uint64_t{format.key_offset} + format.key_bytes > format.record_bytes) {
    return bad_key(key, fmt::format("a key of at least 1 byte inside the {} bytes of a record",
                                    format.record_bytes));
  }
  return format;
}

}  // namespace

Result<Format> parse_format(std::string_view name, uint32_t record_bytes, std::string_view key) {
  const auto* found = std::ranges::find(names, name, &Name::name);
  if (found == names.end()) {
    std::string all;
    for (const Name& each : names)
      all.append(all.empty() ? "" : &each == &names.back() ? " or " : ", ").append(each.name);
    return failure(ErrorCode::invalid_argument, "use this format", fmt::format("--format {}", name),
                   std::move(all));
  }
  if (found->key != nullptr) {
    auto order = field_order({found->key}, found->record_bytes);
    if (!order) return std::unexpected(order.error());
    return Format{.type = Type::record,
                  .record_bytes = found->record_bytes,
                  .key_bytes = found->record_bytes,
                  .keys = std::move(*order)};
  }
  if (found->type == Type::record) return record_format(record_bytes, key);
  if (found->type == Type::lines) {
    return Format{.type = Type::lines, .record_bytes = 1, .key_offset = 0, .key_bytes = 0};
  }
  if (found->type == Type::rows) {
    return Format{
        .type = Type::rows, .record_bytes = 1, .key_offset = RowHead::bytes, .key_bytes = 0};
  }
  const uint32_t item_bytes = item_bytes_of(found->type);
  return Format{.type = found->type,
                .record_bytes = item_bytes,
                .key_offset = 0,
                .key_bytes = std::min(item_bytes, 8u)};
}

std::string_view name_of(Type type) {
  return std::ranges::find(names, type, &Name::type)->name;
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
  // Halves that overlap, where the same bytes meet.
  if (bytes >= 4) {
    const uint64_t first = __builtin_bswap32(load<uint32_t>(data));
    const uint64_t last = __builtin_bswap32(load<uint32_t>(data + bytes - 4));
    return first << 32 | last << 8 * (8 - bytes);
  }
  return bytes == 0 ? 0 : byte_at(0) | byte_at(bytes / 2) | byte_at(bytes - 1);
}

}  // namespace penstock::items
