#include <cstring>

#include "files/run/odd_items.h"
#include "files/sort/split/bucket_ends.h"
#include "files/sort/split/distributor.h"
#include "files/sort/split/splitters.h"
#include "files/sort/split/text_window.h"
#include "items/items.h"

// Most of the cost is to look up an item's bucket and to sum the item up, which all threads do
// window by window. A window is then given room at the ends of its buckets in turn, as much as it
// has for each, so that items of one bucket keep the order of the input, which stable sorts need.
// The items are copied there beside other windows (text_window.h). A turn takes 1.4 us for a window
// of 5,500 lines, beside the writes that begin in it. Copying in turn took 40 ns a line, and more
// than four threads did not help.
//
// A bucket is a string of bytes: an item may begin at the end of one block and end in the next, so
// that no block has a gap. A window waits for the disk when it needs another block
// (block_keeper.cc). An input may visit all buckets round and round, so that their blocks fill at
// the same time: if a window then needs more blocks than there are (BlockKeeper::can_provide), its
// items are copied in turn, each to a block that is free by then. A single thread always copies so.

namespace penstock::external {
namespace {

// Buckets are numbered in the order of the output.
class StringDistributor final : public Distributor {
 public:
  StringDistributor(Context& context, const SplitInput& input, items::Cuts cuts)
      : Distributor(input, cuts.parts()),
        format_(context.options.format),
        order_(context.options.order()),
        unique_(context.options.unique),
        alone_(input.plan.split_threads == 1),
        counts_odd_(context.options.odd_items != nullptr && input.pieces.front().is_given),
        cuts_(std::move(cuts)),
        ends_(keeper, cuts_.parts(), input.arena.block_bytes()),
        items_(cuts_.parts()),
        rests_(cuts_.parts()) {
    for (uint32_t bucket = 0; bucket < cuts_.parts(); ++bucket)
      constant_.push_back(cuts_.holds_one_key(in_output(bucket)));
  }

  std::unique_ptr<ItemWindow> new_window() const override {
    return std::make_unique<TextWindow>(cuts_.parts(), format_.line_end);
  }

  void find(const std::byte* at, const std::byte* end, bool last, ItemWindow& window) override {
    window.begin = at;
    window.lacks_line_end = false;
    window.ends.resize(ItemWindow::items_max);
    window.ends.resize(
        items::find_item_ends(format_, at, end, window.ends.data(), window.ends.size()));
    const auto bytes = static_cast<size_t>(end - at);
    // A last line without an end gets one. The rest of an unfinished row is a fault.
    if (!format_.fixed() && last && bytes > 0 && window.ends.empty()) {
      window.ends.push_back(bytes);
      window.lacks_line_end = format_.has_line_ends();
    }
  }

  void look(ItemWindow& window) const override {
    TextWindow& texts = this->texts(window);
    texts.clear();
    for (size_t i = 0; i < texts.ends.size(); ++i) {
      const std::string_view item = texts.item(i);
      bool is_read = true, is_even = true;
      const std::string_view key =
          order_.checked_key(item, texts.key, is_read, is_even, texts.fault);
      if (texts.fault) return texts.ends.resize(i);
      const uint32_t number = cuts_.part_of(key);
      if (!is_even && counts_odd_) texts.odd_lengths.add(i);
      if (!is_read && counts_odd_ && files::is_odd(files::OddKind::value, format_, item))
        texts.odd_values.add(i);
      texts.add(in_output(number), sum_of_item(format_, item));
    }
  }

  void put(ItemWindow& window) override {
    TextWindow& texts = this->texts(window);
    uint64_t blocks = 0;
    for (const uint32_t bucket : texts.buckets()) {
      leave_out_repeats(texts, bucket);
      items_[bucket] += texts.share_of(bucket).items;
      blocks += ends_.blocks_for(bucket, texts.share_of(bucket).bytes);
    }
    read += window.sum;
    window.fill_number.reset();
    if (alone_ || !keeper.can_provide(blocks)) return copy(texts);
    keeper.provide(blocks);
    window.fill_number = keeper.begin_fill();
    for (const uint32_t bucket : texts.buckets()) {
      ends_.allocate(bucket, texts.share_of(bucket).bytes,
                     [&](std::byte* from, std::byte* to) { texts.add_room(bucket, from, to); });
    }
  }

  void fill(ItemWindow& window) override {
    if (!window.fill_number) return;
    texts(window).fill();
    keeper.end_fill(*window.fill_number);
  }

  void close() override { ends_.close(); }

  void describe(uint32_t number, SplitBucket& bucket) const override {
    bucket.items = items_[number];
    bucket.constant = constant_[number];
    bucket.rest = rests_[number];
  }

 private:
  static TextWindow& texts(ItemWindow& window) { return static_cast<TextWindow&>(window); }

  // The bucket's number in the output of its number in ascending order.
  uint32_t in_output(uint32_t bucket) const {
    return order_.descending() ? cuts_.parts() - 1 - bucket : bucket;
  }

  // Updates the sum of a constant bucket (SplitBucket::rest), and drops its repeats if `unique_`.
  void leave_out_repeats(TextWindow& texts, uint32_t bucket) {
    if (!constant_[bucket]) return;
    const TextWindow::BucketShare& share = texts.share_of(bucket);
    if (!unique_) {
      if (!format_.equal_keys_are_equally_long()) rests_[bucket] += share.sum;
      return;
    }
    const bool has_first = items_[bucket] > 0;
    rests_[bucket] +=
        has_first ? share.sum : share.sum - sum_of_item(format_, texts.item(share.first));
    texts.keep_first(bucket, !has_first);
  }

  // Copies the items in the window's turn.
  void copy(TextWindow& texts) {
    texts.for_each_kept([this](uint32_t bucket, std::string_view bytes) {
      ends_.allocate(bucket, bytes.size(), [&](std::byte* from, std::byte* to) {
        const auto here = static_cast<size_t>(to - from);
        std::memcpy(from, bytes.data(), here);
        bytes.remove_prefix(here);
      });
    });
  }

  const items::Format& format_;
  const items::ItemOrder order_;
  const bool unique_;
  const bool alone_;       // no other thread distributes
  const bool counts_odd_;  // items of windows
  const items::Cuts cuts_;
  BucketEnds ends_;
  std::vector<uint64_t> items_;  // number of items in each bucket
  std::vector<bool> constant_;   // whether all keys of a bucket are equal
  std::vector<ItemSum> rests_;   // SplitBucket::rest of each bucket
};

}  // namespace

std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample) {
  return std::make_unique<StringDistributor>(
      context, input, text_cuts(context.options.format, std::move(sample), input.plan.buckets));
}

}  // namespace penstock::external
