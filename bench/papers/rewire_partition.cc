// The cost of a contiguous array of buckets whose items are not counted beforehand.
//
// Half a billion uniform 64-bit keys go to 2 to 1024 partitions by their leading bits, with one
// thread:
//
//   two-pass   counts first, then writes each key to its place; into memory that the system has yet
//              to find and clear (fresh), or that was touched before (warm)
//   chunked    one pass, into pooled pages of 2 MiB that a directory holds together: no array
//   mremap     one pass, into an array per partition that grows by 2 MiB: no one array
//   rewired    one pass, into pooled pages, of which one array is made in the end
//
// All of them run the same loop (sorting/scatter/lines.h: a line per partition in the cache, then
// non-temporal stores). A row has the paper's plain loop in two passes. All memory but the fresh is
// on huge pages that were touched before; the fresh gets huge pages, too.
//
// Then the partitions are sorted: the rewired ones, which are plain memory, by std::sort and by
// penstock::sort; the chunked ones through their directory, by std::sort on an iterator that looks
// into it at each access. The first 2^20 keys of each partition are sorted, 2^23 in total.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 5.2 and figure 10: rewired partitioning has 1.49 (2
// partitions) to 1.37 times (1024) the throughput of two passes into fresh memory, 1.22 to 1.14
// times into warm memory, up to 1.83 times that of mremap, and about that of chunked.
//
// Rows for plots: "NAME, k = PARTITIONS" in ns/key.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "base/access.h"
#include "base/bits.h"
#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "memory/pool/page_store.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/partition.h"
#include "penstock/rewire.h"
#include "penstock/sort.h"
#include "sorting/partition/bucket_function.h"
#include "sorting/scatter/lines.h"

namespace penstock::bench {
namespace {

using scatter::LineScatter;
using scatter::Room;

constexpr size_t page_bytes = 2 * MiB;
constexpr uint64_t page_items = page_bytes / sizeof(uint64_t);
constexpr size_t line_bytes = scatter::small_line_bytes;

std::unexpected<Error> wrong(const std::string& what) {
  return failure(ErrorCode::corrupt, "check the partitions", what);
}

// Properties of a partition that do not depend on the order of its keys.
struct Content {
  uint64_t items = 0;
  uint64_t sum = 0;
  bool operator==(const Content&) const = default;
};
Content content_of(std::span<const uint64_t> items) {
  Content content{.items = items.size()};
  for (const uint64_t item : items) content.sum += item;
  return content;
}

// The pages of a partition in order, all full but the last.
struct Chunks {
  std::vector<uint64_t*> pages;
  uint64_t items = 0;
};

// Goes through the directory at each access, the only way for a sort that cannot be changed.
class ChunkIterator {
 public:
  using iterator_category = std::random_access_iterator_tag;
  using value_type = uint64_t;
  using difference_type = int64_t;
  using pointer = uint64_t*;
  using reference = uint64_t&;

  ChunkIterator() = default;
  ChunkIterator(uint64_t* const* pages, int64_t at)
      : pages_(pages), at_(static_cast<uint64_t>(at)) {}
  reference operator*() const { return pages_[at_ / page_items][at_ % page_items]; }
  reference operator[](int64_t i) const { return *(*this + i); }
  ChunkIterator& operator++() { return ++at_, *this; }
  ChunkIterator& operator--() { return --at_, *this; }
  ChunkIterator operator++(int) { return {pages_, static_cast<int64_t>(at_++)}; }
  ChunkIterator operator--(int) { return {pages_, static_cast<int64_t>(at_--)}; }
  ChunkIterator& operator+=(int64_t i) { return at_ += static_cast<uint64_t>(i), *this; }
  ChunkIterator& operator-=(int64_t i) { return at_ -= static_cast<uint64_t>(i), *this; }
  friend ChunkIterator operator+(ChunkIterator a, int64_t i) { return a += i; }
  friend ChunkIterator operator+(int64_t i, ChunkIterator a) { return a += i; }
  friend ChunkIterator operator-(ChunkIterator a, int64_t i) { return a -= i; }
  friend int64_t operator-(ChunkIterator a, ChunkIterator b) {
    return static_cast<int64_t>(a.at_ - b.at_);
  }
  friend bool operator==(ChunkIterator a, ChunkIterator b) { return a.at_ == b.at_; }
  friend auto operator<=>(ChunkIterator a, ChunkIterator b) { return a.at_ <=> b.at_; }

