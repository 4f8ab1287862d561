#include <elf.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "base/check.h"
#include "base/keep_errno.h"
#include "trace/capture/one_processor.h"
#include "trace/capture/tracee.h"

namespace penstock::trace {
namespace {

#if defined(__x86_64__)
constexpr uint32_t native = AUDIT_ARCH_X86_64;
constexpr uint32_t foreign_bit = 0x40000000;  // marks numbers of x32's table of calls
#elif defined(__aarch64__)
constexpr uint32_t native = AUDIT_ARCH_AARCH64;
constexpr uint32_t foreign_bit = 0x80000000;
#else
#error "the numbers of this architecture are not known here"
#endif

constexpr long attach_options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                                PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC;
// EXITKILL: a filtered program ends with its tracer, since its calls would fail without one.
constexpr long launch_options = attach_options | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL;

// The seccomp filter that stops relevant calls. The kernel runs it once per number, and remembers in
// a bitmap (5.11 and later) which calls pass with any arguments: those cost nothing. The numbers
// therefore are a plain list.
class FilterProgram {
 public:
  FilterProgram() {
    load(offsetof(seccomp_data, arch));
    unless_equal(native, allow());
    load(offsetof(seccomp_data, nr));
    add(BPF_JMP | BPF_JGE | BPF_K, foreign_bit, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    for (const CallRow& row : call_table()) {
      if (row.number == CallRow::no_number) continue;
      const auto number = static_cast<uint32_t>(row.number);
      if (row.effect == Effect::set_flags) {
        if_argument(number, static_cast<size_t>(row.at.operation), row.commands);
      } else if (row.effect == Effect::map) {
        if_maps_file(number);
      } else {
        stop_at(number);
      }
    }
    for (const uint32_t number : OneProcessor::let_go_before()) stop_at(number);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }

  sock_fprog program() {
    return {.len = static_cast<unsigned short>(code_.size()), .filter = code_.data()};
  }

 private:
  struct Allow {};
  static Allow allow() { return {}; }
  static constexpr uint32_t argument_at(size_t index) {
    return static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * index);  // the low half
  }

