#include "items/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

#include "base/thread_object.h"
#include "items/keys/codec.h"
#include "items/keys/text/key_place.h"
#include "items/keys/values/numbers.h"
#include "items/rows.h"

namespace penstock::items {
namespace {

// Returns where the next quote, backslash or control character stands, or the end of the text.
size_t find_special(std::string_view text, size_t at) {
  constexpr uint64_t ones = 0x0101010101010101;
  // Sets the high bit of the lowest byte that is below `least`, and perhaps bits above it.
  const auto below = [](uint64_t word, uint64_t least) { return (word - ones * least) & ~word; };
  for (; text.size() - at >= sizeof(uint64_t); at += sizeof(uint64_t)) {
    const auto word = load<uint64_t>(text.data() + at);
    const uint64_t found =
        (below(word, ' ') | below(word ^ ones * quote, 1) | below(word ^ ones * '\\', 1)) &
        ones << 7;
    if (found != 0) return at + static_cast<size_t>(std::countr_zero(found)) / 8;
  }
  const auto is_special = [](char c) {
    return c == quote || c == '\\' || static_cast<unsigned char>(c) < ' ';
  };
  while (at < text.size() && !is_special(text[at])) ++at;
  return at;
}

// Reads the four digits of \uXXXX.
std::optional<unsigned> code_at(std::string_view text, size_t at) {
  unsigned code = 0;
  if (text.size() < at + 4) return {};
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
  if (error != std::errc{} || end != text.data() + at + 4) return {};
  return code;
}

void append_utf8(uint32_t code, std::string& to) {
  const auto put = [&](uint32_t byte) { to.push_back(static_cast<char>(byte)); };
  const auto put_rest = [&](unsigned shift) { put(0x80 | ((code >> shift) & 0x3f)); };
  if (code < 0x80) return put(code);
  if (code < 0x800) {
    put(0xc0 | code >> 6);
  } else {
    if (code < 0x10000) {
      put(0xe0 | code >> 12);
    } else {
      put(0xf0 | code >> 18);
      put_rest(12);
    }
    put_rest(6);
  }
  put_rest(0);
}

constexpr std::string_view escapes = "\"\\/bfnrt";
constexpr std::string_view escaped = "\"\\/\b\f\n\r\t";

// Returns the characters between the quotes of a string that has no fault.
std::string_view unescaped(std::string_view text, std::string& room) {
  size_t at = text.find('\\');
  if (at == text.npos) return text;
  room.clear();
  while (at != text.npos) {
    room.append(text.substr(0, at));
    const char escape = text[at + 1];
    text.remove_prefix(at + 2);
    if (escape == 'u') {
      uint32_t code = *code_at(text, 0);
      text.remove_prefix(4);
      const bool is_high = code >= 0xd800 && code < 0xdc00;
      const auto low = is_high && text.starts_with("\\u") ? code_at(text, 2) : std::nullopt;
      if (low && *low >= 0xdc00 && *low < 0xe000) {
        code = 0x10000 + ((code - 0xd800) << 10) + (*low - 0xdc00);
        text.remove_prefix(6);
      }
      append_utf8(code, room);
    } else {
      room.push_back(escaped[escapes.find(escape)]);
    }
    at = text.find('\\');
  }
  room.append(text);
  return room;
}

JsonType type_of(char first) {
  switch (first) {
    case '{':
      return JsonType::object;
    case '[':
      return JsonType::array;
    case quote:
      return JsonType::string;
    case 'n':
      return JsonType::null;
    case 'f':
      return JsonType::no;
    case 't':
      return JsonType::yes;
    default:
      return JsonType::number;
  }
}

// A walk over one object. Members are matched with the paths while it passes them.
class Walk {
 public:
  Walk(std::string_view text, std::span<const JsonPath> paths, std::vector<JsonValue>& values)
      : text_(text), paths_(paths), values_(values), matches_(matches()), room_(room()) {
    values_.assign(paths.size(), {});
    matches_.assign(paths.size(), {});
  }

