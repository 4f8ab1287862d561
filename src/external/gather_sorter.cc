#include <algorithm>
#include <cstring>

#include "base/bits.h"
#include "external/bucket_sorter.h"
#include "external/bucket_sorters.h"
#include "external/item_view.h"
#include "os/memory.h"
#include "sort/radix_sort.h"
#include "stream/copy_forward.h"

// Records and lines stay where they were read. What is sorted is one pair for each: eight bytes of
// its key, and its place. The pairs are never an array either: they go straight into the bucket
// streams of the radix sort, and come out a leaf at a time, when the items are gathered in order
// into the writer's pointer.
//
// The eight bytes begin behind what all keys of the bucket have in common, so that keys which begin
// alike ("http://www.") are told apart by the radix sort as far as possible. Items whose eight
// bytes are equal come out in one call and are put right by comparing the rest.

namespace penstock::external {
namespace {

constexpr size_t chunk_bytes = 64 * KiB;
constexpr size_t chunk_pairs = 1024;

size_t common_prefix(std::string_view a, std::string_view b, size_t at_most) {
  size_t n = std::min({a.size(), b.size(), at_most});
  if (std::memcmp(a.data(), b.data(), n) == 0) return n;
  return static_cast<size_t>(
      std::mismatch(a.begin(), a.begin() + static_cast<ptrdiff_t>(n), b.begin()).first - a.begin());
}

// Gathers items in the order of sorted pairs.
class Gatherer final : public sorting::Emitter<sorting::KeyValue> {
 public:
  Gatherer(const SortOptions& options, const std::byte* data, const std::byte* data_end,
           std::byte* out)
      : options_(options), data_(data), data_end_(data_end), out_(out) {}

  void emit(sorting::KeyValue* sorted, size_t count) override {
    for (size_t i = 0; i < count; ++i) {
      __builtin_prefetch(data_ + sorted[i].value);
      __builtin_prefetch(data_ + sorted[i].value + 64);
    }
    for (size_t i = 0; i < count;) {
      size_t end = i + 1;
      while (end < count && sorted[end].key == sorted[i].key) ++end;
      if (end - i > 1) order_ties(sorted + i, sorted + end);
      for (; i < end; ++i) put(item(sorted[i]));
    }
  }

  std::byte* end() const { return out_; }
  uint64_t items() const { return items_; }

 private:
  std::string_view item(const sorting::KeyValue& pair) const {
    return item_at(options_.format, data_ + pair.value, data_end_);
  }
  std::string_view key(const sorting::KeyValue& pair) const {
    return key_of(options_.format, item(pair));
  }

  void order_ties(sorting::KeyValue* first, sorting::KeyValue* last) const {
    std::sort(first, last, [this](const sorting::KeyValue& a, const sorting::KeyValue& b) {
      int order = key(a).compare(key(b));
      if (order == 0) return a.value < b.value;  // stable
      return options_.descending ? order > 0 : order < 0;
    });
  }

  void put(std::string_view text) {
    if (options_.unique) {
      std::string_view key = key_of(options_.format, text);
      if (last_.data() != nullptr && key == last_) return;
      last_ = key;
    }
    out_ = stream::copy_forward(out_, text.data(), text.size());
    ++items_;
  }

  const SortOptions& options_;
  const std::byte* data_;
  const std::byte* data_end_;
  std::byte* out_;
  uint64_t items_ = 0;
  std::string_view last_;
};

class GatherSorter final : public BucketSorter {
 public:
  GatherSorter(Context& context, const SorterPlan& plan)
      : context_(context), files_(plan), plan_(plan) {}

  Status open() {
    if (auto status = files_.open(context_.options); !status) return status;
    auto memory = os::Reservation::reserve(plan_.memory_bytes + os::huge_page_bytes);
    if (!memory) return std::unexpected(memory.error());
    data_ = std::move(*memory);
    auto pool = pool::Pool::open(
        {.block_bytes = plan_.sort_block_bytes,
         .blocks_max = static_cast<uint32_t>(plan_.memory_bytes / plan_.sort_block_bytes),
         .mechanism = sort_mechanism(context_.options, plan_.sort_block_bytes),
         .strict = true});
    if (!pool) return std::unexpected(pool.error());
    pool_ = std::move(*pool);
    auto sorter = sorting::RadixSort<sorting::KeyValue>::open(
        *pool_, {.items_max = plan_.memory_bytes / sizeof(sorting::KeyValue),
                 .address_bytes_max = plan_.address_bytes_max});
    if (!sorter) return std::unexpected(sorter.error());
    sorter_ = std::move(*sorter);
    return {};
  }

