// The registry of regions, and the dispatcher that the kernel calls.
//
// A list under a lock and one saved "previous handler" would break: the fault path must not lock
// what the interrupted code may hold, a handler may block for minutes while others register and
// unregister, and handlers of other parties come and go above and below ours.
//
// Looking up. The regions stand in an immutable sorted Table behind an atomic pointer. A fault
// reads it inside a *lookup*, which increments one of a pair of counters; a writer that has
// published a new table waits for one after the other to reach zero (the scheme of sleepable RCU).
// A lookup lasts a few nanoseconds, so a writer spins. The handler itself runs outside of the
// lookup: before it ends, the lookup enters the region's Slot, whose count of visitors keeps the
// region alive, and unregistering sleeps until that count is zero. Slots are never freed, so a
// thread that leaves may still read one that has been unregistered.
//
// Chaining. Handlers that were installed before us, or above us later and then overtaken by
// install(), stand in Previous, newest last. A fault in no region goes to the newest. A handler
// that was installed above us has saved *us* as its predecessor: when it chains, dispatch() runs
// again, in the same signal, and must go on to the next older one instead of round in circles. It
// recognizes this by the signal context, which such a handler passes on, and by its own stack
// frame, which then lies deeper; or by the signal being one that this process sent itself, because
// CPython's faulthandler hands on with raise(). (A handler that jumped out instead leaves a record
// behind, which the next signal, on the same stack depth, does not mistake for its own.)
//
// Crashing. A fault that ends at SIG_DFL must look as if we were not there: the default action is
// restored and the instruction runs again, and faults with the same signal, code and address, with
// its own stack in the core. A signal that somebody sent would not come again by itself: it is sent
// to this thread once more, with all its data, and is delivered when the handler returns.
//
// Fork. The child has the handlers and a copy of the table, but none of the memory (the pools'
// pages stay with the parent). Each slot has the generation of the process that registered it
// (os/generation.h). A handler cannot serve a fault in an older one's region, and only reports
// whose it is. Such a slot leaves the child's table with its Registration, or when the child
// registers a region at the same addresses. It is not used again: it may count visitors that are
// threads of the parent.
//
// The heap. Closing a stream must not fail, so remove() allocates nothing: there are two Tables, of
// which one is published while the other waits with room for the next change, which add() makes;
// spare slots are a list of their own.
//
// Small alternate stacks. A handler that overflows the alternate stack faults below it, and the
// kernel starts dispatch() again at the stack's top, over the frames of the first call, for ever.
// dispatch() notes its frame: a second one at the same place, for an address just below it, ends
// the process with a message. That itself needs little stack (see dispatch()).
//
// Memory errors. A page that the hardware has lost raises SIGBUS whenever it is touched, although
// it is present: a handler would serve it for ever. So the handler is told that it is unservable.
//
// Costs: four atomic operations, a binary search and one system call (the signal mask) a fault, 0.1
// us of the 1.3 us that a signal takes.

#include "memory/fault/registry.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iterator>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/keep_errno.h"
#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "os/fault_context.h"
#include "os/futex.h"
#include "os/generation.h"

namespace penstock::fault {
namespace {

// ---------------------------------------------------------------- regions

// A registered region. Thread safety: begin, end, handler and made change only while the slot is in
// no table. visitors and awaited are atomic.
struct Slot {
  std::byte* begin = nullptr;
  std::byte* end = nullptr;
  Handler* handler = nullptr;
  os::Generation made;
  std::atomic<uint32_t> visitors{0};
  std::atomic<bool> awaited{false};
  Slot* next_spare = nullptr;  // list of slots that are in no table and may be used again
};

// Slots sorted by address, without overlap. Immutable while it is published.
using Table = std::vector<Slot*>;

Slot* search(const Table& table, const std::byte* address) {
  const auto above =
      std::upper_bound(table.begin(), table.end(), address,
                       [](const std::byte* a, const Slot* slot) { return a < slot->begin; });
  if (above == table.begin()) return nullptr;
  Slot* const slot = *(above - 1);
  return address < slot->end ? slot : nullptr;
}

constexpr Table no_regions;

std::atomic<const Table*> table_now{&no_regions};
std::atomic<uint32_t> lookup_phase{0};
std::atomic<uint32_t> lookups[2];

// Keeps the table that now() returns alive for a short time. May stand on the fault path.
class Lookup {
 public:
  // seq_cst, pairs with wait_for_lookups(): either the writer sees this count, or this lookup sees
  // the writer's table. relaxed: the writer waits for both counters.
  Lookup() : phase_(lookup_phase.load(std::memory_order_relaxed)) {
    lookups[phase_].fetch_add(1, std::memory_order_seq_cst);
  }
  ~Lookup() { lookups[phase_].fetch_sub(1, std::memory_order_release); }
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;
  const Table& now() const { return *table_now.load(std::memory_order_seq_cst); }

