#pragma once

// The functions that each tier's file provides to kernels.cc.

#include "sorting/scatter/kernels.h"

namespace penstock::scatter {
namespace portable {
template <class T>
const Kernels<T>& kernels();
}
#if defined(__x86_64__)
namespace avx2 {
template <class T>
const Kernels<T>& kernels();
}
namespace avx512 {
template <class T>
const Kernels<T>& kernels();
}
#endif
}  // namespace penstock::scatter
