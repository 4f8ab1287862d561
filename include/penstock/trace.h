#pragma once

// Recording and reading of programs' accesses to files: `penstock trace` and `penstock convert`.
//
//   auto done = penstock::trace::capture({.output = "run.trace", .command = {"cp", "a", "b"}});
//   if (!done) return report(done.error().message());
//
//   uint64_t bytes = 0;  // that the command read, whatever it read them from
//   auto sums = penstock::trace::convert_file(
//       "run.trace", {}, [&](std::span<const penstock::trace::Request> requests) -> penstock::Status {
//         for (const auto& request : requests)
//           if (request.access == penstock::trace::Access::read) bytes += request.bytes;
//         return {};
//       });
//   for (const auto& file : sums->files) std::printf("%s: %llu seeks\n", file.path.c_str(), file.seeks);
//
// A trace has two layers. An Event is a recorded call and the kernel's answer; TraceReader returns
// events. A Request is an access derived from the events: which bytes of which file, whoever asked.
// examples/own_accesses.cc is a whole program; docs/tracing.md tells what can be seen and what
// cannot, and draws the file byte by byte.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::trace {

class EventSource;
class TraceFile;

// ---- Events.

// Stored on disk by number.
enum class Backend : uint8_t { unknown = 0, ptrace = 1, bpf = 3, import = 4, synthetic = 5 };
std::string_view name_of(Backend backend);

// The recorded call. Stored on disk by number: never renumbered, new ones at the end.
//
// The comment beside each lists the members of Event that it uses (besides process, thread,
// start_ns and latency_ns, which are always set). "descriptor" is the call's argument, or result.
enum class Call : uint8_t {
  // Descriptors.
  open = 1,      // descriptor, file, flags; result: the file's size after it. If it failed (flag
                 // failed; so for stat): path, the name (0: not kept); result: errno
  describe = 2,  // a descriptor that was there before the trace, or came unseen: descriptor, file,
                 // flags; offset: its position; result: the file's size. With child != 0 it
                 // shares its position with descriptor2 of process `child`.
  close = 3,     // descriptor
  close_range = 4,  // descriptor to descriptor2; with `close_on_exec` only marked
  duplicate = 5,    // descriptor -> descriptor2 (which is closed first if open); flags
  set_flags = 6,    // fcntl(F_SETFD): close_on_exec or not, and `descriptor_flags`;
                    // fcntl(F_SETFL): append, direct, and `status_flags`
  // Bytes. `bytes` is the requested number, `result` the number moved.
  read = 10,   // descriptor, bytes, result. offset: of pread and its like; no_offset: where the
  write = 11,  // descriptor stands. RWF_APPEND: flag append
  seek = 12,   // descriptor; result: the position it led to
  copy = 13,   // sendfile, copy_file_range, splice: descriptor -> descriptor2, bytes, result;
               // offset, offset2 as for read
  // The file itself.
  truncate = 20,  // file; result: the new size
  allocate = 21,  // descriptor, file, offset, bytes; flags keep_size, punch;
                  // result: the file's size after it
  sync = 22,      // descriptor, file. Without either: of more than one file (sync, syncfs, msync)
  rename = 23,    // file (0: not known), path: its new name
  unlink = 24,    // file (0: not known), path
  map = 25,       // descriptor, file, offset, bytes, flags read, write. Touches: not seen
  size = 26,      // file; result: its size, as a call returned it (fstat, a seek to the end).
                  // Only in foreign logs, whose opens do not tell the size
  stat = 27,      // file (0: not known). stat, access and their like
  // Processes.
  fork = 30,  // child. Flag shares_descriptors: one table for both (CLONE_FILES)
  exec = 33,  // path: the program. Descriptors that close on exec are closed
  exit = 34,  // ends a process, not a thread
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
inline constexpr uint32_t unconfirmed = 1u << 15;   // the result was not seen: it is set to `bytes`
inline constexpr uint32_t shares_descriptors = 1u << 16;
inline constexpr uint32_t splice = 1u << 17;     // copy: by splice()
inline constexpr uint32_t data_only = 1u << 18;  // sync: fdatasync
// open, describe, allocate: the source log does not tell the size; `result` is 0.
inline constexpr uint32_t size_unknown = 1u << 19;
inline constexpr uint32_t failed = 1u << 20;  // open, stat: the call failed. From version 2 on
inline constexpr uint32_t all = (1u << 21) - 1;
}  // namespace flag

inline constexpr uint64_t no_offset = ~uint64_t{0};
inline constexpr uint64_t largest_offset = (uint64_t{1} << 63) - 1;

