#include "files/bowtie/merge_numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "files/bowtie/computations.h"
#include "items/keys/codec.h"
#include "os/memory.h"
#include "sorting/scatter/key_order_of.h"
#include "sorting/sort/cache/cache_sort.h"
#include "sorting/sort/kernels/kernels.h"

// Merging item by item takes a tree of the inputs' heads, a comparison for each of its levels, and
// an unpredictable branch in each of those. For numbers of eight bytes that costs five to fifteen
// times as much as the disk.
//
// But each input shows many items at once, in a window. The least of the windows' last keys is the
// cut: every later item, from any input, belongs behind it. So the items of all windows up to the
// cut form a batch of its own, and a batch of this size is sorted in the cache, out of the windows
// and to the output, in the same few nanoseconds an item from any number of inputs
// (sorting/sort/cache/cache_sort.h; a merge of two arrays at a time, without branches, took 1.7 ns
// for each doubling of the inputs). A batch that comes from one input is copied.
//
//     input 0    2   4   5 | 9                     the window of input 1 ends first: the cut is 7
//     input 1    3   6   7 |                       and behind the batch, input 1 shows its next window
//     input 2    1   7 | 8   9
//
// Stable: the pieces of a batch are sorted in the order of the inputs, by a stable sort. An item of
// the cut's key is in the batch if its input comes before the one whose window ends there, or is
// that one; those of later inputs have to wait, for that input may have more of this key in its
// next window.
//
// Order: a vectorized loop finds the first item of a window that is out of order, and the window
// ends there. It is an error only when the merge gets past that place, so that items behind the
// last wanted one are not checked.
//
// The part of a window that is used is so small that the windows of some tens of inputs fit the
// cache. With very many inputs a batch has a few items of each, and the scan over all inputs costs
// more than the tree: see merges_batches().

namespace penstock::bowtie {
namespace {

using scatter::key_of;
using sorting::KeyOrder;
using sorting::KeyValue;

constexpr size_t window_items_max = 8192;
// A batch is no larger than this, or than one item of each input.
constexpr size_t sorted_items_max = 2 * window_items_max;
// The least mean number of items per input in a batch that pays for the scan over the inputs.
constexpr size_t batch_items_per_input = 16;
// An upper bound of the memory, reached with pairs of eight bytes.
constexpr uint64_t memory_bytes_max = 1 * MiB;

KeyOrder order_of(items::Type type, bool descending) {
  return items::with_number(type, [&]<class Number>(Number) {
    return scatter::key_order_of<typename Number::Value>(descending);
  });
}

template <class T>
class NumberMerge {
 public:
  NumberMerge(Streams& streams, const items::Format& format, const MergeOptions& options)
      : options_(options),
        order_(order_of(format.type, options.descending)),
        kernels_(sorting::kernels<T>()),
        output_(streams.output(0)) {
    for (uint32_t i = 0; i < streams.inputs(); ++i) heads_.push_back({.input = &streams.input(i)});
  }

  Status run();
  // Items written to the output.
  uint64_t items() const { return items_; }

 private:
  // The front of an input.
  struct Head {
    InputStream* input;
    const T* items = nullptr;
    size_t count = 0;
    std::optional<uint64_t> last = {};  // key of the item in front of `items`
    size_t selected = 0;                // number of items in the present batch
  };

  uint64_t key(const T& item) const { return key_of(sorting::encode(item, order_)); }
  Status open();
  Status load(Head& head);
  size_t select_up_to(size_t window_items);
  bool append_batch(size_t count);
  size_t copy_distinct(const T* items, size_t count);

