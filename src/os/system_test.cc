// Reports of the system and the processor: limits, features, signal frames, alternate stacks.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

#include "base/temporary_folder_fixture.h"
#include "os/cpu.h"
#include "os/fault_context.h"
#include "os/generation.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/process.h"
#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::os {
namespace {

TEST(Cpu, TiersFollowTheFeatures) {
  CpuFeatures none;
  EXPECT_EQ(tier_of(none, ""), CpuTier::portable);
  EXPECT_EQ(tier_of(none, "avx512"), CpuTier::portable);      // naming a tier does not add features
  EXPECT_EQ(tier_of({.avx2 = true}, ""), CpuTier::portable);  // kernels also use BMI2
  CpuFeatures avx2{.avx2 = true, .bmi2 = true};
  EXPECT_EQ(tier_of(avx2, ""), CpuTier::avx2);
  EXPECT_EQ(tier_of(avx2, "portable"), CpuTier::portable);
  CpuFeatures all{.avx2 = true,
                  .bmi2 = true,
                  .avx512f = true,
                  .avx512bw = true,
                  .avx512cd = true,
                  .avx512dq = true,
                  .avx512vl = true,
                  .avx512vbmi2 = true};
  EXPECT_EQ(tier_of(all, ""), CpuTier::avx512);
  EXPECT_EQ(tier_of(all, "avx2"), CpuTier::avx2);
  EXPECT_EQ(tier_of(all, "no such tier"), CpuTier::avx512);
  all.avx512vl = false;
  EXPECT_EQ(tier_of(all, ""), CpuTier::avx2);
  EXPECT_EQ(limited_to(CpuTier::portable, all), none);
  EXPECT_FALSE(limited_to(CpuTier::avx2, all).avx512f);
}

TEST(Cpu, ObeysTheEnvironment) {
  const char* named = std::getenv("PENSTOCK_CPU");
  EXPECT_EQ(cpu_tier(), tier_of(machine_features(), named == nullptr ? "" : named));
  EXPECT_EQ(cpu_features(), limited_to(cpu_tier(), machine_features()));
}

TEST(Limits, AreThoseOfThisSystem) {
  const Limits facts = limits();
  EXPECT_GE(facts.kernel_major, 5u);
  EXPECT_TRUE(facts.kernel_release.starts_with(std::to_string(facts.kernel_major) + "."));
  EXPECT_EQ(facts.page_bytes, page_bytes);
  EXPECT_GT(facts.memory_bytes, 100 * MiB);
  EXPECT_LE(facts.memory_available_bytes, facts.memory_bytes);
  EXPECT_LE(facts.usable_bytes, facts.memory_available_bytes);
  EXPECT_GT(facts.usable_bytes, 0u);
  EXPECT_GE(facts.cores_usable, 1u);
  ASSERT_TRUE(facts.mappings_max);
  EXPECT_GT(*facts.mappings_max, 1000u);
  ASSERT_TRUE(facts.overcommit_memory);
  EXPECT_LE(*facts.overcommit_memory, 2u);
}

TEST(Limits, ReadTheWordInBrackets) {
  EXPECT_EQ(chosen_word("always [madvise] never\n"), "madvise");
  EXPECT_EQ(chosen_word("[always] madvise never\n"), "always");
  EXPECT_EQ(chosen_word("none"), std::nullopt);
}

// A folder that stands for the root of the file system.
class CgroupTest : public testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  const TemporaryFolder folder_;
  const std::string root_ = folder_.path();
};

TEST_F(CgroupTest, Version2TakesTheTightestOnTheWayUp) {
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/memory.max", "max\n");
  put("/sys/fs/cgroup/user/job/memory.current", "5\n");
  put("/sys/fs/cgroup/user/memory.max", "1048576\n");
  put("/sys/fs/cgroup/user/memory.current", "4096\n");
  const CgroupMemory memory = cgroup_memory(root_);
  EXPECT_EQ(memory.bytes_max, 1048576u);
  EXPECT_EQ(memory.bytes_now, 4096u);
}

