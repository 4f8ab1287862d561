#pragma once

// What programs ask of files: recorded, and read again. The commands `penstock trace` and `penstock convert` as calls.
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
// A trace has two layers. An Event is a call and what the kernel answered, as it was recorded: TraceReader gives them. A
// Request is an access, worked out of the events: which bytes of which file, whoever asked. examples/own_accesses.cc is a
// whole program; docs/tracing.md tells what can be seen and what not, and draws the file byte by byte.

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
  ring_unconfirmed,     // requests of rings or AIO (io_submit) whose result was not seen
  ring_other,           // those of kinds that move no file's bytes, or are not known or not seen
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
  // A trace of our own format; open_trace() takes the logs of others as well. "-": stdin, also a
  // pipe.
  static Result<TraceReader> open(const std::string& path);
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

 private:
  friend struct internal::Access;
  // Of a file that is open and has not been read.
  static Result<TraceReader> open(TraceFile file);
  // Of what somebody else tells as events.
  explicit TraceReader(std::unique_ptr<EventSource> source);

  std::unique_ptr<EventSource> source_;
};

// ---- Recording. By ptrace it needs no rights, and takes any program; by bpf, as root, it costs the program less.

struct CaptureOptions {
  std::string output = "run.trace";
  Backend backend = Backend::unknown;  // unknown: bpf where it can be had, ptrace otherwise
  std::vector<std::string> command;    // the program and its arguments, found as a shell would; or
  int32_t attach = 0;                  // a process that runs
  // Ends the capture of an attached process, which then runs on. Looked at ten times a second.
  const std::atomic<bool>* stop = nullptr;
  // Called once where the process to attach to is watched from now on.
  std::function<void()> on_attached;
  // Called once where the program has ended and processes that it left run on.
  std::function<void()> on_left;
  // bpf: what lies between the kernel and us, a power of two; 0: 32 MiB.
  uint64_t ring_bytes = 0;
};

struct Captured {
  Backend backend = Backend::unknown;
  std::string reason;  // why it is not bpf, where the backend was left open
  Totals totals;       // with exit_code: the program's own, or 128 + the signal that ended it
  uint64_t trace_bytes = 0;
  int handed_signal = 0;  // the last SIGTERM or SIGHUP that was handed to the program; 0: none
};

// Runs the program, or attaches to a process, until all its processes have ended, and writes the
// trace. stdin, stdout and stderr, signals and the terminal are the program's own (but where the
// trace goes to stdout, the program's goes to stderr); SIGINT and
// SIGQUIT of the terminal do not end the capture, SIGTERM and SIGHUP are handed to the program.
// Where that has ended, and processes that it left are traced still, SIGINT, SIGTERM and SIGHUP end
// the capture: by bpf they run on untraced; by ptrace, without which they cannot go on, the first
// such signal sends them SIGTERM and the next SIGKILL.
// One capture at a time in a process.
// Errors: not_found or permission (the program, or the process), unsupported, those of writing.
Result<Captured> capture(const CaptureOptions& options);

// ---- Logs of other programs: what `fio --write_iolog` leaves, and the text of `strace -f -ttt -T -yy -o FILE`.

enum class LogKind {
  detect,  // by the first bytes
  trace,   // our own
  iolog,
  strace,
};

// "-" is stdin, also a pipe. Memory: files and open descriptors, and some lines; nothing per
// request. Errors: those of opening; corrupt where the file is of no kind that is known, or not of
// the kind asked for.
Result<TraceReader> open_trace(const std::string& path, LogKind kind = LogKind::detect);

// ---- Accesses.

enum class Access : uint8_t { read, write };

// One access to storage: bytes [offset, offset + bytes) of a file. Never of 0 bytes, but for syncs
// (ConvertOptions::syncs).
struct Request {
  uint64_t start_ns = 0;  // since the trace began; never falls from one request to the next,
                          // but where one was late
  uint64_t latency_ns = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t file = 0;  // index into Conversion::files
  int32_t process = 0;
  int32_t thread = 0;
  Access access = Access::read;
  // Where it begins, seen from the accesses before it (in this order, of all processes):
  bool file_seek = false;  // not where the last access to this file ended (of the first: not at 0)
  bool device_seek = false;  // not where the last access of all ended: another file, or another
                             // place. The first request of all is one.

