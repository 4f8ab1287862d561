// Random cases for sort: gnu_sort_cases OURS THEIRS FORK_SERVER FOLDER SEED FIRST COUNT WHOLE LOCALE...
//
// Each is a command line and its inputs, given to both programs under the name "sort": exit code, output and the message of
// -c must be the same, byte for byte. Case i of a seed is the same in every run. A case that differs is printed as a command,
// with its inputs kept in FOLDER/NUMBER, and the program ends with 1.
//
// Both programs are started once, with fork_server.c loaded in front of them, and fork for each case. One case in WHOLE goes
// through our whole program. In the others this program parses the words and makes the keys, and std::stable_sort replaces the
// engine, which costs a tenth: so many cases test options and the order of text, fewer the rest.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cli/common/command.h"
#include "cli/sort/gnu_options.h"
#include "cli/sort/sort_words.h"
#include "interfaces/api/options.h"
#include "items/items.h"
#include "items/keys/text/key_place.h"
#include "items/keys/text/locale.h"
#include "items/keys/text/text_order.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const std::string& what) {
  fmt::print(stderr, "gnu_sort_cases: cannot {}: {}\n", what, std::strerror(errno));
  std::exit(2);
}

void write_file(const fs::path& path, std::string_view text) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    fail("write " + path.string());
  ::close(fd);
}

std::string read_fd(int fd) {
  struct stat about;
  if (::fstat(fd, &about) != 0) fail("look at an output");
  std::string text(static_cast<size_t>(about.st_size), '\0');
  if (::pread(fd, text.data(), text.size(), 0) != about.st_size) fail("read an output");
  return text;
}

std::string read_file(const fs::path& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return {};
  std::string text = read_fd(fd);
  ::close(fd);
  return text;
}

struct Outcome {
  int code = 0;
  std::string output;
  std::string told;
};

class Program {
 public:
  Program(const std::string& path, const std::string& server) {
    int ends[2];
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("make a socket");
    socket_ = ends[0];
    child_ = ::fork();
    if (child_ == 0) {
      ::dup2(ends[1], 3);
      ::setenv("LD_PRELOAD", server.c_str(), 1);
      ::execl(path.c_str(), "sort", nullptr);
      fail("start " + path);
    }
    ::close(ends[1]);
    for (int* fd : {&output_, &told_}) *fd = ::memfd_create("output", MFD_CLOEXEC);
  }
  ~Program() {
    ::close(socket_);
    ::waitpid(child_, nullptr, 0);
    ::close(output_);
    ::close(told_);
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // `input`: the text of a pipe as stdin, if there is one.
  Outcome run(const std::string& locale, const std::vector<std::string>& words,
              const std::string* input) {
    for (const int fd : {output_, told_})
      if (::ftruncate(fd, 0) != 0 || ::lseek(fd, 0, SEEK_SET) != 0) fail("empty an output");
    std::string request = "LC_ALL=" + locale + '\0' + "LANGUAGE=en" + '\0' + '\0';
    request += std::string("sort") + '\0';
    for (const std::string& word : words) request += word + '\0';
    const int in = input != nullptr ? pipe_with(*input) : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    send(request, {in, output_, told_});
    ::close(in);
    int32_t status = 0;
    if (::recv(socket_, &status, sizeof status, 0) != sizeof status) fail("hear how a run ended");
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_fd(output_),
            read_fd(told_)};
  }

 private:
  static int pipe_with(const std::string& text) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) fail("make a pipe");
    if (text.size() > 60'000) ::fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
    if (::write(ends[1], text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      fail("fill a pipe");
    ::close(ends[1]);
    return ends[0];
  }

  void send(const std::string& request, const std::array<int, 3>& fds) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
    iovec part{const_cast<char*>(request.data()), request.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fds);
    std::memcpy(CMSG_DATA(header), fds.data(), sizeof fds);
    if (::sendmsg(socket_, &message, MSG_NOSIGNAL) < 0) fail("ask for a run");
  }

  int socket_ = -1;
  pid_t child_ = -1;
  int output_ = -1;
  int told_ = -1;
};

