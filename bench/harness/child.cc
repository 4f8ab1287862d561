#include "bench/harness/child.h"

#include <fmt/core.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>

#include "bench/harness/bench.h"
#include "bench/harness/scratch.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// A memory cgroup for one child. The two versions of the interface differ in where it is and in the
// name of the peak.
class MemoryGroup {
 public:
  static std::optional<MemoryGroup> make() {
    struct Place {
      const char* parent;
      const char* peak;
    };
    for (Place place : {Place{"/sys/fs/cgroup/memory", "memory.max_usage_in_bytes"},
                        Place{"/sys/fs/cgroup", "memory.peak"}}) {
      // One of that name may be there, of a process that had our number and was killed: it is empty
      // and can be removed, or else the next name is as good.
      fs::path folder;
      std::error_code failed;
      bool made = false;
      for (int number = 1; number <= 8 && !made && !failed; ++number) {
        folder = fs::path(place.parent) / fmt::format("penstock-bench-{}-{}", getpid(), number);
        made = fs::create_directory(folder, failed);
        if (made || failed) continue;
        fs::remove(folder, failed);
        made = fs::create_directory(folder, failed);
      }
      if (!made) continue;
      MemoryGroup group(folder, folder / place.peak);
      if (fs::exists(group.peak_, failed)) return group;
    }
    return {};
  }
  MemoryGroup(MemoryGroup&& other) noexcept
      : folder_(std::exchange(other.folder_, {})), peak_(std::move(other.peak_)) {}
  MemoryGroup& operator=(MemoryGroup&&) = delete;
  ~MemoryGroup() {
    std::error_code ignored;
    if (!folder_.empty()) fs::remove(folder_, ignored);
  }

  // Called by the child on itself.
  void enter() const { std::ofstream(folder_ / "cgroup.procs") << "0"; }
  uint64_t peak_bytes() const {
    uint64_t bytes = 0;
    std::ifstream(peak_) >> bytes;
    return bytes;
  }

 private:
  MemoryGroup(fs::path folder, fs::path peak)
      : folder_(std::move(folder)), peak_(std::move(peak)) {}
  fs::path folder_;
  fs::path peak_;
};

[[noreturn]] void become(const std::vector<std::string>& words,
                         const std::vector<std::string>& environment) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  undo_in_child();
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  execvp(arguments[0], arguments.data());
  fmt::print(stderr, "penstock-bench: {}: cannot start\n", words[0]);
  _exit(127);
}

std::string read_all(int descriptor) {
  std::string text;
  std::array<char, 4096> piece;
  ssize_t got;
  while ((got = read(descriptor, piece.data(), piece.size())) > 0) {
    text.append(piece.data(), static_cast<size_t>(got));
  }
  return text;
}

}  // namespace

Result<ChildRun> run_child(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment) {
  std::array<int, 2> pipe_ends;
  if (pipe(pipe_ends.data()) != 0) return system_error(errno, "make a pipe", words[0]);
  std::optional<MemoryGroup> group = MemoryGroup::make();

  double start = now_seconds();
  pid_t child = fork();
  if (child == 0) {
    if (group) group->enter();
    dup2(pipe_ends[1], STDOUT_FILENO);
    close(pipe_ends[0]);
    close(pipe_ends[1]);
    become(words, environment);
  }
  int fork_errno = errno;
  close(pipe_ends[1]);
  ChildRun run;
  if (child > 0) run.output = read_all(pipe_ends[0]);
  close(pipe_ends[0]);
  if (child < 0) return system_error(fork_errno, "start a process", words[0]);

  int status = 0;
  struct rusage usage = {};
  while (wait4(child, &status, 0, &usage) < 0) {
    if (errno != EINTR) return system_error(errno, "wait for a process", words[0]);
  }
  run.seconds = now_seconds() - start;
  auto seconds_of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  run.processor_s = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
  run.resident_peak_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  if (group) run.cgroup_peak_bytes = group->peak_bytes();
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (run.exit_code < 0 || run.exit_code > 1) {
    std::string how = WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                                        : fmt::format("signal {}", WTERMSIG(status));
    return failure(ErrorCode::io, "finish: it ended with " + how, words[0]);
  }
  return run;
}

}  // namespace penstock::bench
