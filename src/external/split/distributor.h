#pragma once

// What a distribution does with the items of its format: which bucket an item belongs to, and how
// it goes to that bucket's block.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "external/split/block_keeper.h"
#include "external/split/split.h"

namespace penstock::external {

// Thread safety: one thread.
class Distributor {
 public:
  Distributor(const SplitInput& input, uint32_t buckets)
      : keeper({.buckets = buckets,
                .write_blocks = input.plan.write_blocks,
                .expects_to_spill = !input.plan.fits,
                .compresses = input.compresses,
                .written_blocks_max = listed_blocks_max(input.plan)},
               input.place, input.arena) {}
  virtual ~Distributor() = default;

  // Takes whole items from [at, end) and says where it stopped. `last`: nothing follows `end`.
  virtual const std::byte* add(const std::byte* at, const std::byte* end, bool last) = 0;
  // Nothing more comes: what buckets' present blocks hold is told to the keeper.
  virtual void close() = 0;
  // What there is to say of a bucket, beside where it lies: its items, what these take that are
  // nowhere, its keys. When it is closed.
  virtual void describe(uint32_t number, SplitBucket& bucket) const = 0;

  BlockKeeper keeper;
  ItemSum read;  // what was added
  // Of the item at which add() has stopped, for good.
  std::optional<record::RowFault> fault;
};

// The samples are of keys.
std::unique_ptr<Distributor> number_distributor(Context& context, const SplitInput& input,
                                                std::vector<uint64_t> sample);
std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample);

}  // namespace penstock::external
