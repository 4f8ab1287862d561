// Does the page table pay as a hash table's directory?
//
// 2^23 random 64-bit keys with a value each are inserted, found, looked up without success, and
// found in batches while nothing is cached. Contenders:
//
//   rewired              RewiredHash: the bucket is at base + slot * page_bytes
//   array of pointers    the same code but for the directory: the bucket is where dir[slot] points
//   std::unordered_map   a node for each key
//
// the first two with buckets of 4 KiB, 64 KiB and 2 MiB. Buckets of the array of pointers lie in
// the pool's home view: for 4 KiB and 64 KiB those are small pages, too; "huge pages beneath" puts
// them into a pool of huge pages, which only an array of pointers can do with buckets that small.
// If the kernel's mappings do not suffice, a row is missing.
//
// A table that grows by splitting never waits for a whole copy: see "longest insertion".
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 6, which names hash tables and gives no figures.
//
// Rows for plots: "CONTENDER: WHAT", WHAT one of insert, find, miss (M keys/s), longest insertion
// (ms).

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "penstock/base.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"

namespace penstock::bench {
namespace {

// An array of pointers to buckets, as in extendible hashing. REQUIRES: one open() at a time.
template <size_t bucket_bytes>
class PointerDirectory {
 public:
  static Result<PointerDirectory> open(const PagePool& pool, const RewiredHashOptions&) {
    PointerDirectory directory;
    directory.pool_ = std::make_unique<PagePool>(pool);
    auto first = directory.take();
    if (!first) return std::unexpected(first.error());
    directory.buckets_.push_back(*first);
    return directory;
  }
  std::byte* bucket(uint64_t hash) const { return buckets_[hash & (buckets_.size() - 1)]; }
  uint64_t slots() const { return buckets_.size(); }
  uint32_t depth() const { return static_cast<uint32_t>(std::countr_zero(slots())); }
  size_t page_bytes() const { return bucket_bytes; }
  uint64_t mappings() const { return 0; }

  Result<std::byte*> split(uint64_t hash, uint32_t bucket_depth) {
    auto page = take();
    if (!page) return page;
    if (bucket_depth == depth()) {
      buckets_.resize(2 * buckets_.size());
      std::copy_n(buckets_.begin(), buckets_.size() / 2,
                  buckets_.begin() + static_cast<ptrdiff_t>(buckets_.size() / 2));
    }
    const uint64_t step = uint64_t{1} << bucket_depth;
    for (uint64_t slot = (hash & (step - 1)) + step; slot < slots(); slot += 2 * step)
      buckets_[slot] = *page;
    return page;
  }

 private:
  // Takes a bucket, which is a part of a page of the pool.
  Result<std::byte*> take() {
    if (left_ < bucket_bytes) {
      auto set = pool_->take(1);
      if (!set) return std::unexpected(set.error());
      next_ = set->bytes(0).data();
      left_ = set->bytes(0).size();
      pages_.push_back(std::move(*set));
    }
    left_ -= bucket_bytes;
    return std::exchange(next_, next_ + bucket_bytes);
  }

  std::unique_ptr<PagePool> pool_;
  std::vector<PageSet> pages_;
  std::byte* next_ = nullptr;
  size_t left_ = 0;
  std::vector<std::byte*> buckets_;
};

class UnorderedMap {
 public:
  bool insert(uint64_t key, uint64_t value) { return map_.emplace(key, value).second; }
  const uint64_t* find(uint64_t key) const {
    const auto place = map_.find(key);
    return place == map_.end() ? nullptr : &place->second;
  }

 private:
  std::unordered_map<uint64_t, uint64_t, MixedHash<uint64_t>> map_;
};

template <class Table>
struct Adapter {
  Table table;
  bool insert(uint64_t key, uint64_t value) { return table.insert(key, value).has_value(); }
  const uint64_t* find(uint64_t key) const { return table.find(key); }
};

class Bench {
 public:
  Bench(uint64_t keys, Samples& samples) : keys_(keys), samples_(samples) {}

