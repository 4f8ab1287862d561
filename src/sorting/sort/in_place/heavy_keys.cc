#include "sorting/sort/in_place/heavy_keys.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/check.h"
#include "sorting/scatter/lines.h"
#include "sorting/sort/on_all_threads.h"

// If a few thousand keys make up much of the input, their items need not be moved: an item that is
// only a key is represented by a count. One pass looks every item up in a table of the heavy keys,
// counts those found, and moves the others together, in place; these are sorted as if the heavy
// ones did not exist, and then moved apart, from the last on, to make room for as many of each key
// as were counted. All of it costs about 2 ns an item, whatever the keys, and the other items
// spread better: a key with an eighth of all items would fill slots and leaves by itself.
//
// The table is direct-mapped: a key is in its place or nowhere, so that a vector of keys is looked
// up by one gather. If keys want the same place, the heaviest has it.
//
// Invariant: a place contains a key that belongs there, or one that does not, and is not found.

namespace penstock::sorting {
namespace {

// Least count in the sample of a heavy key: fewer may be chance.
constexpr size_t sampled_min = 3;
// Least share of all heavy keys for which the additional pass pays.
constexpr double share_min = 0.25;
// Least share of a key that is compared first.
constexpr double leader_share_min = 0.25;
// A run of one key of at least this size is stored past the caches: it is written once.
constexpr size_t streamed_bytes_min = 8 << 10;

}  // namespace

template <class T>
std::unique_ptr<HeavyKeys> find_heavy_keys(std::span<const uint64_t> sample,
                                           const KeyOrder& order) {
  std::unique_ptr<HeavyKeys> heavy;
  std::vector<uint32_t> weights;
  size_t in_table = 0;
  uint32_t leader_weight = 0;
  for (size_t start = 0; start < sample.size();) {
    size_t end = start + 1;
    while (end < sample.size() && sample[end] == sample[start]) ++end;
    const auto weight = static_cast<uint32_t>(end - start);
    if (weight >= sampled_min) {
      if (heavy == nullptr) {
        heavy = std::make_unique<HeavyKeys>();
        weights.assign(HeavyKeys::places, 0);
      }
      const uint64_t key = decode(static_cast<T>(sample[start]), order);
      const uint32_t place = HeavyKeys::place_of(key);
      if (weights[place] < weight) {
        in_table += weight - weights[place];
        weights[place] = weight;
        heavy->keys[place] = key;
        if (weight > leader_weight) {
          leader_weight = weight;
          heavy->leader = key;
        }
      }
    }
    start = end;
  }
  if (heavy == nullptr ||
      static_cast<double>(in_table) < share_min * static_cast<double>(sample.size()))
    return nullptr;
  heavy->one_leads = leader_weight >= leader_share_min * static_cast<double>(sample.size());
  // Keys of other places, which nobody looks for here: 0 belongs to the first place.
  for (uint32_t place = 0; place < HeavyKeys::places; ++place) {
    if (weights[place] == 0) heavy->keys[place] = place == 0 ? 1 : 0;
  }
  PENSTOCK_CHECK(HeavyKeys::place_of(0) == 0 && HeavyKeys::place_of(1) != 0,
                 "a heavy key where none belongs");
  return heavy;
}

template <class T>
struct HeavyCounts<T>::Worker {
  HeavyTally tally;
  const T* in = nullptr;
  T* out = nullptr;
  size_t count = 0;
  size_t others = 0;
};

template <class T>
HeavyCounts<T>::HeavyCounts(std::unique_ptr<HeavyKeys> keys, unsigned threads)
    : keys_(std::move(keys)) {
  for (unsigned i = 0; i < threads; ++i) workers_.push_back(std::make_unique<Worker>());
  runs_.reserve(HeavyKeys::places);
}

template <class T>
HeavyCounts<T>::~HeavyCounts() = default;

template <class T>
size_t HeavyCounts<T>::take_out(const T* in, size_t count, T* out) {
  const size_t parts = workers_.size();
  for (size_t i = 0; i < parts; ++i) {
    const size_t begin = count / parts * i;
    const size_t end = i + 1 == parts ? count : count / parts * (i + 1);
    workers_[i]->in = in + begin;
    workers_[i]->out = out + begin;
    workers_[i]->count = end - begin;
  }
  on_all_threads(workers_, [this](Worker& worker) {
    worker.others =
        kernels<T>().take_out_heavy(worker.in, worker.count, *keys_, worker.tally, worker.out);
  });
  size_t others = 0;
  for (const auto& worker : workers_) {
    std::memmove(out + others, worker->out, worker->others * sizeof(T));
    others += worker->others;
  }
  return others;
}

template <class T>
void HeavyCounts<T>::put_back(T* out, size_t others, const KeyOrder& order) noexcept {
  runs_.clear();
  size_t end = others;
  for (uint32_t place = 0; place < HeavyKeys::places; ++place) {
    size_t count = 0;
    for (const auto& worker : workers_) count += worker->tally.count_of(place);
    if (count == 0) continue;
    runs_.push_back({.key = encode(static_cast<T>(keys_->keys[place]), order), .count = count});
    end += count;
  }
  std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.key > b.key; });
  for (const Run& run : runs_) {
    const T* above = std::lower_bound(out, out + others, run.key, [&](const T& item, const T& key) {
      return encode(item, order) < key;
    });
    const auto kept = static_cast<size_t>(above - out);
    end -= others - kept;
    std::memmove(out + end, above, (others - kept) * sizeof(T));
    end -= run.count;
    const T item = decode(run.key, order);
    if (run.count * sizeof(T) >= streamed_bytes_min) {
      kernels<T>().fill(out + end, run.count, item);
    } else {
      std::fill_n(out + end, run.count, item);
    }
    others = kept;
  }
  scatter::finish_stores();
  PENSTOCK_CHECK(end == others, "a sort has lost heavy keys");
}

template std::unique_ptr<HeavyKeys> find_heavy_keys<uint32_t>(std::span<const uint64_t>,
                                                              const KeyOrder&);
template std::unique_ptr<HeavyKeys> find_heavy_keys<uint64_t>(std::span<const uint64_t>,
                                                              const KeyOrder&);
template class HeavyCounts<uint32_t>;
template class HeavyCounts<uint64_t>;

}  // namespace penstock::sorting