// Our program without its engine: its command line, its keys, and an in-memory sort.
class Model {
 public:
  Outcome run(const std::string& locale, const std::vector<std::string>& given,
              const std::string* input) {
    ::setenv("LC_ALL", locale.c_str(), 1);
    cli::CommandLine line("sort", "", "");
    cli::Parser parser = line.parser();
    cli::SortWords words;
    std::string check;
    bool check_quietly = false;
    cli::add_sort_words(parser, words);
    parser.add_flag("-c,--check", check, "").values_like([](const std::string& word) {
      return word == "quiet";
    });
    parser.add_flag("-C", check_quietly, "");
    std::vector<std::string> all = {"sort"};
    all.insert(all.end(), given.begin(), given.end());
    all = cli::with_gnu_forms(std::move(all), parser);
    all.erase(all.begin());
    if (const auto code = line.parse(std::move(all))) return {*code};
    if (items::Locale::open("").has_value()) words.format.text.locale = "true";
    words.takes_any_memory = true;
    words.recognizes_tables = false;
    const auto request = cli::sort_request(words);
    if (!request) return {2};
    const auto options = api::sort_options(request->files, request->sort);
    if (!options) return {2};
    auto items = items_of(options->inputs, options->format, input);
    if (!items) return {2};
    const items::ItemOrder order(options->format, options->descending);
    std::vector<std::string> keys(items->size());
    for (size_t i = 0; i < keys.size(); ++i) order.append_key((*items)[i], keys[i]);
    if (check_quietly || !check.empty()) {
      if (options->inputs.size() > 1 || words.output != "-" || (check_quietly && !check.empty()))
        return {2};
      for (size_t i = 1; i < keys.size(); ++i) {
        const int compared = order.compare_keys(keys[i - 1], keys[i]);
        if (compared < 0 || (compared == 0 && !options->unique)) continue;
        return {
            1, "",
            fmt::format("sort: {}:{}: disorder: {}", options->inputs.front(), i + 1, (*items)[i])};
      }
      return {};
    }
    std::vector<size_t> places(keys.size());
    std::iota(places.begin(), places.end(), 0);
    std::ranges::stable_sort(
        places, [&](size_t a, size_t b) { return order.compare_keys(keys[a], keys[b]) < 0; });
    Outcome outcome;
    for (size_t i = 0; i < places.size(); ++i) {
      if (options->unique && i > 0 && order.compare_keys(keys[places[i - 1]], keys[places[i]]) == 0)
        continue;
      outcome.output += (*items)[places[i]];
    }
    if (words.output == "-") return outcome;
    write_file(words.output, outcome.output);
    return {};
  }

  // The texts that collation compares: keys without an order of their own, and the lines.
  static std::vector<std::string> texts_of(const std::string& locale,
                                           const std::vector<std::string>& given,
                                           const std::vector<std::string>& lines) {
    ::setenv("LC_ALL", locale.c_str(), 1);
    cli::CommandLine line("sort", "", "");
    cli::Parser parser = line.parser();
    cli::SortWords words;
    cli::add_sort_words(parser, words);
    std::vector<std::string> all = {"sort"};
    all.insert(all.end(), given.begin(), given.end());
    all = cli::with_gnu_forms(std::move(all), parser);
    all.erase(all.begin());
    if (line.parse(std::move(all))) return {};
    words.format.text.locale = "true";
    words.takes_any_memory = true;
    words.recognizes_tables = false;
    const auto request = cli::sort_request(words);
    if (!request) return {};
    const auto options = api::sort_options(request->files, request->sort);
    if (!options || options->format.keys == nullptr) return {};
    const auto& order = static_cast<const items::TextOrder&>(*options->format.keys);
    const items::ByteClasses& classes = items::classes_of(order.locale());
    std::vector<std::string> texts = lines;
    for (const std::string& one : lines) {
      for (const items::TextKey& key : order.keys()) {
        std::string text;
        for (const char c : items::place_of(key, one, order.separator())) {
          const auto byte = static_cast<unsigned char>(c);
          if (key.only_letters && !classes.counts[byte]) continue;
          if (key.only_printable && !classes.prints[byte]) continue;
          text += key.ignores_case ? classes.upper[byte] : c;
        }
        texts.push_back(std::move(text));
      }
    }
    return texts;
  }

