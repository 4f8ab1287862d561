// The cost of memory, from its allocation to the second write.
//
// An array of 64-bit entries (1 GiB) is allocated, written from start to end, and written once
// more:
//
//   anonymous       fresh huge pages from the kernel, which finds and clears them in the first pass
//   indirected      a directory of pooled pages; entry i is dir[i / c][i % c]
//   rewired         a range that shows pooled pages; entry i is a[i]. The page table is filled by
//                   the first pass (as in the paper), or, "populated", with the mapping
//
// Pages have 4 KiB or 2 MiB, and come from the pool in order ("sequential pool") or shuffled
// ("random pool"). The pool's pages had memory before, which is the purpose of a pool. A process
// may have vm.max_map_count mappings, 65530 by default, so small shuffled pages are taken in pieces
// that are just large enough; the row says how large.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 4.3 and figure 5: 7.45 GiB, first write pass on rewired huge
// pages 2.2 times as fast as on anonymous ones and 1.8 times as fast as indirected; second pass as
// fast as on anonymous ones.
//
// Rows for plots: "CONTENDER: PHASE" in ms, PHASE one of allocate, first pass, second pass.

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

[[gnu::noinline]] void write_direct(uint64_t* items, uint64_t count, uint64_t factor) {
  for (uint64_t i = 0; i < count; ++i) items[i] = i * factor;
}

[[gnu::noinline]] void write_indirect(uint64_t* const* directory, uint32_t shift, uint64_t count,
                                      uint64_t factor) {
  const uint64_t mask = (uint64_t{1} << shift) - 1;
  for (uint64_t i = 0; i < count; ++i) directory[i >> shift][i & mask] = i * factor;
}

struct Phases {
  double allocate = 0, first = 0, second = 0;  // ms
};

// REQUIRES: allocate() returns a function that writes all items with a factor.
template <class Allocate>
Phases measure(Allocate allocate) {
  Phases phases;
  const double start = now_seconds();
  auto write = allocate();
  phases.allocate = 1e3 * (now_seconds() - start);
  phases.first = 1e3 * seconds_of([&] { write(0x9e3779b97f4a7c15u); });
  phases.second = 1e3 * seconds_of([&] { write(0xd6e8feb86659fd93u); });
  return phases;
}

class Bench {
 public:
  Bench(uint64_t bytes, Samples& samples) : bytes_(bytes), samples_(samples) {}

  Status anonymous() {
    Status status = touch_machine(bytes_);
    if (!status) return status;
    os::Reservation memory;
    add("anonymous, huge pages", measure([&] {
          auto made = anonymous_memory(bytes_, true, false);
          if (made)
            memory = std::move(*made);
          else
            status = std::unexpected(made.error());
          return [&](uint64_t factor) {
            if (status) write_direct(reinterpret_cast<uint64_t*>(memory.begin()), items(), factor);
          };
        }));
    return status;
  }

  Status pooled(size_t page_bytes) {
    auto pool =
        PagePool::open({.page_bytes = page_bytes, .bytes_max = bytes_, .prefault_bytes = bytes_});
    if (!pool) return std::unexpected(pool.error());
    auto set = pool->take(pool->pages_max());
    if (!set) return std::unexpected(set.error());
    pool::PageStore& store = *internal::Access::core(*pool);
    const auto shift = static_cast<uint32_t>(std::countr_zero(page_bytes / sizeof(uint64_t)));
    const std::string kind = page_bytes == 2 * MiB ? "huge pages" : "4 KiB pages";

    for (const Order order : {Order::sequential, Order::random}) {
      const std::vector<PageId> pages = pages_of(*set, order);
      std::vector<uint64_t*> directory;
      add(fmt::format("indirected, {}, {}", kind, name_of(order)), measure([&] {
            directory.resize(pages.size());
            for (size_t i = 0; i < pages.size(); ++i)
              directory[i] = reinterpret_cast<uint64_t*>(store.home(pages[i]));
            return
                [&](uint64_t factor) { write_indirect(directory.data(), shift, items(), factor); };
          }));
    }
    for (const Order order : {Order::sequential, Order::random}) {
      uint32_t piece_pages = 1;
      while (order == Order::random && set->size() / piece_pages > store.mappings_max() / 2)
        piece_pages *= 2;
      const std::vector<PageId> pages = pages_of(*set, order, piece_pages);
      const std::string pieces =
          piece_pages == 1 ? "" : fmt::format(" in pieces of {} KiB", piece_pages * 4);
      for (const bool populate : {false, true}) {
        Status status;
        std::unique_ptr<rewire::Range> range;
        add(fmt::format("rewired, {}, {}{}{}", kind, name_of(order), pieces,
                        populate ? ", populated" : ""),
            measure([&] {
              auto made = rewire::Range::reserve(internal::Access::core(*pool), pages.size());
              if (!made) {
                status = std::unexpected(made.error());
              } else {
                range = std::move(*made);
                const int error = range->map(0, pages, Protection::read_write, populate);
                if (error != 0) status = system_error(error, "map the pool's pages", "bench");
              }
              return [&](uint64_t factor) {
                if (status)
                  write_direct(reinterpret_cast<uint64_t*>(range->begin()), items(), factor);
              };
            }));
        if (!status) return status;
        sum_ += reinterpret_cast<uint64_t*>(range->begin())[items() / 3];
      }
    }
    return {};
  }

  uint64_t sum() const { return sum_; }

 private:
  uint64_t items() const { return bytes_ / sizeof(uint64_t); }
  void add(const std::string& what, const Phases& phases) {
    samples_.add(what + ": allocate", "ms", phases.allocate);
    samples_.add(what + ": first pass", "ms", phases.first);
    samples_.add(what + ": second pass", "ms", phases.second);
    samples_.add(what + ": allocate and first pass", "ms", phases.allocate + phases.first);
  }

  const uint64_t bytes_;
  Samples& samples_;
  uint64_t sum_ = 0;
};

Result<Report> run_alloc(const Options& options) {
  const uint64_t bytes = options.quick ? 32 * MiB : 1 * GiB;
  Samples samples;
  Report report;
  for (unsigned run = 0; run < options.runs_or(5); ++run) {
    Bench bench(bytes, samples);
    for (const auto& work :
         {+[](Bench& b) { return b.anonymous(); }, +[](Bench& b) { return b.pooled(4 * KiB); },
          +[](Bench& b) { return b.pooled(2 * MiB); }}) {
      if (Status status = work(bench); !status) return std::unexpected(status.error());
    }
    if (run == 0) report.hash(bench.sum());
  }
  samples.report(report);
  const std::string first = ": allocate and first pass";
  const double rewired = samples.median_of("rewired, huge pages, random pool, populated" + first);
  report.ratio("first_write_vs_anonymous",
               samples.median_of("anonymous, huge pages" + first) / rewired);
  report.ratio("first_write_vs_indirected",
               samples.median_of("indirected, huge pages, random pool" + first) / rewired);
  report.ratio("second_write_vs_anonymous",
               samples.median_of("anonymous, huge pages: second pass") /
                   samples.median_of("rewired, huge pages, random pool, populated: second pass"));
  return report;
}

const Registration registration{"rewire-alloc", "fresh pages, a directory of pages, or rewiring",
                                run_alloc};

}  // namespace
}  // namespace penstock::bench
