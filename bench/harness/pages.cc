#include "bench/harness/pages.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <new>
#include <random>

#include "base/bits.h"
#include "base/check.h"
#include "os/limits.h"
#include "penstock/base.h"

namespace penstock::bench {

Result<os::Reservation> anonymous_memory(uint64_t bytes, bool huge, bool touched) {
  auto memory = os::Reservation::reserve(round_up(bytes, os::huge_page_bytes));
  if (!memory) return memory;
  int error = os::commit(memory->begin(), memory->bytes());
  if (error == 0) (void)os::advise_huge(memory->begin(), memory->bytes(), huge);
  if (error == 0 && touched) error = os::populate(memory->begin(), memory->bytes());
  if (error != 0) return system_error(error, fmt::format("touch {} bytes", bytes), "bench");
  return memory;
}

std::byte* map_huge(uint64_t bytes) {
  void* const mapped = ::mmap(nullptr, bytes + os::huge_page_bytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const first = static_cast<std::byte*>(mapped);
  std::byte* const begin = round_up(first, os::huge_page_bytes);
  if (begin != first) ::munmap(first, static_cast<size_t>(begin - first));
  if (begin != first + os::huge_page_bytes)
    ::munmap(begin + bytes, static_cast<size_t>(first + os::huge_page_bytes - begin));
  (void)os::advise_huge(begin, bytes, true);
  return begin;
}

Status touch_machine(uint64_t bytes) {
  const auto memory = anonymous_memory(bytes, false, true);
  if (!memory) return std::unexpected(memory.error());
  return {};
}

Status prepare_machine(uint64_t memory_bytes, const std::string& input) {
  std::error_code error;
  const uint64_t input_bytes = std::filesystem::file_size(input, error);
  if (error) return system_error(error.value(), "look at the size of", input);
  ::sync();
  const uint64_t most_bytes = os::limits().usable_bytes / 4 * 3;
  return touch_machine(
      round_up(std::min(memory_bytes + 3 * input_bytes, most_bytes), os::huge_page_bytes));
}

const char* name_of(Order order) {
  return order == Order::sequential ? "sequential pool" : "random pool";
}

std::vector<PageId> pages_of(const PageSet& set, Order order, uint32_t piece_pages) {
  std::vector<PageId> pages;
  pages.reserve(set.size());
  for (const PageRun run : set.runs()) {
    for (PageId page = run.first; page != run.end(); ++page) pages.push_back(page);
  }
  if (order == Order::sequential) return pages;
  std::vector<size_t> pieces;
  for (size_t at = 0; at < pages.size(); at += piece_pages) pieces.push_back(at);
  std::mt19937_64 random(42);
  for (size_t i = pieces.size(); i > 1; --i) std::swap(pieces[i - 1], pieces[random() % i]);
  std::vector<PageId> shuffled;
  shuffled.reserve(pages.size());
  for (const size_t at : pieces) {
    const size_t end = std::min<size_t>(at + piece_pages, pages.size());
    shuffled.insert(shuffled.end(), pages.begin() + static_cast<ptrdiff_t>(at),
                    pages.begin() + static_cast<ptrdiff_t>(end));
  }
  return shuffled;
}

void Samples::add(const std::string& what, const std::string& unit, double value) {
  const auto [place, is_new] = places_.try_emplace(what, rows_.size());
  if (is_new) rows_.push_back({what, unit, {}});
  rows_[place->second].samples.push_back(value);
}

double Samples::median_of(const std::string& what) const {
  const auto place = places_.find(what);
  PENSTOCK_CHECK(place != places_.end(), "a row that was never measured");
  return median(rows_[place->second].samples);
}

void Samples::report(Report& report) const {
  for (const Row& row : rows_) report.add(row.what, row.unit, row.samples);
}

}  // namespace penstock::bench