 private:
  // The items of all inputs, each with its line end.
  static std::optional<std::vector<std::string>> items_of(const std::vector<std::string>& inputs,
                                                          const items::Format& format,
                                                          const std::string* input) {
    std::vector<std::string> items;
    for (const std::string& path : inputs) {
      if (path != "-" && !fs::exists(path)) return {};
      const std::string text =
          path == "-" ? (input != nullptr ? *input : std::string()) : read_file(path);
      for (size_t at = 0; at < text.size();) {
        const size_t end = std::min(text.find(format.line_end, at), text.size());
        items.push_back(text.substr(at, end - at) + format.line_end);
        at = end + 1;
      }
    }
    return items;
  }
};

// Whether strcoll() and strxfrm() of the C library contradict each other about two of the texts. (Those of glibc do for
// punctuation in front of letters that differ in case: "1.E" and "1e" in en_US.UTF-8.)
bool contradict(const std::string& locale, const std::vector<std::string>& texts) {
  const locale_t in = ::newlocale(LC_ALL_MASK, locale.c_str(), locale_t{});
  if (in == locale_t{}) return false;
  std::vector<std::pair<std::string, std::string>>
      parts;  // parts between NULs, and their strxfrm() keys
  for (const std::string& text : texts) {
    for (size_t at = 0; at <= text.size(); at += std::strlen(text.c_str() + at) + 1) {
      const char* const part = text.c_str() + at;
      std::string key(::strxfrm_l(nullptr, part, 0, in), '\0');
      ::strxfrm_l(key.data(), part, key.size() + 1, in);
      parts.emplace_back(part, std::move(key));
    }
  }
  bool found = false;
  for (size_t i = 0; i < parts.size() && !found; ++i) {
    for (size_t j = 0; j < i && !found; ++j) {
      const int collated = ::strcoll_l(parts[i].first.c_str(), parts[j].first.c_str(), in);
      const int compared = parts[i].second.compare(parts[j].second);
      found = (collated < 0) != (compared < 0) || (collated > 0) != (compared > 0);
    }
  }
  ::freelocale(in);
  return found;
}

// ---- Random orders.

class Chance : public Random {
 public:
  using Random::Random;
  bool one_in(uint64_t n) { return below(n) == 0; }
  std::string pick(std::initializer_list<const char*> all) {
    return all.begin()[below(all.size())];
  }
  std::string digits(uint64_t most) {
    std::string text;
    for (uint64_t n = below(most + 1); n > 0; --n)
      text += static_cast<char>('0' + below(one_in(2) ? 2 : 10));
    return text;
  }
};

