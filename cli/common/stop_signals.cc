#include "cli/common/stop_signals.h"

#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>

#include "base/keep_errno.h"
#include "cli/common/command.h"

// The work checks the flag between blocks of data. While it waits for the other end of a pipe or
// for a terminal, it may never check it. So the first signal starts a timer, whose handler tests
// whether stdin has something to read and stdout accepts something. If not, ending at once does no
// harm: temporaries have no names, and an output none yet, so the system removes them. (On a file
// system without nameless files, the next run removes them.)

namespace penstock::cli {
namespace {

struct Stopping {
  int signal;
  const char* name;
};
constexpr std::array stopping = {Stopping{SIGINT, "SIGINT"}, Stopping{SIGTERM, "SIGTERM"},
                                 Stopping{SIGHUP, "SIGHUP"}};

// The handler writes these and the work's threads read them. They guard no other data, so relaxed
// order is enough.
std::atomic<bool> stop_flag{false};
std::atomic<int> stop_signal{0};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

constexpr int tick_ms = 250;
// The time the work may take to stop in order: when it waits for a stream, and otherwise.
constexpr int ticks_of_waiting = 2;
constexpr int ticks_max = 20;

// The handlers' data: set before any handler is installed, constant while one is.
struct Farewell {
  using Messages = std::array<std::string, stopping.size()>;
  Messages in_order;
  Messages at_once;               // by the timer, in the middle of work
  std::array<pollfd, 2> streams;  // a descriptor of -1 is none
  bool may_wait;                  // StopOptions::may_wait
};
Farewell farewell;
int ticks = 0;  // used only by the timer's handler

std::array<struct sigaction, stopping.size()> stopping_before;
struct sigaction pipe_before;
struct sigaction alarm_before;

void set_timer(int every_ms) {
  const timeval interval{.tv_sec = 0, .tv_usec = every_ms * 1000};
  const itimerval timer{interval, interval};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

// Async-signal-safe.
void write_message(const Farewell::Messages& messages, int signal) {
  for (size_t i = 0; i < stopping.size(); ++i) {
    if (stopping[i].signal != signal) continue;
    const std::string& message = messages[i];
    while (write(STDERR_FILENO, message.data(), message.size()) < 0 && errno == EINTR) {
    }
  }
}

void on_stop(int signal) {
  stop_signal.store(signal, std::memory_order_relaxed);
  stop_flag.store(true, std::memory_order_relaxed);
  set_timer(tick_ms);
}

bool may_wait() {
  if (farewell.may_wait) return true;
  for (pollfd stream : farewell.streams) {
    if (stream.fd >= 0 && poll(&stream, 1, 0) == 0) return true;
  }
  return false;
}

void on_tick(int) {
  const KeepErrno keep;
  ++ticks;
  const bool waits = may_wait();
  if (ticks >= ticks_max || (ticks >= ticks_of_waiting && waits)) {
    const int signal = stop_signal.load(std::memory_order_relaxed);
    write_message(waits ? farewell.in_order : farewell.at_once, signal);
    struct sigaction standard = {};
    standard.sa_handler = SIG_DFL;
    sigaction(signal, &standard, nullptr);
    raise(signal);
  }
}

// Catches the signal and does nothing. (Ignored signals would stay ignored in programs that we
// start.) Returns the action before.
struct sigaction catch_without_answer(int signal) {
  struct sigaction before = {};
  sigaction(signal, nullptr, &before);
  struct sigaction nothing = {};
  nothing.sa_handler = [](int) {};
  nothing.sa_flags = SA_RESTART;
  if (before.sa_handler != SIG_IGN) sigaction(signal, &nothing, nullptr);
  return before;
}

}  // namespace

void take_file_limits_as_errors() {
  catch_without_answer(SIGXFSZ);
}

StopSignals::StopSignals(const StopOptions& options) {
  // The message overwrites a progress line on the terminal, which is shorter.
  const char* start = isatty(STDERR_FILENO) != 0 ? "\r" : "";
  for (size_t i = 0; i < stopping.size(); ++i) {
    const auto message = [&](const std::string& outcome) {
      return fmt::format("{}{}: stopped by {}; {}\n", start, called(options.command),
                         stopping[i].name, outcome);
    };
    farewell.in_order[i] = message(options.outcome);
    farewell.at_once[i] =
        message(options.outcome_at_once.empty() ? options.outcome : options.outcome_at_once);
  }
  farewell.streams = {pollfd{options.reads_stdin ? STDIN_FILENO : -1, POLLIN, 0},
                      pollfd{options.writes_stdout ? STDOUT_FILENO : -1, POLLOUT, 0}};

  farewell.may_wait = options.may_wait;

  struct sigaction tick = {};
  tick.sa_handler = on_tick;
  tick.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &tick, &alarm_before);
  // No SA_RESTART: a read that waits for a terminal or a pipe returns. SA_RESETHAND: the second
  // signal ends the program.
  struct sigaction stop = {};
  stop.sa_handler = on_stop;
  stop.sa_flags = SA_RESETHAND;
  for (size_t i = 0; i < stopping.size(); ++i) {
    sigaction(stopping[i].signal, nullptr, &stopping_before[i]);
    if (stopping_before[i].sa_handler != SIG_IGN) sigaction(stopping[i].signal, &stop, nullptr);
  }
  pipe_before = catch_without_answer(SIGPIPE);
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < stopping.size(); ++i) {
    sigaction(stopping[i].signal, &stopping_before[i], nullptr);
  }
  set_timer(0);
  sigaction(SIGALRM, &alarm_before, nullptr);
  sigaction(SIGPIPE, &pipe_before, nullptr);
}

const std::atomic<bool>& StopSignals::flag() const {
  return stop_flag;
}
int StopSignals::caught() const {
  return stop_signal.load(std::memory_order_relaxed);
}

int StopSignals::die(int signal) const {
  set_timer(0);
  write_message(farewell.in_order, signal);
  return die_by(signal);
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
