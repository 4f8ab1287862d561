// A device to measure: files on a disk (device_measurement.h).

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "base/random.h"
#include "files/bowtie/device_measurement.h"
#include "io/extents.h"
#include "io/request_ring.h"

namespace penstock::bowtie {
namespace {

using io::Operation;

constexpr const char* attempted = "measure the disk";

// Space left free, so that other processes' writes do not fail meanwhile.
constexpr uint64_t spare_bytes = 64 * MiB;

class Files final : public FileDevice {
 public:
  explicit Files(const FileDeviceOptions& options)
      : options_(options),
        zone_bytes_(round_down(options.bytes / options.zones, options.request_bytes)) {}

  Status open();

  unsigned zones() const override { return options_.zones; }
  uint64_t zone_bytes() const override { return zone_bytes_; }
  uint64_t request_bytes() const override { return options_.request_bytes; }
  uint64_t stream_bytes(uint32_t streams) const override {
    const uint64_t in_a_zone = (streams + options_.zones - 1) / options_.zones;
    return round_down(zone_bytes_ / in_a_zone, options_.request_bytes);
  }
  Result<double> scan(unsigned zone, Operation operation) override;
  Result<double> interleave(const Pattern& pattern) override;
  std::optional<ZoneExtent> extent(unsigned zone) const override;

 private:
  // Consecutive requests in one file.
  struct Run {
    Operation operation;
    unsigned zone;
    uint64_t offset;
    uint64_t bytes;
  };
  // Positions of the streams of n inputs and m outputs. They outlive a pattern, so that all streams
  // have their turn although a sample has fewer visits.
  struct Cursors {
    std::vector<uint64_t> next_offsets;
    uint32_t next_input = 0;
    uint32_t next_output = 0;
  };

  Run next_run(const Pattern& pattern, Cursors& cursors, uint64_t visit) const;
  template <class NextRun>
  Result<double> time(uint64_t runs, uint64_t ramp_runs, NextRun&& next_run);
  void stamp(io::Request& request);

