#pragma once

// How fast does a disk read and write, and what does it cost to go on to another stream?
//
// Speeds are easy: read and write a large file from one end to the other, in several places, with
// enough requests in flight. The switch delay delta(n, m) is not. Timing single jumps would include
// the disk's latency, which a program with several requests in flight never waits for, and would
// miss the effects of caches, read-ahead and the scheduler on n + m interleaved streams.
//
// So the traffic of a bowtie is run as it is: n inputs and m outputs are visited in turn, L bytes
// at a time, the queue of requests always full, also across the jumps. By equation 2 a byte takes
//
//   y(L) = a + delta / L,      a = alpha / S_r + (1 - alpha) / S_w
//
// seconds, and delta is the slope of y over 1 / L. Everything else that could give a slope is the
// same for all L: the requests have one size (which is therefore the least L), the streams lie at
// the same places, and visits alternate in one order: two inputs, two outputs (one if there is only
// one), so that jumps between reads, between writes and from one to the other all occur, and alpha
// is the same.
//
// Noise. A disk's speed drifts by several per cent within a minute, more than the delay of a fast
// disk at any L. Therefore all patterns are repeated, each repetition in another random order, and
// each has an intercept of its own, so that drift from one repetition to the next is not in the
// slope. Long times vary more than short ones, so residuals are weighted relative to the line. The
// interval contains the delay with 99.5 %: with nine shapes, one disk in twenty would be given one
// delay that it does not have. A delay whose interval contains zero does not count (`significant()`
// is false), and the profile has 0 for it.
//
// Ends. The first requests find an idle disk and the last ones leave an empty queue behind. The
// clock runs from the completion of one run to that of another, both while the queue is full.
//
// Check of the fit: patterns that were not fitted (other n, m and L) are predicted from the
// profile, as a planner would, and measured in the same repetitions.
//
// Invariants: written data cannot be compressed, and no two sectors are alike; data are written
// before they are read; nothing goes through the page cache. Costs: `bytes` of disk space, 16 MiB
// of memory; a minute and some 40 GB written on a disk of 2 GB/s, several minutes on a hard disk.
//
// Limits: streams lie within `bytes`, so jumps are short compared with those over a whole disk.
// Caches that hold a good part of `bytes` hide reads. A virtual machine's disk may be slowed down
// by its neighbours, or by a credit that runs out later.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "io/engine.h"
#include "penstock/base.h"

namespace penstock::bowtie {

// --- The fit. ---

struct DelaySample {
  uint32_t repetition = 0;  // samples that share it share an intercept
  uint64_t run_bytes = 0;   // L
  double seconds_per_byte = 0;
};

struct DelayFit {
  double seconds = 0;  // delta; may come out below zero
  double low_seconds = 0;
  double high_seconds = 0;      // the interval
  double seconds_per_byte = 0;  // a, the mean of the intercepts: cost of an endless run
  double error = 0;             // standard deviation of the samples about the line, relative to it

  bool significant() const { return low_seconds > 0; }
  // The delay for plans: 0 unless it is significant.
  double usable_seconds() const { return significant() ? seconds : 0; }
};

// Fails if the samples leave no degrees of freedom: each repetition has an intercept, and a slope
// and a variance have to be estimated too.
Result<DelayFit> fit_delay(std::span<const DelaySample> samples);

// --- The device. ---

// `visits` runs of n inputs and m outputs, L bytes each.
struct Pattern {
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  uint64_t run_bytes = 0;
  uint64_t visits = 0;