std::string random_word(Chance& chance) {
  switch (chance.below(20)) {
    case 0:
      return "";
    case 1:
      return chance.pick({"-", "", "+", " ", "  -"}) + chance.digits(4);
    case 2:
      return chance.pick({"-", "", "+"}) + chance.digits(5) + chance.pick({".", ","}) +
             chance.digits(5);
    case 3:
      return chance.pick({"-", ""}) + chance.digits(40) +
             chance.pick({"", ".", ".5", ".000", ",25"});
    case 4:
      return chance.pick({"-", ""}) + chance.digits(3) +
             chance.pick({"", ".1", ".", ",", ",,", ",5"}) +
             chance.pick({"k", "K", "M", "G", "T", "P", "E", "Z", "Y", "Ki", "m", "x", "B"});
    case 5:
      return chance.pick({"jan",  "JAN", "Feb",  "mArch",       "apr",        "MAY",
                          "june", "Ju",  "aug ", "sep",         "oct",        "NOVEMBER",
                          "Dec",  "de",  "xyz",  "mai",         "M\xc3\xa4r", "m\xc3\x84r",
                          "maj",  "okt", "Dez",  "f\xc3\xa9vr."});
    case 6:
      return chance.pick({"1e3",    "-1e3", "1E-2", "0x1p3",    "0X1F",  "inf",    "-inf",
                          "nan",    "NaN",  "-nan", "infinity", "1e400", "-1e400", "1e-400",
                          "1e5000", "0x",   ".5",   "-.5",      "5.",    "+3",     "1e",
                          "1e+",    "-0",   "0e7",  "1,5e2",    ",5"});
    case 7:
      return chance.pick({"a", "b", "foo", "foo", "lib"}) + chance.pick({"-", ".", "~", "", "_"}) +
             chance.digits(3) + chance.pick({".", "-", "~", ""}) + chance.digits(2) +
             chance.pick({"", ".tar.gz", ".so", ".so.1", ".7z", "~", ".a~b", ".", "..c"});
    case 8:
      return chance.pick({".", "..", ".hidden", ".a.b", "~", "~~", ".~", "a", "a0", "a00b", "a0~"});
    case 9:
      return chance.pick(
          {"Abc", "aBC", "abc", "ABD", "a-bc", "a bc", "a\tbc", "a.b", "A_b", "a\rb"});
    case 10: {
      std::string text;
      for (uint64_t n = chance.below(6); n > 0; --n) text += static_cast<char>(chance.below(256));
      // GNU sort 9.1 takes this byte for a separator of groups if the locale has none (docs/sort.md).
      std::ranges::replace(text, '\x80', '\x81');
      return text;
    }
    case 11:
      return std::string(chance.below(30), 'x') + chance.digits(2);
    case 12:
      return chance.pick({"192.168.0.", "10.0.0.", "10.0."}) + chance.digits(3);
    case 13:
      return chance.digits(4) + "-" + chance.digits(2) + "-" + chance.digits(2);
    case 14:
      return chance.digits(2) + "\r";
    case 15:
      return chance.pick({"\xc3\xa4", "\xc3\x84", "ae", "a", "\xc3\xa5", "\xc3\xb6", "o",
                          "\xc3\x9f", "ss", "z", "\xe2\x82\xac", "\xc3", "\xe4", "\xff",
                          "e\xcc\x81", "\xc3\xa9", "\xe6\xbc\xa2", "\xf0\x9f\x98\x80",
                          "\xc2\xad"}) +
             chance.pick({"", "", "b", "B", " ", "-"});
    case 16:
      return chance.digits(3) + chance.pick({".", ","}) + chance.digits(3) +
             chance.pick({"", ".", ","}) + chance.digits(3);
    default:
      return chance.pick({"alpha", "beta", "gamma", "Alpha", "BETA", "b\xc3\xa4r", "Bar"});
  }
}

