#include "bench/harness/instructions.h"

#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace penstock::bench {
namespace {

Result<uint64_t> instructions_of(const std::function<void(uint64_t)>& work, uint64_t items) {
  const pid_t child = fork();
  if (child < 0) return system_error(errno, "fork", "instruction count");
  if (child == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    work(items);
    _exit(0);
  }
  uint64_t count = 0;
  int status = 0;
  while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
    ++count;
    if (ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) != 0) break;
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return failure(ErrorCode::unsupported, "run step by step", "instruction count",
                   "a system that allows ptrace");
  return count;
}

}  // namespace

Result<double> instructions_per_item(const std::function<void(uint64_t items)>& work) {
  constexpr uint64_t few = 1000, many = 5000;
  auto low = instructions_of(work, few);
  if (!low) return std::unexpected(low.error());
  auto high = instructions_of(work, many);
  if (!high) return std::unexpected(high.error());
  return static_cast<double>(*high - *low) / static_cast<double>(many - few);
}

}  // namespace penstock::bench
