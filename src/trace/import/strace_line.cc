#include "trace/import/strace_line.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include "trace/import/log_source.h"

namespace penstock::trace {
namespace {

using std::string_view;

constexpr uint64_t seconds_max = uint64_t{1} << 32;  // the year 2106
constexpr uint64_t process_id_max = 1 << 22;         // limit of Linux

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads a text from its front.
class Scanner {
 public:
  explicit Scanner(string_view text) : rest_(text) {}

  string_view rest() const { return rest_; }
  bool at_end() const { return rest_.empty(); }
  char peek() const { return rest_.empty() ? '\0' : rest_.front(); }
  void skip(size_t bytes) { rest_.remove_prefix(std::min(bytes, rest_.size())); }
  void skip_spaces() { skip(std::min(rest_.find_first_not_of(" \t"), rest_.size())); }
  bool take(string_view text) {
    if (!rest_.starts_with(text)) return false;
    skip(text.size());
    return true;
  }
  // Takes everything up to `c`, and `c` itself. Returns nullopt, and takes nothing, without a `c`.
  std::optional<string_view> take_until(char c) {
    const size_t at = rest_.find(c);
    if (at == rest_.npos) return {};
    const string_view taken = rest_.substr(0, at);
    skip(at + 1);
    return taken;
  }
  std::optional<uint64_t> take_number() {
    uint64_t value = 0;
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (error != std::errc{}) return {};
    skip(static_cast<size_t>(end - rest_.data()));
    return value;
  }
  // Takes a fraction ".000123" as nanoseconds; 0 if there is none.
  uint64_t take_fraction() {
    if (peek() != '.') return 0;
    skip(1);
    uint64_t ns = 0;
    int digits = 0;
    for (; is_digit(peek()); skip(1)) {
      if (digits < 9) ns = 10 * ns + static_cast<uint64_t>(peek() - '0'), ++digits;
    }
    for (; digits < 9; ++digits) ns *= 10;
    return ns;
  }

