#include "memory/stream/stream_handler.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/check.h"

namespace penstock::stream {

StreamHandler::StreamHandler() : process_(getpid()) {}

StreamHandler::~StreamHandler() {
  PENSTOCK_CHECK(!is_watching(), "a stream ended while faults in its range were still its own");
}

Status StreamHandler::watch(std::byte* begin, uint64_t bytes) {
  auto registration = fault::Registration::add(begin, bytes, *this);
  if (!registration) return std::unexpected(std::move(registration.error()));
  registration_ = std::move(*registration);
  return {};
}

// Fault path.
fault::Outcome StreamHandler::on_unservable(const fault::Fault& fault,
                                            fault::Unservable why) noexcept {
  WrittenFailure failure(label().name);
  if (why == fault::Unservable::inherited) {
    failure.write(ErrorCode::unsupported,
                  "serve %p in a forked child: it belongs to process %lld, which opened it",
                  static_cast<void*>(fault.address), static_cast<long long>(process_));
  } else {
    failure.write(
        ErrorCode::io,
        "serve %p: a memory error of the hardware has destroyed what was there (see dmesg)",
        static_cast<void*>(fault.address));
  }
  if (why == fault::Unservable::memory_error_ahead) {
    report(failure);
    return fault::Outcome::decline;
  }
  give_up(failure, fault.context);
  return fault::Outcome::retry;
}

void StreamHandler::give_up(const Failure& failure, void* context) const noexcept {
  const bool recovers = label().policy == ErrorPolicy::recover;
  (void)fail(recovers ? ErrorPolicy::recover : ErrorPolicy::stop, failure, context);
}

Status StreamHandler::check_owned(const char* attempted) const {
  if (!is_inherited()) return {};
  return failure(ErrorCode::unsupported, fmt::format("{} in a forked child", attempted),
                 label().name, fmt::format("process {}, which opened it", process_));
}

void StreamHandler::refuse_inherited(const void* address) noexcept {
  auto* const byte = const_cast<std::byte*>(static_cast<const std::byte*>(address));
  (void)on_unservable({byte, fault::Access::read, nullptr}, fault::Unservable::inherited);
}

}  // namespace penstock::stream
