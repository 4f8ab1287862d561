#pragma once

// Loads the programs that record in the kernel what threads do with files (watch.bpf.c), selects the
// processes, and reads the records. This is the platform's side of capture_bpf.cc, which makes events
// of the records.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "penstock/base.h"
#include "trace/capture/bpf/records.h"

namespace penstock::trace {

struct WatchOptions {
  uint64_t ring_bytes = uint64_t{1} << 25;  // a power of two
  int32_t attached = 0;                     // a running process that is traced from the start
};

// Thread safety: none.
// Invariants: while a KernelWatch exists, the kernel runs its programs at every system call of every
// process; a process that is not traced costs a lookup in a table. The destructor unloads them.
class KernelWatch {
 public:
  // Errors: unsupported (not built, or the kernel is too old or without BTF), permission.
  static Result<std::unique_ptr<KernelWatch>> open(const WatchOptions& options);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  // Traces a process of one thread, and all its descendants.
  Status trace(int32_t process);

  // Calls `take` for available records, in order. Each begins with a RecordHead, has the length of
  // its kind, and is valid only during the call, since it is in the ring. Returns whether there may
  // be more: one call reads a bounded number, because programs may be faster than we are.
  static constexpr size_t drained_at_once = size_t{1} << 17;
  bool drain(const std::function<void(std::span<const std::byte>)>& take);

  kernel::Counters counters() const;
  // Returns whether requests of io_urings have records.
  bool sees_rings() const;

 private:
  struct State;
  explicit KernelWatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::trace