TEST_F(CgroupTest, Version1FindsTheMemoryControllerAndKnowsItsInfinity) {
  put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(cgroup_memory(root_).bytes_max, std::nullopt);
  put("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "2097152\n");
  put("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "8192\n");
  EXPECT_EQ(cgroup_memory(root_).bytes_max, 2097152u);
  EXPECT_EQ(cgroup_memory(root_).bytes_now, 8192u);
}

TEST_F(CgroupTest, ContainersThatSeeOnlyTheirTopAreUnderstood) {
  put("/proc/self/cgroup", "0::/of/the/host\n");
  put("/sys/fs/cgroup/memory.max", "4194304\n");
  EXPECT_EQ(cgroup_memory(root_).bytes_max, 4194304u);
  EXPECT_EQ(cgroup_memory(root_ + "/nowhere").bytes_max, std::nullopt);
}

TEST_F(CgroupTest, PageCacheThatTheSystemGivesUpIsUsable) {
  put("/proc/self/cgroup", "0::/job\n");
  put("/sys/fs/cgroup/job/memory.max", "1000000\n");
  put("/sys/fs/cgroup/job/memory.current", "900000\n");
  EXPECT_EQ(cgroup_memory(root_).usable_bytes(), 100000u);
  put("/sys/fs/cgroup/job/memory.stat",
      "anon 200000\nfile 700000\nactive_file 100000\ninactive_file 600000\n");
  EXPECT_EQ(cgroup_memory(root_).usable_bytes(), 700000u);
  // More cache than is charged, which can happen when the two files are read one after the other.
  put("/sys/fs/cgroup/job/memory.current", "500000\n");
  EXPECT_EQ(cgroup_memory(root_).usable_bytes(), 1000000u);
  put("/sys/fs/cgroup/job/memory.current", "1700000\n");
  EXPECT_EQ(cgroup_memory(root_).usable_bytes(), 0u);

  put("/proc/self/cgroup", "4:memory:/job\n0::/\n");
  put("/sys/fs/cgroup/memory/job/memory.limit_in_bytes", "1000000\n");
  put("/sys/fs/cgroup/memory/job/memory.usage_in_bytes", "900000\n");
  put("/sys/fs/cgroup/memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 300000\n");
  EXPECT_EQ(cgroup_memory(root_).usable_bytes(), 400000u);
}

TEST_F(CgroupTest, CoresFollowTheQuota) {
  EXPECT_EQ(cgroup_cores(root_), std::nullopt);
  put("/proc/self/cgroup", "0::/user/job\n");
  put("/sys/fs/cgroup/user/job/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cores(root_), std::nullopt);
  put("/sys/fs/cgroup/user/cpu.max", "250000 100000\n");
  EXPECT_EQ(cgroup_cores(root_), 3u);
  put("/sys/fs/cgroup/user/job/cpu.max", "10000 100000\n");
  EXPECT_EQ(cgroup_cores(root_), 1u);

  put("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/docker/abc\n0::/\n");
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "-1\n");
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cores(root_), std::nullopt);
  put("/sys/fs/cgroup/cpu/x/cpu.cfs_quota_us", "200000\n");
  EXPECT_EQ(cgroup_cores(root_), 2u);
}

volatile sig_atomic_t access_seen;
std::byte* page_to_open;
void note_access(int, siginfo_t*, void* context) {
  access_seen = static_cast<int>(fault_access(context));
  if (protect(page_to_open, page_bytes, Protection::read_write) != 0) std::abort();
}

TEST(FaultContext, TellsReadsFromWrites) {
  auto range = Reservation::reserve(page_bytes).value();
  page_to_open = range.begin();
  auto* const word = reinterpret_cast<volatile char*>(range.begin());
  struct sigaction ours = {}, before;
  ours.sa_sigaction = note_access;
  ours.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &ours, &before);
  static_cast<void>(*word);
  EXPECT_EQ(access_seen, static_cast<int>(FaultAccess::read));
  ASSERT_EQ(protect(range.begin(), page_bytes, Protection::none), 0);
  *word = 1;
  EXPECT_EQ(access_seen, static_cast<int>(FaultAccess::write));
  sigaction(SIGSEGV, &before, nullptr);
}

