#include "cli/common/command.h"

#include <cerrno>

#include "cli/common/print.h"

namespace penstock::cli {
namespace {

// A hint for an error that came without one.
const char* hint_for(const Error& error) {
  switch (error.code) {
    case ErrorCode::out_of_space:
      if (error.system_errno == EFBIG) return "a larger limit (ulimit -f), or another file system";
      return "more free space there, or another disk";
    case ErrorCode::permission:
      return "a place that you may use, or ask its owner";
    case ErrorCode::io:
      return "another disk; the system's log (dmesg) may tell more";
    default:
      return "";
  }
}

bool is_called_sort = false;  // set once, by main()

}  // namespace

std::string called(std::string_view command) {
  return is_called_sort ? "sort" : "penstock " + std::string(command);
}

void call_me_sort() {
  is_called_sort = true;
}

int report(std::string_view command, const Error& error) {
  Error told = error;
  // The general hint about disks fits only EIO, one of many system errors with the code `io`.
  const bool other_io =
      told.code == ErrorCode::io && told.system_errno != EIO && told.system_errno != 0;
  if (told.hint.empty() && !other_io) told.hint = hint_for(told);
  print_to(stderr, "{}: {}\n", called(command), told.message());
  return exit_error;
}

}  // namespace penstock::cli
