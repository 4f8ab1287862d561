#include "memory/fault/registry.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csetjmp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/failing_heap_fixture.h"
#include "base/random.h"
#include "os/alt_stack_fixture.h"
#include "os/memory.h"
#include "os/sanitizer.h"

namespace penstock::fault {
namespace {

using os::page_bytes;

// Makes the touched page accessible: readable after a read, writable after a write.
class Opener final : public Handler {
 public:
  Outcome on_fault(const Fault& fault) noexcept override {
    const bool write = fault.access == Access::write;
    (write ? writes : reads).fetch_add(1);
    auto* const page = reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(fault.address) &
                                                    ~uintptr_t{page_bytes - 1});
    if (os::protect(page, page_bytes, write ? Protection::read_write : Protection::read) != 0)
      std::abort();
    errno = EDOM;
    return Outcome::retry;
  }
  std::atomic<int> reads{0}, writes{0};
};

// Some inaccessible pages, which an Opener serves.
struct Region {
  explicit Region(size_t pages = 1)
      : memory(os::Reservation::reserve(pages * page_bytes, page_bytes).value()) {}
  void add() { registration = Registration::add(memory.begin(), memory.bytes(), opener).value(); }
  volatile char* at(size_t offset) {
    return reinterpret_cast<volatile char*>(memory.begin()) + offset;
  }

