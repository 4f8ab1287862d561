#pragma once

// The file of a trace, and what writes it. The events, and what reads them: penstock/trace.h.
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

inline constexpr uint32_t format_version = 1;
inline constexpr uint64_t time_max = uint64_t{1} << 62;  // nanoseconds: no trace holds later ones

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

}  // namespace penstock::trace
