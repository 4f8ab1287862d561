#pragma once

// Other sorts of memory, behind a common function type.
//
// Some are compiled into this program, if their libraries are installed (bench/CMakeLists.txt).
// Others are source packages: they are fetched and built into shared libraries in the build folder
// on first use. `missing` names the unavailable ones, with the reason.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

// A record of the Sort Benchmark: its first 10 bytes are the key.
struct Record {
  static constexpr size_t key_bytes = 10;
  unsigned char bytes[100];
};

template <class T>
struct Sorter {
  std::string name;
  void (*sort)(T* items, size_t count, unsigned threads) = nullptr;
  // Called before the clock starts: touches the memory that a sort of this size takes.
  void (*prepare)(size_t count) = nullptr;
  unsigned threads_min = 1;
  unsigned threads_max = 1;
};

template <class T>
struct Sorters {
  std::vector<Sorter<T>> found;
  std::vector<std::string> missing;
};

// For uint32_t, uint64_t, double (without NaNs), KeyValue64 and Record. The first call may take
// minutes, for building.
template <class T>
Sorters<T> rival_sorts();

// The two halves of rival_sorts().
template <class T>
void add_compiled_sorts(Sorters<T>& sorters);
template <class T>
void add_loaded_sorts(Sorters<T>& sorters);

}  // namespace penstock::bench