 private:
  uint64_t* const* pages_ = nullptr;
  uint64_t at_ = 0;
};

class Bench {
 public:
  Bench(const PagePool& pool, std::span<const uint64_t> input)
      : pool_(pool), store_(*internal::Access::core(pool)), input_(input) {}

  void choose(unsigned bits) {
    bits_ = bits;
    map_ = partition_internal::make_buckets(ByHighBits{bits},
                                            partition_internal::key_shape_of<uint64_t>(), "")
               ->map;
    expected_.assign(size_t{1} << bits, {});
    for (const uint64_t item : input_) {
      Content& content = expected_[item >> (64 - bits)];
      ++content.items;
      content.sum += item;
    }
  }
  uint64_t hash() const { return hash_; }
  const RewiredPartitionStats& stats() const { return stats_; }

  // Each returns seconds; with `check` it also checks every partition.

  Result<double> two_pass_fresh(bool check) { return two_pass_in_fresh(check, false); }
  Result<double> two_pass_warm(bool check) { return two_pass_in_pool(check, false); }
  Result<double> two_pass_plain_fresh(bool check) { return two_pass_in_fresh(check, true); }
  Result<double> two_pass_plain_warm(bool check) { return two_pass_in_pool(check, true); }

  Result<double> chunked(bool check) {
    Chain chain(store_, expected_.size());
    const double seconds = seconds_of([&] { fill(chain); });
    for (uint32_t i = 0; check && i < expected_.size(); ++i) {
      const Chunks& chunks = chain.chunks[i];
      Content content;
      for (uint64_t at = 0; at < chunks.items; at += page_items) {
        const Content more =
            content_of({chunks.pages[at / page_items], std::min(page_items, chunks.items - at)});
        content.items += more.items;
        content.sum += more.sum;
      }
      if (content != expected_[i]) return wrong("chunked");
    }
    return seconds;
  }

  Result<double> remapped(bool check) {
    if (auto touched = touch_machine(memory_bytes()); !touched)
      return std::unexpected(touched.error());
    Arrays arrays(expected_.size());
    const double seconds = seconds_of([&] {
      LineScatter<uint64_t> lines(map_.buckets);
      lines.ask_for_room({Arrays::make_room, &arrays});
      scatter_input(lines);
      for (uint32_t i = 0; i < expected_.size(); ++i) lines.flush(i);
      scatter::finish_stores();
    });
    for (uint32_t i = 0; check && i < expected_.size(); ++i) {
      const auto* items = reinterpret_cast<const uint64_t*>(arrays.arrays[i].begin);
      if (content_of({items, expected_[i].items}) != expected_[i]) return wrong("mremap");
    }
    return seconds;
  }

  Result<double> rewired(bool check) {
    const double start = now_seconds();
    const auto parts = rewired_partition<uint64_t>(pool_, input_, {.by = ByHighBits{bits_}});
    const double seconds = now_seconds() - start;
    if (!parts) return std::unexpected(parts.error());
    stats_ = parts->stats;
    for (uint32_t i = 0; check && i < expected_.size(); ++i) {
      const Content content = content_of(parts->bucket(i));
      if (content != expected_[i]) return wrong("rewired");
      hash_ = mix64(hash_ ^ mix64(content.items) ^ content.sum);
    }
    return seconds;
  }

  // ns a key: through the directory; directly; directly, by our sort.
  struct Sorted {
    double chunked, direct, ours;
  };
  Result<Sorted> sort_partitions() {
    Sorted sorted{};
    {
      Chain chain(store_, expected_.size());
      fill(chain);
      sorted.chunked = ns_per_key([&](uint32_t i, int64_t count) {
        const ChunkIterator begin(chain.chunks[i].pages.data(), 0);
        std::sort(begin, begin + count);
      });
      const Chunks& first = chain.chunks[0];
      const auto count = static_cast<int64_t>(std::min(first.items, sorted_items_each));
      const ChunkIterator begin(first.pages.data(), 0);
      if (!std::is_sorted(begin, begin + count)) return wrong("chunked, sorted");
    }
    for (const bool is_ours : {false, true}) {
      auto parts = rewired_partition<uint64_t>(pool_, input_, {.by = ByHighBits{bits_}});
      if (!parts) return std::unexpected(parts.error());
      (is_ours ? sorted.ours : sorted.direct) = ns_per_key([&](uint32_t i, int64_t count) {
        const auto items = parts->bucket(i).first(static_cast<size_t>(count));
        if (is_ours) {
          keep(penstock::sort(items));
        } else {
          std::sort(items.begin(), items.end());
        }
      });
      const auto first = parts->bucket(0);
      if (!std::ranges::is_sorted(first.first(std::min<uint64_t>(first.size(), sorted_items_each))))
        return wrong("rewired, sorted");
    }
    return sorted;
  }

