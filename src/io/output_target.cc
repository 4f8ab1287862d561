#include "io/output_target.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/input_guard.h"
#include "io/names.h"

namespace penstock::io {

Kind kind_of(const struct stat& status) {
  if (S_ISREG(status.st_mode)) return Kind::regular;
  return S_ISBLK(status.st_mode) ? Kind::block_device : Kind::stream;
}

Result<bool> OutputTarget::replaces_input(const OutputOptions& options,
                                          const std::string& path) const {
  if (!options.inputs || !exists) return false;
  if (auto may = options.inputs->check_replaceable(status, path); !may)
    return std::unexpected(may.error());
  return options.inputs->contains(status);
}

Result<OutputTarget> resolve_output(const std::string& path) {
  if (path.empty()) return system_error(ENOENT, "create", path);
  if (path == "-") return OutputTarget{.name = path, .descriptor = STDOUT_FILENO};
  auto followed = follow_links(path);
  if (!followed) return std::unexpected(followed.error());
  OutputTarget target{.name = std::move(followed->name), .descriptor = followed->descriptor};
  if (target.descriptor) return target;
  target.exists = ::stat(target.name.c_str(), &target.status) == 0;
  // Another process's descriptor is a link that leads elsewhere than its text.
  struct stat through_links;
  if (::stat(path.c_str(), &through_links) == 0 &&
      !(target.exists && is_same_file(target.status, through_links)))
    target = {.name = path, .exists = true, .status = through_links};
  if (target.exists && S_ISDIR(target.status.st_mode)) {
    return std::unexpected(
        Error{ErrorCode::invalid_argument, "write", path, EISDIR, "the name of a file in it"});
  }
  if (!target.exists && target.name.ends_with('/')) return system_error(ENOTDIR, "create", path);
  // Replacing needs only the directory's permission, but a user who may not write to a file shall
  // not replace it either.
  if (target.exists && S_ISREG(target.status.st_mode) && ::access(target.name.c_str(), W_OK) != 0)
    return system_error(errno, "write", path);
  return target;
}

std::optional<int> output_descriptor(const std::string& path) {
  if (path == "-") return STDOUT_FILENO;
  const auto followed = follow_links(path);
  return followed ? followed->descriptor : std::nullopt;
}

bool names_a_file(const std::string& output) {
  const auto target = resolve_output(output);
  return !target || target->is_file();  // opening it reports the error
}

}  // namespace penstock::io
