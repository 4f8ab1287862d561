#include "bench/harness/isolated.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <new>
#include <string>

#include "bench/harness/bench.h"
#include "bench/harness/scratch.h"

namespace penstock::bench {
namespace {

// The child's result, in shared memory.
struct Message {
  bool done = false;
  Isolated isolated;
  char problem[400] = {};
};

double processor_seconds() {
  struct rusage usage = {};
  ::getrusage(RUSAGE_SELF, &usage);
  auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

uint64_t private_bytes() {
  return status_bytes("RssAnon:") + status_bytes("RssFile:");
}

uint64_t beyond(uint64_t now, uint64_t before) {
  return now > before ? now - before : 0;
}

uint64_t count_mappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<uint64_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

}  // namespace

uint64_t status_bytes(const char* name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    uint64_t kib = 0;
    if (word == name && status >> kib) return kib * 1024;
  }
  return 0;
}

Probe::Probe()
    : resident_before_(status_bytes("VmRSS:")),
      private_before_(private_bytes()),
      page_tables_before_(status_bytes("VmPTE:")),
      mappings_before_(count_mappings()) {}

void Probe::held(uint64_t shared_bytes) {
  const double start = now_seconds();
  page_table_bytes_ = beyond(status_bytes("VmPTE:"), page_tables_before_);
  mappings_ = beyond(count_mappings(), mappings_before_);
  if (shared_bytes != 0) peak_bytes_ = beyond(private_bytes(), private_before_) + shared_bytes;
  seconds_ += now_seconds() - start;
}

uint64_t Probe::peak_bytes() const {
  return peak_bytes_ != 0 ? peak_bytes_ : beyond(status_bytes("VmHWM:"), resident_before_);
}

Result<Isolated> run_isolated(const std::function<Result<uint64_t>(Probe&)>& work) {
  void* memory =
      ::mmap(nullptr, sizeof(Message), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return system_error(errno, "map a page", "bench");
  auto* message = new (memory) Message;

  const pid_t child = ::fork();
  if (child == 0) {
    undo_in_child();
    Probe probe;
    const double cpu_before = processor_seconds();
    const double start = now_seconds();
    const Result<uint64_t> result = work(probe);
    message->isolated.seconds = now_seconds() - start - probe.seconds_;
    message->isolated.cpu_seconds = processor_seconds() - cpu_before;
    message->isolated.peak_bytes = probe.peak_bytes();
    message->isolated.page_table_bytes = probe.page_table_bytes_;
    message->isolated.mappings = probe.mappings_;
    if (result) {
      message->isolated.result = *result;
    } else {
      std::snprintf(message->problem, sizeof message->problem, "%s",
                    result.error().message().c_str());
    }
    message->done = true;
    ::_exit(0);
  }
  const int fork_errno = errno;
  int status = 0;
  while (child > 0 && ::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const Message got = *message;
  ::munmap(memory, sizeof(Message));
  if (child < 0) return system_error(fork_errno, "start a process", "bench");
  if (!got.done) {
    return failure(ErrorCode::io,
                   "finish a run: its process ended with status " + std::to_string(status),
                   "bench");
  }
  if (got.problem[0] != 0)
    return failure(ErrorCode::io, std::string("finish a run: ") + got.problem, "bench");
  return got.isolated;
}

}  // namespace penstock::bench
