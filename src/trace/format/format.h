#pragma once

// A trace: what the processes of a program asked of files, call by call, as one file.
//
// The naive way writes one line of text per call, as strace does: 100 bytes and more, and a person
// has to know what "lseek(5, -4096, SEEK_END)" led to. Here a call is an Event of some ten bytes.
// It says what the *kernel* answered (the position that a seek led to, the bytes that a read
// moved, which file an open found), and nothing that would have to be guessed later. Calls that
// failed are not in it. What the events mean for the files (who reads where) is the business of
// convert.h.
//
// Files are not known by name: names change, a temporary file may have none, and one file may have
// several. The capture asks the system which file an open found (device, inode, time of birth) and
// gives each one a number, in the order of first sight. The names stand beside it in a FileRecord.
//
// On disk (all numbers little-endian; drawn byte by byte in docs/tracing.md):
//
//   header    64 bytes: magic, version, clocks, backend, checksum
//   chunk     32 bytes: magic, kind, bytes, events, checksums; then its body, at most 1 MiB
//   ...
//   chunk     of kind `end`: the sums that a complete trace ends with
//
// The events of a chunk are packed as differences to the event before; the first one of a chunk
// stands for itself, so that a chunk can be read without the ones before it (but for the files and
// strings that they define). A file that was cut off gives all of its whole chunks, and then the
// error.
//
// Order: events stand in the order in which they took effect, as far as the backend can see that
// (see `Call`). Times do not decide: two processors' clocks may disagree by less than a call takes.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::trace {

inline constexpr uint32_t format_version = 1;

// A number on disk.
enum class Backend : uint8_t { unknown = 0, ptrace = 1, bpf = 3, import = 4, synthetic = 5 };
std::string_view name_of(Backend backend);

// What was asked. A number on disk: never renumbered, new ones at the end.
//
// Beside each: the members of Event that mean something for it (process, thread, start_ns and
// latency_ns always do). "descriptor" is the one that the call was given, or made.
enum class Call : uint8_t {
  // Descriptors.
  open = 1,      // descriptor, file, flags; result: the file's size after it
  describe = 2,  // a descriptor that was there before the trace, or came unseen: descriptor, file,
                 // flags; offset: its position; result: the file's size. With child != 0 it
                 // shares its position with descriptor2 of process `child`.
  close = 3,     // descriptor
  close_range = 4,  // descriptor to descriptor2; with `close_on_exec` only marked
  duplicate = 5,    // descriptor -> descriptor2 (which is closed first if open); flags
  set_flags = 6,    // fcntl(F_SETFD): close_on_exec or not, and `descriptor_flags`;
                    // fcntl(F_SETFL): append, direct, and `status_flags`
  // Bytes. `bytes` is what was asked for, `result` what was moved.
  read = 10,   // descriptor, bytes, result. offset: of pread and its like; no_offset: where the
  write = 11,  // descriptor stands. RWF_APPEND: flag append
  seek = 12,   // descriptor; result: the position it led to
  copy = 13,   // sendfile, copy_file_range, splice: descriptor -> descriptor2, bytes, result;
               // offset, offset2 as for read
  // The file itself.
  truncate = 20,  // file; result: the new size
  allocate = 21,  // descriptor, file, offset, bytes; flags keep_size, punch;
                  // result: the file's size after it
  sync = 22,      // descriptor, file
  rename = 23,    // file (0: not known), path: its new name
  unlink = 24,    // file (0: not known), path
  map = 25,       // descriptor, file, offset, bytes, flags read, write. What is touched: not seen
  size = 26,      // file; result: its size, as somebody who asked was told (fstat, a seek to the
                  // end). Only logs of others have it, whose opens do not tell the size
  // Processes.
  fork = 30,  // child. Flag shares_descriptors: one table for both (CLONE_FILES)
  exec = 33,  // path: the program. Descriptors that close on exec are closed
  exit = 34,  // of the process, not of a thread
  // io_uring. Requests stand where they were seen to be complete; start_ns is when they were
  // submitted, latency_ns until the completion was *seen*: an upper bound.
  ring_setup = 40,  // descriptor; flags: kernel_polls
};
inline constexpr uint8_t call_max = 40;
std::string_view name_of(Call call);  // empty: none of ours

