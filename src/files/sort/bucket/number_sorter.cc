#include <algorithm>
#include <cstring>
#include <new>
#include <vector>

#include "base/check.h"
#include "files/sort/bucket/bucket_sorter.h"
#include "files/sort/number_type.h"
#include "items/keys/codec.h"
#include "sorting/sort/in_place/in_place_sort.h"

// Numbers and pairs are sorted where they were read, and written from there: no byte is copied
// between the file it comes from and the one it goes to. That takes one trick: direct requests
// require that offset and address agree within a sector, but a bucket is read to the start of a
// sector and written to the place where the buckets before it end. So as many items as fit between
// the start of that place's sector and the place are added to the bucket, with a key below all
// others: sorted, they come first, and the bucket is aligned like its place, byte for byte:
//
//   region   |items of the bucket as they were read ........ |added|
//   sorted   |added|items in order .........................       |
//   output   sector|                 sector|                 sector|
//                  ^ the bucket's place
//
// Buckets of one key are not sorted. Pairs are copied, in pieces. Numbers are made for the output.

namespace penstock::external {
namespace {

constexpr size_t made_bytes = 256 * KiB;
// Bytes that are appended between two checks whether the run has ended.
constexpr size_t appended_bytes = 2 * MiB;

template <class T>
class NumberSorter final : public BucketSorter {
 public:
  NumberSorter(Context& context, const PipelineInput& input, bool in_place)
      : context_(context), input_(input), in_place_(in_place) {}

  Status sort(BucketJob& job) override {
    const SortOptions& options = context_.options;
    const SplitBucket& bucket = input_.buckets[job.bucket];
    size_t count = job.bytes / sizeof(T);
    ItemSum& sum = job.stored.sum;
    if (job.kind == BucketJob::Kind::make) {
      sum = sorting::sum_of_one(item_with_key(bucket.keys.low)) * bucket.items;
    } else {
      if (auto status = restore_blocks(job, options.format, input_.spills, spare_); !status)
        return status;
      T* items = reinterpret_cast<T*>(job.region);
      if (in_place_) job.lead_bytes = job.offset % io::sector_bytes;
      const size_t lead = job.lead_bytes / sizeof(T);
      if (job.kind == BucketJob::Kind::copy) {
        if (lead != 0) std::memmove(static_cast<void*>(items + lead), items, job.bytes);
        sum = sum_of(std::span<const T>(items + lead, count));
        // The split has the sum of the repeats that are dropped.
        if (options.unique) sum += bucket.rest;
      } else {
        if (lead != 0) {
          // Only the first bucket, at the output's start, may lack a key below its own.
          PENSTOCK_CHECK(bucket.keys.low > 0, "a bucket that is not the first has keys above 0");
          std::fill_n(items + count, lead, item_with_key(bucket.keys.low - 1));
        }
        // Pairs with equal keys always keep their order.
        if (auto status = sorting::sort_in_place(items, count + lead,
                                                 {.order = {},
                                                  .stable = std::is_same_v<T, sorting::KeyValue>,
                                                  .threads = input_.plan.sorter_threads,
                                                  .sum = &sum});
            !status)
          return status;
        // The leading items do not go to the output: the added ones, or equal ones of the bucket.
        sum = sum - sum_of(std::span<const T>(items, lead));
        if (options.unique) count = drop_repeats(items, count);
      }
      items::decode_keys(options.format.type, reinterpret_cast<std::byte*>(items + lead), count,
                         options.descending);
    }
    job.stored.bytes = job.bytes = count * sizeof(T);
    job.stored.items = count;
    return {};
  }

  Status emit(BucketJob& job, OutputBlocks& output) override {
    const bool is_made = job.kind == BucketJob::Kind::make;
    const std::byte* data = is_made ? make(job).data() : job.region;
    for (uint64_t done = 0; done < job.bytes;) {
      if (auto status = context_.pulse(); !status) return status;
      if (auto status = output.status(); !status) return status;
      const auto bytes =
          std::min<uint64_t>(is_made ? made_bytes : appended_bytes, job.bytes - done);
      output.append(reinterpret_cast<const char*>(data + (is_made ? 0 : done)), bytes);
      done += bytes;
    }
    return {};
  }

  std::span<std::byte> make(const BucketJob& job) override {
    constexpr size_t bytes = made_bytes + io::sector_bytes;
    if (!made_) made_.reset(new (std::align_val_t{io::sector_bytes}) std::byte[bytes]);
    std::fill_n(reinterpret_cast<T*>(made_.get()), bytes / sizeof(T),
                item_with_key(input_.buckets[job.bucket].keys.low));
    items::decode_keys(context_.options.format.type, made_.get(), bytes / sizeof(T),
                       context_.options.descending);
    return {made_.get(), bytes};
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const {
      operator delete[](memory, std::align_val_t{io::sector_bytes});
    }
  };

  static T item_with_key(uint64_t key) {
    if constexpr (std::is_same_v<T, sorting::KeyValue>) {
      return {key, 0};
    } else {
      return static_cast<T>(key);
    }
  }

  static size_t drop_repeats(T* items, size_t count) {
    auto equal = [](const T& a, const T& b) { return scatter::key_of(a) == scatter::key_of(b); };
    return static_cast<size_t>(std::unique(items, items + count, equal) - items);
  }

  Context& context_;
  const PipelineInput& input_;
  const bool in_place_;
  std::unique_ptr<std::byte[], Free> made_;
  std::vector<std::byte> spare_;  // stays empty: packed numbers need no scratch block
};

}  // namespace

std::unique_ptr<BucketSorter> number_sorter(Context& context, const PipelineInput& input,
                                            bool in_place) {
  return with_number_type(context.options.format.type,
                          [&]<class T>() -> std::unique_ptr<BucketSorter> {
                            return std::make_unique<NumberSorter<T>>(context, input, in_place);
                          });
}

}  // namespace penstock::external
