#pragma once

// Who answers for a fault at an address. The only process-wide state of the library: signal
// handlers force it.
//
// A Region is a range of addresses and the Handler that serves faults in it. The first registration
// installs our handlers for SIGSEGV and SIGBUS; a fault in no region goes to the handler that was
// there before, or crashes exactly as without us.

#include <cstddef>
#include <cstdint>

#include "os/fault_context.h"
#include "penstock/base.h"

namespace penstock::fault {

using Access = os::FaultAccess;  // execute: only of memory that was lost

struct Fault {
  std::byte* address;
  Access access;
  // The ucontext_t of the interrupted code; nullptr when the fault is served for another thread
  // (EventServer), which waits in the kernel.
  void* context;
};

enum class Outcome {
  retry,  // served: run the instruction again
  // Not ours after all: hand on, as if no region had been found. Served for another thread: that
  // thread gets a signal, and its own call of on_fault with a context; a system call gets EFAULT.
  decline,
};

// A fault in a region that its handler cannot serve, whatever it does: it is asked what to say.
enum class Unservable {
  // This process is a forked child, and the region is its parent's.
  inherited,
  // The hardware has lost what was there (SIGBUS with BUS_MCEERR_AR), or a handler that was asked
  // on behalf of a thread in the kernel declined (EventServer).
  memory_error,
  // The hardware has lost what is there, and nobody has touched it yet (BUS_MCEERR_AO): the
  // interrupted code is any.
  memory_error_ahead,
};

// The interface that a stream, or a user's own region, implements.
// on_fault runs in the faulting thread, inside a signal handler, on that thread's stack or
// alternate stack: it must not allocate and must not take locks that the interrupted code may hold.
// It may block. errno is kept for it. It may itself touch other regions (nested faults are served).
class Handler {
 public:
  virtual Outcome on_fault(const Fault& fault) noexcept = 0;

  // Called instead of on_fault, under the same rules. In a forked child it runs on the child's copy
  // of the handler, whose locks may be held by threads that are not there.
  virtual Outcome on_unservable(const Fault& fault, Unservable why) noexcept {
    (void)fault, (void)why;
    return Outcome::decline;
  }

  // Makes memory ready for a system call, which would get EFAULT where a load or store faults: the
  // byte at `address` and as many of the `bytes` behind it as can be there at once. Returns how
  // many (at least 1); they stay until the same side moves on. Called outside of handlers; may
  // wait. REQUIRES: the bytes lie in the region, bytes > 0. Errors: what on_fault would have met.
  virtual Result<size_t> prepare(std::byte* address, size_t bytes, Access access);

 protected:
  ~Handler() = default;
};

// Keeps a region registered for as long as it lives. Destruction waits until no thread is inside
// the region's handler. In a forked child its faults are Unservable::inherited until it is
// destroyed there, or the child registers something at the same addresses. Thread safety: a
// move-only value; registering and unregistering may be done from any thread outside a handler.
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

// Unblocks SIGSEGV and SIGBUS in this thread, the caller's or ours. Where an access raises a signal
// that its thread has blocked, the kernel calls no handler: it ends the process, without a word. So all
// calls by which a thread comes to a stream's pointer do this: Registration::add(), and those that
// hand the pointer out.
void unblock_faults() noexcept;
// Does it at the first call in each thread alone: a call that hands a pointer out may stand in a loop.
void unblock_faults_once() noexcept;
template <class T>
T* for_this_thread(T* pointer) noexcept {
  unblock_faults_once();
  return pointer;
}

// Whether both signals reach us first, or through a handler that chains to us as far as can be
// seen.
bool installed();
// Puts our handlers (back) in front; what was installed meanwhile is chained to. Registration does
// so by itself.
Status install();
// Gives the handlers back to what was there before. REQUIRES: no region is registered.
Status uninstall();

// The region of this process that serves `address`, or nullptr. Lock-free; for tests and messages.
Handler* find(const void* address);

}  // namespace penstock::fault
