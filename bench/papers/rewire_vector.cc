// The cost of a vector's growth.
//
// 2^30 random 64-bit entries are inserted into vectors that begin with 2 MiB and double when they
// are full; each batch of 100,000 is timed. All of them are on huge pages:
//
//   std::vector         copies its items into twice the memory; its allocator asks for huge pages
//   mremap vector       moves its page tables; new pages are found and cleared by the system
//   indirected vector   a directory of pooled pages of 2 MiB, and entry i at dir[i / c][i % c], as
//                       in the paper; and, as a row, with a cursor that knows its page's end
//   rewired vector      pooled pages of 2 MiB behind each other
//
// The pool's pages had memory before, as in the paper, because that is the purpose of a pool. A row
// has the rewired vector on a pool without memory. "one by one" is push_back(), "in batches" passes
// 100,000 at a time; the indirected vector then copies page by page. The ratios are those of one by
// one, except bulk_*.
//
// Then the append window: a loop of 16-byte non-temporal stores through a plain pointer, into
// memory that appears under it, compared with the same loop over touched huge pages.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 5.1 and figure 8: 2.5 times std::vector's throughput, 1.4
// times the mremap vector's, 1.2 times the software-indirected one's.
//
// Rows for plots: "NAME: accumulated, x = ENTRIES" in s, and "NAME: batch, q = QUANTILE" in us.

#include <fmt/format.h>
#include <sys/mman.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"

namespace penstock::bench {
namespace {

constexpr size_t page_bytes = 2 * MiB;
constexpr uint64_t page_items = page_bytes / sizeof(uint64_t);
constexpr uint64_t batch_items = 100'000;

// ---- Memory of the rivals.

// The best allocator for std::vector: own mappings, aligned to huge pages and asking for them.
template <class T>
struct HugeAllocator {
  using value_type = T;
  HugeAllocator() = default;
  template <class U>
  HugeAllocator(const HugeAllocator<U>&) {}
  T* allocate(size_t count) {
    return reinterpret_cast<T*>(map_huge(round_up(count * sizeof(T), page_bytes)));
  }
  void deallocate(T* items, size_t count) {
    ::munmap(items, round_up(count * sizeof(T), page_bytes));
  }
  bool operator==(const HugeAllocator&) const = default;
};

// ---- The vectors.

class StdVector {
 public:
  explicit StdVector(const PagePool&) { items_.reserve(page_items); }
  void push_back(uint64_t item) { items_.push_back(item); }
  void append(std::span<const uint64_t> items) {
    items_.insert(items_.end(), items.begin(), items.end());
  }
  uint64_t operator[](uint64_t i) const { return items_[i]; }

 private:
  std::vector<uint64_t, HugeAllocator<uint64_t>> items_;
};

class MremapVector {
 public:
  explicit MremapVector(const PagePool&) {
    begin_ = end_ = reinterpret_cast<uint64_t*>(map_huge(page_bytes));
    limit_ = begin_ + page_items;
  }
  MremapVector(const MremapVector&) = delete;
  MremapVector& operator=(const MremapVector&) = delete;
  ~MremapVector() { ::munmap(begin_, capacity_bytes()); }
  void push_back(uint64_t item) {
    if (end_ == limit_) [[unlikely]]
      grow();
    *end_++ = item;
  }
  void append(std::span<const uint64_t> items) {
    while (items.size() > static_cast<uint64_t>(limit_ - end_)) grow();
    std::memcpy(end_, items.data(), items.size_bytes());
    end_ += items.size();
  }
  uint64_t operator[](uint64_t i) const { return begin_[i]; }

 private:
  uint64_t capacity_bytes() const {
    return static_cast<uint64_t>(limit_ - begin_) * sizeof(uint64_t);
  }
  [[gnu::noinline]] void grow() {
    const uint64_t bytes = capacity_bytes();
    const ptrdiff_t size = end_ - begin_;
    // In place, if the addresses behind are free; otherwise to an address aligned to huge pages.
    void* moved = ::mremap(begin_, bytes, 2 * bytes, 0);
    if (moved == MAP_FAILED)
      moved =
          ::mremap(begin_, bytes, 2 * bytes, MREMAP_MAYMOVE | MREMAP_FIXED, map_huge(2 * bytes));
    if (moved == MAP_FAILED) throw std::bad_alloc();
    (void)os::advise_huge(static_cast<std::byte*>(moved), 2 * bytes, true);
    begin_ = static_cast<uint64_t*>(moved);
    end_ = begin_ + size;
    limit_ = begin_ + 2 * bytes / sizeof(uint64_t);
  }

