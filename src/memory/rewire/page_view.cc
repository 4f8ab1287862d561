// A view is its own range, which shows pages of another one. It is made in two steps, because
// another thread may rewire the source meanwhile: first all pages get a reference, under the
// source's lock; then they are mapped, one call for each piece of neighbours, and the view's slots
// keep their own references.
//
// Costs: a call and a mapping for each piece, 2 to 10 us; 2 MiB as one huge page add less than 1,
// as small pages 60 and more, against 200 to 500 for copying as much. A single page of 4 KiB is
// copied in less time than a call takes: then only an array that must stay live, or is too large to
// copy, is a reason for a view.

#include <fmt/format.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/access.h"
#include "memory/fault/registry.h"
#include "memory/rewire/range.h"
#include "memory/rewire/read_only_range.h"
#include "memory/rewire/snapshot.h"
#include "memory/rewire/vector_core.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"

namespace penstock::rewire {

// Thread safety: all members, from any thread. Invariant: no range if there are no pages.
class ViewCore final : public ReadOnlyRange {
 public:
  static Result<std::unique_ptr<ViewCore>> open(const Range& source,
                                                std::span<const uint64_t> slots,
                                                const PageView::Options& options) {
    const std::string attempted = fmt::format("open a view of {} pages", slots.size());
    if (options.policy == ErrorPolicy::zeros)
      return failure(ErrorCode::invalid_argument, attempted, options.name,
                     "policy: stop or recover");
    std::unique_ptr<ViewCore> core(new ViewCore(source.page_bytes(), options));
    if (slots.empty()) return core;
    std::vector<PageId> pages(slots.size());
    if (const int error = source.share(slots, pages)) {
      if (error != ENOENT) return system_error(error, attempted, options.name);
      return failure(ErrorCode::invalid_argument, attempted, options.name,
                     fmt::format("slots below {} that show a page", source.slots()));
    }
    Status status = core->show(source, pages, attempted);
    source.store().release(pages);
    if (!status) return std::unexpected(std::move(status.error()));
    return core;
  }

  ~ViewCore() { stop_watching(); }

  const Range* range() const { return range_.get(); }
  size_t page_bytes() const { return page_bytes_; }

 private:
  Label label() const noexcept override { return {options_.name.c_str(), options_.policy}; }

  ViewCore(size_t page_bytes, const PageView::Options& options)
      : ReadOnlyRange("a view"), page_bytes_(page_bytes), options_(options) {}

  Status show(const Range& source, std::span<const PageId> pages, const std::string& attempted) {
    auto range = Range::reserve(source.shared_store(), pages.size());
    if (!range) return std::unexpected(std::move(range.error()));
    range_ = std::move(*range);
    if (const int error = range_->map(0, pages, Protection::read))
      return range_->mapping_error(
          error, attempted, options_.name,
          "pages that lie side by side, larger ones, or a larger vm.max_map_count");
    return watch();
  }

  const size_t page_bytes_;
  const PageView::Options options_;
};

}  // namespace penstock::rewire

// ---- the public class

namespace penstock {

Result<PageView> PageView::open(const VirtualRange& source, std::span<const uint64_t> slots,
                                const Options& options) {
  return open(*internal::Access::core(source), slots, options);
}

Result<PageView> PageView::open(const Snapshot& source, std::span<const uint64_t> pages,
                                const Options& options) {
  if (!source)
    return failure(ErrorCode::invalid_argument, "open a view of no snapshot", options.name);
  return open(internal::Access::core(source)->range(), pages, options);
}

Result<PageView> PageView::open(const rewire::VectorMemory& source, std::span<const uint64_t> pages,
                                const Options& options) {
  if (source.core() == nullptr)
    return failure(ErrorCode::invalid_argument, "open a view of a vector that has no pool",
                   options.name);
  return open(source.core()->range(), pages, options);
}

Result<PageView> PageView::open(const rewire::Range& source, std::span<const uint64_t> slots,
                                const Options& options) {
  return internal::opened<PageView>([&] { return rewire::ViewCore::open(source, slots, options); });
}

const std::byte* PageView::address() const {
  return core_->range() == nullptr ? nullptr : fault::for_this_thread(core_->range()->begin());
}
uint64_t PageView::pages() const {
  return core_->range() == nullptr ? 0 : core_->range()->slots();
}
size_t PageView::page_bytes() const {
  return core_->page_bytes();
}
PageId PageView::page(uint64_t index) const {
  return core_->range()->page(index);
}
uint64_t PageView::mappings() const {
  return core_->range() == nullptr ? 0 : core_->range()->mappings();
}

}  // namespace penstock
