#pragma once

// What lies between the library in a traced program and the capture: memory that both have mapped.
// Control, then a ring of slots, a power of two of them. All processes of a program write to it.
//
//   writer   takes the next number of all (Control::tail), waits until that slot is free for this
//            number, marks it as claimed by its thread, fills it in, marks it as full
//   reader   takes the full slots in the order of their numbers, and frees each for the number that
//            is one round later
//
// A slot's word says all of that in 8 bytes:
//
//   63          24 23       2 1  0
//   | number      | thread   | state |
//
// The order of numbers is the order of events. Nothing is dropped: where the ring is full, the
// program waits for the capture. What may leave a hole is a thread that dies between two steps
// (SIGKILL), or leaves them (longjmp() from a signal handler). One that has claimed its slot is
// known by its number, and is skipped when it is gone, or after ten seconds. One that has not is
// skipped after one; if it comes after all, it finds a later number in the slot and goes without.
// All are counted as lost.
//
// A record that is longer than a slot has several, which need not stand beside each other: each
// names the number of the first.

#include <cstddef>
#include <cstdint>

#include "trace/bpf/records.h"

namespace penstock::trace::preload {

inline constexpr uint32_t channel_version = 1;

enum SlotState : uint64_t { slot_free = 0, slot_claimed = 1, slot_full = 2 };
constexpr uint64_t slot_word(uint64_t number, uint64_t thread, SlotState state) {
  return number << 24 | (thread & ((1u << 22) - 1)) << 2 | state;
}
// Of the first round: memory is not touched before it is needed.
inline constexpr uint64_t slot_never_used = 0;
constexpr uint64_t number_of_word(uint64_t word) {
  return word >> 24;
}
constexpr int32_t thread_of_word(uint64_t word) {
  return static_cast<int32_t>(word >> 2 & ((1u << 22) - 1));
}
constexpr SlotState state_of_word(uint64_t word) {
  return static_cast<SlotState>(word & 3);
}

// As long as a call of one descriptor needs.
inline constexpr size_t slot_payload_bytes = 168;
struct Slot {
  uint64_t word;
  uint64_t first;  // the number of the record's first slot
  uint32_t bytes;  // of the whole record
  uint32_t padding;
  uint8_t payload[slot_payload_bytes];
};
static_assert(sizeof(Slot) == 192);
static_assert(offsetof(kernel::CallRecord, file2) == slot_payload_bytes);

struct Control {
  uint32_t version;
  uint32_t slots;
  int32_t capture;           // its process
  uint32_t is_over;          // it is gone, or does not want more: programs run on untraced
  uint64_t unseen_rings;     // io_urings whose requests cannot be seen
  uint64_t untaken_images;   // pieces of code in which nothing was taken over
  uint64_t unknown_sharing;  // descriptors that may share a position: kcmp() was denied
  alignas(64) uint64_t tail;
  alignas(64) uint64_t identities;  // numbers for open file descriptions and forks
  // Writers that wait, and the word that they wait on: changed when slots became free.
  alignas(64) uint32_t waiting;
  uint32_t freed;
  alignas(64) kernel::Counters counters;  // `lost`, and what is not recorded
  alignas(64) kernel::Settings settings;
};
inline constexpr size_t control_bytes = 32768;
static_assert(sizeof(Control) <= control_bytes);

// Where system calls were found in the code of files: every process of the program has the same
// libraries, and looking through one takes some milliseconds. Entries are only ever added.
struct CodeKey {
  uint64_t device, inode, bytes, changed_ns;  // of the file
  uint64_t offset, size;                      // of the code in it
};
struct CodeSite {
  uint32_t begin;      // from the code's beginning on
  uint8_t call, back;  // from there on
  uint8_t padding[2];
};
struct CodeSites {
  CodeKey key;
  uint32_t is_ready;
  uint32_t first, count;  // of SharedSites::sites
  uint32_t padding;
};
struct SharedSites {
  uint32_t files_used, sites_used;
  CodeSites files[1024];
  CodeSite sites[60000];
};
inline constexpr size_t shared_sites_bytes = 589824;
static_assert(sizeof(SharedSites) <= shared_sites_bytes);
inline constexpr size_t slots_at = control_bytes + shared_sites_bytes;

// How a program finds it, in its environment:
//
//   PENSTOCK_TRACE=/proc/PID/fd/N /proc/PID/fd/M DESCRIPTOR=PLACE,DESCRIPTOR=PLACE,
//
// the channel, the library, and, after exec(), the open file descriptions that it has inherited.
inline constexpr char environment_name[] = "PENSTOCK_TRACE=";
inline constexpr char preload_name[] = "LD_PRELOAD=";

}  // namespace penstock::trace::preload
