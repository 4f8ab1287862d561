#pragma once

// What the names of files lead to, and the names of files that are not complete.

#include <optional>
#include <string>

#include "penstock/base.h"

struct stat;

namespace penstock::io {

bool is_same_file(const struct stat& a, const struct stat& b);
// Whether `name` still names the file that is open as `fd`.
bool names(const std::string& name, int fd);

// A name by which what is open can be opened anew.
std::string descriptor_path(int fd);

// Where a chain of symbolic links ends, whether or not something is there: at a name, or at a
// descriptor of this process. The link of a descriptor goes no further: its text may name nothing
// ("pipe:[7]"), and to open a file by it anew would begin at its start, over what it holds.
struct LinkEnd {
  std::string name;
  std::optional<int> descriptor = {};
};

Result<LinkEnd> follow_links(std::string path);

// Of this process, in the folder; remove_stale_temporaries() knows it again.
std::string temporary_name(const std::string& directory);

struct NamedFile {
  int fd;  // or -1, and errno
  std::string name;
};
// A file with a temporary name, locked for as long as it is open.
NamedFile create_named(const std::string& directory, unsigned mode);
// Whether the system takes a request to link an unnamed file of the directory. The request is made under a
// name that is taken, so that nothing appears there, and a kill leaves nothing. It needs /proc, and a sandbox
// may refuse it.
bool can_be_linked(int fd, const std::string& directory);

}  // namespace penstock::io
