#include "row_run.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "errors.h"

namespace penstock::python {
namespace {

constexpr size_t given_max = 2;  // batches that wait for Python
constexpr std::chrono::milliseconds signals_every{50};

std::unexpected<Error> stopped_rows() {
  return std::unexpected(Error{.code = ErrorCode::cancelled, .attempted = "pass rows on"});
}

}  // namespace

class RowRun::RowSource final : public Source {
 public:
  RowSource(RowRun& run, size_t number, RowEncoder encoder)
      : run_(run), number_(number), encoder_(std::move(encoder)) {}

  // Rows that fit are encoded directly into the caller's memory.
  Result<size_t> read(std::span<std::byte> into) override {
    while (at_ == row_.size()) {
      if (error_) return std::unexpected(*error_);
      if (batch_ == nullptr || next_ == static_cast<size_t>(batch_->length)) {
        batch_ = run_.wait_for_batch(number_, batch_ != nullptr);
        next_ = 0;
        if (batch_ == nullptr) return run_.is_stopped(number_) ? Result<size_t>(stopped_rows()) : 0;
        continue;
      }
      auto encoded = encoder_.encode(*batch_, next_, into);
      if (encoded && encoded->rows > 0) {
        next_ += encoded->rows;
        return encoded->bytes;
      }
      if (encoded) {
        row_.resize(encoded->bytes);
        at_ = 0;
        encoded = encoder_.encode(*batch_, next_, row_);
      }
      if (!encoded) {
        error_ = encoded.error();
        return std::unexpected(*error_);
      }
      ++next_;
    }
    const size_t bytes = std::min(into.size(), row_.size() - at_);
    std::memcpy(into.data(), row_.data() + at_, bytes);
    at_ += bytes;
    return bytes;
  }
  void cancel() override { run_.stop_source(number_); }

 private:
  RowRun& run_;
  const size_t number_;
  RowEncoder encoder_;
  const ArrowArray* batch_ = nullptr;
  size_t next_ = 0;             // next row of the batch
  std::vector<std::byte> row_;  // a row that did not fit; `at_` bytes of it were read
  size_t at_ = 0;
  std::optional<Error> error_;
};

class RowRun::BatchSink final : public Sink {
 public:
  BatchSink(RowRun& run, RowDecoder decoder) : run_(run), decoder_(std::move(decoder)) {}

  Status write(std::span<const std::byte> from) override {
    if (rest_.empty()) {
      const auto done = decode(from);
      if (!done) return std::unexpected(done.error());
      rest_.assign(from.begin() + static_cast<ptrdiff_t>(*done), from.end());
      return {};
    }
    rest_.insert(rest_.end(), from.begin(), from.end());
    const auto done = decode(rest_);
    if (!done) return std::unexpected(done.error());
    rest_.erase(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(*done));
    return {};
  }
  Status close() override {
    return decoder_.rows() > 0 ? run_.deliver(Batch(decoder_.finish())) : Status{};
  }
  void cancel() override { run_.stop_sink(); }

 private:
  // Decodes whole rows, and returns their bytes.
  Result<size_t> decode(std::span<const std::byte> data) {
    size_t all = 0;
    for (;;) {
      const auto done = decoder_.add(data.subspan(all));
      if (!done) return done;
      all += *done;
      if (!decoder_.is_full()) return all;
      if (Status delivered = run_.deliver(Batch(decoder_.finish())); !delivered)
        return std::unexpected(delivered.error());
    }
  }