  const MergeOptions& options_;
  const KeyOrder order_;
  const sorting::Kernels<T>& kernels_;
  OutputStream& output_;
  std::vector<Head> heads_;  // inputs that have not ended, in their order
  std::vector<sorting::Piece<T>> pieces_;
  os::Reservation memory_;
  T* batch_ = nullptr;
  std::optional<sorting::CacheSort<T>> sort_;
  uint64_t items_ = 0;
  std::optional<uint64_t> last_out_;  // last key written, not encoded (`unique` only)
};

template <class T>
Status NumberMerge<T>::open() {
  const size_t items_max = std::max(sorted_items_max, heads_.size());
  const size_t batch_bytes = round_up(items_max * sizeof(T), 64);
  const size_t bytes =
      round_up(batch_bytes + sorting::CacheSort<T>::bytes_needed(items_max), os::page_bytes);
  auto memory = os::Reservation::reserve(bytes);
  if (!memory) return std::unexpected(memory.error());
  memory->charge();
  if (int error = os::commit(memory->begin(), bytes); error != 0)
    return system_error(error, "get memory to merge in", "merge", "a smaller -S");
  memory_ = std::move(*memory);
  batch_ = reinterpret_cast<T*>(memory_.begin());
  sort_.emplace(memory_.begin() + batch_bytes, items_max, order_);
  return {};
}

// Loads the next items of an input; none at its end.
template <class T>
Status NumberMerge<T>::load(Head& head) {
  const auto window = head.input->window(sizeof(T));
  head.items = reinterpret_cast<const T*>(window.data());
  head.count = std::min(window.size() / sizeof(T), window_items_max);
  if (head.count == 0) {
    if (auto status = head.input->status(); !status || window.empty()) return status;
    return failure(ErrorCode::corrupt, "read whole items of its size",
                   fmt::format("input {}", head.input->index()), "another --format or --record");
  }
  if (head.last && key(head.items[0]) < *head.last) {
    return failure(ErrorCode::unsorted, "merge: it is not sorted",
                   fmt::format("input {}", head.input->index()), "sort it first");
  }
  head.count = kernels_.ascending(head.items, head.count, order_);
  return {};
}

// Marks the items of the next batch: those up to the cut, among the first `window_items` of each
// window. Returns their number.
template <class T>
size_t NumberMerge<T>::select_up_to(size_t window_items) {
  size_t first = 0;
  uint64_t cut = ~uint64_t{0};
  for (size_t i = 0; i < heads_.size(); ++i) {
    const Head& head = heads_[i];
    const uint64_t last = key(head.items[std::min(head.count, window_items) - 1]);
    if (last < cut || i == 0) {
      cut = last;
      first = i;
    }
  }
  size_t count = 0;
  for (size_t i = 0; i < heads_.size(); ++i) {
    Head& head = heads_[i];
    const T* const end = head.items + std::min(head.count, window_items);
    const bool with_equals = i <= first;
    const T* const up_to = std::partition_point(head.items, end, [&](const T& item) {
      return with_equals ? key(item) <= cut : key(item) < cut;
    });
    head.selected = static_cast<size_t>(up_to - head.items);
    count += head.selected;
  }
  return count;
}

template <class T>
bool NumberMerge<T>::append_batch(size_t count) {
  pieces_.clear();
  scatter::KeyRange keys{.low = ~uint64_t{0}, .high = 0};
  for (const Head& head : heads_) {
    if (head.selected == 0) continue;
    pieces_.push_back({head.items, head.selected});
    keys.low = std::min(keys.low, key(head.items[0]));
    keys.high = std::max(keys.high, key(head.items[head.selected - 1]));
  }
  const T* items = pieces_.front().items;
  if (pieces_.size() > 1) {
    sort_->load(pieces_, count, keys);
    sort_->store(batch_);
    items = batch_;
  }
  if (options_.unique) {
    count = copy_distinct(items, count);
    items = batch_;
  }
  count = std::min<uint64_t>(count, options_.items_max - items_);
  items_ += count;
  return output_.append(items, count * sizeof(T));
}

// Copies the first of each run of equal keys to the batch. Returns their number.
template <class T>
size_t NumberMerge<T>::copy_distinct(const T* items, size_t count) {
  size_t kept = 0;
  size_t i = 0;
  if (!last_out_) {
    last_out_ = key_of(items[0]);
    batch_[kept++] = items[i++];
  }
  uint64_t before = *last_out_;
  for (; i < count; ++i) {
    const T item = items[i];
    batch_[kept] = item;
    kept += key_of(item) != before ? 1 : 0;
    before = key_of(item);
  }
  last_out_ = before;
  return kept;
}

template <class T>
Status NumberMerge<T>::run() {
  for (Head& head : heads_) {
    if (auto status = load(head); !status) return status;
  }
  auto has_ended = [](const Head& head) { return head.count == 0; };
  std::erase_if(heads_, has_ended);
  if (auto status = open(); !status) return status;
  while (!heads_.empty() && items_ < options_.items_max) {
    size_t window_items = window_items_max;
    size_t count = select_up_to(window_items);
    for (; count > sort_->items_max(); count = select_up_to(window_items)) window_items /= 2;
    if (!append_batch(count)) return output_.status();
    if (items_ == options_.items_max) break;
    bool any_ended = false;
    for (Head& head : heads_) {
      if (head.selected == 0) continue;
      head.last = key(head.items[head.selected - 1]);
      head.input->advance(head.selected * sizeof(T));
      head.items += head.selected;
      head.count -= head.selected;
      if (head.count > 0) continue;
      if (auto status = load(head); !status) return status;
      any_ended |= has_ended(head);
    }
    if (any_ended) std::erase_if(heads_, has_ended);
  }
  return {};
}

template <class T>
Status merge_as(Streams& streams, const items::Format& format, const MergeOptions& options) {
  NumberMerge<T> merge(streams, format, options);
  const Status merged = merge.run();
  if (merged && options.items != nullptr) *options.items = merge.items();
  return merged;
}

}  // namespace

uint64_t merge_memory_bytes(const items::Format& format) {
  return format.numeric() ? memory_bytes_max : 0;
}

bool merges_batches(const Streams& streams, const items::Format& format) {
  return format.numeric() &&
         streams.block_bytes() / format.record_bytes >= batch_items_per_input * streams.inputs();
}

Status merge_numbers(Streams& streams, const items::Format& format, const MergeOptions& options) {
  switch (items::item_bytes_of(format.type)) {
    case sizeof(uint32_t):
      return merge_as<uint32_t>(streams, format, options);
    case sizeof(KeyValue):
      return merge_as<KeyValue>(streams, format, options);
    default:
      return merge_as<uint64_t>(streams, format, options);
  }
}

}  // namespace penstock::bowtie
