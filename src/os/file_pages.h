#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::os {

// The pages of a file as the page cache has them appear at `to`, in place of what is mapped there,
// excluded from forks. A page that is stored to is a copy from then on, and goes with the mapping. A
// load from behind the file's end, or from what cannot be read, is a SIGBUS. 0 or an errno. Takes
// whole pages; allocates nothing and may stand on the fault path.
[[nodiscard]] int show_file(int fd, uint64_t offset, std::byte* to, size_t bytes) noexcept;

}  // namespace penstock::os
