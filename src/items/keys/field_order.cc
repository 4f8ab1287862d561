#include "items/keys/field_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "base/misuse.h"
#include "items/keys/codec.h"

namespace penstock::items {
namespace {

struct Key {
  Field field;
  bool reverse = false;
};

using F16Codec = FloatCodec<uint16_t, 10>;
using WideNumber = __uint128_t;  // the widest

// Returns an unsigned integer of as many bytes, whose order is the number's.
WideNumber encode(FieldKind kind, uint32_t bytes, WideNumber number) {
  const WideNumber sign = WideNumber{1} << (8 * bytes - 1);
  switch (kind) {
    case FieldKind::signed_integer:
      return number ^ sign;
    case FieldKind::time:
      return (number ^ sign) - 1;  // the least wraps to the greatest
    case FieldKind::floating:
      if (bytes == sizeof(uint16_t)) return F16Codec::encode(static_cast<uint16_t>(number));
      return bytes == sizeof(double) ? F64Codec::encode(static_cast<uint64_t>(number))
                                     : F32Codec::encode(static_cast<uint32_t>(number));
    default:
      return number;
  }
}

WideNumber swapped(WideNumber number) {
  return WideNumber{__builtin_bswap64(static_cast<uint64_t>(number))} << 64 |
         __builtin_bswap64(static_cast<uint64_t>(number >> 64));
}

// REQUIRES: 1 to 16 bytes.
WideNumber load_number(std::string_view text, bool big_endian) {
  WideNumber number = 0;
  std::memcpy(&number, text.data(), text.size());
  return big_endian ? swapped(number) >> 8 * (sizeof number - text.size()) : number;
}

void append_field_number(WideNumber number, size_t bytes, std::string& to) {
  const WideNumber big_endian = swapped(number << 8 * (sizeof number - bytes));
  to.append(reinterpret_cast<const char*>(&big_endian), bytes);
}

bool is_nan(WideNumber number, size_t bytes) {
  return bytes == sizeof(double) ? (number & ~F64Codec::sign) > F64Codec::infinity
                                 : (number & ~uint64_t{F32Codec::sign}) > F32Codec::infinity;
}

// The key of a complex number says which parts are NaNs; the other parts follow. All NaNs are
// alike.
void append_complex(const Field& field, std::string_view text, std::string& to) {
  const size_t part_bytes = field.bytes / 2;
  const WideNumber parts[] = {load_number(text.substr(0, part_bytes), field.big_endian),
                              load_number(text.substr(part_bytes), field.big_endian)};
  to.push_back(static_cast<char>(2 * is_nan(parts[0], part_bytes) + is_nan(parts[1], part_bytes)));
  for (const WideNumber part : parts) {
    if (is_nan(part, part_bytes)) continue;
    append_field_number(encode(FieldKind::floating, static_cast<uint32_t>(part_bytes), part),
                        part_bytes, to);
  }
}

void append_field(const Key& key, std::string_view record, std::string& to) {
  constexpr size_t code_point_bytes = sizeof(char32_t);
  const Field& field = key.field;
  const std::string_view text = record.substr(field.offset, field.bytes);
  const size_t from = to.size();
  switch (field.kind) {
    case FieldKind::bytes:
      to.append(text);
      break;
    case FieldKind::code_points:
      for (size_t at = 0; at < text.size(); at += code_point_bytes)
        append_field_number(load_number(text.substr(at, code_point_bytes), field.big_endian),
                            code_point_bytes, to);
      break;
    case FieldKind::complex:
      append_complex(field, text, to);
      break;
    default:
      append_field_number(encode(field.kind, field.bytes, load_number(text, field.big_endian)),
                          field.bytes, to);
  }
  if (key.reverse) {
    for (size_t i = from; i < to.size(); ++i) to[i] = static_cast<char>(~to[i]);
  }
}

class FieldOrder final : public KeyOrder {
 public:
  FieldOrder(std::string name, std::vector<Key> keys)
      : KeyOrder(std::move(name), false), keys_(std::move(keys)) {}

  bool append(std::string_view record, std::string& to) const override {
    for (const Key& key : keys_) append_field(key, record, to);
    return true;
  }

