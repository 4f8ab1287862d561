#pragma once

#include <string>

namespace penstock::io {

// The first and the last bytes of a plain file, which tell its format. "-" is standard input, from
// its current position. Empty for anything else, and for unreadable files. Pipes are not read.
struct FileEnds {
  std::string head;  // at most 4096 bytes
  std::string tail;  // at most 16 bytes
};
FileEnds file_ends(const std::string& path);

}  // namespace penstock::io
