#include <algorithm>
#include <string>
#include <string_view>

#include "trace/import/import_sources.h"
#include "trace/import/strace_line.h"

// The beginning of a log of strace: its command, its start, and whether it is such a log.

namespace penstock::trace {

using std::string_view;

namespace {

using Kind = StraceLine::Kind;

// Converts "\"sort\", \"-o\", \"x\"" to a command line.
std::string command_of(string_view words) {
  std::string command;
  while (!words.empty()) {
    size_t end = 0;
    while (end < words.size() && words[end] != ',') {
      if (words[end] != '"') {
        ++end;
        continue;
      }
      for (++end; end < words.size() && words[end] != '"'; ++end) end += words[end] == '\\';
      end = std::min(end + 1, words.size());
    }
    if (const auto word = strace_string(words.substr(0, end))) {
      if (!command.empty()) command += ' ';
      command += *word;
    }
    words.remove_prefix(std::min(end + 1, words.size()));
    while (words.starts_with(' ')) words.remove_prefix(1);
  }
  return command;
}

}  // namespace

Header strace_header(string_view head) {
  Header header{.backend = Backend::import, .command = "(strace)"};
  bool first = true;
  while (!head.empty()) {
    const size_t newline = head.find('\n');
    if (newline == head.npos) break;
    const auto line = parse_strace_line(head.substr(0, newline));
    head.remove_prefix(newline + 1);
    if (!line || line->kind == Kind::nothing) continue;
    if (first && line->clock == StraceLine::Clock::since_1970) header.wall_ns = line->time_ns;
    first = false;
    if (line->name != "execve" || line->text.empty()) continue;
    const size_t open = line->text.find(", ["), close = line->text.find("], ");
    if (open == line->text.npos || close == line->text.npos || close < open + 3) break;
    header.command = command_of(line->text.substr(open + 3, close - open - 3));
    break;
  }
  return header;
}

bool looks_like_strace(string_view head) {
  // The first line with content decides.
  while (true) {
    const size_t newline = head.find('\n');
    if (newline == head.npos) return false;
    string_view text = head.substr(0, newline);
    if (text.ends_with('\r')) text.remove_suffix(1);
    const auto line = parse_strace_line(text);
    if (!line) return parse_strace_remark(text).has_value();
    if (line->kind != Kind::nothing) return true;
    head.remove_prefix(newline + 1);
  }
}

}  // namespace penstock::trace
