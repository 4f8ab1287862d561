#include "files/sort/plan/sort_prediction.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/bits.h"
#include "files/bowtie/model.h"
#include "files/sort/spill/spill.h"
#include "io/emulation.h"
#include "io/file.h"
#include "io/temporaries.h"

// A count of bytes predicts a disk without a switch delay, and is wrong by any factor for a disk
// with one. So this prediction counts requests in the order in which the phases submit them:
//
//   split     A block of the input is requested when one has been consumed; meanwhile about as many
//             bytes of buckets became full, and were written. While nothing is written yet, reads
//             are adjacent. From then on a read seeks (it follows a write), the write after it
//             seeks, and each further write seeks if it goes to another spill file than the one
//             before. If a bucket stays in memory until memory is full (numbers), its blocks are
//             written in one run: after t bytes have been read, M of them kept, 1 - M / t of the
//             buckets are on disk, and M ln(N / M) bytes went there in such runs. If memory holds
//             all that is read, and only its sort takes more, the last buckets are written at the
//             end, each in one run.
//
//   buckets   In a spill file that several buckets share, the blocks of one bucket lie apart, and
//             each costs a seek; in a file of its own they are adjacent. Reader and writer submit a
//             bucket's requests in one batch, as far as their queues hold them; beyond that they
//             alternate, and each request seeks. The order of several writers at several places
//             (texts, on a disk where seeks are free) is unpredictable: a request of one may follow
//             any request of another. The prediction is then the largest number, all requests: the
//             plan only has to tell that it is more than one. If reading and writing take turns
//             (bucket_pipeline.cc), each turn of the writer is a seek, and so is each run of reads.
//
// A test compares the prediction with runs on an emulated device.

namespace penstock::external {

namespace {

// Least switch delay of a disk whose arm moves. A disk without an arm takes microseconds to switch,
// which no order of the requests can save.
constexpr double slow_switch_seconds = 1e-3;

double divided(uint64_t bytes, uint64_t by) {
  return static_cast<double>(bytes) / static_cast<double>(std::max<uint64_t>(1, by));
}

}  // namespace

SortPhase predict_split(const char* name, const SplitTraffic& traffic) {
  SortPhase phase{.name = name,
                  .bytes_read = traffic.input_bytes,
                  .bytes_written = traffic.spilled_bytes,
                  .seeks = traffic.input_files};
  if (traffic.spilled_bytes == 0) return phase;
  if (traffic.input_bytes <= traffic.held_bytes) {
    phase.seeks += ceil_div(traffic.spilled_bytes * traffic.buckets,
                            std::max<uint64_t>(1, traffic.input_bytes));
    return phase;
  }
  double in_one_run = 0;
  if (traffic.kept_bytes > 0 && traffic.kept_bytes < traffic.input_bytes) {
    in_one_run = static_cast<double>(traffic.kept_bytes) *
                 std::log(divided(traffic.input_bytes, traffic.kept_bytes));
    phase.seeks += traffic.buckets;
  }
  const double writes = (static_cast<double>(traffic.spilled_bytes) - in_one_run) /
                            static_cast<double>(traffic.write_block_bytes) +
                        0.5 * traffic.buckets;  // the last block of each bucket is partly filled
  // While blocks are written, as many bytes are read.
  const double reads =
      divided(std::min(traffic.input_bytes, traffic.spilled_bytes), traffic.read_block_bytes);
  const double turns = std::min(reads, writes);
  const double elsewhere = 1 - 1.0 / std::max(1u, traffic.spill_files);
  phase.seeks += static_cast<uint64_t>(2 * turns + (writes - turns) * elsewhere);
  return phase;
}

SortPhase predict_buckets(const char* name, const BucketTraffic& traffic) {
  SortPhase phase{.name = name,
                  .bytes_read = traffic.spilled_bytes,
                  .bytes_written = traffic.output_bytes,
                  .seeks = traffic.spilled_bytes == 0 ? 0u : 1u};
  const double apart = 1 - 1.0 / std::max(1u, traffic.buckets_per_spill_file);
  const double blocks = divided(traffic.spilled_bytes, traffic.spilled_block_bytes);
  const double runs = traffic.spilled_bytes == 0 ? 0 : traffic.buckets + apart * blocks;
  // Share of a bucket that exceeds the queues.
  const double bucket_bytes = divided(traffic.output_bytes, traffic.buckets);
  const double in_turns =
      1 - std::min(1.0, static_cast<double>(traffic.in_flight_bytes) / std::max(1.0, bucket_bytes));
  const double reads = std::max(divided(traffic.spilled_bytes, traffic.request_bytes), runs);
  const double writes = divided(traffic.output_bytes, traffic.request_bytes);
  if (traffic.writers > 1) {
    // A bucket begins and ends inside a block of the output.
    phase.seeks += static_cast<uint64_t>(std::ceil(reads + writes)) + traffic.buckets;
    return phase;
  }
  if (traffic.turn_bytes > 0) {
    const double spilled_buckets =
        std::ceil(divided(traffic.spilled_bytes * traffic.buckets, traffic.output_bytes));
    phase.seeks = static_cast<uint64_t>(std::ceil(
        spilled_buckets + apart * blocks + divided(traffic.output_bytes, traffic.turn_bytes)));
    return phase;
  }
  const double turns = in_turns * std::min(reads, writes);
  // Reads that alternate with writes seek even if they are adjacent.
  phase.seeks += static_cast<uint64_t>(std::max(runs, turns) +
                                       std::max(turns, static_cast<double>(traffic.buckets)));
  return phase;
}

std::optional<bowtie::DeviceProfile> known_device(const SortOptions& options) {
  if (options.device != nullptr) return *options.device;
  const auto emulated = io::emulated();
  if (!emulated) return {};
  return bowtie::DeviceProfile{.name = "emulated",
                               .source = emulated->describe(),
                               .read_bytes_per_s = emulated->read_bytes_per_s,
                               .write_bytes_per_s = emulated->write_bytes_per_s,
                               .switch_seconds = bowtie::SwitchDelay(emulated->switch_seconds)};
}

bool seeks_slowly(const std::optional<bowtie::DeviceProfile>& device) {
  return device && device->switch_seconds.at(1, 1) >= slow_switch_seconds;
}

double seconds_of(const SortPhase& phase, const bowtie::DeviceProfile& device, uint32_t inputs,
                  uint32_t outputs) {
  return bowtie::seconds_of({.read_bytes = static_cast<double>(phase.bytes_read),
                             .written_bytes = static_cast<double>(phase.bytes_written),
                             .switches = static_cast<double>(phase.seeks)},
                            device, inputs, outputs);
}

}  // namespace penstock::external