  os::Reservation memory;
  Opener opener;
  Registration registration;
};

// Runs the body in a child, with handlers as without the library. Returns the wait status.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (!uninstall()) _exit(97);
    body();
    _exit(testing::Test::HasFailure() ? 98 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

TEST(Registry, DistinguishesReadAndWriteFaults) {
  Region region(2);
  region.add();
  EXPECT_EQ(*region.at(100), 0);
  EXPECT_EQ(region.opener.reads, 1);
  EXPECT_EQ(region.opener.writes, 0);
  *region.at(100) = 7;  // readable by now, not writable
  EXPECT_EQ(region.opener.writes, 1);
  *region.at(page_bytes + 8) = 9;
  EXPECT_EQ(region.opener.reads, 1);
  EXPECT_EQ(region.opener.writes, 2);
  EXPECT_EQ(*region.at(100), 7);
  EXPECT_EQ(*region.at(page_bytes + 8), 9);
}

TEST(Registry, KeepsErrno) {
  Region region;
  region.add();
  errno = EXDEV;
  *region.at(0) = 1;
  EXPECT_EQ(errno, EXDEV);
  EXPECT_EQ(region.opener.writes, 1);
}

TEST(Registry, RefusesEmptyAndOverlappingRegions) {
  Region region(8);
  Opener opener;
  std::byte* const begin = region.memory.begin();
  EXPECT_FALSE(Registration::add(begin, 0, opener));
  auto middle = Registration::add(begin + 2 * page_bytes, 2 * page_bytes, opener);
  ASSERT_TRUE(middle);
  EXPECT_FALSE(Registration::add(begin, 8 * page_bytes, opener));
  EXPECT_FALSE(Registration::add(begin + 3 * page_bytes, page_bytes, opener));
  EXPECT_FALSE(Registration::add(begin + page_bytes, page_bytes + 1, opener));
  EXPECT_TRUE(Registration::add(begin, 2 * page_bytes, opener));
  EXPECT_TRUE(Registration::add(begin + 4 * page_bytes, page_bytes, opener));
  // The gaps below it and above it are shorter than these regions.
  auto* const low = reinterpret_cast<std::byte*>(uintptr_t{page_bytes});
  EXPECT_TRUE(Registration::add(low, 2 * page_bytes, opener));
  EXPECT_FALSE(Registration::add(low, UINTPTR_MAX - page_bytes + 1, opener));
}

TEST(Registry, FindsTheRegionsOfAPlainMap) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  auto* const base = reinterpret_cast<std::byte*>(uintptr_t{1} << 40);  // never touched
  std::vector<Opener> openers(64);
  struct Entry {
    size_t end;
    Handler* handler;
    Registration registration;
  };
  std::map<size_t, Entry> model;
  for (int step = 0; step < 3000; ++step) {
    const size_t at = random.below(1000);
    const auto above = model.upper_bound(at);
    const bool inside = above != model.begin() && at < std::prev(above)->second.end;
    Handler* const expected = inside ? std::prev(above)->second.handler : nullptr;
    ASSERT_EQ(find(base + at), expected);
    if (random.below(3) == 0) {
      if (inside) model.erase(std::prev(above));
      continue;
    }
    const size_t end = at + 1 + random.below(20);
    const bool free = !inside && (above == model.end() || above->first >= end);
    Handler& handler = openers[random.below(openers.size())];
    auto added = Registration::add(base + at, end - at, handler);
    ASSERT_EQ(added.has_value(), free);
    if (free) model.emplace(at, Entry{end, &handler, std::move(*added)});
  }
}

// Serves its own fault, but touches another region first.
struct TouchesAnother final : Handler {
  Outcome on_fault(const Fault& fault) noexcept override {
    *inner = 5;
    return os::protect(fault.address, page_bytes, Protection::read_write) == 0 ? Outcome::retry
                                                                               : Outcome::decline;
  }
  volatile char* inner;
};

TEST(Registry, AHandlerMayFaultInAnotherRegion) {
  TouchesAnother outer;
  Region inner, region;
  inner.add();
  outer.inner = inner.at(0);
  const auto registration = Registration::add(region.memory.begin(), page_bytes, outer);
  *region.at(0) = 6;
  EXPECT_EQ(*region.at(0), 6);
  EXPECT_EQ(*inner.at(0), 5);
  EXPECT_EQ(inner.opener.writes, 1);
}

TEST(Registry, HandlersRunOnTheAlternateStackIfThereIsOne) {
  struct Where final : Handler {
    Outcome on_fault(const Fault& fault) noexcept override {
      stack_t now;
      sigaltstack(nullptr, &now);
      on_alternate_stack = (now.ss_flags & SS_ONSTACK) != 0;
      return os::protect(fault.address, page_bytes, Protection::read_write) == 0 ? Outcome::retry
                                                                                 : Outcome::decline;
    }
    bool on_alternate_stack = false;
  } where;
  Region region;
  const auto registration = Registration::add(region.memory.begin(), page_bytes, where);
  std::thread([&] {
    const os::AltStack stack;
    ASSERT_TRUE(stack.in_use());
    *region.at(0) = 1;
  }).join();
  EXPECT_TRUE(where.on_alternate_stack);
}

// Gives this thread's handlers a stack of that size, with inaccessible memory below it. Returns
// false if the kernel refuses one so small.
bool use_alternate_stack(size_t bytes) {
  const size_t room = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  constexpr size_t guard_bytes = 16 * page_bytes;
  auto* const memory = new os::Reservation(
      os::Reservation::reserve(guard_bytes + room, page_bytes).value());  // freed with the process
  if (os::commit(memory->begin() + guard_bytes, room) != 0) return false;
  const stack_t stack = {
      .ss_sp = memory->begin() + guard_bytes + room - bytes, .ss_flags = 0, .ss_size = bytes};
  return sigaltstack(&stack, nullptr) == 0;
}

// A handler that needs as much stack as one that prints a message.
struct Talker final : Handler {
  explicit Talker(Opener& opens) : opener(opens) {}
  Outcome on_fault(const Fault& fault) noexcept override {
    volatile char text[2048];
    for (size_t i = 0; i < sizeof text; ++i) text[sizeof text - 1 - i] = 'x';
    return opener.on_fault(fault);
  }
  Opener& opener;
};

// Returns the end of a fault on such a stack, in a child: 's'erved, 'e'nded, or with a 'm'essage.
char end_on_alternate_stack(size_t bytes) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const int status = status_of_child([&] {
    dup2(ends[1], STDERR_FILENO);
    Region region;
    Talker talker{region.opener};
    region.registration =
        Registration::add(region.memory.begin(), region.memory.bytes(), talker).value();
    if (use_alternate_stack(bytes)) *region.at(0) = 1;
  });
  ::close(ends[1]);
  char text[300] = {};
  (void)!::read(ends[0], text, sizeof text - 1);
  ::close(ends[0]);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 's';
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  EXPECT_TRUE(signal == SIGSEGV || signal == SIGBUS) << bytes << " bytes: wait status " << status;
  return std::strstr(text, "too small to serve a fault") != nullptr ? 'm' : 'e';
}

