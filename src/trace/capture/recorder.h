#pragma once

// The part of a capture that all backends share: it numbers files, writes events to the trace, and
// counts everything that could not be seen.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {

// Thread safety: none. finish() returns errors of writing: a traced program goes on, whatever happens
// to its trace.
class Recorder {
 public:
  // `on_run` is called once when the program runs; its error is an error of writing.
  Recorder(TraceWriter writer, uint64_t zero_ns, std::function<Status()> on_run)
      : writer_(std::move(writer)), zero_ns_(zero_ns), on_run_(std::move(on_run)) {}

  // Returns the time of the events' clock, CLOCK_MONOTONIC.
  static uint64_t now_ns();
  uint64_t zero_ns() const { return zero_ns_; }
  uint64_t since_zero(uint64_t ns) const { return ns > zero_ns_ ? ns - zero_ns_ : 0; }

  // Returns the number of a file. Equal (kind, device, inode, birth, generation) are one file.
  uint32_t file(const FileRecord& record, uint32_t generation = 0);
  FileKind kind(uint32_t file) const { return kinds_[file - 1]; }
  bool is_storage(uint32_t file) const { return trace::is_storage(kinds_[file - 1]); }
  uint32_t string(std::string_view text) { return writer_.add_string(text); }

  // Adds an open or a stat that failed. `event` has its times, process and thread. The names of the
  // first names_max files that were not found are kept: a trace of a long search stays small.
  void add_failed(Event event, Call call, std::string_view name, uint64_t error);

  // Reports that the program to trace runs. Nothing is recorded before, and errors before are errors
  // of the launch.
  void program_runs();

  void add(const Event& event) { (void)writer_.add(event); }
  void missed(Unseen what, uint64_t times = 1) { unseen_[static_cast<size_t>(what)] += times; }
  // Flushes the trace now and then, so that a killed capture loses little.
  void flush_sometimes(uint64_t now);

  struct Finished {
    Totals totals;
    uint64_t trace_bytes = 0;
  };
  Result<Finished> finish(int exit_code);

 private:
  struct Identity {
    uint64_t device, inode, birth_ns;
    uint32_t generation;
    FileKind kind;
    bool operator==(const Identity&) const = default;
  };
  struct Hash {
    size_t operator()(const Identity& identity) const;
  };

  TraceWriter writer_;
  const uint64_t zero_ns_;
  std::function<Status()> on_run_;
  Status ran_;
  std::unordered_map<Identity, uint32_t, Hash> numbers_;
  std::vector<FileKind> kinds_;  // [number - 1]
  static constexpr size_t names_max = 16384;
  std::unordered_map<std::string, uint32_t> names_;  // strings of calls that failed
  UnseenCounts unseen_{};
  uint64_t flushed_ns_ = 0;
};

}  // namespace penstock::trace
