// penstock find: prints byte offsets of all matches of a string or an expression, in one pass over
// each file.

#include "files/source/find.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bits.h"
#include "base/misuse.h"
#include "base/printable.h"
#include "base/shell_word.h"
#include "cli/common/command.h"
#include "cli/common/print.h"
#include "cli/common/size.h"
#include "cli/common/source_words.h"
#include "files/source/find_lines.h"
#include "os/limits.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

constexpr int exit_none = 1;

struct FindArguments {
  std::vector<std::string> words;        // the pattern, unless -e gave it, and the files
  std::vector<std::string> expressions;  // -e
  SourceOptions source;
  bool fixed = false;
  bool perl = false;
  bool count = false;
  bool only_matching = false;
  bool lines = false;
  bool line_numbers = false;
  bool names = false;  // print only names of files
  bool ignore_case = false;
  bool json = false;
  std::string window = "8M";
  size_t block_bytes = 1 * MiB;

  // Whether lines are printed, as grep prints them.
  bool prints_lines() const { return lines || line_numbers; }
};

// JSON string of a path or pattern, which need not be UTF-8.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// The file's name in front of each line of output, if there are several files. Names are escaped only
// on a terminal; programs need them as they are.
std::string prefix_of(const std::string& path, bool several) {
  if (!several) return "";
  return (::isatty(STDOUT_FILENO) != 0 ? printable(path, path.npos) : path) + ":";
}

// Prints matches, file by file. Only stdout's own buffer collects them.
class Printer {
 public:
  virtual ~Printer() = default;
  virtual void begin(const std::string& pattern) = 0;
  virtual void begin_file(const std::string& path) = 0;
  virtual Status match(SourceStream& stream, const source::Match& match) = 0;
  virtual void end_file(const std::string& path, uint64_t count, const Status& status) = 0;
  virtual void end(uint64_t count) = 0;
};

class TextPrinter final : public Printer {
 public:
  TextPrinter(const FindArguments& arguments, bool several)
      : arguments_(arguments), several_(several) {}

  void begin(const std::string&) override {}
  void begin_file(const std::string& path) override { prefix_ = prefix_of(path, several_); }
  Status match(SourceStream& stream, const source::Match& match) override {
    if (arguments_.count) return {};
    print("{}{}", prefix_, match.offset);
    if (arguments_.only_matching) {
      write_text(stdout, ":");
      if (Status printed = print_bytes(stream, match); !printed) return printed;
    }
    write_text(stdout, "\n");
    return {};
  }
  void end_file(const std::string&, uint64_t count, const Status&) override {
    if (arguments_.count) print("{}{}\n", prefix_, count);
  }
  void end(uint64_t) override {}

 private:
  // stdio may hand large pieces to the system directly, so each block is made readable before.
  static Status print_bytes(SourceStream& stream, const source::Match& match) {
    const uint64_t end = match.offset + match.bytes;
    for (uint64_t at = match.offset; at < end;) {
      const uint64_t stop = std::min(end, round_up(at + 1, stream.block_bytes()));
      const char* piece = stream.begin<char>() + at;
      if (Status here = stream.prepare_read(piece, stop - at); !here) return here;
      write_text(stdout, {piece, stop - at});
      at = stop;
    }
    return {};
  }

  const FindArguments& arguments_;
  const bool several_;
  std::string prefix_;
};

void print_line(const std::string& prefix, const FindArguments& arguments, uint64_t number,
                std::string_view text) {
  fmt::memory_buffer line;
  line.append(prefix);
  if (arguments.line_numbers) {
    const fmt::format_int digits(number);
    line.append(digits.data(), digits.data() + digits.size());
    line.push_back(':');
  }
  line.append(text);
  line.push_back('\n');
  write_text(stdout, {line.data(), line.size()});
}

// Prints one JSON object, as the matches come.
class JsonPrinter final : public Printer {
 public:
  explicit JsonPrinter(const FindArguments& arguments) : arguments_(arguments) {}

