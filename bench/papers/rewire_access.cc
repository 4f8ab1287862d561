// The cost of an access through a directory of pages, against one that the page table resolves.
//
// Loops that are identical for all contenders read an array (1 GiB of 64-bit entries on huge pages)
// directly, on anonymous and on rewired memory whose pages come from the pool in no order, and
// through a directory of these pages: a[i] against dir[i / c][i % c]. Five patterns:
//
//   random, independent        entry after entry at positions of a generator
//   sequential, independent    from the first to the last
//   random, dependent          each entry has the position of the next; one cycle through all
//   sequential, dependent      the same, but the next entry is the one behind
//   random, mixed              an independent access, and four that depend on it
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 4.6 and table 2 (7.45 GiB; indirected against rewired): 1.07
// times, 1.88, 1.05, 2.12, 1.53.
//
// Rows for plots: "PATTERN: CONTENDER" in ns an access.

#include <fmt/format.h>

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "base/access.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "memory/pool/page_store.h"
#include "memory/rewire/range.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

constexpr size_t page_bytes = 2 * MiB;
constexpr uint32_t page_shift = std::countr_zero(page_bytes / sizeof(uint64_t));

struct Direct {
  uint64_t* items;
  uint64_t& operator[](uint64_t i) const { return items[i]; }
};
struct Indirect {
  uint64_t* const* directory;
  uint64_t& operator[](uint64_t i) const {
    return directory[i >> page_shift][i & ((uint64_t{1} << page_shift) - 1)];
  }
};

// A cycle through all of [0, count), count a power of two, that looks random: the numbers of a
// linear congruential generator.
uint64_t next_random(uint64_t i) {
  return i * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
}

template <class Array>
[[gnu::noinline]] uint64_t random_independent(Array array, uint64_t mask, uint64_t accesses) {
  uint64_t sum = 0, at = 1;
  for (uint64_t i = 0; i < accesses; ++i) {
    at = next_random(at);
    sum += array[at >> 20 & mask];
  }
  return sum;
}
template <class Array>
[[gnu::noinline]] uint64_t sequential_independent(Array array, uint64_t, uint64_t accesses) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < accesses; ++i) sum += array[i];
  return sum;
}
template <class Array>
[[gnu::noinline]] uint64_t dependent(Array array, uint64_t, uint64_t accesses) {
  uint64_t at = 0;
  for (uint64_t i = 0; i < accesses; ++i) at = array[at];
  return at;
}
template <class Array>
[[gnu::noinline]] uint64_t mixed(Array array, uint64_t mask, uint64_t accesses) {
  uint64_t sum = 0, random = 1;
  for (uint64_t i = 0; i < accesses; i += 5) {
    random = next_random(random);
    uint64_t at = random >> 20 & mask;
    for (int step = 0; step < 5; ++step) at = array[at];
    sum += at;
  }
  return sum;
}

Result<Report> run_access(const Options& options) {
  const uint64_t bytes = options.quick ? 16 * MiB : 1 * GiB;
  const uint64_t items = bytes / sizeof(uint64_t), mask = items - 1;
  const uint64_t few = items / 16;  // accesses at random
  if (Status status = touch_machine(2 * bytes); !status) return std::unexpected(status.error());
  auto anonymous = anonymous_memory(bytes, true, true);
  if (!anonymous) return std::unexpected(anonymous.error());
  auto pool = PagePool::open({.page_bytes = page_bytes, .bytes_max = bytes});
  if (!pool) return std::unexpected(pool.error());
  auto set = pool->take(pool->pages_max());
  if (!set) return std::unexpected(set.error());
  const std::vector<PageId> pages = pages_of(*set, Order::random);
  auto range = rewire::Range::reserve(internal::Access::core(*pool), pages.size());
  if (!range) return std::unexpected(range.error());
  if (const int error = (*range)->map(0, pages, Protection::read_write))
    return system_error(error, "map the pool's pages", "bench rewire-access");
  std::vector<uint64_t*> directory;
  for (const PageId page : pages)
    directory.push_back(reinterpret_cast<uint64_t*>(internal::Access::core(*pool)->home(page)));

  const Direct plain{reinterpret_cast<uint64_t*>(anonymous->begin())};
  const Direct rewired{reinterpret_cast<uint64_t*>((*range)->begin())};
  const Indirect indirected{directory.data()};

  Samples samples;
  Report report;
  const auto measure = [&](const std::string& pattern, uint64_t accesses, bool first_run,
                           auto loop) {
    uint64_t result = 0;
    const auto one = [&](const char* contender, auto array) {
      const double seconds = seconds_of([&] { result = loop(array, mask, accesses); });
      samples.add(fmt::format("{}: {}", pattern, contender), "ns an access",
                  1e9 * seconds / static_cast<double>(accesses));
      if (first_run) report.hash(result);
    };
    one("anonymous", plain);
    one("rewired", rewired);
    one("indirected", indirected);
  };
  const auto fill = [&](auto next) {
    for (uint64_t i = 0; i < items; ++i) plain[i] = rewired[i] = next(i) & mask;
  };
  for (unsigned run = 0; run < options.runs_or(3); ++run) {
    fill(next_random);
    measure("random, independent", few, run == 0,
            [](auto... arguments) { return random_independent(arguments...); });
    measure("sequential, independent", items, run == 0,
            [](auto... arguments) { return sequential_independent(arguments...); });
    measure("random, dependent", few, run == 0,
            [](auto... arguments) { return dependent(arguments...); });
    measure("random, mixed", few, run == 0, [](auto... arguments) { return mixed(arguments...); });
    fill([](uint64_t i) { return i + 1; });
    measure("sequential, dependent", items, run == 0,
            [](auto... arguments) { return dependent(arguments...); });
  }
  samples.report(report);
  for (const auto& [name, pattern] :
       {std::pair{"random_independent", "random, independent"},
        std::pair{"sequential_independent", "sequential, independent"},
        std::pair{"random_dependent", "random, dependent"},
        std::pair{"sequential_dependent", "sequential, dependent"},
        std::pair{"random_mixed", "random, mixed"}}) {
    report.ratio(name, samples.median_of(fmt::format("{}: indirected", pattern)) /
                           samples.median_of(fmt::format("{}: rewired", pattern)));
  }
  return report;
}

const Registration registration{"rewire-access", "direct access against a directory of pages",
                                run_access};

}  // namespace
}  // namespace penstock::bench
