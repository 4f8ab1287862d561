// At which size does rewiring become cheaper than copying?
//
// An array is put into a random order of its chunks, by copying them to another array, or by
// mapping their pages in that order. Copies go to fresh huge pages (as in the paper) and to touched
// memory; rewired pages are of 4 KiB and 2 MiB, with or without filling the page table at once. A
// chunk is a mapping, and a process may have vm.max_map_count of them, so for chunks below 32 KiB
// only a part of the array is shuffled; all figures are for 1 GiB.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 4.5 and figure 6: at 4 KiB copying is cheaper; "as soon as we
// start increasing the size of the chunks, rewired memory clearly outperforms".
//
// Rows for plots: "CONTENDER, x = CHUNK BYTES" in ms for 1 GiB.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
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

constexpr uint64_t chunk_sizes[] = {4 * KiB, 16 * KiB, 64 * KiB, 256 * KiB, 1 * MiB,
                                    2 * MiB, 8 * MiB,  32 * MiB, 128 * MiB, 512 * MiB};

std::vector<uint64_t> shuffled_chunks(uint64_t chunks) {
  std::vector<uint64_t> order(chunks);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937_64 random(42);
  for (uint64_t i = chunks; i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  return order;
}

// Writes the number of each page to its first word.
void number_pages(std::byte* begin, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += 4 * KiB)
    *reinterpret_cast<uint64_t*>(begin + at) = at / (4 * KiB);
}

uint64_t hash_of(const std::byte* begin, uint64_t bytes) {
  uint64_t hash = 0;
  for (uint64_t at = 0; at < bytes; at += 4 * KiB)
    hash = hash * 31 + *reinterpret_cast<const uint64_t*>(begin + at);
  return hash;
}

class Bench {
 public:
  Bench(uint64_t bytes, Samples& samples) : bytes_(bytes), samples_(samples) {}

  Status open() {
    auto from = anonymous_memory(bytes_, true, true);
    if (!from) return std::unexpected(from.error());
    from_ = std::move(*from);
    number_pages(from_.begin(), bytes_);
    auto to = anonymous_memory(bytes_, true, true);
    if (!to) return std::unexpected(to.error());
    to_ = std::move(*to);
    for (const size_t page_bytes : {4 * KiB, 2 * MiB}) {
      auto pool =
          PagePool::open({.page_bytes = page_bytes, .bytes_max = bytes_, .prefault_bytes = bytes_});
      if (!pool) return std::unexpected(pool.error());
      auto set = pool->take(pool->pages_max());
      if (!set) return std::unexpected(set.error());
      if (set->runs().size() != 1)
        return failure(ErrorCode::out_of_memory, "take a pool in one run", "bench rewire-shuffle");
      number_pages(set->bytes(0).data(), bytes_);
      sets_.push_back(std::move(*set));
      pools_.push_back(std::move(*pool));
    }
    return {};
  }

