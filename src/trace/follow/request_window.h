#pragma once

// The second and third step of the conversion (convert.cc): requests in the order of their start, and
// their comparison with the ones before.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

#include "penstock/trace.h"

namespace penstock::trace {

class RequestCounter {
 public:
  RequestCounter(Conversion& result, const RequestSink& sink) : result_(result), sink_(sink) {}

  Status add(std::span<Request> batch) {
    for (Request& request : batch) count(request);
    return sink_ ? sink_(batch) : Status{};
  }

  void finish() {
    end_run();
    result_.processes = processes_.size();
  }

 private:
  void count(Request& request) {
    if (request.is_sync()) return;
    ConvertedFile& file = result_.files[request.file];
    if (last_end_.size() < result_.files.size()) last_end_.resize(result_.files.size());
    uint64_t& last_end = last_end_[request.file];
    request.file_seek = request.offset != last_end;
    request.device_seek = request.file_seek || request.file != last_file_;
    last_end = request.offset + request.bytes;

    if (request.device_seek) end_run();
    run_bytes_ += request.bytes;
    last_file_ = request.file;
    if (request.start_ns < last_start_ns_) ++result_.late;
    last_start_ns_ = std::max(last_start_ns_, request.start_ns);

    const bool is_read = request.access == Access::read;
    ++result_.requests;
    ++(is_read ? result_.reads : result_.writes);
    (is_read ? result_.read_bytes : result_.written_bytes) += request.bytes;
    result_.file_seeks += request.file_seek;
    result_.device_seeks += request.device_seek;
    const uint64_t end_ns = request.start_ns + request.latency_ns;
    result_.end_ns = std::max(result_.end_ns, end_ns);
    if (file.reads + file.writes == 0) file.first_ns = request.start_ns;
    ++(is_read ? file.reads : file.writes);
    (is_read ? file.read_bytes : file.written_bytes) += request.bytes;
    file.seeks += request.file_seek;
    file.switches += request.device_seek;
    file.last_ns = std::max(file.last_ns, end_ns);
    if (request.process != last_process_ || processes_.empty()) {
      processes_.insert(request.process);
      last_process_ = request.process;
    }
  }

  void end_run() {
    if (run_bytes_ != 0) ++result_.runs[static_cast<size_t>(std::bit_width(run_bytes_) - 1)];
    run_bytes_ = 0;
  }

  Conversion& result_;
  const RequestSink& sink_;
  std::vector<uint64_t> last_end_;  // [file]: end of its last access
  std::unordered_set<int32_t> processes_;
  uint32_t last_file_ = ~uint32_t{0};
  int32_t last_process_ = 0;
  uint64_t last_start_ns_ = 0;
  uint64_t run_bytes_ = 0;
};

// A window in which requests wait until `wait` younger ones have come. They come nearly in order, so
// insertion from the back takes as many steps as requests were under way at the same time.
//
// If that would take many steps (times that fall or jump about), the request is appended, and the
// window is sorted once before it releases requests: a few steps per request in any order. Both ways
// are stable: requests of one time keep their order.
class RequestWindow {
 public:
  RequestWindow(size_t wait, RequestCounter& counter)
      : wait_(std::max<size_t>(wait, 1)), counter_(counter) {
    requests_.reserve(2 * wait_);
  }

  Status add(const Request& request) {
    const size_t count = requests_.size();
    const size_t nearest = count - std::min(count, steps_max);
    size_t place = count;
    while (place > nearest && requests_[place - 1].start_ns > request.start_ns) --place;
    if (place == nearest && place > 0 && requests_[place - 1].start_ns > request.start_ns) {
      in_order_ = false;
      place = count;
    }
    requests_.insert(requests_.begin() + static_cast<ptrdiff_t>(place), request);
    if (requests_.size() < 2 * wait_) return {};
    return release(wait_);
  }

  Status finish() { return release(requests_.size()); }

 private:
  Status release(size_t count) {
    if (count == 0) return {};
    if (!in_order_) std::ranges::stable_sort(requests_, {}, &Request::start_ns);
    in_order_ = true;
    Status status = counter_.add(std::span(requests_).first(count));
    requests_.erase(requests_.begin(), requests_.begin() + static_cast<ptrdiff_t>(count));
    return status;
  }

  static constexpr size_t steps_max = 64;

  const size_t wait_;
  RequestCounter& counter_;
  std::vector<Request> requests_;
  bool in_order_ = true;
};

}  // namespace penstock::trace
