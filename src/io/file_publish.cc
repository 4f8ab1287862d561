// Publishing an output: its data are on the disk before it gets its name, so that a reader finds
// either the old file or the complete new one, whatever happens meanwhile.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "io/file.h"
#include "io/input_guard.h"
#include "io/names.h"
#include "io/system_calls.h"

namespace penstock::io {

// Gives an unnamed file a temporary name, because linkat() replaces nothing. It is locked for that
// moment, so that no other run mistakes it for a dead run's.
Status File::link_under_temporary_name() {
  const std::string unnamed = descriptor_path(buffered_fd_);
  ::flock(buffered_fd_, LOCK_EX);
  for (;;) {
    std::string name = temporary_name(directory_of(final_));
    if (::linkat(AT_FDCWD, unnamed.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0) {
      name_ = std::move(name);
      return {};
    }
    if (errno != EEXIST) return system_error(errno, "create", path_);
  }
}

// Sets the file's size and rights.
Status File::finish_writing() {
  if (final_.empty()) return {};
  if (grows_ahead_) {
    if (auto cut = set_size(end_.load(std::memory_order_relaxed)); !cut)
      return cut;  // relaxed: see raise_to()
    grows_ahead_ = false;
  }
  struct stat replaced;
  if (::stat(final_.c_str(), &replaced) != 0) return {};
  // The owner comes first: changing it clears mode bits. Without permission the new owner stays.
  [[maybe_unused]] int kept = ::fchown(buffered_fd_, replaced.st_uid, replaced.st_gid);
  if (::fchmod(buffered_fd_, replaced.st_mode & 07777) != 0)
    return system_error(errno, "set the mode", path_);
  return {};
}

// Keeps the file beside its final name. Returns the name, or empty, and errno.
std::string File::keep_aside() {
  std::string kept;
  for (unsigned number = 0;; ++number) {
    kept = fmt::format("{}.new-{}-{}", final_, ::getpid(), number);
    if (name_.empty()) {
      if (::linkat(AT_FDCWD, descriptor_path(buffered_fd_).c_str(), AT_FDCWD, kept.c_str(),
                   AT_SYMLINK_FOLLOW) == 0)
        break;
    } else {
      // A rename would replace a file of that name; a link would not, but may be refused.
      if (::access(kept.c_str(), F_OK) == 0) continue;
      if (::rename(name_.c_str(), kept.c_str()) == 0) break;
    }
    if (errno != EEXIST) return {};
  }
  name_.clear();
  final_.clear();
  return kept;
}

Status File::keep_if_inputs_changed(std::span<File* const> files) {
  std::optional<std::string> changed;
  const File* replacing = nullptr;
  for (const File* file : files) {
    if (changed || !file->replaced_ || file->final_.empty()) continue;
    changed = file->replaced_->changed();
    replacing = file;
  }
  if (!changed) return {};
  Error error{ErrorCode::invalid_argument,
              fmt::format("replace an input: {} has changed since it was opened", *changed),
              replacing->path_};
  for (File* file : files) {
    if (file->final_.empty()) continue;
    const std::string kept = file->keep_aside();
    if (kept.empty())
      return system_error(errno, error.attempted + ", nor keep the new file", file->path_);
    error.hint += (error.hint.empty() ? "look at the new file, kept as " : ", ") + kept;
  }
  return std::unexpected(std::move(error));
}

Status File::keep_if_inputs_changed() {
  File* const alone[] = {this};
  return keep_if_inputs_changed(alone);
}

Result<bool> File::give_final_name() {
  if (final_.empty()) return false;
  if (name_.empty()) {
    // A free name is linked at once, without a temporary one, which a kill would leave.
    if (link_written(descriptor_path(buffered_fd_).c_str(), final_.c_str()) == 0) return false;
    if (errno != EEXIST) return system_error(errno, "create", path_);
    if (auto linked = link_under_temporary_name(); !linked) return std::unexpected(linked.error());
  }
  if (rename_written(name_.c_str(), final_.c_str()) != 0)
    return system_error(errno, "create", path_);
  name_.clear();
  ::flock(buffered_fd_, LOCK_UN);
  return true;
}

Status File::publish() {
  File* const alone[] = {this};
  return publish_all(alone);
}

Status File::publish_all(std::span<File* const> files) {
  for (File* file : files) {
    if (auto finished = file->finish_writing(); !finished) return finished;
    if (files.size() > 1) file->start_write_back();
  }
  for (const File* file : files) {
    if (auto written = file->write_back(); !written) return written;
  }
  if (auto unchanged = keep_if_inputs_changed(files); !unchanged) return unchanged;
  std::map<std::string, const File*> folders;
  std::set<std::string> folders_of_temporary_names;
  for (File* file : files) {
    const auto renamed = file->give_final_name();
    if (!renamed) return std::unexpected(renamed.error());
    const std::string name = std::exchange(file->final_, {});
    if (*renamed) folders_of_temporary_names.insert(directory_of(name));
    if (!name.empty() && file->syncs_) folders.emplace(directory_of(name), file);
  }
  // If this run needed temporary names, a killed run may have left one.
  for (const std::string& folder : folders_of_temporary_names) remove_stale_temporaries(folder);
  for (const auto& [folder, file] : folders) {
    auto synced = sync_directory(folder);
    // A folder that we may not read cannot be synced by itself, but with its whole file system.
    if (!synced && synced.error().system_errno == EACCES && ::syncfs(file->buffered_fd_) == 0)
      continue;
    if (!synced) return synced;
  }
  return {};
}

}  // namespace penstock::io
