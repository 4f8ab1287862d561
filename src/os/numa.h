#pragma once

// Nodes of machines with memory near to some cores and far from others. Others have one node.

#include <cstddef>
#include <cstdint>

namespace penstock::os {

// Returns a bound on the numbers of nodes, at least 1. Numbers start at 0 and may have gaps.
uint32_t numa_nodes_max();

// Makes pages of the range that get memory from now on get it on that node, as long as it has any.
// For a view of a memory file this affects the file: pages that get their memory through any view.
// Returns 0 or an errno (ENOSYS: the kernel has no nodes).
[[nodiscard]] int prefer_node(std::byte* address, size_t bytes, uint32_t node) noexcept;

}  // namespace penstock::os