std::string random_line(Chance& chance, char separator, char end) {
  std::string line;
  const uint64_t words = chance.below(5);
  for (uint64_t i = 0; i < words; ++i) {
    line += random_word(chance);
    if (chance.one_in(4)) line += std::string(chance.below(3), chance.one_in(2) ? ' ' : '\t');
    if (i + 1 < words || chance.one_in(5)) line += chance.one_in(8) ? ' ' : separator;
  }
  if (chance.one_in(200)) line += std::string(chance.below(20'000), 'y') + chance.digits(3);
  std::erase(line, end);
  return line;
}

bool may_be_nan(std::string_view line) {
  return !std::ranges::search(line, std::string_view("nan"), {}, [](char c) {
            return c | 0x20;
          }).empty();
}

std::string random_letters(Chance& chance, bool of_key) {
  std::string letters;
  if (!chance.one_in(3)) letters += "nghMVnVgfdi"[chance.below(11)];
  if (chance.one_in(3)) letters += 'b';
  if (chance.one_in(4)) letters += 'r';
  if (chance.one_in(5)) letters += "fdi"[chance.below(3)];
  if (of_key && chance.one_in(2)) letters.clear();
  return letters;
}

std::string random_key(Chance& chance) {
  std::string key = std::to_string(1 + chance.below(4));
  if (chance.one_in(3)) key += "." + std::to_string(1 + chance.below(4));
  key += random_letters(chance, true);
  if (!chance.one_in(3)) {
    key += "," + std::to_string(1 + chance.below(4));
    if (chance.one_in(3)) key += "." + std::to_string(chance.below(5));
    if (chance.one_in(3)) key += random_letters(chance, true);
  }
  return key;
}

std::string old_place(Chance& chance, const char* sign) {
  return sign + std::to_string(chance.below(3)) + chance.pick({"", ".1", ".0", ".2"}) +
         random_letters(chance, true);
}

struct Case {
  std::vector<std::string> options;
  char separator = ',';
  char end = '\n';
  std::string text;  // all lines
  std::vector<std::string> parts;
};

void add_options(Chance& chance, Case& c) {
  auto add = [&](std::string word) { c.options.push_back(std::move(word)); };
  if (chance.one_in(25)) {
    add(old_place(chance, "+"));
    if (chance.one_in(2)) add(old_place(chance, "-"));
  }
  for (uint64_t keys = chance.below(4); keys > 0; --keys) {
    const std::string key = random_key(chance);
    switch (chance.below(4)) {
      case 0:
        add("-k");
        add(key);
        break;
      case 1:
        add("--key=" + key);
        break;
      default:
        add("-k" + key);
    }
  }
  if (chance.one_in(2)) {
    const std::string letters = random_letters(chance, false);
    if (!letters.empty()) add("-" + letters);
  }
  if (chance.one_in(20))
    add(chance.pick({"--sort=numeric", "--sort=version", "--sort=month", "--sort=general-numeric",
                     "--sort=human-numeric", "--numeric", "--reverse", "--rev", "--ignore-c",
                     "--dict", "--ignore-l", "--version-sort", "--month", "--ignore-n", "--stable",
                     "--uniq", "--foo", "--s", "-Q"}));
  c.separator = ":,; x\t.-"[chance.below(8)];
  if (chance.one_in(2)) {
    const std::string separator(1, c.separator);
    if (chance.one_in(3)) add("-t");
    if (!c.options.empty() && c.options.back() == "-t") {
      add(separator);
    } else {
      add((chance.one_in(3) ? "--field-separator=" : "-t") + separator);
    }
  }
  if (chance.one_in(4)) add("-s");
  if (chance.one_in(4)) add("-u");
  if (chance.one_in(8)) {
    add(chance.one_in(2) ? "-z" : "--zero-terminated");
    c.end = '\0';
  }
  if (chance.one_in(10))
    add(chance.pick({"-S32M", "-S1", "--buffer-size=10%", "-S40000", "-S1b", "-S2G"}));
  if (chance.one_in(20))
    add(chance.pick({"--parallel=1", "--parallel=3", "--batch-size=2", "--batch-size=1",
                     "--compress-program=gzip"}));
}

Case random_case(Chance& chance) {
  Case c;
  add_options(chance, c);
  static constexpr std::array<uint64_t, 10> counts = {0, 1, 2, 5, 10, 20, 20, 40, 40, 150};
  const uint64_t count = counts[chance.below(counts.size())];
  const uint64_t parts = 1 + chance.below(3);
  c.parts.resize(parts);
  std::vector<std::string> lines;
  // GNU sort compares meaningless bytes of two NaNs, so that a case may have only one.
  bool has_nan = false;
  for (uint64_t i = 0; i < count; ++i) {
    std::string line = i > 0 && chance.one_in(5) ? lines[chance.below(i)]
                                                 : random_line(chance, c.separator, c.end);
    if (may_be_nan(line) && std::exchange(has_nan, true)) line.clear();
    c.parts[i * parts / count] += line + c.end;
    lines.push_back(std::move(line));
  }
  if (chance.one_in(5) && !c.parts.back().empty()) c.parts.back().pop_back();
  for (const std::string& part : c.parts) c.text += part;
  return c;
}

// ---- Cases.

std::string shown(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    text += " '";
    for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
    text += "'";
  }
  return text;
}

class Cases {
 public:
  Cases(Program& ours, Program& theirs, fs::path folder)
      : ours_(ours), theirs_(theirs), folder_(std::move(folder)) {}

  // Whether the C library has contradictory orders for the lines of the last case.
  bool is_contradicted() {
    std::vector<std::string> lines;
    for (const std::string& part : case_.parts) {
      for (size_t at = 0; at < part.size();) {
        const size_t end = std::min(part.find(case_.end, at), part.size());
        lines.push_back(part.substr(at, end - at));
        at = end + 1;
      }
    }
    return contradict(locale_, Model::texts_of(locale_, case_.options, lines));
  }

  // The difference of a random case; empty if there is none. `whole`: runs our whole program.
  std::string run(Chance& chance, const std::string& locale, bool whole) {
    const Case& c = case_ = random_case(chance);
    whole_ = whole;
    locale_ = locale;
    differs_.clear();
    std::vector<std::string> words = c.options;
    switch (chance.below(10)) {
      case 0:
      case 1:
        stdin_ = true;
        input_ = c.text;
        compare(words);
        stdin_ = false;
        break;
      case 2:
        write_parts(c);
        if (sort_parts(c)) {
          words.insert(words.begin() + static_cast<ptrdiff_t>(chance.below(2) * words.size()),
                       chance.pick({"-m", "--merge"}));
          compare(with_parts(words, c));
        }
        break;
      case 3:
      case 4:
        write_parts(c);
        if (chance.one_in(2)) (void)sort_parts(c);
        words.push_back(chance.pick({"-c", "-C", "--check", "--check=quiet"}));
        words.push_back(part(0));
        compares_told_ = words[words.size() - 2] == "-c" || words[words.size() - 2] == "--check";
        compare(words);
        compares_told_ = false;
        break;
      case 5:
        write_parts(c);
        words.insert(words.begin(), {"-o", part(0)});
        over_the_input(with_parts(words, c), c);
        break;
      case 6: {
        write_parts(c);
        std::string list;
        for (size_t i = 0; i < c.parts.size(); ++i) list += part(i) + '\0';
        write_file(folder_ / "list", list);
        words.push_back("--files0-from=" + (folder_ / "list").string());
        compare(words);
        break;
      }
      default:
        write_parts(c);
        words = with_parts(words, c);
        // Options may follow files.
        if (chance.one_in(4))
          std::ranges::rotate(words, words.end() - static_cast<ptrdiff_t>(c.parts.size()));
        if (chance.one_in(10)) words.push_back("-b");
        // --debug has remarks on each key.
        compares_told_ = whole_ && chance.one_in(3);
        shows_keys_ = compares_told_;
        if (shows_keys_) words.push_back("--debug");
        compare(words);
        compares_told_ = shows_keys_ = false;
    }
    return differs_;
  }

 private:
  std::string part(size_t i) const { return (folder_ / ("in" + std::to_string(i))).string(); }

  void write_parts(const Case& c) const {
    for (size_t i = 0; i < c.parts.size(); ++i) write_file(part(i), c.parts[i]);
  }

  std::vector<std::string> with_parts(std::vector<std::string> words, const Case& c) const {
    for (size_t i = 0; i < c.parts.size(); ++i) words.push_back(part(i));
    return words;
  }

  // Returns false if there are options that GNU sort refuses.
  bool sort_parts(const Case& c) {
    for (size_t i = 0; i < c.parts.size(); ++i) {
      std::vector<std::string> words = c.options;
      words.insert(words.begin(), {"-o", part(i), part(i)});
      if (theirs_.run(locale_, words, nullptr).code != 0) return false;
    }
    return true;
  }

  void compare(const std::vector<std::string>& words) {
    const std::string* const input = stdin_ ? &input_ : nullptr;
    const Outcome theirs = theirs_.run(locale_, words, input);
    judge(words, theirs, ours(words, input));
  }

  void over_the_input(const std::vector<std::string>& words, const Case& c) {
    Outcome theirs = theirs_.run(locale_, words, nullptr);
    theirs.output += read_file(part(0));
    write_parts(c);
    Outcome mine = ours(words, nullptr);
    mine.output += read_file(part(0));
    judge(words, theirs, mine);
    if (!differs_.empty()) write_parts(c);
  }

  // Removes the column of "no match for key", which is arbitrary for keys that end before they begin.
  static std::string without_places(std::string_view shown) {
    std::string text;
    while (!shown.empty()) {
      const size_t end = std::min(shown.find('\n'), shown.size() - 1) + 1;
      std::string_view line = shown.substr(0, end);
      if (line.ends_with("^ no match for key\n")) line.remove_prefix(line.rfind('^'));
      text += line;
      shown.remove_prefix(end);
    }
    return text;
  }

  Outcome ours(const std::vector<std::string>& words, const std::string* input) {
    return whole_ ? ours_.run(locale_, words, input) : Model().run(locale_, words, input);
  }

  void judge(const std::vector<std::string>& words, const Outcome& theirs, const Outcome& ours) {
    const bool same_output = shows_keys_
                                 ? without_places(theirs.output) == without_places(ours.output)
                                 : theirs.output == ours.output;
    const bool same = theirs.code == ours.code && same_output &&
                      (!compares_told_ || theirs.code == 2 || theirs.told == ours.told) &&
                      (ours.told.empty() || ours.told.starts_with("sort: "));
    if (same) return;
    if (stdin_) write_file(folder_ / "stdin", input_);
    differs_ = fmt::format("LC_ALL={} sort{}{}\n", locale_, shown(words), stdin_ ? " < stdin" : "");
    differs_ += fmt::format("exit code: theirs {}, ours {}\n", theirs.code, ours.code);
    differs_ += fmt::format("theirs told: {}ours told: {}", theirs.told, ours.told);
    const auto [a, b] = std::ranges::mismatch(theirs.output, ours.output);
    const auto at = static_cast<size_t>(a - theirs.output.begin());
    if (at < theirs.output.size() || at < ours.output.size()) {
      const size_t from = at > 40 ? at - 40 : 0;
      differs_ +=
          fmt::format("at byte {} of {} and {}\ntheirs: {}\nours:   {}\n", at, theirs.output.size(),
                      ours.output.size(), escaped(theirs.output.substr(from, 100)),
                      escaped(ours.output.substr(from, 100)));
    }
  }

  static std::string escaped(const std::string& text) {
    std::string all;
    for (const unsigned char c : text)
      all += c >= 0x20 && c < 0x7f ? std::string(1, static_cast<char>(c))
                                   : fmt::format("\\x{:02x}", c);
    return all;
  }

  Program& ours_;
  Program& theirs_;
  const fs::path folder_;
  std::string locale_;
  Case case_;
  bool whole_ = true;
  bool stdin_ = false;
  bool compares_told_ = false;
  bool shows_keys_ = false;
  std::string input_;
  std::string differs_;
};

int run(const std::vector<std::string>& words) {
  if (words.size() < 9) {
    fmt::print(
        stderr,
        "usage: gnu_sort_cases OURS THEIRS FORK_SERVER FOLDER SEED FIRST COUNT WHOLE LOCALE...\n");
    return 2;
  }
  const fs::path folder = words[3];
  const uint64_t seed = std::stoull(words[4]);
  const uint64_t first = std::stoull(words[5]);
  const uint64_t count = std::stoull(words[6]);
  const uint64_t whole = std::max<uint64_t>(std::stoull(words[7]), 1);
  const std::vector<std::string> locales(words.begin() + 8, words.end());
  // The model's parser must print nothing.
  cli::call_me_sort();
  if (std::freopen("/dev/null", "w", stderr) == nullptr) fail("be silent");
  Program ours(words[0], words[2]);
  Program theirs(words[1], words[2]);
  const fs::path here = folder / "case";
  fs::create_directories(here);
  uint64_t differ = 0;
  uint64_t contradicted = 0;
  for (uint64_t i = first; i < first + count; ++i) {
    Chance chance(seed * 1'000'003 + i);
    Cases cases(ours, theirs, here);
    const std::string differs =
        cases.run(chance, locales[chance.below(locales.size())], i % whole == 0);
    if (differs.empty()) continue;
    if (cases.is_contradicted()) {
      ++contradicted;
      continue;
    }
    const fs::path kept = folder / std::to_string(i);
    fs::remove_all(kept);
    fs::rename(here, kept);
    fs::create_directories(here);
    fmt::print("case {} of seed {}{}, its files are in {}:\n{}\n", i, seed,
               i % whole == 0 ? "" : " (without the engine)", kept.string(), differs);
    if (++differ == 10) break;
  }
  fmt::print("{} cases of seed {} from {} on, one in {} by the whole program, {} differ\n", count,
             seed, first, whole, differ);
  fmt::print("of {} more the C library has two orders, by strcoll() and by strxfrm()\n",
             contradicted);
  // Contradictions are rare: more of them would have another cause.
  return differ == 0 && contradicted <= 10 + count / 500 ? 0 : 1;
}

}  // namespace
}  // namespace penstock

int main(int argc, char** argv) {
  return penstock::run({argv + 1, argv + argc});
}
