#pragma once

// What the processor can do, and the one place where that is decided.
//
// The environment variable PENSTOCK_CPU=portable|avx2|avx512 hides what is above the named tier, so
// that one machine tests all of them. It is read once.

#include <string_view>

namespace penstock::os {

// Each includes the ones before it. avx512 means F, BW, DQ and VL together: Skylake-SP and later.
enum class CpuTier { portable, avx2, avx512 };
std::string_view name_of(CpuTier tier);

struct CpuFeatures {
  bool avx2 = false;
  bool bmi2 = false;
  bool avx512f = false;
  bool avx512bw = false;
  bool avx512cd = false;
  bool avx512dq = false;
  bool avx512vl = false;
  bool avx512vbmi2 = false;

  bool operator==(const CpuFeatures&) const = default;
};

// What the machine has; PENSTOCK_CPU does not change it.
CpuFeatures machine_features();
// Whether it tells that it is one of several on a host.
bool is_virtual_machine();

// The best tier that `features` allow and that is not above `named`; a name that is not a tier's
// changes nothing.
CpuTier tier_of(const CpuFeatures& features, std::string_view named);
// `features` without those above the tier.
CpuFeatures limited_to(CpuTier tier, CpuFeatures features);

// The two that kernels ask: of this machine, PENSTOCK_CPU obeyed. Thread safety: from any thread.
CpuTier cpu_tier();
const CpuFeatures& cpu_features();

}  // namespace penstock::os