 private:
  string_view rest_;
};

// Parses "seconds.fraction".
std::optional<uint64_t> duration_of(string_view text) {
  Scanner scanner(text);
  const auto seconds = scanner.take_number();
  if (!seconds || *seconds >= seconds_max) return {};
  const uint64_t ns = *seconds * ns_per_second + scanner.take_fraction();
  if (!scanner.at_end()) return {};
  return ns;
}

std::optional<int32_t> thread_of(string_view text) {
  Scanner scanner(text);
  const auto number = scanner.take_number();
  // -Y writes a thread as "1234<bash>".
  if (scanner.peek() == '<') (void)scanner.take_until('>');
  if (!number || *number == 0 || *number > process_id_max || !scanner.at_end()) return {};
  return static_cast<int32_t>(*number);
}

// Takes the time in front of a call, if there is one. Returns false if a required time is missing.
bool take_time(Scanner& scanner, StraceLine& line) {
  scanner.skip_spaces();
  if (!is_digit(scanner.peek())) return true;
  const auto first = scanner.take_number();
  if (!first || *first >= seconds_max) return false;
  if (scanner.peek() == ':') {
    scanner.skip(1);
    const auto minutes = scanner.take_number();
    if (!minutes || *minutes > 59 || *first > 23 || !scanner.take(":")) return false;
    const auto seconds = scanner.take_number();
    if (!seconds || *seconds > 60) return false;
    line.clock = StraceLine::Clock::of_day;
    line.time_ns =
        (*first * 3600 + *minutes * 60 + *seconds) * ns_per_second + scanner.take_fraction();
  } else {
    // -ttt writes seconds since 1970, -r those since the previous line.
    const bool relative = *first < process_id_max;
    line.clock = relative ? StraceLine::Clock::since_last : StraceLine::Clock::since_1970;
    line.time_ns = *first * ns_per_second + scanner.take_fraction();
  }
  if (scanner.peek() != ' ') return false;
  scanner.skip_spaces();
  // -ttt and -r together write "(+ 0.000123)".
  if (scanner.take("(+")) {
    if (!scanner.take_until(')')) return false;
    scanner.skip_spaces();
  }
  return true;
}

// Takes the thread in front of a line: "[pid 12] " or "12 ". A bare number may be a time: a thread's
// is small, and neither "." nor ":" follows it.
bool take_thread(Scanner& scanner, StraceLine& line) {
  scanner.skip_spaces();
  std::optional<int32_t> thread;
  if (scanner.take("[pid")) {
    scanner.skip_spaces();
    const auto text = scanner.take_until(']');
    thread = text ? thread_of(*text) : std::nullopt;
    if (!thread) return false;
  } else if (is_digit(scanner.peek())) {
    Scanner ahead = scanner;
    const auto number = ahead.take_number();
    if (ahead.peek() == '<') (void)ahead.take_until('>');
    if (!number || *number > process_id_max || ahead.peek() != ' ') return true;
    if (*number == 0) return false;
    thread = static_cast<int32_t>(*number);
    scanner = ahead;
  }
  line.thread = thread.value_or(0);
  return true;
}

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || is_digit(c) || c == '_' || c == '?';
}

int32_t signal_number(string_view name) {
  constexpr std::pair<string_view, int32_t> numbers[] = {
      {"SIGHUP", 1},   {"SIGINT", 2},   {"SIGQUIT", 3},  {"SIGILL", 4},   {"SIGTRAP", 5},
      {"SIGABRT", 6},  {"SIGBUS", 7},   {"SIGFPE", 8},   {"SIGKILL", 9},  {"SIGUSR1", 10},
      {"SIGSEGV", 11}, {"SIGUSR2", 12}, {"SIGPIPE", 13}, {"SIGALRM", 14}, {"SIGTERM", 15},
      {"SIGXCPU", 24}, {"SIGXFSZ", 25}, {"SIGSYS", 31}};
  for (const auto& [known, number] : numbers) {
    if (name == known) return number;
  }
  return 0;
}

// Parses "+++ exited with 3 +++" and its like.
bool parse_end(Scanner scanner, StraceLine& line) {
  if (scanner.take("exited with ")) {
    const auto code = scanner.take_number();
    if (!code || *code > 255) return false;
    line.kind = StraceLine::Kind::exited;
    line.number = static_cast<int32_t>(*code);
    return true;
  }
  if (scanner.take("killed by ")) {
    const auto name = scanner.take_until(' ');
    if (!name) return false;
    line.kind = StraceLine::Kind::exited;
    line.number = 128 + signal_number(*name);
    return true;
  }
  if (scanner.take("superseded by execve in pid ")) {
    const auto by = scanner.take_until(' ');
    const auto thread = by ? thread_of(*by) : std::nullopt;
    if (!thread) return false;
    line.kind = StraceLine::Kind::superseded;
    line.number = *thread;
    return true;
  }
  return true;  // an unknown remark
}

// Parses "--- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=12, ...} ---".
void parse_signal(string_view text, StraceLine& line) {
  if (!text.starts_with("SIGCHLD ")) return;
  const string_view code = strace_member(text, "si_code");
  if (code != "CLD_EXITED" && code != "CLD_KILLED" && code != "CLD_DUMPED") return;
  if (const auto child = thread_of(strace_member(text, "si_pid"))) {
    line.kind = StraceLine::Kind::child_gone;
    line.number = *child;
  }
}

bool parse_body(string_view text, StraceLine& line) {
  Scanner scanner(text);
  if (scanner.take("+++ ")) return parse_end(scanner, line);
  if (scanner.take("--- ")) {
    parse_signal(scanner.rest(), line);
    return true;
  }
  // "read(0, <unfinished ...>) = ?": the thread died in a call.
  const bool died = text.ends_with("= ?") && text.find("<unfinished ...>)") != text.npos;
  if (scanner.take("<... ")) {
    const auto name = scanner.take_until(' ');
    if (!name || !scanner.take("resumed>")) return false;
    if (died) return true;
    line.kind = StraceLine::Kind::resumed;
    line.name = *name;
    line.text = scanner.rest();
    return true;
  }
  size_t name_bytes = 0;
  while (name_bytes < text.size() && is_name_character(text[name_bytes])) ++name_bytes;
  if (name_bytes == 0 || name_bytes >= text.size() || text[name_bytes] != '(') return false;
  if (died || text.ends_with("<detached ...>")) return true;
  line.kind = StraceLine::Kind::call;
  line.name = text.substr(0, name_bytes);
  line.text = text;
  if (!text.ends_with(" ...>")) return true;
  // The end may be "<unfinished ...>" or "<pid changed to 12 ...>".
  const size_t mark = text.rfind('<');
  if (mark == text.npos) return true;
  const string_view remark = text.substr(mark);
  Scanner changed(remark);
  if (changed.take("<pid changed to ")) {
    const auto to = changed.take_until(' ');
    const auto thread = to ? thread_of(*to) : std::nullopt;
    if (!thread) return false;
    line.number = *thread;
  } else if (remark != "<unfinished ...>") {
    return true;
  }
  line.kind = StraceLine::Kind::unfinished;
  line.text = text.substr(0, mark);
  return true;
}

// Returns the position behind the annotation that begins with the '<' at `at`: "</a/b>",
// "</dev/null<char 1:3>>", "<TCP:[[::1]:80->[::1]:1234]>". In paths strace writes < and > as \74 and
// \76; elsewhere brackets may contain a >.
size_t skip_annotation(string_view text, size_t at) {
  const bool path = at + 1 < text.size() && text[at + 1] == '/';
  size_t angles = 0, brackets = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (!path && c == '[') ++brackets;
    if (!path && c == ']' && brackets > 0) --brackets;
    if (brackets > 0) continue;
    if (c == '<') ++angles;
    if (c == '>' && --angles == 0) return at + 1;
  }
  return text.size();
}

