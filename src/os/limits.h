#pragma once

// What this system allows and offers, as one plain struct for `penstock doctor` and for messages.

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "os/cpu.h"

namespace penstock::os {

// Memory that there is. A look reads /proc/meminfo, and a few files of each cgroup on the way to the root.
struct MachineMemory {
  // The tightest limit on the way from this process's memory cgroup to the root, and what is
  // charged there; no value: there is none. What is charged contains the page cache.
  std::optional<uint64_t> cgroup_bytes_max;
  std::optional<uint64_t> cgroup_bytes_now;
  uint64_t memory_bytes = 0;            // of the machine
  uint64_t memory_available_bytes = 0;  // without swapping
  // The smaller of what the machine has available and what the cgroup leaves.
  uint64_t usable_bytes = 0;
};
MachineMemory machine_memory();

// vm.overcommit_memory: 0, 1 or 2.
std::optional<uint64_t> overcommit_memory();

// Processors that this process may run on: those of its affinity, and no more than its cgroup has time
// for.
uint32_t cores_usable();

// A field without a value: the system does not have it, or does not tell.
struct Limits : MachineMemory {
  std::string kernel_release;  // "6.18.1-generic"
  uint32_t kernel_major = 0;
  uint32_t kernel_minor = 0;

  uint64_t page_bytes = 0;
  std::optional<std::string>
      huge_pages;  // transparent_hugepage/enabled: "always", "madvise", "never"
  std::optional<std::string> shared_huge_pages;      // transparent_hugepage/shmem_enabled
  std::optional<std::string> huge_page_defrag;       // transparent_hugepage/defrag
  std::optional<uint64_t> reserved_huge_pages_free;  // hugetlb pages of 2 MiB

  std::optional<uint64_t> mappings_max;       // vm.max_map_count
  std::optional<uint64_t> overcommit_memory;  // as overcommit_memory()

  // Of this process; no value: unlimited.
  std::optional<uint64_t> address_space_bytes_max;  // RLIMIT_AS
  std::optional<uint64_t> locked_bytes_max;         // RLIMIT_MEMLOCK
  std::optional<uint64_t> files_max;                // RLIMIT_NOFILE

  std::optional<uint64_t>
      io_uring_disabled;  // kernel.io_uring_disabled: 0 allowed, 1 for groups, 2 for nobody
  std::optional<uint64_t> unprivileged_userfaultfd;  // vm.unprivileged_userfaultfd: matters for
                                                     // kernel-mode faults alone

  uint32_t cores_usable = 0;             // as cores_usable()
  CpuFeatures cpu;                       // of the machine
  CpuTier cpu_tier = CpuTier::portable;  // in use: PENSTOCK_CPU obeyed
};

// Reads a dozen files: for reports.
Limits limits();

// The mappings of this process: how many it has, and how many it may have (vm.max_map_count).
struct Mappings {
  uint64_t used = 0;
  uint64_t max = 0;
};
Mappings mappings();

// Addresses for what has no bound that is known: `wanted`, or where this process has a limit (ulimit
// -v) and that is more, a quarter of what the limit leaves. Threads, blocks and further streams need some.
uint64_t addresses_for_unknown(uint64_t wanted);

// open(bytes), or where there are not so many addresses, open() with what addresses_for_unknown() gives.
template <class Open>
auto open_with_addresses(uint64_t bytes, Open open) {
  auto opened = open(bytes);
  if (opened || opened.error().system_errno != ENOMEM) return opened;
  const uint64_t fewer = addresses_for_unknown(bytes);
  return fewer < bytes ? open(fewer) : std::move(opened);
}

// The parts that read files, with the root they read under, for tests: "" is the real one.
struct CgroupMemory {
  std::optional<uint64_t> bytes_max;
  std::optional<uint64_t> bytes_now;
  // Pages of files among bytes_now, which the system gives up for whoever asks for memory (inactive_file).
  uint64_t cache_bytes = 0;
  // Bytes that may still be asked for; no value: there is no limit.
  std::optional<uint64_t> usable_bytes() const;
};
CgroupMemory cgroup_memory(const std::string& root = "");
// The processors' time that a cgroup has (cpu.max, cpu.cfs_quota_us), in whole processors, rounded up:
// the least on the way from this process's to the root. No value: there is no limit.
std::optional<uint32_t> cgroup_cores(const std::string& root = "");
// The word in brackets of "always [madvise] never".
std::optional<std::string> chosen_word(const std::string& text);

// Lets this process open as many files as the system allows it at most (the soft limit goes up to
// the hard one). False where that is refused.
bool raise_open_files_limit();

}  // namespace penstock::os
