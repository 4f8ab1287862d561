#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "os/fd.h"
#include "trace/capture/proc_files.h"
#include "trace/capture/ring_watch.h"
#include "trace/capture/tracee.h"

// Constants that are newer than the headers of Debian 12.
#ifndef IORING_SETUP_NO_MMAP
#define IORING_SETUP_NO_MMAP (1U << 14)
#endif
#ifndef IORING_SETUP_NO_SQARRAY
#define IORING_SETUP_NO_SQARRAY (1U << 16)
#endif

namespace penstock::trace {
namespace {

// First number that stands for an entry of a ring's table. The system's descriptors are below 2^30.
constexpr int32_t registered_base = 1 << 30;
constexpr int32_t registered_per_ring = 1 << 16;
std::atomic<int32_t> rings_made{0};

RingRequest decode(const io_uring_sqe& entry) {
  const bool allocates = entry.opcode == IORING_OP_FALLOCATE;
  const DecodedCall range{.descriptor = entry.fd,
                          .offset = entry.off,
                          .bytes = allocates ? entry.addr : entry.len,
                          // The flags of an openat2() are in the program's memory.
                          .structure_at = entry.opcode == IORING_OP_OPENAT2 ? entry.off : 0};
  const uint64_t flags = allocates ? entry.len : static_cast<uint32_t>(entry.rw_flags);
  return {.decoded = decode_request(entry.opcode, range, flags),
          .registered = (entry.flags & IOSQE_FIXED_FILE) != 0,
          .user_data = entry.user_data};
}

// Returns whether the last bytes of a map can be read. (A map may be longer than its ring, and a
// touch of the rest is SIGBUS.) sigprocmask() copies them before it rejects its argument `how`.
bool has_end(const std::byte* data, size_t bytes) {
  constexpr int no_how = -1;
  constexpr size_t set_bytes = 8;
  if (bytes < set_bytes) return false;
  return ::syscall(SYS_rt_sigprocmask, no_how, data + bytes - set_bytes, nullptr, set_bytes) == 0 ||
         errno != EFAULT;
}

// Returns whether a descriptor is a ring, and not a file that got its number meanwhile: a file could
// become shorter under our map.
bool is_ring(int fd) {
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  std::array<char, 64> name;
  const ssize_t length = ::readlink(path.c_str(), name.data(), name.size());
  return length > 0 &&
         std::string_view(name.data(), static_cast<size_t>(length)) == "anon_inode:[io_uring]";
}

}  // namespace

int32_t RingWatch::numbers_for_new_ring() {
  return registered_base + (rings_made.fetch_add(1) % (1 << 14)) * registered_per_ring;
}

std::unique_ptr<RingWatch> RingWatch::open(int32_t thread, int32_t descriptor,
                                           uint64_t parameters_at, bool& polled) {
  polled = false;
  const auto parameters = read_value<io_uring_params>(thread, parameters_at);
  if (!parameters) return nullptr;
  polled = (parameters->flags & IORING_SETUP_SQPOLL) != 0;
  if (polled || (parameters->flags & IORING_SETUP_NO_MMAP) != 0) return nullptr;
  // The thread itself is opened (PIDFD_THREAD, Linux 6.9), since the process's first thread may have
  // ended. Older kernels open the first thread alone.
  os::Fd process(::syscall(SYS_pidfd_open, thread, O_EXCL));
  if (!process && errno == EINVAL)
    process = os::Fd(::syscall(SYS_pidfd_open, process_of(thread), 0));
  if (!process) return nullptr;
  const os::Fd fd(::syscall(SYS_pidfd_getfd, process.get(), descriptor, 0));
  if (!fd) return nullptr;
  std::unique_ptr<RingWatch> watch(new RingWatch);
  if (!is_ring(fd.get()) || !watch->map(fd.get(), *parameters)) return nullptr;
  watch->first_registered_ = numbers_for_new_ring();
  return watch;
}

bool RingWatch::map(int fd, const io_uring_params& parameters) {
  // The masks below keep every index within the maps only if these are powers of two.
  if (!std::has_single_bit(parameters.sq_entries) || !std::has_single_bit(parameters.cq_entries)) {
    return false;
  }
  entry_bytes_ = parameters.flags & IORING_SETUP_SQE128 ? 128 : 64;
  completion_bytes_ = parameters.flags & IORING_SETUP_CQE32 ? 32 : 16;
  has_array_ = (parameters.flags & IORING_SETUP_NO_SQARRAY) == 0;
  const auto map_at = [&](uint64_t offset, size_t bytes) -> Mapped {
    void* data = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(offset));
    if (data == MAP_FAILED) return {};
    if (!has_end(static_cast<std::byte*>(data), bytes)) {
      ::munmap(data, bytes);
      return {};
    }
    return {static_cast<std::byte*>(data), bytes};
  };
  const auto& s = parameters.sq_off;
  const auto& c = parameters.cq_off;
  size_t submission_bytes = std::max<size_t>({s.head, s.tail, s.ring_mask}) + sizeof(uint32_t);
  if (has_array_) {
    submission_bytes =
        std::max(submission_bytes, s.array + size_t{parameters.sq_entries} * sizeof(uint32_t));
  }
  submission_ring_ = map_at(IORING_OFF_SQ_RING, submission_bytes);
  completion_ring_ =
      map_at(IORING_OFF_CQ_RING, c.cqes + size_t{parameters.cq_entries} * completion_bytes_);
  entries_ = map_at(IORING_OFF_SQES, parameters.sq_entries * entry_bytes_);
  if (submission_ring_.data == nullptr || completion_ring_.data == nullptr ||
      entries_.data == nullptr) {
    return false;
  }
  constexpr size_t number_bytes = sizeof(uint32_t);
  if (!submission_ring_.holds(s.head, 1, number_bytes) ||
      !submission_ring_.holds(s.tail, 1, number_bytes) ||
      (has_array_ && !submission_ring_.holds(s.array, parameters.sq_entries, number_bytes)) ||
      !completion_ring_.holds(c.tail, 1, number_bytes) ||
      !completion_ring_.holds(c.cqes, parameters.cq_entries, completion_bytes_)) {
    return false;
  }
  head_at_ = s.head;
  tail_at_ = s.tail;
  array_at_ = s.array;
  mask_ = parameters.sq_entries - 1;
  completion_tail_at_ = c.tail;
  completion_mask_ = parameters.cq_entries - 1;
  completions_at_ = c.cqes;
  return true;
}

