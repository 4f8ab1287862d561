#pragma once

// What stands behind a TraceReader: a trace of our own (format.cc), or the log of another program
// (import.h), told in the same events.
//
// Thread safety: none.
// Invariants of what a source gives, whatever its bytes are: known calls and flags, files and
// strings that are in the tables, offsets and sizes below 2^63. Tables only grow, and hold what the
// events given so far name.

#include <cstddef>
#include <expected>
#include <span>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {

class EventSource {
 public:
  EventSource() = default;
  EventSource(const EventSource&) = delete;
  EventSource& operator=(const EventSource&) = delete;
  virtual ~EventSource() = default;

  // As TraceReader::next(): at most `into.size()` events, 0 at the end.
  virtual Result<size_t> next(std::span<Event> into) = 0;

  std::string trace_path;         // where it was read from
  Header header;                  // known from the start
  std::vector<FileRecord> files;  // by id - 1
  std::vector<std::string> strings;
  Totals totals;             // where complete
  bool complete = false;     // the end was reached
  bool was_cut_off = false;  // the last error was that the end is missing

 protected:
  // An error ends the events. It comes with the next call where some were given before it.
  Result<size_t> fail(const Error& error, size_t given) {
    failed_ = std::unexpected(error);
    if (given > 0) return given;
    return failed_error();
  }
  bool has_failed() const { return !failed_; }
  std::unexpected<Error> failed_error() const { return std::unexpected(failed_.error()); }

 private:
  Status failed_;
};

}  // namespace penstock::trace