  std::optional<ItemFault> go() {
    skip_blanks();
    if (at_ == text_.size()) return {};
    if (text_[at_] != '{') return ItemFault{at_, "a line that is no JSON object"};
    walk();
    return fault_;
  }

 private:
  // Values begin and end here; false ends the walk. The loop takes one value a time: an object or
  // array that is not empty goes on with the first value inside of it.
  void walk() {
    for (;;) {
      const char first = text_[at_];
      if (first == '{' || first == '[') {
        if (depth_ == json_depth_max) return fail("an array or object that is nested too deep");
        is_array_[depth_++] = first == '[';
        ++at_;
        if (!skip_to_next()) return;
        if (text_[at_] != closing()) {
          if (!begin_value()) return;
          continue;
        }
        ++at_;
        --depth_;
      } else if (!pass_scalar()) {
        return;
      }
      for (;;) {
        if (depth_ == 0) {
          skip_blanks();
          return at_ == text_.size() ? void() : fail("text after the object");
        }
        end_value();
        if (!skip_to_next()) return;
        const char next = text_[at_];
        if (next != ',' && next != closing())
          return fail(is_array_[depth_ - 1] ? "neither , nor ] after a value"
                                            : "neither , nor } after a value");
        ++at_;
        if (next == ',') break;
        --depth_;
      }
      if (!skip_to_next() || !begin_value()) return;
    }
  }

  char closing() const { return is_array_[depth_ - 1] ? ']' : '}'; }

  void fail(const char* what) { fault_ = ItemFault{at_, what}; }
  bool failed(const char* what) {
    fail(what);
    return false;
  }

  void skip_blanks() {
    const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; };
    while (at_ < text_.size() && is_blank(text_[at_])) ++at_;
  }
  bool skip_to_next() {
    skip_blanks();
    return at_ < text_.size() || failed("the end of the line inside an object");
  }

  // Passes the name in front of a member's value.
  bool begin_value() {
    if (is_array_[depth_ - 1]) return true;
    if (text_[at_] != quote) return failed("a member whose name is no string");
    const size_t begin = at_ + 1;
    bool has_escape = false;
    if (!pass_string(has_escape)) return false;
    const std::string_view name = text_.substr(begin, at_ - 1 - begin);
    if (!skip_to_next()) return false;
    if (text_[at_] != ':') return failed("no : after the name of a member");
    ++at_;
    if (!skip_to_next()) return false;
    for (size_t i = 0; i < paths_.size(); ++i) {
      Match& match = matches_[i];
      if (match.names + 1 != depth_ || paths_[i].size() < depth_) continue;
      if (paths_[i][depth_ - 1] != (has_escape ? unescaped(name, room_) : name)) continue;
      values_[i] = {};
      match = {.names = depth_, .begin = at_};
      ++open_;
    }
    return true;
  }

  // Ends the value of a member or an element, behind which the walk stands.
  void end_value() {
    for (size_t i = 0; open_ > 0 && i < paths_.size(); ++i) {
      Match& match = matches_[i];
      if (match.names != depth_) continue;
      if (paths_[i].size() == depth_)
        values_[i] = {type_of(text_[match.begin]), text_.substr(match.begin, at_ - match.begin)};
      --match.names;
      --open_;
    }
  }

  bool pass_scalar() {
    bool has_escape = false;
    switch (type_of(text_[at_])) {
      case JsonType::string:
        return pass_string(has_escape);
      case JsonType::null:
        return pass_word("null");
      case JsonType::no:
        return pass_word("false");
      case JsonType::yes:
        return pass_word("true");
      default:
        return pass_number();
    }
  }

  bool pass_word(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return failed("no value of JSON");
    at_ += word.size();
    return true;
  }

  bool pass_string(bool& has_escape) {
    const size_t begin = at_;
    for (++at_;;) {
      at_ = find_special(text_, at_);
      if (at_ == text_.size()) {
        at_ = begin;
        return failed("a quote that nothing closes");
      }
      const char special = text_[at_];
      if (special == quote) break;
      if (special != '\\') return failed("a control character in a string");
      has_escape = true;
      const char escape = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
      if (escape == 'u' ? !code_at(text_, at_ + 2) : !escapes.contains(escape))
        return failed("an escape that JSON has not");
      at_ += escape == 'u' ? 6 : 2;
    }
    ++at_;
    return true;
  }

