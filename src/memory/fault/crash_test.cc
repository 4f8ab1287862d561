// A fault that belongs to nobody ends the process exactly as it would without the library: each
// scenario runs in two traced children, with and without a registered region, and the last signal
// that each saw, its address and the way it ended are compared.

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>
#include <optional>
#include <thread>

#include "memory/fault/registry.h"
#include "os/memory.h"

namespace penstock::fault {
namespace {

struct Ending {
  int status = -1;
  int signal = 0;
  int code = 0;
  void* address = nullptr;
  uintptr_t place = 0;  // next instruction, which a core dump shows
  bool operator==(const Ending&) const = default;
};

void PrintTo(const Ending& ending, std::ostream* out) {
  *out << "status " << ending.status << ", last signal " << ending.signal << " code " << ending.code
       << " address " << ending.address << " at " << ending.place;
}

uintptr_t place_of(pid_t traced) {
  user_regs_struct registers{};
  iovec piece{&registers, sizeof registers};
  ptrace(PTRACE_GETREGSET, traced, NT_PRSTATUS, &piece);
#if defined(__x86_64__)
  return registers.rip;
#else
  return registers.pc;
#endif
}

class Decliner final : public Handler {
 public:
  Outcome on_fault(const Fault&) noexcept override { return Outcome::decline; }
};

// Returns how a process ends; nullopt: processes may not be traced here.
std::optional<Ending> ending_of(const std::function<void()>& prepare,
                                const std::function<void()>& scenario, bool with_library) {
  constexpr int not_traceable = 96;
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(20);
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(not_traceable);
    prepare();
    static Decliner decliner;
    auto range = os::Reservation::reserve(os::page_bytes);
    std::optional<Registration> registration;
    if (with_library)
      registration = Registration::add(range->begin(), range->bytes(), decliner).value();
    scenario();
    _exit(0);
  }
  Ending ending;
  while (waitpid(child, &ending.status, 0) == child && WIFSTOPPED(ending.status)) {
    siginfo_t info{};
    ptrace(PTRACE_GETSIGINFO, child, nullptr, &info);
    ending.signal = info.si_signo;
    ending.code = info.si_code;
    ending.address = info.si_code > 0 ? info.si_addr : nullptr;
    ending.place = place_of(child);
    ptrace(PTRACE_CONT, child, nullptr, WSTOPSIG(ending.status));
  }
  if (WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == not_traceable) return std::nullopt;
  return ending;
}

void expect_same_ending(const std::function<void()>& prepare, const std::function<void()>& scenario,
                        int expected_signal) {
  const auto without = ending_of(prepare, scenario, false);
  const auto with = ending_of(prepare, scenario, true);
  if (!without || !with) GTEST_SKIP() << "processes may not be traced here";
  EXPECT_EQ(*with, *without);
  if (expected_signal != 0) {
    EXPECT_EQ(without->signal, expected_signal);
  }
}

void nothing() {}
void use_default() {  // also past the sanitizers' handlers
  signal(SIGSEGV, SIG_DFL);
  signal(SIGBUS, SIG_DFL);
}
void ignore() {
  signal(SIGSEGV, SIG_IGN);
  signal(SIGBUS, SIG_IGN);
}

char* const a_page = [] {
  return static_cast<char*>(
      mmap(nullptr, os::page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}();

void write_to_unmapped() {
  *reinterpret_cast<volatile char*>(uintptr_t{0x12345}) = 1;
}
void write_to_read_only() {
  *static_cast<volatile char*>(a_page + 10) = 1;
}
void jump_into_data() {
  reinterpret_cast<void (*)()>(a_page)();
}
void touch_past_end_of_file() {
  const int fd = memfd_create("empty", 0);
  void* const page = mmap(nullptr, os::page_bytes, PROT_READ, MAP_SHARED, fd, 0);
  (void)*static_cast<volatile char*>(page);
}
void non_canonical_address() {
  *reinterpret_cast<volatile char*>(uintptr_t{1} << 62) = 1;
}

TEST(Crash, DefaultAction) {
  expect_same_ending(use_default, write_to_unmapped, SIGSEGV);
  expect_same_ending(use_default, write_to_read_only, SIGSEGV);
  expect_same_ending(use_default, jump_into_data, SIGSEGV);
  expect_same_ending(use_default, touch_past_end_of_file, SIGBUS);
}

TEST(Crash, AtAnAddressThatTheProcessorRefuses) {
  expect_same_ending(use_default, non_canonical_address, SIGSEGV);
}

TEST(Crash, HandlerOfTheRuntime) {
  expect_same_ending(nothing, write_to_read_only, 0);  // a sanitizer ends by itself in either case
}

TEST(Crash, AFaultCannotBeIgnored) {
  expect_same_ending(ignore, write_to_read_only, SIGSEGV);
}

TEST(Crash, ASignalThatWasSent) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    expect_same_ending(
        use_default,
        [=] {
          kill(getpid(), signal);
          pause();
        },
        signal);
    expect_same_ending(use_default, [=] { raise(signal); }, signal);
    expect_same_ending(
        use_default,
        [=] {
          sigqueue(getpid(), signal, {.sival_int = 3});
          pause();
        },
        signal);
  }
}

TEST(Crash, ASignalThatWasSentToAThread) {
  for (const int signal : {SIGSEGV, SIGBUS}) {
    const auto scenario = [=] { std::thread([=] { raise(signal); }).join(); };
    const auto with = ending_of(use_default, scenario, true);
    if (!with) GTEST_SKIP() << "processes may not be traced here";
    EXPECT_EQ(with->status, signal) << "what kills a process is its status";
    expect_same_ending(use_default, scenario, 0);
  }
}

TEST(Crash, ASentSignalThatIsIgnoredDoesNothing) {
  expect_same_ending(ignore, [] { kill(getpid(), SIGSEGV); }, 0);
  const auto with = ending_of(ignore, [] { kill(getpid(), SIGSEGV); }, true);
  if (with) {
    EXPECT_EQ(with->status, 0);
  }
}

TEST(Crash, AHandlerThatIsResetIsCalledOnce) {
  const auto prepare = [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { static_cast<void>(!write(STDERR_FILENO, "", 0)); };
    action.sa_flags = static_cast<int>(SA_RESETHAND);
    sigaction(SIGSEGV, &action, nullptr);
  };
  expect_same_ending(prepare, write_to_read_only, SIGSEGV);
}

TEST(Crash, InsideAHandlerThatBlocksTheSignal) {
  const auto prepare = [] {
    signal(SIGSEGV, SIG_DFL);
    struct sigaction action = {};
    action.sa_handler = [](int) { write_to_unmapped(); };
    sigaction(SIGSEGV, &action, nullptr);
  };
  expect_same_ending(prepare, write_to_read_only, SIGSEGV);
}

}  // namespace
}  // namespace penstock::fault
