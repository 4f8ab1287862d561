#pragma once

// What the phases of a sort will ask of the disk: bytes, and seeks. With a device's speeds and
// switch delay, seconds.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/sort/external_sort.h"

namespace penstock::external {

// A distribution that reads on as blocks fill, and writes each of them when it is full.
struct SplitTraffic {
  uint64_t input_bytes = 0;
  uint32_t input_files = 1;
  uint64_t spilled_bytes = 0;
  uint64_t held_bytes = 0;  // what memory holds before it writes
  uint64_t kept_bytes = 0;  // and in the end
  uint64_t read_block_bytes = 1;
  uint64_t write_block_bytes = 1;
  uint32_t spill_files = 1;  // to whose ends the blocks go
  uint32_t buckets = 1;
};
SortPhase predict_split(const char* name, const SplitTraffic& traffic);

// Then the buckets, read, sorted and written side by side. With several writers its seeks are
// about the most that there can be.
struct BucketTraffic {
  uint64_t output_bytes = 0;
  uint64_t spilled_bytes = 0;
  uint64_t spilled_block_bytes = 1;
  uint32_t buckets = 1;
  uint32_t buckets_per_spill_file = 1;
  uint64_t request_bytes = 1;    // of the output, and of blocks that follow each other
  uint64_t in_flight_bytes = 0;  // of reads, and as many of writes
  // Side by side, each with requests of its own at a place of its own.
  uint32_t writers = 1;
  // Of the output, what is read before it is written, where the disk goes from reading to writing
  // in turns (bucket_pipeline.cc). 0: side by side.
  uint64_t turn_bytes = 0;
};
SortPhase predict_buckets(const char* name, const BucketTraffic& traffic);

// What is known of the disk without a look at it: what the options say, or what is emulated.
std::optional<bowtie::DeviceProfile> known_device(const SortOptions& options);
// Whether it is known to take time to go from one stream to another.
bool seeks_slowly(const std::optional<bowtie::DeviceProfile>& device);

// Equation 1 of the model, with so many streams.
double seconds_of(const SortPhase& phase, const bowtie::DeviceProfile& device, uint32_t inputs,
                  uint32_t outputs);

}  // namespace penstock::external
