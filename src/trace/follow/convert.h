#pragma once

// From calls to accesses: which bytes of which file were read or written, when, and by whom.
//
// A read says "descriptor 5, wherever it stands". To know where that is, one must know what open or
// dup made descriptor 5, who else moved the same position (a duplicate, a child after fork), where
// a seek led, and how long the file was when O_APPEND was obeyed. The conversion keeps what the
// kernel keeps for this:
//
//   process -> table of descriptors -> open file description (position, append) -> file (size)
//
// Tables are copied by fork and shared by threads (and by CLONE_FILES); descriptions are shared by
// dup and by fork, and not by two opens of one file. Nothing else decides where an access goes.
//
// Order: requests come in the order in which they were *started*. Events stand in the trace in the
// order in which they took effect, so a slow call may stand behind younger ones; a window of
// `reorder_requests` puts them back. A call that took longer than so many others comes late, and is
// counted.
//
// Memory: per file and per open descriptor, and the window; nothing per request.

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {

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