// Some sizes are too small for the kernel, for dispatch() or for the handler, and some suffice.
TEST(Registry, AnAlternateStackThatIsTooSmallEndsTheProcess) {
  if (os::shadowed) GTEST_SKIP() << "sanitizers have large frames, and handlers of their own";
  std::string ends;
  for (size_t bytes = 2048; bytes <= getauxval(AT_MINSIGSTKSZ) + 6144; bytes += 128)
    ends += end_on_alternate_stack(bytes);
  EXPECT_NE(ends.find('m'), std::string::npos) << ends;
  EXPECT_EQ(ends.back(), 's') << ends;
}

TEST(Registry, UnblocksTheSignalsInTheThreadThatRegisters) {
  Region region;
  std::thread([&] {
    sigset_t all, mask;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    region.add();
    *region.at(0) = 1;
    pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    EXPECT_EQ(sigismember(&mask, SIGSEGV), 0);
    EXPECT_EQ(sigismember(&mask, SIGBUS), 0);
    EXPECT_EQ(sigismember(&mask, SIGUSR1), 1);
  }).join();
}

TEST(Registry, UnblocksTheSignalsInAThreadThatGetsAPointer) {
  Region region;
  region.add();
  std::thread([&] {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);
    *for_this_thread(region.at(0)) = 1;
  }).join();
}

TEST(Registry, UnregisteringTakesNoMemory) {
  if (!heap_can_fail) GTEST_SKIP() << "the heap is a sanitizer's";
  std::vector<std::unique_ptr<Region>> regions;
  for (int i = 0; i < 100; ++i) regions.emplace_back(std::make_unique<Region>())->add();
  std::vector<Registration> registrations;
  for (auto& region : regions) registrations.push_back(std::move(region->registration));
  std::shuffle(registrations.begin(), registrations.end(), std::mt19937(1));
  {
    const FailingAllocation failing;
    for (Registration& registration : registrations) registration = {};
    EXPECT_FALSE(failing.failed());
  }
  for (auto& region : regions) EXPECT_EQ(find(region->memory.begin()), nullptr);
}

TEST(Registry, ReportsAHeapThatIsUsedUp) {
  if (!heap_can_fail) GTEST_SKIP() << "the heap is a sanitizer's";
  std::vector<std::unique_ptr<Region>> regions;  // more than the registry has room for
  for (int i = 0; i < 1000; ++i) {
    regions.push_back(std::make_unique<Region>());
    Region& region = *regions.back();
    auto refused = [&] {
      const FailingAllocation failing;
      return Registration::add(region.memory.begin(), region.memory.bytes(), region.opener);
    }();
    if (refused) {
      region.registration = std::move(*refused);
    } else {
      EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory);
      region.add();
    }
    *region.at(0) = 1;
  }
}

