#pragma once

#include <string>

#include "base/mutex.h"
#include "cli/common/parser.h"
#include "files/run/options.h"

namespace penstock::cli {

// One line on how far a run is: "distribute  3.2 of 32.0 GiB  10 %  1:05 left".
std::string describe(const files::Progress& progress, double elapsed_seconds);

// How much is told beside the output, as every command with inputs lets one choose.
struct TellingWords {
  std::string progress = "auto";
  bool quiet = false;
};
// `words` must outlive the parsing.
void add_telling_words(Parser& parser, TellingWords& words);

// Shows that line on stderr when it is a terminal, or --progress=always asked for it. The line is redrawn with
// a carriage return and blanks alone: no colours and no escape codes, so NO_COLOR needs nothing. A
// terminal that cannot even return the carriage (TERM=dumb) gets a new line now and then.
//
// Thread safety: show() from any thread.
// Invariants: shown_length_ is the length of what stands on the terminal's line; 0: the line is
// free.
class ProgressLine {
 public:
  explicit ProgressLine(const TellingWords& words = {});
  ~ProgressLine();  // leaves a free line behind
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wanted() const { return style_ != Style::off; }
  void show(const files::Progress& progress) EXCLUDES_LOCK(mutex_);
  // A sentence on stderr, over the line that may stand there; none with --quiet.
  void tell(const std::string& command, const std::string& sentence) const;

 private:
  enum class Style { off, redraw, lines };

  const Style style_;
  const bool quiet_;
  const double start_seconds_;
  Mutex mutex_;
  double shown_seconds_ GUARDED_BY(mutex_) = 0;
  size_t shown_length_ GUARDED_BY(mutex_) = 0;
};

}  // namespace penstock::cli