 private:
  const uint32_t phase_;
};

// Returns when no lookup can see a table that was replaced before the call. Two rounds, because a
// lookup may have read the phase at any time before it counts itself, and be in either counter. The
// phase only leads new lookups away from the counter that is waited for, so that it reaches zero.
void wait_for_lookups() {
  for (int round = 0; round < 2; ++round) {
    const uint32_t old_phase = lookup_phase.load(std::memory_order_relaxed);
    lookup_phase.store(old_phase ^ 1, std::memory_order_relaxed);
    while (lookups[old_phase].load(std::memory_order_seq_cst) != 0) sched_yield();
  }
}

// Enters the region's slot and returns it; nullptr if nobody serves the address.
Slot* enter(const std::byte* address) {
  const Lookup lookup;
  Slot* const slot = search(lookup.now(), address);
  if (slot != nullptr) slot->visitors.fetch_add(1, std::memory_order_relaxed);
  return slot;
}

// seq_cst, pairs with wait_for_visitors(): either this sees a waiter, or the waiter sees the count.
void leave(Slot& slot) {
  if (slot.visitors.fetch_sub(1, std::memory_order_seq_cst) == 1 &&
      slot.awaited.load(std::memory_order_seq_cst))
    os::futex_wake_all(slot.visitors);
}

void wait_for_visitors(Slot& slot) {
  slot.awaited.store(true, std::memory_order_seq_cst);
  while (const uint32_t visitors = slot.visitors.load(std::memory_order_seq_cst))
    os::futex_wait(slot.visitors, visitors);
  slot.awaited.store(false, std::memory_order_relaxed);
}

// ---------------------------------------------------------------- previous handlers

constexpr int handled_signals[] = {SIGSEGV, SIGBUS};

struct PreviousAction {
  struct sigaction action = {};
  std::atomic<bool> spent{false};  // SA_RESETHAND: it was called once, and is now SIG_DFL
};

// Previous actions, oldest first; immutable except `spent`. Replaced as a whole and never freed,
// because a signal may still use the old one.
using Previous = std::vector<std::shared_ptr<PreviousAction>>;

constexpr Previous no_previous;
std::atomic<const Previous*> previous_of[2] = {&no_previous, &no_previous};

std::atomic<const Previous*>& previous(int signal) {
  return previous_of[signal == SIGBUS];
}

void dispatch(int signal, siginfo_t* info, void* context);

struct sigaction action_now(int signal) {
  struct sigaction action = {};
  PENSTOCK_CHECK(sigaction(signal, nullptr, &action) == 0,
                 "the handler of a signal cannot be read");
  return action;
}

bool is_ours(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == dispatch;
}

bool is_function(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 ||
         (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

bool same_function(const struct sigaction& a, const struct sigaction& b) {
  return ((a.sa_flags ^ b.sa_flags) & SA_SIGINFO) == 0 && a.sa_handler == b.sa_handler;
}

// Returns the actions with a newest one. A program that sets a signal to its default, or ignores
// it, wants none of the older handlers any more. A handler installed again moves to the top.
const Previous* with_newest(const Previous& old, const struct sigaction& action) {
  auto next = std::make_unique<Previous>();
  if (is_function(action))
    std::copy_if(old.begin(), old.end(), std::back_inserter(*next),
                 [&](const auto& entry) { return !same_function(entry->action, action); });
  auto newest = std::make_shared<PreviousAction>();
  newest->action = action;
  next->push_back(std::move(newest));
  return next.release();
}

void set_default(int signal) {
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

// Returns whether the signal comes again by itself when the interrupted instruction runs again.
bool comes_again(const siginfo_t& info) {
  return info.si_code > 0 && !(info.si_signo == SIGBUS && info.si_code == BUS_MCEERR_AO);
}

// Returns whether a handler sent the signal by raise(), to hand a crash to the handler before it.
bool sent_by_us(const siginfo_t& info) {
  return (info.si_code == SI_TKILL || info.si_code == SI_USER) && info.si_pid == getpid();
}

void crash(int signal, siginfo_t* info) {
  set_default(signal);
  if (comes_again(*info)) return;
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  // Blocked until the return from the handler restores the mask.
  pthread_sigmask(SIG_BLOCK, &only, nullptr);
  syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info);
}

// Calls a handler as the kernel would have called it.
void call(int signal, siginfo_t* info, void* context, const struct sigaction& action) {
  sigset_t blocked = action.sa_mask;
  if ((action.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(signal, info, context);
  } else {
    action.sa_handler(signal);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

// The signal for which this thread is currently in a previous handler.
struct Chaining {
  const void* context = nullptr;
  const void* frame = nullptr;
  size_t level = 0;  // previous handlers that were passed by, from the newest on
};
// initial-exec: the first touch of other thread-local variables may allocate.
[[gnu::tls_model("initial-exec")]] constinit thread_local Chaining chaining;

void chain(int signal, siginfo_t* info, void* context, const void* frame) {
  const Previous& handlers = *previous(signal).load(std::memory_order_acquire);
  const Chaining outer = chaining;
  const bool again = (outer.context == context || sent_by_us(*info)) && outer.context != nullptr &&
                     std::less<const void*>()(frame, outer.frame);
  const size_t level = again ? outer.level + 1 : 0;
  if (level >= handlers.size()) return crash(signal, info);

  PreviousAction& handler = *handlers[handlers.size() - 1 - level];
  const bool spent = (handler.action.sa_flags & static_cast<int>(SA_RESETHAND)) != 0 &&
                     handler.spent.exchange(true, std::memory_order_relaxed);
  if (!is_function(handler.action) || spent) {
    const bool ignored = !spent && handler.action.sa_handler == SIG_IGN;
    // The kernel lets nobody ignore a fault, which would happen again for ever.
    if (!ignored || comes_again(*info)) crash(signal, info);
    return;
  }
  chaining = {context, frame, level};
  call(signal, info, context, handler.action);
  chaining = outer;
}

// ---------------------------------------------------------------- the dispatcher

// The frame of this thread's innermost dispatch() that is serving a fault.
[[gnu::tls_model("initial-exec")]] constinit thread_local const void* serving_frame = nullptr;
// Largest distance of a handler's own accesses below its frame.
constexpr uintptr_t small_stack_bytes_max = 32 << 10;

bool is_memory_error(const siginfo_t& info) {
  return info.si_signo == SIGBUS &&
         (info.si_code == BUS_MCEERR_AR || info.si_code == BUS_MCEERR_AO);
}

bool serve(const siginfo_t& info, void* context) {
  const Access access = os::fault_access(context);
  const bool is_lost = is_memory_error(info);
  if (info.si_code <= 0 || (access == Access::execute && !is_lost))
    return false;  // sent by somebody; a jump into data
  auto* const address = static_cast<std::byte*>(info.si_addr);
  Slot* const slot = enter(address);
  if (slot == nullptr) return false;
  const Fault fault{address, access, context};
  const Outcome outcome =
      is_lost                ? slot->handler->on_unservable(fault, info.si_code == BUS_MCEERR_AR
                                                                       ? Unservable::memory_error
                                                                       : Unservable::memory_error_ahead)
      : slot->made.is_past() ? slot->handler->on_unservable(fault, Unservable::inherited)
                             : slot->handler->on_fault(fault);
  leave(*slot);
  return outcome == Outcome::retry;
}

sigset_t fault_signals() {
  sigset_t faults;
  sigemptyset(&faults);
  for (const int signal : handled_signals) sigaddset(&faults, signal);
  return faults;
}

[[gnu::noinline]] void serve_or_chain(int signal, siginfo_t* info, void* context,
                                      const void* frame) {
  bool served;
  {
    const KeepErrno keep;
    // Our flags let faults in handlers through; a handler that chains to us may have blocked them.
    unblock_faults();
    served = serve(*info, context);
  }
  if (served) return;
  serving_frame = nullptr;  // a previous handler may jump out
  chain(signal, info, context, frame);
}

// Bound early, because looking functions up at their first call takes 3 KiB of stack.
ssize_t (*volatile const bound_write)(int, const void*, size_t) = ::write;
long (*volatile const bound_syscall)(long, ...) = ::syscall;

// Ends the process with a message. It needs little stack, and so do the functions that it calls.
[[gnu::noinline, gnu::cold]] void end_for_small_stack(int signal) {
  static constexpr char message[] =
      "penstock: the alternate signal stack of a thread (sigaltstack) is too small to serve a "
      "fault "
      "(try: 16 KiB more than the kernel's own need, getauxval(AT_MINSIGSTKSZ))\n";
  // The kernel's struct, because a copy of the C library's would not fit. All zeros is the default
  // action, which ends the process when the instruction that found no stack runs again, at the
  // latest the message's.
  static constexpr struct {
    const void* handler;
    unsigned long flags;
    const void* restorer;
    uint64_t mask;
  } to_default = {};
  bound_syscall(SYS_rt_sigaction, signal, &to_default, nullptr, sizeof to_default.mask);
  (void)!bound_write(STDERR_FILENO, message, sizeof message - 1);
}

// The signal handler. Its own frame is small, and it is the first one on the handler's stack: so it
// runs even if its callees would overflow.
[[gnu::noinline]] void dispatch(int signal, siginfo_t* info, void* context) {
  const auto* const frame = static_cast<const std::byte*>(__builtin_frame_address(0));
  const auto below =
      reinterpret_cast<uintptr_t>(frame) - reinterpret_cast<uintptr_t>(info->si_addr);
  if (serving_frame == frame && below < small_stack_bytes_max) return end_for_small_stack(signal);
  const void* const outer = serving_frame;
  serving_frame = frame;
  serve_or_chain(signal, info, context, frame);
  serving_frame = outer;
}

// ---------------------------------------------------------------- the registry

// State changed by registering and installing, under one lock that is never taken on the fault
// path. Process-wide, because signal handlers are.
struct Registry {
  Mutex mutex;
  Table tables[2] GUARDED_BY(mutex);
  // The table that is not published. Invariant: it has room for all published slots but one.
  Table* next GUARDED_BY(mutex) = &tables[0];
  Slot* spare GUARDED_BY(mutex) = nullptr;
  bool forks_watched GUARDED_BY(mutex) = false;
};

Registry& registry() {
  // Never destroyed: threads may outlive static destruction.
  static Registry& instance = *new Registry;
  return instance;
}

void publish_next() noexcept REQUIRES_LOCK(registry().mutex) {
  Table* const next = registry().next;
  table_now.store(next, std::memory_order_seq_cst);
  registry().next = &registry().tables[next == &registry().tables[0] ? 1 : 0];
  wait_for_lookups();
}

void before_fork() PENSTOCK_THREAD_ANNOTATION(no_thread_safety_analysis) {
  registry().mutex.lock();
}
void after_fork_in_parent() PENSTOCK_THREAD_ANNOTATION(no_thread_safety_analysis) {
  registry().mutex.unlock();
}
void after_fork_in_child() PENSTOCK_THREAD_ANNOTATION(no_thread_safety_analysis) {
  for (auto& count : lookups) count.store(0, std::memory_order_relaxed);
  registry().mutex.unlock();
}

Status install_one(int signal) REQUIRES_LOCK(registry().mutex) {
  const struct sigaction front = action_now(signal);
  if (is_ours(front)) return {};
  // The chain comes first, because a fault may come as soon as the handler is installed. The
  // replaced chain is not freed. release, pairs with chain().
  previous(signal).store(with_newest(*previous(signal).load(std::memory_order_relaxed), front),
                         std::memory_order_release);
  struct sigaction ours = {};
  ours.sa_sigaction = dispatch;
  // NODEFER: a handler may fault in another region. ONSTACK: Go and others require it. RESTART is
  // for signals that are sent.
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (front.sa_flags & SA_RESTART);
  sigemptyset(&ours.sa_mask);
  if (sigaction(signal, &ours, nullptr) != 0)
    return system_error(errno, "install a fault handler", strsignal(signal));
  return {};
}

Status install_locked() REQUIRES_LOCK(registry().mutex) {
  for (const int signal : handled_signals)
    if (Status status = install_one(signal); !status) return status;
  if (!registry().forks_watched &&
      pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) != 0)
    return failure(ErrorCode::out_of_memory, "watch for forks", "fault registry");
  registry().forks_watched = true;
  return {};
}

Slot* take_spare() REQUIRES_LOCK(registry().mutex) {
  Slot* const slot = registry().spare;
  if (slot == nullptr) return new Slot;
  registry().spare = slot->next_spare;
  return slot;
}

void remove(Slot* slot) noexcept {
  {
    MutexLock lock(registry().mutex);
    const Table& now = *table_now.load(std::memory_order_relaxed);
    // Absent if it was inherited and made way for a region of this process.
    if (std::find(now.begin(), now.end(), slot) == now.end()) return;
    Table& next = *registry().next;
    next.clear();
    std::copy_if(now.begin(), now.end(), std::back_inserter(next),
                 [&](const Slot* other) { return other != slot; });
    publish_next();
  }
  if (slot->made.is_past()) return;
  // Waits without the lock: a handler may take its time, and others register meanwhile.
  wait_for_visitors(*slot);
  MutexLock lock(registry().mutex);
  slot->next_spare = std::exchange(registry().spare, slot);
}

Result<Slot*> add_locked(std::byte* begin, uint64_t bytes, Handler& handler)
    REQUIRES_LOCK(registry().mutex) {
  if (Status status = install_locked(); !status) return std::unexpected(status.error());
  const Table& now = *table_now.load(std::memory_order_relaxed);
  Table& next = *registry().next;
  next.clear();
  if (next.capacity() <= now.size()) next.reserve(2 * now.size() + 1);
  std::copy_if(now.begin(), now.end(), std::back_inserter(next), [&](const Slot* slot) {
    return !(slot->begin < begin + bytes && begin < slot->end && slot->made.is_past());
  });
  const auto above =
      std::lower_bound(next.begin(), next.end(), begin,
                       [](const Slot* slot, const std::byte* b) { return slot->end <= b; });
  if (above != next.end() && (*above)->begin < begin + bytes)
    return failure(ErrorCode::invalid_argument, "register a region that overlaps another",
                   "fault registry");
  Slot* const slot = take_spare();
  slot->begin = begin;
  slot->end = begin + bytes;
  slot->handler = &handler;
  slot->made = os::Generation::now();
  next.insert(above, slot);
  publish_next();
  return slot;
}

}  // namespace

Result<Registration> Registration::add(std::byte* begin, uint64_t bytes, Handler& handler) {
  if (begin == nullptr || bytes == 0 || bytes > UINTPTR_MAX - reinterpret_cast<uintptr_t>(begin))
    return failure(ErrorCode::invalid_argument, "register an empty region", "fault registry");
  unblock_faults();
  MutexLock lock(registry().mutex);
  try {
    const Result<Slot*> slot = add_locked(begin, bytes, handler);
    if (!slot) return std::unexpected(slot.error());
    Registration registration;
    registration.slot_ = *slot;
    return registration;
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
}

Registration::Registration(Registration&& other) noexcept
    : slot_(std::exchange(other.slot_, nullptr)) {}

Registration& Registration::operator=(Registration&& other) noexcept {
  if (this != &other) {
    Registration ended(std::move(*this));
    slot_ = std::exchange(other.slot_, nullptr);
  }
  return *this;
}

Registration::~Registration() {
  if (slot_ != nullptr) remove(static_cast<Slot*>(slot_));
}

void unblock_faults() noexcept {
  const sigset_t faults = fault_signals();
  pthread_sigmask(SIG_UNBLOCK, &faults, nullptr);
}

void unblock_faults_once() noexcept {
  [[gnu::tls_model("initial-exec")]] static constinit thread_local bool done = false;
  if (std::exchange(done, true)) return;
  unblock_faults();
}

bool installed() {
  return std::all_of(std::begin(handled_signals), std::end(handled_signals),
                     [](int signal) { return is_ours(action_now(signal)); });
}

Status install() {
  return or_out_of_memory([] {
    MutexLock lock(registry().mutex);
    return install_locked();
  });
}

namespace {

Status uninstall_now() {
  MutexLock lock(registry().mutex);
  const Table& now = *table_now.load(std::memory_order_relaxed);
  if (!std::all_of(now.begin(), now.end(), [](const Slot* slot) { return slot->made.is_past(); }))
    return failure(ErrorCode::invalid_argument,
                   "uninstall the fault handlers while regions are registered", "fault registry");
  for (const int signal : handled_signals) {
    const Previous& handlers = *previous(signal).load(std::memory_order_relaxed);
    if (handlers.empty() || !is_ours(action_now(signal)))
      continue;  // a handler above us keeps its place
    sigaction(signal, &handlers.back()->action, nullptr);
  }
  return {};
}

}  // namespace

Status uninstall() {
  return or_out_of_memory(uninstall_now);
}

Result<size_t> Handler::prepare(std::byte*, size_t, Access) {
  return failure(ErrorCode::unsupported, "prepare memory for a system call", "a region",
                 "its handler implements prepare()");
}

Handler* find(const void* address) {
  const Lookup lookup;
  const Slot* const slot = search(lookup.now(), static_cast<const std::byte*>(address));
  return slot == nullptr || slot->made.is_past() ? nullptr : slot->handler;
}

}  // namespace penstock::fault