 private:
  static constexpr uint64_t sorted_items_each = 1 << 20;
  static constexpr uint64_t sorted_items = 1 << 23;

  // Pages in a directory, which gets one more when the last is full.
  struct Chain {
    Chain(pool::PageStore& from, size_t partitions) : store(from), chunks(partitions) {}
    Chain(const Chain&) = delete;
    Chain& operator=(const Chain&) = delete;
    ~Chain() {
      for (const PageId page : taken) store.release({page, 1});
    }
    static void make_room(void* self, uint32_t partition, Room& room, const std::byte*) {
      auto& chain = *static_cast<Chain*>(self);
      const PageRun page = chain.store.take_run(1);
      if (page.count == 0) std::abort();  // the pool has enough for all of them
      chain.taken.push_back(page.first);
      std::byte* const memory = chain.store.home(page.first);
      chain.chunks[partition].pages.push_back(reinterpret_cast<uint64_t*>(memory));
      room = {memory, memory + page_bytes};
    }
    void finish(uint32_t partition, LineScatter<uint64_t>& lines) {
      lines.flush(partition);
      Chunks& mine = chunks[partition];
      if (!mine.pages.empty())
        mine.items = mine.pages.size() * page_items - lines.items_left(partition);
    }
    pool::PageStore& store;
    std::vector<Chunks> chunks;
    std::vector<PageId> taken;
  };

  // An array for each partition, which grows by a page.
  struct Arrays {
    struct Array {
      std::byte* begin = nullptr;
      uint64_t bytes = 0;
    };
    explicit Arrays(size_t partitions) : arrays(partitions) {}
    Arrays(const Arrays&) = delete;
    Arrays& operator=(const Arrays&) = delete;
    ~Arrays() {
      for (const Array& array : arrays) {
        if (array.bytes != 0) ::munmap(array.begin, array.bytes);
      }
    }
    static void make_room(void* self, uint32_t partition, Room& room, const std::byte*) {
      Array& array = static_cast<Arrays*>(self)->arrays[partition];
      if (array.bytes == 0) {
        array.begin = map_huge(page_bytes);
      } else {
        void* moved = ::mremap(array.begin, array.bytes, array.bytes + page_bytes, 0);
        if (moved == MAP_FAILED)
          moved = ::mremap(array.begin, array.bytes, array.bytes + page_bytes,
                           MREMAP_MAYMOVE | MREMAP_FIXED, map_huge(array.bytes + page_bytes));
        if (moved == MAP_FAILED) throw std::bad_alloc();
        array.begin = static_cast<std::byte*>(moved);
        (void)os::advise_huge(array.begin + array.bytes, page_bytes, true);
      }
      array.bytes += page_bytes;
      room.limit = array.begin + array.bytes;
      room.next = room.limit - page_bytes;
    }
    std::vector<Array> arrays;
  };

  uint64_t memory_bytes() const {
    return round_up(input_.size_bytes() + expected_.size() * line_bytes, page_bytes);
  }

  void scatter_input(LineScatter<uint64_t>& lines) const {
    lines.add(input_.data(), input_.size(), map_, {}, input_.data() + input_.size());
  }

  void fill(Chain& chain) {
    LineScatter<uint64_t> lines(map_.buckets);
    lines.ask_for_room({Chain::make_room, &chain});
    scatter_input(lines);
    for (uint32_t i = 0; i < expected_.size(); ++i) chain.finish(i, lines);
    scatter::finish_stores();
  }

  [[gnu::noinline]] std::vector<uint64_t> count() const {
    // Four counters a partition, so that equal keys in a row do not wait for each other.
    std::vector<uint64_t> counts(4 * expected_.size());
    const unsigned shift = 64 - bits_;
    for (size_t i = 0; i + 4 <= input_.size(); i += 4) {
      for (size_t k = 0; k < 4; ++k) ++counts[4 * (input_[i + k] >> shift) + k];
    }
    for (size_t i = input_.size() / 4 * 4; i < input_.size(); ++i)
      ++counts[4 * (input_[i] >> shift)];
    std::vector<uint64_t> sums(expected_.size());
    for (size_t i = 0; i < sums.size(); ++i)
      sums[i] = counts[4 * i] + counts[4 * i + 1] + counts[4 * i + 2] + counts[4 * i + 3];
    return sums;
  }

