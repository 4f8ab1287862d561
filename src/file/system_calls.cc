#include "file/system_calls.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/bits.h"
#include "base/check.h"
#include "base/random.h"
#include "file/block_checks.h"
#include "file/emulation.h"
#include "penstock/units.h"

namespace penstock::file {

namespace {

constexpr size_t step_bytes_max = GiB;  // the system cuts at 2 GiB less a page

// All relaxed: statistics.
struct Counters {
  std::atomic<uint64_t> bytes_read, bytes_written, requests, seeks, switches;
  // Where the arm of one device would be.
  std::atomic<uint64_t> place;
};
constinit Counters counters{};

// File and offset in one word, so that one exchange tells whether a request goes on where the last
// one of any thread ended; wrongly once in 2^64 requests.
uint64_t place_of(const File& file, uint64_t offset) {
  return mix64(static_cast<uint64_t>(file.descriptor()) + 1) ^ offset;
}

// ---- injection

// "seed=7,short=0.2,delay=0.1:500,error=ENOSPC@write:100,flip=3,forget=2"
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

Injection from_environment() {
  Injection injection;
  const char* text = std::getenv("PENSTOCK_INJECT");
  if (text == nullptr) return injection;
  std::string rest = text;
  while (!rest.empty()) {
    std::string field = rest.substr(0, rest.find(','));
    rest.erase(0, field.size() + 1);
    const size_t equals = field.find('=');
    PENSTOCK_CHECK(
        equals != std::string::npos && parse_field(std::string_view(field).substr(0, equals),
                                                   field.c_str() + equals + 1, injection),
        "PENSTOCK_INJECT cannot be parsed");
  }
  return injection;
}

// Changed only while no engine is open, so readers need no order.
struct Disturber {
  Injection injection = from_environment();
  std::atomic<uint64_t> calls{0};                   // numbers the random decisions; relaxed
  std::atomic<uint64_t> calls_of[operations] = {};  // by operation; relaxed
  std::atomic<uint64_t> checked_reads{0};           // relaxed
  std::atomic<uint64_t> buckets_in_memory{0};       // relaxed
};

Disturber& disturber() {
  static Disturber instance;
  return instance;
}
// Made before main(), so that the first use is never on the fault path.
[[maybe_unused]] const Disturber& made_early = disturber();

// The error that the next call of this operation ends with instead of being made; 0: none.
int injected_error(Operation operation) noexcept {
  Disturber& state = disturber();
  const Injection& injection = state.injection;
  if (injection.error == 0 || operation != injection.error_operation) return 0;
  const uint64_t number =
      state.calls_of[static_cast<int>(operation)].fetch_add(1, std::memory_order_relaxed);
  return number >= injection.error_after ? injection.error : 0;
}

// Likewise, as a system call tells it.
bool fails(Operation operation) noexcept {
  const int error = injected_error(operation);
  if (error != 0) errno = error;
  return error != 0;
}

void disturb(Step& step, bool buffered) noexcept {
  Disturber& state = disturber();
  const Injection& injection = state.injection;
  step.error = injected_error(step.operation);
  if (injection.short_transfer <= 0 && injection.delay <= 0) return;
  Random random(mix64(injection.seed) ^ state.calls.fetch_add(1, std::memory_order_relaxed));
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

// One bit of the data whose number was asked for. (0: of none.)
void flip_bit(std::byte* data, size_t bytes, std::atomic<uint64_t>& number,
              uint64_t wanted) noexcept {
  if (wanted == 0 || number.fetch_add(1, std::memory_order_relaxed) + 1 != wanted) return;
  Random random(mix64(disturber().injection.seed));
  const uint64_t bit = random.below(bytes * 8);
  data[bit / 8] ^= std::byte{1} << (bit % 8);
}

void flip_one(const Request& request) noexcept {
  Disturber& state = disturber();
  flip_bit(request.data, request.done_bytes, state.checked_reads, state.injection.flip);
}

// ---- cutting

bool aligned(uint64_t value) {
  return value % sector_bytes == 0;
}

// For the other end of a stream.
void wait_until_ready(const Request& request) noexcept {
  const auto events = static_cast<short>(request.operation == Operation::read ? POLLIN : POLLOUT);
  pollfd wanted{request.file->descriptor(), events, 0};
  ::poll(&wanted, 1, -1);
}

void run_here(Request& request) {
  begin(request);
  bool complete = request.bytes == 0;
  while (!complete) {
    Step step = next_step(request);
    complete = absorb(request, perform(step));
  }
  end(request);
  wait_for_emulated(request.links.emulated_end_ns);
}

}  // namespace

void begin(Request& request) noexcept {
  request.done_bytes = 0;
  request.error = 0;
  request.links = {};
  request.links.emulated_end_ns = emulated_end_ns(request);
  counters.requests.fetch_add(1, std::memory_order_relaxed);
  if (request.file->seekable()) {
    if (!request.file->continues_at(request.offset, request.bytes))
      counters.seeks.fetch_add(1, std::memory_order_relaxed);
    const uint64_t end = place_of(*request.file, request.offset + request.bytes);
    if (counters.place.exchange(end, std::memory_order_relaxed) !=
        place_of(*request.file, request.offset))
      counters.switches.fetch_add(1, std::memory_order_relaxed);
  }
  if (request.operation == Operation::write)
    request.file->will_write(request.offset + request.bytes);
  if (BlockChecks* checks = request.file->checks(); checks != nullptr) {
    if (request.operation == Operation::write) {
      checks->wrote(request.offset, request.data, request.bytes);
    } else {
      const auto turns = checks->begin_read(request.offset, request.bytes);
      request.links.first_turn = turns.first;
      request.links.last_turn = turns.last;
    }
  }
}

void end(Request& request) noexcept {
  BlockChecks* checks = request.file->checks();
  if (checks == nullptr || request.operation == Operation::write || request.done_bytes == 0) return;
  flip_one(request);
  if (!checks->end_read(request.offset, request.data, request.done_bytes,
                        {request.links.first_turn, request.links.last_turn}) &&
      request.error == 0)
    request.error = damaged;
}

Step next_step(Request& request) noexcept {
  const File& file = *request.file;
  Step step{.operation = request.operation,
            .descriptor = file.buffered_descriptor(),
            .offset = request.offset + request.done_bytes,
            .data = request.data + request.done_bytes,
            .bytes = std::min(request.bytes - request.done_bytes, step_bytes_max),
            .delay_us = 0,
            .error = 0};
  request.links.buffered = true;
  if (step.operation == Operation::read) step.bytes = file.readable(step.offset, step.bytes);
  if (!file.seekable()) step.offset = stream_position;
  if (file.caching() == Caching::direct &&
      aligned(step.offset ^ reinterpret_cast<uintptr_t>(step.data))) {
    const size_t to_sector = round_up(step.offset, sector_bytes) - step.offset;
    if (to_sector != 0) {
      step.bytes = std::min(step.bytes, to_sector);
    } else if (step.bytes >= sector_bytes) {
      step.bytes = round_down(step.bytes, sector_bytes);
      step.descriptor = file.descriptor();
      request.links.buffered = false;
    }
  }
  disturb(step, request.links.buffered);
  return step;
}

bool absorb(Request& request, int64_t result) noexcept {
  const bool reading = request.operation == Operation::read;
  if (result > 0) {
    const auto bytes = static_cast<uint64_t>(result);
    request.done_bytes += bytes;
    // Relaxed: statistics.
    (reading ? counters.bytes_read : counters.bytes_written)
        .fetch_add(bytes, std::memory_order_relaxed);
    if (!reading && request.links.buffered) request.file->wrote_buffered(bytes);
    return request.done_bytes == request.bytes;
  }
  if (result == 0) {
    if (!reading) request.error = EIO;
    return true;
  }
  // ECANCELED that nobody asked for: the system dropped the request (engine_uring.cc).
  if (result == -EINTR || result == -EAGAIN || result == -ECANCELED) {
    if (result == -EAGAIN && !request.file->seekable()) wait_until_ready(request);
    return false;
  }
  request.error = static_cast<int>(-result);
  return true;
}

int64_t perform(const Step& step) noexcept {
  if (step.delay_us != 0) ::usleep(step.delay_us);
  if (step.error != 0) return -step.error;
  const auto offset = static_cast<off_t>(step.offset);
  ssize_t result;
  if (step.offset == stream_position) {
    result = step.operation == Operation::read ? ::read(step.descriptor, step.data, step.bytes)
                                               : ::write(step.descriptor, step.data, step.bytes);
  } else {
    result = step.operation == Operation::read
                 ? ::pread(step.descriptor, step.data, step.bytes, offset)
                 : ::pwrite(step.descriptor, step.data, step.bytes, offset);
  }
  return result < 0 ? -errno : result;
}

int64_t read_some(int descriptor, uint64_t offset, std::span<std::byte> into) noexcept {
  Step step{.operation = Operation::read,
            .descriptor = descriptor,
            .offset = offset,
            .data = into.data(),
            .bytes = std::min(into.size(), step_bytes_max),
            .delay_us = 0,
            .error = 0};
  disturb(step, true);
  const int64_t result = perform(step);
  if (result > 0)  // relaxed: a statistic
    counters.bytes_read.fetch_add(static_cast<uint64_t>(result), std::memory_order_relaxed);
  return result;
}

int sync_data(int descriptor) noexcept {
  return fails(Operation::sync) ? -1 : ::fdatasync(descriptor);
}

int sync_folder(int descriptor) noexcept {
  return fails(Operation::sync) ? -1 : ::fsync(descriptor);
}

int close_written(int descriptor) noexcept {
  const int closed = ::close(descriptor);
  return fails(Operation::close) ? -1 : closed;
}

int rename_written(const char* from, const char* to) noexcept {
  return fails(Operation::rename) ? -1 : ::rename(from, to);
}

Traffic traffic() {
  return {counters.bytes_read.load(std::memory_order_relaxed),
          counters.bytes_written.load(std::memory_order_relaxed),
          counters.requests.load(std::memory_order_relaxed),
          counters.seeks.load(std::memory_order_relaxed),
          counters.switches.load(std::memory_order_relaxed)};
}

namespace {

std::string what_of(const Request& request) {
  return (request.operation == Operation::read ? "read " : "write ") +
         std::to_string(request.bytes) + " bytes at offset " + std::to_string(request.offset);
}

}  // namespace

Error error_of(const Request& request) {
  const File& file = *request.file;
  const auto damage = file.checks() != nullptr ? file.checks()->damage() : std::nullopt;
  if (request.error != damaged || !damage)
    return system_error(request.error, what_of(request), file.path()).error();
  return Error{.code = ErrorCode::corrupt,
               .attempted = "trust a temporary: the " + std::to_string(damage->bytes) +
                            " bytes at offset " + std::to_string(damage->offset) +
                            " did not come back as they were written",
               .subject = file.path(),
               .system_errno = 0,
               .hint =
                   "look at the disk and the memory (dmesg), then the same command once more; "
                   "of a sort with --resume remove this file before, and it begins anew"};
}

Status read_exactly(const File& file, uint64_t offset, std::byte* data, size_t bytes) {
  Request request{
      .operation = Operation::read, .file = &file, .offset = offset, .data = data, .bytes = bytes};
  run_here(request);
  if (request.error == 0 && request.done_bytes == bytes) return {};
  if (request.error != 0) return std::unexpected(error_of(request));
  return failure(ErrorCode::corrupt, what_of(request) + ", the file ends before", file.path());
}

Status write_exactly(const File& file, uint64_t offset, const std::byte* data, size_t bytes) {
  // A request serves both directions; writing only reads the data.
  Request request{.operation = Operation::write,
                  .file = &file,
                  .offset = offset,
                  .data = const_cast<std::byte*>(data),
                  .bytes = bytes};
  run_here(request);
  if (request.error == 0) return {};
  return std::unexpected(error_of(request));
}

void inject(const Injection& injection) {
  disturber().injection = injection;
  disturber().calls = 0;
  for (auto& calls : disturber().calls_of) calls = 0;
  disturber().checked_reads = 0;
  disturber().buckets_in_memory = 0;
}

Injection injected() {
  return disturber().injection;
}

void forget_one(std::byte* data, size_t bytes) noexcept {
  Disturber& state = disturber();
  flip_bit(data, bytes, state.buckets_in_memory, state.injection.forget);
}

}  // namespace penstock::file
