#include <algorithm>
#include <cstring>

#include "external/bucket_sorter.h"
#include "external/bucket_sorters.h"
#include "record/codec.h"
#include "sort/radix_sort.h"
#include "stream/copy_forward.h"

// Numbers and pairs flow straight through: from the file reader's pointer into bucket streams, from
// leaves to the file writer's pointer. The bucket itself is never an array.

namespace penstock::external {
namespace {

constexpr size_t chunk_items = 4096;

// Decodes sorted items and writes them; with `unique`, the first of each key.
template <class T>
class NumberWriter final : public sorting::Emitter<T> {
 public:
  NumberWriter(const SortOptions& options, std::byte* out) : options_(options), out_(out) {}

  void emit(T* sorted, size_t count) override {
    if (options_.unique) count = drop_repeats(sorted, count);
    size_t bytes = count * sizeof(T);
    record::decode_keys(options_.format.type, reinterpret_cast<std::byte*>(sorted), count,
                        options_.descending);
    out_ = stream::copy_forward(out_, sorted, bytes);
  }

  std::byte* end() const { return out_; }

 private:
  size_t drop_repeats(T* sorted, size_t count) {
    size_t kept = 0;
    for (size_t i = 0; i < count; ++i) {
      if (any_ && sorting::key_of(sorted[i]) == last_) continue;
      last_ = sorting::key_of(sorted[i]);
      any_ = true;
      sorted[kept++] = sorted[i];
    }
    return kept;
  }

  const SortOptions& options_;
  std::byte* out_;
  uint64_t last_ = 0;
  bool any_ = false;
};

template <class T>
class NumberSorter final : public BucketSorter {
 public:
  explicit NumberSorter(Context& context, const SorterPlan& plan)
      : context_(context), files_(plan) {}

  Status open(const SorterPlan& plan) {
    if (auto status = files_.open(context_.options); !status) return status;
    const SortOptions& options = context_.options;
    uint64_t items_max = plan.bytes_max / sizeof(T) + 1;
    auto pool = pool::Pool::open({.block_bytes = plan.sort_block_bytes,
                                  .blocks_max = sort_blocks(options, plan, items_max),
                                  .mechanism = sort_mechanism(options, plan.sort_block_bytes),
                                  .strict = true});
    if (!pool) return std::unexpected(pool.error());
    pool_ = std::move(*pool);
    auto sorter = sorting::RadixSort<T>::open(
        *pool_, {.items_max = items_max, .address_bytes_max = plan.address_bytes_max});
    if (!sorter) return std::unexpected(sorter.error());
    sorter_ = std::move(*sorter);
    return {};
  }

  Status load(const Bucket& bucket) override {
    sorter_->begin(bucket.items, bucket.key_min, bucket.key_max);
    for (const Piece& piece : bucket.pieces) {
      auto reader = PieceReader::open(files_.io(), piece, files_.read_ahead_blocks());
      if (!reader) return std::unexpected(reader.error());
      const std::byte* at = (*reader)->begin();
      while (size_t bytes = (*reader)->available(at, chunk_items * sizeof(T))) {
        if (auto status = context_.pulse(); !status) return status;
        add(at, bytes / sizeof(T));
        at += bytes;
      }
      if (auto status = (*reader)->status(); !status) return status;
    }
    return {};
  }

  Result<Stored> store(const Target& target) override {
    if (auto status = files_.open_writer(target, sorter_->added() * sizeof(T)); !status) {
      return std::unexpected(status.error());
    }
    NumberWriter<T> writer(context_.options, files_.writer().begin());
    sorter_->drain(writer);
    files_.writer().flush(writer.end());
    end_ = writer.end();
    auto bytes = static_cast<uint64_t>(end_ - files_.writer().begin());
    return Stored{bytes, bytes / sizeof(T)};
  }

  Status finish() override { return files_.finish(end_); }

 private:
  void add(const std::byte* from, size_t count) {
    const SortOptions& options = context_.options;
    if (record::keys_are_plain(options.format.type, options.descending))
      return sorter_->add(reinterpret_cast<const T*>(from), count);
    std::memcpy(encoded_, from, count * sizeof(T));
    record::encode_keys(options.format.type, reinterpret_cast<std::byte*>(encoded_), count,
                        options.descending);
    sorter_->add(encoded_, count);
  }

  Context& context_;
  SorterFiles files_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<sorting::RadixSort<T>> sorter_;
  std::byte* end_ = nullptr;
  T encoded_[chunk_items];
};

template <class T>
Result<std::unique_ptr<BucketSorter>> open_sorter(Context& context, const SorterPlan& plan) {
  auto sorter = std::make_unique<NumberSorter<T>>(context, plan);
  if (auto status = sorter->open(plan); !status) return std::unexpected(status.error());
  return sorter;
}

}  // namespace

Result<std::unique_ptr<BucketSorter>> open_number_sorter(Context& context, const SorterPlan& plan) {
  switch (record::item_bytes_of(context.options.format.type)) {
    case 4:
      return open_sorter<uint32_t>(context, plan);
    case 16:
      return open_sorter<sorting::KeyValue>(context, plan);
    default:
      return open_sorter<uint64_t>(context, plan);
  }
}

}  // namespace penstock::external
