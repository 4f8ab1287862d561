#include "trace/replay/replay.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "trace/import/import.h"
#include "trace/replay/real_device.h"
#include "trace/replay/replay_device.h"

// The way of requests from the trace to the device:
//
//   convert() -> RequestFilter: selects the files and the part
//             -> Feed:          joins and widens requests to transfers, counts requests
//             -> Device:        RealDevice makes them, with a ReplayQueue; ImaginedDevice adds up
//                               seconds
//             -> Tally:         counts transfers, in the order in which they were started

namespace penstock::trace {
namespace {

using io::sector_bytes;

constexpr uint64_t ns_per_s = 1'000'000'000;
constexpr double s_per_ns = 1e-9;

// Selects the requests to replay. Both readings of the trace select the same.
class RequestFilter {
 public:
  RequestFilter(const ReplayOptions& options, const std::vector<ConvertedFile>* const& files)
      : options_(options), files_(files) {}

  // Returns whether to replay a request. A sync belongs to the previous request.
  bool wants(const Request& request) {
    if (!wants_file(request)) return false;
    if (request.is_sync())
      return seen_ > options_.first_request && seen_ - options_.first_request <= options_.requests;
    const uint64_t order = seen_++;
    return order >= options_.first_request && order - options_.first_request < options_.requests;
  }

  // Returns the number of requests to the selected files so far.
  uint64_t seen() const { return seen_; }

 private:
  bool wants_file(const Request& request) {
    if (!options_.under.empty()) {
      while (wanted_.size() < files_->size()) {
        const std::string& path = (*files_)[wanted_.size()].first_path;
        wanted_.push_back(std::ranges::any_of(
            options_.under, [&](const std::string& prefix) { return path.starts_with(prefix); }));
      }
      return wanted_[request.file];
    }
    return true;
  }

  const ReplayOptions& options_;
  const std::vector<ConvertedFile>* const& files_;  // set when the conversion begins
  std::vector<bool> wanted_;
  uint64_t seen_ = 0;
};

class Feed {
 public:
  Feed(const ReplayPlan& plan, const ReplayOptions& options, Device& device, ReplayResult& result)
      : plan_(plan), options_(options), device_(device), result_(result) {
    last_.resize(plan.layout.extents.size());
  }

  Status add(const Request& request) {
    if (request.is_sync()) return add_sync(request);
    if (requests_++ == 0) first_ns_ = request.start_ns;
    auto address = plan_.layout.address(request.file, request.offset, request.bytes);
    if (!address) return std::unexpected(address.error());
    count(request, *address);
    if (options_.progress && (requests_ & 1023) == 0) {
      options_.progress(result_.totals.bytes(), plan_.bytes);
    }
    const uint64_t start_ns = start_of(request);
    const Transfer transfer{.address = *address,
                            .bytes = request.bytes,
                            .start_ns = start_ns,
                            .end_ns = saturating_sum(start_ns, request.latency_ns),
                            .file = request.file,
                            .thread = request.thread,
                            .access = request.access};
    if (options_.join && joins(transfer)) {
      joined_.bytes += transfer.bytes;
      joined_.end_ns = std::max(joined_.end_ns, transfer.end_ns);
      ++result_.joined;
      return {};
    }
    if (Status status = pass_on(); !status) return status;
    joined_ = transfer;
    return options_.join ? Status{} : pass_on();
  }

  Status finish() {
    if (Status status = pass_on(); !status) return status;
    if (options_.progress) options_.progress(plan_.bytes, plan_.bytes);
    return device_.finish();
  }

 private:
  struct Last {  // the last transfer of a file
    uint64_t end = 0;
    Access access = Access::read;
    bool any = false;
  };

  uint64_t start_of(const Request& request) const {
    return request.start_ns - std::min(first_ns_, request.start_ns);
  }

  // Adds a sync, after the joined transfer before it. The file's last sector is on the disk then, and
  // is written once more if bytes are appended in it.
  Status add_sync(const Request& request) {
    if (plan_.syncs == 0 || request.file >= plan_.layout.extents.size()) return {};
    const FileExtent& extent = plan_.layout.extents[request.file];
    if (extent.bytes == 0) return {};
    if (Status status = pass_on(); !status) return status;
    Last& last = last_[request.file];
    if (last.access == Access::write) last.any = false;
    ++result_.totals.syncs;
    ++result_.files[request.file].syncs;
    const uint64_t start_ns = start_of(request);
    return device_.add({.address = extent.base,
                        .bytes = 0,
                        .start_ns = start_ns,
                        .end_ns = saturating_sum(start_ns, request.latency_ns),
                        .file = request.file,
                        .thread = request.thread,
                        .access = Access::write});
  }

