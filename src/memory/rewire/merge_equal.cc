// Merge-on-write: the opposite of copy-on-write. Pages with the same contents are stored once.
//
// Comparing all pages would stop the writers. Instead a snapshot is taken first, in microseconds,
// and compared while writers go on: its contents do not change. A slot of the table whose page is
// still the snapshot's has not been written since, because a write would have mapped a copy. So it
// may show any page with the same contents, swapped under the lock under which a write would copy
// it: readers cannot tell the two apart, and a later writer finds a shared page as after a
// snapshot.
//
// Equal pages are found by a hash of 64 bits, sorted, and then compared byte by byte. Two contents
// with one hash are kept apart (the second is compared with each of the first's kinds).
//
// Costs: the table is read once, and every equal page twice more. Each merged page takes a system
// call (5 us), and in the worst case its own mapping, which the table claimed when it was opened.
// The first write to a merged page costs a copy.

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "memory/rewire/snapshot.h"
#include "memory/rewire/table_core.h"

namespace penstock::rewire {

namespace {

uint64_t hash_of(const std::byte* page, size_t bytes) {
  constexpr uint64_t factor = 0x9e3779b97f4a7c15;
  // Eight chains, so that the multiplications of one do not wait for those of another.
  uint64_t chains[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  for (size_t at = 0; at < bytes; at += sizeof chains) {
    uint64_t words[8];
    std::memcpy(words, page + at, sizeof words);
    for (int i = 0; i < 8; ++i) {
      chains[i] = (chains[i] ^ words[i]) * factor;
      chains[i] ^= chains[i] >> 32;
    }
  }
  uint64_t hash = 0;
  for (const uint64_t chain : chains) hash = mix64(hash ^ chain);
  return hash;
}

struct Hashed {
  uint64_t hash;
  uint64_t slot;
};

// Returns, for each slot, the page of the first slot with the same contents.
std::vector<PageId> first_of_equals(const Range& frozen) {
  pool::PageStore& store = frozen.store();
  const size_t page_bytes = frozen.page_bytes();
  std::vector<Hashed> hashes(frozen.slots());
  for (uint64_t slot = 0; slot < hashes.size(); ++slot)
    hashes[slot] = {hash_of(store.home(frozen.page(slot)), page_bytes), slot};
  std::sort(hashes.begin(), hashes.end(), [](const Hashed& a, const Hashed& b) {
    return std::pair(a.hash, a.slot) < std::pair(b.hash, b.slot);
  });

  std::vector<PageId> firsts(frozen.slots());
  std::vector<PageId> kinds;  // one page for each contents with this hash
  for (size_t i = 0; i < hashes.size(); ++i) {
    if (i == 0 || hashes[i].hash != hashes[i - 1].hash) kinds.clear();
    const PageId page = frozen.page(hashes[i].slot);
    const auto kind = std::find_if(kinds.begin(), kinds.end(), [&](PageId other) {
      return page == other || std::memcmp(store.home(page), store.home(other), page_bytes) == 0;
    });
    firsts[hashes[i].slot] = kind == kinds.end() ? page : *kind;
    if (kind == kinds.end()) kinds.push_back(page);
  }
  return firsts;
}

}  // namespace

Result<RewiredTable::Merged> TableCore::merge_equal_pages() {
  if (image_)
    return failure(ErrorCode::unsupported, "merge equal pages of a table", options_.name,
                   "WriteDetection::signal");
  auto frozen = take_snapshot(false);
  if (!frozen) return std::unexpected(std::move(frozen.error()));
  const std::vector<PageId> firsts = first_of_equals((*frozen)->range());

  RewiredTable::Merged merged;
  std::unordered_map<PageId, uint32_t> replaced;  // number of the snapshot's slots that show it
  for (uint64_t slot = 0; slot < slots_; ++slot) {
    const PageId page = (*frozen)->range().page(slot);
    if (firsts[slot] == page) continue;
    if (const int error = replace_equal(slot, page, firsts[slot])) {
      if (error == ESTALE) continue;
      return live_->mapping_error(error, "map an equal page", options_.name);
    }
    ++merged.pages_equal;
    replaced.try_emplace(page, 0);
  }
  for (uint64_t slot = 0; slot < slots_; ++slot) {
    const auto found = replaced.find((*frozen)->range().page(slot));
    if (found != replaced.end()) ++found->second;
  }
  // Pages that only the snapshot shows are freed with it.
  for (const auto& [page, shown] : replaced)
    merged.pages_freed += store_->references(page) == shown;
  return merged;
}

// Returns ESTALE if the slot was written since.
int TableCore::replace_equal(uint64_t slot, PageId page, PageId equal) noexcept {
  const Gate::Visit visit(gate_);
  const os::SemaphoreLock lock(stripe_of(slot));
  if (live_->page(slot) != page) return ESTALE;
  return show(slot, {&equal, 1}, Protection::read);
}

}  // namespace penstock::rewire
