// The organization of free pages, which gives a taker of many pages neighbours.
//
// A list of free pages pushes and pops in a few nanoseconds. But its pages come back in the order
// in which they were given, and after a while neighbours in the list are no neighbours in the file.
// Mapping a thousand of them then takes a thousand system calls and, worse, a thousand of the 65530
// mappings that a process may have; a thousand neighbours need one of each. (The paper's figure 5
// measures this with random assignment: two million calls for a gigabyte of small pages.)
//
// So the free pages are two sets of bits, whose words are searched for runs: the pages with memory
// (ready) and those without (blank). They are kept apart because a page costs far more than a
// mapping: finding and clearing 2 MiB takes the kernel 200 to 500 us, mapping one more run 2 to 10.
// Hence the order in which take_run() searches:
//
//   1. ready, right behind the page that the caller names: no more calls or mappings;
//   2. ready, a run of the requested length, or of at least 2 MiB;
//   3. blank, behind the caller's page, or else the longer of a run of ready and one of blank ones.
//
// So with pages of 2 MiB a page with memory always goes before one without. With pages of 4 KiB,
// where memory costs 0.3 us a page and a mapping 2, single ready pages go last.
//
// References are counted in a table beside the file, without the lock: showing a page once more, or
// once less, is one atomic addition. Only dropping a page's last reference takes the lock, once for
// each run of pages that become free with it. Nobody can raise a count from 0: only holders share a
// page, and a free page is found only in the sets.
//
// Memory. MADV_COLLAPSE makes a page of 2 MiB one huge page, even if the system's huge pages for
// files are off (Linux 6.1). This happens at home, in one view of the whole file that always
// exists; a view elsewhere then takes one entry of the page table, and 12 us, for 2 MiB. Committing
// happens outside of the lock, on pages that are in no set meanwhile.
//
// A forked child inherits the ranges but not the home view, and its copy of the sets knows nothing
// of the parent's next steps: if it took a page, both would write it; if it discarded one, the
// parent's data would be gone. So take_run(), map(), release() and trim() do nothing there
// (os/generation.h).

#include "memory/pool/page_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include "base/bits.h"
#include "base/check.h"
#include "memory/pool/huge_pages.h"
#include "os/limits.h"
#include "os/numa.h"

