#pragma once

// Printing for the program. fmt::print() throws where the stream is closed or full; here that shows
// in ferror(), which main() asks in the end.

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace penstock::cli {

template <class... T>
void print_to(std::FILE* to, fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  (void)std::fwrite(text.data(), 1, text.size(), to);
}
template <class... T>
void print(fmt::format_string<T...> format, T&&... values) {
  print_to(stdout, format, std::forward<T>(values)...);
}

}  // namespace penstock::cli