// One call. A value; members that a call does not use keep these defaults.
struct Event {
  uint64_t start_ns = 0;    // since the trace began
  uint64_t latency_ns = 0;  // from request to answer
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

// The kind of object behind a descriptor. Only the first two are storage; the others are
// distinguished so that nobody takes a socket's bytes for a file's.
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
  uint32_t id = 0;  // from 1 on, without gaps
  FileKind kind = FileKind::other;
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t birth_ns = 0;  // since 1970; 0: the file system does not tell
  uint64_t bytes = 0;     // size at first sight
  std::string path;       // at first sight; any bytes but 0, possibly not a valid name

  bool operator==(const FileRecord&) const = default;
};

// The description of a trace.
struct Header {
  Backend backend = Backend::unknown;
  uint64_t wall_ns = 0;  // wall clock at start_ns = 0, since 1970
  std::string command;   // the traced command, for people
  std::string host;      // "Linux 6.1.0 x86_64"
  bool operator==(const Header&) const = default;
};

// Counts of things that the capture did not see, for reports. The order is that on disk.
enum class Unseen : uint8_t {
  dropped_events,       // lost for lack of room (BPF), or in a process that was killed
  failed_calls,         // left out because they failed (from version 2 on: not opens and stats)
  stream_calls,         // reads and writes of pipes, sockets, terminals
  mapped_files,         // maps of files: later touches are not seen
  polled_rings,         // io_urings whose requests cannot be seen
  ring_unconfirmed,     // requests of rings or AIO (io_submit) whose result was not seen
  ring_other,           // requests that move no file's bytes, or of unknown or unseen kinds
  unknown_descriptors,  // calls on descriptors that nothing is known about
  untraced_processes,   // processes that could not be followed (no current backend has any)
  unknown_sharing,      // descriptors that may share a position with others: kcmp() was denied
  unknown_names,        // changes of names for which only the file system knows the file
  untimed_lines,        // lines of an strace log without a time
  count
};
// Returns "calls that failed, left out", in the form that follows a number.
std::string_view name_of(Unseen unseen, uint64_t number = 2);
using UnseenCounts = std::array<uint64_t, static_cast<size_t>(Unseen::count)>;

// The end of a complete trace.
struct Totals {
  uint64_t events = 0;
  uint64_t files = 0;
  uint64_t end_ns = 0;    // when the capture ended, since the trace began
  int32_t exit_code = 0;  // the program's, as in a shell; 0 when attached to one
  UnseenCounts unseen{};
  bool operator==(const Totals&) const = default;
};

// Reads a trace in order, in bounded memory (one chunk) besides the tables of files and strings.
//
// For any bytes, it returns events that keep the rules (known calls and flags, ids that
// were defined, offsets and sizes below 2^63) or an error of code `corrupt` that says where and
// why. After an error that says that the trace was cut off, all events before it are good.
//
// Thread safety: none.
class TraceReader {
 public:
  // Opens a trace of our own format; open_trace() takes foreign logs, too. "-": stdin, even a pipe.
  static Result<TraceReader> open(const std::string& path);
  // Opens a trace in memory, which must stay.
  static Result<TraceReader> of_memory(std::span<const std::byte> trace);
  TraceReader(TraceReader&&) noexcept;
  TraceReader& operator=(TraceReader&&) noexcept;
  ~TraceReader();

  const Header& header() const;
  const std::string& path() const;  // the trace's path

  // Reads the next events, at most `into.size()`; 0 at the end. Fewer than requested
  // are not the end.
  Result<size_t> next(std::span<Event> into);

  // Returns the files that were defined up to the last event read; id - 1 is the index.
  const std::vector<FileRecord>& files() const;
  const FileRecord& file(uint32_t id) const;   // REQUIRES: 0 < id <= files().size()
  std::string_view string(uint32_t id) const;  // REQUIRES: an event had the id
  // REQUIRES: next() has returned 0.
  const Totals& totals() const;
  // Returns the counts so far for a log; for a trace of ours only after its end.
  const UnseenCounts& unseen() const;
  // Returns whether the end has been reached.
  bool complete() const;
  // Returns whether the last error was that the trace is cut off, rather than damaged.
  bool cut_off() const;

 private:
  friend struct internal::Access;
  // Opens a file that is open and has not been read.
  static Result<TraceReader> open(TraceFile file);
  // Reads events from another source.
  explicit TraceReader(std::unique_ptr<EventSource> source);

  std::unique_ptr<EventSource> source_;
};

// ---- Recording. ptrace needs no rights and takes any program; bpf needs root and costs less.

