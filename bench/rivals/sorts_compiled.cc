// Sorts that are compiled into this program: headers and libraries of the system.

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <type_traits>

#include "bench/rivals/sorts.h"
#include "os/cpu.h"

#if PENSTOCK_HAS_BOOST_SORT
#include <boost/sort/block_indirect_sort/block_indirect_sort.hpp>
#include <boost/sort/pdqsort/pdqsort.hpp>
#include <boost/sort/spreadsort/spreadsort.hpp>
#endif
#if PENSTOCK_HAS_TBB
#include <tbb/global_control.h>
#include <tbb/parallel_sort.h>
#endif
#if PENSTOCK_HAS_HIGHWAY
#include <hwy/contrib/sort/vqsort.h>
#include <hwy/targets.h>
#endif
#if PENSTOCK_HAS_IPS4O
#include <ips4o.hpp>
#endif

namespace penstock::bench {

using std::iter_swap;  // boost's string_sort looks for it in the items' namespace

namespace {

template <class T>
constexpr bool plain = std::is_arithmetic_v<T>;

template <class T>
struct Less {
  bool operator()(const T& a, const T& b) const {
    if constexpr (plain<T>) {
      return a < b;
    } else if constexpr (std::is_same_v<T, KeyValue64>) {
      return a.key < b.key;
    } else {
      return std::memcmp(a.bytes, b.bytes, T::key_bytes) < 0;
    }
  }
};

template <class T>
void std_sort(T* items, size_t count, unsigned) {
  std::sort(items, items + count, Less<T>{});
}

#if PENSTOCK_HAS_BOOST_SORT
template <class T>
void pdqsort(T* items, size_t count, unsigned) {
  // The branchless kind, which pdqsort() chooses only for std::less.
  if constexpr (plain<T>) {
    boost::sort::pdqsort_branchless(items, items + count, Less<T>{});
  } else {
    boost::sort::pdqsort(items, items + count, Less<T>{});
  }
}

template <class T>
void spreadsort(T* items, size_t count, unsigned) {
  using namespace boost::sort::spreadsort;
  if constexpr (std::is_floating_point_v<T>) {
    float_sort(items, items + count);
  } else if constexpr (plain<T>) {
    integer_sort(items, items + count);
  } else if constexpr (std::is_same_v<T, KeyValue64>) {
    integer_sort(
        items, items + count, [](const T& item, unsigned shift) { return item.key >> shift; },
        Less<T>{});
  } else {
    string_sort(
        items, items + count, [](const T& item, size_t at) { return item.bytes[at]; },
        [](const T&) { return T::key_bytes; }, Less<T>{});
  }
}

template <class T>
void block_indirect_sort(T* items, size_t count, unsigned threads) {
  boost::sort::block_indirect_sort(items, items + count, Less<T>{}, threads);
}
#endif

#if PENSTOCK_HAS_TBB
// One limit for all kinds of items, because TBB obeys the least of the existing ones. Setting it
// costs more than a small sort.
void limit_tbb(unsigned threads) {
  static std::optional<tbb::global_control> limit;
  static unsigned limit_threads = 0;
  if (limit_threads != threads) {
    limit.reset();
    limit.emplace(tbb::global_control::max_allowed_parallelism, threads);
    limit_threads = threads;
  }
}

template <class T>
void tbb_sort(T* items, size_t count, unsigned threads) {
  limit_tbb(threads);
  tbb::parallel_sort(items, items + count, Less<T>{});
}
#endif

#if PENSTOCK_HAS_HIGHWAY
// Highway chooses its target at the first call, among those that PENSTOCK_CPU permits: a better
// target has a lower bit.
bool limit_highway() {
  if (os::cpu_tier() == os::CpuTier::avx2) hwy::DisableTargets(HWY_AVX2 - 1);
  if (os::cpu_tier() == os::CpuTier::portable) hwy::DisableTargets(2 * HWY_AVX2 - 1);
  return true;
}

template <class T>
void vqsort(T* items, size_t count, unsigned) {
  [[maybe_unused]] static const bool limited = limit_highway();
  static const hwy::Sorter sorter;
  sorter(items, count, hwy::SortAscending());
}
#endif

#if PENSTOCK_HAS_IPS4O
template <class T>
void ips4o_sort(T* items, size_t count, unsigned threads) {
  if (threads > 1) {
    ips4o::parallel::sort(items, items + count, Less<T>{}, static_cast<int>(threads));
  } else {
    ips4o::sort(items, items + count, Less<T>{});
  }
}
#endif

}  // namespace

template <class T>
void add_compiled_sorts(Sorters<T>& sorters) {
  constexpr unsigned any = 64;
  auto& found = sorters.found;
  found.push_back({"std::sort", std_sort<T>});
#if PENSTOCK_HAS_BOOST_SORT
  found.push_back({"boost pdqsort", pdqsort<T>});
  found.push_back({"boost spreadsort", spreadsort<T>});
  found.push_back({"boost block_indirect_sort", block_indirect_sort<T>, nullptr, 1, any});
#else
  sorters.missing.emplace_back("boost's sorts (libboost-dev is not installed)");
#endif
#if PENSTOCK_HAS_TBB
  found.push_back({"TBB parallel_sort", tbb_sort<T>, nullptr, 1, any});
#else
  sorters.missing.emplace_back("TBB parallel_sort (libtbb-dev is not installed)");
#endif
#if PENSTOCK_HAS_IPS4O
  found.push_back({"IPS4o", ips4o_sort<T>, nullptr, 1, any});
#else
  sorters.missing.emplace_back("IPS4o (libips4o-dev is not installed)");
#endif
  // Highway 1.0.3 loses payloads of pairs.
  if constexpr (plain<T>) {
#if PENSTOCK_HAS_HIGHWAY
    found.push_back({"Highway vqsort", vqsort<T>});
#else
    sorters.missing.emplace_back("Highway vqsort (libhwy-dev is not installed)");
#endif
  }
}

template void add_compiled_sorts(Sorters<uint32_t>&);
template void add_compiled_sorts(Sorters<uint64_t>&);
template void add_compiled_sorts(Sorters<double>&);
template void add_compiled_sorts(Sorters<KeyValue64>&);
template void add_compiled_sorts(Sorters<Record>&);

}  // namespace penstock::bench
