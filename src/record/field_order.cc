#include "record/field_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/misuse.h"
#include "record/codec.h"

namespace penstock::record {
namespace {

struct Key {
  Field field;
  bool reverse = false;
};

// As an unsigned integer of as many bytes, whose order is the number's.
uint64_t encode(FieldKind kind, uint32_t bytes, uint64_t number) {
  switch (kind) {
    case FieldKind::signed_integer:
      return number ^ (uint64_t{1} << (8 * bytes - 1));
    case FieldKind::floating:
      return bytes == sizeof(double) ? F64Codec::encode(number)
                                     : F32Codec::encode(static_cast<uint32_t>(number));
    default:
      return number;
  }
}

void append_field(const Key& key, std::string_view record, std::string& to) {
  const Field& field = key.field;
  const std::string_view text = record.substr(field.offset, field.bytes);
  const size_t from = to.size();
  if (field.kind == FieldKind::bytes) {
    to.append(text);
  } else {
    uint64_t number = 0;
    for (uint32_t i = 0; i < field.bytes; ++i) {
      const char byte = text[field.big_endian ? i : field.bytes - 1 - i];
      number = number << 8 | static_cast<unsigned char>(byte);
    }
    number = encode(field.kind, field.bytes, number);
    for (uint32_t i = field.bytes; i-- > 0;) to.push_back(static_cast<char>(number >> (8 * i)));
  }
  if (key.reverse) {
    for (size_t i = from; i < to.size(); ++i) to[i] = static_cast<char>(~to[i]);
  }
}

class FieldOrder final : public KeyOrder {
 public:
  FieldOrder(std::string name, std::vector<Key> keys)
      : KeyOrder(std::move(name), false), keys_(std::move(keys)) {}

  void append(std::string_view record, std::string& to) const override {
    for (const Key& key : keys_) append_field(key, record, to);
  }

 private:
  std::vector<Key> keys_;
};

template <class Number>
bool take_number(std::string_view& text, Number& number) {
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
  if (kind == FieldKind::floating) return bytes == 4 || bytes == 8;
  return bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
}

// The letters of numbers are NumPy's and ours.
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

// "<u4", "S10", "V4", "?".
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
  const char letter = text.front();
  text.remove_prefix(1);
  if (!take_number(text, field.bytes) || !text.empty() || field.bytes == 0) return false;
  field.kind = number_kind(letter).value_or(FieldKind::bytes);
  if (field.kind == FieldKind::bytes) return letter == 'S' || letter == 'V';
  return is_number_of(field.kind, field.bytes);
}

// "u32", "i64be", or NumPy's.
bool parse_type(std::string_view text, Field& field) {
  // u8 is a number of 8 bits here, and one of 8 bytes there: without a byte order it is ours.
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

std::unexpected<Error> bad_key(const std::string& key, std::string hint) {
  return misuse("use this key", "--key " + key, std::move(hint));
}

Result<Key> parse_key(const std::string& spec, uint32_t record_bytes, const RecordType& type) {
  std::string_view text = spec;
  Key key;
  if (text.ends_with(":r")) {
    key.reverse = true;
    text.remove_suffix(2);
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
    return bad_key(spec, type.fields.empty()
                             ? "OFFSET:LENGTH[:TYPE][:r], as in --key 0:10 or --key 4:8:u64:r"
                             : "a field's name, or OFFSET:LENGTH[:TYPE][:r]");
  }
  field.bytes = bytes;
  if (!text.empty() && (!take(text, ":") || !parse_type(text, field))) {
    return bad_key(spec,
                   "a type: u8 to u64, i8 to i64, f32, f64, so with be behind it, or NumPy's, "
                   "as in --key 4:8:u64 or --key '4:8:>u8'");
  }
  if (field.bytes != bytes)
    return bad_key(spec, fmt::format("{} bytes, which such a number has", field.bytes));
  if (uint64_t{field.offset} + field.bytes > record_bytes)
    return bad_key(spec, fmt::format("a key inside the {} bytes of a record", record_bytes));
  return key;
}

void skip_blanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
}

bool take_quoted(std::string_view& text, std::string& word) {
  skip_blanks(text);
  if (text.empty() || (text.front() != '\'' && text.front() != '"')) return false;
  const size_t end = text.find(text.front(), 1);
  if (end == std::string_view::npos) return false;
  word = text.substr(1, end - 1);
  text.remove_prefix(end + 1);
  skip_blanks(text);
  return true;
}

// "(3,)" or "(2, 3)" or "3": how many there are.
bool take_shape(std::string_view& text, uint64_t& count) {
  skip_blanks(text);
  const bool is_tuple = take(text, "(");
  count = 1;
  do {
    skip_blanks(text);
    uint32_t dimension = 0;
    if (is_tuple && text.starts_with(')')) break;
    if (!take_number(text, dimension) || dimension == 0) return false;
    count *= dimension;
    if (count > UINT32_MAX) return false;
    skip_blanks(text);
  } while (is_tuple && take(text, ","));
  if (is_tuple && !take(text, ")")) return false;
  skip_blanks(text);
  return true;
}

// One of a list: ('name', '<u4') or ('name', '<u4', (3,)).
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
    // Several of them are no key: byte by byte, as they lie.
    if (count > 1) {
      field.bytes = type.bytes - field.offset;
      field.kind = FieldKind::bytes;
    }
    if (!field.name.empty()) type.fields.push_back(std::move(field));
    skip_blanks(text);
    if (!take(text, ",") && !text.starts_with(']')) return false;
    skip_blanks(text);
  }
  return text == "]";
}

bool take_words(std::string_view text, RecordType& type) {
  for (bool more = true; more;) {
    const size_t end = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, end);
    skip_blanks(word);
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
  skip_blanks(rest);
  while (!rest.empty() && (rest.back() == ' ' || rest.back() == '\n')) rest.remove_suffix(1);
  const bool fine =
      take(rest, "[") ? (skip_blanks(rest), take_list(rest, type)) : take_words(rest, type);
  if (fine && type.bytes > 0) return type;
  return misuse(
      "read this description of a record", "--dtype " + std::string(text),
      "NumPy's: '<u8,>f4,S10', or \"[('id', '<u8'), ('name', 'S10')]\", as str(a.dtype.descr)");
}

Result<std::shared_ptr<const KeyOrder>> field_order(const std::vector<std::string>& keys,
                                                    uint32_t record_bytes, const RecordType& type) {
  std::vector<Key> parsed;
  std::string name;
  for (const std::string& spec : keys) {
    auto key = parse_key(spec, record_bytes, type);
    if (!key) return std::unexpected(key.error());
    name += fmt::format(" {}:{}:{}{}{}", key->field.offset, key->field.bytes,
                        static_cast<int>(key->field.kind), key->field.big_endian ? "be" : "",
                        key->reverse ? "r" : "");
    parsed.push_back(std::move(*key));
  }
  return std::make_shared<const FieldOrder>(std::move(name), std::move(parsed));
}

}  // namespace penstock::record
