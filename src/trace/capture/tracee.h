#pragma once

// Other processes under ptrace(2): started or attached to, stopped at the calls of interest, looked
// at, and let go. The platform's side of capture_ptrace.cc, which decides what to do at each stop.

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
#include "trace/capture/asked_call.h"

namespace penstock::trace {

// Why a thread does not run.
struct Stop {
  enum class Kind {
    call,       // at the entry or the exit of a system call: ask current_call()
    child,      // it made `child`, a thread or a process, which is traced already
    exec,       // it runs a new program, as the only thread of its process
    signal,     // `signal` is on its way to it
    group,      // the process was stopped (SIGSTOP, Ctrl-Z)
    other,      // nothing to do
    exited,     // it is gone; `exit_code`
    killed,     // it is gone, by `signal`
    none_left,  // there is no thread any more that could stop
    asked,      // the flag `stop` is set
  };
  Kind kind = Kind::other;
  int32_t thread = 0;
  int32_t child = 0;
  int signal = 0;
  int exit_code = 0;
};

// How a stopped thread goes on.
enum class Until {
  call_of_interest,  // (by the seccomp filter; without one: never)
  next_call,         // the exit of this call, or the entry of any
};

enum class CallStage { none, entry, exit };
struct CurrentCall {
  CallStage stage = CallStage::none;
  SystemCall call;     // at an entry
  int64_t result = 0;  // at an exit; a negative errno
};

enum class LaunchAs {
  tracee,    // under ptrace: stops at calls of interest
  ordinary,  // watched by other means
};
struct LaunchOptions {
  LaunchAs as = LaunchAs::ordinary;
  bool stdout_is_taken = false;  // by the trace: what it writes there goes to standard error
};
// Starts a program. `prepare` is called with its process before it may run; an error of it is that
// of the launch. Its SIGTERM and SIGHUP follow ours until end_launched(). Errors are those of the
// system; a program that cannot be run is told by launch_error() once it has ended.
struct Launched {
  int32_t process = 0;
  os::Fd error_pipe;
  os::Fd handle;  // of the process, whose number may be somebody else's once it has ended
};
Result<Launched> launch(const std::vector<std::string>& command, const LaunchOptions& options,
                        const std::function<Status(int32_t process)>& prepare = {});
int launch_error(const Launched& launched);  // 0 or an errno
void end_launched(Launched& launched);
// For when it has ended and processes that it left are traced still: from now on SIGINT, SIGTERM
// and SIGHUP set this flag, which the caller may reset.
std::atomic<bool>& requests_to_end();
// The last SIGTERM or SIGHUP of ours that the last one launched was handed; 0: none.
int handed_signal();
// Waits for the end of an ordinary one: as a shell tells it.
int exit_code_of(const Launched& launched);

// Another process, whose end can be waited for.
class WaitedProcess {
 public:
  static Result<WaitedProcess> of(int32_t process);

  // Whether it has ended, after so long at most; after so long where it had ended before.
  bool wait(int timeout_ms);

 private:
  explicit WaitedProcess(os::Fd fd) : fd_(std::move(fd)) {}
  os::Fd fd_;
  bool has_ended_ = false;
};

// All threads of a process that runs. Each is stopped soon after.
Result<std::vector<int32_t>> attach(int32_t process);
// Stops a running thread soon.
void interrupt(int32_t thread);

// The next thing that happens. Without `stop` it waits for ever; with one it looks there as well.
Stop wait_for_stop(const std::atomic<bool>* stop);
CurrentCall current_call(int32_t thread);
void resume(int32_t thread, Until until, int signal = 0);
// REQUIRES: it is at the entry of `call`. A child that the call makes is traced, also where the program
// asks that it is not (CLONE_UNTRACED): it inherits the filter, under which calls without a tracer fail.
void keep_child_traced(int32_t thread, const SystemCall& call);
// Stays stopped with its group, until SIGCONT.
void stay_stopped(int32_t thread);
// Asks a traced process to end, or ends it.
void end_process(int32_t process, bool at_once);
// Lets go; it runs on untraced. REQUIRES: it is stopped, and not one of a launched program: the
// filter of those would make their calls fail.
void detach(int32_t thread, int signal = 0);

// Copies from the memory of a thread that is stopped; false when not all of it is there. (By the
// number of its process the kernel finds the first thread, which may have ended before the others.)
bool read_memory(int32_t thread, uint64_t address, std::span<std::byte> into);
template <class T>
std::optional<T> read_value(int32_t thread, uint64_t address) {
  T value;
  const auto bytes = std::as_writable_bytes(std::span(&value, size_t{1}));
  return read_memory(thread, address, bytes) ? std::optional(value) : std::nullopt;
}
// A string that ends with a zero byte; nothing when it is not there.
std::optional<std::string> read_string(int32_t thread, uint64_t address);

// The request of this index in the list at the address that io_submit() gets: a read, a write or a
// sync. Nothing when it is of another kind, or not there.
std::optional<AskedCall> aio_request(int32_t thread, uint64_t list_at, uint64_t index);

}  // namespace penstock::trace