  uint32_t streams() const { return inputs + outputs; }
  // Visits of each side in a row before the other side's turn, and the share of bytes read.
  uint32_t inputs_in_a_row() const { return inputs < 2 ? inputs : 2; }
  uint32_t outputs_in_a_row() const { return outputs < 2 ? outputs : 2; }
  uint32_t period() const { return inputs_in_a_row() + outputs_in_a_row(); }
  double read_share() const { return static_cast<double>(inputs_in_a_row()) / period(); }
};

// A device to measure: the files below, or a test's model of a disk.
class MeasuredDevice {
 public:
  virtual ~MeasuredDevice() = default;
  virtual unsigned zones() const = 0;
  virtual uint64_t zone_bytes() const = 0;
  virtual uint64_t request_bytes() const = 0;
  // The length of each of `streams` streams; no run is longer.
  virtual uint64_t stream_bytes(uint32_t streams) const = 0;
  // Bytes per second of a zone from one end to the other. The first scan of a zone is a write.
  virtual Result<double> scan(unsigned zone, io::Operation operation) = 0;
  // Seconds of the pattern's visits. REQUIRES: two streams or more, visits is a multiple of the
  // period, run_bytes a multiple of request_bytes() and at most stream_bytes(streams).
  virtual Result<double> interleave(const Pattern& pattern) = 0;
};

// --- The measurement. ---

struct MeasurementPlan {
  std::vector<uint32_t> streams = {1, 8, 64};             // every pair of n and m out of these
  std::vector<uint64_t> run_requests = {1, 2, 4, 8, 16};  // L in requests, if it fits
  std::vector<Pattern> checks;                            // run_bytes in requests
  uint32_t repetitions = 6;
  double sample_seconds = 0.12;  // and at least 8 visits
  uint64_t seed = 1;

  static MeasurementPlan full();
  static MeasurementPlan quick();  // fewer streams and repetitions: an estimate, not a profile
};

struct MeasurementProgress {
  const char* phase;     // "fill", "rehearse", "measure"
  uint64_t done_bytes;   // in all phases
  uint64_t total_bytes;  // 0 until it is known
};

struct Measurement {
  struct Zone {
    double first_write_bytes_per_s = 0;  // into reserved space
    double write_bytes_per_s = 0;        // overwriting
    double read_bytes_per_s = 0;
  };
  struct Shape {
    uint32_t inputs = 0;
    uint32_t outputs = 0;
    double read_share = 0;
    DelayFit fit = {};
    std::vector<DelaySample> samples = {};
    // Bytes per second of endless runs, relative to equation 2 with the speeds of reads and writes
    // alone; above 1, the disk reads and writes at once.
    double at_once = 0;
  };
  struct Check {
    Pattern pattern;
    double predicted_bytes_per_s = 0;
    double measured_bytes_per_s = 0;
  };

  std::vector<Zone> zones;
  double read_bytes_per_s = 0;   // all zones' bytes over their time
  double write_bytes_per_s = 0;  // overwriting
  std::vector<Shape> shapes;
  DelayFit together;  // one delay for all shapes
  std::vector<Check> checks;
  double seconds = 0;  // duration of the measurement
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;

  bool any_delay() const;
  // A constant delay of 0 if no shape's delay is significant, otherwise a table.
  DeviceProfile profile(std::string name, std::string source) const;
};

// Errors: those of the device; interrupted when `cancel` is set; invalid_argument if fewer than
// three run lengths fit the device's streams.
Result<Measurement> measure(MeasuredDevice& device, const MeasurementPlan& plan,
                            const std::atomic<bool>* cancel = nullptr,
                            const std::function<void(const MeasurementProgress&)>& progress = {});

// --- Files. ---

struct FileDeviceOptions {
  std::string directory;
  uint64_t bytes = 4 * GiB;
  unsigned zones = 4;  // one file each
  uint64_t request_bytes = 1 * MiB;
  unsigned depth = 16;      // requests in flight; memory: depth * request_bytes
  bool reserve = true;      // reserve the files' space before writing, so that it is contiguous
  bool direct_only = true;  // false: use the page cache if the file system has no direct I/O
  io::EngineKind engine = io::EngineKind::automatic;
  const std::atomic<bool>* cancel = nullptr;
};

// Unnamed files in a directory, deleted with this object or at the process's end.
//
// Thread safety: one thread. Invariants: a zone is written whole before it is scanned or
// interleaved for reading; the buffers hold random words, and every sector that is written has a
// number of its own.
class FileDevice : public MeasuredDevice {
 public:
  // Errors: no directory; out_of_space, before anything is written; unsupported if files cannot be
  // read and written past the page cache.
  static Result<std::unique_ptr<FileDevice>> open(const FileDeviceOptions& options);

  // The place of a zone on the device, once written; nullopt if the file system does not report it.
  struct ZoneExtent {
    uint64_t begin = 0;   // offset on the device
    uint64_t pieces = 0;  // 1: contiguous
  };
  virtual std::optional<ZoneExtent> extent(unsigned zone) const = 0;
};

}  // namespace penstock::bowtie
