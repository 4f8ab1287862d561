#pragma once

// Resolves names of files, and makes names of incomplete files.

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

struct stat;

namespace penstock::io {

bool is_same_file(const struct stat& a, const struct stat& b);
// Returns whether `name` still names the file that is open as `fd`.
bool names(const std::string& name, int fd);

// Returns a name by which an open file can be opened again.
std::string descriptor_path(int fd);

// The end of a chain of symbolic links, existing or not: a name, or a descriptor of this process.
// The link of a descriptor is not followed: its text may name nothing ("pipe:[7]"), and opening a
// file by it would begin at its start, over its data.
struct LinkEnd {
  std::string name;
  std::optional<int> descriptor = {};
};

Result<LinkEnd> follow_links(std::string path);

// A file that a run reads or writes, by its name; "-" is a standard stream. `parts`: the files that
// the name stands for if a number takes the place of its first {}.
struct UsedFile {
  enum class Use : uint8_t { read, written, parts };
  std::string name;
  Use use;
};
// Returns whether an output is a file that the run reads or writes elsewhere, existing or not. Links
// are followed, and a descriptor is the file that is open.
bool share_a_file(const UsedFile& output, const UsedFile& other);

// The name of an input in messages: "standard input" for "-".
inline std::string shown_input(const std::string& path) {
  return path == "-" ? "standard input" : path;
}

// Returns a name of this process in the folder, which remove_stale_temporaries() recognizes.
std::string temporary_name(const std::string& directory);

struct NamedFile {
  int fd;  // or -1, and errno
  std::string name;
};
// Creates a file with a temporary name, locked while it is open.
NamedFile create_named(const std::string& directory, unsigned mode);
// Returns whether the system permits linking an unnamed file in the directory. The trial uses a
// name that is taken, so that nothing appears there, and a kill leaves nothing. It needs /proc, and
// a sandbox may refuse it.
bool can_be_linked(int fd, const std::string& directory);

}  // namespace penstock::io
