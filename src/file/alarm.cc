#include "file/alarm.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/mutex.h"
#include "base/thread.h"

namespace penstock::file {
namespace {

using Clock = std::chrono::steady_clock;

// How long an alarm that is not wanted any more may keep the thread from ending.
constexpr auto nap = std::chrono::milliseconds(20);

class PipeAlarm final : public Alarm {
 public:
  explicit PipeAlarm(Engine& engine) : engine_(engine) {}

  ~PipeAlarm() override {
    {
      MutexLock lock(mutex_);
      closing_ = true;
      wanted_.notify_one();
    }
    if (thread_.joinable()) thread_.join();  // it has rung, if it was set
    if (is_set_) engine_.wait(request_);
    if (write_end_ >= 0) ::close(write_end_);
  }

  Status open() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno, "make a pipe", "an alarm");
    write_end_ = ends[1];
    auto read_end = File::open_read(fmt::format("/proc/self/fd/{}", ends[0]), Caching::buffered);
    ::close(ends[0]);
    if (!read_end) return std::unexpected(read_end.error());
    read_end_ = std::move(*read_end);
    return start_thread(thread_, [this] { ring_in_time(); });
  }

  void set(Clock::time_point time) override {
    PENSTOCK_CHECK(!is_set_, "an alarm is set once at a time");
    is_set_ = true;
    request_.operation = Operation::read;
    request_.file = &read_end_;
    request_.data = &byte_;
    request_.bytes = 1;
    engine_.submit(request_);
    MutexLock lock(mutex_);
    time_ = time;
    wants_ = true;
    wanted_.notify_one();
  }

  bool is_set() const override { return is_set_; }

  bool rang(const Request* done) override {
    if (done != &request_) return false;
    is_set_ = false;
    return true;
  }

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
      while (::write(write_end_, "", 1) < 0 && errno == EINTR) {
      }
    }
  }

  bool closing() {
    MutexLock lock(mutex_);
    return closing_;
  }

  Engine& engine_;
  File read_end_;
  int write_end_ = -1;
  Request request_;
  std::byte byte_{};
  bool is_set_ = false;

  Mutex mutex_;
  Condition wanted_;
  bool wants_ GUARDED_BY(mutex_) = false;
  bool closing_ GUARDED_BY(mutex_) = false;
  Clock::time_point time_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Alarm>> Alarm::open(Engine& engine) {
  auto alarm = std::make_unique<PipeAlarm>(engine);
  if (auto opened = alarm->open(); !opened) return std::unexpected(opened.error());
  return alarm;
}

}  // namespace penstock::file
