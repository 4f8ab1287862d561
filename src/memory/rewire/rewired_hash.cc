// The directory of a rewired hash table: see include/penstock/containers.h for its use.
//
// A directory indexed by the leading bits of the hash, as in textbooks, must be spread out when it
// doubles: each slot becomes two neighbours, and every one of them has to be mapped anew. Indexed
// by the trailing bits, the doubled directory is the old one and a copy of it behind: the old half
// stays untouched, and each run of pages in it is copied with one call and one mapping.
//
// So runs are valuable. When the bucket of slot s is split, its new page is shown in slot s + 2^l,
// and is, if that page is free, the one at the same distance behind the page of slot 0. When all
// buckets of one depth have been split, which evenly spread hashes bring about soon, all slots show
// one run of pages, and the table takes a single mapping; until then it takes one for every three
// slots or so.

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/access.h"
#include "base/check.h"
#include "base/out_of_memory.h"
#include "memory/rewire/range.h"
#include "penstock/containers.h"

namespace penstock::rewire {
namespace {

constexpr uint64_t slots_limit = uint64_t{1} << 25;  // bits of the hash left for the directory

}  // namespace

Result<HashDirectory> HashDirectory::open(const PagePool& pool, const RewiredHashOptions& options) {
  return or_out_of_memory([&]() -> Result<HashDirectory> {
    HashDirectory directory;
    directory.name_ = options.name;
    directory.slots_max_ =
        options.slots_max != 0 ? options.slots_max : std::bit_ceil(4 * uint64_t{pool.pages_max()});
    if (options.slots_max == 0) directory.slots_max_ = std::min(directory.slots_max_, slots_limit);
    if (!std::has_single_bit(options.buckets) || !std::has_single_bit(directory.slots_max_) ||
        options.buckets > directory.slots_max_ || directory.slots_max_ > slots_limit)
      return failure(ErrorCode::invalid_argument,
                     fmt::format("open a hash table of {} buckets, {} slots at most",
                                 options.buckets, directory.slots_max_),
                     options.name, fmt::format("powers of two, {} at most", slots_limit));
    auto range = Range::reserve(internal::Access::core(pool), directory.slots_max_);
    if (!range) return std::unexpected(std::move(range.error()));
    directory.range_ = std::move(*range);
    directory.base_ = directory.range_->begin();
    directory.page_shift_ = static_cast<uint32_t>(std::countr_zero(pool.page_bytes()));

    PageId last = no_page;
    for (uint64_t slot = 0; slot < options.buckets;) {
      const auto wanted = static_cast<uint32_t>(options.buckets - slot);
      const PageRun run = internal::Access::core(pool)->take_run(wanted, last);
      if (run.count == 0) {
        return failure(ErrorCode::out_of_memory,
                       fmt::format("take {} pages for buckets", options.buckets), options.name,
                       "fewer buckets, or a larger pool");
      }
      const int error = directory.range_->map(slot, run, Protection::read_write);
      internal::Access::core(pool)->release(run);
      if (Status status = directory.error_of(error, "map its buckets"); !status)
        return std::unexpected(std::move(status.error()));
      slot += run.count;
      last = run.end() - 1;
    }
    directory.offset_mask_ = (options.buckets - 1) << directory.page_shift_;
    return directory;
  });
}

Status HashDirectory::error_of(int error, const char* attempted) const {
  if (error == 0) return {};
  return range_->mapping_error(
      error, fmt::format("{} ({} slots)", attempted, slots()), name_,
      "larger pages, more buckets from the beginning, or a larger vm.max_map_count");
}

Result<std::byte*> HashDirectory::split(uint64_t hash, uint32_t bucket_depth) {
  if (bucket_depth == depth()) {
    if (Status status = double_slots(); !status) return std::unexpected(std::move(status.error()));
  }
  const uint64_t step = uint64_t{1} << bucket_depth;
  const uint64_t low = hash & (step - 1);  // the lowest slot, which keeps its page
  if (Status status = show_new(low + step, slots() / (2 * step), 2 * step); !status)
    return std::unexpected(std::move(status.error()));
  return bucket(low + step);
}

// Shows one new page in `count` slots.
Status HashDirectory::show_new(uint64_t first_slot, uint64_t count, uint64_t step) {
  pool::PageStore& store = range_->store();
  const PageId before = range_->page(first_slot);
  // The page at which slots and pages run in step, if it is free.
  const PageRun page = store.take_run(1, range_->page(0) + static_cast<PageId>(first_slot) - 1);
  if (page.count == 0)
    return failure(
        ErrorCode::out_of_memory,
        fmt::format("split a bucket: none of the pool's {} pages is free", store.pages_max()),
        name_, "a larger pool");
  const int error = range_->map_every(first_slot, count, step, page.first, Protection::read_write);
  if (error != 0 && range_->page(first_slot) != before) {
    // The kernel refused in the middle; the undo needs no mapping that was not there a moment ago.
    PENSTOCK_CHECK(range_->map_every(first_slot, count, step, before, Protection::read_write) == 0,
                   "a bucket's split could not be taken back");
  }
  store.release(page);
  return error_of(error, "split a bucket");
}

Status HashDirectory::double_slots() {
  const uint64_t now = slots();
  if (2 * now > slots_max_)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("make its directory larger than {} slots", slots_max_), name_,
                   "a hash that spreads the keys, a larger slots_max, or larger pages");
  for (uint64_t slot = 0; slot < now;) {
    const PageRun run = range_->run_at(slot, now - slot);
    if (const int error = range_->map(now + slot, run, Protection::read_write)) {
      Status status = error_of(error, "double its directory");
      PENSTOCK_CHECK(slot == 0 || range_->unmap(now, slot) == 0,
                     "a directory's doubling could not be taken back");
      return status;
    }
    slot += run.count;
  }
  offset_mask_ = (2 * now - 1) << page_shift_;
  return {};
}

uint64_t HashDirectory::mappings() const {
  return range_->mappings();
}

}  // namespace penstock::rewire
