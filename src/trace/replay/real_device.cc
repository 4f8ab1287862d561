#include "trace/replay/real_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/seconds.h"
#include "io/emulation.h"

namespace penstock::trace {
namespace {

// Each part in flight has a buffer for a write, and one for a read behind all buffers for writes, so
// that written bytes stay random. The bytes of reads are not used, but reads in flight cannot share a
// buffer: a file system with checksums would find another read's bytes there.
constexpr unsigned first_read_buffer = replay_depth_max;
constexpr unsigned buffers = 2 * replay_depth_max;

// Longest wait for a request's time before the replay checks for its cancellation.
constexpr auto nap_max = std::chrono::milliseconds(50);

using Time = std::chrono::steady_clock::time_point;

}  // namespace

RealDevice::RealDevice(const ReplayRegion& region, const ReplayPlan& plan,
                       const ReplayOptions& options, Tally& tally, ReplayResult& result)
    : region_(region),
      has_syncs_(plan.syncs > 0),
      options_(options),
      tally_(tally),
      result_(result),
      queue_({.concurrency = options.concurrency,
              .pace = options.pace,
              .depth_max =
                  options.concurrency == Concurrency::ahead ? options.depth : replay_depth_max}) {}

Status RealDevice::open() {
  auto memory = ReplayBuffers::make(buffers, transfer_bytes_max);
  if (!memory) return std::unexpected(memory.error());
  buffers_ = std::move(*memory);
  for (unsigned i = replay_depth_max; i-- > 0;) {
    free_parts_.push_back(i);  // the last one is used first, so that few buffers are touched
    free_flights_.push_back(i);
  }
  // Two more requests: the alarm, and a sync.
  auto engine = io::Engine::open({.depth = replay_depth_max + 2, .kind = options_.engine});
  if (!engine) return std::unexpected(engine.error());
  engine_ = std::move(*engine);
  if (has_syncs_) {
    auto sync = BackgroundSync::open(*engine_, region_.file());
    if (!sync) return std::unexpected(sync.error());
    sync_ = std::move(*sync);
  }
  if (options_.pace == Pace::original) {
    auto alarm = Alarm::open(*engine_);
    if (!alarm) return std::unexpected(alarm.error());
    alarm_ = std::move(*alarm);
  }
  const auto emulated = io::emulated();
  if (emulated) io::emulate(emulated);  // resets the counters
  result_.device = fmt::format(
      "{}{}, {}", emulated ? emulated->describe() + ", on " : "",
      engine_->kind() == io::EngineKind::io_uring ? "io_uring" : "threads",
      region_.file().caching() == io::Caching::direct ? "direct" : "through the page cache");
  begin_ = Clock::now();
  return {};
}

Status RealDevice::add(const Transfer& transfer) {
  while (queue_.full()) {
    if (Status status = advance(); !status) return status;
  }
  queue_.add(transfer);
  return {};
}

Status RealDevice::finish() {
  while (!queue_.empty() || queue_.in_flight() > 0) {
    if (Status status = advance(); !status) return status;
  }
  return {};
}

void RealDevice::stop_clock() {
  result_.seconds = seconds_between(begin_, Clock::now());
  if (io::emulated()) {
    result_.emulated_busy_seconds = io::emulated_traffic().busy_seconds;
  }
}

uint64_t RealDevice::now_ns() const {
  return static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count());
}
RealDevice::Clock::time_point RealDevice::time_of(uint64_t ns) const {
  // A time later than any replay's end, and within the clock's range.
  constexpr uint64_t ns_max = uint64_t{1} << 60;
  return begin_ + std::chrono::nanoseconds(std::min(ns, ns_max));
}

