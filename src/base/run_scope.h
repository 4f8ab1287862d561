#pragma once

// The accounts of one run over files, for all its threads: its memory, and the bytes that it moves.
//
// A budget can limit the resident memory of the whole process, or the memory of one run. The system
// measures the first, and a program that does nothing else needs no more. But a library is a guest:
// its host may hold 10 GB, and run two sorts at once; then resident memory says nothing about
// either sort. So a run keeps an account of its own.
//
// Counting the allocator's memory would mean to replace the allocator of the whole process, and
// most of a run's memory never comes from there. Memory in a run belongs to few kinds of things,
// each of which knows its size and charges it where it is made:
//
//   exact         blocks of pools, from when they first have memory (memory/pool/arena_pool.cc)
//   as committed  arenas, rooms and tables in a mapping of their own (os::Reservation::charge()),
//                 whether they are touched or not; buffers and lists on the heap that grow with the
//                 budget or with the input (MemoryCharge)
//   by a bound    threads (thread_bytes each), decoders (by their format's header), keys of a sample
//   the reserve   everything small: objects on the heap, the allocator's losses between them, rings
//                 of requests, page tables. It is charged when the account is opened, as a share of
//                 the budget (files/run/memory_plan.cc), and plans only have the rest. Threads and other
//                 charges of the kind `small` come out of it, and count once it is used up
//
// Not charged are: code and constants of the library and of others, which all runs share and the
// system can drop; the page cache of files that are not read directly; memory of the caller's
// callbacks. So the account is never less than the run's memory, and seldom much more;
// interfaces/api/memory_scope_test.cc compares it with the growth of the process.
//
// Charges are made in seven layers, below options that know nothing of runs (a sort of memory, a
// stream, a pool). They find the account through their thread, which works for a run: RunScope sets
// the account, start_thread() hands it on to every thread that is started from there, and a charge
// keeps it until it is released, on whatever thread that is. A run within a run (the sort that a
// join needs) finds an account and charges that. Callbacks of the caller are called outside of it
// (NoRunScope): their memory, and runs of their own, are no part of the calling run.
//
// Traffic finds its account in the same way. An engine adds its requests to the run of the thread
// that opened it, wherever they complete; reads and writes without an engine go to the run of the
// thread that makes them. So each run has its own figures and progress.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/signal_mask.h"

namespace penstock {

enum class MemoryKind : uint8_t { planned, small };

// Counts the memory of a run. Thread safety: all members from any thread; charge() and release()
// neither allocate nor lock. Invariant: bytes() is the charges of kind `planned` plus the larger of
// the reserve and the charges of kind `small`; peak_bytes() is the most that any charge() found.
class MemoryAccount {
 public:
  explicit MemoryAccount(uint64_t reserve_bytes) noexcept
      : reserve_bytes_(reserve_bytes), peak_bytes_(reserve_bytes) {}
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  void charge(uint64_t bytes, MemoryKind kind = MemoryKind::planned) noexcept;
  void release(uint64_t bytes, MemoryKind kind = MemoryKind::planned) noexcept;
  uint64_t bytes() const noexcept;
  uint64_t reserve_bytes() const noexcept { return reserve_bytes_; }
  uint64_t peak_bytes() const noexcept { return peak_bytes_.load(std::memory_order_relaxed); }

 private:
  const uint64_t reserve_bytes_;
  std::atomic<uint64_t> planned_bytes_{0};
  std::atomic<uint64_t> small_bytes_{0};
  std::atomic<uint64_t> peak_bytes_;
};

// Counts reads and writes of one run (io/engine.h: Traffic). Thread safety: all members from any
// thread, relaxed: they are figures, and hand over nothing.
struct TrafficAccount {
  std::atomic<uint64_t> bytes_read{0}, bytes_written{0}, requests{0}, seeks{0}, switches{0};
  std::atomic<uint64_t> place{0};  // arm position of a device that the run had for itself
};

// The state that a run's threads share. nullptr: the thread works for no run, or for one without.
struct RunState {
  std::shared_ptr<MemoryAccount> account = {};
  std::shared_ptr<TrafficAccount> traffic = {};
};
const RunState& current_run() noexcept;
// Returns the traffic of this thread's run. Threads without a run share an account.
TrafficAccount& current_traffic() noexcept;

// Makes this thread work for a run while it lives. Thread safety: one thread; scopes nest.
class RunScope {
 public:
  explicit RunScope(RunState state) noexcept;
  ~RunScope();
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  const RunState state_;
  const RunState* const before_;
};

// Makes this thread work for no run, with the caller's signals, while it lives: for callbacks.
class NoRunScope : RunScope, CallersSignals {
 public:
  NoRunScope() noexcept : RunScope({}) {}
};

// A charge of bytes to the account of the thread that makes it, until it is destroyed; without an
// account it does nothing. Thread safety: a move-only value.
class MemoryCharge {
 public:
  MemoryCharge() = default;
  explicit MemoryCharge(uint64_t bytes, MemoryKind kind = MemoryKind::planned) noexcept;
  MemoryCharge(MemoryCharge&& other) noexcept
      : account_(std::move(other.account_)),
        bytes_(std::exchange(other.bytes_, 0)),
        kind_(other.kind_) {}
  MemoryCharge& operator=(MemoryCharge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(bytes_, other.bytes_);
    std::swap(kind_, other.kind_);
    return *this;
  }
  ~MemoryCharge() { set(0); }

  // Changes the charge to `bytes`.
  void set(uint64_t bytes) noexcept;
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<MemoryAccount> account_;
  uint64_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::planned;
};

// Memory of a thread: the touched parts of its stack and its signal stack, and the system
// allocator's memory for it.
inline constexpr uint64_t thread_bytes = 128 << 10;

}  // namespace penstock
