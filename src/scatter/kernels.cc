#include "scatter/kernels.h"

#include "os/cpu.h"
#include "scatter/kernels_tiers.h"

namespace penstock::scatter {

template <class T>
const Kernels<T>& kernels() {
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx512) return avx512::kernels<T>();
  if (os::cpu_tier() >= os::CpuTier::avx2) return avx2::kernels<T>();
#endif
  return portable::kernels<T>();
}

template const Kernels<uint32_t>& kernels();
template const Kernels<uint64_t>& kernels();
template const Kernels<KeyValue32>& kernels();
template const Kernels<KeyValue64>& kernels();
template const Kernels<Key128>& kernels();

}  // namespace penstock::scatter