  bool joins(const Transfer& transfer) const {
    return joined_.bytes != 0 && transfer.file == joined_.file &&
           transfer.access == joined_.access &&
           transfer.address == joined_.address + joined_.bytes &&
           transfer.bytes <= transfer_bytes_max &&
           joined_.bytes <= transfer_bytes_max - transfer.bytes;
  }

  // Counts a request as the trace has it.
  void count(const Request& request, uint64_t address) {
    const bool seek = requests_ == 1 || address != trace_end_;
    trace_end_ = address + request.bytes;
    for (ReplayFigures* figures : {&result_.totals, &result_.files[request.file]}) {
      const bool is_read = request.access == Access::read;
      ++(is_read ? figures->reads : figures->writes);
      uint64_t& asked = is_read ? figures->read_bytes : figures->written_bytes;
      asked = saturating_sum(asked, request.bytes);
      figures->trace_seeks += seek;
    }
  }

  Status pass_on() {
    if (joined_.bytes == 0) return {};
    Transfer transfer = std::exchange(joined_, {});
    if (!options_.buffered) {
      const uint64_t asked_end = transfer.address + transfer.bytes;
      // Extents begin and end with a sector, so no transfer reaches into another file's.
      uint64_t begin = round_down(transfer.address, sector_bytes);
      const uint64_t end = round_up(asked_end, sector_bytes);
      Last& last = last_[transfer.file];
      if (last.any && last.end == transfer.address && last.access == transfer.access) {
        begin = round_up(transfer.address, sector_bytes);
      }
      last = {.end = asked_end, .access = transfer.access, .any = true};
      if (begin >= end) {
        ++result_.shared_sector;
        return {};
      }
      result_.widened += begin < transfer.address || end > asked_end;
      transfer.address = begin;
      transfer.bytes = end - begin;
    }
    return device_.add(transfer);
  }

  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  Device& device_;
  ReplayResult& result_;
  uint64_t requests_ = 0;
  uint64_t first_ns_ = 0;
  uint64_t trace_end_ = 0;
  Transfer joined_;         // waits for requests that continue it; 0 bytes: none
  std::vector<Last> last_;  // [file]
};

// A model with one arm, equation 1 of the paper: bytes over speed, and a delay for each seek.
class ImaginedDevice final : public Device {
 public:
  ImaginedDevice(const bowtie::DeviceProfile& profile, const ReplayPlan& plan,
                 const ReplayOptions& options, Tally& tally, ReplayResult& result)
      : profile_(profile),
        switch_seconds_(profile.switch_seconds.at(plan.files_read, plan.files_written)),
        options_(options),
        tally_(tally),
        result_(result) {}

  Status add(const Transfer& transfer) override {
    if ((++taken_ & 0xffff) == 0 && cancelled(options_)) {
      return failure(ErrorCode::interrupted, "replay", profile_.name);
    }
    double begin = now_;
    if (options_.pace == Pace::original) {
      const double due = static_cast<double>(transfer.start_ns) * s_per_ns;
      // A hostile trace may have more than 64 bits of nanoseconds.
      tally_.late(static_cast<uint64_t>(std::clamp((now_ - due) * ns_per_s, 0.0, 1.8e19)));
      begin = std::max(now_, due);
    }
    const double speed =
        transfer.access == Access::read ? profile_.read_bytes_per_s : profile_.write_bytes_per_s;
    const bool switches = tally_.started(transfer) || transfer.is_sync();
    now_ = begin + static_cast<double>(transfer.bytes) / speed + (switches ? switch_seconds_ : 0);
    tally_.ended(transfer, now_ - begin);
    result_.in_flight_max = 1;
    return {};
  }

  Status finish() override {
    result_.seconds = now_;
    result_.device = fmt::format(
        "simulated: {}, {:.4g} MB/s read, {:.4g} MB/s write, {:.4g} ms a "
        "switch",
        profile_.name, profile_.read_bytes_per_s / 1e6, profile_.write_bytes_per_s / 1e6,
        switch_seconds_ * 1e3);
    return {};
  }

