// x86-simd-sort, the sort of NumPy, as a library of C calls. Built twice: plain, and with OpenMP,
// which its sorts use when they find it (XSS_USE_OPENMP).
//
// Its sort of pairs has keys and values in two arrays. Our pairs are side by side, as for all
// contenders, so they are split before and joined afterwards. Records are sorted as with NumPy,
// which only sorts numbers: pairs of the key's first 8 bytes and the record's index are sorted,
// then the records are fetched in that order, and copied back. The memory for this is made, touched
// and kept by prepare_sort_TYPE(), which is not timed.

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "x86simdsort-static-incl.h"
#if XSS_USE_OPENMP
#include <omp.h>
#endif

namespace {

struct KeyValue64 {
  uint64_t key;
  uint64_t value;
};

struct Record {
  unsigned char bytes[100];
};

uint64_t prefix_of(const Record& record) {
  uint64_t word;
  std::memcpy(&word, record.bytes, sizeof(word));
  return __builtin_bswap64(word);
}

void use_threads([[maybe_unused]] uint32_t threads) {
#if XSS_USE_OPENMP
  omp_set_num_threads(static_cast<int>(threads));
#endif
}

// Touched memory on huge pages, which grows and is kept.
template <class T>
class Buffer {
 public:
  T* get(size_t count) {
    constexpr size_t huge_page_bytes = size_t{2} << 20;
    const size_t bytes = (count * sizeof(T) + huge_page_bytes - 1) & ~(huge_page_bytes - 1);
    if (bytes <= bytes_) return data_;
    std::free(data_);
    data_ = static_cast<T*>(std::aligned_alloc(huge_page_bytes, bytes));
    if (data_ == nullptr) std::abort();
    madvise(data_, bytes, MADV_HUGEPAGE);
    std::memset(static_cast<void*>(data_), 1, bytes);
    bytes_ = bytes;
    return data_;
  }

 private:
  T* data_ = nullptr;
  size_t bytes_ = 0;
};

Buffer<uint64_t> key_buffer, value_buffer;
Buffer<Record> record_buffer;

}  // namespace

extern "C" {

__attribute__((visibility("default"))) void prepare_sort_kv64(size_t count) {
  key_buffer.get(count);
  value_buffer.get(count);
}

__attribute__((visibility("default"))) void prepare_sort_record(size_t count) {
  prepare_sort_kv64(count);
  record_buffer.get(count);
}

__attribute__((visibility("default"))) void sort_u32(uint32_t* items, size_t count,
                                                     uint32_t threads) {
  use_threads(threads);
  x86simdsortStatic::qsort(items, count);
}

__attribute__((visibility("default"))) void sort_u64(uint64_t* items, size_t count,
                                                     uint32_t threads) {
  use_threads(threads);
  x86simdsortStatic::qsort(items, count);
}

__attribute__((visibility("default"))) void sort_f64(double* items, size_t count,
                                                     uint32_t threads) {
  use_threads(threads);
  x86simdsortStatic::qsort(items, count);
}

__attribute__((visibility("default"))) void sort_kv64(KeyValue64* items, size_t count,
                                                      uint32_t threads) {
  use_threads(threads);
  uint64_t* keys = key_buffer.get(count);
  uint64_t* values = value_buffer.get(count);
  for (size_t i = 0; i < count; ++i) {
    keys[i] = items[i].key;
    values[i] = items[i].value;
  }
  x86simdsortStatic::keyvalue_qsort(keys, values, count);
  for (size_t i = 0; i < count; ++i) items[i] = {keys[i], values[i]};
}
__attribute__((visibility("default"))) void sort_record(Record* records, size_t count,
                                                        uint32_t threads) {
  use_threads(threads);
  uint64_t* prefixes = key_buffer.get(count);
  uint64_t* order = value_buffer.get(count);
  for (size_t i = 0; i < count; ++i) {
    prefixes[i] = prefix_of(records[i]);
    order[i] = i;
  }
  x86simdsortStatic::keyvalue_qsort(prefixes, order, count);
  // Sort by the two bytes that the prefix lacks.
  for (size_t begin = 0, end = 0; begin < count; begin = end) {
    for (end = begin + 1; end < count && prefixes[end] == prefixes[begin];) ++end;
    if (end - begin == 1) continue;
    std::sort(order + begin, order + end, [&](uint64_t a, uint64_t b) {
      return std::memcmp(records[a].bytes + 8, records[b].bytes + 8, 2) < 0;
    });
  }
  Record* sorted = record_buffer.get(count);
  constexpr size_t ahead = 16;
  for (size_t i = 0; i < count; ++i) {
    if (i + ahead < count) {
      __builtin_prefetch(&records[order[i + ahead]]);
      __builtin_prefetch(records[order[i + ahead]].bytes + sizeof(Record) - 1);
    }
    sorted[i] = records[order[i]];
  }
  std::memcpy(records, sorted, count * sizeof(Record));
}

}  // extern "C"
