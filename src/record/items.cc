#include "record/items.h"

#include <fmt/format.h>

#include "record/codec.h"
#include "record/text/text_order.h"

namespace penstock::record {
namespace {

constexpr size_t key_text_bytes_max = 64;

std::string printable(std::string_view key) {
  std::string text;
  for (const unsigned char byte : key.substr(0, key_text_bytes_max)) {
    const bool plain = byte >= 0x20 && byte != 0x7f && byte != '\\';
    text += plain ? std::string(1, static_cast<char>(byte)) : fmt::format("\\x{:02x}", byte);
  }
  return text;
}

}  // namespace

uint64_t ItemOrder::number(std::string_view item) const {
  if (item_bytes_of(format_.type) == sizeof(uint32_t)) {
    const uint32_t key = encode_key32(format_.type, load<uint32_t>(item.data()));
    return descending_ ? ~key : key;
  }
  const uint64_t key = encode_key64(format_.type, load<uint64_t>(item.data()));
  return descending_ ? ~key : key;
}

std::string_view ItemOrder::make_key(std::string_view item, std::string& room) const {
  room.clear();
  append_key(item, room);
  return room;
}

void ItemOrder::append_key(std::string_view item, std::string& to) const {
  if (format_.keys == nullptr) {
    to.append(key_of(format_, item));
  } else {
    format_.keys->append(without_line_end(format_, item), to);
  }
}

std::string_view ItemOrder::made_key(std::string_view item) const {
  thread_local std::string room;
  return make_key(item, room);
}

int ItemOrder::compare_ties_of_bytes(std::string_view a, std::string_view b) const {
  thread_local std::string room_a;
  thread_local std::string room_b;
  return compare_keys(key(a, room_a), key(b, room_b));
}

ItemKey ItemOrder::item_key(std::string_view item) const {
  if (format_.numeric()) return {number(item)};
  std::string room;
  return key_of_bytes(std::string(key(item, room)));
}

int ItemOrder::compare(std::string_view a, std::string_view b) const {
  const uint64_t left = prefix(a);
  const uint64_t right = prefix(b);
  if (left != right) return left < right ? -1 : 1;
  return compare_ties(a, b);
}

std::optional<size_t> header_bytes(const Format& format, std::string_view data) {
  const auto* const begin = reinterpret_cast<const std::byte*>(data.data());
  const auto* const end = begin + data.size();
  const std::byte* at = begin;
  for (uint32_t line = 0; line < format.header_lines; ++line) {
    const size_t bytes = item_bytes_at(format, at, end);
    if (bytes == 0) return {};
    at += bytes;
  }
  return static_cast<size_t>(at - begin);
}

Result<Format> with_header(const Format& format, std::string_view header) {
  // Which some programs put in front of UTF-8.
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (header.starts_with(byte_order_mark)) header.remove_prefix(byte_order_mark.size());
  std::string_view first;
  uint32_t lines = 0;
  for (std::string_view rest = header; !rest.empty() && lines < format.header_lines; ++lines) {
    const auto* const begin = reinterpret_cast<const std::byte*>(rest.data());
    std::string_view row = item_at(format, begin, begin + rest.size());
    if (row.empty()) row = rest;
    if (const auto fault = fault_of(format, row)) {
      return failure(ErrorCode::corrupt,
                     fmt::format("read the header: in its row {}, at byte {} of that, is {}",
                                 lines + 1, fault->at, fault->what),
                     "", "no --header, if its first line is none; --format lines, if it is no CSV");
    }
    if (lines == 0) first = without_line_end(format, row);
    rest.remove_prefix(row.size());
  }
  if (format.columns == nullptr) return format;
  TextOptions options = *format.columns;
  options.header = fields_of_row(first, format.csv.value_or(','));
  auto order = TextOrder::make(options);
  if (!order) return std::unexpected(order.error());
  Format made = format;
  made.keys = *order;
  return made;
}

std::string printable_key(const Format& format, std::string_view item) {
  const auto* bytes = reinterpret_cast<const std::byte*>(item.data());
  switch (format.type) {
    case Type::u32:
      return fmt::format("{}", load<uint32_t>(bytes));
    case Type::i32:
      return fmt::format("{}", load<int32_t>(bytes));
    case Type::f32:
      return fmt::format("{}", load<float>(bytes));
    case Type::i64:
      return fmt::format("{}", load<int64_t>(bytes));
    case Type::f64:
      return fmt::format("{}", load<double>(bytes));
    case Type::u64:
    case Type::kv64:
      return fmt::format("{}", load<uint64_t>(bytes));
    default:
      break;
  }
  return printable(key_of(format, item));
}

std::string printable_key(const Format& format, const ItemKey& key) {
  if (!format.numeric()) return printable(key.bytes);
  std::byte number[sizeof key.prefix];
  if (format.key_bytes == sizeof(uint32_t)) {
    store(number, decode_key32(format.type, static_cast<uint32_t>(key.prefix)));
  } else {
    store(number, decode_key64(format.type, key.prefix));
  }
  return printable_key(format, text_at(number, sizeof number));
}

}  // namespace penstock::record
