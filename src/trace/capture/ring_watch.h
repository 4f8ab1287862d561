#pragma once

// The requests of another process's io_uring.
//
// A submission is no system call: the program writes it into memory that it shares with the kernel,
// and then enters the kernel once for many. Completions come back the same way, with no call at
// all. Reading the program's memory at each entry would show submissions, but miss the last
// completions: a program unmaps its rings before it exits. So we duplicate the ring's descriptor
// (pidfd_getfd) and map the same memory, which stays readable for as long as we need it.
//
// Two kinds of rings cannot be watched: a kernel thread takes the submissions (SQPOLL), or the ring
// is in memory of the program's own (NO_MMAP).

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "trace/capture/decoded_call.h"

struct io_uring_params;

namespace penstock::trace {

struct RingRequest {
  DecodedCall decoded;
  bool registered = false;  // the descriptor is an index into the ring's table of files
  uint64_t user_data = 0;
  uint64_t start_ns = 0;
  int32_t thread = 0;
};

struct RingCompletion {
  RingRequest request;
  int64_t result = 0;  // result, or a negative errno
};

// Thread safety: none.
class RingWatch {
 public:
  // Opens a ring with the parameters that io_uring_setup() has filled in at `parameters_at`. Returns
  // nullptr if it cannot be watched. The parameters are checked, because another thread of the
  // program may have overwritten them.
  static std::unique_ptr<RingWatch> open(int32_t thread, int32_t descriptor, uint64_t parameters_at,
                                         bool& polled);
  ~RingWatch();
  RingWatch(const RingWatch&) = delete;
  RingWatch& operator=(const RingWatch&) = delete;

  // Reads up to `count` submissions from the queue, at the entry of io_uring_enter().
  void look_at_submissions(uint32_t count, int32_t thread, uint64_t start_ns);
  // Marks the first `count` of them as submitted, at its exit.
  void submitted(uint32_t count);
  // Appends the completions since the last call to `into`.
  void harvest(std::vector<RingCompletion>& into);
  // Returns the requests whose completion was never seen.
  std::vector<RingRequest> rest();
  // Visits the requests under way, before a descriptor changes its meaning.
  template <class Visit>
  void each_under_way(const Visit& visit) {
    for (auto& [user_data, requests] : under_way_) {
      for (RingRequest& request : requests) visit(request);
    }
  }

  // Returns the first of 65536 numbers for one ring's table of files. No descriptor of the system
  // has such a number.
  static int32_t numbers_for_new_ring();

  // Returns whether no request is under way.
  bool is_idle() const { return under_way_.empty(); }

  // Returns the number that stands for a registered file among the process's descriptors.
  int32_t registered_descriptor(uint32_t index) const {
    return first_registered_ + static_cast<int32_t>(index & 0xffff);
  }
  uint32_t registered_files = 0;

 private:
  struct Mapped {
    std::byte* data = nullptr;
    size_t bytes = 0;
    // Returns whether `count` numbers or entries at `at` are within the map.
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
  uint32_t seen_ = 0;  // completions seen so far
  int32_t first_registered_ = 0;

  std::vector<RingRequest> pending_;
  // If requests have the same user data, the first one is assumed to complete first.
  std::unordered_map<uint64_t, std::deque<RingRequest>> under_way_;
};

}  // namespace penstock::trace
