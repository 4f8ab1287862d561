#include "base/thread.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <latch>
#include <new>
#include <thread>

namespace penstock {
namespace {

sigset_t mask_now() {
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, nullptr, &mask);
  return mask;
}

// Returns the mask of a thread that is started while `blocked` are blocked here.
sigset_t mask_of_thread(const sigset_t& blocked) {
  const sigset_t before = mask_now();
  pthread_sigmask(SIG_SETMASK, &blocked, nullptr);
  sigset_t mask, after;
  {
    std::jthread thread;
    EXPECT_TRUE(start_thread(thread, [&] { mask = mask_now(); }));
  }
  after = mask_now();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  for (int signal = 1; signal < 32; ++signal) {
    if (signal == SIGKILL || signal == SIGSTOP) continue;  // cannot be blocked
    EXPECT_EQ(sigismember(&after, signal), sigismember(&blocked, signal)) << signal;
  }
  return mask;
}

TEST(StartThread, AThreadTakesTheSignalsOfItsOwnInstructionsWhateverItsStarterBlocks) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  for (const sigset_t& blocked : {none, all}) {
    const sigset_t mask = mask_of_thread(blocked);
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS})
      EXPECT_EQ(sigismember(&mask, signal), 0) << signal;
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGALRM, SIGUSR1, SIGPROF})
      EXPECT_EQ(sigismember(&mask, signal), 1) << signal;
    EXPECT_EQ(sigismember(&mask, SIGPIPE), sigismember(&blocked, SIGPIPE));
  }
}

TEST(StartThread, CallbacksHaveTheSignalsOfTheThreadThatCalledTheLibrary) {
  std::jthread outer, inner;
  int outside = -1, in_callback = -1, behind = -1;
  const auto blocks = [] {
    const sigset_t mask = mask_now();
    return sigismember(&mask, SIGTERM);
  };
  ASSERT_EQ(blocks(), 0);
  ASSERT_TRUE(start_thread(outer, [&] {
    EXPECT_TRUE(start_thread(inner, [&] {
      outside = blocks();
      {
        const NoRunScope callers;
        in_callback = blocks();
      }
      behind = blocks();
    }));
    inner.join();
  }));
  outer.join();
  EXPECT_EQ(outside, 1);
  EXPECT_EQ(in_callback, 0);
  EXPECT_EQ(behind, 1);
}

TEST(StartThread, ReportsAHeapWithoutRoomForTheThread) {
  struct Work {
    Work() = default;
    Work(const Work&) { throw std::bad_alloc(); }
    void operator()() const {}
  };
  std::jthread thread;
  const Work work;
  const Status started = start_thread(thread, work);
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::out_of_memory);
  EXPECT_FALSE(thread.joinable());
}

TEST(InThreads, DoesEveryPartOnce) {
  std::atomic<int> done[5] = {};
  in_threads(5, [&](size_t i) { ++done[i]; });
  for (const auto& times : done) EXPECT_EQ(times, 1);
}

// Becomes a user that may have one more thread, and lets one end while another starts.
int start_where_one_is_about_to_end() {
  const auto user = static_cast<uid_t>(3'000'000 + ::getpid());
  // A sanitizer has a thread of its own.
  const std::filesystem::directory_iterator threads("/proc/self/task");
  const auto most = static_cast<rlim_t>(std::distance(begin(threads), end(threads))) + 1;
  const rlimit limit{.rlim_cur = most, .rlim_max = most};
  if (::setrlimit(RLIMIT_NPROC, &limit) != 0 || ::setresuid(user, user, user) != 0) return 77;
  std::latch ends(1);
  std::thread first, refused, second;
  if (!try_start_thread(first, [&] {
        ends.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }))
    return 1;
  const bool is_full = !try_start_thread(refused, [] {});
  ends.count_down();
  const bool started = start_thread(second, [] {}).has_value();
  for (std::thread* thread : {&first, &refused, &second}) {
    if (thread->joinable()) thread->join();
  }
  return !is_full ? 2 : started ? 0 : 3;
}

TEST(StartThread, WaitsForAThreadToEndWhereTheSystemHasNoMore) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(start_where_one_is_about_to_end());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "only root becomes another";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

}  // namespace
}  // namespace penstock
