#include "partition/write_combine.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#include "os/cpu.h"
#include "partition/write_combine_tiers.h"

namespace penstock::partition_internal {

#if defined(__x86_64__)
// The file of the AVX-512 kernels uses the shifts of BMI2, too.
#define PENSTOCK_PICK(name) \
  (os::cpu_tier() >= os::CpuTier::avx512 && os::cpu_features().bmi2 ? avx512::name : portable::name)
#else
#define PENSTOCK_PICK(name) portable::name
#endif

template <>
Combine<uint32_t> combine_kernel<uint32_t>(BucketFunction::Kind kind, LineBytes line_bytes) {
  return PENSTOCK_PICK(kernel_u32)(kind, line_bytes);
}
template <>
Combine<uint64_t> combine_kernel<uint64_t>(BucketFunction::Kind kind, LineBytes line_bytes) {
  return PENSTOCK_PICK(kernel_u64)(kind, line_bytes);
}
template <>
Combine<KeyValue32> combine_kernel<KeyValue32>(BucketFunction::Kind kind, LineBytes line_bytes) {
  return PENSTOCK_PICK(kernel_kv32)(kind, line_bytes);
}
template <>
Combine<KeyValue64> combine_kernel<KeyValue64>(BucketFunction::Kind kind, LineBytes line_bytes) {
  return PENSTOCK_PICK(kernel_kv64)(kind, line_bytes);
}

void finish_stores() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace penstock::partition_internal
