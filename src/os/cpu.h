#pragma once

// The processor's features, and the only place that decides which ones are used.
//
// The environment variable PENSTOCK_CPU=portable|avx2|avx512 hides features above the named tier,
// so that one machine tests all tiers. It is read once.

#include <string_view>

#include "penstock/base.h"

namespace penstock::os {

// The tiers; each includes the ones before it. avx512: F, BW, DQ and VL: Skylake-SP and later.
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

// Returns the machine's features; PENSTOCK_CPU does not change them.
CpuFeatures machine_features();
// Returns whether the processor reports a hypervisor.
bool is_virtual_machine();

// Checks that PENSTOCK_CPU names a tier, if it is set. Errors: invalid_argument.
Status check_cpu_variable();
// Returns the best tier that `features` allow, not above `named`; ignores a name that is no tier.
CpuTier tier_of(const CpuFeatures& features, std::string_view named);
// Returns `features` without those above the tier.
CpuFeatures limited_to(CpuTier tier, CpuFeatures features);

// The tier and the features that kernels use: this machine's, limited by PENSTOCK_CPU. Thread
// safety: any thread.
CpuTier cpu_tier();
const CpuFeatures& cpu_features();

}  // namespace penstock::os
