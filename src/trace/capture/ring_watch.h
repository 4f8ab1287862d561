#pragma once

// The requests of another process's io_uring.
//
// A submission is no system call: the program writes it into memory that it shares with the kernel,
// and then enters the kernel once for many. Completions come back the same way, with no call at
// all. Reading the program's memory at each entry would show submissions, but miss the last
// completions: a program that is done unmaps its rings and goes. So we take a duplicate of the
// ring's descriptor (pidfd_getfd) and map the same memory: it stays readable for as long as we
// like.
//
// What cannot be seen: rings whose submissions a kernel thread takes (SQPOLL) and rings in memory
// of the program's own (NO_MMAP).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "trace/capture/asked_call.h"

struct io_uring_params;

namespace penstock::trace {

struct RingRequest {
  AskedCall asked;
  bool registered = false;  // its descriptor is an index into the ring's table of files
  uint64_t user_data = 0;
  uint64_t start_ns = 0;
  int32_t thread = 0;
};

struct RingCompletion {
  RingRequest request;
  int64_t result = 0;  // or a negative errno
};

// Thread safety: none.
class RingWatch {
 public:
  // `parameters` as io_uring_setup filled them in, at that address. nullptr: it cannot be watched.
  // Another thread of the program may have written over them: what they say is checked.
  static std::unique_ptr<RingWatch> open(int32_t thread, int32_t descriptor, uint64_t parameters_at,
                                         bool& polled);
  ~RingWatch();
  RingWatch(const RingWatch&) = delete;
  RingWatch& operator=(const RingWatch&) = delete;

  // At the entry of io_uring_enter(): what stands in the queue, at most `count`.
  void look_at_submissions(uint32_t count, int32_t thread, uint64_t start_ns);
  // At its exit: the kernel took the first `count` of them.
  void submitted(uint32_t count);
  // Adds what has completed since the last time to `into`.
  void harvest(std::vector<RingCompletion>& into);
  // Requests whose completion was never seen.
  std::vector<RingRequest> rest();
  // Requests under way, for a descriptor that is about to change its meaning.
  template <class Visit>
  void each_under_way(const Visit& visit) {
    for (auto& [user_data, requests] : under_way_) {
      for (RingRequest& request : requests) visit(request);
    }
  }

  // The first of 65536 numbers that no descriptor of the system has, for one ring's table of files.
  static int32_t numbers_for_new_ring();

  // Whether no answer is owed.
  bool is_idle() const { return under_way_.empty(); }

  // Where the files that are registered with the ring stand among the process's descriptors.
  int32_t registered_descriptor(uint32_t index) const {
    return first_registered_ + static_cast<int32_t>(index & 0xffff);
  }
  uint32_t registered_files = 0;

 private:
  struct Mapped {
    std::byte* data = nullptr;
    size_t bytes = 0;
    // Whether `count` such numbers or entries lie in it.
    bool holds(uint64_t at, uint64_t count, size_t each_bytes) const {
      return at % alignof(uint32_t) == 0 && at <= bytes && count <= (bytes - at) / each_bytes;
    }
  };

  RingWatch() = default;
  bool map(int fd, const io_uring_params& parameters);
  uint32_t number(const Mapped& ring, uint32_t at) const;

  Mapped submission_ring_;
  Mapped completion_ring_;
  Mapped entries_;
  uint32_t head_at_ = 0, tail_at_ = 0, mask_ = 0, array_at_ = 0;
  uint32_t completion_tail_at_ = 0, completion_mask_ = 0, completions_at_ = 0;
  size_t entry_bytes_ = 64, completion_bytes_ = 16;
  bool has_array_ = true;
  uint32_t seen_ = 0;  // completions
  int32_t first_registered_ = 0;

  std::vector<RingRequest> pending_;
  // Two requests may have the same user data; then the first one is taken to be the first done.
  std::unordered_map<uint64_t, std::deque<RingRequest>> under_way_;
};

}  // namespace penstock::trace
