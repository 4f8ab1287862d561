#pragma once

// The accounts of one run over files, wherever its threads are: the memory that it takes, and the bytes
// that it moves.
//
// A budget can be held against what the whole process has resident, or against what one run takes.
// The first is what the system measures, and all that a program can know which does nothing else. A
// library is a guest: its host may hold 10 GB, and run two sorts at once; what is resident then says
// nothing of either. So a run keeps an account of its own.
//
// The naive way counts what the allocator gives. It would have to stand in for the allocator of the
// whole process, and most of what a run takes never comes from there. What takes memory in a run is
// few kinds of things, each of which knows how much it takes, and is asked where it is made:
//
//   exact         blocks of pools, from when they first have memory (memory/pool/arena_pool.cc)
//   as committed  arenas, rooms and tables that lie in a mapping of their own
//                 (os::Reservation::charge()), whether they are touched or not; buffers and lists on
//                 the heap that grow with the budget or with what is read (MemoryCharge)
//   by a bound    threads (thread_bytes each), decoders (what their format's header asks for), keys of a
//                 sample
//   the reserve   all that is small: objects on the heap, what the allocator loses between them, rings of
//                 requests, page tables. It is charged when the account is opened, as a share of the
//                 budget (files/run/memory_plan.cc), and plans have only what it leaves. Threads and
//                 other charges of the kind `small` come out of it, and count when it is used up
//
// What is not charged: code and constants of the library and of others, which all runs share and
// the system can drop; the page cache of what is not read directly; what callbacks of the caller
// take. So the account is never less than what the run takes, and seldom much more; tests hold it
// against what the process grows by (interfaces/api/memory_scope_test.cc).
//
// How a charge finds its account. They are made in seven layers, below options that know nothing of
// runs (a sort of memory, a stream, a pool). The account belongs to the thread that works for the
// run: RunScope sets it, start_thread() hands it on to every thread that is started from there, and a
// charge keeps it until it is released, on whatever thread that is. A run within a run (the sort
// that a join needs) finds an account and charges that. Callbacks of the caller are called outside of
// it (NoRunScope): what they take, and runs of their own, are no part of the run that calls.
//
// Traffic finds its account in the same way. An engine adds its requests to the run of the thread that
// opened it, wherever they complete; reads and writes without an engine go to the run of the thread that
// makes them. So the figures and the progress of runs in several threads are each run's own.

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/signal_mask.h"

namespace penstock {

enum class MemoryKind : uint8_t { planned, small };

// Thread safety: all members from any thread; charge() and release() neither allocate nor lock.
// Invariant: bytes() is what is charged as `planned`, and the reserve or, where that is more, what is
// charged as `small`; peak_bytes() is the most that any charge() found.
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

// Reads and writes of one run (io/engine.h: Traffic). Thread safety: all members from any thread,
// relaxed: they are figures, and hand over nothing.
struct TrafficAccount {
  std::atomic<uint64_t> bytes_read{0}, bytes_written{0}, requests{0}, seeks{0}, switches{0};
  std::atomic<uint64_t> place{0};  // where the arm of a device would be that the run had for itself
};

// What the threads of a run share. Nothing: the thread works for no run, or for one without.
struct RunState {
  std::shared_ptr<MemoryAccount> account = {};
  std::shared_ptr<TrafficAccount> traffic = {};
};
const RunState& current_run() noexcept;
// Traffic of this thread's run. Threads without a run share an account of their own.
TrafficAccount& current_traffic() noexcept;

// As long as it lives, this thread works for that run. Thread safety: one thread; they nest.
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

// Around callbacks: as long as it lives, this thread works for no run, and has the caller's signals.
class NoRunScope : RunScope, CallersSignals {
 public:
  NoRunScope() noexcept : RunScope({}) {}
};

// Bytes that are charged to the account of the thread that makes it, until it is gone; where there is no
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

  // So much from now on.
  void set(uint64_t bytes) noexcept;
  uint64_t bytes() const noexcept { return bytes_; }

 private:
  std::shared_ptr<MemoryAccount> account_;
  uint64_t bytes_ = 0;
  MemoryKind kind_ = MemoryKind::planned;
};

// What a thread has touched of its stack and of the one for its faults, and what the system's allocator keeps for
// it.
inline constexpr uint64_t thread_bytes = 128 << 10;

}  // namespace penstock