  Status shuffle(uint64_t chunk_bytes) {
    const uint64_t chunks = std::min(bytes_ / chunk_bytes, uint64_t{chunks_max});
    const uint64_t bytes = chunks * chunk_bytes;
    const std::vector<uint64_t> order = shuffled_chunks(chunks);
    const auto add = [&](const std::string& what, double seconds) {
      samples_.add(fmt::format("{}, x = {}", what, chunk_bytes), "ms",
                   1e3 * seconds * static_cast<double>(GiB) / static_cast<double>(bytes));
    };
    const auto copy = [&](std::byte* to) {
      for (uint64_t i = 0; i < chunks; ++i)
        std::memcpy(to + i * chunk_bytes, from_.begin() + order[i] * chunk_bytes, chunk_bytes);
    };

    add("copied to memory that is there", seconds_of([&] { copy(to_.begin()); }));
    const uint64_t expected = hash_of(to_.begin(), bytes);
    hash_ = hash_ * 31 + expected;
    {
      if (Status status = touch_machine(bytes); !status) return status;
      auto fresh = anonymous_memory(bytes, true, false);
      if (!fresh) return std::unexpected(fresh.error());
      add("copied to fresh memory", seconds_of([&] { copy(fresh->begin()); }));
    }
    for (size_t i = 0; i < pools_.size(); ++i) {
      const size_t page_bytes = pools_[i].page_bytes();
      if (chunk_bytes < page_bytes) continue;
      const auto pages = static_cast<uint32_t>(chunk_bytes / page_bytes);
      const PageId first = sets_[i][0];
      for (const bool populate : {false, true}) {
        auto range = rewire::Range::reserve(internal::Access::core(pools_[i]), bytes / page_bytes);
        if (!range) return std::unexpected(range.error());
        int error = 0;
        const double seconds = seconds_of([&] {
          for (uint64_t chunk = 0; chunk < chunks && error == 0; ++chunk) {
            const auto place = static_cast<uint32_t>(order[chunk]);
            error = (*range)->map(chunk * pages, PageRun{first + place * pages, pages},
                                  Protection::read_write, populate);
          }
        });
        if (error != 0) return system_error(error, "rewire chunks", "bench rewire-shuffle");
        add(fmt::format("rewired, {}{}", page_bytes == 2 * MiB ? "huge pages" : "4 KiB pages",
                        populate ? ", populated" : ""),
            seconds);
        if (hash_of((*range)->begin(), bytes) != expected)
          return failure(ErrorCode::corrupt, "shuffle chunks", "bench rewire-shuffle");
      }
    }
    return {};
  }

  uint64_t hash() const { return hash_; }

 private:
  static constexpr uint64_t chunks_max = 32768;

  const uint64_t bytes_;
  Samples& samples_;
  os::Reservation from_, to_;
  std::vector<PagePool> pools_;
  std::vector<PageSet> sets_;
  uint64_t hash_ = 0;
};

Result<Report> run_shuffle(const Options& options) {
  const uint64_t bytes = options.quick ? 16 * MiB : 1 * GiB;
  Samples samples;
  Report report;
  Bench bench(bytes, samples);
  if (Status status = bench.open(); !status) return std::unexpected(status.error());
  for (unsigned run = 0; run < options.runs_or(3); ++run) {
    for (const uint64_t chunk_bytes : chunk_sizes) {
      if (chunk_bytes > bytes / 2) break;
      if (Status status = bench.shuffle(chunk_bytes); !status)
        return std::unexpected(status.error());
    }
    if (run == 0) report.hash(bench.hash());
  }
  samples.report(report);

  const auto at = [&](const std::string& what, uint64_t chunk_bytes) {
    return samples.median_of(fmt::format("{}, x = {}", what, chunk_bytes));
  };
  const char* const copied = "copied to memory that is there";
  uint64_t pays_from = 0;
  for (const uint64_t chunk : chunk_sizes) {
    if (pays_from == 0 && chunk <= bytes / 2 &&
        at("rewired, 4 KiB pages, populated", chunk) < at(copied, chunk))
      pays_from = chunk;
  }
  report.add("rewiring 4 KiB pages, populated, beats copying from chunks of", "KiB",
             {static_cast<double>(pays_from) / KiB});
  report.ratio("vs_copy_64k",
               at(copied, 64 * KiB) / at("rewired, 4 KiB pages, populated", 64 * KiB));
  report.ratio("vs_copy_2m", at(copied, 2 * MiB) / at("rewired, huge pages, populated", 2 * MiB));
  report.ratio("vs_fresh_copy_2m", at("copied to fresh memory", 2 * MiB) /
                                       at("rewired, huge pages, populated", 2 * MiB));
  return report;
}

const Registration registration{"rewire-shuffle", "from which size on rewiring beats copying",
                                run_shuffle};

}  // namespace
}  // namespace penstock::bench
