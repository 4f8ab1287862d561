#include "cli/stop_signals.h"

#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>

namespace penstock::cli {
namespace {

constexpr std::array stopping = {SIGINT, SIGTERM, SIGHUP};
constexpr std::array ignored = {SIGPIPE, SIGXFSZ};

// Written by the handler, read by the work's threads: two lone values that guard no others, so
// relaxed order is enough.
std::atomic<bool> stop_flag{false};
std::atomic<int> stop_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// How long the work may take to stop in order. A read of a pipe into which nobody writes would keep
// it for ever.
constexpr unsigned grace_seconds = 5;

std::array<struct sigaction, stopping.size()> stopping_before;
std::array<struct sigaction, ignored.size()> ignored_before;
struct sigaction alarm_before;

void on_stop(int signal) {
  stop_signal.store(signal, std::memory_order_relaxed);
  stop_flag.store(true, std::memory_order_relaxed);
  alarm(grace_seconds);
}

// Not in order, but at once: temporaries have no names, and an output none yet, so the system
// removes them. Where a file system knows named files alone, the next run does.
void on_grace_over(int) {
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  int signal = stop_signal.load(std::memory_order_relaxed);
  sigaction(signal, &standard, nullptr);
  raise(signal);
}

}  // namespace

StopSignals::StopSignals() {
  // No SA_RESTART: a read that waits for a terminal or a pipe returns. SA_RESETHAND: the second
  // signal ends the program.
  struct sigaction stop = {};
  stop.sa_handler = on_stop;
  stop.sa_flags = SA_RESETHAND;
  for (size_t i = 0; i < stopping.size(); ++i) {
    sigaction(stopping[i], nullptr, &stopping_before[i]);
    if (stopping_before[i].sa_handler != SIG_IGN) sigaction(stopping[i], &stop, nullptr);
  }
  struct sigaction grace_over = {};
  grace_over.sa_handler = on_grace_over;
  sigaction(SIGALRM, &grace_over, &alarm_before);
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;
  for (size_t i = 0; i < ignored.size(); ++i) sigaction(ignored[i], &ignore, &ignored_before[i]);
}

StopSignals::~StopSignals() {
  alarm(0);
  sigaction(SIGALRM, &alarm_before, nullptr);
  for (size_t i = 0; i < stopping.size(); ++i) sigaction(stopping[i], &stopping_before[i], nullptr);
  for (size_t i = 0; i < ignored.size(); ++i) sigaction(ignored[i], &ignored_before[i], nullptr);
}

const std::atomic<bool>& StopSignals::flag() const {
  return stop_flag;
}
int StopSignals::caught() const {
  return stop_signal.load(std::memory_order_relaxed);
}

int die_by(int signal) {
  std::fflush(nullptr);
  struct sigaction standard = {};
  standard.sa_handler = SIG_DFL;
  sigaction(signal, &standard, nullptr);
  raise(signal);
  return 128 + signal;
}

}  // namespace penstock::cli