  // fsync, fdatasync and their like: what was written to the file is brought to the disk.
  bool is_sync() const { return bytes == 0; }

  bool operator==(const Request&) const = default;
};

struct ConvertedFile {
  std::string path;        // its last known name
  std::string first_path;  // at first sight
  FileKind kind = FileKind::regular;
  uint64_t device = 0;  // with inode: which file it was, on the machine of the trace
  uint64_t inode = 0;
  uint64_t first_bytes = 0;  // size at first sight
  uint64_t peak_bytes = 0;   // the largest that it reached
  // Likewise, but for space that was reserved (ftruncate, fallocate) and held nothing yet: what a
  // replay must provide.
  uint64_t used_bytes = 0;
  uint64_t last_bytes = 0;         // size in the end
  uint64_t reads = 0, writes = 0;  // requests
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t seeks = 0;     // requests with file_seek
  uint64_t switches = 0;  // requests with device_seek
  uint64_t syncs = 0;
  uint64_t mapped_bytes = 0;           // mapped: touched bytes are not seen
  uint64_t first_ns = 0, last_ns = 0;  // of its requests: start of the first, end of the last
  bool unlinked = false;
};

// Lengths of runs: bucket k counts runs of [2^k, 2^(k+1)) bytes.
using RunHistogram = std::array<uint64_t, 64>;

struct Conversion {
  // Storage that was opened, named in an event, or there from the start, in order of first sight.
  std::vector<ConvertedFile> files;
  uint64_t requests = 0;
  uint64_t reads = 0, writes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t file_seeks = 0;    // the paper's sense, per file: where each file alone jumped
  uint64_t device_seeks = 0;  // as a single disk sees them: changes of file as well
  RunHistogram runs{};        // bytes between device seeks
  uint64_t end_ns = 0;        // end of the last request
  uint64_t late = 0;          // requests out of order: see reorder_requests
  uint64_t events = 0;
  uint64_t processes = 0;  // that made requests
  UnseenCounts unseen{};
  int32_t exit_code = 0;
  bool complete = false;  // false: the trace was cut off (see `cut_off`), the rest stands
  Error cut_off{};

  double mean_run_bytes() const {
    return device_seeks == 0 ? 0
                             : static_cast<double>(read_bytes + written_bytes) /
                                   static_cast<double>(device_seeks);
  }
  // What a person should know before believing the rest, one sentence each.
  std::vector<std::string> caveats() const;
};

struct ConvertOptions {
  size_t reorder_requests = 4096;
  // Only files whose path begins so (a folder, "/tmp/"); empty: all. Others' sizes and positions
  // are followed, their requests are not given or counted, nor do they break a run.
  std::string under;
  // Sees the events as well, in their order, before they are followed; when it is called, files()
  // and string() of the trace tell what they name. An error ends the conversion with it.
  std::function<Status(std::span<const Event>)> event_sink = {};
  // Syncs of files are given to the sink as well, in their place among the requests: writes of no
  // bytes. They are no requests: Conversion counts them by file alone, and they break no run.
  bool syncs = false;
  // Ends the conversion, between two batches of events: ErrorCode::interrupted.
  const std::atomic<bool>* cancel = nullptr;
};

// What takes the requests: batches, in order. An error ends the conversion with it.
using RequestSink = std::function<Status(std::span<const Request>)>;

// Converts all of a trace. The indexes of files in requests are those of the result; they may be
// looked up before it is there by way of `files_so_far`, if given: it points to the vector that is
// growing (paths, first_bytes and kind of the files of a batch stand before the sink sees it).
// A trace that was cut off is converted as far as it goes. Errors: corrupt (in the middle: what was
// given to the sink before is good), the sink's, out_of_memory.
Result<Conversion> convert(TraceReader& trace, const ConvertOptions& options,
                           const RequestSink& sink,
                           const std::vector<ConvertedFile>** files_so_far = nullptr);

// The same for a trace by name, or for a log that import.h can read.
Result<Conversion> convert_file(const std::string& path, const ConvertOptions& options,
                                const RequestSink& sink,
                                const std::vector<ConvertedFile>** files_so_far = nullptr);

}  // namespace penstock::trace