// Flags of an event: ours, not the system's, so that a trace means the same everywhere.
namespace flag {
inline constexpr uint32_t read = 1u << 0;  // open for
inline constexpr uint32_t write = 1u << 1;
inline constexpr uint32_t append = 1u << 2;       // every write goes to the end
inline constexpr uint32_t direct = 1u << 3;       // O_DIRECT
inline constexpr uint32_t synchronous = 1u << 4;  // O_SYNC, O_DSYNC, RWF_SYNC
inline constexpr uint32_t truncates = 1u << 5;    // O_TRUNC
inline constexpr uint32_t creates = 1u << 6;      // O_CREAT
inline constexpr uint32_t close_on_exec = 1u << 7;
inline constexpr uint32_t descriptor_flags = 1u << 8;  // set_flags: which of the two it set
inline constexpr uint32_t status_flags = 1u << 9;
inline constexpr uint32_t keep_size = 1u << 10;     // allocate
inline constexpr uint32_t punch = 1u << 11;         // allocate: takes bytes away
inline constexpr uint32_t vector = 1u << 12;        // readv and its like: `bytes` is not known then
inline constexpr uint32_t ring = 1u << 13;          // came through io_uring
inline constexpr uint32_t kernel_polls = 1u << 14;  // IORING_SETUP_SQPOLL: submissions are not seen
inline constexpr uint32_t unconfirmed = 1u << 15;   // the result was not seen: it is `bytes`
inline constexpr uint32_t shares_descriptors = 1u << 16;
inline constexpr uint32_t splice = 1u << 17;     // copy: by splice()
inline constexpr uint32_t data_only = 1u << 18;  // sync: fdatasync
// open, describe, allocate: the log that this comes from does not tell the size; `result` is 0.
inline constexpr uint32_t size_unknown = 1u << 19;
inline constexpr uint32_t all = (1u << 20) - 1;
}  // namespace flag

inline constexpr uint64_t no_offset = ~uint64_t{0};
inline constexpr uint64_t largest_offset = (uint64_t{1} << 63) - 1;

// One call. A value; members that mean nothing for a call are as here.
struct Event {
  uint64_t start_ns = 0;    // since the trace began
  uint64_t latency_ns = 0;  // from asking to the answer
  uint64_t offset = no_offset;
  uint64_t offset2 = no_offset;
  uint64_t bytes = 0;
  uint64_t result = 0;
  int32_t process = 0;
  int32_t thread = 0;
  int32_t child = 0;
  int32_t descriptor = -1;
  int32_t descriptor2 = -1;
  uint32_t file = 0;  // a FileRecord's id; 0: none
  uint32_t path = 0;  // a string's id; 0: none
  uint32_t flags = 0;
  Call call = Call::read;

  bool operator==(const Event&) const = default;
};

// What kind of thing a descriptor stands for. Only the first two are storage: the others are told
// apart so that nobody takes a socket's bytes for a file's.
enum class FileKind : uint8_t {
  regular,
  block_device,
  directory,
  pipe,
  socket,
  character_device,
  pseudo,  // a file of /proc, /sys and their like
  ring,    // io_uring
  other,   // eventfd, epoll, ...
};
inline constexpr uint8_t file_kind_max = static_cast<uint8_t>(FileKind::other);
std::string_view name_of(FileKind kind);
constexpr bool is_storage(FileKind kind) {
  return kind <= FileKind::block_device;
}

// A file of the trace. Two opens that found the same (device, inode, birth) have one record.
struct FileRecord {
  uint32_t id = 0;  // from 1, without gaps
  FileKind kind = FileKind::other;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t birth_ns = 0;  // since 1970; 0: the file system does not tell
  uint64_t bytes = 0;     // its size at first sight
  std::string path;       // at first sight; any bytes but 0, not always a name that can be opened

  bool operator==(const FileRecord&) const = default;
};

// What a trace says about itself.
struct Header {
  Backend backend = Backend::unknown;
  uint64_t wall_ns = 0;  // the clock of the day at start_ns = 0, since 1970
  std::string command;   // what was traced, for people
  std::string host;      // "Linux 6.1.0 x86_64"
  bool operator==(const Header&) const = default;
};