  // Starts that are multiples of a line.
  std::vector<std::byte*> starts_in(std::byte* memory, const std::vector<uint64_t>& counts) const {
    std::vector<std::byte*> starts;
    for (const uint64_t items : counts) {
      starts.push_back(memory);
      memory += round_up(items * sizeof(uint64_t), line_bytes);
    }
    return starts;
  }

  std::vector<std::byte*> two_passes(std::byte* memory) const {
    const std::vector<std::byte*> starts = starts_in(memory, count());
    LineScatter<uint64_t> lines(map_.buckets);
    for (uint32_t i = 0; i < starts.size(); ++i)
      lines.begin(i, reinterpret_cast<uint64_t*>(starts[i]));
    scatter_input(lines);
    for (uint32_t i = 0; i < starts.size(); ++i) lines.flush(i);
    scatter::finish_stores();
    return starts;
  }

  [[gnu::noinline]] std::vector<std::byte*> plain_passes(std::byte* memory) const {
    std::vector<uint64_t> counts(expected_.size());
    const unsigned shift = 64 - bits_;
    for (const uint64_t item : input_) ++counts[item >> shift];
    const std::vector<std::byte*> starts = starts_in(memory, counts);
    std::vector<uint64_t*> ends;
    for (std::byte* start : starts) ends.push_back(reinterpret_cast<uint64_t*>(start));
    for (const uint64_t item : input_) *ends[item >> shift]++ = item;
    return starts;
  }

  Result<double> two_pass_in_pool(bool check, bool is_plain) {
    const auto pages = pool_.take(static_cast<uint32_t>(memory_bytes() / page_bytes));
    if (!pages) return std::unexpected(pages.error());
    if (pages->runs().size() != 1) return wrong("a pool that nobody uses");
    std::byte* const memory = pages->bytes(0).data();
    std::vector<std::byte*> starts;
    const double seconds =
        seconds_of([&] { starts = is_plain ? plain_passes(memory) : two_passes(memory); });
    if (check && !are_right(starts)) return wrong("two-pass, warm");
    return seconds;
  }

  // Fresh memory that the machine, not its host, has to find.
  Result<double> two_pass_in_fresh(bool check, bool is_plain) {
    const uint64_t bytes = memory_bytes();
    if (auto touched = touch_machine(bytes); !touched) return std::unexpected(touched.error());
    std::byte* memory = nullptr;
    std::vector<std::byte*> starts;
    const double seconds = seconds_of([&] {
      memory = map_huge(bytes);
      starts = is_plain ? plain_passes(memory) : two_passes(memory);
    });
    const bool is_right = !check || are_right(starts);
    ::munmap(memory, bytes);
    if (!is_right) return wrong("two-pass, fresh");
    return seconds;
  }

  bool are_right(const std::vector<std::byte*>& starts) const {
    for (size_t i = 0; i < starts.size(); ++i) {
      const auto* items = reinterpret_cast<const uint64_t*>(starts[i]);
      if (content_of({items, expected_[i].items}) != expected_[i]) return false;
    }
    return true;
  }

  template <class Sort>
  double ns_per_key(const Sort& sort_it) const {
    uint64_t items = 0;
    const double start = now_seconds();
    for (uint32_t i = 0; i < expected_.size() && items < sorted_items; ++i) {
      const uint64_t some = std::min(expected_[i].items, sorted_items_each);
      sort_it(i, static_cast<int64_t>(some));
      items += some;
    }
    return (now_seconds() - start) * 1e9 / static_cast<double>(items);
  }

