#pragma once

// A log of another program: its lines in bounded memory, and the events that they become.

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

// Without the blanks around it.
std::string_view trimmed(std::string_view text);

// The kind of a file by its name: good enough where a log does not tell it (strace -yy does).
FileKind kind_of_path(std::string_view path);

// The lines of a text, one after the other.
//
// Thread safety: none.
class Lines {
 public:
  static constexpr size_t line_bytes_max = size_t{1} << 20;

  explicit Lines(TraceFile file);
  explicit Lines(std::string_view text);  // which must stay

  // Without its newline; none at the end. Good until the next call. Errors: those of reading;
  // corrupt for a line of more than line_bytes_max.
  Result<std::optional<std::string_view>> next();
  uint64_t number() const { return number_; }  // of the line given last, from 1
  // At the end: the text does not end with a newline, and what stands behind the last one was not
  // given.
  bool cut_off() const { return cut_off_; }
  const std::string& path() const { return path_; }

 private:
  Result<bool> read_more();

  std::string path_;
  std::unique_ptr<TraceFile> file_;  // none: all of the text is there
  std::vector<std::byte> buffer_;
  std::string_view rest_;  // not given yet
  uint64_t number_ = 0;
  bool cut_off_ = false;
};

// What import_*.cc have in common. A line becomes any number of events, which wait in a queue.
class LogSource : public EventSource {
 public:
  explicit LogSource(Lines lines) : lines_(std::move(lines)) { trace_path = lines_.path(); }

  Result<size_t> next(std::span<Event> into) final;

 protected:
  virtual Status take(std::string_view line) = 0;
  // Behind the last line, which may be one of a log that was cut off: what was waiting for more.
  virtual Status end() = 0;

  void give(const Event& event) { queue_.push_back(event); }
  uint32_t add_file(FileKind kind, std::string_view name);
  uint32_t add_string(std::string_view text);

  uint64_t line_number() const { return lines_.number(); }
  // "line 7 of the log: WHY: THE LINE".
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
