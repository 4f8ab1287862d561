#pragma once

// A range whose pages can only be read: the common part of snapshots and views.

#include <cstddef>
#include <memory>
#include <utility>

#include "memory/fault/registry.h"
#include "memory/rewire/range.h"
#include "memory/stream/stream_handler.h"
#include "penstock/base.h"

namespace penstock::rewire {

// Thread safety: all members, from any thread. Invariants: the range always shows the same pages,
// and nobody stores to them. Its policy is stop or recover.
class ReadOnlyRange : public stream::StreamHandler {
 public:
  fault::Outcome on_fault(const fault::Fault& fault) noexcept final;
  Result<size_t> prepare(std::byte* address, size_t bytes, fault::Access access) final;

 protected:
  // `kind`: "a snapshot", for messages.
  explicit ReadOnlyRange(const char* kind, std::unique_ptr<Range> range = nullptr)
      : range_(std::move(range)), kind_(kind) {}
  // Makes writes errors from now on. REQUIRES: there is a range, which shows all of its pages.
  Status watch() { return StreamHandler::watch(range_->begin(), range_->bytes()); }

  std::unique_ptr<Range> range_;

 private:
  const char* const kind_;
};

}  // namespace penstock::rewire
