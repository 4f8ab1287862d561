#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/bits.h"
#include "os/limits.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::os {
namespace {

std::optional<std::string> file_text(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return std::nullopt;
  std::string text;
  char piece[4096];
  ssize_t bytes;
  while ((bytes = ::read(fd, piece, sizeof piece)) > 0)
    text.append(piece, static_cast<size_t>(bytes));
  ::close(fd);
  return text;
}

std::optional<uint64_t> number(std::string_view text) {
  uint64_t value = 0;
  if (std::from_chars(text.data(), text.data() + text.size(), value).ec != std::errc{})
    return std::nullopt;
  return value;
}

std::optional<uint64_t> file_number(const std::string& path) {
  const auto text = file_text(path);
  return text ? number(*text) : std::nullopt;
}

std::optional<std::string> file_choice(const std::string& path) {
  const auto text = file_text(path);
  return text ? chosen_word(*text) : std::nullopt;
}

std::optional<uint64_t> process_limit(__rlimit_resource resource) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return std::nullopt;
  return limit.rlim_cur;
}

// Returns the number of a line "NAME NUMBER" of memory.stat.
uint64_t stat_line(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(name) && line.size() > name.size() && line[name.size()] == ' ')
      return number(std::string_view(line).substr(name.size() + 1)).value_or(0);
  }
  return 0;
}

// Returns a value of /proc/meminfo in bytes.
uint64_t memory_fact(const std::string& text, std::string_view name) {
  const size_t at = text.find(name);
  if (at == std::string::npos) return 0;
  const size_t digits = text.find_first_of("0123456789", at);
  return digits == std::string::npos
             ? 0
             : number(std::string_view(text).substr(digits)).value_or(0) * KiB;
}

// The path of this process's cgroup: the line "0::PATH" (version 2) or "N:...CONTROLLER...:PATH" of
// /proc/self/cgroup.
struct CgroupPath {
  bool version_2 = true;
  std::string path;
};

std::optional<CgroupPath> cgroup_path(const std::string& root, const std::string& controller) {
  const auto text = file_text(root + "/proc/self/cgroup");
  if (!text) return std::nullopt;
  std::optional<CgroupPath> found;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers.find("," + controller + ",") != std::string::npos)
      return CgroupPath{false, path};
    if (controllers == ",,") found = CgroupPath{true, path};
  }
  return found;
}

// Calls see(folder, is version 2) for each folder from this process's cgroup up to the mount's top.
// In a container the path may be the host's, outside of the mount: then only the top exists.
template <class See>
void for_each_cgroup(const std::string& root, const std::string& controller, See see) {
  const auto group = cgroup_path(root, controller);
  if (!group) return;
  const std::string mount = root + "/sys/fs/cgroup" + (group->version_2 ? "" : "/" + controller);
  for (std::string path = group->path;;) {
    if (path == "/") path.clear();
    see(mount + path, group->version_2);
    if (path.empty()) return;
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
}

// Returns the processors of "QUOTA PERIOD" (microseconds); nullopt without a limit ("max", or -1).
std::optional<uint32_t> cores_of(const std::string& quota_and_period) {
  std::istringstream words(quota_and_period);
  int64_t quota = 0, period = 0;
  if (!(words >> quota >> period) || quota <= 0 || period <= 0) return std::nullopt;
  const int64_t cores = std::max<int64_t>(1, quota / period + (quota % period != 0));
  return static_cast<uint32_t>(std::min<int64_t>(cores, UINT32_MAX));
}

}  // namespace

uint32_t cores_usable() {
  cpu_set_t cores;
  const auto usable = sched_getaffinity(0, sizeof cores, &cores) == 0
                          ? static_cast<uint32_t>(CPU_COUNT(&cores))
                          : static_cast<uint32_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
  static const std::optional<uint32_t> cgroup = cgroup_cores();
  return std::min(usable, cgroup.value_or(usable));
}

std::optional<uint32_t> cgroup_cores(const std::string& root) {
  std::optional<uint32_t> least;
  for_each_cgroup(root, "cpu", [&](const std::string& folder, bool version_2) {
    const auto text = version_2 ? file_text(folder + "/cpu.max").value_or("")
                                : file_text(folder + "/cpu.cfs_quota_us").value_or("") + " " +
                                      file_text(folder + "/cpu.cfs_period_us").value_or("");
    if (const auto cores = cores_of(text)) least = std::min(*cores, least.value_or(*cores));
  });
  return least;
}

std::optional<std::string> chosen_word(const std::string& text) {
  const size_t open = text.find('[');
  const size_t close = text.find(']', open);
  if (open == std::string::npos || close == std::string::npos) return std::nullopt;
  return text.substr(open + 1, close - open - 1);
}

