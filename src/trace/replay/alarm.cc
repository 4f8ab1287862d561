#include "trace/replay/alarm.h"

#include <algorithm>
#include <thread>

#include "base/mutex.h"
#include "base/thread.h"
#include "trace/replay/doorbell.h"

namespace penstock::trace {
namespace {

using Clock = std::chrono::steady_clock;

// Longest delay of the thread's end by an alarm that is set.
constexpr auto nap = std::chrono::milliseconds(20);

class AlarmThread final : public Alarm {
 public:
  ~AlarmThread() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      wanted_.notify_one();
    }
    if (thread_.joinable()) thread_.join();  // the thread has rung, if the alarm was set
  }

  Status open(io::Engine& engine) {
    auto bell = Doorbell::open(engine);
    if (!bell) return std::unexpected(bell.error());
    bell_ = std::move(*bell);
    return start_thread(thread_, [this] { ring_in_time(); });
  }

  void set(Clock::time_point time) override {
    bell_->set();
    MutexLock lock(mutex_);
    time_ = time;
    wants_ = true;
    wanted_.notify_one();
  }

  bool is_set() const override { return bell_->is_set(); }
  bool rang(const io::Request* done) override { return bell_->rang(done); }

 private:
  void ring_in_time() {
    for (;;) {
      Clock::time_point time;
      {
        MutexLock lock(mutex_);
        while (!wants_ && !closing_) wanted_.wait(mutex_);
        if (!wants_) return;
        time = time_;
      }
      while (Clock::now() < time && !closing()) {
        std::this_thread::sleep_until(std::min(time, Clock::now() + nap));
      }
      {
        MutexLock lock(mutex_);
        wants_ = false;
      }
      bell_->ring();
    }
  }

  bool closing() {
    MutexLock lock(mutex_);
    return closing_;
  }

  std::unique_ptr<Doorbell> bell_;

  Mutex mutex_;
  Condition wanted_;
  bool wants_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  Clock::time_point time_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Alarm>> Alarm::open(io::Engine& engine) {
  auto alarm = std::make_unique<AlarmThread>();
  if (auto opened = alarm->open(engine); !opened) return std::unexpected(opened.error());
  return alarm;
}

}  // namespace penstock::trace