  uint64_t* begin_;
  uint64_t* end_;
  uint64_t* limit_;
};

// The directory of both indirected vectors.
class Directory {
 public:
  explicit Directory(const PagePool& pool) : pool_(pool) { grow(); }
  uint64_t* operator[](uint64_t page) const { return pages_[page]; }
  uint64_t capacity() const { return pages_.size() * page_items; }
  [[gnu::noinline]] void grow() {
    auto taken = pool_.take(static_cast<uint32_t>(std::max<size_t>(1, pages_.size())));
    if (!taken) throw std::bad_alloc();
    for (uint32_t i = 0; i < taken->size(); ++i)
      pages_.push_back(reinterpret_cast<uint64_t*>(taken->bytes(i).data()));
    sets_.push_back(std::move(*taken));
  }

 private:
  const PagePool& pool_;
  std::vector<PageSet> sets_;
  std::vector<uint64_t*> pages_;
};

class IndirectedVector {
 public:
  explicit IndirectedVector(const PagePool& pool) : pages_(pool) {}
  void push_back(uint64_t item) {
    if (size_ == pages_.capacity()) [[unlikely]]
      pages_.grow();
    pages_[size_ / page_items][size_ % page_items] = item;
    ++size_;
  }
  void append(std::span<const uint64_t> items) {
    while (!items.empty()) {
      if (size_ == pages_.capacity()) pages_.grow();
      const uint64_t part = std::min<uint64_t>(items.size(), page_items - size_ % page_items);
      std::memcpy(pages_[size_ / page_items] + size_ % page_items, items.data(),
                  part * sizeof(uint64_t));
      items = items.subspan(part);
      size_ += part;
    }
  }
  uint64_t operator[](uint64_t i) const { return pages_[i / page_items][i % page_items]; }

 private:
  Directory pages_;
  uint64_t size_ = 0;
};

class CursorVector {
 public:
  explicit CursorVector(const PagePool& pool) : pages_(pool) {}
  void push_back(uint64_t item) {
    if (at_ == end_) [[unlikely]]
      next_page();
    *at_++ = item;
  }
  void append(std::span<const uint64_t> items) {
    while (!items.empty()) {
      if (at_ == end_) next_page();
      const uint64_t part = std::min<uint64_t>(items.size(), static_cast<uint64_t>(end_ - at_));
      std::memcpy(at_, items.data(), part * sizeof(uint64_t));
      items = items.subspan(part);
      at_ += part;
    }
  }
  uint64_t operator[](uint64_t i) const { return pages_[i / page_items][i % page_items]; }

 private:
  [[gnu::noinline]] void next_page() {
    if (used_ * page_items == pages_.capacity()) pages_.grow();
    at_ = pages_[used_++];
    end_ = at_ + page_items;
  }
  Directory pages_;
  uint64_t used_ = 0;
  uint64_t* at_ = nullptr;
  uint64_t* end_ = nullptr;
};

class Rewired {
 public:
  explicit Rewired(const PagePool& pool) {
    auto opened = RewiredVector<uint64_t>::open(pool, {.bytes = page_bytes});
    if (!opened) throw std::bad_alloc();
    items_ = std::move(*opened);
  }
  void push_back(uint64_t item) { items_.push_back(item); }
  void append(std::span<const uint64_t> items) { items_.append(items); }
  uint64_t operator[](uint64_t i) const { return items_[i]; }

 private:
  RewiredVector<uint64_t> items_;
};

// ---- Insertion.

// Entry i of all vectors; each batch is another part of an array made beforehand.
class Entries {
 public:
  Entries() : numbers_(2 * batch_items) {
    for (uint64_t i = 0; i < numbers_.size(); ++i) numbers_[i] = mix64(i);
  }
  std::span<const uint64_t> batch(uint64_t number, uint64_t items) const {
    return std::span(numbers_).subspan(number * 997 % batch_items, items);
  }
  uint64_t operator[](uint64_t i) const {
    return numbers_[i / batch_items * 997 % batch_items + i % batch_items];
  }