// Starts all transfers that may start, then waits for an end or for the time of another transfer.
Status RealDevice::advance() {
  if (cancelled(options_)) return failure(ErrorCode::interrupted, "replay", region_.place());
  const bool paced = options_.pace == Pace::original;
  while (auto transfer = queue_.start(paced ? now_ns() : 0)) {
    if (paced) {
      const uint64_t now = now_ns();
      tally_.late(now - std::min(now, transfer->start_ns));
    }
    if (Status status = make(*transfer); !status) return status;
  }
  if (queue_.in_flight() == 0) {
    if (const auto due = queue_.due_ns()) {
      std::this_thread::sleep_until(std::min(time_of(*due), Clock::now() + nap_max));
    }
    return {};
  }
  if (const auto due = queue_.due_ns(); due && !alarm_->is_set()) alarm_->set(time_of(*due));
  return end_one();
}

Status RealDevice::make(const Transfer& transfer) {
  tally_.started(transfer);
  result_.in_flight_max = std::max(result_.in_flight_max, queue_.in_flight());
  PENSTOCK_CHECK(!free_flights_.empty(), "no more in flight than the queue lets");
  const unsigned number = free_flights_.back();
  free_flights_.pop_back();
  Flight& flight = flights_[number];
  flight = {.transfer = transfer,
            .parts_left = ceil_div(transfer.bytes, transfer_bytes_max),
            .start = Clock::now()};
  if (transfer.is_sync()) {
    syncs_.push_back(number);
    if (!sync_->running()) start_syncs();
    return {};
  }
  for (uint64_t at = 0; at < transfer.bytes; at += transfer_bytes_max) {
    while (free_parts_.empty()) {
      if (Status status = end_one(); !status) return status;
    }
    const unsigned part = free_parts_.back();
    free_parts_.pop_back();
    io::Request& request = requests_[part];
    request.operation =
        transfer.access == Access::read ? io::Operation::read : io::Operation::write;
    request.file = &region_.file();
    request.offset = transfer.address + at;
    request.data = buffers_.at(transfer.access == Access::read ? first_read_buffer + part : part);
    request.bytes = std::min<uint64_t>(transfer_bytes_max, transfer.bytes - at);
    request.tag = number;
    if (transfer.access == Access::write) buffers_.renew(part, request.bytes);
    engine_->submit(request);
  }
  return {};
}

// Waits for a request and ends it. REQUIRES: a request is in flight.
Status RealDevice::end_one() {
  io::Request* const done = engine_->wait_any();
  PENSTOCK_CHECK(done != nullptr, "something is in flight");
  if (alarm_ && alarm_->rang(done)) return {};
  if (sync_ && sync_->ended(done)) return end_syncs();
  free_parts_.push_back(static_cast<unsigned>(done - requests_.data()));
  if (done->error != 0) {
    return system_error(done->error,
                        fmt::format("{} {} bytes at offset {} of the region",
                                    done->operation == io::Operation::read ? "read" : "write",
                                    done->bytes, done->offset),
                        region_.place());
  }
  if (done->done_bytes != done->bytes) {
    return failure(ErrorCode::io, "replay: the region is shorter than it was", region_.place());
  }
  const auto number = static_cast<unsigned>(done->tag);
  if (--flights_[number].parts_left == 0) end(number);
  return {};
}

void RealDevice::end(unsigned number) {
  const Flight& flight = flights_[number];
  tally_.ended(flight.transfer, seconds_between(flight.start, Clock::now()));
  queue_.ended(flight.transfer);
  free_flights_.push_back(number);
}

// Starts one call for all waiting syncs: their writes have ended before. The kernel does the same for
// concurrent syncs of a program's threads; a call for each, one after the other, would take many
// times as long. Syncs that come while a call is under way wait for the next one, since the call may
// have begun before their writes ended.
void RealDevice::start_syncs() {
  served_ = std::exchange(syncs_, {});
  ++result_.sync_calls;
  sync_->start();
}

Status RealDevice::end_syncs() {
  if (const Status& made = sync_->status(); !made) return made;
  const std::vector<unsigned> done = std::exchange(served_, {});
  if (!syncs_.empty()) start_syncs();
  for (const unsigned number : done) end(number);
  return {};
}

}  // namespace penstock::trace