  void add(uint16_t operation, uint32_t value, uint8_t if_true = 0, uint8_t if_false = 0) {
    code_.push_back({operation, if_true, if_false, value});
  }
  void stop_at(uint32_t number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
    add(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }
  void load(size_t at) { add(BPF_LD | BPF_W | BPF_ABS, static_cast<uint32_t>(at)); }
  void unless_equal(uint32_t value, Allow) {
    add(BPF_JMP | BPF_JEQ | BPF_K, value, 1, 0);
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  void if_argument(uint32_t number, size_t index, std::span<const uint32_t> values) {
    // Another number skips this check: the load, two instructions per value, allow.
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, static_cast<uint8_t>(2 + 2 * values.size()));
    load(argument_at(index));
    for (const uint32_t value : values) {
      add(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
      add(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
    }
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  void if_maps_file(uint32_t number) {
    add(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 6);  // another number skips this check
    load(argument_at(3));
    add(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 2, 0);  // to allow
    load(argument_at(4));
    add(BPF_JMP | BPF_JEQ | BPF_K, ~uint32_t{0}, 0, 1);  // no descriptor: allow
    add(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    add(BPF_RET | BPF_K, SECCOMP_RET_TRACE);
  }

  std::vector<sock_filter> code_;
};

bool install_filter(const sock_fprog& program) {
  constexpr unsigned set_mode_filter = SECCOMP_SET_MODE_FILTER;
  if (::syscall(SYS_seccomp, set_mode_filter, 0, &program) == 0) return true;
  // Without rights, a filter needs that no program which is started gains any (setuid).
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  return ::syscall(SYS_seccomp, set_mode_filter, 0, &program) == 0;
}

long trace(int request, int32_t thread, uint64_t address, uint64_t data) {
  return ::syscall(SYS_ptrace, request, thread, address, data);
}

// State of the signal handlers. `launched_handle` is a descriptor of the process that gets our
// SIGTERM and SIGHUP; it changes only while no handler is installed, and the signal is reset to 0
// then. Otherwise only the handler sets the signal. A handler sets the request to end, and the
// waiting thread resets it. The values are independent, so relaxed order is enough.
std::atomic<int> launched_handle{-1};
std::atomic<int> signal_handed_on{0};
std::atomic<bool> end_requested{false};
static_assert(std::atomic<bool>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
void hand_on(int signal) {
  const KeepErrno keep;
  signal_handed_on.store(signal, std::memory_order_relaxed);
  const int handle = launched_handle.load(std::memory_order_relaxed);
  ::syscall(SYS_pidfd_send_signal, handle, signal, nullptr, 0);
}
void request_end(int) {
  end_requested.store(true, std::memory_order_relaxed);
}

// Changes of our signal handling while a program runs. The terminal sends SIGINT and SIGQUIT to the
// program, too, which decides what follows.
struct SignalChange {
  int signal;
  bool ignored;
  struct sigaction before = {};
};
std::array<SignalChange, 4> changes = {SignalChange{SIGINT, true}, SignalChange{SIGQUIT, true},
                                       SignalChange{SIGTERM, false}, SignalChange{SIGHUP, false}};

void change_signals(int handle) {
  launched_handle.store(handle, std::memory_order_relaxed);
  signal_handed_on.store(0, std::memory_order_relaxed);
  for (SignalChange& change : changes) {
    struct sigaction action = {};
    action.sa_handler = change.ignored ? SIG_IGN : hand_on;
    action.sa_flags = SA_RESTART;
    ::sigaction(change.signal, nullptr, &change.before);
    if (change.before.sa_handler != SIG_IGN) ::sigaction(change.signal, &action, nullptr);
  }
}

// Runs the program, in the child. It uses only system calls, and data from before the fork.
[[noreturn]] void become(char* const* words, const sock_fprog* filter, bool stdout_is_taken, int go,
                         int errors) {
  char byte = 0;
  while (::read(go, &byte, 1) < 0 && errno == EINTR) {
  }
  int error = 0;
  if (byte != 'g') ::_exit(127);  // the tracer could not attach, and has reported it
  if (stdout_is_taken && ::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    error = errno;
  } else if (filter != nullptr && !install_filter(*filter)) {
    error = errno;
  } else {
    ::execvp(words[0], words);
    error = errno;
  }
  [[maybe_unused]] const auto told = ::write(errors, &error, sizeof error);
  ::_exit(127);
}

struct Pipe {
  os::Fd out;
  os::Fd in;

  static std::optional<Pipe> make() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return {};
    return Pipe{os::Fd(ends[0]), os::Fd(ends[1])};
  }
};

}  // namespace

Result<Launched> launch(const std::vector<std::string>& command, const LaunchOptions& options,
                        const std::function<Status(int32_t)>& prepare) {
  const bool traces = options.as == LaunchAs::tracee;
  PENSTOCK_CHECK(!command.empty(), "a program to launch needs a name");
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  FilterProgram filter;
  const sock_fprog program = filter.program();

  auto go = Pipe::make();
  auto errors = Pipe::make();
  if (!go || !errors) return system_error(errno, "make a pipe", command[0]);
  const int32_t child = ::fork();
  if (child == 0) {
    go->in.reset();
    become(words.data(), traces ? &program : nullptr, options.stdout_is_taken, go->out.get(),
           errors->in.get());
  }
  int error = child < 0 ? errno : 0;
  go->out.reset();
  errors->in.reset();
  Launched launched{.process = child, .error_pipe = std::move(errors->out), .handle = {}};
  if (error == 0) {
    launched.handle = os::Fd(::syscall(SYS_pidfd_open, child, 0));
    if (!launched.handle) error = errno;
  }
  if (error == 0 && traces && trace(PTRACE_SEIZE, child, 0, launch_options) != 0) error = errno;
  Status prepared;
  if (error == 0 && prepare) prepared = prepare(child);
  if (error == 0 && prepared) {
    change_signals(launched.handle.get());
    if (::write(go->in.get(), "g", 1) != 1) error = errno;
  }
  go->in.reset();
  if (error == 0 && prepared) return launched;
  if (child > 0) ::waitpid(child, nullptr, 0);
  if (!prepared) return std::unexpected(prepared.error());
  return system_error(
      error, "start this under ptrace", command[0],
      error == EPERM ? "a place where ptrace is allowed: containers often forbid it" : "");
}

int launch_error(const Launched& launched) {
  int error = 0;
  const ssize_t got = ::read(launched.error_pipe.get(), &error, sizeof error);
  return got == sizeof error ? error : 0;
}

void end_launched(Launched& launched) {
  for (SignalChange& change : changes) ::sigaction(change.signal, &change.before, nullptr);
  launched_handle.store(-1, std::memory_order_relaxed);
  launched.error_pipe.reset();
  launched.handle.reset();
}

std::atomic<bool>& requests_to_end() {
  end_requested.store(false, std::memory_order_relaxed);
  struct sigaction action = {};
  action.sa_handler = request_end;
  action.sa_flags = SA_RESTART;
  for (const SignalChange& change : changes) {
    // Signals that were ignored at our start stay ignored. SIGQUIT belongs to the terminal.
    if (change.signal == SIGQUIT || change.before.sa_handler == SIG_IGN) continue;
    ::sigaction(change.signal, &action, nullptr);
  }
  return end_requested;
}

int handed_signal() {
  return signal_handed_on.load(std::memory_order_relaxed);
}

int exit_code_of(const Launched& launched) {
  int status = 0;
  while (::waitpid(launched.process, &status, 0) < 0) {
    if (errno != EINTR) return 0;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<WaitedProcess> WaitedProcess::of(int32_t process) {
  os::Fd fd(::syscall(SYS_pidfd_open, process, 0));
  if (!fd) {
    return system_error(errno, "find this process", "process " + std::to_string(process),
                        errno == ESRCH ? "ps, for its number" : "");
  }
  return WaitedProcess(std::move(fd));
}

bool WaitedProcess::wait(int timeout_ms) {
  pollfd ended{.fd = has_ended_ ? -1 : fd_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&ended, 1, timeout_ms) > 0) has_ended_ = true;
  return has_ended_;
}

Result<std::vector<int32_t>> attach(int32_t process) {
  std::vector<int32_t> threads;
  const std::string subject = "process " + std::to_string(process);
  bool is_refused = false;
  // New threads may appear until all are traced.
  for (bool found_more = true; found_more;) {
    found_more = false;
    std::error_code error;
    std::filesystem::directory_iterator list("/proc/" + std::to_string(process) + "/task", error);
    if (error && threads.empty()) {
      return failure(ErrorCode::not_found, "find this process", subject, "ps, for its number");
    }
    for (; !error && list != std::filesystem::directory_iterator(); list.increment(error)) {
      const auto thread = static_cast<int32_t>(std::atoi(list->path().filename().c_str()));
      if (std::ranges::find(threads, thread) != threads.end()) continue;
      if (trace(PTRACE_SEIZE, thread, 0, attach_options) != 0) {
        if (errno == ESRCH) continue;
        // A thread that a traced one has made is traced already. The kernel also refuses the first
        // thread if it has ended before the others.
        is_refused |= errno == EPERM;
        if (errno == EPERM) continue;
        return system_error(errno, "attach to this process", subject);
      }
      threads.push_back(thread);
      interrupt(thread);
      found_more = true;
    }
  }
  if (threads.empty() && is_refused) {
    return system_error(
        EPERM, "attach to this process", subject,
        "as root, or as its owner with kernel.yama.ptrace_scope = 0; a process that "
        "is being debugged cannot be traced as well");
  }
  if (threads.empty()) return failure(ErrorCode::not_found, "find this process", subject);
  return threads;
}

void interrupt(int32_t thread) {
  (void)trace(PTRACE_INTERRUPT, thread, 0, 0);
}

Stop wait_for_stop(const std::atomic<bool>* stop_flag) {
  int status = 0;
  int32_t thread = 0;
  while (true) {
    // The flag comes first, because busy threads may always have another stop_flag.
    if (stop_flag != nullptr && stop_flag->load(std::memory_order_relaxed))
      return {.kind = Stop::Kind::stop_requested};
    thread = ::waitpid(-1, &status, stop_flag == nullptr ? __WALL : __WALL | WNOHANG);
    if (thread > 0) break;
    if (thread < 0 && errno != EINTR) return {.kind = Stop::Kind::none_left};
    if (stop_flag == nullptr) continue;
    // Two signals wake us: SIGCHLD, which is blocked, and the one that sets the flag.
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    ::pthread_sigmask(SIG_BLOCK, &child, nullptr);
    const timespec tenth{.tv_sec = 0, .tv_nsec = 100'000'000};
    (void)::sigtimedwait(&child, nullptr, &tenth);
  }
  if (WIFEXITED(status)) {
    return {.kind = Stop::Kind::exited, .thread = thread, .exit_code = WEXITSTATUS(status)};
  }
  if (WIFSIGNALED(status)) {
    return {.kind = Stop::Kind::killed, .thread = thread, .signal = WTERMSIG(status)};
  }
  Stop stop{.thread = thread, .signal = WSTOPSIG(status)};
  const int event = status >> 16;
  unsigned long message = 0;
  switch (event) {
    case PTRACE_EVENT_SECCOMP:
      stop.kind = Stop::Kind::call;
      break;
    case PTRACE_EVENT_FORK:
    case PTRACE_EVENT_VFORK:
    case PTRACE_EVENT_CLONE:
    case PTRACE_EVENT_EXEC:
      stop.kind = event == PTRACE_EVENT_EXEC ? Stop::Kind::exec : Stop::Kind::child;
      if (trace(PTRACE_GETEVENTMSG, thread, 0, reinterpret_cast<uint64_t>(&message)) != 0) {
        stop.kind = Stop::Kind::other;
      }
      stop.child = static_cast<int32_t>(message);
      break;
    case PTRACE_EVENT_STOP:
      stop.kind = stop.signal == SIGSTOP || stop.signal == SIGTSTP || stop.signal == SIGTTIN ||
                          stop.signal == SIGTTOU
                      ? Stop::Kind::group
                      : Stop::Kind::other;
      break;
    case 0:
      stop.kind = stop.signal == (SIGTRAP | 0x80) ? Stop::Kind::call : Stop::Kind::signal;
      break;
    default:
      break;
  }
  return stop;
}

CurrentCall current_call(int32_t thread) {
  __ptrace_syscall_info info = {};
  if (trace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, reinterpret_cast<uint64_t>(&info)) <= 0) {
    return {};
  }
  CurrentCall current;
  switch (info.op) {
    case PTRACE_SYSCALL_INFO_ENTRY:
    case PTRACE_SYSCALL_INFO_SECCOMP:
      if (info.arch != native) return {};
      current.stage = CallStage::entry;
      // The structures of both stages begin with the number and the arguments.
      current.call.number = info.entry.nr;
      std::copy(std::begin(info.entry.args), std::end(info.entry.args),
                current.call.arguments.begin());
      break;
    case PTRACE_SYSCALL_INFO_EXIT:
      current.stage = CallStage::exit;
      current.result = info.exit.rval;
      break;
    default:
      break;
  }
  return current;
}

void resume(int32_t thread, Until until, int signal) {
  const int request = until == Until::next_call ? PTRACE_SYSCALL : PTRACE_CONT;
  (void)trace(request, thread, 0, static_cast<uint64_t>(signal));
}

namespace {

void set_first_argument(int32_t thread, uint64_t value) {
#if defined(__x86_64__)
  (void)trace(PTRACE_POKEUSER, thread, offsetof(user_regs_struct, rdi), value);
#else
  user_regs_struct registers;
  iovec all{&registers, sizeof registers};
  const auto at = reinterpret_cast<uint64_t>(&all);
  if (trace(PTRACE_GETREGSET, thread, NT_PRSTATUS, at) != 0) return;
  registers.regs[0] = value;
  (void)trace(PTRACE_SETREGSET, thread, NT_PRSTATUS, at);
#endif
}

}  // namespace

void keep_child_traced(int32_t thread, const SystemCall& call) {
  constexpr uint64_t untraced = CLONE_UNTRACED;
  const uint64_t first = call.arguments[0];
  if (call.number == SYS_clone && (first & untraced) != 0) {
    set_first_argument(thread, first & ~untraced);
  } else if (call.number == SYS_clone3) {
    auto flags = read_value<uint64_t>(thread, first);  // first member of struct clone_args
    if (!flags || (*flags & untraced) == 0) return;
    *flags &= ~untraced;
    const iovec ours{&*flags, sizeof *flags};
    const iovec theirs{reinterpret_cast<void*>(first), sizeof *flags};
    (void)::process_vm_writev(thread, &ours, 1, &theirs, 1, 0);
  }
}

void stay_stopped(int32_t thread) {
  (void)trace(PTRACE_LISTEN, thread, 0, 0);
}

void end_process(int32_t process, bool at_once) {
  // The number is not reused before we have waited for its end.
  ::kill(process, at_once ? SIGKILL : SIGTERM);
}

void detach(int32_t thread, int signal) {
  (void)trace(PTRACE_DETACH, thread, 0, static_cast<uint64_t>(signal));
}

bool read_memory(int32_t thread, uint64_t address, std::span<std::byte> into) {
  const iovec ours{into.data(), into.size()};
  const iovec theirs{reinterpret_cast<void*>(address), into.size()};
  return ::process_vm_readv(thread, &ours, 1, &theirs, 1, 0) == static_cast<ssize_t>(into.size());
}

std::optional<std::string> read_string(int32_t thread, uint64_t address) {
  constexpr uint64_t page = 4096;
  std::string text;
  std::array<char, page> piece;
  while (text.size() < string_bytes_max) {
    // A read ends at a page's end, since the next page may not exist.
    const size_t bytes = page - (address + text.size()) % page;
    if (!read_memory(thread, address + text.size(),
                     std::as_writable_bytes(std::span(piece)).first(bytes))) {
      return {};
    }
    const size_t length = ::strnlen(piece.data(), bytes);
    text.append(piece.data(), length);
    if (length < bytes) return text;
  }
  return {};
}

namespace {

// Returns the bytes of a request: for vectors the sum of their lengths, from the program's memory.
uint64_t bytes_of(int32_t thread, const iocb& block) {
  if (block.aio_lio_opcode != IOCB_CMD_PREADV && block.aio_lio_opcode != IOCB_CMD_PWRITEV)
    return block.aio_nbytes;
  constexpr uint64_t vectors_max = 1024;  // UIO_MAXIOV
  std::vector<iovec> vectors(std::min<uint64_t>(block.aio_nbytes, vectors_max));
  if (!read_memory(thread, block.aio_buf, std::as_writable_bytes(std::span(vectors)))) return 0;
  uint64_t bytes = 0;
  for (const iovec& vector : vectors) bytes += vector.iov_len;
  return bytes;
}

}  // namespace

std::optional<DecodedCall> aio_request(int32_t thread, uint64_t list_at, uint64_t index) {
  const auto block_at = read_value<uint64_t>(thread, list_at + index * sizeof(uint64_t));
  const auto block = block_at ? read_value<iocb>(thread, *block_at) : std::nullopt;
  if (!block) return {};
  DecodedCall decoded{.effect = Effect::sync,
                      .descriptor = static_cast<int32_t>(block->aio_fildes)};
  switch (block->aio_lio_opcode) {
    case IOCB_CMD_FDSYNC:
      decoded.flags = flag::data_only;
      return decoded;
    case IOCB_CMD_FSYNC:
      return decoded;
    case IOCB_CMD_PREAD:
    case IOCB_CMD_PREADV:
      decoded.effect = Effect::read;
      break;
    case IOCB_CMD_PWRITE:
    case IOCB_CMD_PWRITEV:
      decoded.effect = Effect::write;
      break;
    default:
      return {};
  }
  decoded.offset = static_cast<uint64_t>(block->aio_offset);
  decoded.bytes = bytes_of(thread, *block);
  if (decoded.offset > largest_offset || decoded.bytes > largest_offset - decoded.offset) return {};
  return decoded;
}

}  // namespace penstock::trace
