#include "items/items.h"

#include <fmt/format.h>

#include "base/thread_object.h"
#include "items/keys/codec.h"
#include "items/keys/text/text_order.h"
#include "items/line_ends.h"
#include "items/rows.h"

namespace penstock::items {
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

size_t find_item_ends(const Format& format, const std::byte* begin, const std::byte* end,
                      size_t* ends, size_t ends_max) {
  const std::optional<char> quote = format.counted_quote();
  if (quote || format.framing().is_by_line())
    return find_line_ends(begin, end, format.line_end, quote, ends, ends_max);
  size_t found = 0;
  for (const std::byte* at = begin; found < ends_max;) {
    const size_t bytes = item_bytes_at(format, at, end);
    if (bytes == 0) break;
    at += bytes;
    ends[found++] = static_cast<size_t>(at - begin);
  }
  return found;
}

bool ends_with_text(const Format& format, std::string_view item) {
  const auto* const at = reinterpret_cast<const std::byte*>(item.data());
  return row_bytes_at(*format.csv, format.line_end, at, at + item.size()) == 0;
}

std::unexpected<Error> bad_item(const Format& format, std::string_view place,
                                const ItemFault& fault, std::optional<uint64_t> begin,
                                std::string subject) {
  const Framing& framing = format.framing();
  std::string hint = "another --format";
  if (fault.hint != nullptr)
    hint = fault.hint;
  else if (framing.hint_of_fault != nullptr)
    hint = framing.hint_of_fault(format, fault);
  // A line has a column. Rows may have several lines, or none.
  if (framing.is_by_line())
    return fault_at(ErrorCode::corrupt, fmt::format("{}, column {}", place, fault.at + 1),
                    fault.what, std::move(subject), std::move(hint));
  return fault_at(ErrorCode::corrupt, place,
                  fmt::format("{}, at {}byte {}", fault.what, begin ? "" : "its ",
                              begin.value_or(0) + fault.at),
                  std::move(subject), std::move(hint));
}

std::unexpected<Error> too_long(const Format& format, uint64_t bytes_max, std::string subject,
                                std::string item) {
  const std::string_view noun = format.framing().noun;
  if (item.empty()) item = fmt::format("{} {}", noun.starts_with('i') ? "an" : "a", noun);
  auto error = failure(ErrorCode::out_of_memory,
                       fmt::format("read {} of more than {} bytes", item, bytes_max),
                       std::move(subject), "a larger -S");
  error.error().item_bytes_max = bytes_max;
  return error;
}

std::string Place::text(const Format& format) const {
  const Framing& framing = format.framing();
  const std::string place = fmt::format("{} {}", framing.noun, row);
  return framing.spans_lines && line != row ? fmt::format("{} (line {})", place, line) : place;
}

std::string ItemOrder::name() const {
  std::string name(name_of(format_.type));
  if (!format_.numeric() && format_.fixed()) {
    name += fmt::format(" {} {}:{}", format_.record_bytes, format_.key_offset, format_.key_bytes);
  }
  if (descending_) name += " descending";
  if (format_.header_lines > 0) name += fmt::format(" header {}", format_.header_lines);
  if (format_.csv) name += " csv " + name_of(*format_.csv);
  if (format_.line_end != '\n') name += fmt::format(" lines-end {}", int{format_.line_end});
  if (format_.keys != nullptr) name += " keys " + format_.keys->name();
  return name;
}

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

bool ItemOrder::append_key(std::string_view item, std::string& to) const {
  if (format_.keys != nullptr) return format_.keys->append(without_line_end(format_, item), to);
  to.append(key_of(format_, item));
  return true;
}

std::string_view ItemOrder::checked_key(std::string_view item, std::string& room, bool& is_read,
                                        bool& is_even, std::optional<ItemFault>& fault) const {
  room.clear();
  is_read = is_even = true;
  if (format_.keys != nullptr &&
      format_.keys->append_checked(without_line_end(format_, item), room, is_read, fault))
    return room;
  fault = fault_of(format_, item, is_even);
  return fault ? std::string_view() : key(item, room, is_read);
}

uint64_t ItemOrder::prefix(std::string_view item, bool& is_read) const {
  is_read = true;
  if (format_.keys == nullptr) return prefix(item);
  static constinit thread_local ThreadObject<std::string> room_of_thread;
  return prefix_of_bytes(key(item, room_of_thread.get(), is_read));
}

std::string_view ItemOrder::made_key(std::string_view item) const {
  static constinit thread_local ThreadObject<std::string> room_of_thread;
  std::string& room = room_of_thread.get();
  return make_key(item, room);
}

int ItemOrder::compare_ties_of_bytes(std::string_view a, std::string_view b) const {
  static constinit thread_local ThreadObject<std::string> room_a_of_thread;
  std::string& room_a = room_a_of_thread.get();
  static constinit thread_local ThreadObject<std::string> room_b_of_thread;
  std::string& room_b = room_b_of_thread.get();
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

std::string printable_key(const Format& format, std::string_view item) {
  if (format.numeric()) {
    return with_number(format.type, [&]<class Number>(Number) {
      return fmt::format("{}", load<typename Number::Value>(item.data()));
    });
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

}  // namespace penstock::items