  const PagePool& pool_;
  pool::PageStore& store_;
  const std::span<const uint64_t> input_;
  unsigned bits_ = 0;
  scatter::BucketMap map_;
  std::vector<Content> expected_;
  RewiredPartitionStats stats_;
  uint64_t hash_ = 0;
};

struct Contender {
  const char* name;
  Result<double> (Bench::*run)(bool check);
  std::vector<double> ns_per_key = {};
};

Result<Report> run_rewire_partition(const Options& options) try {
  const uint64_t items = options.quick ? 1 << 22 : 500'000'000;
  // Half a billion keys take a run of all 25 s for each number of partitions.
  const std::vector<unsigned> all_bits =
      options.quick ? std::vector<unsigned>{1, 3, 6} : std::vector<unsigned>{1, 3, 5, 7, 9, 10};
  const unsigned bits_max = all_bits.back();
  const unsigned runs = options.runs_or(3);
  Report report;

  auto input_memory = anonymous_memory(items * sizeof(uint64_t), true, true);
  if (!input_memory) return std::unexpected(input_memory.error());
  auto* const keys = reinterpret_cast<uint64_t*>(input_memory->begin());
  for (uint64_t i = 0; i < items; ++i) keys[i] = mix64(i);

  // Every chain ends in a page that may not be full.
  const uint64_t bytes = input_memory->bytes() + (page_bytes << bits_max) + 8 * page_bytes;
  auto pool = PagePool::open({.page_bytes = page_bytes,
                              .bytes_max = bytes,
                              .prefault_bytes = bytes,
                              .name = "partitions"});
  if (!pool) return std::unexpected(pool.error());
  Bench bench(*pool, {keys, items});

  double vs_two_pass_fresh = 0, vs_two_pass_warm = 0, vs_chunked = 0, vs_mremap = 0;
  const auto keep_least = [](double& least, double value) {
    if (least == 0 || value < least) least = value;
  };
  for (const unsigned bits : all_bits) {
    bench.choose(bits);
    Contender contenders[] = {
        {"rewired", &Bench::rewired},
        {"chunked", &Bench::chunked},
        {"two-pass, warm", &Bench::two_pass_warm},
        {"two-pass, fresh", &Bench::two_pass_fresh},
        {"mremap", &Bench::remapped},
        {"two-pass, plain loops, fresh", &Bench::two_pass_plain_fresh},
        {"two-pass, plain loops, warm", &Bench::two_pass_plain_warm},
    };
    std::vector<RewiredPartitionStats> stats;
    for (unsigned run = 0; run < runs; ++run) {
      for (Contender& contender : contenders) {
        const auto seconds = (bench.*contender.run)(run == 0);
        if (!seconds) return std::unexpected(seconds.error());
        contender.ns_per_key.push_back(*seconds * 1e9 / static_cast<double>(items));
        if (contender.run == &Bench::rewired) stats.push_back(bench.stats());
      }
    }
    const auto k = fmt::format(", k = {}", 1 << bits);
    // Round by round, because a shared machine's speed changes from minute to minute.
    std::map<std::string, double> over_ours;
    for (const Contender& contender : contenders) {
      report.add(contender.name + k, "ns/key", contender.ns_per_key);
      std::vector<double> ratios;
      for (unsigned run = 0; run < runs; ++run)
        ratios.push_back(contender.ns_per_key[run] / contenders[0].ns_per_key[run]);
      over_ours[contender.name] = median(ratios);
    }
    for (const auto& [what, part] :
         {std::pair{"rewired: distributing", &RewiredPartitionStats::distribute_ns},
          std::pair{"rewired: completing pages", &RewiredPartitionStats::complete_ns},
          std::pair{"rewired: rewiring", &RewiredPartitionStats::rewire_ns}}) {
      std::vector<double> samples;
      for (const RewiredPartitionStats& one : stats)
        samples.push_back(static_cast<double>(one.*part) / static_cast<double>(items));
      report.add(what + k, "ns/key", std::move(samples));
    }
    report.add("rewired: copied" + k, "%",
               {100.0 * static_cast<double>(stats[0].copied_bytes) /
                static_cast<double>(items * sizeof(uint64_t))});
    keep_least(vs_two_pass_fresh, over_ours["two-pass, fresh"]);
    keep_least(vs_two_pass_warm, over_ours["two-pass, warm"]);
    keep_least(vs_chunked, over_ours["chunked"]);
    keep_least(vs_mremap, over_ours["mremap"]);

    const auto sorted = bench.sort_partitions();
    if (!sorted) return std::unexpected(sorted.error());
    report.add("sorting, chunked, std::sort through the directory" + k, "ns/key",
               {sorted->chunked});
    report.add("sorting, rewired, std::sort" + k, "ns/key", {sorted->direct});
    report.add("sorting, rewired, penstock::sort" + k, "ns/key", {sorted->ours});
    if (pool->pages_taken() != 0) return wrong("the pool's pages");
  }
  report.ratio("vs_two_pass_fresh_min", vs_two_pass_fresh);
  report.ratio("vs_two_pass_warm_min", vs_two_pass_warm);
  report.ratio("vs_chunked_min", vs_chunked);
  report.ratio("vs_mremap_min", vs_mremap);
  report.hash(bench.hash());
  return report;
} catch (const std::bad_alloc&) {
  return failure(ErrorCode::out_of_memory, "map memory", "rewire-partition");
}

const Registration registration{"rewire-partition",
                                "one contiguous array of buckets from items that nobody counted",
                                run_rewire_partition};

}  // namespace
}  // namespace penstock::bench
