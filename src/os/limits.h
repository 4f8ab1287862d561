#pragma once

// The limits and features of this system, as a plain struct for `penstock doctor` and messages.

#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "os/cpu.h"

namespace penstock::os {

// The memory of the machine and of this process's cgroup. Reading it opens /proc/meminfo, and a few
// files of each cgroup on the way to the root.
struct MachineMemory {
  // The tightest limit on the way from this process's memory cgroup to the root, and the bytes
  // charged there, which include the page cache; no value: no limit.
  std::optional<uint64_t> cgroup_bytes_max;
  std::optional<uint64_t> cgroup_bytes_now;
  uint64_t memory_bytes = 0;            // total of the machine
  uint64_t memory_available_bytes = 0;  // available without swapping
  // The smaller of the machine's available memory and the rest of the cgroup's limit.
  uint64_t usable_bytes = 0;
};
MachineMemory machine_memory();

// Returns vm.overcommit_memory: 0, 1 or 2.
std::optional<uint64_t> overcommit_memory();

// Returns the processor's name, or its architecture if the system does not tell.
std::string processor_name();

// Returns the processors that this process may run on: those of its affinity, limited by its
// cgroup's processor time, which is read once.
uint32_t cores_usable();

// Fields have no value if the system lacks the feature, or does not tell.
struct Limits : MachineMemory {
  std::string kernel_release;  // "6.18.1-generic"
  uint32_t kernel_major = 0;
  uint32_t kernel_minor = 0;

  uint64_t page_bytes = 0;
  // transparent_hugepage/enabled: "always", "madvise", "never"
  std::optional<std::string> huge_pages;
  std::optional<std::string> shared_huge_pages;      // transparent_hugepage/shmem_enabled
  std::optional<std::string> huge_page_defrag;       // transparent_hugepage/defrag
  std::optional<uint64_t> reserved_huge_pages_free;  // hugetlb pages of 2 MiB

  std::optional<uint64_t> mappings_max;       // vm.max_map_count
  std::optional<uint64_t> overcommit_memory;  // see overcommit_memory()

  // Limits of this process; no value: unlimited.
  std::optional<uint64_t> address_space_bytes_max;  // RLIMIT_AS
  std::optional<uint64_t> locked_bytes_max;         // RLIMIT_MEMLOCK
  std::optional<uint64_t> files_max;                // RLIMIT_NOFILE

  // kernel.io_uring_disabled: 0 allowed, 1 for groups, 2 for nobody
  std::optional<uint64_t> io_uring_disabled;
  // vm.unprivileged_userfaultfd: matters only for kernel-mode faults
  std::optional<uint64_t> unprivileged_userfaultfd;

  uint32_t cores_usable = 0;             // see cores_usable()
  CpuFeatures cpu;                       // features of the machine
  CpuTier cpu_tier = CpuTier::portable;  // tier in use, limited by PENSTOCK_CPU
};

// Reads a dozen files: for reports.
Limits limits();

// The mappings of this process, and the most that it may have (vm.max_map_count).
struct Mappings {
  uint64_t used = 0;
  uint64_t max = 0;
};
Mappings mappings();

// Returns the size of a reservation without a known bound: `wanted`, or a quarter of what this
// process's limit (ulimit -v) leaves, if that is less. Threads, blocks and further streams need the
// rest.
uint64_t addresses_for_unknown(uint64_t wanted);

// Calls open(bytes), or if there are not so many addresses, open(addresses_for_unknown(bytes)).
template <class Open>
auto open_with_addresses(uint64_t bytes, Open open) {
  auto opened = open(bytes);
  if (opened || opened.error().system_errno != ENOMEM) return opened;
  const uint64_t fewer = addresses_for_unknown(bytes);
  return fewer < bytes ? open(fewer) : std::move(opened);
}

// The functions that read files take the root for tests: "" is the real one.
struct CgroupMemory {
  std::optional<uint64_t> bytes_max;
  std::optional<uint64_t> bytes_now;
  // Pages of files among bytes_now, which the system frees on demand (inactive_file).
  uint64_t cache_bytes = 0;
  // Returns the bytes that may still be allocated; no value: there is no limit.
  std::optional<uint64_t> usable_bytes() const;
};
CgroupMemory cgroup_memory(const std::string& root = "");
// Returns the processor time of a cgroup (cpu.max, cpu.cfs_quota_us), in whole processors, rounded
// up: the least on the way from this process's cgroup to the root. No value: there is no limit.
std::optional<uint32_t> cgroup_cores(const std::string& root = "");
// Returns the word in brackets of "always [madvise] never".
std::optional<std::string> chosen_word(const std::string& text);

// Raises this process's limit of open files to the system's maximum (the soft limit to the hard
// one). Returns false if the system refuses.
bool raise_open_files_limit();

}  // namespace penstock::os
