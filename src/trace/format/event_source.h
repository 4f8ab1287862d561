#pragma once

// The source of a TraceReader's events: a trace (format.cc), or the log of another program
// (import.h).
//
// Thread safety: none.
// Invariants of events and tables, whatever the source's bytes are: known calls and flags, files and
// strings that are in the tables, offsets and sizes below 2^63. Tables only grow, and contain the
// names of all events returned so far.

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

  // Reads up to `into.size()` events, as TraceReader::next(). Returns 0 at the end.
  virtual Result<size_t> next(std::span<Event> into) = 0;

  std::string trace_path;         // path of the source
  Header header;                  // known from the start
  std::vector<FileRecord> files;  // [id - 1]
  std::vector<std::string> strings;
  Totals totals;             // valid if complete
  bool complete = false;     // the end was reached
  bool was_cut_off = false;  // the last error is that the end is missing

 protected:
  // Ends the events with an error. If this call has returned events, the next one returns the error.
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
