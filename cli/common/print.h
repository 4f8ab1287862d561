#pragma once

// Printing for the program. fmt::print() throws if the stream is closed or full; these functions
// leave the error in ferror(), which main() checks at the end.

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

namespace penstock::cli {

// Prints nothing after a failed write, which would leave a hole. stderr takes the next message all
// the same; it has no buffer, so nothing is lost if a signal interrupts a write.
inline void write_text(std::FILE* to, std::string_view text) {
  if (to == stderr) std::clearerr(to);
  while (!text.empty() && ::ferror_unlocked(to) == 0) {
    text.remove_prefix(std::fwrite(text.data(), 1, text.size(), to));
    if (to == stderr && errno == EINTR) std::clearerr(to);
  }
}

template <class... T>
void print_to(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  write_text(to, fmt::format(format, std::forward<T>(values)...));
}
template <class... T>
void print(fmt::format_string<T...> format, T&&... values) {
  print_to(stdout, format, std::forward<T>(values)...);
}

}  // namespace penstock::cli
