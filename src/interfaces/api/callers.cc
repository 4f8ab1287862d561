#include "interfaces/api/callers.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "base/misuse.h"
#include "base/run_scope.h"
#include "base/thread.h"
#include "files/run/columns.h"
#include "files/run/options.h"
#include "files/source/checked_read.h"
#include "interfaces/api/item_format.h"

namespace penstock::api {

Result<std::shared_ptr<files::BadRows>> leave_out_bad_rows(FilesOptions& options) {
  if (options.bad_rows.empty()) return nullptr;
  ItemFormat items = options.items;
  items.keys.clear();
  const auto format = format_of(items);
  if (!format) return std::unexpected(format.error());
  auto rows = files::BadRows::make(options, *format);
  if (rows) options.source.filter = *rows;
  return rows;
}

Status finish_bad_rows(files::BadRows& rows, const FilesOptions& options) {
  const auto notices = rows.finish();
  if (!notices) return std::unexpected(notices.error());
  for (const std::string& notice : *notices) {
    const NoRunScope callers;
    if (options.notice) options.notice(notice);
  }
  return {};
}

void note_odd_items(files::OddItems& items, const FilesOptions& options) {
  const std::vector<std::string> notices = items.notices(options.inputs);
  const NoRunScope callers;
  for (const std::string& notice : notices) options.notice(notice);
}

namespace {

constexpr std::chrono::milliseconds poll_every{20};

}  // namespace

// A caller's source whose errors are reported to `callers`, unless it was cancelled.
class Callers::WatchedSource final : public Source {
 public:
  WatchedSource(std::shared_ptr<Source> source, Callers& callers)
      : source_(std::move(source)), callers_(callers) {}
  Result<size_t> read(std::span<std::byte> into) override {
    auto bytes = source::checked_read(*source_, into);
    if (!bytes && !cancelled_) callers_.fail(bytes.error());
    return bytes;
  }
  void cancel() override {
    cancelled_ = true;
    source_->cancel();
  }

 private:
  const std::shared_ptr<Source> source_;
  Callers& callers_;
  std::atomic<bool> cancelled_ = false;
};

Callers::Callers(FilesOptions& options) : options_(options) {
  for (auto& source : options.sources)
    source = std::make_shared<WatchedSource>(std::move(source), *this);
}

void Callers::fail(const Error& error) {
  {
    MutexLock lock(mutex_);
    if (error_) return;
    error_ = error;
  }
  cancel(true);
}

std::optional<Error> Callers::error() {
  MutexLock lock(mutex_);
  return error_;
}

Status Callers::watch() {
  if (options_.cancel == nullptr) return {};
  return start_thread(watcher_, [this] { poll_cancel(); });
}

void Callers::poll_cancel() {
  MutexLock lock(mutex_);
  while (!stops_polling_) {
    if (options_.cancel->load()) return cancel(true);
    changed_.wait_for(mutex_, poll_every);
  }
}

void Callers::cancel(bool sink) {
  const NoRunScope callers;
  for (const auto& source : options_.sources) source->cancel();
  if (sink && options_.sink != nullptr) options_.sink->cancel();
}

void Callers::end(bool succeeded) {
  if (std::exchange(has_ended_, true)) return;
  if (watcher_.joinable()) {
    {
      MutexLock lock(mutex_);
      stops_polling_ = true;
      changed_.notify_all();
    }
    watcher_.join();
  }
  cancel(!succeeded);
}

Status make_sink(FilesOptions& options, bool always) {
  if (options.compressed && options.sink != nullptr)
    return misuse("compress for a sink", "compressed", "a sink that compresses");
  if (options.compressed || (always && options.sink == nullptr)) {
    auto sink = files::sink_of(options);
    if (!sink) return std::unexpected(sink.error());
    options.sink = std::move(*sink);
  }
  if (options.sink != nullptr) options.output = "-";
  return {};
}

Status make_columns(FilesOptions& options) {
  if (options.columns == ColumnRule::equal && options.select.empty()) return {};
  ItemFormat words = options.items;
  words.keys = {};
  const auto format = format_of(words, {.stable = true});
  if (!format) return std::unexpected(format.error());
  if (options.columns != ColumnRule::equal) {
    if (Status united = files::unite_columns(options, *format); !united) return united;
  }
  return options.select.empty() ? Status() : files::select_columns(options, *format);
}

}  // namespace penstock::api
