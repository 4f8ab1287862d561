#pragma once

// Sources and a sink beside files, and an output that is compressed, which is a sink of ours: each is the other end of a pipe, whose name the engines below
// read and write as they do any other.
//
// What must not happen is that the end of a source that failed is taken for the end of its data: a
// run is told to stop before the pipe is closed, and every run looks whether it was before it gives
// its output a name.
//
// A run that waits for a pipe looks at nothing: when it is to stop, whoever wished it, one thread
// cancels the sources and the sink, and so ends what it waits for.

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "file/descriptor.h"
#include "files/memory_plan.h"
#include "penstock/files.h"

namespace penstock::api {

// Thread safety: one thread; the threads of the pipes are its own.
class Pipes {
 public:
  // Sources and sink of the options become paths in them.
  static Result<std::unique_ptr<Pipes>> open(FilesOptions& options);
  Pipes(const Pipes&) = delete;
  Pipes& operator=(const Pipes&) = delete;
  ~Pipes();

  // The run has ended: so do all threads, and the sink is closed where `succeeded` and it took all.
  void end(bool succeeded);
  // The first error of a source or of the sink, or the caller's wish to stop, or ok.
  Status status() EXCLUDES_LOCK(mutex_);

 private:
  struct Feed {
    std::shared_ptr<Source> source;
    std::optional<file::Descriptor> to;  // reset by its thread, under mutex_
    os::Fd readable;                     // so that no writer is ever without a reader (SIGPIPE)
    std::thread thread;
  };

  explicit Pipes(const FilesOptions& options) : cancel_(options.cancel) {}
  Status open_sink(FilesOptions& options);
  Status start(FilesOptions& options);
  void feed(Feed& feed);
  void drain();
  void watch() EXCLUDES_LOCK(mutex_);
  void stop(Error error) EXCLUDES_LOCK(mutex_);
  bool is_to_stop() EXCLUDES_LOCK(mutex_);

  MemoryCharge memory_;
  std::vector<std::unique_ptr<Feed>> feeds_;
  std::shared_ptr<Sink> sink_;
  std::optional<file::Descriptor> from_;  // of the sink's pipe
  os::Fd sink_writable_;
  std::thread drainer_;
  std::thread watcher_;
  const std::atomic<bool>* const cancel_;  // the caller's
  std::atomic<bool> stop_{false};          // what the run looks at
  std::atomic<bool> ended_{false};
  Mutex mutex_;
  Condition changed_;
  bool drained_ GUARDED_BY(mutex_) = false;  // nobody waits any more
  std::optional<Error> error_ GUARDED_BY(mutex_);
};

// What a run ends with that was asked to stop while it waited.
inline Error interrupted() {
  return {.code = ErrorCode::interrupted,
          .attempted = "finish: it was asked to stop",
          .subject = "the run"};
}

// What a run has come to whose waits its caller's `cancel` ended.
template <class Done>
Result<Done> as_wished(Result<Done> done, const FilesOptions& given) {
  const bool cancelled = !done && done.error().code == ErrorCode::cancelled;
  if (cancelled && given.cancel != nullptr && given.cancel->load())
    return std::unexpected(interrupted());
  return done;
}

// work(options): the run, with paths alone in its options, and with its account.
template <class Work>
auto with_pipes(const FilesOptions& given, bool needs_all, Work work) -> decltype(work(given)) {
  const RunScope scope(files::run_state(given));
  if (given.sources.empty() && given.sink == nullptr && !given.compressed)
    return as_wished(work(given), given);
  FilesOptions options = given;
  auto pipes = Pipes::open(options);
  if (!pipes) return std::unexpected(pipes.error());
  auto result = work(options);
  (*pipes)->end(result.has_value());
  const Status status = (*pipes)->status();
  // A run that went well had all that it wanted of a source, whatever came of the rest.
  // A sink has to take all that the run gave.
  if (!status && (!result || needs_all || given.sink != nullptr || given.compressed))
    return std::unexpected(status.error());
  return result;
}

}  // namespace penstock::api
