#pragma once

// What the programs in the kernel (watch.bpf.c) and the capture (kernel_watch_linux.cc) say to each
// other: records that go through the ring, counters that both see, and the table that tells the
// programs what to look at for each system call. C and C++, the same bytes in both.

#ifdef __cplusplus
#include <cstdint>
namespace penstock::trace::kernel {
#else
typedef __u8 uint8_t;
typedef __s8 int8_t;
typedef __u16 uint16_t;
typedef __u32 uint32_t;
typedef __s32 int32_t;
typedef __u64 uint64_t;
typedef __s64 int64_t;
#endif

enum RecordKind {
  record_file = 1,    // FileRecord: a file that was not told of before; stands before its first use
  record_name = 2,    // NameRecord: a path that the program gave; stands before its call
  record_call = 3,    // CallRecord
  record_fork = 4,    // ForkRecord
  record_exec = 5,    // ExecRecord
  record_exit = 6,    // EndRecord: the last thread of a process ends
  record_submit = 7,  // SubmitRecord: a request of an io_uring
  record_done = 8,    // DoneRecord: its answer
};

// io_uring's operations that are of interest: IORING_OP_*.
enum RingOperation {
  op_readv = 1,
  op_writev = 2,
  op_fsync = 3,
  op_read_fixed = 4,
  op_write_fixed = 5,
  op_fallocate = 17,
  op_openat = 18,
  op_close = 19,
  op_read = 22,
  op_write = 23,
  op_openat2 = 28,
};

struct RecordHead {
  uint32_t kind;
  uint32_t lost;  // records that found no room so far: where it grows, something is missing here
  int32_t process;
  int32_t thread;
};

// Which file it is: three numbers that are not used again together. (The generation is a number
// that file systems choose when they give an inode to a new file.)
struct FileIdentity {
  uint64_t inode;
  uint32_t device;  // major << 20 | minor
  uint32_t generation;
};

// An open file description, when it was looked at. `file` is its place in the kernel's memory: two
// descriptors with one place share their position. 0: there is none.
struct FileFacts {
  uint64_t file;
  struct FileIdentity identity;
  uint64_t position;
  uint64_t bytes;      // the size of the file
  uint32_t flags;      // those of open()
  uint16_t mode;       // S_IFMT and rights
  uint8_t is_storage;  // as FileRecord has it
  uint8_t close_on_exec;
};

// Names and mounts on the way to the root: no more are followed.
enum { names_bytes = 4096, name_bytes = 256, path_names_max = 64 };

// Names stand from the last one to the first, each with its zero byte.
struct FileRecord {
  struct RecordHead head;
  struct FileIdentity identity;
  uint64_t birth_ns;  // since 1970; 0: not known
  uint64_t bytes;
  uint64_t file_system;  // its magic number
  uint32_t special;      // the device that a special file stands for
  uint16_t mode;
  uint16_t length;  // of names
  uint8_t is_storage;
  uint8_t is_apart;    // in no folder: made in memory alone
  uint8_t is_deleted;  // has no name any more
  uint8_t is_cut;      // the first names are missing
  uint8_t padding[4];
  char names[names_bytes + name_bytes];
};

struct NameRecord {
  struct RecordHead head;
  uint32_t index;         // 0 or 1: which of the call's
  uint16_t length;        // of path, with its zero byte
  uint16_t folder_bytes;  // of the names behind it: the folder that a relative path begins in
  char path[names_bytes + names_bytes + name_bytes];
};

struct CallRecord {
  struct RecordHead head;
  uint64_t start_ns;  // CLOCK_MONOTONIC
  uint64_t end_ns;
  int64_t result;
  uint64_t number;
  uint64_t arguments[6];
  struct FileFacts file;
  uint64_t pointed[2];     // what two arguments point to, at the end of the call; see CallShape
  uint64_t bytes_after;    // the size of the file at the end of the call
  struct FileFacts file2;  // not there for calls without a second descriptor
};

struct ForkRecord {
  struct RecordHead head;  // of the parent
  uint64_t start_ns;
  int32_t child;
  uint32_t shares_descriptors;
};

struct ExecRecord {
  struct RecordHead head;
  uint64_t start_ns;
  struct FileIdentity program;
};

struct EndRecord {
  struct RecordHead head;
  uint64_t start_ns;
};

struct SubmitRecord {
  struct RecordHead head;
  uint64_t request;  // its place in the kernel's memory
  uint64_t start_ns;
  uint64_t offset;
  uint64_t bytes;
  uint64_t flags;  // of the operation
  int32_t descriptor;
  uint8_t operation;
  uint8_t is_registered;  // descriptor is an index into the ring's own table
  uint8_t makes_registered;
  uint8_t padding;
  uint64_t ring;
};

struct DoneRecord {
  struct RecordHead head;
  uint64_t request;
  uint64_t end_ns;
  int64_t result;
  struct FileFacts file;  // of an open: the one that it made
};

// What to do at a system call. Indexes of arguments; -1: none.
enum CallDo {
  call_watched = 1,       // look at it at all
  call_at_entry = 2,      // recorded before it is done, its answer is not waited for
  call_storage_only = 4,  // of no interest where the descriptor is no storage
  call_streams = 8,       // counted then as one of a stream
  call_either = 16,       // of interest when one of two descriptors is storage
  call_makes_file = 32,   // its result is a new descriptor, which is looked at
  call_sizes = 64,        // the size afterwards is of interest
  call_maps = 128,        // mmap: only maps of files
};

struct CallShape {
  uint8_t what;  // of CallDo
  int8_t descriptor;
  int8_t descriptor2;
  int8_t folder[2];
  int8_t path[2];
  int8_t points[2];      // to 8 bytes that are of interest, ...
  uint8_t points_ahead;  // ... so far behind the address
  int8_t chosen_by;      // of interest only where this argument is one of:
  uint8_t padding;
  uint32_t choices[4];
};

enum { calls_max = 512, pseudo_systems_max = 16 };

// Set before the programs are loaded.
struct Settings {
  struct CallShape calls[calls_max];
  uint64_t pseudo_systems[pseudo_systems_max];  // magic numbers; 0: no more
  int32_t attached;                             // a process that is traced from now on; 0: none
  uint32_t done_has_entry;  // the form of the tracepoint io_uring_complete: 6.10 and later
};

struct Counters {
  uint64_t lost;     // records that found no room
  uint64_t running;  // traced threads
  uint64_t failed_calls;
  uint64_t stream_calls;
  uint64_t other_requests;  // of io_urings
  uint64_t attached_ended;  // of the programs alone: another process may have that number now
};

#ifdef __cplusplus
}  // namespace penstock::trace::kernel
#endif
