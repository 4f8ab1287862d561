// When does a view of chosen pages pay?
//
// A table of 64-bit rows (512 MiB) in which some of the pages qualify; the sum over their rows is
// computed, once or several times, in four ways:
//
//   view        the pages side by side at other addresses (PageView), one loop over all
//   copy        the pages copied to touched memory, one loop over all
//   list        a loop over the list of pages, and one over the rows of each
//   all rows    a loop over the whole table that checks each row, without knowledge of pages
//
// Pages have 4 KiB, 64 KiB or 2 MiB, of which one in a hundred, one in ten and one in two qualify.
// The list never loses to the view if the loop is one's own; the view is for code that needs an
// array, and "view against copy" is its gain when it is made and scanned once.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 6, which names views and gives no figures.
//
// Rows for plots: "PAGE SIZE, ONE IN N: WHAT" in ms.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::bench {
namespace {

[[gnu::noinline]] uint64_t sum_of(const uint64_t* rows, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += rows[i];
  return sum;
}

[[gnu::noinline]] uint64_t sum_below(const uint64_t* rows, uint64_t count, uint64_t limit) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum += rows[i] < limit ? rows[i] : 0;
  return sum;
}

class Bench {
 public:
  Bench(size_t page_bytes, uint64_t bytes, Samples& samples)
      : page_bytes_(page_bytes), bytes_(bytes), samples_(samples) {}

  Status run() {
    auto pool = PagePool::open({.page_bytes = page_bytes_, .bytes_max = bytes_});
    if (!pool) return std::unexpected(pool.error());
    auto range = VirtualRange::open(*pool, {.bytes = bytes_});
    if (!range) return std::unexpected(range.error());
    auto set = pool->take(pool->pages_max());
    if (!set) return std::unexpected(set.error());
    if (Status status = range->map(0, *set); !status) return status;
    auto room = anonymous_memory(bytes_ / 2 + page_bytes_, true, true);
    if (!room) return std::unexpected(room.error());
    for (const uint64_t one_in : {100, 10, 2}) {
      if (Status status = select(*range, one_in, reinterpret_cast<uint64_t*>(room->begin()));
          !status)
        return status;
    }
    return {};
  }

  uint64_t hash() const { return hash_; }

 private:
  Status select(const VirtualRange& table, uint64_t one_in, uint64_t* room) {
    const uint64_t page_rows = page_bytes_ / sizeof(uint64_t);
    // Rows of pages that qualify are below the limit, all others are not.
    constexpr uint64_t limit = 1000;
    std::vector<uint64_t> slots;
    auto* const rows = table.begin<uint64_t>();
    for (uint64_t slot = 0; slot < table.slots(); ++slot) {
      const bool qualifies =
          slot == 0 || (slots.size() < table.slots() / 2 && mix64(slot) % one_in == 0);
      if (qualifies) slots.push_back(slot);
      for (uint64_t i = 0; i < page_rows; ++i)
        rows[slot * page_rows + i] = (slot + i) % limit + (qualifies ? 0 : limit);
    }
    const uint64_t count = slots.size() * page_rows;
    const std::string what = fmt::format(
        "{}, one in {}: ", page_bytes_ < MiB ? fmt::format("{} KiB", page_bytes_ / KiB) : "2 MiB",
        one_in);
    const auto add = [&](const char* part, double seconds) {
      samples_.add(what + part, "ms", 1e3 * seconds);
      return seconds;
    };

    Result<PageView> view = failure(ErrorCode::io, "none yet");
    const double making = seconds_of([&] { view = PageView::open(table, slots); });
    const double copying =
        add("make the copy", seconds_of([&] {
              for (uint64_t i = 0; i < slots.size(); ++i)
                std::memcpy(room + i * page_rows, rows + slots[i] * page_rows, page_bytes_);
            }));
    uint64_t sums[4] = {};
    const double copy_scan =
        add("scan the copy", seconds_of([&] { sums[0] = sum_of(room, count); }));
    add("scan by the list", seconds_of([&] {
          for (const uint64_t slot : slots) sums[1] += sum_of(rows + slot * page_rows, page_rows);
        }));
    add("scan all rows",
        seconds_of([&] { sums[2] = sum_below(rows, table.bytes() / sizeof(uint64_t), limit); }));
    sums[3] = sums[0];
    if (view) {
      add("make the view", making);
      const double view_scan = add(
          "scan the view", seconds_of([&] { sums[3] = sum_of(view->begin<uint64_t>(), count); }));
      samples_.add(what + "view against copy, one scan", "times",
                   (copying + copy_scan) / (making + view_scan));
    } else if (view.error().code != ErrorCode::out_of_mappings) {
      return std::unexpected(view.error());
    }
    const bool same = sums[0] == sums[1] && sums[0] == sums[2] && sums[0] == sums[3];
    if (!same) return failure(ErrorCode::corrupt, "sum up qualifying pages", "bench rewire-view");
    hash_ = hash_ * 31 + sums[0];
    return {};
  }

  const size_t page_bytes_;
  const uint64_t bytes_;
  Samples& samples_;
  uint64_t hash_ = 0;
};

Result<Report> run_view(const Options& options) {
  const uint64_t bytes = options.quick ? 32 * MiB : 512 * MiB;
  if (Status status = touch_machine(2 * bytes); !status) return std::unexpected(status.error());
  Samples samples;
  Report report;
  for (unsigned run = 0; run < options.runs_or(5); ++run) {
    for (const size_t page_bytes : {4 * KiB, 64 * KiB, 2 * MiB}) {
      Bench bench(page_bytes, bytes, samples);
      if (Status status = bench.run(); !status) return std::unexpected(status.error());
      if (run == 0) report.hash(bench.hash());
    }
  }
  samples.report(report);
  report.ratio("vs_copy_64k", samples.median_of("64 KiB, one in 10: view against copy, one scan"));
  report.ratio("vs_copy_2m", samples.median_of("2 MiB, one in 10: view against copy, one scan"));
  report.ratio("view_scan_vs_list_2m", samples.median_of("2 MiB, one in 10: scan by the list") /
                                           samples.median_of("2 MiB, one in 10: scan the view"));
  return report;
}

const Registration registration{"rewire-view", "chosen pages as one array, against copying them",
                                run_view};

}  // namespace
}  // namespace penstock::bench
