#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "base/access.h"
#include "base/bits.h"
#include "base/out_of_memory.h"
#include "memory/rewire/range.h"
#include "penstock/rewire.h"

namespace penstock {
VirtualRange::VirtualRange(std::shared_ptr<rewire::Range> range, std::string name)
    : core_(std::move(range)), name_(std::move(name)) {}

Result<VirtualRange> VirtualRange::open(const PagePool& pool, const Options& options) {
  return or_out_of_memory([&]() -> Result<VirtualRange> {
    if (options.bytes == 0 || options.bytes > 128 * TiB)
      return failure(ErrorCode::invalid_argument,
                     fmt::format("reserve a range of {} bytes", options.bytes), options.name,
                     "1 byte to 128 TiB");
    auto range = rewire::Range::reserve(internal::Access::core(pool),
                                        ceil_div(options.bytes, pool.page_bytes()));
    if (!range) return std::unexpected(std::move(range.error()));
    return VirtualRange(std::shared_ptr<rewire::Range>(std::move(*range)), options.name);
  });
}

Status VirtualRange::outcome(int error, const char* attempted, Slots slots) const {
  if (error == 0) return {};
  const std::string what =
      fmt::format("{} {} slots from slot {} on", attempted, slots.count, slots.first);
  if (error == EPERM)
    return failure(ErrorCode::permission, what + " in a forked child", name_,
                   "the process that opened the pool");
  return core_->mapping_error(error, what, name_,
                              "larger pages, longer runs of them, or a larger vm.max_map_count");
}

Status VirtualRange::check(const char* attempted, Slots slots) const {
  if (slots.first <= this->slots() && slots.count <= this->slots() - slots.first) return {};
  return failure(ErrorCode::invalid_argument,
                 fmt::format("{} {} slots from slot {} on", attempted, slots.count, slots.first),
                 name_, fmt::format("one of its {} slots", this->slots()));
}

Status VirtualRange::check(const char* attempted, PageRun run) const {
  const pool::PageStore& store = core_->store();
  const auto refuse = [&](const std::string& why) {
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} page {}: {}", attempted, run.first, why), name_);
  };
  if (run.count > store.pages_max() || run.first > store.pages_max() - run.count)
    return refuse("the pool has no such page");
  for (PageId page = run.first; page != run.end(); ++page) {
    if (store.references(page) == 0) return refuse(fmt::format("nobody holds page {}", page));
  }
  return {};
}

Status VirtualRange::map(uint64_t slot, const PageSet& pages, Protection protection) {
  constexpr const char* attempted = "map";
  if (Status possible = check(attempted, Slots{slot, pages.size()}); !possible) return possible;
  if (!pages.empty() && internal::Access::core(pages) != core_->shared_store())
    return failure(ErrorCode::invalid_argument,
                   fmt::format("{} pages of the pool \"{}\"", attempted,
                               internal::Access::core(pages)->name()),
                   name_, fmt::format("pages of its own, \"{}\"", core_->store().name()));
  if (pages.runs().size() == 1) return map(slot, pages.runs()[0], protection);
  std::vector<PageId> ids;
  ids.reserve(pages.size());
  for (const PageRun run : pages.runs()) {
    for (PageId page = run.first; page != run.end(); ++page) ids.push_back(page);
  }
  return map(slot, ids, protection);
}

Status VirtualRange::map(uint64_t slot, PageRun run, Protection protection) {
  constexpr const char* attempted = "map";
  const Slots slots{slot, run.count};
  if (Status possible = check(attempted, slots); !possible) return possible;
  if (Status possible = check(attempted, run); !possible) return possible;
  return outcome(core_->map(slot, run, protection), attempted, slots);
}

Status VirtualRange::map(uint64_t slot, std::span<const PageId> pages, Protection protection) {
  constexpr const char* attempted = "map";
  const Slots slots{slot, pages.size()};
  if (Status possible = check(attempted, slots); !possible) return possible;
  for (const PageId page : pages) {
    if (Status possible = check(attempted, PageRun{page, 1}); !possible) return possible;
  }
  return outcome(core_->map(slot, pages, protection), attempted, slots);
}

Status VirtualRange::unmap(Slots slots) {
  if (Status possible = check("unmap", slots); !possible) return possible;
  return outcome(core_->unmap(slots.first, slots.count), "unmap", slots);
}

Status VirtualRange::protect(Slots slots, Protection protection) {
  if (Status possible = check("protect", slots); !possible) return possible;
  return outcome(core_->protect(slots.first, slots.count, protection), "protect", slots);
}

Status VirtualRange::swap(Slots slots, uint64_t with) {
  if (Status possible = check("swap", slots); !possible) return possible;
  if (Status possible = check("swap", Slots{with, slots.count}); !possible) return possible;
  const uint64_t low = std::min(slots.first, with), high = std::max(slots.first, with);
  if (low != high && high - low < slots.count)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("swap {} slots from slot {} on with those from slot {} on",
                               slots.count, slots.first, with),
                   name_, "slots that do not overlap");
  return outcome(core_->swap(slots.first, with, slots.count), "swap", slots);
}

Status VirtualRange::move(Slots slots, uint64_t to) {
  if (Status possible = check("move", slots); !possible) return possible;
  if (Status possible = check("move to", Slots{to, slots.count}); !possible) return possible;
  return outcome(core_->move(slots.first, to, slots.count), "move", slots);
}

Status VirtualRange::populate(Slots slots) {
  if (Status possible = check("populate", slots); !possible) return possible;
  const int error = core_->populate(slots.first, slots.count);
  if (error == 0) return {};
  return system_error(error, "enter pages into the page table", name_);
}

std::byte* VirtualRange::address(uint64_t slot) const {
  return core_->address(slot);
}
uint64_t VirtualRange::bytes() const {
  return core_->bytes();
}
uint64_t VirtualRange::slots() const {
  return core_->slots();
}
size_t VirtualRange::page_bytes() const {
  return core_->page_bytes();
}
PageId VirtualRange::page(uint64_t slot) const {
  return core_->page(slot);
}
Protection VirtualRange::protection(uint64_t slot) const {
  return core_->access(slot);
}
uint64_t VirtualRange::mappings() const {
  return core_->mappings();
}

}  // namespace penstock
