#pragma once

// The functions that each tier's file provides to kernels.cc.

#include "sorting/sort/kernels/kernels.h"

#define PENSTOCK_DECLARE_KERNELS(tier)                                                     \
  namespace tier {                                                                         \
  const Kernels<uint32_t>& kernels_u32();                                                  \
  const Kernels<uint64_t>& kernels_u64();                                                  \
  const Kernels<KeyValue>& kernels_kv();                                                   \
  const Kernels<Key128>& kernels_key128();                                                 \
  uint64_t mix_of_bytes(const char*, size_t);                                              \
  void look_at_keys(std::span<const std::string_view>, size_t, size_t, SeenBytes&);        \
  void number_keys(std::span<const std::string_view>, size_t, size_t, const WorthOfBytes*, \
                   uint64_t*);                                                             \
  }

namespace penstock::sorting {
PENSTOCK_DECLARE_KERNELS(portable)
#if defined(__x86_64__)
PENSTOCK_DECLARE_KERNELS(avx2)
PENSTOCK_DECLARE_KERNELS(avx512)
#endif
}  // namespace penstock::sorting
