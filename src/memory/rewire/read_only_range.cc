#include "memory/rewire/read_only_range.h"

#include <fmt/format.h>

#include <algorithm>

#include "memory/stream/recovery.h"

namespace penstock::rewire {

// Fault path. All slots show a readable page, so only writes fault.
fault::Outcome ReadOnlyRange::on_fault(const fault::Fault& fault) noexcept {
  if (fault.access != fault::Access::write) return fault::Outcome::decline;
  stream::WrittenFailure failure(label().name);
  failure.write(ErrorCode::invalid_argument, "write to byte %llu: %s can only be read",
                static_cast<unsigned long long>(fault.address - range_->begin()), kind_);
  give_up(failure, fault.context);
  return fault::Outcome::retry;
}

Result<size_t> ReadOnlyRange::prepare(std::byte* address, size_t bytes, fault::Access access) {
  if (access == fault::Access::write)
    return failure(ErrorCode::invalid_argument,
                   fmt::format("write to {}: it can only be read", kind_), label().name);
  return std::min<size_t>(bytes, static_cast<size_t>(range_->end() - address));
}

}  // namespace penstock::rewire
