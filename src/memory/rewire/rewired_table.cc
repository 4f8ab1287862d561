// The public classes of tables.

#include <utility>

#include "base/access.h"
#include "base/out_of_memory.h"
#include "memory/rewire/changes.h"
#include "memory/rewire/snapshot.h"
#include "memory/rewire/table_core.h"
#include "penstock/rewire.h"

namespace penstock {

// ---- Snapshot

const std::byte* Snapshot::address() const {
  return fault::for_this_thread(core_->range().begin());
}
uint64_t Snapshot::bytes() const {
  return core_->range().bytes();
}
uint64_t Snapshot::pages() const {
  return core_->range().slots();
}
size_t Snapshot::page_bytes() const {
  return core_->range().page_bytes();
}
uint64_t Snapshot::epoch() const {
  return core_->epoch();
}
PageId Snapshot::page(uint64_t index) const {
  return core_->range().page(index);
}
Status Snapshot::keep_while(pid_t child) const {
  return rewire::SnapshotCore::keep_while(core_, child);
}

// ---- Changes

Result<std::byte*> Changes::page(uint64_t index) {
  return core_->page(index);
}
uint64_t Changes::size() const {
  return core_->size();
}
Status Changes::apply() {
  return core_->apply(true);
}
Status Changes::apply_anyway() {
  return core_->apply(false);
}
void Changes::clear() {
  core_->clear();
}

// ---- RewiredTable

RewiredTable::RewiredTable(std::shared_ptr<rewire::TableCore> core) : core_(std::move(core)) {}
RewiredTable::RewiredTable(RewiredTable&&) noexcept = default;

RewiredTable& RewiredTable::operator=(RewiredTable&& other) noexcept {
  if (this != &other) {
    if (core_) core_->close();
    core_ = std::move(other.core_);
  }
  return *this;
}

RewiredTable::~RewiredTable() {
  if (core_) core_->close();
}

Result<RewiredTable> RewiredTable::open(const PagePool& pool, const Options& options) {
  return internal::opened<RewiredTable>(
      [&] { return rewire::TableCore::open(internal::Access::core(pool), options); });
}

std::byte* RewiredTable::address() const {
  return fault::for_this_thread(core_->begin());
}
uint64_t RewiredTable::bytes() const {
  return core_->bytes();
}
uint64_t RewiredTable::pages() const {
  return core_->slots();
}
size_t RewiredTable::page_bytes() const {
  return core_->page_bytes();
}

Result<Snapshot> RewiredTable::snapshot() {
  return internal::opened<Snapshot>([&] { return core_->snapshot(); });
}
Snapshot RewiredTable::latest() const {
  return Snapshot(core_->latest());
}
uint64_t RewiredTable::epoch() const {
  return core_->epoch();
}

Result<RewiredTable::Merged> RewiredTable::merge_equal_pages() {
  return core_->merge_equal_pages();
}

Result<Changes> RewiredTable::changes() {
  return changes(Snapshot());
}

Result<Changes> RewiredTable::changes(const Snapshot& base) {
  return or_out_of_memory([&]() -> Result<Changes> {
    const Options& options = core_->options();
    if (options.detection == WriteDetection::asynchronous)
      return failure(ErrorCode::unsupported, "collect changes of a table", options.name,
                     "WriteDetection::signal");
    if (Status status = core_->check_owned("collect changes of a table"); !status)
      return std::unexpected(std::move(status.error()));
    if (base && &internal::Access::core(base)->table() != core_.get())
      return failure(ErrorCode::invalid_argument, "collect changes to a snapshot", options.name,
                     "a snapshot of this table");
    return Changes(std::make_unique<rewire::ChangesCore>(core_, internal::Access::core(base)));
  });
}

Status RewiredTable::prepare_write(void* address, size_t bytes) const {
  return core_->prepare_write(address, bytes);
}
RewiredTable::Counts RewiredTable::counts() const {
  return core_->counts();
}

}  // namespace penstock
