#include "bench/harness/scratch.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>

#include "base/mutex.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

// The folder that the thread for signals has to remove.
Mutex mutex;
fs::path current GUARDED_BY(mutex);

sigset_t stopping() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&set, signal);
  return set;
}

constexpr const char* prefix = "penstock-bench-";

// A child may be working in the folder: renamed first, it gets no new files.
void remove_current() EXCLUDES_LOCK(mutex) {
  MutexLock lock(mutex);
  if (current.empty()) return;
  std::error_code failed;
  fs::path going = current;
  going += "-going";
  fs::rename(current, going, failed);
  fs::remove_all(failed ? current : going, failed);
  current.clear();
}

// The lock of a folder, or -1 if another process has it. The last process that has it releases it.
int lock_folder(const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  close(fd);
  return -1;
}

// Removes folders that killed programs of this user left.
void remove_stale(const fs::path& parent) {
  std::error_code failed;
  for (auto entry = fs::directory_iterator(parent, failed);
       !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    struct stat status;
    if (!entry->path().filename().string().starts_with(prefix) ||
        lstat(entry->path().c_str(), &status) != 0 || !S_ISDIR(status.st_mode) ||
        status.st_uid != geteuid())
      continue;
    const int fd = lock_folder(entry->path());
    if (fd < 0) continue;
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
    close(fd);
  }
}

}  // namespace

Result<Scratch> Scratch::make(const std::string& parent) {
  remove_stale(parent);
  fs::path folder = fs::path(parent) / fmt::format("{}{}", prefix, getpid());
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed) return system_error(failed.value(), "make a folder", folder, "-T DIRECTORY");
  const int locked = lock_folder(folder);
  // Another program that began at the same time may have removed it as a killed program's.
  if (locked < 0 || !fs::exists(folder)) {
    if (locked >= 0) close(locked);
    return failure(ErrorCode::io, "keep a folder: another bench removed it", folder, "it again");
  }
  MutexLock lock(mutex);
  current = folder;
  return Scratch(folder, locked);
}

Scratch::~Scratch() {
  if (folder_.empty()) return;
  remove_current();
  if (lock_ >= 0) close(lock_);
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