TEST(Registry, UnregisteringWaitsForTheHandler) {
  struct Slow final : Handler {
    Outcome on_fault(const Fault& fault) noexcept override {
      inside = true;
      while (!may_go_on) std::this_thread::yield();
      // Long enough for an unregistering that does not wait to return.
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const bool opened = os::protect(fault.address, page_bytes, Protection::read_write) == 0;
      inside = false;
      return opened ? Outcome::retry : Outcome::decline;
    }
    std::atomic<bool> inside{false};
    std::atomic<bool> may_go_on{false};
  } slow;
  Region region;
  std::optional<Registration> registration =
      Registration::add(region.memory.begin(), page_bytes, slow).value();
  std::thread toucher([&] { *region.at(0) = 1; });
  while (!slow.inside) std::this_thread::yield();
  Region other;
  other.add();  // others are not delayed
  EXPECT_TRUE(slow.inside);
  slow.may_go_on = true;
  registration.reset();
  EXPECT_FALSE(slow.inside);
  toucher.join();
}

TEST(Registry, FaultsAreServedWhileRegionsComeAndGo) {
  constexpr int threads = 4, rounds = 300;
  std::atomic<bool> wrong{false};
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t) {
    crowd.emplace_back([&, t] {
      for (int round = 0; round < rounds; ++round) {
        Region region(3);
        region.add();
        for (size_t page = 0; page < 3; ++page) {
          *region.at(page * page_bytes) = static_cast<char>(t + 1);
          if (*region.at(page * page_bytes) != t + 1) wrong = true;
        }
        if (region.opener.writes != 3) wrong = true;
      }
    });
  }
  for (auto& thread : crowd) thread.join();
  EXPECT_FALSE(wrong);
}

TEST(Registry, ChildOfAForkStartsEmptyAndMayRegister) {
  Region region;
  region.add();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (find(region.memory.begin()) != nullptr) _exit(1);
    Region own;
    own.add();
    *own.at(0) = 1;
    if (own.opener.writes != 1) _exit(2);
    {
      Registration inherited = std::move(region.registration);
    }  // ends without effect
    if (find(own.memory.begin()) != &own.opener) _exit(3);
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  *region.at(0) = 1;
  EXPECT_EQ(region.opener.writes, 1);
}

// Records the calls of on_unservable, and makes the page accessible all the same.
class Asked final : public Handler {
 public:
  Outcome on_fault(const Fault& fault) noexcept override { return opener.on_fault(fault); }
  Outcome on_unservable(const Fault& fault, Unservable why) noexcept override {
    address = fault.address;
    reason = why;
    ++times;
    return answer == Outcome::retry && why == Unservable::inherited ? opener.on_fault(fault)
                                                                    : answer;
  }
  Opener opener;
  Outcome answer = Outcome::retry;
  std::byte* address = nullptr;
  Unservable reason = Unservable::inherited;
  int times = 0;
};

TEST(Registry, HandlersReportFaultsInAForkedChild) {
  const auto memory = os::Reservation::reserve(4 * page_bytes, page_bytes).value();
  Asked asked;
  auto registration = Registration::add(memory.begin(), memory.bytes(), asked).value();
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    *(volatile char*)(memory.begin() + 8) = 1;
    if (asked.times != 1 || asked.reason != Unservable::inherited) _exit(1);
    if (asked.address != memory.begin() + 8) _exit(2);
    // Memory of the child at the same addresses is the child's.
    Opener own;
    {
      auto mine = Registration::add(memory.begin() + page_bytes, page_bytes, own);
      if (!mine || find(memory.begin() + page_bytes) != &own) _exit(3);
      *(volatile char*)(memory.begin() + page_bytes) = 1;
      if (own.writes != 1 || asked.times != 1) _exit(4);
      registration = {};
      if (find(memory.begin() + page_bytes) != &own) _exit(5);
    }
    _exit(uninstall() ? 0 : 6);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  *(volatile char*)(memory.begin()) = 1;
  EXPECT_EQ(asked.opener.writes, 1);
  EXPECT_EQ(asked.times, 0);
}