// What the capture could not, or did not, see: counted, so that a report can say so. The order is
// that on disk.
enum class Unseen : uint8_t {
  dropped_events,       // lost for lack of room (BPF), or in a process that was killed
  failed_calls,         // left out because they failed
  stream_calls,         // reads and writes of pipes, sockets, terminals
  mapped_files,         // maps of files: what is touched later is not seen
  polled_rings,         // io_urings whose requests cannot be seen
  ring_unconfirmed,     // ring requests whose result was not seen
  ring_other,           // ring requests of kinds that move no file's bytes, or are not known
  unknown_descriptors,  // calls on descriptors about which nothing could be learnt
  untraced_processes,   // processes that could not be followed (no backend of today has any)
  unknown_sharing,      // descriptors that may share a position with others: kcmp() was denied
  unknown_names,        // changes of names of which only the file system knows which file has them
  untimed_lines,        // lines of a log of strace that tell no time
  count
};
std::string_view name_of(Unseen unseen);  // "calls that failed, left out"
using UnseenCounts = std::array<uint64_t, static_cast<size_t>(Unseen::count)>;

// What a complete trace ends with.
struct Totals {
  uint64_t events = 0;
  uint64_t files = 0;
  uint64_t end_ns = 0;    // when the capture ended, since the trace began
  int32_t exit_code = 0;  // of the program, as a shell tells it; 0 when attached to one
  UnseenCounts unseen{};
  bool operator==(const Totals&) const = default;
};

class TraceFile;  // trace_file.h

// Writes a trace as it comes, in bounded memory (two chunks, and the strings' ids).
//
// Thread safety: none. Errors of writing come at the latest from finish(); what was written before
// stays readable.
class TraceWriter {
 public:
  // "-" is stdout. An existing file is replaced: at once, or by finish() or leave_cut_off(), and
  // then by all or nothing.
  static Result<TraceWriter> create(const std::string& path, const Header& header);
  static Result<TraceWriter> create_whole(const std::string& path, const Header& header);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();  // without finish(): a trace that was cut off

  // The id of a string, from 1. Equal strings may have several ids (no table of all is kept).
  // Longer ones than string_bytes_max are cut.
  uint32_t add_string(std::string_view text);
  // The id of the file: the record's own is ignored. The caller knows which files are the same.
  uint32_t add_file(const FileRecord& file);
  // REQUIRES: its file and path have been added; one thread of events.
  Status add(const Event& event);
  // What is there so far reaches the file (a chunk may be short then).
  Status flush();
  // Writes the end. `totals.events` and `totals.files` are the writer's own.
  Status finish(const Totals& totals);
  // Writes no end: what is there so far is all.
  Status leave_cut_off();

  uint64_t events() const;
  uint64_t file_bytes() const;  // written so far

  struct State;

 private:
  static Result<TraceWriter> begin(TraceFile file, const Header& header);
  explicit TraceWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

inline constexpr size_t string_bytes_max = 16 * 1024;

class EventSource;  // event_source.h

// Reads a trace from its beginning to its end, in bounded memory (one chunk) beside the tables of
// files and strings.
//
// Whatever the bytes are, it gives events that keep the rules (known calls and flags, ids that were
// defined, offsets and sizes below 2^63) or an error of code `corrupt` that says where and why.
// After an error that says that the trace was cut off, everything given before is good.
//
// Thread safety: none.
class TraceReader {
 public:
  // A trace of our own format; open_trace() in import.h takes the logs of others as well. "-":
  // stdin, also a pipe.
  static Result<TraceReader> open(const std::string& path);
  // The same, of a file that is open and has not been read.
  static Result<TraceReader> of_file(TraceFile file);
  // A trace that lies in memory, which must stay.
  static Result<TraceReader> of_memory(std::span<const std::byte> trace);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const Header& header() const;
  const std::string& path() const;  // of the trace

  // The next events, at most `into.size()`; 0 at the end. Fewer than asked for say nothing.
  Result<size_t> next(std::span<Event> into);

  // As far as they were defined up to the last event given; id - 1 is the index.
  const std::vector<FileRecord>& files() const;
  const FileRecord& file(uint32_t id) const;   // REQUIRES: 0 < id <= files().size()
  std::string_view string(uint32_t id) const;  // REQUIRES: id was given with an event
  // REQUIRES: next() has returned 0.
  const Totals& totals() const;
  // Of a log whatever was met so far; of a trace of ours nothing before its end.
  const UnseenCounts& unseen() const;
  // Whether the end has been reached.
  bool complete() const;
  // Whether the last error was that the trace is cut off, and not that it is damaged.
  bool cut_off() const;

  // What somebody else tells as events: import.h.
  explicit TraceReader(std::unique_ptr<EventSource> source);

 private:
  std::unique_ptr<EventSource> source_;
};

}  // namespace penstock::trace
