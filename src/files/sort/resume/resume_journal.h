#pragma once

// The steps of a sort that can be resumed, as its journal has them.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "files/sort/bucket.h"
#include "files/sort/resume/journal.h"
#include "io/file.h"
#include "sorting/scatter/bucket_map.h"

namespace penstock::external {

// A bucket between the phases: all of it lies in temporaries that stay, or nowhere, if its items
// are its one key.
struct ResumeBucket {
  scatter::KeyRange keys = {};  // of numbers
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;
  uint32_t part = 0;                  // of the split's temporaries
  ItemSum rest = {};                  // as in SplitBucket
  std::vector<uint32_t> blocks = {};  // their numbers, in the order of the input
  std::vector<uint32_t> checks = {};  // of these (io/block_checks.h)
};

struct ResumeSplit {
  uint32_t number = 0;
  uint32_t parts = 0;
  size_t block_bytes = 0;
  ItemSum read = {};                       // what was split
  std::vector<ResumeBucket> buckets = {};  // in the order of the output
};

// A bucket that stands in the output.
struct ResumeDone {
  BucketId id;
  uint64_t offset = 0;
  Stored stored;
};

struct ResumeInput {
  std::string path;
  io::FileIdentity identity;
  bool operator==(const ResumeInput&) const = default;
};

struct ResumeComplete {
  std::string in_progress;  // its name before it was published
  std::string final_name;
  uint64_t inode = 0;
  Stored stored = {};
};

// What a journal says.
struct ResumeTold {
  static constexpr uint32_t present_version = 5;

  uint32_t version = 0;  // 0: nothing
  std::string purpose;
  std::vector<ResumeInput> inputs;
  std::vector<std::string> folders;
  std::string part;         // the path of the output in progress
  uint64_t part_inode = 0;  // 0: it was not opened so far
  std::map<BucketId, ResumeSplit> splits;
  std::map<BucketId, ResumeDone> done;
  std::optional<ResumeComplete> complete;
  uint64_t output_bytes = 0;
  uint32_t next_split = 0;
};

// Reads entries as far as they make sense together. `end`: behind the last one that counts.
Result<ResumeTold> read_steps(Journal& journal, Journal::Position& end);

// Each appends its entries, and commits. Of what begins there are no steps yet.
Status write_begin(Journal& journal, const ResumeTold& begin);
Status write_output(Journal& journal, uint64_t inode);
// `bucket`: each is asked for once, in order.
Status write_split(Journal& journal, BucketId of, const ResumeSplit& head, uint32_t buckets,
                   const std::function<ResumeBucket(uint32_t)>& bucket);
Status write_done(Journal& journal, std::span<const ResumeDone> done);
Status write_complete(Journal& journal, const ResumeComplete& complete);

}  // namespace penstock::external
