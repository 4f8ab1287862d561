#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

enum class ErrorCode {
  invalid_argument,  // the caller asked for something that cannot be
  unsupported,       // this kernel or machine cannot do it
  not_found,         // no such file
  permission,        // the system refuses it to this user
  out_of_memory,     // memory or the memory budget does not suffice
  out_of_space,      // a disk is full, or would be
  out_of_mappings,   // vm.max_map_count is reached
  io,                // a device or file system reported an error
  corrupt,           // data are not what their format says
  cancelled,         // the other side of a stream gave up
  interrupted,       // the run was asked to stop
  unsorted,          // input that had to be sorted is not
};

// What failed, told to a person: what was attempted, on what, what the system said, what to try.
// Thread safety: a value.
struct Error {
  ErrorCode code;
  std::string attempted;     // "open", "write 2097152 bytes at offset 0"
  std::string subject = {};  // a path, a stream, an option
  int system_errno = 0;      // 0 where the system said nothing
  std::string hint = {};     // what to try

  // "FILE: cannot open: No such file or directory (try: ...)".
  std::string message() const;
};

template <class T>
using Result = std::expected<T, Error>;

using Status = Result<void>;

// The error code that fits an errno.
ErrorCode code_of_errno(int system_errno);

// An error that the system reported, ready to return: the code follows from `system_errno`.
std::unexpected<Error> system_error(int system_errno, std::string attempted, std::string subject,
                                    std::string hint = {});

// An error that we found ourselves, ready to return.
std::unexpected<Error> failure(ErrorCode code, std::string attempted, std::string subject = {},
                               std::string hint = {});

}  // namespace penstock
