#pragma once

// A native operation on rows, between batches fed by a Python thread and batches that it takes.
//
// The threads of the operation encode and decode rows, and never need the GIL: they wait for a
// batch, or for room for one. The one Python thread that started it calls next() repeatedly: it
// feeds a batch if one is wanted, and takes one if it is ready. That thread also releases the
// batches that it fed.

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "penstock/files.h"
#include "row_decoder.h"
#include "row_encoder.h"

namespace penstock::python {

// An Arrow batch, released on destruction.
class Batch {
 public:
  explicit Batch(const ArrowArray& array) : array_(array) {}
  Batch(Batch&& other) noexcept : array_(std::exchange(other.array_, {})) {}
  Batch& operator=(Batch&&) = delete;
  ~Batch() {
    if (array_.release != nullptr) array_.release(&array_);
  }
  const ArrowArray& array() const { return array_; }
  ArrowArray take() { return std::exchange(array_, {}); }

 private:
  ArrowArray array_;
};

class RowRun {
 public:
  // Runs the operation, and returns its statistics as JSON.
  using Operation = std::function<Result<std::string>(const FilesOptions&)>;

  // `sources` is the number of sources that take batches. Without a `sink` no batch is returned.
  RowRun(FilesOptions files, const Column& table, const std::vector<SortKey>& keys, size_t sources,
         bool sink, const BatchLimits& limits, Operation operation);
  RowRun(const RowRun&) = delete;
  RowRun& operator=(const RowRun&) = delete;
  ~RowRun();

  // Waits without the GIL. Returns the number of a source that wants a batch, or a batch, or None
  // at the end. `progress`, if not None, is called from time to time, as in files.cc.
  nanobind::object next(const nanobind::object& progress);
  // Feeds the next batch of a source, which this object then owns; nullopt ends the source.
  void feed(size_t source, std::optional<Batch> batch);
  // Ends the operation soon, and without an output.
  void cancel();
  // REQUIRES: next() has returned None.
  const std::string& report() const { return report_; }

 private:
  class RowSource;
  class BatchSink;

  struct Fed {
    std::deque<Batch> batches;  // the first one is being read
    bool ended = false;
    bool stopped = false;  // the operation needs no more, and reports it at the end of each source
  };

  // ---- Called by the operation's threads.
  const ArrowArray* wait_for_batch(size_t source, bool done_with_first);
  Status deliver(Batch batch);
  void stop_source(size_t source);
  void stop_sink();
  bool is_stopped(size_t source);

  bool wants(const Fed& fed) const { return !fed.ended && !fed.stopped && fed.batches.size() < 2; }
  void end();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Fed> fed_;
  std::vector<Batch> spent_;
  std::deque<Batch> given_;
  bool over_ = false;  // the operation has returned
  bool sink_stopped_ = false;
  std::optional<Result<std::string>> result_;
  std::string report_;
  std::optional<FilesProgress> progress_;
  std::atomic<bool> cancel_{false};
  std::thread thread_;
};

}  // namespace penstock::python
