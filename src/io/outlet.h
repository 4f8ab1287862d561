#pragma once

// A destination of bytes in order: a pipe, a terminal, redirected output, a caller's sink.
//
// The engines' own ways do not serve it. The system cannot take a request back, and a reader that
// takes nothing would hold it for ever; a sink has no descriptor at all. So each outlet has a
// thread of its own, which writes the requests of all engines in the order of their submission, by
// calls that cancel() ends. If the system refuses the thread, or the bytes are so few that none is
// wanted, the submitting thread writes them.
//
// Thread safety: push() and serve() from one thread at a time, cancel() and error() from any.
// push() neither allocates nor takes a lock that user code may hold. A forked child has no such
// thread: there push() takes nothing.

#include <atomic>
#include <memory>
#include <optional>
#include <thread>

#include "base/mutex.h"
#include "io/descriptor.h"
#include "io/engine_base.h"
#include "os/generation.h"
#include "penstock/source.h"

namespace penstock::io {

// A sink that writes to a descriptor. It has no close(): the descriptor belongs to a file, which
// publishes itself.
class DescriptorSink final : public Sink {
 public:
  explicit DescriptorSink(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Status write(std::span<const std::byte> from) override { return descriptor_.write(from); }
  void cancel() override { descriptor_.interrupt(); }

 private:
  Descriptor descriptor_;
};

class Outlet {
 public:
  explicit Outlet(std::shared_ptr<Sink> sink, bool has_thread = true);
  Outlet(const Outlet&) = delete;
  Outlet& operator=(const Outlet&) = delete;
  ~Outlet();  // REQUIRES: all pushed requests are served

  // Lets the thread serve a request and notify the engine. Returns false if it cannot.
  bool push(Request& request, EngineBase& engine) noexcept;
  // Serves a request in this thread. After an error all later requests fail with it.
  void serve(Request& request) noexcept;
  // Ends waiting and later writes with ErrorCode::cancelled.
  void cancel() noexcept;
  // Closes the sink after the last write.
  Status close();
  std::optional<Error> error() const EXCLUDES_LOCK(mutex_);

 private:
  void work() EXCLUDES_LOCK(mutex_);

  const std::shared_ptr<Sink> sink_;
  mutable Mutex mutex_;
  Condition changed_;
  RequestList waiting_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::optional<Error> error_ GUARDED_BY(mutex_);
  os::LeftToParent<std::thread> thread_{
      std::make_unique<std::thread>()};  // last: it uses all others
};

}  // namespace penstock::io