  void begin(const std::string& pattern) override {
    print("{{\"version\": 1, \"pattern\": {}, \"files\": [", quoted(pattern));
  }
  void begin_file(const std::string& path) override {
    print("{}\n  {{\"file\": {}", first_file_ ? "" : ",", quoted(path));
    if (!arguments_.count) print(", \"matches\": [");
    first_file_ = false;
    first_match_ = true;
  }
  Status match(SourceStream&, const source::Match& match) override {
    if (arguments_.count) return {};
    print("{}\n    {{\"offset\": {}, \"bytes\": {}}}", first_match_ ? "" : ",", match.offset,
          match.bytes);
    first_match_ = false;
    return {};
  }
  void end_file(const std::string&, uint64_t count, const Status& status) override {
    if (!arguments_.count) print("]");
    print(", \"count\": {}", count);
    if (!status) print(", \"error\": {}", quoted(status.error().message()));
    print("}}");
  }
  void end(uint64_t count) override { print("],\n  \"count\": {}}}\n", count); }

 private:
  const FindArguments& arguments_;
  bool first_file_ = true;
  bool first_match_ = true;
};

// Refuses options that contradict each other.
Status check_arguments(const FindArguments& arguments) {
  if (arguments.expressions.size() > 1) {
    return misuse("look for several expressions", "-e " + arguments.expressions[1],
                  "one with both, as in -e 'this|that'");
  }
  if (arguments.expressions.empty() && arguments.words.empty()) {
    return misuse("find without a pattern", "PATTERN", "penstock find --help");
  }
  if (arguments.fixed && (arguments.perl || !arguments.expressions.empty())) {
    return misuse("take the pattern as a string and as an expression", "-F",
                  "-F alone, or -P or -e");
  }
  if (arguments.perl && !arguments.expressions.empty()) {
    return misuse("take two expressions", "-P -e", "-P PATTERN, or -e PATTERN");
  }
  if (arguments.only_matching && (arguments.count || arguments.json)) {
    return misuse("combine this with -o", arguments.count ? "-c" : "--json", "one of the two");
  }
  if (arguments.json && (arguments.prints_lines() || arguments.names)) {
    return misuse("combine this with -n, --lines or -l", "--json", "one of them");
  }
  if (!std::has_single_bit(arguments.block_bytes) || arguments.block_bytes < 4 * KiB) {
    return misuse("read blocks of this size", "--block", "a power of two, at least 4096");
  }
  return {};
}

struct Search {
  std::string text;
  std::unique_ptr<source::Pattern> pattern;
  std::vector<std::string> files;
  SourceStreamOptions stream;
  uint64_t window_bytes = 0;
};

// An expression that matches exactly the given bytes.
std::string quoted_expression(const std::string& bytes) {
  constexpr std::string_view end = "\\E";
  std::string expression = "\\Q";
  for (size_t at = 0; at < bytes.size();) {
    const size_t found = std::min(bytes.find(end, at), bytes.size());
    expression.append(bytes, at, found - at);
    if (found < bytes.size()) expression.append("\\E\\\\E\\Q");
    at = std::min(bytes.size(), found + end.size());
  }
  return expression.append(end);
}

Result<Search> prepare(const FindArguments& arguments) {
  if (Status valid = check_arguments(arguments); !valid) return std::unexpected(valid.error());
  const bool has_expression = !arguments.expressions.empty();
  Search search{.text = has_expression ? arguments.expressions.front() : arguments.words.front(),
                .files = arguments.words};
  if (!has_expression) search.files.erase(search.files.begin());
  if (search.files.empty()) search.files = {"-"};

  const bool expression = has_expression || arguments.perl;
  if (!expression && arguments.prints_lines() && search.text.contains('\n'))
    return misuse("find a newline within a line", "PATTERN", "a pattern without a newline");
  // Only expressions can ignore case.
  const bool regex = expression || (arguments.ignore_case && !search.text.empty());
  auto pattern =
      !regex ? source::Pattern::fixed(search.text)
             : source::Pattern::regex(
                   expression ? search.text : quoted_expression(search.text),
                   {.ignore_case = arguments.ignore_case, .lines = arguments.prints_lines()});
  if (!pattern) return std::unexpected(pattern.error());
  search.pattern = std::move(*pattern);

  const auto window_bytes =
      parse_size("--window", arguments.window, os::machine_memory().memory_bytes);
  if (!window_bytes) return std::unexpected(window_bytes.error());
  search.window_bytes = *window_bytes;
  search.stream = {
      .block_bytes = arguments.block_bytes,
      .read_ahead_blocks = 4,
      .comeback_blocks =
          source::comeback_blocks_for(*search.pattern, arguments.block_bytes, *window_bytes),
      .policy = ErrorPolicy::recover,
      .deliver_tail = true,
      .strict = regex,  // PCRE2's lookbehind has no known limit
      .source = arguments.source,
  };
  return search;
}

