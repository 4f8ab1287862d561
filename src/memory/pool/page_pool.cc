#include <fmt/format.h>

#include "base/check.h"
#include "base/out_of_memory.h"
#include "memory/pool/page_store.h"
#include "penstock/rewire.h"

namespace penstock {
const char* name_of(PageKind kind) {
  switch (kind) {
    case PageKind::automatic:
      return "automatic";
    case PageKind::small:
      return "4 KiB pages";
    case PageKind::huge:
      return "transparent huge pages";
    case PageKind::hugetlb:
      return "reserved huge pages (hugetlb)";
  }
  return "unknown";
}

// ---- the pool

Result<PagePool> PagePool::open(const Options& options) {
  return or_out_of_memory([&]() -> Result<PagePool> {
    auto store = pool::PageStore::open({.page_bytes = options.page_bytes,
                                        .bytes_max = options.bytes_max,
                                        .pages = options.kind,
                                        .prefault_bytes = options.prefault_bytes,
                                        .node = options.node,
                                        .mappings_max = options.mappings_max,
                                        .name = options.name});
    if (!store) return std::unexpected(std::move(store.error()));
    return PagePool(std::shared_ptr<pool::PageStore>(std::move(*store)));
  });
}

Result<PageSet> PagePool::take(uint32_t pages) const {
  return or_out_of_memory([&]() -> Result<PageSet> {
    PageSet set;
    set.core_ = core_;
    PageId last = no_page;
    while (set.size() < pages) {
      const PageRun run = core_->take_run(pages - set.size(), last);
      if (run.count == 0)
        return failure(
            ErrorCode::out_of_memory,
            fmt::format("take {} pages of {} bytes ({} of {} are taken, {} have memory)", pages,
                        page_bytes(), pages_taken() - set.size(), pages_max(), pages_committed()),
            name(),
            core_->is_inherited()               ? "the process that opened the pool"
            : pages > pages_max()               ? "a larger bytes_max"
            : pages_free() + set.size() < pages ? "to drop pages, or a larger bytes_max"
                                                : "a smaller pool: the system has no memory left");
      set.push_back(run);
      last = run.end() - 1;
    }
    return set;
  });
}

size_t PagePool::page_bytes() const {
  return core_->page_bytes();
}
PageKind PagePool::kind() const {
  return core_->pages();
}
uint64_t PagePool::limit() const {
  return uint64_t{pages_max()} * page_bytes();
}
uint32_t PagePool::pages_max() const {
  return core_->pages_max();
}
uint32_t PagePool::pages_free() const {
  return core_->pages_free();
}
uint32_t PagePool::pages_taken() const {
  return core_->pages_taken();
}
uint32_t PagePool::pages_committed() const {
  return core_->pages_committed();
}
uint64_t PagePool::memory_bytes() const {
  return uint64_t{pages_committed()} * page_bytes();
}
uint64_t PagePool::mappings() const {
  return core_->mappings();
}
uint64_t PagePool::mappings_max() const {
  return core_->mappings_max();
}
const std::string& PagePool::name() const {
  return core_->name();
}

Status PagePool::prefault(uint32_t pages) const {
  const int error = core_->prefault(pages);
  if (error == 0) return {};
  return system_error(
      error,
      fmt::format("prefault {} pages of {} bytes ({} are free)", pages, page_bytes(), pages_free()),
      name());
}
void PagePool::trim() const {
  core_->trim();
}

// ---- sets of pages

PageSet::PageSet(PageSet&& other) noexcept
    : core_(std::move(other.core_)),
      runs_(std::move(other.runs_)),
      size_(std::exchange(other.size_, 0)) {
  other.runs_.clear();
}

PageSet& PageSet::operator=(PageSet&& other) noexcept {
  if (this != &other) {
    clear();
    core_ = std::move(other.core_);
    runs_ = std::move(other.runs_);
    size_ = std::exchange(other.size_, 0);
    other.runs_.clear();
  }
  return *this;
}

PageSet::~PageSet() {
  clear();
}

void PageSet::clear() {
  for (const PageRun run : runs_) core_->release(run);
  runs_.clear();
  size_ = 0;
}

PageId PageSet::operator[](uint32_t index) const {
  PENSTOCK_CHECK(index < size_, "a page that the set does not have");
  for (const PageRun run : runs_) {
    if (index < run.count) return run.first + index;
    index -= run.count;
  }
  return no_page;
}

std::span<std::byte> PageSet::bytes(uint32_t index) const {
  return {core_->home((*this)[index]), core_->page_bytes()};
}

void PageSet::push_back(PageRun run) {
  size_ += run.count;
  if (!runs_.empty() && runs_.back().end() == run.first)
    runs_.back().count += run.count;
  else
    runs_.push_back(run);
}

PageSet PageSet::split(uint32_t pages) {
  PENSTOCK_CHECK(pages <= size_, "a set of pages was cut beyond its end");
  PageSet rest;
  rest.core_ = core_;
  uint32_t kept = 0;
  size_t at = 0;
  while (at < runs_.size() && kept + runs_[at].count <= pages) kept += runs_[at++].count;
  if (kept < pages) {  // a run that is cut itself
    PageRun& cut = runs_[at++];
    const uint32_t head = pages - kept;
    rest.push_back({cut.first + head, cut.count - head});
    cut.count = head;
  }
  for (size_t i = at; i < runs_.size(); ++i) rest.push_back(runs_[i]);
  runs_.resize(at);
  size_ = pages;
  return rest;
}

void PageSet::append(PageSet&& other) {
  if (other.empty()) return;
  PENSTOCK_CHECK(core_ == nullptr || core_ == other.core_,
                 "pages of two pools cannot be in one set");
  core_ = other.core_;
  for (const PageRun run : other.runs_) push_back(run);
  other.runs_.clear();
  other.size_ = 0;
}

}  // namespace penstock
