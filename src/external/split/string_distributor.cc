#include <algorithm>
#include <cstring>

#include "external/split/distributor.h"
#include "external/split/splitters.h"
#include "record/items.h"
#include "record/line_ends.h"

// Each item is copied to the end of its bucket, read through one plain pointer. A bucket is a string
// of bytes: an item may begin at the end of one block and end in the next, so that no block has a gap.
// Where a block ends another is asked for, and there the disk is waited for (block_keeper.cc). Items of
// one bucket keep the order of the input, which is what stable sorts build on.
//
// Which bucket an item belongs to, and what it adds to the sum, costs most: that is looked up window by
// window, by all threads. Items are put to their buckets in turn.

namespace penstock::external {
namespace {

// Buckets are numbered in the order of the output.
class StringDistributor final : public Distributor {
 public:
  StringDistributor(Context& context, const SplitInput& input, StringSplitters splitters)
      : Distributor(input, splitters.buckets()),
        format_(context.options.format),
        order_(context.options.order()),
        unique_(context.options.unique),
        uneven_(!format_.equal_keys_are_equally_long()),
        block_bytes_(input.arena.block_bytes()),
        splitters_(std::move(splitters)),
        ends_(splitters_.buckets()),
        rests_(unique_ || uneven_ ? splitters_.buckets() : 0) {}

  void find(const std::byte* at, const std::byte* end, bool last, ItemWindow& window) override {
    window.begin = at;
    window.lacks_line_end = false;
    window.ends.resize(ItemWindow::items_max);
    window.ends.resize(find_ends(at, end, window.ends));
    const auto bytes = static_cast<size_t>(end - at);
    // A last line needs no end of its own and gets one. What is left of a row is its fault.
    if (!format_.fixed() && last && bytes > 0 && window.ends.empty()) {
      window.ends.push_back(bytes);
      window.lacks_line_end = format_.lines();
    }
  }

  void look(ItemWindow& window) const override {
    window.buckets.clear();
    window.sums.clear();
    window.sum = {};
    window.fault.reset();
    size_t begin = 0;
    for (size_t i = 0; i < window.ends.size(); begin = window.ends[i++]) {
      const std::string_view item = record::text_at(window.begin + begin, window.ends[i] - begin);
      window.fault = fault_of(format_, item);
      if (window.fault) return window.ends.resize(i);
      window.buckets.push_back(splitters_.classify(order_.key(item, window.key)));
      const ItemSum sum = sum_of_item(format_, item);
      window.sum += sum;
      if (!rests_.empty()) window.sums.push_back(sum);
    }
  }

  void put(ItemWindow& window) override {
    const std::byte* item = window.begin;
    for (size_t i = 0; i < window.ends.size(); ++i) {
      const std::byte* next = window.begin + window.ends[i];
      put_item(window, i, record::text_at(item, static_cast<size_t>(next - item)));
      item = next;
    }
    read += window.sum;
  }

  void close() override {
    for (uint32_t bucket = 0; bucket < ends_.size(); ++bucket) {
      if (keeper.has_block(bucket)) keeper.close(bucket, block_bytes_ - ends_[bucket].room);
    }
  }

  void describe(uint32_t number, SplitBucket& bucket) const override {
    bucket.items = ends_[number].items;
    bucket.constant = splitters_.constant(in_output(number));
    if (!rests_.empty()) bucket.rest = rests_[number];
  }

 private:
  struct End {
    std::byte* at = nullptr;
    size_t room = 0;
    uint64_t items = 0;
  };

  // The number in the output of one among all in ascending order, or the other way round.
  uint32_t in_output(uint32_t bucket) const {
    return order_.descending() ? splitters_.buckets() - 1 - bucket : bucket;
  }

  // How many items end in [at, end), and where.
  size_t find_ends(const std::byte* at, const std::byte* end, std::vector<size_t>& ends) const {
    if (format_.lines() && !format_.csv)
      return record::find_line_ends(at, end, format_.line_end, ends.data(), ends.size());
    size_t found = 0;
    for (size_t offset = 0; found < ends.size(); ends[found++] = offset) {
      const size_t bytes = record::item_bytes_at(format_, at + offset, end);
      if (bytes == 0) break;
      offset += bytes;
    }
    return found;
  }

  // To its bucket, unless it is not needed any more.
  void put_item(const ItemWindow& window, size_t i, std::string_view item) {
    const uint32_t number = window.buckets[i];
    const uint32_t bucket = in_output(number);
    End& end = ends_[bucket];
    const bool uneven = uneven_ && splitters_.constant(number);
    if (!rests_.empty() && (end.items > 0 || (uneven && !unique_)))
      rests_[bucket] += window.sums[i];
    if (uneven && unique_ && end.items > 0) return;
    ++end.items;
    if (item.size() > end.room) {
      append_across(bucket, item.data(), item.size());
    } else {
      std::memcpy(end.at, item.data(), item.size());
      end.at += item.size();
      end.room -= item.size();
    }
    if (window.lacks_line_end && i + 1 == window.ends.size())
      append_across(bucket, &format_.line_end, 1);
  }

  // The item that was appended last goes on.
  void append_across(uint32_t bucket, const char* data, size_t bytes) {
    End& end = ends_[bucket];
    while (bytes > 0) {
      if (end.room == 0) {
        end.at = keeper.next_block(bucket);
        end.room = block_bytes_;
      }
      const size_t piece = std::min(bytes, end.room);
      std::memcpy(end.at, data, piece);
      data += piece;
      bytes -= piece;
      end.at += piece;
      end.room -= piece;
    }
  }

  const record::Format& format_;
  const record::ItemOrder order_;
  const bool unique_;
  const bool uneven_;  // buckets of one key hold items of several lengths
  const size_t block_bytes_;
  const StringSplitters splitters_;
  std::vector<End> ends_;
  // As SplitBucket::rest; empty: all items are read again.
  std::vector<ItemSum> rests_;
};

}  // namespace

std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample) {
  return std::make_unique<StringDistributor>(
      context, input, StringSplitters(std::move(sample), input.plan.buckets));
}

}  // namespace penstock::external
