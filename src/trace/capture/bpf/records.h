#pragma once

// The interface between the programs in the kernel (watch.bpf.c) and the capture
// (kernel_watch_linux.cc): records in the ring, shared counters, and the table that tells the
// programs what to read at each system call. All types have the same bytes in C and in C++.

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
  record_file = 1,    // FileRecord: a new file, before its first use
  record_name = 2,    // NameRecord: a path argument, before its call
  record_call = 3,    // CallRecord
  record_fork = 4,    // ForkRecord
  record_exec = 5,    // ExecRecord
  record_exit = 6,    // EndRecord: the last thread of a process ends
  record_submit = 7,  // SubmitRecord: a request of an io_uring
  record_done = 8,    // DoneRecord: the completion of a request
};

// io_uring's relevant operations: IORING_OP_*.
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
  uint32_t lost;  // records dropped so far: if it has grown, some are missing before this one
  int32_t process;
  int32_t thread;
};

// The identity of a file: three numbers that are never reused together. (File systems choose a new
// generation when they reuse an inode.)
struct FileIdentity {
  uint64_t inode;
  uint32_t device;  // major << 20 | minor
  uint32_t generation;
};

// The state of an open file description when it was read. `file` is its address in the kernel: two
// descriptors with one address share their position. 0: there is none.
struct FileFacts {
  uint64_t file;
  struct FileIdentity identity;
  uint64_t position;
  uint64_t bytes;      // size of the file
  uint32_t flags;      // flags of open()
  uint16_t mode;       // S_IFMT and rights
  uint8_t is_storage;  // likewise in FileRecord
  uint8_t close_on_exec;
};

// Limits of a path: bytes of all names, bytes of a name, and names and mounts on the way to the
// root.
enum { names_bytes = 4096, name_bytes = 256, path_names_max = 64 };

// A new file. Its names are in order from the last to the first, each with its zero byte.
struct FileRecord {
  struct RecordHead head;
  struct FileIdentity identity;
  uint64_t birth_ns;  // since 1970; 0 if not known
  uint64_t bytes;
  uint64_t file_system;  // magic number
  uint32_t special;      // device of a special file
  uint16_t mode;
  uint16_t length;  // length of the names
  uint8_t is_storage;
  uint8_t is_apart;    // the file is in memory alone, in no folder
  uint8_t is_deleted;  // the file has no name any more
  uint8_t is_cut;      // the first names are missing
  uint8_t padding[4];
  char names[names_bytes + name_bytes];
};

struct NameRecord {
  struct RecordHead head;
  uint32_t index;         // 0 for the call's first path, 1 for the second
  uint16_t length;        // length of the path, with its zero byte
  uint16_t folder_bytes;  // length of the names behind it: the folder at which the path begins
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
  uint64_t pointed[2];     // numbers at CallShape::points at the end of the call
  uint64_t bytes_after;    // size of the file at the end of the call
  struct FileFacts file2;  // missing in records of calls without a second descriptor
};

struct ForkRecord {
  struct RecordHead head;  // the parent's
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
  uint64_t request;  // address in the kernel
  uint64_t start_ns;
  uint64_t offset;
  uint64_t bytes;
  uint64_t flags;  // the operation's flags
  int32_t descriptor;
  uint8_t operation;
  uint8_t is_registered;  // `descriptor` is an index into the ring's own table
  uint8_t makes_registered;
  uint8_t padding;
  uint64_t ring;
};

struct DoneRecord {
  struct RecordHead head;
  uint64_t request;
  uint64_t end_ns;
  int64_t result;
  struct FileFacts file;  // for an open: the new file
};

// Flags of the programs' actions at a system call.
enum CallDo {
  call_watched = 1,       // record the call
  call_at_entry = 2,      // record it at its entry, without its result
  call_storage_only = 4,  // ignore it if the descriptor is no storage
  call_streams = 8,       // count ignored calls as calls on streams
  call_either = 16,       // record it if one of two descriptors is storage
  call_makes_file = 32,   // read the file of the new descriptor that it returns
  call_sizes = 64,        // record the size afterwards
  call_maps = 128,        // mmap: record only maps of files
  call_failures = 256,    // record it if it fails, with its path, which a success does not need
};

// A system call's indexes of arguments; -1: none.
struct CallShape {
  uint16_t what;  // flags of CallDo
  int8_t descriptor;
  int8_t descriptor2;
  int8_t folder[2];
  int8_t path[2];
  int8_t points[2];      // pointers to 8 bytes that are recorded, ...
  uint8_t points_ahead;  // ... at this distance behind the address
  int8_t chosen_by;      // argument that must be one of `choices`
  uint32_t choices[4];
};

enum { calls_max = 512, pseudo_systems_max = 16 };

// Constants that are set before the programs are loaded.
struct Settings {
  struct CallShape calls[calls_max];
  uint64_t pseudo_systems[pseudo_systems_max];  // magic numbers, ended by 0
  int32_t attached;                             // process that is traced from the start; 0: none
  uint32_t done_has_entry;  // the tracepoint io_uring_complete has the form of 6.10 and later
};

struct Counters {
  uint64_t lost;     // dropped records
  uint64_t running;  // traced threads
  uint64_t failed_calls;
  uint64_t stream_calls;
  uint64_t other_requests;  // requests of io_urings without records
  uint64_t attached_ended;  // used by the programs alone: the number may be another process's now
};

#ifdef __cplusplus
}  // namespace penstock::trace::kernel
#endif
