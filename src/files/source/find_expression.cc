// Expressions that cannot leave a line.
//
// A search line by line costs a call of PCRE2 a line. A search of a block of lines costs one a hit,
// but differs wherever an expression can match '\n': "a[^b]*" runs on into the next line, and \A
// matches once. No line of text holds a '\n', so taking '\n' out of a class changes nothing in a
// line, and makes the class stop at its end:
//
//   \s       [^\S\n]            [^b]     [^\nb]                   \A       ^
//   \D \W    [^\d\n] [^\w\n]    [\s,]    [\x0b\f\r[:blank:],]     \z \Z    $
//
// If nothing in an expression can match '\n', every path of the matcher stays in its line, and ^, $,
// \b and lookarounds see in the block what they see in the line. The syntax that is passed through
// is a list of what was considered; an expression with anything else is searched line by line.

#include "files/source/find_expression.h"

#include <algorithm>

namespace penstock::source {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}
bool is_word(char c) {
  return is_digit(c) || is_letter(c) || c == '_';
}
bool is_hexadecimal(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

// A pass over an expression. Each take function moves one piece to the output, and returns false
// for a piece that is not understood.
class Rewriting {
 public:
  Rewriting(std::string_view expression,
            const std::function<bool(const std::string&)>& matches_newline)
      : left_(expression), matches_newline_(matches_newline) {}

  std::optional<std::string> run() {
    while (!left_.empty()) {
      const char c = left_.front();
      const bool understood = c == '\\'   ? take_escape()
                              : c == '['  ? take_class()
                              : c == '('  ? take_group()
                              : c != '\n' ? take(1)
                                          : false;
      if (!understood) return std::nullopt;
    }
    return std::move(out_);
  }

 private:
  bool take(size_t bytes) {
    out_ += left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return true;
  }
  bool replace(size_t bytes, std::string_view by) {
    out_ += by;
    left_.remove_prefix(bytes);
    return true;
  }
  // Returns a byte of the rest; '\n', which no piece may hold, beyond its end.
  char at(size_t index) const { return index < left_.size() ? left_[index] : '\n'; }

  bool take_escape() {
    switch (const char c = at(1)) {
      case 'Q':
        return take_quotation();
      case 'A':
        return replace(2, "^");
      case 'z':
      case 'Z':
        return replace(2, "$");
      case 'D':
        return replace(2, "[^\\d\\n]");
      case 'W':
        return replace(2, "[^\\w\\n]");
      case 's':
        return replace(2, "[^\\S\\n]");
      case 'H':
        return replace(2, "[^\\h\\n]");
      case 'x': {
        const std::string_view digits = left_.substr(0, 4).substr(2);
        return digits.size() == 2 && std::ranges::all_of(digits, is_hexadecimal) &&
               digits != "0a" && digits != "0A" && take(4);
      }
      default:
        if (std::string_view("dwShVbBKtrfea").contains(c)) return take(2);
        // A group's text (\1) may be left over from an earlier line: PCRE2 10.42 compiled to machine
        // code keeps that of (a)*+ where the match begins anew.
        return c != '\n' && !is_letter(c) && !is_digit(c) && take(2);  // the byte itself
    }
  }

  // Takes \Q...\E.
  bool take_quotation() {
    constexpr std::string_view end = "\\E";
    const size_t found = left_.find(end, 2);
    const size_t bytes = found == left_.npos ? left_.size() : found + end.size();
    return !left_.substr(0, bytes).contains('\n') && take(bytes);
  }

  bool take_class() {
    const size_t begin = out_.size();
    const bool negated = at(1) == '^';
    if (negated) {
      replace(2, "[^\\n");
    } else {
      take(1);
    }
    // Directly behind the bracket these are literal; a '-' would now make a range.
    if (at(0) == ']' || at(0) == '-') out_ += '\\';
    for (bool first = true; first || at(0) != ']'; first = false) {
      if (at(0) == '\n') return false;
      if (at(0) == '\\' && std::string_view("cEQ\n").contains(at(1))) return false;
      if (at(0) == '\\' && at(1) == 's' && !negated) {
        replace(2, "\\x0b\\f\\r[:blank:]");
      } else if (at(0) == '[' && std::string_view(":.=").contains(at(1))) {
        if (!take_named_class()) return false;
      } else {
        take(at(0) == '\\' ? 2 : 1);
      }
    }
    take(1);
    return !matches_newline_(out_.substr(begin));
  }

  // Takes [:name:].
  bool take_named_class() {
    size_t bytes = at(2) == '^' ? 3 : 2;
    while (is_letter(at(bytes))) ++bytes;
    return at(1) == ':' && at(bytes) == ':' && at(bytes + 1) == ']' && take(bytes + 2);
  }

  // Takes a group's beginning, but not of "(?=": PCRE2 10.42 may count the bytes that it sees as the
  // match's, and then misses a line by itself that it finds in a block.
  bool take_group() {
    if (at(1) == '*') return false;  // a verb
    if (at(1) != '?') return take(1);
    static constexpr std::string_view beginnings[] = {"(?:", "(?!",  "(?<=", "(?<!",  "(?>",
                                                      "(?|", "(?i)", "(?i:", "(?-i)", "(?-i:"};
    for (const std::string_view beginning : beginnings)
      if (left_.starts_with(beginning)) return take(beginning.size());
    size_t bytes = at(2) == 'P' ? 3 : 2;
    const char opener = at(bytes);
    if (opener != '<' && (opener != '\'' || at(2) == 'P')) return false;
    do ++bytes;
    while (is_word(at(bytes)));
    return at(bytes) == (opener == '<' ? '>' : '\'') && take(bytes + 1);
  }

  std::string_view left_;
  const std::function<bool(const std::string&)>& matches_newline_;
  std::string out_;
};

}  // namespace

std::optional<std::string> expression_within_lines(
    std::string_view expression, const std::function<bool(const std::string&)>& matches_newline) {
  return Rewriting(expression, matches_newline).run();
}

}  // namespace penstock::source
