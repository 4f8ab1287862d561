#include <linux/io_uring.h>
#include <linux/mman.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// The requests of the program's io_urings.
//
// A submission is written into memory that the program shares with the kernel, an answer comes back
// the same way; the calls between only say "look". So we map that memory once more (the program may
// unmap its own), read what is about to be submitted when the program enters the kernel, and look
// for answers then and at each later call of interest. Which answer is whose the capture finds out:
// they come with the program's own number for them.
//
// What cannot be seen: rings from which a thread of the kernel takes (SQPOLL), and rings in memory
// of the program's own (NO_MMAP).

namespace penstock::trace::preload {

uint32_t rings_open = 0;

namespace {

using namespace kernel;

// Newer than the headers of Debian 12.
constexpr uint32_t setup_no_mmap = 1u << 14, setup_no_array = 1u << 16;
constexpr uint32_t enter_registered_ring = 1u << 4;

struct Mapped {
  uint8_t* data;
  uint64_t bytes;
};

struct Ring {
  uint32_t is_open;
  int32_t owner;  // the thread that looks into it; 0: none
  int32_t descriptor;
  uint64_t identity;
  Mapped submissions, answers, entries;
  io_uring_params parameters;
  uint32_t told;  // submissions up to here were told, by their numbers in the queue
  uint32_t seen;  // answers, likewise
};
constexpr size_t rings_max = 64;
Ring rings[rings_max];

uint32_t load(const Mapped& mapped, uint32_t at) {
  return __atomic_load_n(reinterpret_cast<const uint32_t*>(mapped.data + at), __ATOMIC_ACQUIRE);
}

// Where another thread looks into it, that is over soon. Not where a signal came while this thread
// did, nor where one left it by longjmp(): so it is waited for with an end.
constexpr int tries_max = 10000;
bool begin_looking(Ring& ring, int tries) {
  for (; tries > 0 && __atomic_load_n(&ring.is_open, __ATOMIC_ACQUIRE) != 0; --tries) {
    int32_t owner = 0;
    if (__atomic_compare_exchange_n(&ring.owner, &owner, thread_id(), false, __ATOMIC_ACQUIRE,
                                    __ATOMIC_RELAXED)) {
      if (__atomic_load_n(&ring.is_open, __ATOMIC_RELAXED) != 0) return true;
      __atomic_store_n(&ring.owner, 0, __ATOMIC_RELEASE);
      return false;
    }
    if (owner == thread_id()) return false;
    if (tries > 1) raw_call(__NR_sched_yield);
  }
  return false;
}
void end_looking(Ring& ring) {
  __atomic_store_n(&ring.owner, 0, __ATOMIC_RELEASE);
}

bool map(Mapped& mapped, int32_t descriptor, uint64_t offset, uint64_t bytes) {
  const int64_t at = raw_call(__NR_mmap, 0, bytes, PROT_READ, MAP_SHARED,
                              static_cast<uint64_t>(int64_t{descriptor}), offset);
  if (at < 0) return false;
  mapped = {reinterpret_cast<uint8_t*>(at), bytes};
  // A child has no use for it, and would keep the ring alive.
  constexpr uint64_t not_in_children = 10;  // MADV_DONTFORK
  raw_call(__NR_madvise, static_cast<uint64_t>(at), bytes, not_in_children);
  return true;
}

void unmap(Mapped& mapped) {
  if (mapped.data != nullptr) raw_call(__NR_munmap, address_of(mapped.data), mapped.bytes);
  mapped = {};
}

void unmap(Ring& ring) {
  unmap(ring.submissions);
  unmap(ring.answers);
  unmap(ring.entries);
}

bool map(Ring& ring) {
  const io_uring_params& p = ring.parameters;
  const uint64_t entry_bytes = p.flags & IORING_SETUP_SQE128 ? 128 : 64;
  const uint64_t answer_bytes = p.flags & IORING_SETUP_CQE32 ? 32 : 16;
  uint64_t submission_bytes = (p.sq_off.head > p.sq_off.tail ? p.sq_off.head : p.sq_off.tail) + 4u;
  if ((p.flags & setup_no_array) == 0) {
    submission_bytes = uint64_t{p.sq_off.array} + p.sq_entries * sizeof(uint32_t);
  }
  return map(ring.submissions, ring.descriptor, IORING_OFF_SQ_RING, submission_bytes) &&
         map(ring.answers, ring.descriptor, IORING_OFF_CQ_RING,
             p.cq_off.cqes + p.cq_entries * answer_bytes) &&
         map(ring.entries, ring.descriptor, IORING_OFF_SQES, p.sq_entries * entry_bytes);
}

Ring* find_ring(int32_t descriptor) {
  for (Ring& ring : rings) {
    if (__atomic_load_n(&ring.is_open, __ATOMIC_ACQUIRE) != 0 && ring.descriptor == descriptor) {
      return &ring;
    }
  }
  return nullptr;
}

// The number is one of a table that the thread keeps: with one ring it is that one.
Ring* only_ring() {
  Ring* only = nullptr;
  for (Ring& ring : rings) {
    if (__atomic_load_n(&ring.is_open, __ATOMIC_ACQUIRE) == 0) continue;
    if (only != nullptr) return nullptr;
    only = &ring;
  }
  return only;
}

bool is_transfer(uint8_t operation) {
  return operation == op_readv || operation == op_writev || operation == op_read_fixed ||
         operation == op_write_fixed || operation == op_read || operation == op_write;
}

[[gnu::noinline]] void tell_request(const Ring& ring, const io_uring_sqe& entry,
                                    uint64_t start_ns) {
  const uint8_t operation = entry.opcode;
  if (operation == op_close && entry.file_index == 0) {
    CallRecord record = {.head = head_of(record_call),
                         .start_ns = start_ns,
                         .end_ns = start_ns,
                         .number = __NR_close,
                         .arguments = {static_cast<uint64_t>(entry.fd)}};
    const Entry* known = entry_of(entry.fd);
    if (known == nullptr || known->knowledge == not_looked || known->is_storage != 0) {
      send(&record, slot_payload_bytes);
    }
    clear_entries(entry.fd, entry.fd);
  }
  // A file that a ring opens is looked at when it is used.
  const bool is_of_files =
      operation == op_close || operation == op_openat || operation == op_openat2;
  const bool moves_bytes =
      is_transfer(operation) || operation == op_fsync || operation == op_fallocate;
  if (!is_of_files && !moves_bytes) count(control->counters.other_requests);
  // The answers of all count, since several may have one number.
  constexpr uint8_t no_answer = 1u << 6;  // IOSQE_CQE_SKIP_SUCCESS
  if (!moves_bytes && (entry.flags & no_answer) != 0) return;
  RingAskedRecord record = {};
  record.submit.head = head_of(record_ring_asked);
  record.submit.request = entry.user_data;
  record.submit.start_ns = start_ns;
  record.submit.offset = entry.off;
  record.submit.bytes = entry.len;
  record.submit.flags = static_cast<uint32_t>(entry.rw_flags);
  record.submit.descriptor = entry.fd;
  record.submit.operation = operation;
  record.submit.is_registered = (entry.flags & IOSQE_FIXED_FILE) != 0;
  record.submit.is_silent = (entry.flags & no_answer) != 0;
  record.submit.ring = ring.identity;
  if (operation == op_fallocate) {
    record.submit.bytes = entry.addr;
    record.submit.flags = entry.len;
  }
  if (moves_bytes && record.submit.is_registered == 0) {
    look_at(entry.fd, Look::storage_only, record.file);
    if (operation == op_fallocate && record.file.is_storage != 0) {
      constexpr uint32_t keeps_size = 1;
      const uint64_t end = entry.off + entry.addr, bytes = bytes_of(entry.fd);
      record.file.bytes = end > bytes && (entry.len & keeps_size) == 0 ? end : bytes;
    }
  }
  send(&record, sizeof record);
}

void tell_requests(Ring& ring, uint32_t wanted) {
  const io_uring_params& p = ring.parameters;
  const uint32_t mask = p.sq_entries - 1;
  const uint64_t entry_bytes = p.flags & IORING_SETUP_SQE128 ? 128 : 64;
  const uint32_t head = load(ring.submissions, p.sq_off.head);
  const uint32_t tail = load(ring.submissions, p.sq_off.tail);
  uint32_t queued = tail - head;
  if (queued > p.sq_entries) return;
  if (queued > wanted) queued = wanted;
  // What was told at an earlier call and not taken then is not told again.
  uint32_t told = ring.told - head;
  if (told > p.sq_entries) told = 0;
  const uint64_t now = now_ns();
  for (uint32_t i = told; i < queued; ++i) {
    uint32_t index = (head + i) & mask;
    if ((p.flags & setup_no_array) == 0) {
      index = load(ring.submissions, p.sq_off.array + index * uint32_t{sizeof(uint32_t)}) & mask;
    }
    io_uring_sqe entry;
    __builtin_memcpy(&entry, ring.entries.data + index * entry_bytes, sizeof entry);
    tell_request(ring, entry, now);
  }
  if (queued > told) ring.told = head + queued;
}

void tell_answers(Ring& ring) {
  const io_uring_params& p = ring.parameters;
  const uint64_t answer_bytes = p.flags & IORING_SETUP_CQE32 ? 32 : 16;
  const uint32_t tail = load(ring.answers, p.cq_off.tail);
  if (tail == ring.seen) return;
  // What is older than the queue is long is gone, and stays unconfirmed.
  if (tail - ring.seen > p.cq_entries) ring.seen = tail - p.cq_entries;
  RingToldRecord record = {
      .head = head_of(record_ring_told), .ring = ring.identity, .end_ns = now_ns()};
  for (; ring.seen != tail; ++ring.seen) {
    io_uring_cqe answer;
    __builtin_memcpy(
        &answer,
        ring.answers.data + p.cq_off.cqes + (ring.seen & (p.cq_entries - 1)) * answer_bytes,
        sizeof answer);
    record.user_data = answer.user_data;
    record.result = answer.res;
    send(&record, sizeof record);
  }
}

void look_into(Ring& ring) {
  if (!begin_looking(ring, 1)) return;  // somebody does, or a signal came while we did
  tell_answers(ring);
  end_looking(ring);
}

}  // namespace

void ring_made(int32_t descriptor, const void* parameters) {
  const auto& given = *static_cast<const io_uring_params*>(parameters);
  Ring* ring = nullptr;
  if ((given.flags & (IORING_SETUP_SQPOLL | setup_no_mmap)) == 0) {
    for (Ring& candidate : rings) {
      int32_t free = 0;
      if (candidate.is_open == 0 &&
          __atomic_compare_exchange_n(&candidate.owner, &free, thread_id(), false, __ATOMIC_ACQUIRE,
                                      __ATOMIC_RELAXED)) {
        ring = &candidate;
        break;
      }
    }
  }
  if (ring == nullptr || ring->is_open != 0) {
    if (ring != nullptr) end_looking(*ring);
    count(control->unseen_rings);
    return;
  }
  ring->descriptor = descriptor;
  ring->parameters = given;
  ring->identity = new_identity();
  ring->told = ring->seen = 0;
  if (map(*ring)) {
    __atomic_store_n(&ring->is_open, 1, __ATOMIC_RELEASE);
    __atomic_fetch_add(&rings_open, 1, __ATOMIC_RELAXED);
  } else {
    unmap(*ring);
    count(control->unseen_rings);
  }
  end_looking(*ring);
}

int64_t ring_enter(Asked& asked) {
  const uint64_t* a = asked.arguments;
  Ring* ring =
      (a[3] & enter_registered_ring) != 0 ? only_ring() : find_ring(static_cast<int32_t>(a[0]));
  if (ring != nullptr && begin_looking(*ring, tries_max)) {
    tell_answers(*ring);
    tell_requests(*ring, static_cast<uint32_t>(a[1]));
    end_looking(*ring);
  } else if (a[1] != 0) {
    count(control->counters.other_requests, static_cast<uint32_t>(a[1]));
  }
  const int64_t result = raw_call(asked.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (ring != nullptr) look_into(*ring);
  return result;
}

int64_t ring_register(Asked& asked) {
  const uint64_t* a = asked.arguments;
  const int64_t result = raw_call(asked.number, a[0], a[1], a[2], a[3], a[4], a[5]);
  constexpr uint64_t register_files = 2, update_files = 6;
  const Ring* ring = find_ring(static_cast<int32_t>(a[0]));
  if (result < 0 || ring == nullptr || (a[1] != register_files && a[1] != update_files)) {
    return result;
  }
  uint64_t first = 0, list_at = a[2];
  if (a[1] == update_files) {
    struct {
      uint32_t offset, reserved;
      uint64_t descriptors;
    } update;
    __builtin_memcpy(&update, reinterpret_cast<const void*>(a[2]), sizeof update);
    first = update.offset;
    list_at = update.descriptors;
  }
  for (uint64_t i = 0; i < static_cast<uint32_t>(a[3]); ++i) {
    int32_t descriptor;
    __builtin_memcpy(&descriptor, reinterpret_cast<const void*>(list_at + i * sizeof descriptor),
                     sizeof descriptor);
    if (descriptor < -1) continue;  // left as it is
    RingFileRecord record = {
        .head = head_of(record_ring_file), .ring = ring->identity, .index = first + i, .file = {}};
    if (descriptor >= 0) look_at(descriptor, Look::storage_only, record.file);
    send(&record, sizeof record);
  }
  return result;
}

void ring_closed(int32_t first, int32_t last) {
  for (Ring& ring : rings) {
    const bool is_closed = ring.descriptor >= first && ring.descriptor <= last;
    if (!begin_looking(ring, is_closed ? tries_max : 1)) continue;
    tell_answers(ring);
    if (is_closed && this_thread.vfork_process == 0) {
      __atomic_store_n(&ring.is_open, 0, __ATOMIC_RELEASE);
      __atomic_fetch_sub(&rings_open, 1, __ATOMIC_RELAXED);
      unmap(ring);
    }
    end_looking(ring);
  }
}

void look_into_rings() {
  for (Ring& ring : rings) {
    if (__atomic_load_n(&ring.is_open, __ATOMIC_RELAXED) != 0) look_into(ring);
  }
}

void forget_rings() {
  // Our parent tells of them. (What was mapped is not in our memory.)
  for (Ring& ring : rings) {
    ring.is_open = 0;
    ring.owner = 0;
    ring.submissions = ring.answers = ring.entries = {};
  }
  rings_open = 0;
}

}  // namespace penstock::trace::preload