  RowRun& run_;
  RowDecoder decoder_;
  std::vector<std::byte> rest_;  // beginning of an incomplete row
};

RowRun::RowRun(FilesOptions files, const Column& table, const std::vector<SortKey>& keys,
               size_t sources, bool sink, const BatchLimits& limits, Operation operation)
    : fed_(sources) {
  for (size_t i = 0; i < sources; ++i) {
    files.sources.push_back(
        std::make_shared<RowSource>(*this, i, value_of(RowEncoder::make(table, keys))));
  }
  if (sink) files.sink = std::make_shared<BatchSink>(*this, RowDecoder(table, keys, limits));
  files.items.name = "rows";
  files.option_names = OptionNames::command_line;  // _errors.py replaces them
  files.cancel = &cancel_;
  files.progress = [this](const FilesProgress& now) {
    const std::lock_guard lock(mutex_);
    progress_ = now;
  };
  thread_ = std::thread([this, files = std::move(files), operation = std::move(operation)] {
    auto result = operation(files);
    const std::lock_guard lock(mutex_);
    result_ = std::move(result);
    over_ = true;
    changed_.notify_all();
  });
}

RowRun::~RowRun() {
  end();
}

void RowRun::end() {
  if (!thread_.joinable()) return;
  const nb::gil_scoped_release released;
  cancel_ = true;
  for (size_t source = 0; source < fed_.size(); ++source) stop_source(source);
  stop_sink();
  thread_.join();
}

void RowRun::cancel() {
  end();
}

nb::object RowRun::next(const nb::object& progress) {
  for (;;) {
    std::optional<Batch> given;
    std::optional<size_t> wanting;
    std::vector<Batch> spent;
    std::optional<FilesProgress> now;
    bool over = false;
    {
      const nb::gil_scoped_release released;
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, signals_every, [&] {
        return over_ || !given_.empty() ||
               std::ranges::any_of(fed_, [this](const Fed& fed) { return wants(fed); });
      });
      const auto fed = std::ranges::find_if(fed_, [this](const Fed& each) { return wants(each); });
      if (!given_.empty()) {
        given.emplace(std::move(given_.front()));
        given_.pop_front();
        changed_.notify_all();
      } else if (over_) {
        over = true;
      } else if (fed != fed_.end()) {
        wanting = static_cast<size_t>(fed - fed_.begin());
      }
      spent.swap(spent_);
      now.swap(progress_);
    }
    spent.clear();
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (now && !progress.is_none()) progress(now->phase, now->done_bytes, now->total_bytes);
    if (given) {
      auto* const array = new ArrowArray(given->take());
      return nb::steal(PyCapsule_New(array, "arrow_array", [](PyObject* capsule) {
        auto* const held = static_cast<ArrowArray*>(PyCapsule_GetPointer(capsule, "arrow_array"));
        if (held->release != nullptr) held->release(held);
        delete held;
      }));
    }
    if (wanting) return nb::int_(*wanting);
    if (!over) continue;
    end();
    if (!result_) return nb::none();
    report_ = value_of(std::move(*std::exchange(result_, {})));
    return nb::none();
  }
}

void RowRun::feed(size_t source, std::optional<Batch> batch) {
  const nb::gil_scoped_release released;
  const std::lock_guard lock(mutex_);
  if (batch) {
    fed_.at(source).batches.push_back(std::move(*batch));
  } else {
    fed_.at(source).ended = true;
  }
  changed_.notify_all();
}

// Returns nullptr if the source has ended, or has to stop.
const ArrowArray* RowRun::wait_for_batch(size_t source, bool done_with_first) {
  std::unique_lock lock(mutex_);
  Fed& fed = fed_[source];
  if (done_with_first) {
    spent_.push_back(std::move(fed.batches.front()));
    fed.batches.pop_front();
    changed_.notify_all();
  }
  changed_.wait(lock, [&] { return fed.stopped || fed.ended || !fed.batches.empty(); });
  return fed.stopped || fed.batches.empty() ? nullptr : &fed.batches.front().array();
}

Status RowRun::deliver(Batch batch) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return sink_stopped_ || given_.size() < given_max; });
  if (sink_stopped_) return stopped_rows();
  given_.push_back(std::move(batch));
  changed_.notify_all();
  return {};
}

void RowRun::stop_source(size_t source) {
  const std::lock_guard lock(mutex_);
  fed_[source].stopped = true;
  changed_.notify_all();
}

void RowRun::stop_sink() {
  const std::lock_guard lock(mutex_);
  sink_stopped_ = true;
  changed_.notify_all();
}

bool RowRun::is_stopped(size_t source) {
  const std::lock_guard lock(mutex_);
  return fed_[source].stopped;
}

}  // namespace penstock::python
