#pragma once

// Reads the items of an input in rounds by several threads: they add the items of one round to the
// shares of a table while they find the items and keys of the next one.
//
// The bytes of a round are cut into pieces at line ends. A line end may lie in quotes, so that a
// cut is only a guess; but a piece whose predecessor ends exactly at the cut begins with an item,
// as the first one does. Pieces behind a wrong cut are read again in the next round, and some
// rounds have one piece.
//
// A task is one share to add, or one piece to read. The threads take tasks as they come, the adding
// first, because a share with frequent keys takes longest. So they meet once a round, and the
// reading evens out what shares are uneven.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "files/bowtie/computations.h"
#include "files/ops/group/group_table.h"
#include "items/rows.h"

namespace penstock::files {

// Threads that repeatedly carry out tasks together with the calling thread.
//
// Thread safety: one thread.
class Crew {
 public:
  // Starts `threads` - 1 threads, or fewer if the system has no more.
  explicit Crew(unsigned threads);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  // Calls task(0) to task(count - 1), each on one of the threads, and returns when all are done.
  // Errors: that of the first task, by number, that failed.
  using Task = std::function<Status(size_t)>;
  Status carry_out(size_t count, const Task& task) {
    begin(count, task);
    return finish();
  }
  // carry_out() in two steps: the caller may do other work between them. REQUIRES: finish() follows
  // begin().
  void begin(size_t count, Task task);
  Status finish();

 private:
  void work() EXCLUDES_LOCK(mutex_);
  // Carries out tasks until none is left to begin.
  void work_off() REQUIRES_LOCK(mutex_);

  Mutex mutex_;
  Condition begun_;
  Condition done_;
  Task task_;  // changes only while no task is begun
  size_t count_ GUARDED_BY(mutex_) = 0;
  size_t next_ GUARDED_BY(mutex_) = 0;
  size_t running_ GUARDED_BY(mutex_) = 0;
  std::optional<std::pair<size_t, Error>> error_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;
};

// Consecutive items of a round, read by one thread. Thread safety: one thread at a time.
class RoundPiece {
 public:
  RoundPiece(const GroupLayout& layout, size_t shares, size_t items_max);

  // Finds the items in [begin, end), of which the first begins at `begin`, and their keys.
  void read(const GroupLayout& layout, const std::byte* begin, const std::byte* end);
  // Makes the piece of other items, from number `first` on, and returns the number of keys that
  // were made.
  size_t assign(const GroupLayout& layout, const bowtie::Items& items, size_t first,
                KeyedBatch::Kind kind) {
    count_ = batch_.assign(layout, items, first, kind);
    return count_;
  }
  void clear();
  void free_texts() { batch_.free_texts(); }

  const KeyedBatch& batch() const { return batch_; }
  size_t items() const { return count_; }
  // The end of the last item.
  const std::byte* read_end() const { return read_end_; }
  // Memory that a piece takes for each item.
  static uint64_t item_bytes(const GroupLayout& layout, size_t shares);

 private:
  const size_t items_max_;
  std::optional<items::RowIndex> rows_;  // only for CSV
  std::vector<std::string_view> lines_;
  KeyedBatch batch_;
  size_t count_ = 0;
  const std::byte* read_end_ = nullptr;
};

// The pieces of a round in the order of the input.
using Round = std::span<const std::unique_ptr<RoundPiece>>;

// Thread safety: one thread, with those of the crew.
class RoundReader {
 public:
  // The consumer of rounds. begin() is called first, then add(share) for each share on any thread,
  // then settle(), which returns false to end the reading.
  struct Use {
    std::function<void(Round round)> begin;
    std::function<void(Round round, size_t share)> add;
    std::function<Result<bool>(Round round)> settle;
  };

  // `items_max`: the most items of a piece.
  RoundReader(const GroupLayout& layout, Crew& crew, size_t pieces, size_t shares,
              size_t items_max);

  // Reads rounds until the input ends, or the next item has no end in a round, or breaks the rules
  // of the format. Returns the number of items.
  Result<uint64_t> read(bowtie::Streams& streams, uint32_t input, const Use& use);
  // Reads the input to its end: in rounds, and single batches where no round is possible, at the
  // last row of an input, a row longer than a piece, or a row with a fault. add_batch() returns false
  // to end the reading.
  Status read_all(bowtie::Streams& streams, uint32_t input, const Use& use,
                  const std::function<Result<bool>(const bowtie::BatchReader&)>& add_batch);
  static uint64_t memory_bytes(const GroupLayout& layout, size_t pieces, size_t shares,
                               size_t items_max) {
    return 2 * pieces * items_max * RoundPiece::item_bytes(layout, shares);
  }

 private:
  struct Pieces {
    std::vector<std::unique_ptr<RoundPiece>> round;
    size_t count = 0;  // pieces in use
    size_t bytes = 0;
    uint64_t items = 0;
    Round used() const { return {round.data(), count}; }
  };
  // Cuts `text` where items seem to begin. Returns the beginnings of the pieces and the end of the
  // last.
  std::vector<const std::byte*> cuts_of(std::span<const std::byte> text) const;
  // Keeps the pieces up to the first that does not begin at the end of its predecessor.
  void keep_those_that_follow(Pieces& next, std::span<const std::byte* const> cuts);

  const GroupLayout& layout_;
  Crew& crew_;
  const size_t shares_;
  const size_t items_max_;
  Pieces present_, next_;
  double item_bytes_ = 0;   // mean bytes of an item in the last round
  unsigned undivided_ = 0;  // remaining rounds of one piece after a wrong cut
};

}  // namespace penstock::files
