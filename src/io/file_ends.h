#pragma once

#include <string>

namespace penstock::io {

// The first and the last bytes of a plain file, by which its kind is known. "-" is standard input, from where it stands.
// Empty of anything else, and of what cannot be read. A pipe is not opened, and nothing is taken of it.
struct FileEnds {
  std::string head;  // 4096 bytes at most
  std::string tail;  // 16 at most
};
FileEnds file_ends(const std::string& path);

}  // namespace penstock::io
