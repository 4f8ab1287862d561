#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::os {

// Maps the page cache's pages of a file at `to`, in place of the mapping there, and excludes them
// from forks. A store makes a private copy of a page, which lasts as long as the mapping. A load
// from behind the file's end, or from unreadable bytes, raises SIGBUS. Returns 0 or an errno. Takes
// whole pages; allocates nothing and may stand on the fault path.
[[nodiscard]] int show_file(int fd, uint64_t offset, std::byte* to, size_t bytes) noexcept;

}  // namespace penstock::os
