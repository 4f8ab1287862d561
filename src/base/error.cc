#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/printable.h"
#include "penstock/base.h"

namespace penstock {

std::string Error::message() const {
  // Each part may contain a name that somebody else has chosen.
  const auto shown = [](const std::string& part) { return printable(part, std::string::npos); };
  std::string text;
  if (!subject.empty()) text += shown(subject) + ": ";
  if (!is_fault) text += "cannot ";
  text += shown(attempted);
  if (system_errno != 0) text += std::string(": ") + std::strerror(system_errno);
  if (!hint.empty()) text += " (try: " + shown(hint) + ")";
  return text;
}

ErrorCode code_of_errno(int system_errno) {
  switch (system_errno) {
    case EINVAL:
      return ErrorCode::invalid_argument;
    case ENOSYS:
    case EOPNOTSUPP:
      return ErrorCode::unsupported;
    case ENOENT:
      return ErrorCode::not_found;
    case EACCES:
    case EROFS:
    case EPERM:
      return ErrorCode::permission;
    case ENOMEM:
      return ErrorCode::out_of_memory;
    case ENOSPC:
    case EFBIG:
    case EDQUOT:
      return ErrorCode::out_of_space;
    case EINTR:
      return ErrorCode::interrupted;
    default:
      return ErrorCode::io;
  }
}

std::unexpected<Error> system_error(int system_errno, std::string attempted, std::string subject,
                                    std::string hint) {
  return std::unexpected(Error{code_of_errno(system_errno), std::move(attempted),
                               std::move(subject), system_errno, std::move(hint)});
}

std::unexpected<Error> failure(ErrorCode code, std::string attempted, std::string subject,
                               std::string hint) {
  return std::unexpected(Error{code, std::move(attempted), std::move(subject), 0, std::move(hint)});
}

std::unexpected<Error> fault_at(ErrorCode code, std::string_view place, std::string_view fault,
                                std::string subject, std::string hint) {
  std::string text(place);
  (text += ": ") += fault;
  return std::unexpected(Error{.code = code,
                               .attempted = std::move(text),
                               .subject = std::move(subject),
                               .hint = std::move(hint),
                               .is_fault = true});
}

}  // namespace penstock
