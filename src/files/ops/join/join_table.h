#pragma once

// The join of lines in memory: a table has a list of items for each key, of all sides, and its keys
// are sorted. So no side is sorted, and no temporary is written. Rows of a side that cannot be in
// the output, because of the sides that were read before it, are not kept; smaller sides are read
// first. So a side that is much larger than the others may fit if few of its rows have partners: it
// is read until its rows are seen to be too many.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/ops/group/group_rounds.h"
#include "files/ops/group/group_table.h"
#include "files/ops/join/join_lines.h"
#include "files/ops/join/join_sides.h"
#include "files/ops/merge/merge_files.h"
#include "files/run/file_run.h"

namespace penstock::files {

// Thread safety: one thread, with those of its crew.
class JoinTable {
 public:
  // `formats`: the orders of the sides; `beginnings`: their first items. REQUIRES: the arguments
  // outlive this; `run` has been started with the formats and with headers of its own.
  JoinTable(const JoinLinesOptions& options, const std::vector<items::Format>& formats,
            const std::vector<ItemsMeasure>& beginnings, FileRun& run);

  // Reads all sides. Returns false if they do not fit, or are so large that it is not tried.
  Result<bool> read();
  // Writes the rows in the order of their keys, and ends the writer. REQUIRES: read() returned true.
  Status write(JoinWriter& writer);
  // The beginnings of the sides. REQUIRES: as write().
  std::vector<SideHead> heads() const;
  // The memory of a pass beside the table.
  uint64_t pass_bytes() const { return pass_bytes_; }

 private:
  struct Side {
    items::Format format;
    std::optional<uint32_t> input;  // the number of its input in the run
    uint64_t bytes = 0;
    // The first item: of the file if it is one of CSV, otherwise in the order of the keys; empty if
    // there is none.
    std::string first;
  };
  // The item with the least key.
  struct Least {
    std::string key;
    std::string item;
  };
  Status prepare();
  Result<bool> open_table();
  KeptSide kept_side(size_t number) const;
  Status read_side(bowtie::Streams& streams, uint32_t input, size_t number);
  void note_least(const KeyedBatch& batch, size_t share);
  void add_share(Round round, size_t share);
  Status write_rows(size_t side, JoinWriter& writer);

  const JoinLinesOptions& options_;
  const std::vector<items::Format>& formats_;
  const std::vector<ItemsMeasure>& beginnings_;
  FileRun& run_;
  const uint64_t pass_bytes_;
  std::vector<Side> sides_;
  std::vector<size_t> order_;  // sides as they are read
  std::optional<GroupTable> table_;
  std::optional<Crew> crew_;
  MemoryCharge rounds_charge_{0};
  std::vector<char> is_full_;  // one for each share
  // The least items of the side that is read, one for each share.
  std::vector<std::optional<Least>> least_;
  bool tries_last_ = false;  // the last side fits only if few of its items are kept
  // The places of the first items of a key, one for each side; 0: there is none.
  std::vector<uint32_t> firsts_;
  std::vector<std::optional<std::string_view>> row_;
};

}  // namespace penstock::files
