#pragma once

// The caller's sources and sink. A compressed output is a sink too.
//
// A run reads and writes them like pipes (files/run/options.h). It cannot poll while it waits for
// one, and nothing else ends that wait. So a source that fails cancels all others and the sink, and
// if the caller has a `cancel` flag, a thread polls it and cancels them.

#include <optional>
#include <thread>

#include "base/mutex.h"
#include "base/out_of_memory.h"
#include "files/run/bad_rows.h"
#include "files/run/memory_plan.h"
#include "files/run/odd_items.h"
#include "penstock/files.h"

namespace penstock::api {

// Thread safety: one thread.
class Callers {
 public:
  // The options' sources report their errors to this object. REQUIRES: the options outlive it.
  explicit Callers(FilesOptions& options);
  Callers(const Callers&) = delete;
  Callers& operator=(const Callers&) = delete;
  ~Callers() { end(false); }

  Status watch();
  // Ends the run: cancels the sources, and a sink that was not closed.
  void end(bool succeeded) EXCLUDES_LOCK(mutex_);
  // The error of the first source that failed: it may be why others, and the run, have ended.
  std::optional<Error> error() EXCLUDES_LOCK(mutex_);

 private:
  class WatchedSource;

  void poll_cancel() EXCLUDES_LOCK(mutex_);
  void fail(const Error& error) EXCLUDES_LOCK(mutex_);
  void cancel(bool sink);

  const FilesOptions& options_;
  bool has_ended_ = false;
  std::thread watcher_;
  Mutex mutex_;
  Condition changed_;
  bool stops_polling_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

// Replaces an output by a sink that writes it, if it is compressed or `always`.
Status make_sink(FilesOptions& options, bool always);

// Sets the filter of bad rows, or returns null if there is none. Errors: those of BadRows::make() and
// of the format.
Result<std::shared_ptr<files::BadRows>> leave_out_bad_rows(FilesOptions& options);
// Ends the filter of a run that has succeeded, and gives notices about bad rows.
Status finish_bad_rows(files::BadRows& rows, const FilesOptions& options);

// Returns `interrupted` if the caller's `cancel` flag ended the run, and caused its other errors.
template <class Done>
Result<Done> or_interrupted(Result<Done> done, const FilesOptions& given) {
  const bool has_callers = !given.sources.empty() || given.sink != nullptr;
  const bool cancelled = !done && (has_callers || done.error().code == ErrorCode::cancelled);
  if (!cancelled || given.cancel == nullptr || !given.cancel->load()) return done;
  return failure(ErrorCode::interrupted, "finish: it was asked to stop", "the run");
}

// Makes the columns of inputs and output those that the options ask for.
Status make_columns(FilesOptions& options);

// Gives notices about odd items, after a run that has succeeded.
void note_odd_items(files::OddItems& items, const FilesOptions& options);

// Runs work(options) with an account of its own. Returns an error if the heap is exhausted.
// `needs_sink`: `options` have a sink.
template <class Work>
auto with_callers(const FilesOptions& given, Work work, bool needs_sink = false)
    -> decltype(work(given)) {
  return or_out_of_memory([&]() -> decltype(work(given)) {
    const RunScope scope(files::run_state(given));
    FilesOptions options = given;
    const auto bad_rows = leave_out_bad_rows(options);
    if (!bad_rows) return std::unexpected(bad_rows.error());
    if (Status made = make_columns(options); !made) return std::unexpected(made.error());
    if (Status made = make_sink(options, needs_sink); !made) return std::unexpected(made.error());
    const auto run = [&]() -> decltype(work(given)) {
      auto done = work(options);
      if (!done || *bad_rows == nullptr) return done;
      if (Status rows = finish_bad_rows(**bad_rows, options); !rows)
        return std::unexpected(rows.error());
      return done;
    };
    if (options.sources.empty() && options.sink == nullptr) return or_interrupted(run(), options);
    Callers callers(options);
    if (Status watched = callers.watch(); !watched) return std::unexpected(watched.error());
    auto result = run();
    callers.end(result.has_value());
    if (auto failed = callers.error(); failed && !result)
      result = std::unexpected(std::move(*failed));
    return or_interrupted(std::move(result), options);
  });
}

}  // namespace penstock::api