// A process that waits until it is killed, and its own ProcessId.
class WaitingChild {
 public:
  WaitingChild() {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      const auto self = ProcessId::self();
      if (!self || ::write(ends[1], &*self, sizeof *self) < 0) ::_exit(1);
      for (;;) ::pause();
    }
    EXPECT_EQ(::read(ends[0], &id_, sizeof id_), static_cast<ssize_t>(sizeof id_));
    ::close(ends[0]);
    ::close(ends[1]);
  }
  ~WaitingChild() { kill(); }
  void kill() {
    if (pid_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  const ProcessId& id() const { return id_; }

 private:
  pid_t pid_ = -1;
  ProcessId id_;
};

TEST(ProcessWatch, SeesTheEndOfAProcessAndKnowsItsNumberFromAnotherOnes) {
  WaitingChild child;
  ProcessWatch watch, of_another;
  ASSERT_EQ(watch.watch(child.id()), 0);
  EXPECT_TRUE(watch.is_running());
  EXPECT_EQ(of_another.watch({child.id().pid, child.id().start_ticks + 1}), ESRCH);
  EXPECT_FALSE(of_another.is_watching());
  child.kill();
  EXPECT_FALSE(watch.is_running());
  EXPECT_EQ(of_another.watch(child.id()), ESRCH);
}

// One descriptor is free: watching takes it, and none is left for reading the start time.
TEST(ProcessWatch, CountsAnInvisibleProcessAsRunning) {
  WaitingChild child;
  const int free_fd = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(free_fd, 0);
  ::close(free_fd);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit one_more = before;
  one_more.rlim_cur = static_cast<rlim_t>(free_fd) + 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &one_more), 0);
  ProcessWatch watch, of_another;
  const int error = watch.watch(child.id());
  const bool runs = error == 0 && watch.is_running();
  watch = ProcessWatch();
  const int error_of_another = of_another.watch({child.id().pid, child.id().start_ticks + 1});
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, 0);
  EXPECT_TRUE(runs);
  // The process is another one, which shows as soon as its start time can be read.
  ASSERT_EQ(error_of_another, 0);
  EXPECT_FALSE(of_another.is_running());
}

// ---- generations of processes

int status_of(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Generation, ParentsIsPastInAChildAndItsChildren) {
  const Generation made = Generation::now();
  ASSERT_TRUE(made);
  EXPECT_FALSE(made.is_past());
  EXPECT_FALSE(Generation().is_past());
  const pid_t child = fork();
  if (child == 0) {
    const Generation own = Generation::now();
    if (!made.is_past() || own.is_past()) _exit(1);
    const pid_t grandchild = fork();
    if (grandchild == 0) _exit(made.is_past() && own.is_past() ? 0 : 2);
    _exit(status_of(grandchild) == 0 && !own.is_past() ? 0 : 3);
  }
  EXPECT_EQ(status_of(child), 0);
  EXPECT_FALSE(made.is_past());
}

TEST(Generation, IsPastInAChildOfABareClone) {
  if (shadowed) GTEST_SKIP() << "sanitizers need fork() itself";
  const Generation made = Generation::now();
  const auto child = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) _exit(made.is_past() ? 0 : 1);
  EXPECT_EQ(status_of(child), 0);
}

TEST(Generation, IsTheSameInAChildThatSharesTheMemory) {
  if (shadowed) GTEST_SKIP() << "sanitizers make a vfork() a fork()";
  const Generation made = Generation::now();
  alignas(16) static std::byte stack[64 * KiB];
  const auto look = [](void* of) { return static_cast<const Generation*>(of)->is_past() ? 1 : 0; };
  const pid_t child = clone(look, std::end(stack), CLONE_VM | CLONE_VFORK | SIGCHLD,
                            const_cast<Generation*>(&made));
  ASSERT_GT(child, 0);
  EXPECT_EQ(status_of(child), 0);
  EXPECT_FALSE(made.is_past());
}

TEST(Generation, OnlyTheParentDestroysAnObjectLeftToIt) {
  struct Noted {
    int& ends;
    ~Noted() { ++ends; }
  };
  int ends = 0;
  LeftToParent<Noted> left(std::unique_ptr<Noted>(new Noted{ends}));
  const pid_t child = fork();
  if (child == 0) {
    left = {};
    _exit(ends);
  }
  EXPECT_EQ(status_of(child), 0);
  left = {};
  EXPECT_EQ(ends, 1);
}

}  // namespace
}  // namespace penstock::os
