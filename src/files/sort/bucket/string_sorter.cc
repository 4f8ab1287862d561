#include <algorithm>
#include <cstring>
#include <vector>

#include "base/bits.h"
#include "base/check.h"
#include "files/sort/bucket/bucket_sorter.h"
#include "files/sort/bucket/item_pairs.h"
#include "items/items.h"

// Records and lines are not moved while they are sorted: only their pairs are (item_pairs.cc),
// which lie behind them. Sorted items are copied once, from their region to the output's blocks.
//
//   region   | the items as they came ................ | their pairs ....... |
//
// Buckets of one key are not sorted, but copied to the output, piece by piece.

namespace penstock::external {
namespace {

// Distance in items between an item's prefetch and its copy.
constexpr size_t prefetch_items = 12;
// Items and bytes between two checks whether the run has ended.
constexpr size_t items_per_pulse = 16384;
constexpr uint64_t copied_bytes_per_pulse = 1 * MiB;

class StringSorter final : public BucketSorter {
 public:
  StringSorter(Context& context, const PipelineInput& input)
      : context_(context),
        format_(context.options.format),
        order_(context.options.order()),
        input_(input) {}

  Status sort(BucketJob& job) override {
    if (auto status = restore_blocks(job, format_, input_.spills, compressed_); !status)
      return status;
    if (job.kind != BucketJob::Kind::sort) return {};
    return sort_pairs(context_.options, items_of(job), pairs_of(job), input_.plan.sorter_threads);
  }

  Status emit(BucketJob& job, OutputBlocks& output) override {
    return job.kind == BucketJob::Kind::sort ? gather(job, output) : copy(job, output);
  }

  std::span<std::byte> make(const BucketJob&) override {
    PENSTOCK_CHECK(false, "buckets of texts are stored");
    return {};
  }

 private:
  static ItemsInMemory items_of(const BucketJob& job) {
    return {.data = job.region, .bytes = job.bytes, .items = job.items};
  }
  static sorting::KeyValue* pairs_of(const BucketJob& job) {
    return reinterpret_cast<sorting::KeyValue*>(job.region + pairs_offset(job.bytes));
  }

  // Appends the items in the order of the pairs.
  Status gather(BucketJob& job, OutputBlocks& output) {
    const ItemsInMemory items = items_of(job);
    const sorting::KeyValue* pairs = pairs_of(job);
    const bool unique = context_.options.unique;
    const bool repeats_are_equal = format_.equal_keys_are_equal();
    Stored stored;
    std::string_view item;
    ItemSum sum;
    for (uint64_t i = 0; i < items.items; ++i) {
      if (i % items_per_pulse == 0) {
        if (auto status = look(output); !status) return status;
      }
      if (i + prefetch_items < items.items)
        ItemPlace(pairs[i + prefetch_items].value).prefetch(items.data);
      const bool is_repeat = pairs[i].key != 0;
      // An equal item is already at hand if repeats are equal byte by byte.
      if (!is_repeat || !repeats_are_equal) {
        item = ItemPlace(pairs[i].value).item(format_, items);
        sum = sum_of_item(format_, item);
      }
      stored.sum += sum;
      if (is_repeat && unique) continue;
      output.append(item.data(), item.size());
      ++stored.items;
    }
    job.stored = stored;
    return {};
  }

  // Appends the items of a constant bucket in their order.
  Status copy(BucketJob& job, OutputBlocks& output) {
    for (uint64_t done = 0; done < job.bytes; done += copied_bytes_per_pulse) {
      if (auto status = look(output); !status) return status;
      output.append(reinterpret_cast<const char*>(job.region + done),
                    std::min(copied_bytes_per_pulse, job.bytes - done));
    }
    job.stored = {.items = job.items, .sum = sum_of_copied(job)};
    return {};
  }

  // Sum of the items that begin in the piece, if all have one length. If repeats are dropped, the
  // split has their sum; if lengths differ, it has that of all items.
  ItemSum sum_of_copied(const BucketJob& job) const {
    const SplitBucket& bucket = input_.buckets[job.bucket];
    const bool unique = context_.options.unique;
    if (!unique && !format_.equal_keys_are_equally_long())
      return job.start == 0 ? bucket.rest : ItemSum{};
    const uint64_t item_bytes = bucket.bytes / bucket.items;
    ItemSum sum;
    for (uint64_t at = ceil_div(job.start, item_bytes) * item_bytes - job.start; at < job.bytes;
         at += item_bytes) {
      sum += sum_of_item(format_, {reinterpret_cast<const char*>(job.region + at), item_bytes});
    }
    if (unique) sum += bucket.rest;
    return sum;
  }

  Status look(const OutputBlocks& output) {
    if (auto status = context_.pulse(); !status) return status;
    return output.status();
  }

  Context& context_;
  const items::Format& format_;
  const items::ItemOrder order_;
  const PipelineInput& input_;
  std::vector<std::byte> compressed_;  // scratch block
};

}  // namespace

std::unique_ptr<BucketSorter> string_sorter(Context& context, const PipelineInput& input) {
  return std::make_unique<StringSorter>(context, input);
}

}  // namespace penstock::external
