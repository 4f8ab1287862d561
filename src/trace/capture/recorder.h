#pragma once

// What the backends of a capture share: files get their numbers here, events their trace, and what
// could not be seen is counted.

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "penstock/base.h"
#include "trace/format/format.h"

namespace penstock::trace {

// Thread safety: none. An error of writing is kept for finish(): a traced program goes on, whatever
// happens to its trace.
class Recorder {
 public:
  // `on_run` is called once when the program runs; an error of it is one of writing.
  Recorder(TraceWriter writer, uint64_t zero_ns, std::function<Status()> on_run)
      : writer_(std::move(writer)), zero_ns_(zero_ns), on_run_(std::move(on_run)) {}

  // The clock that events have, CLOCK_MONOTONIC.
  static uint64_t now_ns();
  uint64_t zero_ns() const { return zero_ns_; }
  uint64_t since_zero(uint64_t ns) const { return ns > zero_ns_ ? ns - zero_ns_ : 0; }

  // The number of a file: equal (kind, device, inode, birth, generation) are one file.
  uint32_t file(const FileRecord& record, uint32_t generation = 0);
  FileKind kind(uint32_t file) const { return kinds_[file - 1]; }
  bool is_storage(uint32_t file) const { return trace::is_storage(kinds_[file - 1]); }
  uint32_t string(std::string_view text) { return writer_.add_string(text); }

  // The program that is to be traced runs now. Before that nothing is recorded, and what is called
  // an error is the launch's.
  void program_runs();

  void add(const Event& event) { (void)writer_.add(event); }
  void missed(Unseen what, uint64_t times = 1) { unseen_[static_cast<size_t>(what)] += times; }
  // Brings what there is to the disk now and then, so that little is lost with a killed capture.
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
  std::vector<FileKind> kinds_;  // by number - 1
  UnseenCounts unseen_{};
  uint64_t flushed_ns_ = 0;
};

}  // namespace penstock::trace
