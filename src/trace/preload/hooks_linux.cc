#include <linux/close_range.h>
#include <linux/fcntl.h>
#include <linux/mman.h>
#include <linux/sched.h>

#include "trace/preload/library.h"
#include "trace/preload/raw_calls.h"

// What happens at a system call of the program: it is done, and written down.
//
// Which calls are of interest, and what of them, the capture has put into Control::settings, the
// same table that the programs in the kernel go by (../bpf/watch.bpf.c): this follows them closely.
// A record is written when the call is over; but of close() before it is done, since its number is
// free for other threads before it returns.
//
// Calls that make a process are done in the program's own place, once we are out of the way: both
// sides come back from them, one perhaps on another stack.

namespace penstock::trace::preload {
namespace {

using namespace kernel;

constexpr Knowledge as_known = told;

int64_t call(const Asked& asked) {
  const uint64_t* a = asked.arguments;
  return raw_call(asked.number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

bool is_argument(int8_t index) {
  return index >= 0 && index < 6;
}

int32_t descriptor_of(const Asked& asked, int8_t index) {
  return static_cast<int32_t>(asked.arguments[index & 7]);
}

struct Times {
  uint64_t start_ns, end_ns;
};

void fill_call(CallRecord& record, const RecordHead& head, const Asked& asked, const Times& times,
               int64_t result) {
  record.head = head;
  record.start_ns = times.start_ns;
  record.end_ns = times.end_ns;
  record.result = result;
  record.number = asked.number;
  for (size_t i = 0; i < 6; ++i) record.arguments[i] = asked.arguments[i];
}

// The short form, written straight into the ring: no second descriptor.
void send_call(const Asked& asked, const Times& times, int64_t result, const FileFacts& file,
               const uint64_t* pointed, uint64_t bytes_after) {
  const RecordHead head = head_of(record_call);
  uint64_t number = 0;
  Slot* slot = claim(number);
  if (slot == nullptr) return;
  auto& record = *reinterpret_cast<CallRecord*>(slot->payload);
  fill_call(record, head, asked, times, result);
  record.file = file;
  record.pointed[0] = pointed[0];
  record.pointed[1] = pointed[1];
  record.bytes_after = bytes_after;
  slot->first = number;
  slot->bytes = slot_payload_bytes;
  publish(*slot, number);
}

[[gnu::noinline]] void send_call_of_two(const Asked& asked, const Times& times, int64_t result,
                                        const FileFacts& file, const FileFacts& file2,
                                        const uint64_t* pointed) {
  CallRecord record;
  fill_call(record, head_of(record_call), asked, times, result);
  record.file = file;
  record.file2 = file2;
  record.pointed[0] = pointed[0];
  record.pointed[1] = pointed[1];
  record.bytes_after = 0;
  send(&record, sizeof record);
}

[[gnu::noinline]] void send_moment(RecordKind kind) {
  const EndRecord record{.head = head_of(kind), .start_ns = now_ns()};
  send(&record, sizeof record);
}

[[gnu::noinline]] void send_fork_part(RecordKind kind, uint64_t number, int64_t other) {
  const ForkPartRecord record{
      .head = head_of(kind), .start_ns = now_ns(), .number = number, .other = other};
  send(&record, sizeof record);
}

// ---- calls that change descriptors

int64_t close_one(const Asked& asked) {
  const auto descriptor = static_cast<int32_t>(asked.arguments[0]);
  if (rings_open != 0) ring_closed(descriptor, descriptor);
  const Entry* entry = entry_of(descriptor);
  const uint32_t knowledge = entry == nullptr ? uint32_t{not_looked} : entry->knowledge;
  // What the trace does not know of need not be closed in it; of one that was never looked at it
  // may know from before an exec().
  const bool is_told = knowledge == not_looked || (knowledge == told && entry->is_storage != 0);
  constexpr uint64_t get_descriptor_flags = 1;
  if (is_told &&
      (knowledge == told || raw_call(__NR_fcntl, asked.arguments[0], get_descriptor_flags) >= 0)) {
    const uint64_t now = now_ns(), nothing[2] = {0, 0};
    send_call(asked, {now, now}, 0, FileFacts{}, nothing, 0);
  }
  clear_entries(descriptor, descriptor);
  return call(asked);
}

int64_t close_many(const Asked& asked) {
  constexpr uint64_t int_max = 0x7fffffff;
  const uint64_t first = asked.arguments[0], last = asked.arguments[1];
  if (first > last) return call(asked);
  const uint64_t now = now_ns(), nothing[2] = {0, 0};
  send_call(asked, {now, now}, 0, FileFacts{}, nothing, 0);
  if ((asked.arguments[2] & CLOSE_RANGE_CLOEXEC) == 0 && first <= int_max) {
    const auto begin = static_cast<int32_t>(first);
    const auto end = static_cast<int32_t>(last > int_max ? int_max : last);
    if (rings_open != 0) ring_closed(begin, end);
    clear_entries(begin, end);
  }
  return call(asked);
}

// ---- calls with paths

int64_t change_name(const Asked& asked, const CallShape& shape) {
  const uint64_t* a = asked.arguments;
  const auto folder = [&](int i) {
    return is_argument(shape.folder[i]) ? descriptor_of(asked, shape.folder[i]) : AT_FDCWD;
  };
  const auto path = [&](int i) { return reinterpret_cast<const char*>(a[shape.path[i] & 7]); };
  const bool is_rename = is_argument(shape.path[1]);
  const bool is_unlink = !is_rename && asked.number != __NR_truncate;
  FileFacts file = {};
  // What is unlinked has no name afterwards; what is renamed has another.
  if (is_unlink && !look_at_path(folder(0), path(0), false, file)) return call(asked);
  const uint64_t start = now_ns();
  const int64_t result = call(asked);
  const uint64_t end = now_ns();
  if (result < 0) {
    count(control->counters.failed_calls);
    return result;
  }
  if (is_rename && !look_at_path(folder(1), path(1), false, file)) return result;
  if (!is_rename && !is_unlink && !look_at_path(folder(0), path(0), true, file)) return result;
  send_name(0, folder(0), path(0));
  if (is_rename) send_name(1, folder(1), path(1));
  const uint64_t nothing[2] = {0, 0};
  send_call(asked, {start, end}, result, file, nothing, 0);
  return result;
}

// ---- all others

bool is_chosen(const CallShape& shape, const Asked& asked) {
  if (!is_argument(shape.chosen_by)) return true;
  const auto value = static_cast<uint32_t>(asked.arguments[shape.chosen_by & 7]);
  for (const uint32_t choice : shape.choices) {
    if (value == choice) return true;
  }
  return false;
}

int64_t watch(const Asked& asked) {
  const CallShape& shape = control->settings.calls[asked.number];
  const uint32_t what = shape.what;
  const uint64_t* a = asked.arguments;
  if (!is_chosen(shape, asked)) return call(asked);
  if ((what & call_maps) != 0 && ((a[3] & MAP_ANONYMOUS) != 0 || static_cast<int32_t>(a[4]) < 0)) {
    return call(asked);
  }
  if (rings_open != 0) look_into_rings();
  if (is_argument(shape.path[0])) return change_name(asked, shape);
  FileFacts file = {}, file2 = {};
  const bool makes_file = (what & call_makes_file) != 0 ||
                          (asked.number == __NR_fcntl && (a[1] == 0 || a[1] == 1030));  // F_DUPFD
  const bool has_descriptor = is_argument(shape.descriptor);
  const bool has_two = is_argument(shape.descriptor2);
  if (has_descriptor) {
    const bool sets_flags = is_argument(shape.chosen_by) && !makes_file;
    const Look how =
        (what & call_storage_only) != 0 || sets_flags ? Look::storage_only : Look::always;
    if (!look_at(descriptor_of(asked, shape.descriptor), how, file)) {
      count(control->counters.failed_calls);  // it will
      return call(asked);
    }
    if (has_two) look_at(descriptor_of(asked, shape.descriptor2), Look::always, file2);
    const bool second = (what & call_either) != 0 && file2.file != 0 && file2.is_storage != 0;
    if ((what & call_streams) != 0 &&
        (file.is_storage == 0 || ((what & call_either) != 0 && !second))) {
      count(control->counters.stream_calls);
    }
    if (((what & (call_storage_only | call_either)) != 0 || sets_flags) && file.is_storage == 0 &&
        !second) {
      return call(asked);
    }
  }
  Times times;
  times.start_ns = now_ns();
  const int64_t result = call(asked);
  times.end_ns = now_ns();
  if (result < 0) {
    count(control->counters.failed_calls);
    return result;
  }
  if (makes_file) {
    const auto made = static_cast<int32_t>(result);
    if (!has_descriptor) {
      look_at(made, Look::just_opened, file);
    } else if (made != descriptor_of(asked, shape.descriptor)) {
      if (Entry* entry = entry_of(made)) {
        entry->place = file.file;
        entry->identity = file.identity;
        entry->is_storage = file.is_storage;
        __atomic_store_n(&entry->knowledge, uint32_t{as_known}, __ATOMIC_RELEASE);
      }
    }
  }
  uint64_t pointed[2] = {0, 0};
  for (int i = 0; i < 2; ++i) {
    if (!is_argument(shape.points[i]) || a[shape.points[i] & 7] == 0) continue;
    // (The kernel was there itself.)
    __builtin_memcpy(&pointed[i],
                     reinterpret_cast<const void*>(a[shape.points[i] & 7] + shape.points_ahead),
                     sizeof pointed[i]);
  }
  if (has_two) {
    send_call_of_two(asked, times, result, file, file2, pointed);
    return result;
  }
  const uint64_t bytes_after =
      (what & call_sizes) != 0 ? bytes_of(descriptor_of(asked, shape.descriptor)) : 0;
  send_call(asked, times, result, file, pointed, bytes_after);
  return result;
}

// A file whose code is mapped while the program runs (dlopen) has system calls as well.
int64_t map(const Asked& asked) {
  const int64_t result = watch(asked);
  const uint64_t* a = asked.arguments;
  if (result > 0 && (a[2] & PROT_EXEC) != 0 && (a[2] & PROT_WRITE) == 0 &&
      (a[3] & MAP_ANONYMOUS) == 0 && (a[3] & MAP_TYPE) == MAP_PRIVATE) {
    take_over(static_cast<int32_t>(a[4]), static_cast<uint64_t>(result), a[1], a[5]);
  }
  return result;
}

// ---- processes

// What the kernel has not looked at yet may be no address at all, of which it would say so.
bool can_read(uint64_t at, void* into, size_t bytes) {
  struct {
    uint64_t at, bytes;
  } from = {at, bytes}, to = {address_of(into), bytes};
  const auto self = static_cast<uint64_t>(raw_call(__NR_getpid));
  const int64_t got =
      raw_call(__NR_process_vm_readv, self, address_of(&to), 1, address_of(&from), 1);
  if (got != -1 && got != -38) return got == static_cast<int64_t>(bytes);
  __builtin_memcpy(into, reinterpret_cast<const void*>(at), bytes);  // (it is not allowed)
  return true;
}

Answer before_fork(const Asked& asked) {
  const Answer call_only = {static_cast<int64_t>(asked.number), then_call};
  uint64_t flags = 0;
  if (asked.number == __NR_vfork) flags = CLONE_VM | CLONE_VFORK;
  if (asked.number == __NR_clone) flags = asked.arguments[0];
  if (asked.number == __NR_clone3) {
    if (asked.arguments[0] == 0) return call_only;
    if (!can_read(asked.arguments[0], &flags, sizeof flags)) return call_only;
  }
  // Of a thread there is nothing to say. A process that shares our memory and runs beside us would
  // write into what is ours: its calls are taken for its parent's.
  if ((flags & CLONE_VM) != 0 && (flags & CLONE_VFORK) == 0) return call_only;
  if ((flags & CLONE_THREAD) != 0) return call_only;
  if (rings_open != 0) look_into_rings();
  this_thread.is_vfork = (flags & CLONE_VM) != 0;
  this_thread.fork_parent = process_id();
  this_thread.fork_number = new_identity();
  send_fork_part(record_fork_begin, this_thread.fork_number, 0);
  return {static_cast<int64_t>(asked.number), then_call_and_say};
}

}  // namespace

extern "C" void penstock_trace_say(int64_t result) {
  ThreadState& thread = this_thread;
  if (result != 0) {
    if (thread.is_vfork) {
      // The child is on its own now.
      forget_exec_list();
      give_back_vfork_entries(thread.vfork_entries);
      thread.vfork_entries = nullptr;
      thread.vfork_process = 0;
      thread.thread = 0;
    }
    send_fork_part(record_fork_end, thread.fork_number, result);
    return;
  }
  if (thread.is_vfork) {
    thread.vfork_entries = take_vfork_entries();
    thread.vfork_process = static_cast<int32_t>(raw_call(__NR_getpid));
    thread.thread = 0;
  } else {
    forget_ids();
    forget_scratches();
    forget_sites();
    forget_rings();
  }
  send_fork_part(record_fork_child, thread.fork_number, thread.fork_parent);
}

extern "C" Answer penstock_trace_observe(Asked* asked) {
  if (is_over()) return {static_cast<int64_t>(asked->number), then_call};
  switch (asked->number) {
    case __NR_close:
      return {close_one(*asked), then_go_on};
    case __NR_close_range:
      return {close_many(*asked), then_go_on};
    case __NR_mmap:
      return {map(*asked), then_go_on};
    case __NR_fork:
    case __NR_vfork:
    case __NR_clone:
    case __NR_clone3:
      return before_fork(*asked);
    case __NR_execve:
    case __NR_execveat: {
      if (rings_open != 0) look_into_rings();
      send_moment(record_exec_begin);
      const int64_t result = run_program(*asked);
      send_moment(record_exec_failed);
      return {result, then_go_on};
    }
    case __NR_exit_group:
      if (rings_open != 0) look_into_rings();
      send_moment(record_exit);
      return {static_cast<int64_t>(asked->number), then_call};
    case __NR_io_uring_setup: {
      const int64_t result = watch(*asked);
      if (result >= 0) {
        ring_made(static_cast<int32_t>(result), reinterpret_cast<void*>(asked->arguments[1]));
      }
      return {result, then_go_on};
    }
    case __NR_io_uring_enter:
      return {ring_enter(*asked), then_go_on};
    case __NR_io_uring_register:
      return {ring_register(*asked), then_go_on};
    default:
      return {watch(*asked), then_go_on};
  }
}

}  // namespace penstock::trace::preload