 private:
  std::vector<uint64_t> numbers_;
};

enum class How { one_by_one, in_batches };

template <class Vector>
[[gnu::noinline]] void insert(Vector& vector, std::span<const uint64_t> items, How how) {
  if (how == How::in_batches) {
    vector.append(items);
  } else {
    for (const uint64_t item : items) vector.push_back(item);
  }
}

// Seconds of each batch; the vector's destruction is not timed. Checks some of the entries.
template <class Vector>
Result<std::vector<double>> grow(const PagePool& pool, const Entries& entries, uint64_t items,
                                 How how) try {
  std::vector<double> seconds;
  seconds.reserve(items / batch_items + 1);
  Vector vector(pool);
  for (uint64_t done = 0; done < items; done += batch_items) {
    const auto batch = entries.batch(done / batch_items, std::min(batch_items, items - done));
    const double start = now_seconds();
    insert(vector, batch, how);
    seconds.push_back(now_seconds() - start);
  }
  for (uint64_t i = 0; i < items; i += 1 + i / 64) {
    if (vector[i] != entries[i])
      return failure(ErrorCode::corrupt, fmt::format("look at entry {}", i), "a vector");
  }
  return seconds;
} catch (const std::bad_alloc&) {
  return failure(ErrorCode::out_of_memory, fmt::format("insert {} entries", items), "a vector");
}

using Grow = Result<std::vector<double>> (*)(const PagePool&, const Entries&, uint64_t, How);

struct Contender {
  std::string name;
  Grow grow;
  How how;
  bool is_pool_blank = false;  // its pages lose their memory before the run
  std::vector<double> ns_per_entry = {};
  std::vector<double> batches = {};  // batches of the fastest run
  double fastest = 0;
};

double ns_of(const std::vector<double>& batches, uint64_t items) {
  double sum = 0;
  for (const double seconds : batches) sum += seconds;
  return sum * 1e9 / static_cast<double>(items);
}

void add_batches(Report& report, const Contender& contender) {
  const auto add = [&](std::string what, const char* unit, double value) {
    report.add(contender.name + ": " + std::move(what), unit, {value});
  };
  double sum = 0;
  uint64_t done = 0;
  const uint64_t items = contender.batches.size() * batch_items;
  uint64_t next = std::max<uint64_t>(batch_items, items >> 5);
  for (const double seconds : contender.batches) {
    sum += seconds;
    done += batch_items;
    if (done < next) continue;
    add(fmt::format("accumulated, x = {}", done), "s", sum);
    while (next <= done) next *= 2;
  }
  std::vector<double> sorted = contender.batches;
  std::sort(sorted.begin(), sorted.end());
  for (const double quantile : {0.5, 0.9, 0.99, 0.999, 1.0}) {
    const auto index = static_cast<size_t>(quantile * static_cast<double>(sorted.size() - 1));
    add(fmt::format("batch, q = {}", quantile), "us", sorted[index] * 1e6);
  }
}

// ---- The append window.

// Code without knowledge of the vector: it stores numbers past the caches.
[[gnu::noinline]] uint64_t* fill(uint64_t* to, uint64_t items) {
#if defined(__SSE2__)
  __m128i pair = _mm_set_epi64x(1, 0);
  const __m128i two = _mm_set1_epi64x(2);
  for (uint64_t i = 0; i < items; i += 2) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), pair);
    pair = _mm_add_epi64(pair, two);
  }
  _mm_sfence();
#else
  for (uint64_t i = 0; i < items; ++i) to[i] = i;
#endif
  return to + items;
}
[[gnu::noinline]] uint64_t* fill_by_ordinary_stores(uint64_t* to, uint64_t items) {
  for (uint64_t i = 0; i < items; ++i) to[i] = i;
  return to + items;
}
using Fill = uint64_t* (*)(uint64_t* to, uint64_t items);

Result<double> fill_window(const PagePool& pool, uint64_t items, Fill fill_it) {
  auto vector = RewiredVector<uint64_t>::open(pool);
  if (!vector) return std::unexpected(vector.error());
  Status status;
  const double seconds = seconds_of([&] {
    const auto window = vector->append_window();
    status = window ? vector->append_end(fill_it(*window, items))
                    : Status(std::unexpected(window.error()));
  });
  if (!status) return std::unexpected(status.error());
  for (uint64_t i = 0; i < items; i += 1 + i / 64) {
    if ((*vector)[i] != i) return failure(ErrorCode::corrupt, "look at a window's numbers");
  }
  return seconds;
}

