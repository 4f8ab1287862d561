// The cost of one page fault.
//
// A view of memory is made without entering anything into the page table, and then the first byte
// of each page is written. Anonymous memory faults "hard": the kernel finds a page and clears it. A
// page of a pool is present, and only its entry is made ("soft"); or, with a private mapping, it is
// copied (of a huge one, today's kernels copy the 4 KiB that are written). "populated" is the time
// of the mapping call itself, which leaves no fault at all (MAP_POPULATE), as the library does it.
//
// Source: F. M. Schuhknecht, J. Dittrich, A. Sharma, "RUMA has it: Rewired User-space Memory Access
// is Possible!" (VLDB 2016), section 4.4 and table 1 (2 GiB; ns a page): anonymous huge 600,251.
// Sequential pool: small shared 686, small private 2,048, huge shared 710, huge private 526,519.
// Random pool: small shared 1,053, small private 2,727, huge shared 810, huge private 528,910.
//
// Rows for plots: "CONTENDER" in ns a page.

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "os/memfd.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

[[gnu::noinline]] void touch(std::byte* begin, uint64_t bytes, uint64_t page_bytes) {
  for (uint64_t at = 0; at < bytes; at += page_bytes)
    reinterpret_cast<volatile uint8_t*>(begin)[at] = 1;
}

enum class How { shared, shared_populated, private_copy };

// A memory file whose pages are all allocated, huge ones if asked for.
Result<os::MemoryFile> pooled_file(uint64_t bytes, bool huge) {
  auto file = os::MemoryFile::create(bytes);
  if (!file) return file;
  auto home = os::Reservation::reserve(bytes);
  if (!home) return std::unexpected(home.error());
  int error = file->map(home->begin(), bytes, 0, false);
  for (uint64_t at = 0; huge && at < bytes && error == 0; at += os::huge_page_bytes) {
    error = os::populate(home->begin() + at, os::page_bytes);
    if (error == 0) error = os::collapse(home->begin() + at, os::huge_page_bytes);
  }
  if (error == 0) error = os::populate(home->begin(), bytes);
  if (error != 0) return system_error(error, "make pages of a memory file", "bench rewire-fault");
  return file;
}

// Returns ns a page.
Result<double> pooled_faults(const os::MemoryFile& file, uint64_t bytes, uint64_t page_bytes,
                             Order order, How how) {
  auto range = os::Reservation::reserve(bytes);
  if (!range) return std::unexpected(range.error());
  const uint64_t pages = bytes / page_bytes;
  std::vector<uint64_t> places(pages);
  std::iota(places.begin(), places.end(), 0);
  std::mt19937_64 random(42);
  for (uint64_t i = pages; order == Order::random && i > 1; --i)
    std::swap(places[i - 1], places[random() % i]);
  const uint64_t step = order == Order::random ? page_bytes : bytes;
  const int flags = MAP_FIXED | (how == How::private_copy ? MAP_PRIVATE : MAP_SHARED) |
                    (how == How::shared_populated ? MAP_POPULATE : 0);
  const double start = now_seconds();
  for (uint64_t at = 0; at < bytes; at += step) {
    const uint64_t offset = order == Order::random ? places[at / page_bytes] * page_bytes : 0;
    void* const mapped = ::mmap(range->begin() + at, step, PROT_READ | PROT_WRITE, flags, file.fd(),
                                static_cast<off_t>(offset));
    if (mapped == MAP_FAILED)
      return system_error(errno, fmt::format("map {} pages", pages), "bench rewire-fault");
  }
  const double mapping_seconds = now_seconds() - start;
  const double touching_seconds = seconds_of([&] { touch(range->begin(), bytes, page_bytes); });
  return 1e9 * (how == How::shared_populated ? mapping_seconds : touching_seconds) /
         static_cast<double>(pages);
}

Result<double> anonymous_faults(uint64_t bytes, uint64_t page_bytes) {
  if (Status status = touch_machine(bytes); !status) return std::unexpected(status.error());
  auto memory = anonymous_memory(bytes, page_bytes > 4 * KiB, false);
  if (!memory) return std::unexpected(memory.error());
  return 1e9 * seconds_of([&] { touch(memory->begin(), bytes, page_bytes); }) /
         static_cast<double>(bytes / page_bytes);
}

Result<Report> run_fault(const Options& options) {
  // Small shuffled pages take a mapping each.
  const uint64_t small_bytes = options.quick ? 4 * MiB : 96 * MiB;
  const uint64_t huge_bytes = options.quick ? 16 * MiB : 1 * GiB;
  Samples samples;
  Report report;
  for (unsigned run = 0; run < options.runs_or(9); ++run) {
    for (const bool huge : {false, true}) {
      const uint64_t bytes = huge ? huge_bytes : small_bytes;
      const uint64_t page_bytes = huge ? 2 * MiB : 4 * KiB;
      const std::string kind = huge ? "huge" : "4 KiB";
      const auto fresh = anonymous_faults(bytes, page_bytes);
      if (!fresh) return std::unexpected(fresh.error());
      samples.add(fmt::format("anonymous, {}", kind), "ns a page", *fresh);
      const auto file = pooled_file(bytes, huge);
      if (!file) return std::unexpected(file.error());
      for (const Order order : {Order::sequential, Order::random}) {
        for (const How how : {How::shared, How::shared_populated, How::private_copy}) {
          const auto cost = pooled_faults(*file, bytes, page_bytes, order, how);
          if (!cost) return std::unexpected(cost.error());
          samples.add(fmt::format("{}, {}, {}", name_of(order), kind,
                                  how == How::shared             ? "shared"
                                  : how == How::shared_populated ? "shared, populated"
                                                                 : "private"),
                      "ns a page", *cost);
        }
      }
    }
  }
  samples.report(report);
  report.hash(small_bytes + huge_bytes);
  for (const auto& [name, kind] : {std::pair{"huge", "huge"}, std::pair{"small", "4 KiB"}}) {
    report.ratio(fmt::format("anonymous_vs_pooled_{}", name),
                 samples.median_of(fmt::format("anonymous, {}", kind)) /
                     samples.median_of(fmt::format("sequential pool, {}, shared", kind)));
  }
  return report;
}

const Registration registration{"rewire-fault", "what a page fault costs, hard and soft",
                                run_fault};

}  // namespace
}  // namespace penstock::bench