size_t skip_string(string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at) {
    if (text[at] == '\\') ++at;
  }
  return std::min(at + 1, text.size());
}

// Returns the position of the comma or bracket that ends the argument at `at`; the text's end if
// there is none.
size_t argument_end(string_view text, size_t at) {
  size_t depth = 0;
  char before = ' ';
  while (at < text.size()) {
    const char c = text[at];
    if (c == '"') {
      at = skip_string(text, at);
      before = '"';
      continue;
    }
    // An annotation is behind a descriptor's number or a constant's name.
    if (c == '<' && text.substr(at, 2) != "<<" &&
        (is_digit(before) || (before >= 'A' && before <= 'Z'))) {
      at = skip_annotation(text, at);
      before = '>';
      continue;
    }
    if (c == '/' && at + 1 < text.size() && text[at + 1] == '*') {
      const size_t end = text.find("*/", at + 2);
      at = end == text.npos ? text.size() : end + 2;
      before = '/';
      continue;
    }
    if (c == '(' || c == '[' || c == '{') ++depth;
    if (c == ')' || c == ']' || c == '}') {
      if (depth == 0) return at;
      --depth;
    }
    if (c == ',' && depth == 0) return at;
    before = c;
    ++at;
  }
  return at;
}

int digit_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

}  // namespace

std::optional<StraceLine> parse_strace_line(string_view text) {
  StraceLine line;
  while (text.ends_with(' ')) text.remove_suffix(1);
  // Stacks (-k), and strace's own messages.
  if (text.empty() || text.starts_with(" > ") || text.starts_with("strace: ") ||
      text.starts_with("[ Process")) {
    return line;
  }
  Scanner scanner(text);
  if (!take_thread(scanner, line) || !take_time(scanner, line)) return {};
  // -i and -n write addresses and numbers: "[00007f...]", "[ 257]".
  while (scanner.peek() == '[') {
    if (!scanner.take_until(']')) return {};
    scanner.skip_spaces();
  }
  if (!parse_body(scanner.rest(), line)) return {};
  return line;
}

