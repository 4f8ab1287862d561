#pragma once

// The capture's side of the library that a traced program carries (preload/): the memory that both
// have, how programs find it, and what they have written. The platform's side of
// capture_preload.cc, which makes events of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "penstock/error.h"
#include "trace/bpf/records.h"

namespace penstock::trace {

// Thread safety: none.
// Invariants: with its end, programs that still have the library run on without it.
class PreloadWatch {
 public:
  static constexpr uint64_t ring_bytes_default = uint64_t{1} << 25;

  // Errors: unsupported (the library is not built for this machine), those of memory.
  static Result<std::unique_ptr<PreloadWatch>> open(uint64_t ring_bytes);
  ~PreloadWatch();
  PreloadWatch(const PreloadWatch&) = delete;
  PreloadWatch& operator=(const PreloadWatch&) = delete;

  // Whether a program can carry the library: found as execvp() does. Static ones cannot, nor such
  // of another machine, nor those that run with another user's rights.
  static Status check(const std::string& program);

  // When a process began, in ticks of the system; 0: it is gone, or not to be seen.
  static uint64_t begin_of(int32_t process);

  // While one exists, programs that this process starts carry the library.
  class Environment {
   public:
    explicit Environment(const PreloadWatch& watch);
    ~Environment();
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

   private:
    std::string preload_before_;
    [[maybe_unused]] bool had_preload_;
  };

  // Gives records that are there, in order: long enough for their kinds, and gone afterwards.
  enum class Drained { all, some, waits };  // waits: for a thread that is in the middle of one
  Drained drain(const std::function<void(std::span<const std::byte>)>& take);

  // Nobody is there any more who could write what is missing: all of it is counted as lost.
  void give_up();

  struct Counted {
    kernel::Counters calls;
    uint64_t unknown_sharing = 0;
    uint64_t untaken_images = 0;
    uint64_t unseen_rings = 0;
  };
  Counted counted() const;

 private:
  struct State;
  explicit PreloadWatch(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::trace
