// Requests through io_uring.
//
// Each started request has exactly one entry in the ring: its next step, or the timeout of an
// injected delay. Rings hold `depth` submissions and twice as many completions, so no completion
// can be dropped. A step is submitted to the system at once (the caller continues to compute),
// completions are fetched when somebody waits; waiting sleeps in the system.
//
// Neither files nor buffers are registered with the ring. Measured with direct 2 MiB reads, 8 in
// flight, medians of 9 rounds of 1 GiB on a busy two-core machine: registering the file changed
// nothing beyond the noise (2.57 and 2.50 GB/s, 18.5 and 17.8 us of processor time a request);
// registering buffers on huge pages saved 4 us of the 800 us that a request takes (2.66 GB/s), but
// they would have to be registered again whenever a pool gives memory back. The important point is
// that buffers lie on huge pages: on small ones the same reads reached 1.37 GB/s and cost 120 us.
//
// No SINGLE_ISSUER and no DEFER_TASKRUN: an engine may change its thread. When the submitting
// thread ends, the system cancels its submissions; absorb() then has the step made again.
//
// Refusals after the opening. A step that would have to wait inside the file system is made by a
// thread that io_uring starts for it. If it may start none (`ulimit -u`, a pids cgroup at its
// limit, no memory), it tries for some 50 ms, and then cancels the step, again and again. Hence a
// step that is dropped twice in a row, the second time with its submitter alive, ends the use of
// the ring: the engine's user makes all further steps itself. So does an entry that
// io_uring_enter() does not take after some tries. Requests in flight then still come back through
// the ring; if io_uring_enter() does not wait, poll() does.
//
// Requests of outlets come back beside the ring: while there are any, poll() waits for both.

#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "io/engine_base.h"
#include "io/system_calls.h"
#include "os/event.h"

namespace penstock::io {

namespace {

// Interval of checking for outlets' requests, if no event reports them.
constexpr int poll_ms_max = 100;

// Orders the end of a ring before the opening of the next, which may lie at the same addresses. The
// system orders the two, but liburing maps without the C library: to the thread sanitizer both
// rings would be the same memory, written by two threads.
constinit std::atomic<unsigned> rings_ended = 0;

class UringEngine final : public EngineBase {
 public:
  UringEngine(unsigned depth, const io_uring& ring) : EngineBase(depth), ring_(ring) {}
  ~UringEngine() override {
    drain();
    rings_ended.fetch_add(1, std::memory_order_release);
    io_uring_queue_exit(&ring_);
  }

  EngineKind kind() const override { return EngineKind::io_uring; }

 private:
  void start(Request& request) noexcept override;
  void reap() noexcept override;
  bool push(Outlet& outlet, Request& request) noexcept override;
  void served(Request& request) noexcept override;
  void reap_served() noexcept;
  io_uring_sqe& next_entry() noexcept;
  bool hand_over(io_uring_sqe& entry) noexcept;
  void came_back(Request& request, int answer) noexcept;

