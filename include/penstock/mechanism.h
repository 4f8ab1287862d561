#pragma once

#include <cstdint>

namespace penstock {

// How a block of memory is brought to another address. What each costs and needs:
// src/pool/README.md and `penstock doctor`.
enum class Mechanism : uint8_t {
  automatic,  // what measures best on this kernel
  mremap,     // page table entries move; everywhere
  uffd_move,  // the same by userfaultfd, Linux 6.8; faults with SIGBUS
  shared,     // pages of a memory file, mapped at one more address
};

}  // namespace penstock