// Prints the matches of a file, and adds their number to `count`, also if an error follows.
Status find_in(const std::string& path, Search& search, Printer& printer, uint64_t& count) {
  auto stream = SourceStream::open(path, search.stream);
  if (!stream) return std::unexpected(stream.error());
  Status printed;
  const auto all = source::find_all(*stream, *search.pattern, [&](const source::Match& match) {
    ++count;
    printed = printer.match(*stream, match);
    return printed.has_value() && std::ferror(stdout) == 0;
  });
  if (!all) return std::unexpected(all.error());
  return printed;
}

// Prints the matching lines of a file, and adds their number to `count`, also if an error follows.
Status find_lines_in(const std::string& path, Search& search, const FindArguments& arguments,
                     uint64_t& count) {
  auto opened = open_source(path, search.stream.source);
  if (!opened) return std::unexpected(opened.error());
  const std::string prefix = prefix_of(path, search.files.size() > 1);
  const auto all =
      source::find_lines(**opened, path, *search.pattern, search.window_bytes,
                         [&](const source::FoundLine& line) -> Result<bool> {
                           ++count;
                           if (arguments.names) return false;
                           if (arguments.count) return true;
                           if (!arguments.only_matching) {
                             print_line(prefix, arguments, line.number, line.text);
                           } else {
                             auto printed = source::find_in_text(
                                 *search.pattern, line.text, [&](std::string_view match) {
                                   if (!match.empty())
                                     print_line(prefix, arguments, line.number, match);
                                 });
                             if (!printed) return std::unexpected(printed.error());
                           }
                           return ::ferror_unlocked(stdout) == 0;
                         });
  if (!all) return std::unexpected(all.error());
  return {};
}

// Returns the exit code. A string that was not found, and that looks like an expression, causes a
// notice.
int exit_code_of(const FindArguments& arguments, const Search& search, uint64_t found,
                 bool failed) {
  if (failed) return exit_error;
  if (found != 0) return exit_ok;
  const bool is_string = arguments.expressions.empty() && !arguments.perl && !arguments.fixed;
  if (is_string && search.text.find_first_of("*+?[|^") != std::string::npos &&
      source::Pattern::regex(search.text))
    print_to(
        stderr, "{}: {} was searched for as a string (try: -P {}, or -F without this notice)\n",
        called("find"), printable(typed_word(search.text)), printable(typed_word(search.text)));
  return exit_none;
}

// Runs the modes that print lines or names of files, which use no Printer.
int run_find_lines(const FindArguments& arguments, Search& search) {
  uint64_t total = 0;
  bool failed = false;
  for (const std::string& path : search.files) {
    uint64_t count = 0;
    Status status;
    if (arguments.prints_lines()) {
      status = find_lines_in(path, search, arguments, count);
    } else {
      auto stream = SourceStream::open(path, search.stream);
      if (!stream) {
        status = std::unexpected(stream.error());
      } else if (auto all = source::find_all(*stream, *search.pattern,
                                             [&](const source::Match&) { return ++count == 0; });
                 !all) {
        status = std::unexpected(all.error());
      }
    }
    if (arguments.names && count > 0) {
      print("{}\n", path == "-" ? "(standard input)" : path);
    } else if (arguments.count && !arguments.names) {
      print("{}{}\n", prefix_of(path, search.files.size() > 1), count);
    }
    total += count;
    if (!status) {
      std::fflush(stdout);
      report("find", status.error());
      failed = true;
    }
    if (std::ferror(stdout) != 0) break;  // main() says so
  }
  return exit_code_of(arguments, search, total, failed);
}