struct CaptureOptions {
  std::string output = "run.trace";
  Backend backend = Backend::unknown;  // unknown: bpf if available, else ptrace
  std::vector<std::string> command;    // the program and its arguments, found as by a shell; or
  int32_t attach = 0;                  // a running process
  // Renames a trace that `output` replaces to OUTPUT.old, in place of one of that name.
  bool keeps_old = false;
  // Ends the capture of an attached process, which continues to run. Checked ten times a second.
  const std::atomic<bool>* stop = nullptr;
  // Called once when the attached process is being watched.
  std::function<void()> on_attached;
  // Called once when the program has ended and processes that it left are still running.
  std::function<void()> on_left;
  // Size of bpf's buffer between the kernel and us, a power of two; 0: 32 MiB.
  uint64_t ring_bytes = 0;
};

struct Captured {
  Backend backend = Backend::unknown;
  std::string reason;  // why it is not bpf, if the backend was left open
  Totals totals;       // exit_code is the program's, or 128 + the signal that ended it
  uint64_t trace_bytes = 0;
  bool kept_old = false;  // OUTPUT.old is the trace that was replaced
  int handed_signal = 0;  // last SIGTERM or SIGHUP forwarded to the program; 0: none
};

// Runs the program, or attaches to a process, until all its processes have ended, and writes the
// trace. stdin, stdout, stderr, signals and the terminal belong to the program (but if the trace
// goes to stdout, the program's stdout goes to stderr). SIGINT and SIGQUIT of the terminal do not
// end the capture; SIGTERM and SIGHUP are forwarded to the program. Once the program has ended, and
// processes that it left are still traced, SIGINT, SIGTERM and SIGHUP end the capture. With bpf
// these processes continue untraced. With ptrace they cannot continue: the first such signal sends
// them SIGTERM and the next one SIGKILL. One capture at a time in a process. Errors: not_found or
// permission (the program, or the process), unsupported, those of writing.
Result<Captured> capture(const CaptureOptions& options);

// ---- Foreign logs: of `fio --write_iolog`, and text of `strace -f -ttt -T -yy -o FILE`.

enum class LogKind {
  detect,  // by the first bytes
  trace,   // our own format
  iolog,
  strace,
};

// Opens a trace or a log; "-" is stdin, also a pipe. Memory: files and open descriptors, and some
// lines; nothing per request. Errors: those of opening; corrupt if the file is of no known kind, or
// not of the requested kind.
Result<TraceReader> open_trace(const std::string& path, LogKind kind = LogKind::detect);

// ---- Accesses.

enum class Access : uint8_t { read, write };

// One access to storage: bytes [offset, offset + bytes) of a file. Only syncs
// (ConvertOptions::syncs) have 0 bytes.
struct Request {
  // Time since the trace began; never falls from one request to the next, unless one was late.
  uint64_t start_ns = 0;
  uint64_t latency_ns = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t file = 0;  // index into Conversion::files
  int32_t process = 0;
  int32_t thread = 0;
  Access access = Access::read;
  // Position relative to the accesses before it (in this order, of all processes):
  bool file_seek = false;  // not at the end of this file's last access (the first: not at 0)
  // Not at the end of the last access of all (another file or place); the first request is one.
  bool device_seek = false;

  // Returns whether this is an fsync or the like, which brings the file's writes to the disk.
  bool is_sync() const { return bytes == 0; }

  bool operator==(const Request&) const = default;
};

// Kinds of calls, whose number and time are summed up.
enum class CallKind : uint8_t {
  read,
  write,
  copy,  // sendfile, copy_file_range, splice
  sync,  // fsync, fdatasync, msync and their like
  open,
  stat,    // stat, access and their like
  failed,  // opens and stats that failed: mostly, the file was not there
  other,   // truncations, mappings, changes of names
  count
};
std::string_view name_of(CallKind kind);  // "read"

// Calls, and their time from request to answer, summed up over all threads. 0 if a log has no
// latencies.
struct CallSum {
  uint64_t calls = 0;
  uint64_t ns = 0;
  bool operator==(const CallSum&) const = default;
};
struct CallSums : std::array<CallSum, static_cast<size_t>(CallKind::count)> {
  CallSum& of(CallKind kind) { return (*this)[static_cast<size_t>(kind)]; }
  const CallSum& of(CallKind kind) const { return (*this)[static_cast<size_t>(kind)]; }
  CallSum all() const {
    CallSum sum;
    for (const CallSum& one : *this) {
      sum.calls += one.calls;
      sum.ns += one.ns;
    }
    return sum;
  }
};

