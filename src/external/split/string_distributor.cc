#include <algorithm>
#include <cstring>
#include <optional>

#include "external/split/distributor.h"
#include "external/split/splitters.h"
#include "record/items.h"

// Each item is copied to the end of its bucket, read through one plain pointer. A bucket is a string
// of bytes: an item may begin at the end of one block and end in the next, so that no block has a gap. Where a block ends another is asked for, and there the disk is waited
// for (block_keeper.cc). Items of one bucket keep the order of the input, which is what stable
// sorts build on.

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

  // A last line needs no end of its own and gets one.
  const std::byte* add(const std::byte* at, const std::byte* end, bool last) override {
    return format_.fixed() ? add_records(at, end) : add_lines(at, end, last);
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

  const std::byte* add_records(const std::byte* at, const std::byte* end) {
    const size_t bytes = format_.record_bytes;
    for (; static_cast<size_t>(end - at) >= bytes; at += bytes)
      add_item(record::text_at(at, bytes));
    return at;
  }

  const std::byte* add_lines(const std::byte* at, const std::byte* end, bool last) {
    while (const size_t bytes = record::item_bytes_at(format_, at, end)) {
      const std::string_view line = record::text_at(at, bytes);
      fault = fault_of(format_, line);
      if (fault) return at;
      add_item(line);
      at += bytes;
    }
    if (!last || at == end) return at;
    const std::string_view rest = record::text_at(at, static_cast<size_t>(end - at));
    fault = fault_of(format_, rest);
    if (fault) return at;
    const std::optional<uint32_t> bucket = add_item(rest);
    if (bucket) append_across(*bucket, &format_.line_end, 1);
    return end;
  }

  // To its bucket; nothing if it is not needed any more.
  std::optional<uint32_t> add_item(std::string_view item) {
    const uint32_t number = splitters_.classify(order_.key(item, room_));
    const uint32_t bucket = in_output(number);
    End& end = ends_[bucket];
    const ItemSum sum = sum_of_item(format_, item);
    read += sum;
    const bool uneven = uneven_ && splitters_.constant(number);
    if (!rests_.empty() && (end.items > 0 || (uneven && !unique_))) rests_[bucket] += sum;
    if (uneven && unique_ && end.items > 0) return {};
    ++end.items;
    if (item.size() > end.room) {
      append_across(bucket, item.data(), item.size());
      return bucket;
    }
    std::memcpy(end.at, item.data(), item.size());
    end.at += item.size();
    end.room -= item.size();
    return bucket;
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
  std::string room_;  // of a key
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