int run_find(const FindArguments& arguments) {
  Result<Search> search = prepare(arguments);
  if (!search) return report("find", search.error());
  if (arguments.prints_lines() || arguments.names) return run_find_lines(arguments, *search);
  std::unique_ptr<Printer> printer;
  if (arguments.json) {
    printer = std::make_unique<JsonPrinter>(arguments);
  } else {
    printer = std::make_unique<TextPrinter>(arguments, search->files.size() > 1);
  }
  uint64_t total = 0;
  bool failed = false;
  printer->begin(search->text);
  for (const std::string& path : search->files) {
    printer->begin_file(path);
    uint64_t count = 0;
    Status status = find_in(path, *search, *printer, count);
    printer->end_file(path, count, status);
    total += count;
    if (!status) {
      std::fflush(stdout);  // earlier matches come before the message
      report("find", status.error());
      failed = true;
    }
    if (std::ferror(stdout) != 0) break;  // main() says so
  }
  printer->end(total);
  return exit_code_of(arguments, *search, total, failed);
}

}  // namespace

Command add_find(Parser& program) {
  auto arguments = std::make_shared<FindArguments>();
  FindArguments& a = *arguments;
  Parser parser = program.add_subcommand("find", "print the byte offsets of all matches in files");
  parser
      .add_option("PATTERN", a.words,
                  "a string of bytes, and the files to search (default, or -: standard input)")
      .value_name("FILE...");
  parser.add_option("-e,--regexp", a.expressions,
                    "search for this regular expression (PCRE2, of bytes; ^ and $ match at lines)");
  parser.add_flag("-P,--perl-regexp", a.perl, "PATTERN is a regular expression, as for -e");
  parser.add_flag("-F,--fixed-strings", a.fixed, "PATTERN is a string (default)");
  parser.add_flag("-n,--line-number", a.line_numbers,
                  "print matching lines with their numbers, LINE:TEXT; no match spans two lines");
  parser.add_flag("--lines", a.lines, "print matching lines, without numbers");
  parser.add_flag("-i,--ignore-case", a.ignore_case, "ignore case");
  parser.add_flag("-l,--files-with-matches", a.names, "print only names of files with a match");
  parser.add_flag("-c,--count", a.count, "print only the number of matches; with -n: of lines");
  parser.add_flag("-o,--only-matching", a.only_matching, "print OFFSET:MATCH; with -n: LINE:MATCH");
  parser.add_flag("--json", a.json, "print one JSON object");
  parser
      .add_option("--window", a.window,
                  "longest candidate of an expression in pipes and compressed data (default 8M; "
                  "memory grows with it); plain files have no limit")
      .rare();
  add_source_words(parser, a.source);
  parser.add_option("--block", a.block_bytes, "bytes of a block (a power of two; default 1M)")
      .hidden();
  parser.describe(
      {.examples = {{"penstock find needle big.txt", "print the byte offsets of a string"},
                    {"penstock find -n -P 'ERROR [0-9]+' server.log.gz",
                     "print the lines of a compressed log that match an expression"},
                    {"penstock find -c needle january.txt february.txt",
                     "count the matches in each file"}},
       .notes =
           {"Matches are leftmost and do not overlap. With several files each line begins "
            "with FILE:. Offsets count bytes of the text that is searched: decompressed, and with "
            "--encoding in UTF-8. A candidate longer than --window is an error, never a missed "
            "match."},
       .exit_codes = {{0, "found"}, {1, "not found"}, {2, "any error"}}});
  return {parser, [arguments] { return run_find(*arguments); }};
}

}  // namespace penstock::cli
