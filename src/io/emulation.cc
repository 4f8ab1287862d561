// The emulation of a device.
//
// Sleeping in each request, for its bytes and for the switch, would be wrong. Sleeps are coarse
// (some 60 us too long, on a busy machine much more), so that a request of 100 us would take 200;
// with several requests in flight the sleeps would overlap, and the device be that many times too
// fast; and a thread that sleeps with a lock held stops others.
//
// Instead there is a queue with a clock of its own. A request is entered when it is submitted, and
// its end is computed at once: after those in front of it, a switch if it does not continue them,
// and its bytes. The real request runs meanwhile, and is reported at that time, or when it has
// really ended, whichever is later.
//
// Times are absolute, which makes the coarseness harmless: a waiter sleeps until 100 us *before*
// the end, and mostly wakes up within those. Reporting early gains nothing, because the next
// request begins in the queue when this one ends there, not when it was reported. Only an idle
// device loses time, as a real one does.
//
// An engine reports its requests on the emulated device in the order of submission, which is the
// order in which the device ends them; the lock is held only for the arithmetic.

#include "io/emulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <ctime>

#include "base/mutex.h"
#include "io/engine.h"

namespace penstock::io {
namespace {

constexpr uint64_t ns_per_s = 1'000'000'000;
// Twice the excess of a sleep of Linux on an idle machine.
constexpr uint64_t early_ns = 100'000;

uint64_t now_ns() noexcept {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * ns_per_s + static_cast<uint64_t>(time.tv_nsec);
}

// The process's emulated device. Thread safety: the queue is entered under the mutex; on_ changes
// while no request is under way, and is read without it, relaxed.
class Emulation {
 public:
  static Emulation& instance() {
    static Emulation emulation;
    return emulation;
  }

  void set(const std::optional<EmulatedDevice>& device) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    queue_.reset();
    if (device) queue_.emplace(*device);
    on_.store(device.has_value(), std::memory_order_relaxed);
  }

  bool on() const { return on_.load(std::memory_order_relaxed); }

  uint64_t enter(const EmulatedQueue::Transfer& transfer) EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return queue_ ? queue_->end_ns(transfer, now_ns()) : 0;
  }

  std::optional<EmulatedDevice> device() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    if (!queue_) return std::nullopt;
    return queue_->device();
  }

  EmulatedTraffic traffic() EXCLUDES_LOCK(mutex_) {
    MutexLock lock(mutex_);
    return queue_ ? queue_->traffic : EmulatedTraffic{};
  }

 private:
  std::atomic<bool> on_{false};
  Mutex mutex_;
  std::optional<EmulatedQueue> queue_ GUARDED_BY(mutex_);
};

// Made before main(), because its first use may be on the fault path.
[[maybe_unused]] const Emulation& made_early = Emulation::instance();

bool parse_number(const std::string& text, double& value) {
  char* end = nullptr;
  value = std::strtod(text.c_str(), &end);
  return end != text.c_str() && *end == 0 && std::isfinite(value);
}

}  // namespace

Result<EmulatedDevice> EmulatedDevice::parse(const std::string& text) {
  EmulatedDevice device;
  std::string rest = text;
  bool fine = true;
  while (fine && !rest.empty()) {
    const std::string field = rest.substr(0, rest.find(','));
    rest.erase(0, field.size() + 1);
    const size_t equals = std::min(field.find('='), field.size());
    const std::string key = field.substr(0, equals);
    double* value = key == "read"     ? &device.read_bytes_per_s
                    : key == "write"  ? &device.write_bytes_per_s
                    : key == "switch" ? &device.switch_seconds
                                      : nullptr;
    fine = value != nullptr && equals < field.size() &&
           parse_number(field.substr(equals + 1), *value) && *value >= 0;
  }
  // The limits of a clock in nanoseconds.
  fine = fine && device.read_bytes_per_s >= 1 && device.write_bytes_per_s >= 1 &&
         device.switch_seconds <= 3600;
  if (!fine) {
    return failure(ErrorCode::invalid_argument, "emulate a device", text,
                   "read=BYTES_PER_S,write=BYTES_PER_S,switch=SECONDS");
  }
  return device;
}

std::string EmulatedDevice::describe() const {
  return fmt::format("emulated device: {:.4g} MB/s read, {:.4g} MB/s write, {:.4g} ms a switch",
                     read_bytes_per_s / 1e6, write_bytes_per_s / 1e6, switch_seconds * 1e3);
}

uint64_t EmulatedQueue::end_ns(const Transfer& transfer, uint64_t now_ns) {
  const bool goes_on = transfer.file == file_ && transfer.offset == offset_;
  const double bytes_per_s = transfer.write ? device_.write_bytes_per_s : device_.read_bytes_per_s;
  double service_s = static_cast<double>(transfer.bytes) / bytes_per_s;
  if (!goes_on) service_s += device_.switch_seconds;
  file_ = transfer.file;
  offset_ = transfer.offset + transfer.bytes;
  // A double holds nanoseconds of the monotonic clock exactly for a hundred days.
  free_at_ns_ = std::max(free_at_ns_, static_cast<double>(now_ns)) + service_s * ns_per_s;
  (transfer.write ? traffic.bytes_written : traffic.bytes_read) += transfer.bytes;
  ++traffic.requests;
  traffic.switches += !goes_on;
  traffic.busy_seconds += service_s;
  return static_cast<uint64_t>(free_at_ns_);
}

void emulate(const std::optional<EmulatedDevice>& device) {
  Emulation::instance().set(device);
}

std::optional<EmulatedDevice> emulated() {
  return Emulation::instance().device();
}

EmulatedTraffic emulated_traffic() {
  return Emulation::instance().traffic();
}

uint64_t emulated_end_ns(const Request& request) noexcept {
  Emulation& emulation = Emulation::instance();
  if (!emulation.on()) [[likely]]
    return 0;
  const File& file = *request.file;
  if (!file.seekable() || request.bytes == 0) return 0;
  const bool write = request.operation == Operation::write;
  const uint64_t bytes = write ? request.bytes : file.readable(request.offset, request.bytes);
  return emulation.enter({file.descriptor(), request.offset, bytes, write});
}

void wait_for_emulated(uint64_t end_ns) noexcept {
  if (end_ns == 0 || end_ns <= now_ns() + early_ns) return;
  const uint64_t wake_ns = end_ns - early_ns;
  const timespec wake{.tv_sec = static_cast<time_t>(wake_ns / ns_per_s),
                      .tv_nsec = static_cast<long>(wake_ns % ns_per_s)};
  while (::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &wake, nullptr) == EINTR) {
  }
}

}  // namespace penstock::io
