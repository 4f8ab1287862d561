#include "cli/common/command.h"

#include <cerrno>

#include "cli/common/print.h"

namespace penstock::cli {
namespace {

// What to try where nobody below knew better.
const char* hint_for(const Error& error) {
  switch (error.code) {
    case ErrorCode::out_of_space:
      if (error.system_errno == EFBIG) return "a larger limit (ulimit -f), or another file system";
      return "more free space there, or another disk";
    case ErrorCode::permission:
      return "a place that you may use, or ask its owner";
    case ErrorCode::io:
      return "the same on another disk; the system's log (dmesg) may tell more";
    default:
      return "";
  }
}

bool is_called_sort = false;  // from main() on

}  // namespace

std::string called(std::string_view command) {
  return is_called_sort ? "sort" : "penstock " + std::string(command);
}

void call_me_sort() {
  is_called_sort = true;
}

int report(std::string_view command, const Error& error) {
  Error told = error;
  // Of the system's many ways to say "input/output", the general hint fits one.
  const bool other_io =
      told.code == ErrorCode::io && told.system_errno != EIO && told.system_errno != 0;
  if (told.hint.empty() && !other_io) told.hint = hint_for(told);
  print_to(stderr, "{}: {}\n", called(command), told.message());
  return exit_error;
}

}  // namespace penstock::cli
