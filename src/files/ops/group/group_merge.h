#pragma once

// Sorted groups that do not fit in one table: each table that is full becomes a sorted stretch of a temporary, and the
// stretches are merged, which combines the partials of a key.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "files/ops/group/group_table.h"
#include "files/run/file_run.h"

namespace penstock::files {

// A stretch of a file with partials.
struct Stretch {
  std::shared_ptr<io::File> file;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint64_t partials = 0;

  uint64_t end() const { return offset + bytes; }
  bowtie::Input input() const { return {.file = file.get(), .offset = offset, .bytes = bytes}; }
};

// The passes of a run over items and partials. Thread safety: one thread.
class GroupPasses {
 public:
  // REQUIRES: both outlive this.
  GroupPasses(FileRun& run, const GroupLayout& layout);

  FileRun& run() { return run_; }
  struct Options {
    uint64_t memory_bytes = 0;
    bool inputs_in_turn = true;
    const char* phase = "group";
  };
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation, const Options& options);
  // A new temporary.
  Result<std::shared_ptr<io::File>> temporary();

  // The streams of later passes need to hold this partial.
  void note(std::string_view partial) {
    longest_partial_bytes_ = std::max<uint64_t>(longest_partial_bytes_, partial.size());
  }
  // The most streams of a pass that can still read the longest partial back. The more streams, the shorter an item may be.
  uint32_t streams_max(uint64_t memory_bytes) const;
  // The longest partial of a pass of so many streams that has all memory.
  uint64_t item_bytes_max(uint32_t streams) const;

 private:
  FileRun& run_;
  const items::Format format_;  // the widest
  uint64_t longest_partial_bytes_ = 0;
};

// The stretches and their merge. Thread safety: one thread.
class GroupMerge {
 public:
  GroupMerge(GroupPasses& passes, const GroupLayout& layout) : passes_(passes), layout_(layout) {}

  // Opens the temporary of the stretches.
  Status open();
  // The output of a pass that adds stretches, behind those that are there.
  bowtie::Output output() const;
  // Sorts the table, and writes it to that output, the pass's first. Errors: out_of_memory, where neither the pass nor a merge
  // could hold a group.
  Status add(GroupTable& table, bowtie::Streams& streams);

  size_t stretches() const { return stretches_.size(); }
  // Merges all stretches; calls write(output, partial) for each group, in order. Returns the number of levels.
  // REQUIRES: there are stretches, and the memory of the tables is free.
  using Write = std::function<Status(bowtie::OutputStream& output, std::string_view partial)>;
  Result<uint32_t> merge(const bowtie::Output& output, const Write& write);

 private:
  Status append(bowtie::OutputStream& output, std::string_view partial);
  Result<std::vector<Stretch>> merge_level(size_t fan_in);
  Status merge_some(std::span<const Stretch> some, const bowtie::Output& output,
                    const Write& write);
  Status merge_streams(bowtie::Streams& streams, const Write& write) const;

  GroupPasses& passes_;
  const GroupLayout& layout_;
  std::shared_ptr<io::File> file_;
  std::vector<Stretch> stretches_;
  uint64_t mergeable_bytes_ = 0;  // of the longest partial that a merge can hold
};

}  // namespace penstock::files
