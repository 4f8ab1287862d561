#include "trace/import/log_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "trace/export/export.h"

namespace penstock::trace {
namespace {

constexpr size_t buffer_bytes_usual = 256 * 1024;
constexpr size_t line_bytes_told = 100;

}  // namespace

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

FileKind kind_of_path(std::string_view path) {
  if (path.starts_with("/proc/") || path.starts_with("/sys/")) return FileKind::pseudo;
  if (path.starts_with("/memfd:")) return FileKind::other;
  if (!path.starts_with("/dev/") || path.starts_with("/dev/shm/")) return FileKind::regular;
  for (const std::string_view stream :
       {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty",
        "/dev/pts/", "/dev/std", "/dev/fd/", "/dev/console", "/dev/ptmx"}) {
    if (path.starts_with(stream)) return FileKind::character_device;
  }
  return FileKind::block_device;
}

Lines::Lines(TraceFile file)
    : path_(file.path()), file_(std::make_unique<TraceFile>(std::move(file))) {}

Lines::Lines(std::string_view text) : path_("a log in memory"), rest_(text) {}

Result<std::optional<std::string_view>> Lines::next() {
  size_t looked_bytes = 0;
  while (true) {
    const size_t newline = rest_.find('\n', looked_bytes);
    if (newline != rest_.npos) {
      std::string_view line = rest_.substr(0, newline);
      rest_.remove_prefix(newline + 1);
      ++number_;
      if (line.ends_with('\r')) line.remove_suffix(1);
      return line;
    }
    looked_bytes = rest_.size();
    if (looked_bytes > line_bytes_max) {
      return failure(ErrorCode::corrupt,
                     "read line " + std::to_string(number_ + 1) +
                         " of the log: it has more than a million characters",
                     path_, "a log of text; strace -s 32 shortens what it shows of data");
    }
    auto more = read_more();
    if (!more) return std::unexpected(more.error());
    if (!*more) {
      cut_off_ = !rest_.empty();
      return std::nullopt;
    }
  }
}

// Moves the remaining bytes to the front, and fills the rest of the buffer. Returns false at the end.
Result<bool> Lines::read_more() {
  if (file_ == nullptr) return false;
  const size_t kept_bytes = rest_.size();
  if (!rest_.empty()) std::memmove(buffer_.data(), rest_.data(), kept_bytes);
  buffer_.resize(std::max(buffer_bytes_usual, 2 * kept_bytes));
  auto got = file_->read(std::span(buffer_).subspan(kept_bytes));
  if (!got) return std::unexpected(got.error());
  rest_ = {reinterpret_cast<const char*>(buffer_.data()), kept_bytes + *got};
  return *got > 0;
}

Result<size_t> LogSource::next(std::span<Event> into) {
  if (has_failed()) return failed_error();
  size_t given = 0;
  while (given < into.size()) {
    if (!queue_.empty()) {
      into[given++] = queue_.front();
      queue_.pop_front();
      continue;
    }
    if (complete) break;
    if (ended_) {
      if (lines_.cut_off()) {
        was_cut_off = true;
        return fail({ErrorCode::corrupt,
                     "read the log to its end: it was cut off within line " +
                         std::to_string(lines_.number() + 1) + ", which is left out",
                     trace_path},
                    given);
      }
      totals.files = files.size();
      complete = true;
      break;
    }
    if (Status status = take_some(); !status) return fail(status.error(), given);
  }
  totals.events += given;
  return given;
}

Status LogSource::take_some() {
  auto line = lines_.next();
  if (!line) return std::unexpected(line.error());
  if (*line) return add_line(**line);
  ended_ = true;
  return end();
}

uint32_t LogSource::add_file(FileKind kind, std::string_view name) {
  const auto id = static_cast<uint32_t>(files.size() + 1);
  files.push_back({.id = id, .kind = kind, .path = std::string(name.substr(0, string_bytes_max))});
  return id;
}

uint32_t LogSource::add_string(std::string_view text) {
  strings.emplace_back(text.substr(0, string_bytes_max));
  return static_cast<uint32_t>(strings.size());
}

std::unexpected<Error> LogSource::bad_line(uint64_t number, std::string_view line,
                                           std::string_view why, std::string hint) const {
  std::string shown = json_string(line.substr(0, line_bytes_told));
  if (line.size() > line_bytes_told) shown += "...";
  return failure(
      ErrorCode::corrupt,
      "read line " + std::to_string(number) + " of the log: " + std::string(why) + ": " + shown,
      trace_path, std::move(hint));
}

}  // namespace penstock::trace
