#pragma once

// A parser of strace's lines. It does not know the meaning of calls.
//
//   29951 1795334319.784933 openat(AT_FDCWD</tmp>, "a b", O_RDONLY|O_CLOEXEC) = 3</tmp/a b> <0.000008>
//   ^tid  ^time            ^name  ^arguments                                   ^result     ^latency
//                                                                                 ^annotation
//
// Parsing of any bytes ends, reads none beyond the line, and takes time proportional to its length.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::trace {

inline constexpr uint64_t ns_per_second = 1'000'000'000;

struct StraceLine {
  enum class Kind {
    nothing,     // a signal, a remark, an empty line
    call,        // text: the call, from its name on
    unfinished,  // text: first part of the call; number: the thread that ends it, 0: the same
    resumed,     // name; text: rest of the call
    exited,      // number: the exit code, as in a shell
    superseded,  // another thread's exec took this one's number; number: that thread
    child_gone,  // SIGCHLD of an end; number: the child
  };
  enum class Clock {
    none,
    since_1970,
    of_day,      // since midnight
    since_last,  // since the previous line
  };
  Kind kind = Kind::nothing;
  Clock clock = Clock::none;
  uint64_t time_ns = 0;
  int32_t thread = 0;  // 0: the line has none
  int32_t number = 0;
  std::string_view name;  // name of the call
  std::string_view text;
};

// Returns nullopt for a line that is not strace's.
std::optional<StraceLine> parse_strace_line(std::string_view line);

// A remark "... strace: Process 30049 attached", which strace writes to a terminal in the middle of
// a line. The text in front of it continues in the next line.
struct StraceRemark {
  std::string_view front;
  int32_t attached = 0;  // the process; 0 for another remark
};
std::optional<StraceRemark> parse_strace_remark(std::string_view line);

struct StraceCall {
  static constexpr size_t arguments_max = 8;
  std::array<std::string_view, arguments_max> arguments;  // without further ones
  size_t argument_count = 0;
  bool failed = false;                 // the call failed, or its result is not known
  bool not_found = false;              // it failed with ENOENT
  uint64_t result = 0;                 // valid if it did not fail
  std::string_view result_annotation;  // text in <> behind the result: the file of a descriptor
  std::optional<uint64_t> latency_ns;

  // Returns an argument; empty if there is none.
  std::string_view argument(int index) const {
    const auto at = static_cast<size_t>(index);
    return at < argument_count ? arguments[at] : std::string_view();
  }
};

// Parses a text from "name(" on. Returns nullopt if it is no complete call.
std::optional<StraceCall> parse_strace_call(std::string_view text);

// Parses a number of C: -5, 0x1f, ~0U. Returns nullopt if the text is anything else.
std::optional<int64_t> strace_number(std::string_view text);
// Parses a number that is not negative.
std::optional<uint64_t> strace_size(std::string_view text);
// Parses "[5]" or "[5] => [9]" as 5.
std::optional<uint64_t> strace_bracketed(std::string_view text);

// Returns the first "{...}" of a list of structures, with its brackets.
std::optional<std::string_view> strace_member(std::string_view list);
// Returns the value of a field of a structure "{a=1, b=[...]}"; empty without such a field.
std::string_view strace_field(std::string_view structure, std::string_view name);

// A descriptor "3</tmp/a>(deleted)": number 3, annotation "/tmp/a". "AT_FDCWD" is
// at_current_folder.
struct StraceDescriptor {
  static constexpr int32_t at_current_folder = -100;
  int32_t number = -1;
  std::string_view annotation;  // empty if there is none
};
std::optional<StraceDescriptor> strace_descriptor(std::string_view text);

// Decodes a string "a\"b\1" in quotes, up to a zero byte. Returns nullopt if it is no string (NULL,
// an address).
std::optional<std::string> strace_string(std::string_view quoted);
// Decodes a string without quotes.
std::string strace_unescaped(std::string_view text);

// Returns whether "A|B|C" has B.
bool strace_has_flag(std::string_view flags, std::string_view name);

// Returns a member's text, up to the next comma or bracket: "5" for "st_size" of
// "{flags=CLONE_VM|..., st_size=5}".
std::string_view strace_member(std::string_view text, std::string_view name);

}  // namespace penstock::trace
