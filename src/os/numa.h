#pragma once

// Machines whose memory is near to some cores and far from others. One node everywhere else.

#include <cstddef>
#include <cstdint>

namespace penstock::os {

// Nodes are numbered from 0; there may be gaps in the numbers below this one. At least 1.
uint32_t numa_nodes_max();

// Pages of the range that get memory from now on get it on that node, as long as it has any, and on
// others then. For a view of a memory file this holds for the file: for pages that get their memory
// through any view. 0 or an errno (ENOSYS: the kernel knows of no nodes).
[[nodiscard]] int prefer_node(std::byte* address, size_t bytes, uint32_t node) noexcept;

}  // namespace penstock::os