TEST(Registry, AChildEndsInheritedRegionsWhileThreadsOfTheParentAreInside) {
  Region region;
  region.add();
  std::atomic<int> stage{0};
  // A handler that waits until the child has ended.
  class Waiting final : public Handler {
   public:
    explicit Waiting(std::atomic<int>& stage, Opener& opener) : stage_(stage), opener_(opener) {}
    Outcome on_fault(const Fault& fault) noexcept override {
      stage_ = 1;
      stage_.notify_all();
      stage_.wait(1);
      return opener_.on_fault(fault);
    }

   private:
    std::atomic<int>& stage_;
    Opener& opener_;
  } waiting(stage, region.opener);
  const auto memory = os::Reservation::reserve(page_bytes, page_bytes).value();
  auto registration = Registration::add(memory.begin(), memory.bytes(), waiting).value();
  std::thread inside([&] { *(volatile char*)memory.begin() = 1; });
  stage.wait(0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    registration = {};
    region.registration = {};
    _exit(0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  stage = 2;
  stage.notify_all();
  inside.join();
  EXPECT_EQ(region.opener.writes, 1);
}

// ---------------------------------------------------------------- memory errors

// Sends a memory error like the kernel.
void send_memory_error(const std::byte* address, int code) {
  siginfo_t info = {};
  info.si_signo = SIGBUS;
  info.si_code = code;
  info.si_addr = const_cast<std::byte*>(address);
  ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGBUS, &info), 0)
      << strerror(errno);
}

// kill() stores its sender where a fault has its address.
TEST(Registry, ASignalThatSomebodySentIsNoFault) {
  const int status = status_of_child([] {
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has a handler of its own
    const auto memory = os::Reservation::reserve(page_bytes).value();
    Asked asked;
    const auto registration = Registration::add(memory.begin(), memory.bytes(), asked).value();
    siginfo_t info = {};
    info.si_signo = SIGSEGV;
    info.si_code = SI_USER;
    info.si_addr = memory.begin();
    syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGSEGV, &info);
    _exit(0);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
}

TEST(Registry, MemoryErrorsAreNotServed) {
  const auto memory = os::Reservation::reserve(2 * page_bytes, page_bytes).value();
  Asked asked;
  const auto registration = Registration::add(memory.begin(), memory.bytes(), asked).value();
  send_memory_error(memory.begin() + 100, BUS_MCEERR_AR);
  EXPECT_EQ(asked.times, 1);
  EXPECT_EQ(asked.reason, Unservable::memory_error);
  EXPECT_EQ(asked.address, memory.begin() + 100);
  send_memory_error(memory.begin(), BUS_MCEERR_AO);
  EXPECT_EQ(asked.times, 2);
  EXPECT_EQ(asked.reason, Unservable::memory_error_ahead);
  EXPECT_EQ(asked.opener.reads + asked.opener.writes, 0);
}

TEST(Registry, AMemoryErrorThatIsDeclinedCrashesAsWithoutUs) {
  const int status = status_of_child([] {
    signal(SIGBUS, SIG_DFL);  // a sanitizer has a handler of its own
    const auto memory = os::Reservation::reserve(page_bytes, page_bytes).value();
    Asked asked;
    asked.answer = Outcome::decline;
    const auto registration = Registration::add(memory.begin(), memory.bytes(), asked).value();
    send_memory_error(memory.begin(), BUS_MCEERR_AO);
  });
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGBUS);
}

// ---------------------------------------------------------------- other parties' handlers

volatile sig_atomic_t calls_of_first, calls_of_later;
volatile sig_atomic_t mask_was_right;
void* volatile address_seen;
sigjmp_buf way_out;
struct sigaction saved_by_later;

void set_handler(int signal, void (*function)(int, siginfo_t*, void*), int flags,
                 struct sigaction* previous = nullptr) {
  struct sigaction action = {};
  action.sa_sigaction = function;
  action.sa_flags = SA_SIGINFO | flags;
  sigaddset(&action.sa_mask, SIGUSR1);
  ASSERT_EQ(sigaction(signal, &action, previous), 0);
}

