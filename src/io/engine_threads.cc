// Requests by pread and pwrite in a few threads, if io_uring is refused; or in the user's thread.
//
// A thread makes all steps of a request, then puts it on the list of ended requests; everything
// else happens in the thread that uses the engine. Nobody spins: workers sleep until there is work,
// the user until a request has ended.
//
// If the system refuses threads, or none are wanted (EngineKind::caller), there are no workers, and
// the user's thread makes the steps.

#include <algorithm>
#include <array>
#include <cerrno>
#include <latch>
#include <thread>

#include "base/mutex.h"
#include "base/thread.h"
#include "io/engine_base.h"
#include "io/system_calls.h"

namespace penstock::io {

namespace {

constexpr unsigned workers_max = 16;
// Threads of a limit (ulimit -u, a pids cgroup) that are left to the rest of the run.
constexpr size_t threads_left = 4;

// Threads that wait until this object is destroyed.
struct ReservedThreads {
  ~ReservedThreads() {
    let_go.count_down();
    for (std::thread& thread : threads) {
      if (thread.joinable()) thread.join();
    }
  }
  std::latch let_go{1};
  std::array<std::thread, threads_left> threads;
};

class ThreadEngine final : public EngineBase {
 public:
  ThreadEngine(unsigned depth, EngineKind kind) : EngineBase(depth), kind_(kind) {}
  ~ThreadEngine() override;
  void start_workers(unsigned count);

  EngineKind kind() const override { return kind_; }

 private:
  void start(Request& request) noexcept override;
  void reap() noexcept override;
  void served(Request& request) noexcept override;
  void work() noexcept;

  const EngineKind kind_;
  Mutex mutex_;
  Condition work_;
  Condition ended_;
  RequestList waiting_requests_ GUARDED_BY(mutex_);
  RequestList ended_requests_ GUARDED_BY(mutex_);
  bool closing_ GUARDED_BY(mutex_) = false;
  std::vector<std::thread> workers_;
};

void ThreadEngine::work() noexcept {
  for (;;) {
    Request* request = nullptr;
    {
      MutexLock lock(mutex_);
      while (waiting_requests_.empty() && !closing_) work_.wait(mutex_);
      request = waiting_requests_.pop_front();
      if (request == nullptr) return;
    }
    make_calls(*request);
    served(*request);
  }
}

void ThreadEngine::served(Request& request) noexcept {
  MutexLock lock(mutex_);
  ended_requests_.push_back(request);
  ended_.notify_one();
}

// Leaves threads to the rest of the run: as many as it needs are held while workers are started,
// and then released.
void ThreadEngine::start_workers(unsigned count) {
  workers_.reserve(count);
  ReservedThreads reserved;
  const bool has_some = std::ranges::all_of(reserved.threads, [&](std::thread& thread) {
    return try_start_thread(thread, [&reserved] { reserved.let_go.wait(); }).has_value();
  });
  while (has_some && workers_.size() < count) {
    std::thread worker;
    if (!try_start_thread(worker, [this] { work(); })) break;
    workers_.push_back(std::move(worker));
  }
}

ThreadEngine::~ThreadEngine() {
  drain();
  {
    MutexLock lock(mutex_);
    closing_ = true;
    work_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
}

void ThreadEngine::start(Request& request) noexcept {
  if (workers_.empty()) return serve_here(request);
  MutexLock lock(mutex_);
  waiting_requests_.push_back(request);
  work_.notify_one();
}

void ThreadEngine::reap() noexcept {
  RequestList ended;
  {
    MutexLock lock(mutex_);
    while (ended_requests_.empty()) ended_.wait(mutex_);
    std::swap(ended, ended_requests_);
  }
  while (Request* request = ended.pop_front()) finished(*request);
}

}  // namespace

Result<std::unique_ptr<Engine>> open_thread_engine(unsigned depth) {
  auto engine = std::make_unique<ThreadEngine>(depth, EngineKind::threads);
  engine->start_workers(std::min(depth, workers_max));
  return engine;
}

Result<std::unique_ptr<Engine>> open_caller_engine(unsigned depth) {
  return std::make_unique<ThreadEngine>(depth, EngineKind::caller);
}

}  // namespace penstock::io