 private:
  std::vector<Key> keys_;
};

template <class Integer>
bool take_number(std::string_view& text, Integer& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, std::string_view what) {
  if (!text.starts_with(what)) return false;
  text.remove_prefix(what.size());
  return true;
}

bool is_number_of(FieldKind kind, uint32_t bytes) {
  if (kind == FieldKind::time) return bytes == 8;
  if (kind == FieldKind::complex) return bytes == 8 || bytes == 16;
  if (kind == FieldKind::floating) return bytes == 2 || bytes == 4 || bytes == 8;
  return std::has_single_bit(bytes) && bytes <= sizeof(WideNumber);
}

// Letters of numbers are the same in NumPy and in our names.
std::optional<FieldKind> number_kind(char letter) {
  switch (letter) {
    case 'u':
      return FieldKind::unsigned_integer;
    case 'i':
      return FieldKind::signed_integer;
    case 'f':
      return FieldKind::floating;
    default:
      return {};
  }
}

// Kinds that NumPy alone has, and text and bytes.
std::optional<FieldKind> numpy_kind(char letter) {
  switch (letter) {
    case 'c':
      return FieldKind::complex;
    case 'm':
    case 'M':
      return FieldKind::time;
    case 'U':
      return FieldKind::code_points;
    case 'S':
    case 'V':
      return FieldKind::bytes;
    default:
      return number_kind(letter);
  }
}

// Reads "<u4", "S10", "V4", "?", "<U8" or "<M8[ns]".
bool parse_numpy_type(std::string_view text, Field& field) {
  if (text == "?" || text == "|b1") {
    field.kind = FieldKind::unsigned_integer;
    field.bytes = 1;
    return true;
  }
  if (!text.empty() && std::string_view("<>=|").contains(text.front())) {
    field.big_endian = text.front() == '>';
    text.remove_prefix(1);
  }
  if (text.empty()) return false;
  const auto kind = numpy_kind(text.front());
  text.remove_prefix(1);
  if (!kind || !take_number(text, field.bytes) || field.bytes == 0) return false;
  field.kind = *kind;
  // The unit of a time changes nothing of the order.
  if (field.kind == FieldKind::time && text.starts_with('[') && text.find(']') == text.size() - 1)
    text = {};
  if (!text.empty()) return false;
  if (field.kind == FieldKind::bytes) return true;
  if (field.kind != FieldKind::code_points)
    return is_number_of(field.kind, field.bytes) &&
           (field.kind == FieldKind::complex || field.bytes <= sizeof(uint64_t));
  if (field.bytes > UINT32_MAX / sizeof(char32_t)) return false;
  field.bytes *= sizeof(char32_t);
  return true;
}

// Reads "u32", "i64be", or a type of NumPy.
bool parse_type(std::string_view text, Field& field) {
  // u8 has 8 bits in our names and 8 bytes in NumPy's: without a byte order it is ours.
  if (!text.empty() && std::string_view("<>=|?S").contains(text.front()))
    return parse_numpy_type(text, field);
  field.big_endian = text.ends_with("be");
  if (field.big_endian || text.ends_with("le")) text.remove_suffix(2);
  const auto kind = text.empty() ? std::nullopt : number_kind(text.front());
  if (!kind) return false;
  field.kind = *kind;
  text.remove_prefix(1);
  uint32_t bits = 0;
  if (!take_number(text, bits) || !text.empty() || bits % 8 != 0) return false;
  field.bytes = bits / 8;
  return is_number_of(field.kind, field.bytes);
}

std::unexpected<Error> bad_field_key(const std::string& key, std::string hint) {
  return misuse("use this key", "--key " + key, std::move(hint));
}

Result<Key> parse_key(const std::string& spec, uint32_t record_bytes, const RecordType& type,
                      bool descending) {
  std::string_view text = spec;
  Key key{.reverse = descending};
  for (const std::string_view direction : {":r", ":desc", ":asc"}) {
    if (!text.ends_with(direction)) continue;
    key.reverse = direction != ":asc";
    text.remove_suffix(direction.size());
    break;
  }
  const auto named = std::ranges::find(type.fields, text, &Field::name);
  if (named != type.fields.end()) {
    key.field = *named;
    return key;
  }
  Field& field = key.field;
  uint32_t bytes = 0;
  if (!take_number(text, field.offset) || !take(text, ":") || !take_number(text, bytes) ||
      bytes == 0) {
    return bad_field_key(spec,
                         type.fields.empty()
                             ? "OFFSET:LENGTH[:TYPE][:desc], as in --key 0:10 or --key 4:8:u64:desc"
                             : "a field's name, or OFFSET:LENGTH[:TYPE][:desc]");
  }
  field.bytes = bytes;
  if (!text.empty() && (!take(text, ":") || !parse_type(text, field))) {
    return bad_field_key(
        spec,
        "a type: u8 to u128, i8 to i128, f16 to f64, so followed by be, or NumPy's, "
        "as in --key 4:8:u64 or --key '4:8:>u8'");
  }
  if (field.bytes != bytes)
    return bad_field_key(spec, fmt::format("{} bytes, which such a number has", field.bytes));
  if (uint64_t{field.offset} + field.bytes > record_bytes)
    return bad_field_key(spec, fmt::format("a key inside the {} bytes of a record", record_bytes));
  return key;
}

void skip_spaces(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
}

bool take_quoted(std::string_view& text, std::string& word) {
  skip_spaces(text);
  if (text.empty() || (text.front() != '\'' && text.front() != '"')) return false;
  const size_t end = text.find(text.front(), 1);
  if (end == std::string_view::npos) return false;
  word = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  skip_spaces(text);
  return true;
}

// Reads a shape such as "(3,)", "(2, 3)" or "3", and returns its number of elements.
bool take_shape(std::string_view& text, uint64_t& count) {
  skip_spaces(text);
  const bool is_tuple = take(text, "(");
  count = 1;
  do {
    skip_spaces(text);
    uint32_t dimension = 0;
    if (is_tuple && text.starts_with(')')) break;
    if (!take_number(text, dimension) || dimension == 0) return false;
    count *= dimension;
    if (count > UINT32_MAX) return false;
    skip_spaces(text);
  } while (is_tuple && take(text, ","));
  if (is_tuple && !take(text, ")")) return false;
  skip_spaces(text);
  return true;
}

// Reads an element of a list: ('name', '<u4') or ('name', '<u4', (3,)).
bool take_list_field(std::string_view& text, Field& field, uint64_t& count) {
  std::string type;
  count = 1;
  if (!take(text, "(") || !take_quoted(text, field.name) || !take(text, ",") ||
      !take_quoted(text, type) || !parse_numpy_type(type, field))
    return false;
  if (take(text, ",") && !text.starts_with(')') && !take_shape(text, count)) return false;
  return take(text, ")");
}

bool take_list(std::string_view text, RecordType& type) {
  while (!text.starts_with(']')) {
    Field field;
    uint64_t count = 0;
    if (!take_list_field(text, field, count)) return false;
    field.offset = type.bytes;
    const uint64_t bytes = uint64_t{type.bytes} + field.bytes * count;
    if (bytes > UINT32_MAX) return false;
    type.bytes = static_cast<uint32_t>(bytes);
    // An array is no number: it is ordered byte by byte.
    if (count > 1) {
      field.bytes = type.bytes - field.offset;
      field.kind = FieldKind::bytes;
    }
    if (!field.name.empty()) type.fields.push_back(std::move(field));
    skip_spaces(text);
    if (!take(text, ",") && !text.starts_with(']')) return false;
    skip_spaces(text);
  }
  return text == "]";
}

bool take_words(std::string_view text, RecordType& type) {
  for (bool more = true; more;) {
    const size_t end = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, end);
    skip_spaces(word);
    Field field{.name = fmt::format("f{}", type.fields.size()), .offset = type.bytes};
    if (!parse_numpy_type(word, field) || field.bytes > UINT32_MAX - type.bytes) return false;
    type.bytes += field.bytes;
    type.fields.push_back(std::move(field));
    more = end < text.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return true;
}

}  // namespace

Result<RecordType> parse_dtype(std::string_view text) {
  RecordType type;
  std::string_view rest = text;
  skip_spaces(rest);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\n')) rest.remove_suffix(1);
  const bool fine =
      take(rest, "[") ? (skip_spaces(rest), take_list(rest, type)) : take_words(rest, type);
  if (fine && type.bytes > 0) return type;
  return misuse("read this description of a record", "--dtype " + std::string(text),
                "NumPy's: '<u8,>f4,S10', or \"[('id', '<u8'), ('name', 'S10')]\", as "
                "str(a.dtype.descr), of b1, i1 "
                "to i8, u1 to u8, f2 to f8, c8, c16, M8, m8, S, U and V; fields of other types, "
                "made one of these "
                "by astype(), or V where they are no key");
}

Result<std::shared_ptr<const KeyOrder>> field_order(const std::vector<std::string>& keys,
                                                    uint32_t record_bytes, const RecordType& type,
                                                    bool descending) {
  std::vector<Key> parsed;
  std::string name;
  for (const std::string& spec : keys) {
    auto key = parse_key(spec, record_bytes, type, descending);
    if (!key) return std::unexpected(key.error());
    name += fmt::format(" {}:{}:{}{}{}", key->field.offset, key->field.bytes,
                        static_cast<int>(key->field.kind), key->field.big_endian ? "be" : "",
                        key->reverse ? "r" : "");
    parsed.push_back(std::move(*key));
  }
  return std::make_shared<const FieldOrder>(std::move(name), std::move(parsed));
}

}  // namespace penstock::items