bool is_blocked(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

void first(int signal, siginfo_t* info, void*) {
  calls_of_first = calls_of_first + 1;
  address_seen = info->si_addr;
  mask_was_right = is_blocked(SIGUSR1) && is_blocked(signal);
  siglongjmp(way_out, 1);
}

void first_with_nodefer(int signal, siginfo_t*, void*) {
  calls_of_first = calls_of_first + 1;
  mask_was_right = is_blocked(SIGUSR1) && !is_blocked(signal);
  siglongjmp(way_out, 1);
}

void plain(int) {
  calls_of_first = calls_of_first + 1;
  siglongjmp(way_out, 1);
}

void later_that_chains(int signal, siginfo_t* info, void* context) {
  calls_of_later = calls_of_later + 1;
  saved_by_later.sa_sigaction(signal, info, context);
}

void later_that_chains_not(int, siginfo_t*, void*) {
  calls_of_later = calls_of_later + 1;
  siglongjmp(way_out, 1);
}

// Raises the signal again for the handler before it, as CPython's faulthandler does.
void later_that_raises(int signal, siginfo_t*, void*) {
  calls_of_later = calls_of_later + 1;
  ASSERT_EQ(sigaction(signal, &saved_by_later, nullptr), 0);
  raise(signal);
}

// Touches an address that nobody serves; the handler under test jumps back here.
void touch(volatile char* address) {
  if (sigsetjmp(way_out, 1) == 0) *address = 1;
}

TEST(Chaining, ForeignFaultsGoToThePreviousHandler) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, 0);
              Region served, foreign;
              served.add();
              for (int round = 1; round <= 3; ++round) {
                touch(foreign.at(17));
                EXPECT_EQ(calls_of_first, round);
              }
              EXPECT_EQ(address_seen, foreign.at(17));
              EXPECT_TRUE(mask_was_right);
              EXPECT_FALSE(is_blocked(SIGSEGV));
              *served.at(0) = 1;
              EXPECT_EQ(served.opener.writes, 1);
            }),
            0);
}

TEST(Chaining, HonoursNodeferAndHandlersOfOneArgument) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first_with_nodefer, SA_NODEFER);
              Region served, foreign;
              served.add();
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_first, 1);
              EXPECT_TRUE(mask_was_right);
            }),
            0);
  EXPECT_EQ(status_of_child([] {
              signal(SIGSEGV, plain);
              Region served, foreign;
              served.add();
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_first, 1);
            }),
            0);
}

TEST(Chaining, ARegionThatDeclinesIsNobodys) {
  EXPECT_EQ(status_of_child([] {
              struct Decliner final : Handler {
                Outcome on_fault(const Fault&) noexcept override { return Outcome::decline; }
              } decliner;
              set_handler(SIGSEGV, first, 0);
              Region region;
              const auto registration =
                  Registration::add(region.memory.begin(), page_bytes, decliner);
              touch(region.at(3));
              EXPECT_EQ(calls_of_first, 1);
              EXPECT_EQ(address_seen, region.at(3));
            }),
            0);
}

TEST(Chaining, ALaterHandlerThatChainsHidesNothing) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, 0);
              Region served, foreign;
              served.add();
              set_handler(SIGSEGV, later_that_chains, 0, &saved_by_later);
              EXPECT_FALSE(installed());
              *served.at(0) = 1;
              EXPECT_EQ(served.opener.writes, 1);
              EXPECT_EQ(calls_of_later, 1);
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_later, 2);
              EXPECT_EQ(calls_of_first, 1);
            }),
            0);
}

