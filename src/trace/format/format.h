#pragma once

// The file of a trace, and its writer. penstock/trace.h has the events and their reader.
//
// A line of text per call, as strace writes it, takes 100 bytes and more, and does not say which
// position "lseek(5, -4096, SEEK_END)" led to. Here a call is an Event of some ten bytes. It
// contains the *kernel's* answer (the position after a seek, the bytes that a read moved, the file
// that an open found), so that nothing has to be guessed later. Calls that failed are left out.
// follow/convert.cc works out what the events mean for the files (who reads where).
//
// Files are identified by numbers, not by names: names change, a temporary file may have none, and
// one file may have several. The capture reads from the system which file an open found (device,
// inode, time of birth) and numbers files in the order of first sight. A FileRecord has the name.
//
// On disk (all numbers little-endian; drawn byte by byte in docs/formats.md):
//
//   header    64 bytes: magic, version, clocks, backend, checksum
//   chunk     32 bytes: magic, kind, bytes, events, checksums; then its body, at most 1 MiB
//   ...
//   chunk     of kind `end`: the sums that a complete trace ends with
//
// The events of a chunk are packed as differences to the previous event. The first one of a chunk
// is packed without one, so that a chunk can be read without the chunks before it (except for the
// files and strings that they define). The reader returns all whole chunks of a file that was cut
// off, and then the error.
//
// Order: events are in the order in which they took effect, as far as the backend can see it (see
// `Call`). Times do not decide: clocks of two processors may differ by as much as a call takes.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

inline constexpr uint32_t format_version = 2;  // 1 had no stats, and no calls that failed

inline constexpr uint64_t time_max = uint64_t{1} << 62;  // latest time of a trace, in nanoseconds

class TraceFile;  // trace_file.h

// Writes a trace event by event, in bounded memory (two chunks, and the strings' ids).
//
// Thread safety: none. Errors of writing come from finish() at the latest. The part written before an
// error stays readable.
class TraceWriter {
 public:
  // Creates a trace; "-" is stdout. create() replaces an existing file at once. create_whole()
  // replaces it in finish() or leave_cut_off(), or not at all.
  static Result<TraceWriter> create(const std::string& path, const Header& header);
  static Result<TraceWriter> create_whole(const std::string& path, const Header& header);
  TraceWriter(TraceWriter&&) noexcept;
  TraceWriter& operator=(TraceWriter&&) noexcept;
  ~TraceWriter();  // without finish(), the trace is cut off

  // Returns the id of a string, from 1. Equal strings may have several ids (there is no table of
  // all). Strings longer than string_bytes_max are cut.
  uint32_t add_string(std::string_view text);
  // Returns the id of a new file; the record's own id is ignored. The caller adds each file once.
  uint32_t add_file(const FileRecord& file);
  // Adds an event. REQUIRES: its file and path have been added.
  Status add(const Event& event);
  // Writes all events so far to the file, in a chunk that may be short.
  Status flush();
  // Writes the end. The writer fills in `totals.events` and `totals.files`.
  Status finish(const Totals& totals);
  // Closes the trace without an end.
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

}  // namespace penstock::trace