  const FileDeviceOptions options_;
  const uint64_t zone_bytes_;
  std::vector<io::File> files_;
  io::RequestRing ring_;
  std::map<std::pair<uint32_t, uint32_t>, Cursors> cursors_;
  uint64_t sectors_written_ = 0;
};

Status Files::open() {
  if (zone_bytes_ == 0) {
    return failure(ErrorCode::invalid_argument, attempted,
                   fmt::format("with {} bytes", options_.bytes), "a larger --size");
  }
  auto space = io::space_of(options_.directory);
  if (!space) return std::unexpected(space.error());
  if (space->free_bytes < options_.zones * zone_bytes_ + spare_bytes) {
    return failure(ErrorCode::out_of_space,
                   fmt::format("hold {} MiB of files: {} MiB are free",
                               options_.zones * zone_bytes_ / MiB, space->free_bytes / MiB),
                   options_.directory, "a smaller --size");
  }
  for (unsigned zone = 0; zone < options_.zones; ++zone) {
    auto file = io::File::create_temporary(options_.directory);
    if (!file) return std::unexpected(file.error());
    if (options_.direct_only && file->caching() != io::Caching::direct) {
      return failure(ErrorCode::unsupported, "read and write past the page cache",
                     options_.directory, "a directory on a disk");
    }
    if (options_.reserve) {
      if (auto reserved = file->preallocate(zone_bytes_); !reserved) return reserved;
    }
    files_.push_back(std::move(*file));
  }

  if (auto opened = ring_.open({.depth = options_.depth,
                                .buffer_bytes = options_.request_bytes,
                                .kind = options_.engine,
                                .subject = "buffers"});
      !opened)
    return opened;
  Random random(1);
  const std::span<std::byte> buffers = ring_.buffers();
  for (size_t i = 0; i < buffers.size(); i += sizeof(uint64_t)) {
    const uint64_t word = random.next();
    std::memcpy(&buffers[i], &word, sizeof word);
  }
  return {};
}

// Makes every sector unique, in case the disk stores equal sectors only once.
void Files::stamp(io::Request& request) {
  for (size_t at = 0; at < request.bytes; at += io::sector_bytes) {
    const uint64_t word = mix64(++sectors_written_);
    std::memcpy(request.data + at, &word, sizeof word);
  }
}

// Makes the runs one after the other with the queue always full, and returns the seconds from the
// completion of run `ramp_runs` - 1 to that of the last but `ramp_runs`. Runs complete roughly in
// order; a run counts as complete when those before it are, too.
template <class NextRun>
Result<double> Files::time(uint64_t runs, uint64_t ramp_runs, NextRun&& next_run) {
  PENSTOCK_CHECK(runs > 2 * ramp_runs, "runs between the ramps");
  std::vector<uint64_t> open_bytes(runs, 0);  // each run's bytes that are not complete
  Run run = {};
  uint64_t submitted = 0;   // runs, the present one included
  uint64_t complete = 0;    // runs
  uint64_t left_bytes = 0;  // the present run's bytes that are not submitted

  const auto submit_next = [&] {
    if (left_bytes == 0) {
      run = next_run(submitted);
      left_bytes = open_bytes[submitted] = run.bytes;
      ++submitted;
    }
    io::Request request{.operation = run.operation,
                        .file = &files_[run.zone],
                        .offset = run.offset + run.bytes - left_bytes,
                        .data = ring_.next_buffer(),
                        .bytes = options_.request_bytes,
                        .tag = submitted - 1};
    if (run.operation == Operation::write) stamp(request);
    left_bytes -= request.bytes;
    ring_.submit(request);
  };
  // Waits for the requests in flight, which use the buffers and files, and returns the error.
  const auto failed = [&](Error error) -> Result<double> {
    (void)ring_.wait_all();
    return std::unexpected(std::move(error));
  };

  std::chrono::steady_clock::time_point begin, end;
  for (;;) {
    while (!ring_.full() && (left_bytes > 0 || submitted < runs)) submit_next();
    if (ring_.idle()) break;
    const io::Request& done = ring_.wait_any();
    if (auto status = ring_.status(); !status) return failed(status.error());
    if (done.done_bytes != done.bytes)
      return failed({ErrorCode::io, "read a whole request", options_.directory});
    // Relaxed: the flag publishes no other data.
    if (options_.cancel != nullptr && options_.cancel->load(std::memory_order_relaxed))
      return failed({ErrorCode::interrupted, attempted, options_.directory});
    open_bytes[done.tag] -= done.bytes;
    for (; complete < submitted && open_bytes[complete] == 0; ++complete) {
      if (complete + 1 == ramp_runs) begin = std::chrono::steady_clock::now();
      if (complete + 1 == runs - ramp_runs) end = std::chrono::steady_clock::now();
    }
  }
  PENSTOCK_CHECK(complete == runs, "every run completes");
  // The clock may not advance between two completions that one call reports.
  return std::max(std::chrono::duration<double>(end - begin).count(), 1e-9);
}

// Each request is one run. A zone smaller than the queue would complete all at once, with nothing
// to time in between, so it is scanned several times in a row.
Result<double> Files::scan(unsigned zone, Operation operation) {
  const uint64_t zone_runs = zone_bytes_ / options_.request_bytes;
  if (zone_runs < 4) {
    return failure(ErrorCode::invalid_argument, attempted, "so small a zone", "a larger --size");
  }
  const uint64_t ramp_runs = options_.depth;
  const uint64_t runs = round_up(std::max(zone_runs, 4 * ramp_runs), zone_runs);
  auto seconds = time(runs, ramp_runs, [&](uint64_t i) {
    return Run{operation, zone, i % zone_runs * options_.request_bytes, options_.request_bytes};
  });
  if (!seconds) return seconds;
  const double speed =
      static_cast<double>((runs - 2 * ramp_runs) * options_.request_bytes) / *seconds;
  if (speed <= believable_bytes_per_s) return speed;
  return failure(ErrorCode::invalid_argument,
                 fmt::format("believe {:.0f} GB/s of a disk", speed / 1e9), options_.directory,
                 "a larger --size");
}

Files::Run Files::next_run(const Pattern& pattern, Cursors& cursors, uint64_t visit) const {
  const bool reads = visit % pattern.period() < pattern.inputs_in_a_row();
  uint32_t stream;
  if (reads) {
    stream = std::exchange(cursors.next_input, (cursors.next_input + 1) % pattern.inputs);
  } else {
    stream = pattern.inputs +
             std::exchange(cursors.next_output, (cursors.next_output + 1) % pattern.outputs);
  }
  // Streams are assigned to zones in turn, and lie side by side within a zone.
  const uint64_t stream_bytes = this->stream_bytes(pattern.streams());
  uint64_t& next = cursors.next_offsets[stream];
  if (next + pattern.run_bytes > stream_bytes) next = 0;
  const uint64_t offset =
      stream / options_.zones * stream_bytes + std::exchange(next, next + pattern.run_bytes);
  return {reads ? Operation::read : Operation::write, stream % options_.zones, offset,
          pattern.run_bytes};
}

Result<double> Files::interleave(const Pattern& pattern) {
  PENSTOCK_CHECK(pattern.streams() > 1 && pattern.visits % pattern.period() == 0 &&
                     pattern.run_bytes % options_.request_bytes == 0 &&
                     pattern.run_bytes <= stream_bytes(pattern.streams()),
                 "a pattern that fits the files");
  Cursors& cursors = cursors_[{pattern.inputs, pattern.outputs}];
  cursors.next_offsets.resize(pattern.streams());
  const uint64_t queue_bytes = options_.depth * options_.request_bytes;
  const uint64_t ramp_runs = (queue_bytes + pattern.run_bytes - 1) / pattern.run_bytes;
  return time(pattern.visits + 2 * ramp_runs, ramp_runs,
              [&](uint64_t visit) { return next_run(pattern, cursors, visit); });
}

std::optional<FileDevice::ZoneExtent> Files::extent(unsigned zone) const {
  auto extents = io::extents_of(files_[zone]);
  if (!extents || extents->empty()) return {};
  return ZoneExtent{.begin = extents->front().place, .pieces = extents->size()};
}

}  // namespace

Result<std::unique_ptr<FileDevice>> FileDevice::open(const FileDeviceOptions& options) {
  auto files = std::make_unique<Files>(options);
  if (auto opened = files->open(); !opened) return std::unexpected(opened.error());
  return files;
}

}  // namespace penstock::bowtie