TEST(Chaining, RegisteringOvertakesALaterHandlerAndRunsInNoCircle) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, 0);
              Region served, foreign, one_more;
              served.add();
              set_handler(SIGSEGV, later_that_chains, 0, &saved_by_later);
              one_more.add();
              EXPECT_TRUE(installed());
              *served.at(0) = 1;
              EXPECT_EQ(calls_of_later, 0);
              // Each round calls us, the later one, us again, and the first one, which jumps out.
              for (int round = 1; round <= 3; ++round) {
                touch(foreign.at(0));
                EXPECT_EQ(calls_of_later, round);
                EXPECT_EQ(calls_of_first, round);
              }
              // Again: the same handler above us does not make the chain longer.
              set_handler(SIGSEGV, later_that_chains, 0, &saved_by_later);
              ASSERT_TRUE(install());
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_later, 4);
              EXPECT_EQ(calls_of_first, 4);
            }),
            0);
}

TEST(Chaining, AHandlerThatRaisesTheSignalAgainComesToTheOneBeforeIt) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, 0);
              Region served, foreign, one_more;
              served.add();
              set_handler(SIGSEGV, later_that_raises, SA_NODEFER, &saved_by_later);
              one_more.add();  // above the later handler again
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_later, 1);
              EXPECT_EQ(calls_of_first, 1);
            }),
            0);
}

// Jumps into a region. Such a fault is not the handler's: it would be called for ever.
void jump_to(std::byte* address) {
  if (sigsetjmp(way_out, 1) == 0) reinterpret_cast<void (*)()>(address)();
}
TEST(Chaining, AJumpIntoARegionIsNobodys) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, 0);
              Region served;
              served.add();
              *served.at(0) = 1;
              jump_to(served.memory.begin() + 64);  // sanitizers read the bytes before
              EXPECT_EQ(calls_of_first, 1);
              EXPECT_EQ(address_seen, served.at(64));
              EXPECT_EQ(served.opener.reads, 0);
            }),
            0);
}

TEST(Chaining, RegisteringOvertakesALaterHandlerThatDoesNotChain) {
  EXPECT_EQ(status_of_child([] {
              Region served, foreign;
              served.add();
              set_handler(SIGSEGV, later_that_chains_not, 0);
              EXPECT_FALSE(installed());
              touch(served.at(0));
              EXPECT_EQ(calls_of_later, 1);  // lost
              ASSERT_TRUE(install());
              EXPECT_TRUE(installed());
              touch(served.at(0));
              EXPECT_EQ(served.opener.writes, 1);
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_later, 2);
            }),
            0);
}

TEST(Chaining, ALaterHandlerMayBlockFaultsAndStillChainToNestedOnes) {
  EXPECT_EQ(status_of_child([] {
              TouchesAnother outer;
              Region inner, region;
              inner.add();
              outer.inner = inner.at(0);
              const auto registration = Registration::add(region.memory.begin(), page_bytes, outer);
              set_handler(SIGSEGV, later_that_chains, 0, &saved_by_later);
              *region.at(0) = 6;
              EXPECT_EQ(inner.opener.writes, 1);
              // It got both faults: it had blocked the signal, and we unblocked it.
              EXPECT_EQ(calls_of_later, 2);
            }),
            0);
}

TEST(Chaining, UninstallRestoresThePreviousHandlers) {
  EXPECT_EQ(status_of_child([] {
              set_handler(SIGSEGV, first, SA_NODEFER);
              {
                Region served;
                served.add();
                EXPECT_FALSE(uninstall());  // a region is registered
              }
              ASSERT_TRUE(uninstall());
              EXPECT_FALSE(installed());
              struct sigaction now;
              sigaction(SIGSEGV, nullptr, &now);
              EXPECT_EQ(now.sa_sigaction, first);
              EXPECT_TRUE((now.sa_flags & SA_NODEFER) != 0);
              Region again, foreign;
              again.add();
              *again.at(0) = 1;
              EXPECT_EQ(again.opener.writes, 1);
              touch(foreign.at(0));
              EXPECT_EQ(calls_of_first, 1);
            }),
            0);
}

}  // namespace
}  // namespace penstock::fault