RingWatch::~RingWatch() {
  for (const Mapped& mapped : {submission_ring_, completion_ring_, entries_}) {
    if (mapped.data != nullptr) ::munmap(mapped.data, mapped.bytes);
  }
}

// Reads a number of the ring. The kernel and the program store with release, so entries in front of a
// tail that we have read are complete.
uint32_t RingWatch::number(const Mapped& ring, uint32_t at) const {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(ring.data + at), __ATOMIC_ACQUIRE);
}

void RingWatch::look_at_submissions(uint32_t count, int32_t thread, uint64_t start_ns) {
  pending_.clear();
  const uint32_t head = number(submission_ring_, head_at_);
  const uint32_t tail = number(submission_ring_, tail_at_);
  count = std::min({count, tail - head, mask_ + 1});
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t index = (head + i) & mask_;
    if (has_array_) {
      index = number(submission_ring_, array_at_ + index * uint32_t{sizeof(uint32_t)}) & mask_;
    }
    io_uring_sqe entry;
    std::memcpy(&entry, entries_.data + index * entry_bytes_, sizeof entry);
    RingRequest request = decode(entry);
    request.start_ns = start_ns;
    request.thread = thread;
    pending_.push_back(request);
  }
}

void RingWatch::submitted(uint32_t count) {
  for (size_t i = 0; i < std::min<size_t>(count, pending_.size()); ++i) {
    under_way_[pending_[i].user_data].push_back(pending_[i]);
  }
  pending_.clear();
}

void RingWatch::harvest(std::vector<RingCompletion>& into) {
  const uint32_t tail = number(completion_ring_, completion_tail_at_);
  // Completions that the ring has overwritten cannot be read: their requests stay unconfirmed.
  if (tail - seen_ > completion_mask_ + 1) seen_ = tail - (completion_mask_ + 1);
  for (; seen_ != tail; ++seen_) {
    io_uring_cqe completion;
    std::memcpy(
        &completion,
        completion_ring_.data + completions_at_ + (seen_ & completion_mask_) * completion_bytes_,
        sizeof completion);
    const auto found = under_way_.find(completion.user_data);
    if (found == under_way_.end()) continue;  // submitted before the watch, or a further completion
    into.push_back({found->second.front(), completion.res});
    found->second.pop_front();
    if (found->second.empty()) under_way_.erase(found);
  }
}

std::vector<RingRequest> RingWatch::rest() {
  std::vector<RingRequest> left;
  each_under_way([&](const RingRequest& request) { left.push_back(request); });
  under_way_.clear();
  std::ranges::sort(left, {}, &RingRequest::start_ns);
  return left;
}

}  // namespace penstock::trace
