#include <sched.h>
#include <signal.h>

#include "base/thread.h"
#include "trace/awake_processors.h"
#include "trace/recorder.h"

namespace penstock::trace {
namespace {

// Longer than it takes to wake a processor, so that stops of a program that sleeps count as close.
constexpr uint64_t window_ns = 500'000;
constexpr int processors_max = 8;

}  // namespace

AwakeProcessors::~AwakeProcessors() {
  for (std::jthread& thread : threads_) thread.request_stop();
  wake();
}

void AwakeProcessors::stop_answered(uint64_t now_ns) {
  const bool close = now_ns - last_ns_ < window_ns;
  last_ns_ = now_ns;
  if (!close) return;
  awake_until_ns_.store(now_ns + window_ns);
  if (!started_) start();
  if (sleeping_.load() > 0) wake();
}

void AwakeProcessors::wake() {
  round_.fetch_add(1);
  round_.notify_all();
}

void AwakeProcessors::start() {
  started_ = true;
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  const int processors = CPU_COUNT(&allowed);
  if (processors < 2 || processors > processors_max) return;
  // Signals are for the thread that traces.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  for (unsigned processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &allowed)) continue;
    std::jthread thread;
    // Without them a call costs more, and no more than that.
    const auto started = start_thread(
        thread, [this, processor](const std::stop_token& stop) { stay_awake(stop, processor); });
    if (!started) break;
    threads_.push_back(std::move(thread));
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void AwakeProcessors::stay_awake(const std::stop_token& stop, unsigned processor) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(processor, &here);
  const sched_param none = {};
  if (::sched_setaffinity(0, sizeof here, &here) != 0) return;
  if (::sched_setscheduler(0, SCHED_IDLE, &none) != 0) return;
  while (!stop.stop_requested()) {
    if (Recorder::now_ns() < awake_until_ns_.load(std::memory_order_relaxed)) continue;
    const uint32_t round = round_.load();
    sleeping_.fetch_add(1);
    if (Recorder::now_ns() >= awake_until_ns_.load() && !stop.stop_requested()) round_.wait(round);
    sleeping_.fetch_sub(1);
  }
}

}  // namespace penstock::trace
