#include "sorting/sort/kernels/kernels.h"

#include "os/cpu.h"
#include "sorting/sort/kernels/kernels_tiers.h"

namespace penstock::sorting {

#if defined(__x86_64__)
#define PENSTOCK_OF_TIER(name)                          \
  (os::cpu_tier() >= os::CpuTier::avx512 ? avx512::name \
   : os::cpu_tier() >= os::CpuTier::avx2 ? avx2::name   \
                                         : portable::name)
#else
#define PENSTOCK_OF_TIER(name) portable::name
#endif
#define PENSTOCK_PICK(name) PENSTOCK_OF_TIER(name)()

template <>
const Kernels<uint32_t>& kernels<uint32_t>() {
  return PENSTOCK_PICK(kernels_u32);
}
template <>
const Kernels<uint64_t>& kernels<uint64_t>() {
  return PENSTOCK_PICK(kernels_u64);
}
template <>
const Kernels<KeyValue>& kernels<KeyValue>() {
  return PENSTOCK_PICK(kernels_kv);
}
template <>
const Kernels<Key128>& kernels<Key128>() {
  return PENSTOCK_PICK(kernels_key128);
}

const MixOfBytes mix_of_bytes = PENSTOCK_OF_TIER(mix_of_bytes);
const LookAtKeys look_at_keys = PENSTOCK_OF_TIER(look_at_keys);
const NumberKeys number_keys = PENSTOCK_OF_TIER(number_keys);

}  // namespace penstock::sorting