std::optional<StraceRemark> parse_strace_remark(string_view line) {
  if (!line.ends_with("attached") && !line.ends_with("detached") && !line.ends_with(" threads")) {
    return {};
  }
  const size_t at = line.rfind("Process ");
  if (at == line.npos) return {};
  Scanner scanner(line.substr(at));
  (void)scanner.take("Process ");
  const auto word = scanner.take_until(' ');
  const auto thread = word ? thread_of(*word) : std::nullopt;
  if (!thread) return {};
  StraceRemark remark{.front = line.substr(0, at)};
  if (remark.front.ends_with("strace: ")) remark.front.remove_suffix(8);
  // A program's own output may end like this, but not behind a part of a call.
  if (scanner.take("attached")) remark.attached = *thread;
  return remark;
}

std::optional<string_view> strace_member(string_view list) {
  const size_t open = list.find('{');
  if (open == list.npos) return {};
  size_t at = open + 1;
  while (true) {
    at = argument_end(list, at);
    if (at >= list.size()) return {};
    if (list[at] == '}') return list.substr(open, at + 1 - open);
    ++at;
  }
}

string_view strace_field(string_view structure, string_view name) {
  if (!structure.starts_with('{')) return {};
  size_t at = 1;
  while (at < structure.size()) {
    const size_t end = argument_end(structure, at);
    const string_view field = trimmed(structure.substr(at, end - at));
    if (field.size() > name.size() && field.starts_with(name) && field[name.size()] == '=')
      return field.substr(name.size() + 1);
    at = end + 1;
  }
  return {};
}

std::optional<StraceCall> parse_strace_call(string_view text) {
  StraceCall call;
  const size_t open = text.find('(');
  if (open == text.npos) return {};
  size_t at = open + 1;
  while (true) {
    const size_t end = argument_end(text, at);
    if (end >= text.size()) return {};
    const string_view argument = trimmed(text.substr(at, end - at));
    const bool last = text[end] == ')';
    if (!last && text[end] != ',') return {};
    if (call.argument_count < call.arguments_max && !(last && argument.empty())) {
      call.arguments[call.argument_count++] = argument;
    }
    at = end + 1;
    if (last) break;
  }
  Scanner scanner(text.substr(at));
  scanner.skip_spaces();
  if (!scanner.take("=")) return {};
  scanner.skip_spaces();
  string_view rest = trimmed(scanner.rest());
  if (rest.empty()) return {};

  // The latency is at the end: "<0.000008>".
  if (rest.ends_with('>')) {
    const size_t mark = rest.rfind('<');
    if (mark != rest.npos) {
      if (const auto ns = duration_of(rest.substr(mark + 1, rest.size() - mark - 2))) {
        call.latency_ns = *ns;
        rest = trimmed(rest.substr(0, mark));
      }
    }
  }
  if (rest.starts_with('?') || rest.starts_with('-')) {
    call.failed = true;
    call.not_found = rest.starts_with("-1 ENOENT");
    return call;
  }
  const size_t number_bytes = std::min(rest.find_first_of(" <"), rest.size());
  const auto result = strace_number(rest.substr(0, number_bytes));
  if (!result) return {};
  call.result = static_cast<uint64_t>(*result);
  if (number_bytes < rest.size() && rest[number_bytes] == '<') {
    const size_t end = skip_annotation(rest, number_bytes);
    if (end - number_bytes >= 2) {
      call.result_annotation = rest.substr(number_bytes + 1, end - number_bytes - 2);
    }
  }
  return call;
}

