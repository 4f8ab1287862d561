#include "sort/leaf.h"

#include "os/cpu.h"

namespace penstock::sort {

#if defined(__x86_64__)
#define PENSTOCK_PICK(name) (os::cpu_tier() >= os::CpuTier::avx512 ? avx512::name : portable::name)
#else
#define PENSTOCK_PICK(name) portable::name
#endif

template <>
LeafSort<uint32_t> leaf_sort<uint32_t>() {
  return PENSTOCK_PICK(leaf_u32);
}
template <>
LeafSort<uint64_t> leaf_sort<uint64_t>() {
  return PENSTOCK_PICK(leaf_u64);
}
template <>
LeafSort<KeyValue> leaf_sort<KeyValue>() {
  return PENSTOCK_PICK(leaf_kv);
}

}  // namespace penstock::sort
