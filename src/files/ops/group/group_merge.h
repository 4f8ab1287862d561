#pragma once

// Sorted groups that do not fit in one table: each full table is written as a sorted extent of a
// temporary, and a merge of the extents combines the partials of each key.

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

// An extent of a temporary with the partials of a bucket, or of a full table.
struct SpillExtent {
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
  // `reads_rounds`: windows of an input may span blocks. REQUIRES: `run` and `layout` outlive this.
  GroupPasses(FileRun& run, const GroupLayout& layout, bool reads_rounds);

  FileRun& run() { return run_; }
  struct Options {
    uint64_t memory_bytes = 0;
    bool inputs_in_turn = true;
    const char* phase = "group";
  };
  Status pass(const std::vector<bowtie::Input>& inputs, std::vector<bowtie::Output> outputs,
              const bowtie::Computation& computation, const Options& options);
  // Creates a temporary.
  Result<std::shared_ptr<io::File>> temporary();

  // Notes a partial that the streams of later passes have to hold.
  void note(std::string_view partial) {
    longest_partial_bytes_ = std::max<uint64_t>(longest_partial_bytes_, partial.size());
  }
  // The error of a run without room for the longest partial, which has its item at most twice.
  std::unexpected<Error> no_room() const {
    return items::too_long(run_.format(), longest_partial_bytes_ / 2, "group");
  }
  // The most streams of a pass that can still read the longest partial. (The more streams, the
  // shorter an item may be.)
  uint32_t streams_max(uint64_t memory_bytes) const;
  // The longest partial that a pass of so many streams with all memory can read.
  uint64_t item_bytes_max(uint32_t streams) const;

 private:
  FileRun& run_;
  const PassItems items_;  // items, partials and results
  uint64_t longest_partial_bytes_ = 0;
};

// The partial in a row of GroupMerge::add_by_position().
inline std::string_view partial_behind(std::string_view row) {
  return row.substr(RowHead::bytes + RowHead::at(row.data()).key_bytes);
}

// The extents and their merge. Thread safety: one thread.
class GroupMerge {
 public:
  GroupMerge(GroupPasses& passes, const GroupLayout& layout) : passes_(passes), layout_(layout) {}

  // Opens the temporary of the extents.
  Status open();
  // The output of a pass that adds extents behind the present ones.
  bowtie::Output output() const;
  // Sorts the table and writes it to that output, which must be the first of the pass. Errors:
  // out_of_memory if the pass or a merge cannot hold a group.
  Status add(GroupTable& table, bowtie::Streams& streams);

  // Appends the table, whose partials come by position, as an extent of rows: the key of each is the
  // position, its payload the partial.
  Status add_by_position(GroupTable& table, bowtie::OutputStream& output);

  size_t extents() const { return extents_.size(); }
  // Merges all extents; calls write(output, partial) for each group, in order, then end(output).
  // Returns the number of levels. REQUIRES: there are extents, and the memory of the table is free.
  using Write = std::function<Status(bowtie::OutputStream& output, std::string_view partial)>;
  using End = std::function<Status(bowtie::OutputStream& output)>;
  Result<uint32_t> merge(const bowtie::Output& output, const Write& write, const End& end);

 private:
  Status append(bowtie::OutputStream& output, std::string_view partial);
  Result<std::vector<SpillExtent>> merge_level(size_t fan_in);
  Status merge_some(std::span<const SpillExtent> some, const bowtie::Output& output,
                    const Write& write, const End& end);
  Status merge_streams(bowtie::Streams& streams, const Write& write) const;

  GroupPasses& passes_;
  const GroupLayout& layout_;
  std::shared_ptr<io::File> file_;
  std::vector<SpillExtent> extents_;
  uint64_t mergeable_bytes_ = 0;  // the longest partial that a merge can hold
};

}  // namespace penstock::files