std::optional<int64_t> strace_number(string_view text) {
  if (text == "~0U" || text == "~0") return std::numeric_limits<uint32_t>::max();
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  int base = 10;
  if (text.starts_with("0x")) {
    text.remove_prefix(2);
    base = 16;
  }
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc{} || end != text.data() + text.size()) return {};
  // Addresses may have their top bit set, and wrap around.
  return static_cast<int64_t>(negative ? 0 - value : value);
}

std::optional<uint64_t> strace_size(string_view text) {
  const auto number = strace_number(text);
  if (!number || *number < 0) return {};
  return static_cast<uint64_t>(*number);
}

std::optional<uint64_t> strace_bracketed(string_view text) {
  if (!text.starts_with('[')) return {};
  const size_t end = text.find(']');
  return end == text.npos ? std::nullopt : strace_size(text.substr(1, end - 1));
}

std::optional<StraceDescriptor> strace_descriptor(string_view text) {
  StraceDescriptor descriptor;
  const size_t angle = std::min(text.find('<'), text.size());
  const string_view number = text.substr(0, angle);
  if (number == "AT_FDCWD") {
    descriptor.number = StraceDescriptor::at_current_folder;
  } else {
    const auto value = strace_number(number);
    if (!value || *value < std::numeric_limits<int32_t>::min() ||
        *value > std::numeric_limits<uint32_t>::max()) {
      return {};
    }
    // close_range(3, 4294967295) means all descriptors from 3 on.
    descriptor.number =
        static_cast<int32_t>(std::min<int64_t>(*value, std::numeric_limits<int32_t>::max()));
  }
  if (angle < text.size()) {
    const size_t end = skip_annotation(text, angle);
    if (end - angle >= 2) descriptor.annotation = text.substr(angle + 1, end - angle - 2);
  }
  return descriptor;
}

std::string strace_unescaped(string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    char c = text[at++];
    if (c != '\\' || at == text.size()) {
      plain += c;
      continue;
    }
    c = text[at++];
    if (c == 'x') {
      int value = 0;
      for (int digits = 0; digits < 2 && at < text.size() && digit_value(text[at]) < 16; ++digits) {
        value = 16 * value + digit_value(text[at++]);
      }
      plain += static_cast<char>(value);
    } else if (c >= '0' && c <= '7') {
      int value = c - '0';
      for (int digits = 1; digits < 3 && at < text.size() && digit_value(text[at]) < 8; ++digits) {
        value = 8 * value + digit_value(text[at++]);
      }
      plain += static_cast<char>(value);
    } else {
      constexpr string_view letters = "ntrfvab", values = "\n\t\r\f\v\a\b";
      const size_t known = letters.find(c);
      plain += known == letters.npos ? c : values[known];
    }
  }
  return plain;
}

std::optional<std::string> strace_string(string_view quoted) {
  if (!quoted.starts_with('"')) return {};
  const size_t end = skip_string(quoted, 0);
  if (end < 2 || quoted[end - 1] != '"') return {};
  std::string text = strace_unescaped(quoted.substr(1, end - 2));
  if (const size_t zero = text.find('\0'); zero != text.npos) text.resize(zero);
  return text;
}

bool strace_has_flag(string_view flags, string_view name) {
  while (!flags.empty()) {
    const size_t bar = std::min(flags.find('|'), flags.size());
    if (flags.substr(0, bar) == name) return true;
    flags.remove_prefix(std::min(bar + 1, flags.size()));
  }
  return false;
}

string_view strace_member(string_view text, string_view name) {
  for (size_t at = 0; (at = text.find(name, at)) != text.npos; at += name.size()) {
    const bool whole = at == 0 || text[at - 1] == '{' || text[at - 1] == ' ' || text[at - 1] == ',';
    const size_t value = at + name.size();
    if (!whole || value >= text.size() || text[value] != '=') continue;
    const string_view rest = text.substr(value + 1);
    return rest.substr(0, std::min(rest.find_first_of(",} )"), rest.size()));
  }
  return {};
}

}  // namespace penstock::trace
