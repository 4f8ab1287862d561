#include "test/support/injection.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "base/bits.h"
#include "base/random.h"
#include "io/system_calls.h"
#include "io/test_seam.h"

namespace penstock::io {

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

// Implements the seam. The injection changes only while no engine is open, so readers need no ordering.
class Disturber final : public TestSeam {
 public:
  void set(const Injection& injection) {
    injection_ = injection;
    calls_ = 0;
    for (auto& calls : calls_of_) calls = 0;
    checked_reads_ = 0;
    buckets_in_memory_ = 0;
  }
  const Injection& injection() const { return injection_; }

  void disturb(Step& step, bool buffered) noexcept override;
  int error_of(Operation operation) noexcept override;
  void damage_checked(std::byte* data, size_t bytes) noexcept override {
    flip_bit(data, bytes, checked_reads_, injection_.flip);
  }
  void damage_bucket(std::byte* data, size_t bytes) noexcept override {
    flip_bit(data, bytes, buckets_in_memory_, injection_.forget);
  }

 private:
  // Flips one bit of the data if their number is the wanted one. (0: of none.)
  void flip_bit(std::byte* data, size_t bytes, std::atomic<uint64_t>& number,
                uint64_t wanted) const noexcept {
    if (wanted == 0 || number.fetch_add(1, std::memory_order_relaxed) + 1 != wanted) return;
    Random random(mix64(injection_.seed));
    const uint64_t bit = random.below(bytes * 8);
    data[bit / 8] ^= std::byte{1} << (bit % 8);
  }

  Injection injection_;
  std::atomic<uint64_t> calls_{0};                   // numbers the random decisions; relaxed
  std::atomic<uint64_t> calls_of_[operations] = {};  // by operation; relaxed
  std::atomic<uint64_t> checked_reads_{0};           // relaxed
  std::atomic<uint64_t> buckets_in_memory_{0};       // relaxed
};
// Constant-initialized, because its first use may be on the fault path.
constinit Disturber disturber{};

void Disturber::disturb(Step& step, bool buffered) noexcept {
  step.error = error_of(step.operation);
  if (injection_.short_transfer <= 0 && injection_.delay <= 0) return;
  Random random(mix64(injection_.seed) ^ calls_.fetch_add(1, std::memory_order_relaxed));
  if (random.unit() < injection_.short_transfer && step.bytes > 1) {
    // A device transfers whole sectors, the page cache any bytes.
    constexpr size_t device_sector_bytes = 512;
    const size_t unit = buffered ? 1 : device_sector_bytes;
    step.bytes = std::max(unit, round_down(1 + random.below(step.bytes - 1), unit));
  }
  if (random.unit() < injection_.delay && injection_.delay_us_max > 0) {
    step.delay_us = static_cast<uint32_t>(1 + random.below(injection_.delay_us_max));
  }
}

int Disturber::error_of(Operation operation) noexcept {
  if (injection_.error == 0 || operation != injection_.error_operation) return 0;
  const uint64_t number =
      calls_of_[static_cast<int>(operation)].fetch_add(1, std::memory_order_relaxed);
  return number >= injection_.error_after ? injection_.error : 0;
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
  disturber.set(injection);
  test_seam = injection == Injection{} ? nullptr : &disturber;
}

Injection injected() {
  return disturber.injection();
}

}  // namespace penstock::io
