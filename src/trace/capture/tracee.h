#pragma once

// Other processes under ptrace(2): it starts them or attaches to them, stops them at relevant
// calls, reads their state, and lets them go. This is the platform's side of capture_ptrace.cc,
// which decides what to do at each stop.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "os/fd.h"
#include "penstock/base.h"
#include "trace/capture/decoded_call.h"

namespace penstock::trace {

// The reason why a thread is stopped.
struct Stop {
  enum class Kind {
    call,            // at the entry or the exit of a system call; see current_call()
    child,           // it made `child`, a thread or a process, which is traced already
    exec,            // it runs a new program, as the only thread of its process
    signal,          // `signal` is about to be delivered
    group,           // the process was stopped (SIGSTOP, Ctrl-Z)
    other,           // nothing to do
    exited,          // it has ended with `exit_code`
    killed,          // `signal` has killed it
    none_left,       // no traced thread is left
    stop_requested,  // the flag of wait_for_stop() is set
  };
  Kind kind = Kind::other;
  int32_t thread = 0;
  int32_t child = 0;
  int signal = 0;
  int exit_code = 0;
};

// The next stop of a thread that goes on.
enum class Until {
  call_of_interest,  // a relevant call, by the seccomp filter; never without one
  next_call,         // the exit of this call, or the entry of any
};

enum class CallStage { none, entry, exit };
struct CurrentCall {
  CallStage stage = CallStage::none;
  SystemCall call;     // valid at an entry
  int64_t result = 0;  // valid at an exit; may be a negative errno
};

enum class LaunchAs {
  tracee,    // under ptrace: stops at relevant calls
  ordinary,  // not under ptrace
};
struct LaunchOptions {
  LaunchAs as = LaunchAs::ordinary;
  bool stdout_is_taken = false;  // the trace goes to stdout, and the program's output to stderr
};
// Starts a program. `prepare` is called with its process before it may run, and may fail the
// launch. Our SIGTERM and SIGHUP are handed to it until end_launched(). Errors: those of the
// system. For a program that cannot be run, launch_error() returns the reason once it has ended.
struct Launched {
  int32_t process = 0;
  os::Fd error_pipe;
  os::Fd handle;  // the process, whose number may be reused once it has ended
};
Result<Launched> launch(const std::vector<std::string>& command, const LaunchOptions& options,
                        const std::function<Status(int32_t process)>& prepare = {});
int launch_error(const Launched& launched);  // 0 or an errno
void end_launched(Launched& launched);
// Makes SIGINT, SIGTERM and SIGHUP set the returned flag, which the caller may reset. It is for
// processes that are still traced after the program that left them has ended.
std::atomic<bool>& requests_to_end();
// Returns the last SIGTERM or SIGHUP that was handed to the last launched program; 0: none.
int handed_signal();
// Waits for the end of an ordinary process. Returns its exit code, as a shell does.
int exit_code_of(const Launched& launched);

// Another process, whose end can be waited for.
class WaitedProcess {
 public:
  static Result<WaitedProcess> of(int32_t process);

  // Waits up to `timeout_ms` for the end of the process, and returns whether it has ended. Waits
  // the whole time if an earlier call has returned true.
  bool wait(int timeout_ms);

 private:
  explicit WaitedProcess(os::Fd fd) : fd_(std::move(fd)) {}
  os::Fd fd_;
  bool has_ended_ = false;
};

// Attaches to all threads of a running process and returns them. Each stops soon after.
Result<std::vector<int32_t>> attach(int32_t process);
// Stops a running thread soon.
void interrupt(int32_t thread);

// Waits for the next stop, or for `stop_flag` to be set if it is not nullptr.
Stop wait_for_stop(const std::atomic<bool>* stop_flag);
CurrentCall current_call(int32_t thread);
void resume(int32_t thread, Until until, int signal = 0);
// Clears CLONE_UNTRACED of a call that makes a child: an untraced child would inherit the filter,
// under which calls without a tracer fail. REQUIRES: the thread is at the entry of `call`.
void keep_child_traced(int32_t thread, const SystemCall& call);
// Leaves a thread stopped with its group, until SIGCONT.
void stay_stopped(int32_t thread);
// Sends a traced process SIGTERM, or SIGKILL if `at_once`.
void end_process(int32_t process, bool at_once);
// Detaches from a thread, which runs on untraced. REQUIRES: it is stopped, and not of a launched
// program, whose filter would make calls fail.
void detach(int32_t thread, int signal = 0);

// Copies from the memory of a stopped thread. Returns false if a part is not readable. (The number
// of its process would lead to the first thread, which may have ended before the others.)
bool read_memory(int32_t thread, uint64_t address, std::span<std::byte> into);
template <class T>
std::optional<T> read_value(int32_t thread, uint64_t address) {
  T value;
  const auto bytes = std::as_writable_bytes(std::span(&value, size_t{1}));
  return read_memory(thread, address, bytes) ? std::optional(value) : std::nullopt;
}
// Reads a string that ends with a zero byte. Returns nullopt if it is not readable.
std::optional<std::string> read_string(int32_t thread, uint64_t address);

// Reads request `index` of io_submit()'s list at `list_at`: a read, a write or a sync. Returns
// nullopt if it is of another kind, or not readable.
std::optional<DecodedCall> aio_request(int32_t thread, uint64_t list_at, uint64_t index);

}  // namespace penstock::trace
