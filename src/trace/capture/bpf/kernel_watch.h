#pragma once

// Programs in the kernel that tell what threads ask of files (bpf/watch.bpf.c): loaded, told whom
// to look at, and heard. The platform's side of capture_bpf.cc, which makes events of what they
// say.

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
  int32_t attached = 0;                     // a process that runs, traced at once
};

// Thread safety: none.
// Invariants: while one exists, the kernel runs its programs at every system call of every process:
// a table is looked into for those that are not traced. With its end they are gone.
class KernelWatch {
 public:
  // Errors: unsupported (not built, or the kernel is too old or without BTF), permission.
  static Result<std::unique_ptr<KernelWatch>> open(const WatchOptions& options);
  ~KernelWatch();
  KernelWatch(const KernelWatch&) = delete;
  KernelWatch& operator=(const KernelWatch&) = delete;

  // Traces a process of one thread, and all that come of it.
  Status trace(int32_t process);

  // Gives records that are there, in order: their first bytes are a RecordHead, and all are as long
  // as their kind says. They lie in the ring and are gone afterwards. Whether there may be more:
  // programs that are faster than we are must not keep us here for ever.
  static constexpr size_t drained_at_once = size_t{1} << 17;
  bool drain(const std::function<void(std::span<const std::byte>)>& take);

  kernel::Counters counters() const;
  // Whether requests of io_urings are seen.
  bool sees_rings() const;

 private:
  struct State;
  explicit KernelWatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::trace
