#pragma once

// Steps of a sort that can be resumed, as its journal records them.

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

// A bucket between the phases: it lies in temporaries that stay, or nowhere if its items are its
// one key.
struct ResumeBucket {
  scatter::KeyRange keys = {};  // range of the keys, of numbers
  uint64_t bytes = 0;
  uint64_t items = 0;
  bool constant = false;
  uint32_t part = 0;                  // its part of the split's temporaries
  ItemSum rest = {};                  // SplitBucket::rest
  std::vector<uint32_t> blocks = {};  // numbers, in the order of the input
  std::vector<uint32_t> checks = {};  // checks of the blocks (io/block_checks.h)
};

struct ResumeSplit {
  uint32_t number = 0;
  uint32_t parts = 0;
  size_t block_bytes = 0;
  ItemSum read = {};                       // sum of the distributed items
  std::vector<ResumeBucket> buckets = {};  // in the order of the output
};

// A bucket that is stored in the output.
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

// State that a journal describes.
struct ResumeState {
  static constexpr uint32_t present_version = 5;

  uint32_t version = 0;  // 0: the journal is empty
  std::string purpose;
  std::vector<ResumeInput> inputs;
  std::vector<std::string> folders;
  std::string part;         // path of the output in progress
  uint64_t part_inode = 0;  // 0: not opened so far
  std::map<BucketId, ResumeSplit> splits;
  std::map<BucketId, ResumeDone> done;
  std::optional<ResumeComplete> complete;
  uint64_t output_bytes = 0;
  uint32_t next_split = 0;
};

// Reads entries as far as they are consistent. `end`: position behind the last valid one.
Result<ResumeState> read_steps(Journal& journal, Journal::Position& end);

// Each appends its entries, and commits. `begin` has no steps.
Status write_begin(Journal& journal, const ResumeState& begin);
Status write_output(Journal& journal, uint64_t inode);
// Calls `bucket` once for each bucket, in order.
Status write_split(Journal& journal, BucketId of, const ResumeSplit& head, uint32_t buckets,
                   const std::function<ResumeBucket(uint32_t)>& bucket);
Status write_done(Journal& journal, std::span<const ResumeDone> done);
Status write_complete(Journal& journal, const ResumeComplete& complete);

}  // namespace penstock::external