struct ConvertedFile {
  std::string path;        // last known name
  std::string first_path;  // at first sight
  FileKind kind = FileKind::regular;
  uint64_t device = 0;  // device and inode identify the file on the traced machine
  uint64_t inode = 0;
  uint64_t first_bytes = 0;  // size at first sight
  uint64_t peak_bytes = 0;   // largest size
  // Largest size without space that was reserved (ftruncate, fallocate) and held nothing yet: the
  // size that a replay must provide.
  uint64_t used_bytes = 0;
  uint64_t last_bytes = 0;         // size at the end
  uint64_t reads = 0, writes = 0;  // requests
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t seeks = 0;     // requests with file_seek
  uint64_t switches = 0;  // requests with device_seek
  uint64_t syncs = 0;
  CallSums calls{};                    // number and time of the calls on it
  uint64_t mapped_bytes = 0;           // mapped; touched bytes are not seen
  uint64_t first_ns = 0, last_ns = 0;  // start of its first request, end of the last
  bool unlinked = false;

  // Returns the part of the file that was mapped at most, however often it was.
  uint64_t mapped_part_bytes() const {
    return mapped_bytes < peak_bytes ? mapped_bytes : peak_bytes;
  }
};

// A name of opens and stats that failed.
struct FailedName {
  std::string path;
  uint64_t calls = 0;
};
inline constexpr size_t failed_names_max = 16;

// Lengths of runs: bucket k counts runs of [2^k, 2^(k+1)) bytes.
using RunHistogram = std::array<uint64_t, 64>;

struct Conversion {
  // Storage that was opened, named in an event, or open from the start, in order of first sight.
  std::vector<ConvertedFile> files;
  uint64_t requests = 0;
  uint64_t reads = 0, writes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t file_seeks = 0;    // the paper's sense: seeks of each file alone
  uint64_t device_seeks = 0;  // seeks of a single disk: changes of file as well
  RunHistogram runs{};        // bytes between device seeks
  uint64_t end_ns = 0;        // end of the last request
  CallSums calls{};           // sums over all threads; a copy counts once, though it has two files
  uint64_t busy_ns = 0;       // time in which at least one of these calls was under way
  uint64_t whole_ns = 0;      // time from the beginning of the trace to its end
  // Names of opens and stats that failed, the most frequent first; at most failed_names_max.
  std::vector<FailedName> failed_names;
  uint64_t late = 0;  // requests out of order: see reorder_requests
  uint64_t events = 0;
  uint64_t processes = 0;  // processes that made requests
  UnseenCounts unseen{};
  int32_t exit_code = 0;
  bool complete = false;  // false: the trace was cut off (see `cut_off`); the part before is valid
  Error cut_off{};

  double mean_run_bytes() const {
    return device_seeks == 0 ? 0
                             : static_cast<double>(read_bytes + written_bytes) /
                                   static_cast<double>(device_seeks);
  }
  // Returns the limits of these figures that a person should know, one sentence each.
  std::vector<std::string> caveats() const;
};

struct ConvertOptions {
  size_t reorder_requests = 4096;
  // Only files whose path begins with this (a folder, "/tmp/"); empty: all. Sizes and positions of
  // other files are tracked, but their requests are not delivered or counted, and break no run.
  std::string under;
  // Also receives the events, in order, before they are processed; at that time files() and
  // string() of the trace know the ids in them. An error ends the conversion.
  std::function<Status(std::span<const Event>)> event_sink = {};
  // Also delivers syncs of files to the sink, in their place among the requests, as writes of no
  // bytes. They are no requests: Conversion counts them per file only, and they break no run.
  bool syncs = false;
  // Ends the conversion between two batches of events with ErrorCode::interrupted.
  const std::atomic<bool>* cancel = nullptr;
};

// A receiver of requests: batches, in order. An error ends the conversion.
using RequestSink = std::function<Status(std::span<const Request>)>;

// Converts a whole trace. Requests refer to files by the result's indexes. `files_so_far`, if
// given, is set to the growing vector, to look them up earlier (paths, first_bytes and kind of a
// batch's files are known before the sink sees it). A trace that was cut off is converted as far as
// it goes. Errors: corrupt (in the middle: earlier requests are good), the sink's, out_of_memory.
Result<Conversion> convert(TraceReader& trace, const ConvertOptions& options,
                           const RequestSink& sink,
                           const std::vector<ConvertedFile>** files_so_far = nullptr);

// Converts a trace by name, or a log that open_trace() can read.
Result<Conversion> convert_file(const std::string& path, const ConvertOptions& options,
                                const RequestSink& sink,
                                const std::vector<ConvertedFile>** files_so_far = nullptr);

}  // namespace penstock::trace