  // Returns false if an insertion failed.
  template <class Table>
  bool measure(const std::string& what, Table& table) {
    double longest = 0, inserting = 0;
    const double start = now_seconds();
    double before = start;
    for (uint64_t i = 0; i < keys_; ++i) {
      if (!table.insert(mix64(i), i)) return false;
      const double now = now_seconds();
      longest = std::max(longest, now - before);
      before = now;
    }
    inserting = before - start;
    uint64_t sum = 0, order = 1;
    const double finding = seconds_of([&] {
      for (uint64_t i = 0; i < keys_; ++i) {
        order = order * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
        sum += *table.find(mix64((order >> 20) & (keys_ - 1)));
      }
    });
    uint64_t found = 0;
    const double missing = seconds_of([&] {
      for (uint64_t i = 0; i < keys_; ++i) found += table.find(mix64(i + keys_)) != nullptr;
    });
    const double millions = static_cast<double>(keys_) / 1e6;
    samples_.add(what + ": insert", "M keys/s", millions / inserting);
    samples_.add(what + ": find", "M keys/s", millions / finding);
    samples_.add(what + ": miss", "M keys/s", millions / missing);
    samples_.add(what + ": longest insertion", "ms", 1e3 * longest);
    hash_ = hash_ * 31 + sum + found;
    return true;
  }

  template <size_t bucket_bytes>
  Status tables() {
    const std::string size =
        bucket_bytes < MiB ? fmt::format("{} KiB", bucket_bytes / KiB) : "2 MiB";
    const uint64_t bytes = keys_ * 16 * 4;
    {
      auto pool = PagePool::open(
          {.page_bytes = bucket_bytes, .bytes_max = bytes, .prefault_bytes = keys_ * 16 * 5 / 2});
      if (!pool) return std::unexpected(pool.error());
      if (Status status = one<rewire::HashDirectory>(fmt::format("rewired, {}", size), *pool);
          !status)
        return status;
      if (Status status = one<PointerDirectory<bucket_bytes>>(
              fmt::format("array of pointers, {}", size), *pool);
          !status)
        return status;
    }
    if (bucket_bytes == 2 * MiB) return {};
    auto pool = PagePool::open({.bytes_max = bytes, .prefault_bytes = keys_ * 16 * 5 / 2});
    if (!pool) return std::unexpected(pool.error());
    return one<PointerDirectory<bucket_bytes>>(
        fmt::format("array of pointers, {}, huge pages beneath", size), *pool);
  }

  void unordered_map() {
    UnorderedMap table;
    (void)measure("std::unordered_map", table);
  }

  uint64_t hash() const { return hash_; }

 private:
  template <class Directory>
  Status one(const std::string& what, const PagePool& pool) {
    using Table = RewiredHash<uint64_t, uint64_t, MixedHash<uint64_t>, Directory>;
    auto table = Table::open(pool);
    if (!table) return std::unexpected(table.error());
    Adapter<Table> adapter{std::move(*table)};
    (void)measure(what, adapter);  // the kernel's mappings may not suffice
    return {};
  }

  const uint64_t keys_;
  Samples& samples_;
  uint64_t hash_ = 0;
};

Result<Report> run_hash(const Options& options) {
  const uint64_t keys = uint64_t{1} << (options.quick ? 16 : 23);
  if (Status status = touch_machine(keys * 16 * 5); !status) return std::unexpected(status.error());
  Samples samples;
  Report report;
  for (unsigned run = 0; run < options.runs_or(3); ++run) {
    Bench bench(keys, samples);
    if (Status status = bench.tables<4 * KiB>(); !status) return std::unexpected(status.error());
    if (Status status = bench.tables<64 * KiB>(); !status) return std::unexpected(status.error());
    if (Status status = bench.tables<2 * MiB>(); !status) return std::unexpected(status.error());
    bench.unordered_map();
    if (run == 0) report.hash(bench.hash());
  }
  samples.report(report);
  for (const char* const what : {"insert", "find", "miss"}) {
    const double rewired = samples.median_of(fmt::format("rewired, 2 MiB: {}", what));
    report.ratio(fmt::format("{}_vs_array_of_pointers", what),
                 rewired / samples.median_of(fmt::format("array of pointers, 2 MiB: {}", what)));
    report.ratio(fmt::format("{}_vs_unordered_map", what),
                 rewired / samples.median_of(fmt::format("std::unordered_map: {}", what)));
  }
  report.ratio("find_64k_vs_array_of_pointers_on_huge_pages",
               samples.median_of("rewired, 64 KiB: find") /
                   samples.median_of("array of pointers, 64 KiB, huge pages beneath: find"));
  return report;
}

const Registration registration{"rewire-hash", "the page table as a hash table's directory",
                                run_hash};

}  // namespace
}  // namespace penstock::bench
