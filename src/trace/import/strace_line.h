#pragma once

// One line of strace's output, taken apart. Nothing here knows what a call means.
//
//   29951 1795334319.784933 openat(AT_FDCWD</tmp>, "a b", O_RDONLY|O_CLOEXEC) = 3</tmp/a b> <0.000008>
//   ^tid  ^time            ^name  ^arguments                                   ^result     ^latency
//                                                                                 ^told
//
// Whatever the bytes are, parsing ends, looks at none beyond the line, and takes time in proportion
// to its length.

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
    call,        // text: from its name on
    unfinished,  // text: the call as far as it goes; number: the thread that will end it, 0: itself
    resumed,     // name, text: the rest
    exited,      // number: the exit code, as a shell tells it
    superseded,  // another thread's exec took this one's number; number: that thread
    child_gone,  // SIGCHLD of an end; number: the child
  };
  enum class Clock {
    none,
    since_1970,
    of_day,      // since midnight
    since_last,  // since the line before
  };
  Kind kind = Kind::nothing;
  Clock clock = Clock::none;
  uint64_t time_ns = 0;
  int32_t thread = 0;  // 0: not told
  int32_t number = 0;
  std::string_view name;  // of a call
  std::string_view text;
};

// None: no line of strace's.
std::optional<StraceLine> parse_strace_line(std::string_view line);

// "... strace: Process 30049 attached", which strace puts on a terminal in the middle of a line:
// what stands in front of it goes on in the next line.
struct StraceRemark {
  std::string_view front;
  int32_t attached = 0;  // the process, 0: the remark tells something else
};
std::optional<StraceRemark> parse_strace_remark(std::string_view line);

struct StraceCall {
  static constexpr size_t arguments_max = 8;
  std::array<std::string_view, arguments_max> arguments;  // further ones are left out
  size_t argument_count = 0;
  bool failed = false;              // or its result is not known
  uint64_t result = 0;              // of one that did not fail
  std::string_view told_of_result;  // what <> behind the result says: of a descriptor, its file
  std::optional<uint64_t> latency_ns;

  // Empty: there is none of this index.
  std::string_view argument(int index) const {
    const auto at = static_cast<size_t>(index);
    return at < argument_count ? arguments[at] : std::string_view();
  }
};

// From "name(" on. None: a text that is no whole call.
std::optional<StraceCall> parse_strace_call(std::string_view text);

// A number as C writes it: -5, 0x1f, ~0U. Whole text or none.
std::optional<int64_t> strace_number(std::string_view text);
// One that is not negative.
std::optional<uint64_t> strace_size(std::string_view text);
// "[5]", "[5] => [9]": 5.
std::optional<uint64_t> strace_bracketed(std::string_view text);

// The first "{...}" of a list of structures, with its brackets.
std::optional<std::string_view> strace_member(std::string_view list);
// One field's value in a structure "{a=1, b=[...]}"; empty: it has no such field.
std::string_view strace_field(std::string_view structure, std::string_view name);

// "3</tmp/a>(deleted)": number 3, told "/tmp/a". "AT_FDCWD" is at_current_folder.
struct StraceDescriptor {
  static constexpr int32_t at_current_folder = -100;
  int32_t number = -1;
  std::string_view told;  // empty: nothing
};
std::optional<StraceDescriptor> strace_descriptor(std::string_view text);

// "a\"b\1" in its quotes, as the bytes that it stands for, up to a zero byte. None: no string
// (NULL, an address).
std::optional<std::string> strace_string(std::string_view quoted);
// The same without quotes.
std::string strace_unescaped(std::string_view text);

// Whether "A|B|C" has B.
bool strace_has_flag(std::string_view flags, std::string_view name);

// "{flags=CLONE_VM|..., st_size=5}": what stands behind "st_size=" up to the next comma or bracket.
std::string_view strace_member(std::string_view text, std::string_view name);

}  // namespace penstock::trace
