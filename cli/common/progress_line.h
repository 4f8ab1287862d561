#pragma once

#include <string>

#include "base/mutex.h"
#include "cli/common/parser.h"
#include "files/run/options.h"

namespace penstock::cli {

// The progress of a run in one line: "distribute  0.8 of 8.0 GiB  10 %  1:05 left". Sizes are the
// input's; the share is that of all reads and writes, several times as many.
std::string describe(const files::Progress& progress, double elapsed_seconds);

// The options --progress and --quiet.
struct TellingWords {
  std::string progress = "auto";
  bool quiet = false;
};
// `words` must outlive the parsing.
void add_telling_words(Parser& parser, TellingWords& words);

// Shows the progress line on stderr if it is a terminal, or with --progress=always. The line is
// redrawn with a carriage return and blanks only: no colours and no escape codes, so NO_COLOR needs
// nothing. A terminal that does not even obey the carriage return (TERM=dumb) gets a new line every
// ten seconds.
//
// Thread safety: show() may be called from any thread.
// Invariant: shown_length_ is the length of the text on the terminal's line; 0: the line is free.
class ProgressLine {
 public:
  explicit ProgressLine(const TellingWords& words = {});
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool wanted() const { return style_ != Style::off; }
  void show(const files::Progress& progress) EXCLUDES_LOCK(mutex_);
  void clear() EXCLUDES_LOCK(mutex_);
  // Prints a sentence on stderr, over the progress line if there is one; prints nothing with
  // --quiet.
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
