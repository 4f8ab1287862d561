#include <algorithm>
#include <cstring>

#include "external/distributor.h"
#include "external/splitters.h"
#include "record/items.h"

// Each item is copied to the end of its bucket, read through one plain pointer. A bucket is a string of bytes: an item may begin at the end of one block and end in the next, so
// that no block has a gap. Where a block ends another is asked for, and there the disk is waited
// for (block_keeper.cc). Items of one bucket keep the order of the input, which is what stable
// sorts build on.

namespace penstock::external {
namespace {

// Buckets are numbered in the order of the output.
class StringDistributor final : public Distributor {
 public:
  StringDistributor(Context& context, const SplitInput& input, StringSplitters splitters)
      : Distributor(context, input, splitters.buckets()),
        format_(context.options.format),
        descending_(context.options.descending),
        block_bytes_(input.arena.block_bytes()),
        splitters_(std::move(splitters)),
        ends_(splitters_.buckets()),
        rests_(context.options.unique ? splitters_.buckets() : 0) {}

  // A last line needs no newline of its own and gets one.
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
    return descending_ ? splitters_.buckets() - 1 - bucket : bucket;
  }

  const std::byte* add_records(const std::byte* at, const std::byte* end) {
    const size_t bytes = format_.record_bytes;
    for (; static_cast<size_t>(end - at) >= bytes; at += bytes) {
      const std::string_view item(reinterpret_cast<const char*>(at), bytes);
      append(in_output(splitters_.classify(key_of(format_, item))), item.data(), bytes,
             sum_of_item(format_, item));
    }
    return at;
  }

  const std::byte* add_lines(const std::byte* at, const std::byte* end, bool last) {
    while (at < end) {
      const auto* text = reinterpret_cast<const char*>(at);
      const auto left = static_cast<size_t>(end - at);
      const void* newline = std::memchr(at, '\n', left);
      if (newline == nullptr) {
        if (!last) break;
        const uint32_t bucket = in_output(splitters_.classify({text, left}));
        append(bucket, text, left, sum_of_item(format_, {text, left}));
        append_across(bucket, "\n", 1);
        return end;
      }
      const auto bytes = static_cast<size_t>(static_cast<const char*>(newline) - text);
      append(in_output(splitters_.classify({text, bytes})), text, bytes + 1,
             sum_of_item(format_, {text, bytes}));
      at += bytes + 1;
    }
    return at;
  }

  // `sum`: of the item.
  void append(uint32_t bucket, const char* data, size_t bytes, const ItemSum& sum) {
    End& end = ends_[bucket];
    read += sum;
    if (!rests_.empty() && end.items > 0) rests_[bucket] += sum;
    ++end.items;
    if (bytes <= end.room) {
      std::memcpy(end.at, data, bytes);
      end.at += bytes;
      end.room -= bytes;
      return;
    }
    append_across(bucket, data, bytes);
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
  const bool descending_;
  const size_t block_bytes_;
  const StringSplitters splitters_;
  std::vector<End> ends_;
  // Of a bucket's items without the first; empty: all of them are read again.
  std::vector<ItemSum> rests_;
};

}  // namespace

std::unique_ptr<Distributor> string_distributor(Context& context, const SplitInput& input,
                                                std::vector<std::string> sample) {
  return std::make_unique<StringDistributor>(
      context, input, StringSplitters(std::move(sample), input.plan.buckets));
}

}  // namespace penstock::external
