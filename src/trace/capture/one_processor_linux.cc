#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>

#include "base/thread.h"
#include "trace/capture/one_processor.h"

namespace penstock::trace {
namespace {

// Longest time for which a thread is kept, in units of calm_: then the scheduler may move it.
constexpr unsigned looks_max = 100;

// Largest number of processors that a kernel can be built for.
constexpr size_t processors_max = 8192;
constexpr size_t word_bits = CHAR_BIT * sizeof(unsigned long);
using Mask = std::array<unsigned long, processors_max / word_bits>;

bool read_mask(int32_t thread, Mask& mask) {
  mask = {};
  return ::syscall(SYS_sched_getaffinity, thread, sizeof mask, mask.data()) > 0;
}
bool write_mask(int32_t thread, const Mask& mask) {
  return ::syscall(SYS_sched_setaffinity, thread, sizeof mask, mask.data()) == 0;
}
bool holds(const Mask& mask, size_t processor) {
  return (mask[processor / word_bits] >> (processor % word_bits) & 1) != 0;
}

// Returns our processor if the thread may run there, too; otherwise the first one allowed to both.
int common_processor(const Mask& ours, const Mask& theirs) {
  const int here = ::sched_getcpu();
  if (here >= 0 && holds(theirs, static_cast<size_t>(here))) return here;
  for (size_t processor = 0; processor < processors_max; ++processor) {
    if (holds(ours, processor) && holds(theirs, processor)) return static_cast<int>(processor);
  }
  return -1;
}

// Restores a thread's mask `before`, unless its mask is not `one` any more.
void restore_mask(int32_t thread, const Mask& one, const Mask& before) {
  Mask now;
  if (before != one && read_mask(thread, now) && now == one) (void)write_mask(thread, before);
}

bool gives_way(int32_t thread) {
  const int policy = ::sched_getscheduler(thread) & ~SCHED_RESET_ON_FORK;
  return policy == SCHED_OTHER || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

}  // namespace

struct OneProcessor::Places {
  Mask ours, theirs;  // masks before the change
  Mask one;
};

OneProcessor::OneProcessor(std::chrono::milliseconds calm)
    : tracer_(::gettid()), calm_(calm), places_(std::make_unique<Places>()) {}

OneProcessor::~OneProcessor() {
  {
    MutexLock lock(mutex_);
    restore(true);
    ends_ = true;
    changed_.notify_all();
  }
  if (watcher_.joinable()) watcher_.join();
}

void OneProcessor::called(int32_t thread, uint64_t now_ns) {
  MutexLock lock(mutex_);
  const bool goes_on = thread == caller_ && now_ns - called_ns_ < pause_ns_max;
  calls_ = goes_on ? calls_ + 1 : 1;
  caller_ = thread;
  called_ns_ = now_ns;
  if (thread_ == thread) {
    called_since_ = true;
  } else if (calls_ >= calls_min) {
    keep(thread);
  }
}

void OneProcessor::let_go() {
  MutexLock lock(mutex_);
  restore(true);
}

void OneProcessor::ended(int32_t thread) {
  MutexLock lock(mutex_);
  if (thread_ == thread) restore(false);
  if (caller_ == thread) caller_ = 0;
}

void OneProcessor::made(int32_t thread) {
  MutexLock lock(mutex_);
  if (thread_ == 0) return;
  restore_mask(thread, places_->one, places_->theirs);
  restore(true);
}

bool OneProcessor::keeps(int32_t thread) {
  MutexLock lock(mutex_);
  return thread_ == thread;
}

void OneProcessor::keep(int32_t thread) {
  restore(true);
  auto& [ours, theirs, one] = *places_;
  if (!gives_way(thread) || !read_mask(tracer_, ours) || !read_mask(thread, theirs)) return;
  const int processor = common_processor(ours, theirs);
  if (processor < 0) return;
  if (!watcher_.joinable() && !try_start_thread(watcher_, [this] { watch(); })) return;
  one = {};
  one[static_cast<size_t>(processor) / word_bits] = 1UL << (processor % word_bits);
  if (theirs != one && !write_mask(thread, one)) return;
  thread_ = thread;
  called_since_ = true;
  if (ours != one && !write_mask(tracer_, one)) restore(true);
  changed_.notify_all();
}

void OneProcessor::restore(bool thread_is_there) {
  calls_ = 0;  // the next try comes after calls_min more calls
  if (thread_ == 0) return;
  if (thread_is_there) restore_mask(thread_, places_->one, places_->theirs);
  restore_mask(tracer_, places_->one, places_->ours);
  thread_ = 0;
}

void OneProcessor::watch() {
  MutexLock lock(mutex_);
  for (unsigned looks = 0; !ends_;) {
    if (thread_ == 0) {
      looks = 0;
      changed_.wait(mutex_);
      continue;
    }
    changed_.wait_for(mutex_, calm_);
    if (!called_since_ || ++looks >= looks_max) restore(true);
    called_since_ = false;
  }
}

std::span<const uint32_t> OneProcessor::let_go_before() {
  static constexpr auto numbers = std::to_array<uint32_t>({
      // Calls that read or set the affinity.
      SYS_sched_getaffinity,
      SYS_sched_setaffinity,
      // A deadline needs a thread that may run anywhere; real-time threads are not kept.
      SYS_sched_setattr,
      SYS_sched_setscheduler,
      // New threads and programs inherit the affinity.
      SYS_clone,
      SYS_clone3,
      SYS_execve,
      SYS_execveat,
#ifdef SYS_fork
      SYS_fork,
      SYS_vfork,
#endif
      // We may lack the right to move another user's thread.
      SYS_setuid,
      SYS_setreuid,
      SYS_setresuid,
  });
  return numbers;
}

}  // namespace penstock::trace
