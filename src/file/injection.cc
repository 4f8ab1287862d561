#include "file/injection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

#include "base/bits.h"
#include "base/random.h"
#include "file/system_calls.h"

namespace penstock::file {

namespace {

bool parse_field(std::string_view key, const char* value, Injection& to) {
  char* end = nullptr;
  if (key == "seed") {
    to.seed = std::strtoull(value, &end, 10);
  } else if (key == "short") {
    to.short_transfer = std::strtod(value, &end);
  } else if (key == "flip") {
    to.flip = std::strtoull(value, &end, 10);
  } else if (key == "forget") {
    to.forget = std::strtoull(value, &end, 10);
  } else if (key == "delay") {
    to.delay = std::strtod(value, &end);
    if (*end == ':') to.delay_us_max = static_cast<uint32_t>(std::strtoul(end + 1, &end, 10));
  } else if (key == "error") {
    std::string_view text(value);
    to.error = text.starts_with("EIO@") ? EIO : text.starts_with("ENOSPC@") ? ENOSPC : 0;
    const size_t at = text.find('@');
    const size_t colon = text.find(':');
    if (to.error == 0 || colon == std::string_view::npos) return false;
    constexpr std::array<std::string_view, operations> names = {"read", "write", "sync", "close",
                                                                "rename"};
    const auto* name = std::ranges::find(names, text.substr(at + 1, colon - at - 1));
    if (name == names.end()) return false;
    to.error_operation = static_cast<Operation>(name - names.begin());
    to.error_after = std::strtoull(value + colon + 1, &end, 10);
  }
  return end != nullptr && end != value && *end == 0;
}

// Changed only while no engine is open, so readers need no order.
struct Disturber {
  Injection injection;
  std::atomic<uint64_t> calls{0};                   // numbers the random decisions; relaxed
  std::atomic<uint64_t> calls_of[operations] = {};  // by operation; relaxed
  std::atomic<uint64_t> checked_reads{0};           // relaxed
  std::atomic<uint64_t> buckets_in_memory{0};       // relaxed
};
// Of constants, because its first use may be on the fault path.
constinit Disturber disturber{};

// The error that the next call of this operation ends with instead of being made; 0: none.
int injected_error(Operation operation) noexcept {
  const Injection& injection = disturber.injection;
  if (injection.error == 0 || operation != injection.error_operation) return 0;
  const uint64_t number =
      disturber.calls_of[static_cast<int>(operation)].fetch_add(1, std::memory_order_relaxed);
  return number >= injection.error_after ? injection.error : 0;
}

// One bit of the data whose number was asked for. (0: of none.)
void flip_bit(std::byte* data, size_t bytes, std::atomic<uint64_t>& number,
              uint64_t wanted) noexcept {
  if (wanted == 0 || number.fetch_add(1, std::memory_order_relaxed) + 1 != wanted) return;
  Random random(mix64(disturber.injection.seed));
  const uint64_t bit = random.below(bytes * 8);
  data[bit / 8] ^= std::byte{1} << (bit % 8);
}

}  // namespace

Result<Injection> Injection::parse(const std::string& text) {
  Injection injection;
  std::string rest = text;
  while (!rest.empty()) {
    const std::string field = rest.substr(0, rest.find(','));
    rest.erase(0, field.size() + 1);
    const size_t equals = field.find('=');
    if (equals == std::string::npos || !parse_field(std::string_view(field).substr(0, equals),
                                                    field.c_str() + equals + 1, injection)) {
      return failure(ErrorCode::invalid_argument, "inject faults", text,
                     "seed=N,short=P,delay=P:US,error=EIO|ENOSPC@OPERATION:N,flip=N,forget=N");
    }
  }
  return injection;
}

void inject(const Injection& injection) {
  disturber.injection = injection;
  disturber.calls = 0;
  for (auto& calls : disturber.calls_of) calls = 0;
  disturber.checked_reads = 0;
  disturber.buckets_in_memory = 0;
}

Injection injected() {
  return disturber.injection;
}

void forget_one(std::byte* data, size_t bytes) noexcept {
  flip_bit(data, bytes, disturber.buckets_in_memory, disturber.injection.forget);
}

void flip_one(std::byte* data, size_t bytes) noexcept {
  flip_bit(data, bytes, disturber.checked_reads, disturber.injection.flip);
}

void disturb(Step& step, bool buffered) noexcept {
  const Injection& injection = disturber.injection;
  step.error = injected_error(step.operation);
  if (injection.short_transfer <= 0 && injection.delay <= 0) return;
  Random random(mix64(injection.seed) ^ disturber.calls.fetch_add(1, std::memory_order_relaxed));
  if (random.unit() < injection.short_transfer && step.bytes > 1) {
    // A device stops at its own small sector, the page cache anywhere.
    constexpr size_t device_sector_bytes = 512;
    const size_t unit = buffered ? 1 : device_sector_bytes;
    step.bytes = std::max(unit, round_down(1 + random.below(step.bytes - 1), unit));
  }
  if (random.unit() < injection.delay && injection.delay_us_max > 0) {
    step.delay_us = static_cast<uint32_t>(1 + random.below(injection.delay_us_max));
  }
}

bool fails(Operation operation) noexcept {
  const int error = injected_error(operation);
  if (error != 0) errno = error;
  return error != 0;
}

}  // namespace penstock::file
