// A column of measurements, and a report on the pages that matter: a zone map tells which pages can
// have large values, a view shows only these as one array, and a function that knows nothing of
// pages runs over it. Nothing is copied, and later measurements are visible in the view.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <span>
#include <vector>

#include "penstock/base.h"
#include "penstock/rewire.h"

namespace {

using penstock::KiB;
using penstock::MiB;

constexpr size_t page_bytes = 64 * KiB;
constexpr uint64_t page_rows = page_bytes / sizeof(uint32_t);
constexpr uint32_t large = 900;

// The report, a function of an array.
uint64_t count_large(std::span<const uint32_t> rows) {
  return static_cast<uint64_t>(
      std::ranges::count_if(rows, [](uint32_t row) { return row >= large; }));
}

int fail(const penstock::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main() {
  auto pool = penstock::PagePool::open({.page_bytes = page_bytes, .bytes_max = 64 * MiB});
  if (!pool) return fail(pool.error());
  auto table = penstock::VirtualRange::open(*pool, {.bytes = 32 * MiB, .name = "measurements"});
  if (!table) return fail(table.error());
  auto pages = pool->take(static_cast<uint32_t>(table->slots()));
  if (!pages) return fail(pages.error());
  if (auto status = table->map(0, *pages); !status) return fail(status.error());

  // Slowly changing values, so that pages differ.
  const std::span rows(table->begin<uint32_t>(), table->bytes() / sizeof(uint32_t));
  for (uint64_t i = 0; i < rows.size(); ++i)
    rows[i] = static_cast<uint32_t>((i * i >> 32) % 1000 + i % 7);

  // The zone map: the largest value of each page.
  std::vector<uint64_t> hits;
  for (uint64_t slot = 0; slot < table->slots(); ++slot) {
    if (std::ranges::max(rows.subspan(slot * page_rows, page_rows)) >= large) hits.push_back(slot);
  }
  auto view = penstock::PageView::open(*table, hits);
  if (!view) return fail(view.error());
  const std::span chosen(view->begin<uint32_t>(), view->bytes() / sizeof(uint32_t));
  const uint64_t found = count_large(chosen), expected = count_large(rows);

  // A value stored to the table later is visible in the view.
  uint32_t& row = rows[hits[0] * page_rows];
  const bool was_large = row >= large;
  row = large;
  const uint64_t later = count_large(chosen);

  std::printf(
      "%llu large values in %zu of %llu pages (%llu mappings), %llu by looking at all; then %llu\n",
      static_cast<unsigned long long>(found), hits.size(),
      static_cast<unsigned long long>(table->slots()),
      static_cast<unsigned long long>(view->mappings()), static_cast<unsigned long long>(expected),
      static_cast<unsigned long long>(later));
  return found == expected && later == found + (was_large ? 0 : 1) ? 0 : 1;
}
