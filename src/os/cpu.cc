#include "os/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/misuse.h"

namespace penstock::os {

std::string_view name_of(CpuTier tier) {
  switch (tier) {
    case CpuTier::portable:
      return "portable";
    case CpuTier::avx2:
      return "avx2";
    case CpuTier::avx512:
      return "avx512";
  }
  return "unknown";
}

CpuFeatures machine_features() {
  CpuFeatures features;
#if defined(__x86_64__)
  __builtin_cpu_init();  // also checks that the system saves the wide registers
  features.avx2 = __builtin_cpu_supports("avx2") != 0;
  features.bmi2 = __builtin_cpu_supports("bmi2") != 0;
  features.avx512f = __builtin_cpu_supports("avx512f") != 0;
  features.avx512bw = __builtin_cpu_supports("avx512bw") != 0;
  features.avx512cd = __builtin_cpu_supports("avx512cd") != 0;
  features.avx512dq = __builtin_cpu_supports("avx512dq") != 0;
  features.avx512vl = __builtin_cpu_supports("avx512vl") != 0;
  features.avx512vbmi2 = __builtin_cpu_supports("avx512vbmi2") != 0;
#endif
  return features;
}

bool is_virtual_machine() {
#if defined(__x86_64__)
  // Asked once: on a virtual machine each CPUID is a visit to the host.
  static const bool is_virtual = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned hypervisor_bit = 1u << 31;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & hypervisor_bit) != 0;
  }();
  return is_virtual;
#else
  return false;
#endif
}

CpuTier tier_of(const CpuFeatures& features, std::string_view named) {
  // Kernels of the vector tiers also use BMI2, which a virtual machine may hide.
  const bool avx2 = features.avx2 && features.bmi2;
  const bool avx512 =
      avx2 && features.avx512f && features.avx512bw && features.avx512dq && features.avx512vl;
  const CpuTier best = avx512 ? CpuTier::avx512 : avx2 ? CpuTier::avx2 : CpuTier::portable;
  for (const CpuTier tier : {CpuTier::portable, CpuTier::avx2, CpuTier::avx512})
    if (named == name_of(tier)) return std::min(tier, best);
  return best;
}

Status check_cpu_variable() {
  const char* const text = std::getenv("PENSTOCK_CPU");
  if (text == nullptr || *text == 0) return {};
  for (const CpuTier tier : {CpuTier::portable, CpuTier::avx2, CpuTier::avx512})
    if (text == name_of(tier)) return {};
  return misuse("use instructions of this name", std::string("PENSTOCK_CPU=") + text,
                "portable, avx2 or avx512");
}

CpuFeatures limited_to(CpuTier tier, CpuFeatures features) {
  if (tier == CpuTier::portable) return {};
  if (tier == CpuTier::avx2) return {.avx2 = features.avx2, .bmi2 = features.bmi2};
  return features;
}

CpuTier cpu_tier() {
  static const CpuTier tier = [] {
    const char* named = std::getenv("PENSTOCK_CPU");
    return tier_of(machine_features(), named == nullptr ? "" : named);
  }();
  return tier;
}

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = limited_to(cpu_tier(), machine_features());
  return features;
}

}  // namespace penstock::os
