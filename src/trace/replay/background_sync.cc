#include "trace/replay/background_sync.h"

#include <thread>

#include "base/mutex.h"
#include "base/thread.h"
#include "trace/replay/doorbell.h"

namespace penstock::trace {
namespace {

class SyncThread final : public BackgroundSync {
 public:
  explicit SyncThread(const io::File& file) : file_(file) {}

  ~SyncThread() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      wanted_.notify_one();
    }
    if (thread_.joinable()) thread_.join();  // the thread has rung, if a sync was started
  }

  Status open(io::Engine& engine) {
    auto bell = Doorbell::open(engine);
    if (!bell) return std::unexpected(bell.error());
    bell_ = std::move(*bell);
    return start_thread(thread_, [this] { sync_when_wanted(); });
  }

  void start() override {
    bell_->set();
    MutexLock lock(mutex_);
    wants_ = true;
    wanted_.notify_one();
  }

  bool running() const override { return bell_->is_set(); }

  bool ended(const io::Request* done) override {
    if (!bell_->rang(done)) return false;
    MutexLock lock(mutex_);
    status_ = made_;
    return true;
  }

  const Status& status() const override { return status_; }

 private:
  void sync_when_wanted() {
    for (;;) {
      {
        MutexLock lock(mutex_);
        while (!wants_ && !closing_) wanted_.wait(mutex_);
        if (!wants_) return;
        wants_ = false;
      }
      Status made = file_.sync();
      {
        MutexLock lock(mutex_);
        made_ = std::move(made);
      }
      bell_->ring();
    }
  }

  const io::File& file_;
  std::unique_ptr<Doorbell> bell_;
  Status status_;

  Mutex mutex_;
  Condition wanted_;
  bool wants_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  Status made_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<BackgroundSync>> BackgroundSync::open(io::Engine& engine,
                                                             const io::File& file) {
  auto sync = std::make_unique<SyncThread>(file);
  if (auto opened = sync->open(engine); !opened) return std::unexpected(opened.error());
  return sync;
}

}  // namespace penstock::trace
