#include "io/outlet.h"

#include <cerrno>
#include <utility>

#include "base/check.h"
#include "base/run_scope.h"
#include "base/thread.h"
#include "io/system_calls.h"

namespace penstock::io {
namespace {

// Stands for an error without an errno: error_of() has the whole error.
constexpr int no_errno = EIO;

}  // namespace

Outlet::Outlet(std::shared_ptr<Sink> sink, bool has_thread) : sink_(std::move(sink)) {
  if (has_thread) (void)try_start_thread(*thread_, [this] { work(); });
}

Outlet::~Outlet() {
  if (thread_.is_inherited() || !thread_->joinable()) return;
  {
    MutexLock lock(mutex_);
    PENSTOCK_CHECK(waiting_.empty(), "an outlet ends after its requests");
    ends_ = true;
    changed_.notify_all();
  }
  thread_->join();
}

void Outlet::work() {
  for (;;) {
    Request* request = nullptr;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !ends_) changed_.wait(mutex_);
      request = waiting_.pop_front();
    }
    if (request == nullptr) return;
    EngineBase& engine = *request->links.engine;
    serve(*request);
    engine.served(*request);
  }
}

bool Outlet::push(Request& request, EngineBase& engine) noexcept {
  if (thread_.is_inherited() || !thread_->joinable()) return false;
  request.links.engine = &engine;
  MutexLock lock(mutex_);
  waiting_.push_back(request);
  changed_.notify_all();
  return true;
}

void Outlet::serve(Request& request) noexcept {
  std::optional<Error> failed = error();
  if (!failed) {
    const NoRunScope callers;
    if (Status written = sink_->write({request.data, request.bytes}); !written)
      failed = std::move(written.error());
  }
  if (!failed) {
    (void)absorb(request, static_cast<int64_t>(request.bytes));
    return;
  }
  request.error = failed->system_errno != 0 ? failed->system_errno : no_errno;
  MutexLock lock(mutex_);
  if (!error_) error_ = std::move(failed);
}

void Outlet::cancel() noexcept {
  if (thread_.is_inherited()) return;
  const NoRunScope callers;
  sink_->cancel();
}

Status Outlet::close() {
  if (auto failed = error()) return std::unexpected(std::move(*failed));
  const NoRunScope callers;
  return sink_->close();
}

std::optional<Error> Outlet::error() const {
  MutexLock lock(mutex_);
  return error_;
}

}  // namespace penstock::io
