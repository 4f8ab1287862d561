#pragma once

#include <string>

#include "base/mutex.h"
#include "files/options.h"

namespace penstock::cli {

// One line on how far a run is: "distribute  3.2 of 32.0 GiB  10 %  1:05 left".
std::string describe(const files::Progress& progress, double elapsed_seconds);

// Shows that line on stderr when it is a terminal, and nothing otherwise. The line is redrawn with
// a carriage return and blanks alone: no colours and no escape codes, so NO_COLOR needs nothing. A
// terminal that cannot even return the carriage (TERM=dumb) gets a new line now and then.
//
// Thread safety: show() from any thread.
// Invariants: shown_length_ is the length of what stands on the terminal's line; 0: the line is
// free.
class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine();  // leaves a free line behind
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wanted() const { return style_ != Style::off; }
  void show(const files::Progress& progress) EXCLUDES_LOCK(mutex_);
  // A sentence on stderr, over the line that may stand there.
  void tell(const std::string& command, const std::string& sentence) const;

 private:
  enum class Style { off, redraw, lines };

  const Style style_;
  const double start_seconds_;
  Mutex mutex_;
  double shown_seconds_ GUARDED_BY(mutex_) = 0;
  size_t shown_length_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::cli
