// The vector without its type: functions that RewiredVector<T> calls, whether or not it was opened.

#include <utility>

#include "base/access.h"
#include "memory/rewire/vector_core.h"

namespace penstock::rewire {

VectorMemory::VectorMemory() noexcept = default;
VectorMemory::VectorMemory(std::unique_ptr<VectorCore> core) noexcept : core_(std::move(core)) {}
VectorMemory::VectorMemory(VectorMemory&&) noexcept = default;
VectorMemory& VectorMemory::operator=(VectorMemory&&) noexcept = default;
VectorMemory::~VectorMemory() = default;

Result<VectorMemory> VectorMemory::open(const PagePool& pool, const RewiredVectorOptions& options) {
  return internal::opened<VectorMemory>(
      [&] { return VectorCore::open(internal::Access::core(pool), options); });
}

Result<VectorMemory> VectorMemory::open_like_this() const {
  return internal::opened<VectorMemory>(
      [&] { return VectorCore::open(core_->store(), core_->options()); });
}

std::byte* VectorMemory::begin() const noexcept {
  return core_ == nullptr ? nullptr : core_->begin();
}
uint64_t VectorMemory::mapped_bytes() const noexcept {
  return core_ == nullptr ? 0 : core_->mapped_bytes();
}
uint64_t VectorMemory::bytes_max() const noexcept {
  return core_ == nullptr ? 0 : core_->bytes_max();
}
size_t VectorMemory::page_bytes() const noexcept {
  return core_ == nullptr ? 0 : core_->page_bytes();
}

namespace {
std::unexpected<Error> no_pool() {
  return failure(ErrorCode::invalid_argument, "grow a vector that has no pool", "rewired vector",
                 "one made by open()");
}
}  // namespace

Status VectorMemory::grow(uint64_t bytes) {
  if (core_ == nullptr) return bytes == 0 ? Status() : no_pool();
  return core_->grow(bytes);
}
Status VectorMemory::reserve(uint64_t bytes) {
  if (core_ == nullptr) return bytes == 0 ? Status() : no_pool();
  return core_->reserve(bytes);
}
void VectorMemory::shrink(uint64_t bytes) noexcept {
  if (core_ != nullptr) core_->shrink(bytes);
}
Status VectorMemory::open_gap(uint64_t at, uint64_t bytes, uint64_t size) {
  if (core_ == nullptr) return no_pool();
  const auto opened = core_->open_gap(at, bytes, size);
  return opened ? Status() : std::unexpected(opened.error());
}
void VectorMemory::close_gap(uint64_t at, uint64_t bytes, uint64_t size) noexcept {
  if (core_ != nullptr) (void)core_->close_gap(at, bytes, size);
}
Result<Spliced> VectorMemory::splice(uint64_t at, uint64_t size, VectorMemory& other,
                                     uint64_t first, uint64_t bytes, uint64_t other_size) {
  if (bytes == 0) return Spliced{};
  if (core_ == nullptr) return no_pool();
  return core_->splice(at, size, *other.core_, first, bytes, other_size);
}
Status VectorMemory::open_window() {
  if (core_ == nullptr) return no_pool();
  return core_->open_window();
}
Status VectorMemory::close_window(uint64_t size) {
  if (core_ == nullptr) return no_pool();
  return core_->close_window(size);
}

}  // namespace penstock::rewire
