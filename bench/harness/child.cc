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

#include "bench/harness/bench.h"
#include "bench/harness/scratch.h"
#include "os/memory_group.h"

namespace penstock::bench {
namespace {

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

std::string with_seams(const std::string& penstock) {
  const auto build = std::filesystem::absolute(penstock).parent_path().parent_path();
  return build / "test/support/penstock";
}

Result<ChildRun> run_child(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment) {
  std::array<int, 2> pipe_ends;
  if (pipe(pipe_ends.data()) != 0) return system_error(errno, "make a pipe", words[0]);
  const std::optional<os::MemoryGroup> group = os::MemoryGroup::make();

  double start = now_seconds();
  pid_t child = fork();
  if (child == 0) {
    if (group) std::ofstream(group->processes_file()) << "0";
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
