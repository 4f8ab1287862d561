#pragma once

// Prediction of a sort's phases: bytes and seeks, and seconds if the device is known.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/sort/external_sort.h"

namespace penstock::external {

// Traffic of a distribution that reads as blocks fill, and writes each block when it is full.
struct SplitTraffic {
  uint64_t input_bytes = 0;
  uint32_t input_files = 1;
  uint64_t spilled_bytes = 0;
  uint64_t held_bytes = 0;  // input bytes that memory holds before it writes
  uint64_t kept_bytes = 0;  // input bytes that stay in memory until the end
  uint64_t read_block_bytes = 1;
  uint64_t write_block_bytes = 1;
  uint32_t spill_files = 1;  // files that the blocks are appended to
  uint32_t buckets = 1;
};
SortPhase predict_split(const char* name, const SplitTraffic& traffic);

// Traffic of the buckets, which are read, sorted and written side by side. With several writers the
// predicted seeks are about the largest possible number.
struct BucketTraffic {
  uint64_t output_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t spilled_block_bytes = 1;
  uint32_t buckets = 1;
  uint32_t buckets_per_spill_file = 1;
  uint64_t request_bytes = 1;    // for the output and for adjacent blocks
  uint64_t in_flight_bytes = 0;  // queued reads, and as many bytes of queued writes
  // Number of writers side by side, each with its own requests and its own place in the output.
  uint32_t writers = 1;
  // Output bytes that are read before they are written, if the disk alternates between reading and
  // writing (bucket_pipeline.cc). 0: reads and writes run side by side.
  uint64_t turn_bytes = 0;
};
SortPhase predict_buckets(const char* name, const BucketTraffic& traffic);

// The device of the options or of the emulation; nullopt if only a measurement could tell.
std::optional<bowtie::DeviceProfile> known_device(const SortOptions& options);
// Whether the device is known to take long to switch between streams.
bool seeks_slowly(const std::optional<bowtie::DeviceProfile>& device);

// Seconds by equation 1 of the model, with this many input and output streams.
double seconds_of(const SortPhase& phase, const bowtie::DeviceProfile& device, uint32_t inputs,
                  uint32_t outputs);

}  // namespace penstock::external
