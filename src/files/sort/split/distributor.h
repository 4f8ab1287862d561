#pragma once

// What a distribution does with the items of its format: which bucket an item belongs to, and how
// it goes to that bucket's block.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/sort/split/block_keeper.h"
#include "files/sort/split/split.h"

namespace penstock::external {

// Whole items of the input, one behind the other, on their way to their buckets.
struct ItemWindow {
  static constexpr size_t items_max = 8192;

  virtual ~ItemWindow() = default;

  const std::byte* begin = nullptr;
  std::vector<size_t> ends;     // of the items, behind `begin`
  bool lacks_line_end = false;  // the last one
  ItemSum sum;                  // of all, when it was looked at
  // Of the item behind them, at which the run ends.
  std::optional<items::RowFault> fault;
  // What the keeper calls it, where it is filled behind its turn.
  std::optional<uint64_t> fill_number;

  const std::byte* end() const { return ends.empty() ? begin : begin + ends.back(); }
};

// A window is found, looked at, put and filled, in this order. Thread safety: find() and put() by one
// thread at a time, for windows in the order of the input; look() and fill() by any, for windows of their
// own.
class Distributor {
 public:
  // `number_bytes`: of an item; 0: no numbers.
  Distributor(const SplitInput& input, uint32_t buckets, size_t number_bytes = 0)
      : keeper({.buckets = buckets,
                .write_blocks = input.plan.write_blocks,
                .expects_to_spill = !input.plan.fits,
                .compresses = input.compresses,
                .number_bytes = number_bytes,
                .written_blocks_max = listed_blocks_max(input.plan)},
               input.place, input.arena) {}
  virtual ~Distributor() = default;

  virtual std::unique_ptr<ItemWindow> new_window() const = 0;
  // Whole items from [at, end): none, where the first one does not end there. `last`: nothing follows `end`.
  virtual void find(const std::byte* at, const std::byte* end, bool last, ItemWindow& window) = 0;
  virtual void look(ItemWindow& window) const = 0;
  virtual void put(ItemWindow& window) = 0;
  // Writes the items to the room that put() has given them, where put() has not written them itself.
  virtual void fill(ItemWindow&) {}
  // Nothing more comes: what buckets' present blocks hold is told to the keeper.
  virtual void close() = 0;
  // What there is to say of a bucket, beside where it lies: its items, what these take that are
  // nowhere, its keys. When it is closed.
  virtual void describe(uint32_t number, SplitBucket& bucket) const = 0;

  BlockKeeper keeper;
  ItemSum read;  // what was put
};

// The samples are of keys.
std::unique_ptr<Distributor> number_distributor(Context& context, const SplitInput& input,
                                                std::vector<uint64_t> sample);
std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample);

}  // namespace penstock::external
