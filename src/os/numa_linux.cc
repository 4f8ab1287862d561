#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fstream>
#include <string>

#include "base/keep_errno.h"
#include "os/numa.h"

namespace penstock::os {
namespace {

constexpr uint32_t word_bits = 8 * sizeof(unsigned long);
constexpr uint32_t nodes_limit = 1024;  // the kernel's largest

}  // namespace

// Parses "0", "0-3" or "0,2-3": the last number is the highest.
uint32_t numa_nodes_max() {
  std::ifstream file("/sys/devices/system/node/online");
  std::string text;
  if (!std::getline(file, text)) return 1;
  const size_t at = text.find_last_of(",-") + 1;  // npos + 1 == 0
  uint32_t highest = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), highest);
  return std::min(highest + 1, nodes_limit);
}

int prefer_node(std::byte* address, size_t bytes, uint32_t node) noexcept {
  if (node >= nodes_limit) return EINVAL;
  unsigned long nodes[nodes_limit / word_bits] = {};
  nodes[node / word_bits] = 1ul << node % word_bits;
  return errno_of([&] {
    // The kernel uses one bit less than it is given.
    return syscall(SYS_mbind, address, bytes, MPOL_PREFERRED, nodes, nodes_limit + 1ul, 0u);
  });
}

}  // namespace penstock::os
