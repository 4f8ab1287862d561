#pragma once

// Fills the table of a group with the items of inputs, or with the partials of a bucket, by one
// thread or several. A full table is spilled: to buckets by hash, or as a sorted extent.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/run_scope.h"
#include "files/bowtie/computations.h"
#include "files/ops/group/group_merge.h"
#include "files/ops/group/group_rounds.h"
#include "files/ops/group/group_table.h"
#include "files/run/odd_items.h"

namespace penstock::files {

// Thread safety: one thread, with those of its crew.
class GroupFill {
 public:
  using Kind = KeyedBatch::Kind;
  struct Options {
    uint64_t memory_bytes = 0;  // for the table and, of several threads, for rounds
    bool sorted = false;        // a full table is spilled as an extent of the merge
    unsigned threads = 1;
    size_t round_items = 0;
    OddItems* odd_items = nullptr;  // nullptr: they are not counted
  };
  // A table that may be spilled, and to which buckets. (No buckets if it becomes an extent.)
  struct Spill {
    bool may_spill = false;
    uint32_t level = 0;
    std::vector<SpillExtent>* buckets = nullptr;
  };

  // REQUIRES: the arguments outlive this.
  GroupFill(GroupLayout& layout, GroupPasses& passes, GroupMerge& merge)
      : layout_(layout), passes_(passes), merge_(merge) {}
  Status open(const Options& options);
  // Frees the memory of rounds; and of everything.
  void close_rounds();
  void close();

  // Begins a new source with an empty table.
  void begin(const Spill& spill);
  // Adds an input; ends early with overflowed(). `name`: that of an input of items.
  Status add(bowtie::Streams& streams, uint32_t input, Kind kind, const std::string& name = {});
  // Writes the whole table to the buckets, or as a sorted extent.
  Status spill(bowtie::Streams& streams);

  // A table that may not be spilled was full.
  bool overflowed() const { return overflowed_; }
  // A full table was spilled.
  bool spilled() const { return spilled_; }
  // The items of inputs that were added since the last reset.
  uint64_t items() const { return items_; }
  // Their fields without a value.
  uint64_t empty_values() const;
  void reset_counts();
  // An item did not fit in the usual window.
  bool has_long_items() const { return has_long_items_; }
  GroupTable& table() { return *table_; }
  const GroupTable& table() const { return *table_; }
  // nullptr: there is one thread.
  Crew* crew() { return crew_ ? &*crew_ : nullptr; }

 private:
  Status add_in_rounds(bowtie::Streams& streams, uint32_t input);
  Status add_batch(const bowtie::BatchReader& reader, Kind kind, bowtie::Streams& streams);
  void note_items(size_t count, const bowtie::Items& items);
  void count_odd_items(const KeyedBatch& batch);
  void begin_round() { progress_.assign(table_->shares(), {}); }
  void count_added();
  void add_share(Round round, size_t share);
  Status settle(Round round, bowtie::Streams& streams);
  Status settle_share(Round round, size_t share, bowtie::Streams& streams);
  Status make_room(bowtie::Streams& streams, size_t item_bytes);
  Status to_bucket(bowtie::Streams& streams, std::string_view partial);

  // The position of a share in the present round.
  struct Progress {
    size_t piece = 0;
    size_t at = 0;       // index in the share's items of the piece
    uint64_t added = 0;  // items added to the table that added_ does not count yet
    Status status;
  };

  GroupLayout& layout_;
  GroupPasses& passes_;
  GroupMerge& merge_;  // for sorted results that do not fit in one table
  bool sorted_ = false;
  std::optional<GroupTable> table_;
  // Only with several threads:
  std::optional<Crew> crew_;
  std::optional<RoundReader> rounds_;
  MemoryCharge rounds_charge_{0};
  std::vector<Progress> progress_;
  std::vector<std::unique_ptr<RoundPiece>> batch_;  // one piece, for items outside of rounds
  Spill spill_;
  bool spilled_ = false;
  bool overflowed_ = false;
  OddItems* odd_items_ = nullptr;
  std::string input_;  // name of the present input
  uint64_t rows_ = 0;  // its items before the present batch
  bool has_long_items_ = false;
  uint64_t items_ = 0;
  uint64_t empty_values_ = 0;  // the number in the table that was closed
  uint64_t added_ = 0;         // items added to the table since it was empty
  uint64_t bypassing_ = 0;     // items that still bypass the table
  std::string scratch_;
};

}  // namespace penstock::files
