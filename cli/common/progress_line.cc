#include "cli/common/progress_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "base/printable.h"
#include "cli/common/command.h"
#include "cli/common/modes.h"
#include "cli/common/print.h"

namespace penstock::cli {
namespace {

constexpr double redraw_seconds = 0.1;
constexpr double line_seconds = 10;

double now_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double gibibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(GiB);
}

std::string clock_time(double seconds) {
  auto whole = static_cast<uint64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{}:{:02}", whole / 60, whole % 60);
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

}  // namespace

std::string describe(const files::Progress& progress, double elapsed_seconds) {
  if (progress.total_bytes == 0) {
    const std::string bytes =
        progress.input_bytes > 0
            ? fmt::format("{:.1f} GiB of input", gibibytes(progress.input_bytes))
            : fmt::format("{:.1f} GiB read and written", gibibytes(progress.done_bytes));
    return fmt::format("{:<10}  {}  {} so far", progress.phase, bytes, clock_time(elapsed_seconds));
  }
  uint64_t done_bytes = std::min(progress.done_bytes, progress.total_bytes);
  double share = static_cast<double>(done_bytes) / static_cast<double>(progress.total_bytes);
  const double whole =
      gibibytes(progress.input_bytes > 0 ? progress.input_bytes : progress.total_bytes);
  std::string text = fmt::format("{:<10}  {:.1f} of {:.1f} GiB  {:.0f} %", progress.phase,
                                 share * whole, whole, std::floor(share * 100));
  // The remaining time is shown only once there is enough progress to estimate it.
  if (elapsed_seconds >= 1 && share > 0.01) {
    const double by_share = elapsed_seconds * (1 - share) / share;
    text += fmt::format("  {} left", clock_time(progress.seconds_left.value_or(by_share)));
  }
  return text;
}

void add_telling_words(Parser& parser, TellingWords& words) {
  parser
      .add_option("--progress", words.progress,
                  "show progress, and a summary at the end, on stderr: always, never, or auto, if "
                  "it is a terminal (default: "
                  "auto)")
      .one_of({"auto", "always", "never"})
      .value_name("WHEN")
      .rare()
      .in(modes::items | modes::keys_shown | modes::merging);
  // GNU sort has no -q.
  parser.add_flag(called("") == "sort" ? "--quiet" : "-q,--quiet", words.quiet, "print errors only")
      .in(modes::items | modes::keys_shown | modes::merging | modes::checking);
}

ProgressLine::ProgressLine(const TellingWords& words)
    : style_([&] {
        if (words.quiet || words.progress == "never") return Style::off;
        if (!isatty(STDERR_FILENO)) return words.progress == "always" ? Style::lines : Style::off;
        const char* terminal = std::getenv("TERM");
        bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
        return dumb ? Style::lines : Style::redraw;
      }()),
      quiet_(words.quiet),
      start_seconds_(now_seconds()),
      shown_seconds_(start_seconds_) {}

void ProgressLine::clear() {
  MutexLock lock(mutex_);
  if (shown_length_ != 0) print_to(stderr, "\r{:{}}\r", "", shown_length_);
  shown_length_ = 0;
}

void ProgressLine::tell(const std::string& command, const std::string& sentence) const {
  if (quiet_) return;
  const std::string text =
      fmt::format("{}: {}", called(command), printable(sentence, std::string::npos));
  if (wanted()) {
    print_to(stderr, "\r{:<79}\n", text);
  } else {
    print_to(stderr, "{}\n", text);
  }
}

void ProgressLine::show(const files::Progress& progress) {
  if (style_ == Style::off) return;
  MutexLock lock(mutex_);
  double now = now_seconds();
  if (now - shown_seconds_ < (style_ == Style::lines ? line_seconds : redraw_seconds)) return;
  shown_seconds_ = now;
  std::string text = describe(progress, now - start_seconds_);
  if (style_ == Style::lines) {
    print_to(stderr, "{}\n", text);
    return;
  }
  print_to(stderr, "\r{:<{}}", text, shown_length_);
  std::fflush(stderr);
  shown_length_ = text.size();
}

}  // namespace penstock::cli
