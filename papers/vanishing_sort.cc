#include "papers/vanishing_sort.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "base/access.h"
#include "memory/pool/pool.h"
#include "papers/radix_sort.h"
#include "sorting/scatter/key_order_of.h"
#include "sorting/sort/kernels/kernels.h"

namespace penstock::papers {
namespace {

constexpr size_t batch_items = 4096;

template <class T>
class ArrayWriter final : public Emitter<T> {
 public:
  ArrayWriter(std::byte* to, const sorting::KeyOrder& order) : to_(to), order_(order) {}

  void emit(T* sorted, size_t count) override {
    if (!order_.plain()) sorting::kernels<T>().decode(sorted, count, order_);
    std::memcpy(to_, sorted, count * sizeof(T));
    to_ += count * sizeof(T);
  }

 private:
  std::byte* to_;
  const sorting::KeyOrder order_;
};

}  // namespace

template <Sortable T>
  requires(sizeof(T) >= 4 && !std::same_as<T, Key128>)
Status sort_vanishing(const BlockPool& pool, VanishingArray& array, size_t count, bool descending) {
  using Item = sorting::ItemOf<T>;
  using Sorter = RadixSort<Item>;
  const size_t block_bytes = pool.block_bytes();
  const uint64_t needed = Sorter::blocks_needed(count, block_bytes);
  const uint64_t there = pool.blocks_free() + uint64_t{array.blocks_held()};
  if (needed > there) {
    return failure(ErrorCode::out_of_memory, "sort a vanishing array",
                   std::to_string(there) + " blocks",
                   std::to_string(needed) + " blocks in the pool, or smaller ones");
  }
  auto sorter = Sorter::open(*penstock::internal::Access::core(pool), {.items_max = count});
  if (!sorter) return std::unexpected(sorter.error());
  const sorting::KeyOrder order = sorting::key_order_of<T>(descending);
  (*sorter)->begin(count, 0, sizeof(Item) == 4 ? ~uint32_t{0} : ~uint64_t{0});
  auto encoded = std::make_unique<Item[]>(batch_items);
  const auto* items = array.begin<const Item>();
  for (size_t at = 0; at < count; at += batch_items) {
    const size_t here = std::min(batch_items, count - at);
    sorting::kernels<Item>().encode(items + at, here, order, encoded.get());
    (*sorter)->add(encoded.get(), here);
  }
  ArrayWriter<Item> writer(array.begin(), order);
  (*sorter)->drain(writer);
  return {};
}

#define PENSTOCK_INSTANTIATE(T) \
  template Status sort_vanishing<T>(const BlockPool&, VanishingArray&, size_t, bool);
PENSTOCK_INSTANTIATE(uint32_t)
PENSTOCK_INSTANTIATE(int32_t)
PENSTOCK_INSTANTIATE(uint64_t)
PENSTOCK_INSTANTIATE(int64_t)
PENSTOCK_INSTANTIATE(float)
PENSTOCK_INSTANTIATE(double)
PENSTOCK_INSTANTIATE(KeyValue32)
PENSTOCK_INSTANTIATE(KeyValue64)
#undef PENSTOCK_INSTANTIATE

}  // namespace penstock::papers
