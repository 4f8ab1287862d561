#include "memory/pool/page_bitmap.h"

#include <algorithm>
#include <bit>

#include "base/bits.h"

namespace penstock::pool {
namespace {

constexpr uint32_t word_bits = 64;

Result<os::ZeroedTable<uint64_t>> zeros(uint64_t bits) {
  return os::ZeroedTable<uint64_t>::open(ceil_div(bits, word_bits) + 1, "commit a table of pages",
                                         "page pool");
}

// Returns the bits of a word for the pages from `from` on: `count`, or as many as the word has.
uint64_t mask_of(uint32_t from, uint32_t count) {
  const uint64_t ones = count >= word_bits ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
  return ones << from % word_bits;
}

}  // namespace

Result<PageBitmap> PageBitmap::open(uint32_t pages) {
  PageBitmap set;
  set.pages_ = pages;
  auto words = zeros(pages);
  if (!words) return std::unexpected(std::move(words.error()));
  auto summary = zeros(ceil_div(pages, word_bits));
  if (!summary) return std::unexpected(std::move(summary.error()));
  set.words_ = std::move(*words);
  set.summary_ = std::move(*summary);
  return set;
}

bool PageBitmap::contains(PageId page) const {
  return page < pages_ && (words()[page / word_bits] >> page % word_bits & 1) != 0;
}

void PageBitmap::insert(PageRun run) {
  size_ += run.count;
  for (uint32_t at = run.first; at != run.end();) {
    const uint32_t word = at / word_bits;
    const uint64_t mask = mask_of(at, run.end() - at);
    words()[word] |= mask;
    summary()[word / word_bits] |= uint64_t{1} << word % word_bits;
    at += static_cast<uint32_t>(std::popcount(mask));
  }
}

void PageBitmap::erase(PageRun run) {
  size_ -= run.count;
  for (uint32_t at = run.first; at != run.end();) {
    const uint32_t word = at / word_bits;
    const uint64_t mask = mask_of(at, run.end() - at);
    words()[word] &= ~mask;
    if (words()[word] == 0) summary()[word / word_bits] &= ~(uint64_t{1} << word % word_bits);
    at += static_cast<uint32_t>(std::popcount(mask));
  }
}

PageRun PageBitmap::run_at(PageId first, uint32_t count_max) const {
  PageRun run{first, 0};
  if (first >= pages_) return run;
  count_max = std::min(count_max, pages_ - first);
  while (run.count < count_max) {
    const uint32_t at = run.end();
    const uint32_t left = word_bits - at % word_bits;
    const auto ones =
        static_cast<uint32_t>(std::countr_one(words()[at / word_bits] >> at % word_bits));
    run.count += std::min(ones, left);
    if (ones < left) break;
  }
  run.count = std::min(run.count, count_max);
  return run;
}

PageId PageBitmap::next_member(PageId from) const {
  if (from >= pages_) return pages_;
  uint32_t word = from / word_bits;
  if (const uint64_t here = words()[word] & mask_of(from, word_bits); here != 0)
    return word * word_bits + static_cast<uint32_t>(std::countr_zero(here));
  const uint32_t summaries =
      static_cast<uint32_t>(ceil_div(ceil_div(pages_, word_bits), word_bits));
  ++word;
  for (uint32_t above = word / word_bits; above < summaries; ++above) {
    uint64_t filled = summary()[above];
    if (above == word / word_bits) filled &= mask_of(word, word_bits);
    if (filled == 0) continue;
    const uint32_t found = above * word_bits + static_cast<uint32_t>(std::countr_zero(filled));
    return found * word_bits + static_cast<uint32_t>(std::countr_zero(words()[found]));
  }
  return pages_;
}

PageRun PageBitmap::next_run(PageId first, uint32_t count_max) const {
  const PageId member = next_member(first);
  return member == pages_ ? PageRun{} : run_at(member, count_max);
}

PageRun PageBitmap::find(uint32_t count) {
  PageRun longest;
  if (size_ == 0 || count == 0) return longest;
  PageId at = search_from_;
  const bool from_begin = at == 0;
  search_from_ = 0;
  for (uint32_t runs = 0;; ++runs) {
    const PageRun run = next_run(at, count);
    if (run.count == 0) {
      // At the end, a search that began in the middle has not seen the pages in front.
      if (from_begin || longest.count != 0) return longest;
      return find(count);
    }
    if (run.count > longest.count) longest = run;
    if (longest.count == count) return longest;
    if (runs == runs_searched_max) {
      search_from_ = run.end();
      return longest;
    }
    at = run.end();
  }
}

}  // namespace penstock::pool
