#pragma once

// The parts of the library that a traced program carries, for each other. README.md says which is
// which.
//
// All of it runs inside system calls of somebody else's program: in signal handlers, between
// vfork() and exec(), in threads with small stacks, before and after libc is usable. So: nothing of
// libc, no lock that a signal could find taken, no allocation, no vector registers (a system call
// keeps them), little stack.

#include <cstddef>
#include <cstdint>

#include "trace/preload/channel.h"

namespace penstock::trace::preload {

// ---- entry_linux.cc: from a call's place in the code to here

// As the entry pushes them.
struct Asked {
  uint64_t number;
  uint64_t arguments[6];
};
// What is left to do in the program's own place.
enum Then : uint64_t {
  then_go_on = 0,         // all is done: `result` is the answer
  then_call = 1,          // the call itself
  then_call_and_say = 2,  // the call, and then after(): both sides of a fork come back
};
struct Answer {
  int64_t result;
  uint64_t then;
};
extern "C" void penstock_trace_entry();
extern "C" void penstock_trace_after();

// ---- sites_linux.cc

// Takes over the system calls in a piece of code that is mapped from this file. REQUIRES: no other
// thread runs it.
void take_over(int32_t descriptor, uint64_t begin, uint64_t size, uint64_t offset);
void forget_sites();  // in a new process: the thread that was about to is not here
// All that is mapped now.
void take_over_program();

// ---- state_linux.cc: what the process knows

extern Control* control;  // nullptr: not traced
bool is_of_interest(uint32_t number);

// What is known of a descriptor.
enum Knowledge : uint32_t {
  not_looked = 0,  // (its place may be known all the same)
  looked,          // no storage, and the trace does not know of it
  told,            // the trace knows of it
};
struct Entry {
  uint64_t place;  // of the open file description: a number; 0: none yet
  kernel::FileIdentity identity;
  uint32_t knowledge;
  uint32_t is_storage;
};
inline constexpr int32_t entries_max = 1 << 16;  // larger descriptors are looked at each time
inline constexpr int32_t entries_of_vfork_child = 256;

struct ThreadState {
  int32_t thread;         // 0: not asked for
  int32_t vfork_process;  // not 0: we are a child that has borrowed the thread's memory
  Entry* vfork_entries;   // its descriptors are its own
  uint64_t fork_number;   // of the last fork
  int32_t fork_parent;
  bool is_vfork;
  uint32_t scratches;  // that this thread has
  uint64_t exec_list;  // not 0: memory for the environment of the next program
  uint64_t exec_list_bytes;
};
extern __thread ThreadState this_thread
    __attribute__((tls_model("initial-exec"), visibility("hidden")));

int32_t process_id();
int32_t thread_id();
void forget_ids();  // another process has them

// nullptr: one that is not remembered.
Entry* entry_of(int32_t descriptor);
void clear_entries(int32_t first, int32_t last);
int32_t entries_end();
Entry* take_vfork_entries();
void give_back_vfork_entries(Entry* entries);

// Room for one record with its names. nullptr: there is none now.
struct Scratch {
  union {
    kernel::FileRecord file;
    kernel::NameRecord name;
  };
};
Scratch* take_scratch();
void give_back_scratch(Scratch* scratch);
void forget_scratches();  // in a new process: who had them is not here

uint64_t now_ns();
void find_clock(const uint64_t* auxiliary);
bool start_state();  // false: no memory

inline void count(uint64_t& counter, uint64_t more = 1) {
  __atomic_fetch_add(&counter, more, __ATOMIC_RELAXED);
}
inline uint64_t new_identity() {
  return __atomic_add_fetch(&control->identities, 1, __ATOMIC_RELAXED);
}

// ---- send_linux.cc

void start_sending();
kernel::RecordHead head_of(kernel::RecordKind kind);
// A slot of our own, whose number it gives; nullptr: the record is lost.
Slot* claim(uint64_t& number);
void publish(Slot& slot, uint64_t number);
void send(const void* record, size_t bytes);
bool is_over();

// ---- look_linux.cc: what descriptors and paths stand for

enum class Look { storage_only, always, just_opened };
// What a descriptor stands for; false: it is not open. The trace is told where it is storage; of
// others with `always`, and with `just_opened`, whose open file description is a new one.
bool look_at(int32_t descriptor, Look how, kernel::FileFacts& facts);
// The storage that a path leads to, which is told to the trace. `name` is the path from the root.
bool look_at_path(int32_t folder, const char* path, bool follow, kernel::FileFacts& facts);
void send_name(uint32_t index, int32_t folder, const char* path);
void tell_program(kernel::FileIdentity& identity);
uint64_t bytes_of(int32_t descriptor);

// ---- hooks_linux.cc

extern "C" Answer penstock_trace_observe(Asked* asked);
extern "C" void penstock_trace_say(int64_t result);

// ---- rings_linux.cc

void ring_made(int32_t descriptor, const void* parameters);
int64_t ring_enter(Asked& asked);
int64_t ring_register(Asked& asked);
void ring_closed(int32_t first, int32_t last);
// Answers that came without a call.
void look_into_rings();
void forget_rings();
extern uint32_t rings_open;

// ---- environment_linux.cc

// From the strings of the environment: where the channel is. Takes ours out of them.
bool join_capture(char** environment);
int64_t run_program(Asked& asked);  // execve() and execveat()
void forget_exec_list();

}  // namespace penstock::trace::preload