CgroupMemory cgroup_memory(const std::string& root) {
  CgroupMemory tightest;
  constexpr uint64_t unlimited = uint64_t{1}
                                 << 62;  // version 1 writes "none" as a number near 2^63
  for_each_cgroup(root, "memory", [&](const std::string& folder, bool version_2) {
    const auto bytes_max =
        file_number(folder + (version_2 ? "/memory.max" : "/memory.limit_in_bytes"));
    if (!bytes_max || *bytes_max >= tightest.bytes_max.value_or(unlimited)) return;
    tightest.bytes_max = bytes_max;
    tightest.bytes_now =
        file_number(folder + (version_2 ? "/memory.current" : "/memory.usage_in_bytes"));
    tightest.cache_bytes = stat_line(file_text(folder + "/memory.stat").value_or(""),
                                     version_2 ? "inactive_file" : "total_inactive_file");
  });
  return tightest;
}

std::optional<uint64_t> CgroupMemory::usable_bytes() const {
  if (!bytes_max) return std::nullopt;
  const uint64_t now = bytes_now.value_or(0);
  const uint64_t kept = now - std::min(now, cache_bytes);
  return *bytes_max - std::min(*bytes_max, kept);
}

MachineMemory machine_memory() {
  MachineMemory facts;
  const std::string memory = file_text("/proc/meminfo").value_or("");
  facts.memory_bytes = memory_fact(memory, "MemTotal:");
  facts.memory_available_bytes = memory_fact(memory, "MemAvailable:");
  // A bare root has no /proc.
  if (struct sysinfo told; memory.empty() && ::sysinfo(&told) == 0) {
    facts.memory_bytes = uint64_t{told.totalram} * told.mem_unit;
    facts.memory_available_bytes = uint64_t{told.freeram + told.bufferram} * told.mem_unit;
  }
  const CgroupMemory group = cgroup_memory();
  facts.cgroup_bytes_max = group.bytes_max;
  facts.cgroup_bytes_now = group.bytes_now;
  facts.usable_bytes = facts.memory_available_bytes;
  facts.usable_bytes =
      std::min(facts.usable_bytes, group.usable_bytes().value_or(facts.usable_bytes));
  return facts;
}

std::optional<uint64_t> overcommit_memory() {
  return file_number("/proc/sys/vm/overcommit_memory");
}

std::string processor_name() {
  const std::string text = file_text("/proc/cpuinfo").value_or("");
  constexpr std::string_view field = "\nmodel name";
  const size_t at = text.find(field);
  const size_t begin = at == text.npos ? at : text.find(": ", at + field.size());
  if (begin != text.npos) return text.substr(begin + 2, text.find('\n', begin) - begin - 2);
  utsname name{};
  return uname(&name) == 0 ? name.machine : "";
}

Limits limits() {
  Limits facts{machine_memory()};
  utsname name{};
  if (uname(&name) == 0) {
    facts.kernel_release = name.release;
    if (std::sscanf(name.release, "%u.%u", &facts.kernel_major, &facts.kernel_minor) != 2)
      facts.kernel_major = facts.kernel_minor = 0;
  }

  facts.page_bytes = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const std::string huge = "/sys/kernel/mm/transparent_hugepage/";
  facts.huge_pages = file_choice(huge + "enabled");
  facts.shared_huge_pages = file_choice(huge + "shmem_enabled");
  facts.huge_page_defrag = file_choice(huge + "defrag");
  facts.reserved_huge_pages_free =
      file_number("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");

  facts.mappings_max = file_number("/proc/sys/vm/max_map_count");
  facts.overcommit_memory = os::overcommit_memory();
  facts.address_space_bytes_max = process_limit(RLIMIT_AS);
  facts.locked_bytes_max = process_limit(RLIMIT_MEMLOCK);
  facts.files_max = process_limit(RLIMIT_NOFILE);

  facts.io_uring_disabled = file_number("/proc/sys/kernel/io_uring_disabled");
  facts.unprivileged_userfaultfd = file_number("/proc/sys/vm/unprivileged_userfaultfd");
  facts.cores_usable = os::cores_usable();
  facts.cpu = machine_features();
  facts.cpu_tier = cpu_tier();
  return facts;
}

Mappings mappings() {
  constexpr uint64_t usual_max = 65530;
  Mappings mappings;
  mappings.max = file_number("/proc/sys/vm/max_map_count").value_or(usual_max);
  std::ifstream file("/proc/self/maps");
  for (std::string line; std::getline(file, line);) ++mappings.used;
  return mappings;
}

uint64_t addresses_for_unknown(uint64_t wanted) {
  const auto limit = process_limit(RLIMIT_AS);
  if (!limit) return wanted;
  // The first word of statm: the pages that are mapped or reserved.
  const uint64_t used = file_number("/proc/self/statm").value_or(0) * page_bytes;
  constexpr uint64_t least = 16 * MiB;
  const uint64_t share = round_down((*limit - std::min(*limit, used)) / 4, uint64_t{2} * MiB);
  return std::min(wanted, std::max(least, share));
}

bool raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

}  // namespace penstock::os
