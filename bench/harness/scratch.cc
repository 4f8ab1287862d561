#include "bench/harness/scratch.h"

#include <fmt/core.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <thread>

#include "base/mutex.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// What the thread that waits for signals has to remove.
Mutex mutex;
fs::path current GUARDED_BY(mutex);

sigset_t stopping() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

void remove_current() EXCLUDES_LOCK(mutex) {
  MutexLock lock(mutex);
  std::error_code ignored;
  if (!current.empty()) fs::remove_all(current, ignored);
  current.clear();
}

}  // namespace

Result<Scratch> Scratch::make(const std::string& parent) {
  fs::path folder = fs::path(parent) / fmt::format("penstock-bench-{}", getpid());
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return system_error(failed.value(), "make a folder", folder, "-T DIRECTORY");
  MutexLock lock(mutex);
  current = folder;
  return Scratch(folder);
}

Scratch::~Scratch() {
  if (!folder_.empty()) remove_current();
}

void end_cleanly_on_signals() {
  sigset_t set = stopping();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    remove_current();
    _exit(128 + signal);
  }).detach();
}

void undo_in_child() {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  sigset_t set = stopping();
  sigprocmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace penstock::bench
