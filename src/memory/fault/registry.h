#pragma once

// The registry of handlers for faults. It is the only process-wide state of the library, because
// signal handlers are process-wide.
//
// A Region is a range of addresses and the Handler that serves faults in it. The first registration
// installs our handlers for SIGSEGV and SIGBUS; a fault in no region goes to the handler that was
// there before, or crashes exactly as without us.

#include <cstddef>
#include <cstdint>

#include "os/fault_context.h"
#include "penstock/base.h"

namespace penstock::fault {

using Access = os::FaultAccess;  // execute: only for lost memory

struct Fault {
  std::byte* address;
  Access access;
  // The ucontext_t of the interrupted code; nullptr if the fault is served for another thread
  // (EventServer), which waits in the kernel.
  void* context;
};

enum class Outcome {
  retry,  // served: run the instruction again
  // Not ours after all: goes on as if no region had been found. If served for another thread, that
  // thread gets a signal, and its own call of on_fault with a context; a system call gets EFAULT.
  decline,
};

// The reasons why a fault in a region cannot be served by its handler, which may only report it.
enum class Unservable {
  // This process is a forked child, and the region is its parent's.
  inherited,
  // The hardware has lost the page's data (SIGBUS with BUS_MCEERR_AR), or a handler that was called
  // on behalf of a thread in the kernel declined (EventServer).
  memory_error,
  // The hardware has lost the page's data, and nobody has touched it yet (BUS_MCEERR_AO): the
  // interrupted code is unrelated.
  memory_error_ahead,
};

// The interface that a stream, or a user's own region, implements. on_fault runs in the faulting
// thread, inside a signal handler, on that thread's stack or alternate stack: it must not allocate
// and must not take locks that the interrupted code may hold. It may block. errno is kept for it.
// It may itself touch other regions (nested faults are served).
class Handler {
 public:
  virtual Outcome on_fault(const Fault& fault) noexcept = 0;

  // Called instead of on_fault, under the same rules. In a forked child it runs on the child's copy
  // of the handler, whose locks may be held by threads that do not exist there.
  virtual Outcome on_unservable(const Fault& fault, Unservable why) noexcept {
    (void)fault, (void)why;
    return Outcome::decline;
  }

  // Makes memory ready for a system call, which would get EFAULT instead of a fault: the byte at
  // `address` and as many of the `bytes` behind it as can be there at once. Returns their number
  // (at least 1); they stay ready until the same side moves on. Called outside of handlers; may
  // wait. REQUIRES: the bytes lie in the region, bytes > 0. Errors: those of on_fault.
  virtual Result<size_t> prepare(std::byte* address, size_t bytes, Access access);

 protected:
  ~Handler() = default;
};

// Keeps a region registered while it lives. Destruction waits until no thread is inside the
// region's handler. In a forked child its faults are Unservable::inherited until it is destroyed
// there, or the child registers something at the same addresses. Thread safety: a move-only value;
// registering and unregistering may be done from any thread outside a handler.
class Registration {
 public:
  static Result<Registration> add(std::byte* begin, uint64_t bytes, Handler& handler);
  Registration() = default;
  Registration(Registration&& other) noexcept;
  Registration& operator=(Registration&& other) noexcept;
  ~Registration();
  explicit operator bool() const { return slot_ != nullptr; }

 private:
  void* slot_ = nullptr;
};

// Unblocks SIGSEGV and SIGBUS in this thread. If an access raises a signal that its thread has
// blocked, the kernel calls no handler: it ends the process without a message. So all calls by
// which a thread gets a stream's pointer do this, and Registration::add().
void unblock_faults() noexcept;
// Unblocks them only at the first call in each thread, for calls that may stand in a loop.
void unblock_faults_once() noexcept;
template <class T>
T* for_this_thread(T* pointer) noexcept {
  unblock_faults_once();
  return pointer;
}

// Returns whether both signals reach us first, or through a handler that seems to chain to us.
bool installed();
// Puts our handlers (back) in front, and chains to those that were installed meanwhile.
// Registration does so by itself.
Status install();
// Gives the signals back to the previous handlers. REQUIRES: no region is registered.
Status uninstall();

// Returns the handler of this process for `address`, or nullptr. Lock-free; for tests and messages.
Handler* find(const void* address);

}  // namespace penstock::fault