namespace penstock::pool {
namespace {

// Bytes that are committed or discarded in one go, which is the longest wait of others.
constexpr uint64_t batch_bytes = 64 * MiB;

uint64_t default_mappings_max() {
  constexpr uint64_t at_least = 16;
  const os::Mappings now = os::mappings();
  return std::max(at_least, (now.max - std::min(now.used, now.max)) / 5 * 4);
}

}  // namespace

// ---- opening

Result<std::unique_ptr<PageStore>> PageStore::open(const Options& given) {
  auto refuse = [&](std::string attempted, std::string hint = {}) {
    return failure(ErrorCode::invalid_argument, std::move(attempted), given.name, std::move(hint));
  };
  Options options = given;
  if (!std::has_single_bit(options.page_bytes) || options.page_bytes < os::page_bytes)
    return refuse(fmt::format("open a pool of pages of {} bytes", options.page_bytes),
                  "a power of two, 4096 or more");
  if (options.bytes_max == 0)
    options.bytes_max =
        std::max<uint64_t>(round_down(os::machine_memory().memory_bytes, options.page_bytes), 1);
  if (ceil_div(options.bytes_max, options.page_bytes) >= pages_limit ||
      options.bytes_max > 128 * TiB)
    return refuse(fmt::format("open a pool of {} bytes in pages of {}", options.bytes_max,
                              options.page_bytes),
                  fmt::format("fewer than {} pages", pages_limit));
  if (options.prefault_bytes > round_up(options.bytes_max, options.page_bytes))
    return refuse(
        fmt::format("prefault {} bytes of {}", options.prefault_bytes, options.bytes_max));
  if (options.node >= 0 && static_cast<uint32_t>(options.node) >= os::numa_nodes_max())
    return refuse(fmt::format("take memory of NUMA node {}", options.node),
                  fmt::format("a node below {}", os::numa_nodes_max()));

  if (options.page_bytes < os::huge_page_bytes) {
    if (options.pages == PageKind::hugetlb)
      return refuse("make small pages of reserved huge pages", "page_bytes of 2 MiB or more");
    return open_as(options, PageKind::small);
  }
  switch (options.pages) {
    case PageKind::small:
    case PageKind::hugetlb:
      return open_as(options, options.pages);
    case PageKind::huge:
      if (!file_pages_collapse())
        return failure(ErrorCode::unsupported, "make huge pages of a memory file", options.name,
                       "Linux 6.1 with transparent huge pages, or pages of another kind");
      return open_as(options, PageKind::huge);
    case PageKind::automatic:
      break;
  }
  if (auto reserved = open_as(options, PageKind::hugetlb)) return reserved;
  return open_as(options, file_pages_collapse() ? PageKind::huge : PageKind::small);
}

Result<std::unique_ptr<PageStore>> PageStore::open_as(const Options& options, PageKind pages) {
  const auto pages_max = static_cast<uint32_t>(ceil_div(options.bytes_max, options.page_bytes));
  const uint64_t bytes = pages_max * uint64_t{options.page_bytes};
  auto home = os::Reservation::reserve(bytes, std::max(options.page_bytes, os::huge_page_bytes));
  if (!home) return std::unexpected(std::move(home.error()));
  auto file =
      os::MemoryFile::create(bytes, pages == PageKind::hugetlb ? os::MemoryFile::Pages::hugetlb
                                                               : os::MemoryFile::Pages::small);
  if (!file) return std::unexpected(std::move(file.error()));
  int error = file->map(home->begin(), bytes, 0, false);
  if (error == 0) error = os::exclude_from_fork(home->begin(), bytes);
  if (error != 0) {
    return system_error(error, fmt::format("map {} bytes of {}", bytes, name_of(pages)),
                        options.name,
                        pages == PageKind::hugetlb ? "more reserved pages (vm.nr_hugepages)" : "");
  }
  if (options.node >= 0) {
    error = os::prefer_node(home->begin(), bytes, static_cast<uint32_t>(options.node));
    if (error != 0)
      return system_error(error, fmt::format("take memory of NUMA node {}", options.node),
                          options.name);
  }

  auto counts = os::ZeroedTable<std::atomic<uint32_t>>::open(pages_max, "commit the table of pages",
                                                             options.name);
  if (!counts) return std::unexpected(std::move(counts.error()));
  auto ready = PageBitmap::open(pages_max);
  if (!ready) return std::unexpected(std::move(ready.error()));
  auto blank = PageBitmap::open(pages_max);
  if (!blank) return std::unexpected(std::move(blank.error()));

  std::unique_ptr<PageStore> store(
      new PageStore(options, pages_max, pages, std::move(*file), std::move(*home)));
  store->counts_ = std::move(*counts);
  store->ready_ = std::move(*ready);
  store->blank_ = std::move(*blank);
  store->blank_.insert({0, pages_max});
  store->free_.store(pages_max, std::memory_order_relaxed);
  store->mappings_max_ = options.mappings_max != 0 ? options.mappings_max : default_mappings_max();
  const auto wanted = static_cast<uint32_t>(ceil_div(options.prefault_bytes, options.page_bytes));
  if ((error = store->prefault(wanted)) != 0)
    return system_error(error, fmt::format("prefault {} bytes", options.prefault_bytes),
                        options.name);
  return store;
}

PageStore::PageStore(const Options& options, uint32_t pages_max, PageKind pages,
                     os::MemoryFile file, os::Reservation home)
    : page_bytes_(options.page_bytes),
      pages_max_(pages_max),
      pages_(pages),
      name_(options.name),
      file_(std::move(file)),
      home_(std::move(home)) {}

// ---- taking pages

PageStore::Found PageStore::find_locked(uint32_t count, PageId after, bool blank_too) noexcept {
  const PageId behind = after == no_page ? pages_max_ : after + 1;
  if (const PageRun run = ready_.run_at(behind, count); run.count != 0) return {run, true};
  const PageRun ready = ready_.find(count);
  const auto enough = static_cast<uint32_t>(
      std::clamp<uint64_t>(os::huge_page_bytes / page_bytes_, 1, std::max(count, 1u)));
  if (ready.count >= enough || !blank_too) return {ready, true};
  if (const PageRun run = blank_.run_at(behind, count); run.count != 0 && run.count >= ready.count)
    return {run, false};
  const PageRun blank = blank_.find(count);
  return blank.count > ready.count ? Found{blank, false} : Found{ready, true};
}

PageStore::Found PageStore::remove_once(uint32_t count, PageId after, bool blank_too) noexcept {
  const os::SemaphoreLock lock(mutex_);
  const Found found = find_locked(count, after, blank_too);
  (found.has_memory ? ready_ : blank_).erase(found.run);
  free_.fetch_sub(found.run.count, std::memory_order_relaxed);
  return found;
}

PageStore::Found PageStore::remove(uint32_t count, PageId after, bool blank_too) noexcept {
  const Found found = remove_once(count, after, blank_too);
  if (found.run.count != 0) return found;
  // prefault() may have been committing the last free pages.
  const os::SemaphoreLock lock(prefaulting_);
  return remove_once(count, after, blank_too);
}

// Functions from here on may stand on the fault path.
PageRun PageStore::take_run(uint32_t count, PageId after) noexcept {
  if (count == 0 || is_inherited()) return {};
  // The second round takes pages that have memory already, if the system gives no more.
  for (const bool blank_too : {true, false}) {
    Found found = remove(count, after, blank_too);
    if (!found.has_memory) {
      const uint32_t got = commit(found.run);
      if (got < found.run.count) give_back({found.run.first + got, found.run.count - got}, false);
      found.run.count = got;
    }
    if (found.run.count == 0) continue;
    for (PageId page = found.run.first; page != found.run.end(); ++page)
      count_of(page).store(1, std::memory_order_relaxed);
    return found.run;
  }
  return {};
}

uint32_t PageStore::commit(PageRun run) noexcept {
  const auto batch_pages =
      static_cast<uint32_t>(std::max<uint64_t>(os::huge_page_bytes / page_bytes_, 1));
  uint32_t done = 0;
  while (done < run.count) {
    const uint32_t pages = std::min(batch_pages, run.count - done);
    std::byte* const at = home(run.first + done);
    const uint64_t bytes = pages * uint64_t{page_bytes_};
    int error = 0;
    for (uint64_t offset = 0; pages_ == PageKind::huge && offset < bytes && error == 0;
         offset += os::huge_page_bytes) {
      // A piece of a file without any page is not collapsed. If the system has no huge page, small
      // ones do.
      error = os::populate(at + offset, os::page_bytes);
      if (error == 0) (void)os::collapse(at + offset, os::huge_page_bytes);
    }
    if (error == 0) error = os::populate(at, bytes);
    if (error != 0) {
      (void)os::discard_file_pages(at, bytes);  // the part that was committed
      break;
    }
    done += pages;
  }
  committed_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

void PageStore::give_back(PageRun run, bool has_memory) noexcept {
  if (run.count == 0) return;
  const os::SemaphoreLock lock(mutex_);
  (has_memory ? ready_ : blank_).insert(run);
  free_.fetch_add(run.count, std::memory_order_relaxed);
}

// ---- references

void PageStore::retain(PageRun run) noexcept {
  if (is_inherited()) return;
  for (PageId page = run.first; page != run.end(); ++page) {
    // Relaxed: the caller has the page already, and learned of it in some ordered way.
    const uint32_t before = count_of(page).fetch_add(1, std::memory_order_relaxed);
    PENSTOCK_CHECK(before != 0, "a page was shared that nobody holds");
  }
}

void PageStore::release(PageRun run) noexcept {
  if (is_inherited()) return;
  PageRun freed{run.first, 0};
  for (PageId page = run.first; page != run.end(); ++page) {
    // release: this holder's actions come before those of the next one, who finds the page in the
    // sets, or sees in references() that it is alone; acquire: the same, for us.
    const uint32_t before = count_of(page).fetch_sub(1, std::memory_order_acq_rel);
    PENSTOCK_CHECK(before != 0, "a page was released that nobody holds");
    if (before == 1) {
      ++freed.count;
      continue;
    }
    give_back(freed, true);
    freed = {page + 1, 0};
  }
  give_back(freed, true);
}

void PageStore::retain(std::span<const PageId> pages) noexcept {
  for (const PageId page : pages) retain(PageRun{page, 1});
}

void PageStore::release(std::span<const PageId> pages) noexcept {
  for (size_t at = 0; at < pages.size();) {
    PageRun run{pages[at++], 1};
    while (at < pages.size() && pages[at] == run.end()) ++run.count, ++at;
    release(run);
  }
}

uint32_t PageStore::references(PageId page) const noexcept {
  return count_of(page).load(std::memory_order_acquire);
}

// ---- mappings

int PageStore::map(std::byte* to, PageRun run, Protection access, bool populate) noexcept {
  if (is_inherited()) return EPERM;
  return file_.map(to, uint64_t{run.count} * page_bytes_, uint64_t{run.first} * page_bytes_, access,
                   populate);
}

bool PageStore::claim_mappings(uint64_t more) noexcept {
  uint64_t now = mappings_.load(std::memory_order_relaxed);
  do {
    if (more > mappings_max_ - now) return false;
  } while (!mappings_.compare_exchange_weak(now, now + more, std::memory_order_relaxed));
  return true;
}

void PageStore::return_mappings(uint64_t fewer) noexcept {
  const uint64_t before = mappings_.fetch_sub(fewer, std::memory_order_relaxed);
  PENSTOCK_CHECK(before >= fewer, "more mappings were returned than claimed");
}

// ---- memory

int PageStore::prefault(uint32_t pages) noexcept {
  if (is_inherited()) return EPERM;
  const auto batch_pages = static_cast<uint32_t>(std::max<uint64_t>(batch_bytes / page_bytes_, 1));
  while (true) {
    const os::SemaphoreLock in_hand(prefaulting_);
    PageRun run;
    {
      const os::SemaphoreLock lock(mutex_);
      if (ready_.size() >= pages) return 0;
      run = blank_.next_run(0, std::min(batch_pages, pages - ready_.size()));
      if (run.count == 0) return ENOMEM;
      blank_.erase(run);
      free_.fetch_sub(run.count, std::memory_order_relaxed);
    }
    const uint32_t got = commit(run);
    give_back({run.first, got}, true);
    if (got < run.count) {
      give_back({run.first + got, run.count - got}, false);
      return ENOMEM;
    }
  }
}

void PageStore::trim() noexcept {
  if (is_inherited()) return;
  const auto batch_pages = static_cast<uint32_t>(std::max<uint64_t>(batch_bytes / page_bytes_, 1));
  PageId at = 0;
  while (true) {
    const os::SemaphoreLock lock(mutex_);
    const PageRun run = ready_.next_run(at, batch_pages);
    if (run.count == 0) return;
    at = run.end();
    if (os::discard_file_pages(home(run.first), run.count * uint64_t{page_bytes_}) != 0) continue;
    ready_.erase(run);
    blank_.insert(run);
    committed_.fetch_sub(run.count, std::memory_order_relaxed);
  }
}

}  // namespace penstock::pool