  Status load(const Bucket& bucket) override {
    if (auto status = make_room(bucket); !status) return status;
    std::byte* end = data_.begin();
    for (const Piece& piece : bucket.pieces) {
      auto reader = PieceReader::open(files_.io(), piece, files_.read_ahead_blocks());
      if (!reader) return std::unexpected(reader.error());
      const std::byte* at = (*reader)->begin();
      std::byte* start = end;
      while (size_t bytes = (*reader)->available(at, chunk_bytes)) {
        if (auto status = context_.pulse(); !status) return status;
        std::memcpy(end, at, bytes);
        at += bytes;
        end += bytes;
      }
      if (auto status = (*reader)->status(); !status) return status;
      if (!context_.options.format.fixed() && end != start && end[-1] != std::byte{'\n'})
        *end++ = std::byte{'\n'};
    }
    data_end_ = end;
    return add_pairs();
  }

  Result<Stored> store(const Target& target) override {
    auto bytes_max = static_cast<uint64_t>(data_end_ - data_.begin());
    if (auto status = files_.open_writer(target, bytes_max); !status)
      return std::unexpected(status.error());
    Gatherer gatherer(context_.options, data_.begin(), data_end_, files_.writer().begin());
    sorter_->drain(gatherer);
    files_.writer().flush(gatherer.end());
    end_ = gatherer.end();
    return Stored{static_cast<uint64_t>(end_ - files_.writer().begin()), gatherer.items()};
  }

  Status finish() override { return files_.finish(end_); }

 private:
  // Memory that an earlier bucket used in one way may be needed in the other: pairs of many short
  // lines, or long lines. What is committed is never less than what fits() counted.
  Status make_room(const Bucket& bucket) {
    uint64_t data_bytes = round_up(bucket.bytes + bucket.pieces.size(), os::huge_page_bytes);
    std::byte* from = data_.begin() + std::min(data_bytes, data_committed_bytes_);
    int error = 0;
    if (data_bytes < data_committed_bytes_) {
      error = os::decommit(from, data_committed_bytes_ - data_bytes);
    } else if (data_bytes > data_committed_bytes_) {
      error = os::commit(from, data_bytes - data_committed_bytes_);
      (void)os::advise_huge(from, data_bytes - data_committed_bytes_, true);
    }
    if (error != 0) return system_error(error, "commit memory for a bucket", "sort");
    data_committed_bytes_ = data_bytes;
    return {};
  }

  // Two scans of memory: how many items are there, and what do all keys begin with; then the pairs.
  Status add_pairs() {
    const SortOptions& options = context_.options;
    const record::Format& format = options.format;
    const std::byte* data = data_.begin();
    uint64_t items = 0;
    size_t skip = 0;
    std::string_view first;
    for (const std::byte* at = data; at < data_end_; ++items) {
      std::string_view item = item_at(format, at, data_end_);
      std::string_view key = key_of(format, item);
      if (items == 0) first = key;
      skip = items == 0 ? key.size() : common_prefix(first, key, skip);
      at += item.size();
    }
    auto bytes = static_cast<uint64_t>(data_end_ - data);
    if (!fits(plan_, bytes, items)) {
      return failure(ErrorCode::out_of_memory, "hold so many items at once", "sort", "a larger -S");
    }
    uint64_t pairs_bytes = uint64_t{sort_blocks(plan_, items)} * plan_.sort_block_bytes;
    if (uint64_t{pool_->blocks_committed()} * plan_.sort_block_bytes > pairs_bytes) pool_->trim();
    sorter_->begin(items, 0, ~uint64_t{0});
    sorting::KeyValue pairs[chunk_pairs];
    size_t count = 0;
    for (const std::byte* at = data; at < data_end_;) {
      std::string_view item = item_at(format, at, data_end_);
      uint64_t prefix = prefix_of(key_of(format, item).substr(skip));
      pairs[count++] = {context_.options.descending ? ~prefix : prefix,
                        static_cast<uint64_t>(at - data)};
      at += item.size();
      if (count == chunk_pairs) {
        sorter_->add(pairs, count);
        count = 0;
      }
    }
    sorter_->add(pairs, count);
    return {};
  }

  Context& context_;
  SorterFiles files_;
  SorterPlan plan_;
  os::Reservation data_;
  std::byte* data_end_ = nullptr;
  uint64_t data_committed_bytes_ = 0;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<sorting::RadixSort<sorting::KeyValue>> sorter_;
  std::byte* end_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<BucketSorter>> open_gather_sorter(Context& context, const SorterPlan& plan) {
  auto sorter = std::make_unique<GatherSorter>(context, plan);
  if (auto status = sorter->open(); !status) return std::unexpected(status.error());
  return sorter;
}

}  // namespace penstock::external