 private:
  const bowtie::DeviceProfile& profile_;
  const double switch_seconds_;
  const ReplayOptions& options_;
  Tally& tally_;
  ReplayResult& result_;
  double now_ = 0;
  uint64_t taken_ = 0;
};

Status play(const std::string& path, const ReplayPlan& plan, const ReplayOptions& options,
            Device& device, ReplayResult& result) {
  Feed feed(plan, options, device, result);
  const std::vector<ConvertedFile>* files = nullptr;
  RequestFilter filter(options, files);
  auto converted = convert_file(
      path, {.syncs = options.sync},
      [&](std::span<const Request> batch) -> Status {
        for (const Request& request : batch) {
          if (!filter.wants(request)) continue;
          if (Status status = feed.add(request); !status) return status;
        }
        return {};
      },
      &files);
  if (!converted) {
    Error error = converted.error();
    if (error.subject.empty()) error.subject = path;
    return std::unexpected(std::move(error));
  }
  return feed.finish();
}

Status check(const ReplayOptions& options) {
  if (options.depth == 0 || options.depth > replay_depth_max) {
    return failure(ErrorCode::invalid_argument, "keep so many requests in flight",
                   std::to_string(options.depth), fmt::format("1 to {}", replay_depth_max));
  }
  if (options.join && options.pace == Pace::original) {
    return failure(ErrorCode::invalid_argument, "join requests that have times of their own",
                   "--join", "--pace fast");
  }
  return {};
}

}  // namespace

Result<ReplayPlan> plan_replay(const std::string& path, const ReplayOptions& options) {
  if (Status valid = check(options); !valid) return std::unexpected(valid.error());
  if (Status twice = check_readable_twice(path); !twice) return std::unexpected(twice.error());
  ReplayPlan plan;
  std::vector<TouchedRange> touched;
  std::vector<uint8_t> accessed;  // [file]: bit 0 read, bit 1 written
  std::vector<uint64_t> syncs;    // [file]
  const std::vector<ConvertedFile>* files = nullptr;
  RequestFilter filter(options, files);
  auto converted = convert_file(
      path, {.syncs = options.sync},
      [&](std::span<const Request> batch) -> Status {
        if (cancelled(options)) return failure(ErrorCode::interrupted, "read the trace", path);
        for (const Request& request : batch) {
          if (!filter.wants(request)) continue;
          if (touched.size() <= request.file) {
            touched.resize(request.file + 1);
            accessed.resize(request.file + 1);
            syncs.resize(request.file + 1);
            plan.last_request_end.resize(request.file + 1);
          }
          if (request.is_sync()) {
            ++syncs[request.file];
            continue;
          }
          touched[request.file].add(request.offset, request.bytes);
          accessed[request.file] |= request.access == Access::read ? uint8_t{1} : uint8_t{2};
          plan.last_request_end[request.file] = filter.seen();
          ++plan.requests;
          plan.bytes = saturating_sum(plan.bytes, request.bytes);
        }
        return {};
      },
      &files);
  if (!converted) return std::unexpected(converted.error());
  plan.conversion = std::move(*converted);
  if (plan.requests == 0) {
    const bool some =
        !options.under.empty() || options.first_request != 0 || options.requests != ~uint64_t{0};
    return failure(ErrorCode::invalid_argument, "replay it: there is no request to replay", path,
                   some ? "penstock convert shows what it has; another --under or --requests"
                        : "penstock convert shows what it has");
  }
  for (const uint8_t access : accessed) {
    plan.files_read += (access & 1) != 0;
    plan.files_written += (access & 2) != 0;
  }
  auto layout = lay_out(plan.conversion.files, touched, options.room);
  if (!layout) return std::unexpected(layout.error());
  plan.layout = std::move(*layout);
  for (size_t i = 0; i < syncs.size(); ++i) {
    if (plan.layout.extents[i].bytes != 0) plan.syncs += syncs[i];
  }
  if (auto small = lay_out(plan.conversion.files, touched, Room::touched)) {
    plan.touched_bytes = small->bytes;
  }
  return plan;
}

Result<ReplayResult> replay(const std::string& path, const ReplayPlan& plan, ReplayRegion& region,
                            const ReplayOptions& options) {
  PENSTOCK_CHECK(region.bytes() >= plan.layout.bytes, "the region has the plan's room");
  ReplayResult result;
  result.files.resize(plan.conversion.files.size());
  Tally tally(result);
  RealDevice device(region, plan, options, tally, result);
  if (Status opened = device.open(); !opened) return std::unexpected(opened.error());
  if (Status played = play(path, plan, options, device, result); !played) {
    return std::unexpected(played.error());
  }
  if (Status synced = region.sync(); !synced) return std::unexpected(synced.error());
  device.stop_clock();
  tally.end_run();
  return result;
}

Result<ReplayResult> simulate_replay(const std::string& path, const ReplayPlan& plan,
                                     const bowtie::DeviceProfile& device,
                                     const ReplayOptions& options) {
  if (Status valid = device.check(); !valid) return std::unexpected(valid.error());
  ReplayResult result;
  result.files.resize(plan.conversion.files.size());
  Tally tally(result);
  ImaginedDevice imagined(device, plan, options, tally, result);
  if (Status played = play(path, plan, options, imagined, result); !played) {
    return std::unexpected(played.error());
  }
  tally.end_run();
  return result;
}

}  // namespace penstock::trace
