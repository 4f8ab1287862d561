// Requests through io_uring.
//
// Each request that is started has exactly one entry in the ring: its next step, or the timeout of
// an injected delay. Rings hold `depth` submissions and twice as many completions, so no completion
// can be dropped. A step is handed to the system at once (the caller goes computing), completions
// are fetched when somebody waits; waiting sleeps in the system.
//
// Neither files nor buffers are registered with the ring. Measured with direct 2 MiB reads, 8 in
// flight, medians of 9 rounds of 1 GiB on a busy two-core machine: registering the file changed
// nothing beyond the noise (2.57 and 2.50 GB/s, 18.5 and 17.8 us of processor time a request);
// registering buffers on huge pages saved 4 us of the 800 us that a request takes (2.66 GB/s), for
// which they would have to be registered again whenever a pool gives memory back. What counts is
// that buffers lie on huge pages: on small ones the same reads reached 1.37 GB/s and cost 120 us.
//
// No SINGLE_ISSUER and no DEFER_TASKRUN: an engine may change its thread. When the submitting
// thread ends, the system cancels what it submitted; absorb() then has the step made again.

#include <liburing.h>
#include <unistd.h>

#include <cerrno>

#include "base/check.h"
#include "file/engine_base.h"
#include "file/system_calls.h"

namespace penstock::file {

namespace {

class UringEngine final : public EngineBase {
 public:
  UringEngine(unsigned depth, const io_uring& ring) : EngineBase(depth), ring_(ring) {}
  ~UringEngine() override {
    drain();
    io_uring_queue_exit(&ring_);
  }

  EngineKind kind() const override { return EngineKind::io_uring; }

 private:
  void start(Request& request) noexcept override;
  void reap() noexcept override;
  void interrupt(Request& request) noexcept override;
  io_uring_sqe& next_entry() noexcept;
  void hand_over() noexcept;

  io_uring ring_;
};

io_uring_sqe& UringEngine::next_entry() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  PENSTOCK_CHECK(entry != nullptr, "the submission ring is empty between calls");
  return *entry;
}

void UringEngine::hand_over() noexcept {
  while (io_uring_sq_ready(&ring_) > 0) {
    int result = io_uring_submit(&ring_);
    if (result >= 0 || result == -EINTR) continue;
    PENSTOCK_CHECK(result == -EAGAIN || result == -EBUSY,
                   "io_uring accepts an entry, now or later");
    ::usleep(100);  // the system is short of memory for requests
  }
}

void UringEngine::start(Request& request) noexcept {
  Step step = next_step(request);
  if (step.delay_us != 0 && !request.links.delayed) {
    request.links.delayed = true;
    __kernel_timespec delay{.tv_sec = 0, .tv_nsec = step.delay_us * 1000ll};
    io_uring_sqe& entry = next_entry();
    io_uring_prep_timeout(&entry, &delay, 0, 0);
    io_uring_sqe_set_data(&entry, &request);
    hand_over();  // copies the delay
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
  } else {
    io_uring_prep_write(&entry, step.descriptor, step.data, bytes, step.offset);
  }
  io_uring_sqe_set_data(&entry, &request);
  hand_over();
}

void UringEngine::reap() noexcept {
  io_uring_cqe* entry = nullptr;
  int result;
  while ((result = io_uring_wait_cqe(&ring_, &entry)) == -EINTR || result == -EAGAIN) {
  }
  PENSTOCK_CHECK(result == 0, "io_uring can be waited for");
  do {
    auto* request = static_cast<Request*>(io_uring_cqe_get_data(entry));
    const int answer = entry->res;
    io_uring_cqe_seen(&ring_, entry);
    if (request == nullptr) continue;  // the answer to a cancel
    if (request->links.delayed || !absorb(*request, answer)) {
      start(*request);
    } else {
      finished(*request);
    }
  } while (io_uring_peek_cqe(&ring_, &entry) == 0);
}

void UringEngine::interrupt(Request& request) noexcept {
  io_uring_sqe& entry = next_entry();
  io_uring_prep_cancel(&entry, &request, 0);
  io_uring_sqe_set_data(&entry, nullptr);
  hand_over();
}

}  // namespace

Result<std::unique_ptr<Engine>> open_uring_engine(unsigned depth) {
  io_uring ring;
  int result = io_uring_queue_init(depth, &ring, 0);
  if (result < 0) return system_error(-result, "set up io_uring", "kernel", "PENSTOCK_IO=threads");
  return std::make_unique<UringEngine>(depth, ring);
}

}  // namespace penstock::file
