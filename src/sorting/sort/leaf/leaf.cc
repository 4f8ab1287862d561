#include "sorting/sort/leaf/leaf.h"

#include "os/cpu.h"

namespace penstock::sorting {

template <class T>
LeafSort<T> leaf_sort() {
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx512) return avx512::leaf<T>;
  if (os::cpu_tier() >= os::CpuTier::avx2) return avx2::leaf<T>;
#endif
  return portable::leaf<T>;
}

template LeafSort<uint32_t> leaf_sort<uint32_t>();
template LeafSort<uint64_t> leaf_sort<uint64_t>();
template LeafSort<KeyValue> leaf_sort<KeyValue>();
template LeafSort<Key128> leaf_sort<Key128>();

WordSort word_sort() {
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx512) return avx512::sort_words;
  if (os::cpu_tier() >= os::CpuTier::avx2) return avx2::sort_words;
#endif
  return portable::sort_words;
}

}  // namespace penstock::sorting
