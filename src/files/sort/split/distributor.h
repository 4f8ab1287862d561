#pragma once

// Distribution of the items of one format to their buckets' blocks.

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
  std::vector<size_t> ends;     // end of each item, from `begin` on
  bool lacks_line_end = false;  // the last item lacks its line end
  ItemSum sum;                  // sum of all items, set by look()
  // Fault of the row behind the items, which ends the run.
  std::optional<items::ItemFault> fault;
  // The keeper's number of the fill, if the window is filled after its turn.
  std::optional<uint64_t> fill_number;

  // Odd items of a kind (files/run/odd_items.h), set by look(), and the number of the first.
  struct Odd {
    uint32_t items = 0;
    size_t first = 0;
    void add(size_t item) {
      if (items++ == 0) first = item;
    }
  };
  Odd odd_values, odd_lengths;

  std::string_view item(size_t number) const {
    const size_t from = number == 0 ? 0 : ends[number - 1];
    return items::text_at(begin + from, ends[number] - from);
  }
  const std::byte* end() const { return ends.empty() ? begin : begin + ends.back(); }
};

// Distributes windows: find(), look(), put() and fill(), in this order. Thread safety: find() and
// put() in one thread at a time, for windows in the order of the input; look() and fill() in any
// thread, for windows of its own.
class Distributor {
 public:
  // `number_bytes`: size of an item; 0: items are not numbers.
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
  // Finds whole items in [at, end), none if the first does not end there. `last`: the input ends
  // at `end`.
  virtual void find(const std::byte* at, const std::byte* end, bool last, ItemWindow& window) = 0;
  virtual void look(ItemWindow& window) const = 0;
  virtual void put(ItemWindow& window) = 0;
  // Writes the items to the room that put() assigned, unless put() has written them itself.
  virtual void fill(ItemWindow&) {}
  // Closes all buckets in the keeper. No items follow.
  virtual void close() = 0;
  // Fills in everything but the bucket's location: its items, the bytes of those that are not
  // stored, its keys. REQUIRES: close() was called.
  virtual void describe(uint32_t number, SplitBucket& bucket) const = 0;

  BlockKeeper keeper;
  ItemSum read;  // sum of the items that were put
};

// Each takes a sample of keys.
std::unique_ptr<Distributor> number_distributor(Context& context, const SplitInput& input,
                                                std::vector<uint64_t> sample);
std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample);

}  // namespace penstock::external