Status measure_windows(const PagePool& pool, uint64_t items, unsigned runs, Report& report) {
  auto plain = anonymous_memory(items * sizeof(uint64_t), true, true);
  if (!plain) return std::unexpected(plain.error());
  auto* const array = reinterpret_cast<uint64_t*>(plain->begin());
  const double gigabytes = static_cast<double>(items * sizeof(uint64_t)) / 1e9;

  for (const auto& [what, fill_it] :
       {std::pair{"non-temporal stores", Fill{fill}},
        std::pair{"ordinary stores", Fill{fill_by_ordinary_stores}}}) {
    std::vector<double> plain_speeds, window_speeds;
    for (unsigned run = 0; run < 3 * runs; ++run) {
      plain_speeds.push_back(gigabytes / seconds_of([&] { keep(fill_it(array, items)); }));
      const auto seconds = fill_window(pool, items, fill_it);
      if (!seconds) return std::unexpected(seconds.error());
      window_speeds.push_back(gigabytes / *seconds);
    }
    const double plain_speed =
        report.add(fmt::format("plain array, touched before: {}", what), "GB/s", plain_speeds);
    const double window_speed =
        report.add(fmt::format("append window: {}", what), "GB/s", window_speeds);
    if (fill_it == Fill{fill}) report.ratio("append_window_vs_plain", window_speed / plain_speed);
  }
  return {};
}

// ---- All of it.

Result<Report> run_rewire_vector(const Options& options) {
  const uint64_t items = options.quick ? uint64_t{1} << 22 : uint64_t{1} << 30;
  const unsigned runs = options.runs_or(5);
  const Entries entries;
  const uint64_t bytes = round_up(items * sizeof(uint64_t), page_bytes);
  Report report;

  auto pool = PagePool::open(
      {.page_bytes = page_bytes, .bytes_max = bytes, .prefault_bytes = bytes, .name = "vectors"});
  if (!pool) return std::unexpected(pool.error());
  {
    // Touches the rivals' memory before, because a virtual machine's first touch is slow.
    const auto touched = grow<StdVector>(*pool, entries, items, How::in_batches);
    if (!touched) return std::unexpected(touched.error());
  }

  std::vector<Contender> contenders = {
      {"rewired vector, one by one", grow<Rewired>, How::one_by_one},
      {"std::vector, one by one", grow<StdVector>, How::one_by_one},
      {"mremap vector, one by one", grow<MremapVector>, How::one_by_one},
      {"indirected vector, one by one", grow<IndirectedVector>, How::one_by_one},
      {"indirected vector with a cursor, one by one", grow<CursorVector>, How::one_by_one},
      {"rewired vector, in batches", grow<Rewired>, How::in_batches},
      {"std::vector, in batches", grow<StdVector>, How::in_batches},
      {"mremap vector, in batches", grow<MremapVector>, How::in_batches},
      {"indirected vector, in batches", grow<IndirectedVector>, How::in_batches},
      {"rewired vector, pool without memory, one by one", grow<Rewired>, How::one_by_one, true},
  };
  for (unsigned run = 0; run < runs; ++run) {
    for (Contender& contender : contenders) {
      if (contender.is_pool_blank) pool->trim();
      auto batches = contender.grow(*pool, entries, items, contender.how);
      if (!batches) return std::unexpected(batches.error());
      const double ns = ns_of(*batches, items);
      contender.ns_per_entry.push_back(ns);
      if (contender.batches.empty() || ns < contender.fastest) {
        contender.fastest = ns;
        contender.batches = std::move(*batches);
      }
    }
  }
  std::vector<double> medians;
  for (const Contender& contender : contenders)
    medians.push_back(report.add(contender.name, "ns/entry", contender.ns_per_entry));
  report.ratio("vs_std_vector", medians[1] / medians[0]);
  report.ratio("vs_mremap", medians[2] / medians[0]);
  report.ratio("vs_indirected", medians[3] / medians[0]);
  report.ratio("bulk_vs_std_vector", medians[6] / medians[5]);
  report.ratio("bulk_vs_mremap", medians[7] / medians[5]);
  report.ratio("bulk_vs_indirected", medians[8] / medians[5]);
  for (const Contender& contender : contenders) add_batches(report, contender);

  if (const Status status = measure_windows(*pool, items, runs, report); !status)
    return std::unexpected(status.error());
  if (pool->pages_taken() != 0)
    return failure(ErrorCode::corrupt, "count the pool's pages", "rewire-vector");
  for (uint64_t i = 0; i < items; i += 1 + i / 64) report.hash(entries[i]);
  return report;
}

const Registration registration{"rewire-vector",
                                "what a vector's growing costs, by copying, remapping and rewiring",
                                run_rewire_vector};

}  // namespace
}  // namespace penstock::bench