  io_uring ring_;
  const Request* dropped_ = nullptr;  // its last step came back undone, and was made again
  bool refused_ = false;              // the ring takes no more steps
  unsigned pushed_ = 0;               // pushed to outlets, and not reaped
  os::Event any_served_;              // exists from the first push on
  Mutex mutex_;
  RequestList served_ GUARDED_BY(mutex_);
};

// From this size on, a kernel thread copies data of the page cache.
constexpr size_t copied_elsewhere_bytes_min = 256 << 10;

io_uring_sqe& UringEngine::next_entry() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  PENSTOCK_CHECK(entry != nullptr, "the submission ring is empty between calls");
  return *entry;
}

// Returns false if the system does not take the entry, which does nothing if taken later.
bool UringEngine::hand_over(io_uring_sqe& entry) noexcept {
  constexpr int tries_max = 100;
  for (int tries = 0; tries < tries_max; ++tries) {
    const int result = io_uring_submit(&ring_);
    if (io_uring_sq_ready(&ring_) == 0) return true;
    if (result < 0 && result != -EINTR) ::usleep(100);  // it may be short of memory for a moment
  }
  io_uring_prep_nop(&entry);
  io_uring_sqe_set_data(&entry, nullptr);
  refused_ = true;
  return false;
}

void UringEngine::start(Request& request) noexcept {
  if (refused_) return serve_here(request);
  Step step = next_step(request);
  if (step.delay_us != 0 && !request.links.delayed) {
    request.links.delayed = true;
    __kernel_timespec delay{.tv_sec = 0, .tv_nsec = step.delay_us * 1000ll};
    io_uring_sqe& entry = next_entry();
    io_uring_prep_timeout(&entry, &delay, 0, 0);
    io_uring_sqe_set_data(&entry, &request);
    if (!hand_over(entry)) serve_here(request);  // hand_over() copies the delay
    return;
  }
  request.links.delayed = false;
  if (step.error != 0) {
    absorb(request, -step.error);
    finished(request);
    return;
  }
  io_uring_sqe& entry = next_entry();
  const auto bytes = static_cast<unsigned>(step.bytes);
  if (step.operation == Operation::read) {
    io_uring_prep_read(&entry, step.descriptor, step.data, bytes, step.offset);
    // Otherwise the submitting thread would copy data of the page cache.
    if (request.links.buffered && bytes >= copied_elsewhere_bytes_min)
      io_uring_sqe_set_flags(&entry, IOSQE_ASYNC);
  } else {
    io_uring_prep_write(&entry, step.descriptor, step.data, bytes, step.offset);
  }
  io_uring_sqe_set_data(&entry, &request);
  if (!hand_over(entry)) serve_here(request);
}

bool UringEngine::push(Outlet& outlet, Request& request) noexcept {
  if (any_served_.fd() < 0) {
    auto event = os::Event::create();
    if (!event) return false;
    any_served_ = std::move(*event);
  }
  if (!EngineBase::push(outlet, request)) return false;
  ++pushed_;
  return true;
}

// Holds the lock to its end, because the engine may be destroyed as soon as the request is reaped.
void UringEngine::served(Request& request) noexcept {
  MutexLock lock(mutex_);
  served_.push_back(request);
  any_served_.raise();
}

void UringEngine::reap_served() noexcept {
  RequestList served;
  {
    MutexLock lock(mutex_);
    any_served_.clear();
    std::swap(served, served_);
  }
  while (Request* request = served.pop_front()) {
    --pushed_;
    finished(*request);
  }
}

void UringEngine::reap() noexcept {
  io_uring_cqe* entry = nullptr;
  int result;
  if (pushed_ > 0) {
    std::array<pollfd, 2> either = {pollfd{ring_.ring_fd, POLLIN, 0},
                                    pollfd{any_served_.fd(), POLLIN, 0}};
    // A sandbox may refuse poll(), or the write() that raises the event.
    const int ready =
        io_uring_cq_ready(&ring_) != 0 ? 1 : ::poll(either.data(), either.size(), poll_ms_max);
    if (ready < 0) ::sched_yield();
    if (ready <= 0 || either[1].revents != 0) reap_served();
    if (io_uring_peek_cqe(&ring_, &entry) != 0) return;
  }
  while (entry == nullptr && (result = io_uring_wait_cqe(&ring_, &entry)) != 0) {
    if (result == -EINTR || result == -EAGAIN) continue;
    pollfd ring{ring_.ring_fd, POLLIN, 0};
    ::poll(&ring, 1, 100);
  }
  do {
    auto* request = static_cast<Request*>(io_uring_cqe_get_data(entry));
    const int answer = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    if (request != nullptr) came_back(*request, answer);  // nullptr: not handed over
  } while (io_uring_peek_cqe(&ring_, &entry) == 0);
}

void UringEngine::came_back(Request& request, int answer) noexcept {
  if (answer == -ECANCELED) {
    if (dropped_ == &request) refused_ = true;
    if (dropped_ == nullptr) dropped_ = &request;
  } else if (dropped_ == &request) {
    dropped_ = nullptr;
  }
  if (request.links.delayed || !absorb(request, answer)) {
    start(request);
  } else {
    finished(request);
  }
}

}  // namespace

Result<std::unique_ptr<Engine>> open_uring_engine(unsigned depth) {
  io_uring ring;
  int result = io_uring_queue_init(depth, &ring, 0);
  (void)rings_ended.load(std::memory_order_acquire);
  if (result < 0) return system_error(-result, "set up io_uring", "kernel", "PENSTOCK_IO=threads");
  return std::make_unique<UringEngine>(depth, ring);
}

}  // namespace penstock::io
