#pragma once

// A log of another program: reads lines in bounded memory, and makes events of them.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/format/event_source.h"
#include "trace/format/trace_file.h"

namespace penstock::trace {

// Returns the text without blanks at its ends.
std::string_view trimmed(std::string_view text);

// Guesses the kind of a file by its name, for logs that do not contain it (strace -yy does).
FileKind kind_of_path(std::string_view path);

// Reads a text line by line.
//
// Thread safety: none.
class Lines {
 public:
  static constexpr size_t line_bytes_max = size_t{1} << 20;

  explicit Lines(TraceFile file);
  explicit Lines(std::string_view text);  // REQUIRES: the text outlives the object

  // Returns the next line without its newline; nullopt at the end. The line is valid until the next
  // call. Errors: those of reading; corrupt for a line of more than line_bytes_max.
  Result<std::optional<std::string_view>> next();
  uint64_t number() const { return number_; }  // number of the last line, from 1
  // Returns, at the end, whether bytes behind the last newline were left out.
  bool cut_off() const { return cut_off_; }
  const std::string& path() const { return path_; }

 private:
  Result<bool> read_more();

  std::string path_;
  std::unique_ptr<TraceFile> file_;  // nullptr for a text in memory
  std::vector<std::byte> buffer_;
  std::string_view rest_;  // bytes behind the last line
  uint64_t number_ = 0;
  bool cut_off_ = false;
};

// The base of import_*.cc. A line becomes any number of events, which wait in a queue.
class LogSource : public EventSource {
 public:
  explicit LogSource(Lines lines) : lines_(std::move(lines)) { trace_path = lines_.path(); }

  Result<size_t> next(std::span<Event> into) final;

 protected:
  virtual Status add_line(std::string_view line) = 0;
  // Handles the state that is left behind the last line, also of a log that was cut off.
  virtual Status end() = 0;

  void give(const Event& event) { queue_.push_back(event); }
  uint32_t add_file(FileKind kind, std::string_view name);
  uint32_t add_string(std::string_view text);

  uint64_t line_number() const { return lines_.number(); }
  // Makes the error "line 7 of the log: WHY: THE LINE".
  std::unexpected<Error> bad_line(uint64_t number, std::string_view line, std::string_view why,
                                  std::string hint = {}) const;

  void count(Unseen unseen, uint64_t more = 1) {
    totals.unseen[static_cast<size_t>(unseen)] += more;
  }
  bool text_ended() const { return ended_; }

 private:
  Status take_some();

  Lines lines_;
  std::deque<Event> queue_;
  bool ended_ = false;
};

}  // namespace penstock::trace