  bool pass_digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > begin;
  }
  // (A call of memchr() takes longer than to compare with each.)
  bool pass_any_of(std::string_view characters) {
    const bool is_one =
        at_ < text_.size() && std::ranges::find(characters, text_[at_]) != characters.end();
    at_ += is_one;
    return is_one;
  }
  bool pass_number() {
    const size_t begin = at_;
    pass_any_of("-");
    const bool is_number = (pass_any_of("0") || pass_digits()) &&
                           (!pass_any_of(".") || pass_digits()) &&
                           (!pass_any_of("eE") || (pass_any_of("+-"), pass_digits()));
    if (is_number) return true;
    at_ = begin;
    return failed("no value of JSON");
  }

  // How far a path is matched: the names of it that lead to where the walk stands, and where the
  // value of the last one begins.
  struct Match {
    size_t names = 0;
    size_t begin = 0;
  };

  static std::vector<Match>& matches() {
    static constinit thread_local ThreadObject<std::vector<Match>> matches_of_thread;
    return matches_of_thread.get();
  }
  static std::string& room() {
    static constinit thread_local ThreadObject<std::string> room_of_thread;
    return room_of_thread.get();
  }

  std::string_view text_;
  size_t at_ = 0;
  std::array<bool, json_depth_max> is_array_;  // by depth
  size_t depth_ = 0;                           // objects and arrays around
  std::span<const JsonPath> paths_;
  std::vector<JsonValue>& values_;
  std::vector<Match>& matches_;
  size_t open_ = 0;  // sum of Match::names
  std::string& room_;
  std::optional<ItemFault> fault_;
};

}  // namespace

std::string_view JsonValue::text(std::string& room) const {
  if (type == JsonType::null) return {};
  if (type != JsonType::string) return written;
  return unescaped(written.substr(1, written.size() - 2), room);
}

std::string_view JsonValue::decimal(std::string& room) const {
  if (type != JsonType::number || written.find_first_of("eE") == written.npos) return text(room);
  const auto value = number();
  return value ? plain_digits(*value, room).value_or(written) : written;
}

std::optional<Number> JsonValue::number() const {
  constexpr size_t exponent_digits_max = 17;  // the digits in front of it may be as many again
  const auto is_mark = [](char c) { return c == 'e' || c == 'E'; };
  const auto mark = static_cast<size_t>(std::ranges::find_if(written, is_mark) - written.begin());
  Number number = number_in(written.substr(0, mark), nullptr);
  if (mark == written.size() || number.is_zero()) return number;
  std::string_view exponent = written.substr(mark + 1);
  const bool is_negative = exponent.starts_with('-');
  if (!is_digit(exponent.front())) exponent.remove_prefix(1);
  exponent.remove_prefix(std::min(exponent.find_first_not_of('0'), exponent.size()));
  if (exponent.size() > exponent_digits_max) return {};
  for (const char digit : exponent) number.exponent = 10 * number.exponent + (digit - '0');
  if (is_negative) number.exponent = -number.exponent;
  return number;
}

std::optional<ItemFault> find_members(std::string_view line, std::span<const JsonPath> paths,
                                      std::vector<JsonValue>& values) {
  return Walk(line, paths, values).go();
}

std::string json_string(std::string_view text) {
  std::string made(1, quote);
  for (size_t at = 0;;) {
    const size_t special = find_special(text, at);
    made += text.substr(at, special - at);
    if (special == text.size()) break;
    const size_t escape = escaped.find(text[special]);
    if (escape == escaped.npos) {
      made += fmt::format("\\u{:04x}", text[special]);
    } else {
      (made += '\\') += escapes[escape];
    }
    at = special + 1;
  }
  return made += quote;
}

}  // namespace penstock::items
