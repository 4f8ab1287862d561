#include "io/system_calls.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/bits.h"
#include "base/random.h"
#include "io/block_checks.h"
#include "io/emulation.h"
#include "io/outlet.h"
#include "io/test_seam.h"
#include "penstock/base.h"

namespace penstock::io {

namespace {

constexpr size_t step_bytes_max = GiB;  // the system cuts at 2 GiB less a page

// Combines file and offset in one word, so that one exchange tells whether a request continues the
// last one of any thread; wrongly once in 2^64 requests.
uint64_t place_of(const File& file, uint64_t offset) {
  return mix64(static_cast<uint64_t>(file.descriptor()) + 1) ^ offset;
}

// ---- cutting

bool aligned(uint64_t value) {
  return value % sector_bytes == 0;
}

void disturb(Step& step, bool buffered) noexcept {
  if (test_seam != nullptr) test_seam->disturb(step, buffered);
}

// Returns whether the next call of this operation must fail, with errno set, instead of being made.
bool fails(Operation operation) noexcept {
  const int error = test_seam != nullptr ? test_seam->error_of(operation) : 0;
  if (error != 0) errno = error;
  return error != 0;
}

// Waits for the other end of a stream.
void wait_until_ready(const Request& request) noexcept {
  const auto events = static_cast<short>(request.operation == Operation::read ? POLLIN : POLLOUT);
  pollfd wanted{request.file->descriptor(), events, 0};
  ::poll(&wanted, 1, -1);
}

void run_here(Request& request) {
  begin(request, current_traffic());
  if (request.bytes > 0) make_calls(request);
  end(request);
  wait_for_emulated(request.links.emulated_end_ns);
}

}  // namespace

void begin(Request& request, TrafficAccount& traffic) noexcept {
  request.done_bytes = 0;
  request.error = 0;
  request.links = {};
  request.links.traffic = &traffic;
  request.links.emulated_end_ns = emulated_end_ns(request);
  traffic.requests.fetch_add(1, std::memory_order_relaxed);
  if (request.file->seekable()) {
    if (!request.file->continues_at(request.offset, request.bytes))
      traffic.seeks.fetch_add(1, std::memory_order_relaxed);
    const uint64_t end = place_of(*request.file, request.offset + request.bytes);
    if (traffic.place.exchange(end, std::memory_order_relaxed) !=
        place_of(*request.file, request.offset))
      traffic.switches.fetch_add(1, std::memory_order_relaxed);
  }
  if (request.operation == Operation::write)
    request.file->will_write(request.offset + request.bytes);
  if (BlockChecks* checks = request.file->checks(); checks != nullptr) {
    if (request.operation == Operation::write) {
      checks->wrote(request.offset, request.data, request.bytes);
    } else {
      const auto ids = checks->begin_read(request.offset, request.bytes);
      request.links.first_read_id = ids.first;
      request.links.last_read_id = ids.last;
    }
  }
}

void end(Request& request) noexcept {
  BlockChecks* checks = request.file->checks();
  if (checks == nullptr || request.operation == Operation::write || request.done_bytes == 0) return;
  if (test_seam != nullptr) test_seam->damage_checked(request.data, request.done_bytes);
  if (!checks->end_read(request.offset, request.data, request.done_bytes,
                        {request.links.first_read_id, request.links.last_read_id}) &&
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
    TrafficAccount& traffic = *request.links.traffic;
    (reading ? traffic.bytes_read : traffic.bytes_written)
        .fetch_add(bytes, std::memory_order_relaxed);
    if (!reading && request.links.buffered) request.file->wrote_buffered(bytes);
    return request.done_bytes == request.bytes;
  }
  if (result == 0) {
    if (!reading) request.error = EIO;
    return true;
  }
  // ECANCELED without a request for it: the system dropped the step (engine_uring.cc).
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

Outlet* outlet_of(const Request& request) noexcept {
  return request.operation == Operation::write ? request.file->outlet() : nullptr;
}

void make_calls(Request& request) noexcept {
  if (Outlet* outlet = outlet_of(request)) return outlet->serve(request);
  while (!absorb(request, perform(next_step(request)))) {
  }
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
    current_traffic().bytes_read.fetch_add(static_cast<uint64_t>(result),
                                           std::memory_order_relaxed);
  return result;
}

int64_t disturbed_write(size_t bytes) noexcept {
  Step step{.operation = Operation::write,
            .descriptor = -1,
            .offset = stream_position,
            .data = nullptr,
            .bytes = bytes,
            .delay_us = 0,
            .error = 0};
  disturb(step, true);
  if (step.delay_us != 0) ::usleep(step.delay_us);
  return step.error != 0 ? -step.error : static_cast<int64_t>(step.bytes);
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

int link_written(const char* from, const char* to) noexcept {
  return fails(Operation::rename) ? -1 : ::linkat(AT_FDCWD, from, AT_FDCWD, to, AT_SYMLINK_FOLLOW);
}

Traffic traffic() {
  const TrafficAccount& account = current_traffic();
  return {account.bytes_read.load(std::memory_order_relaxed),
          account.bytes_written.load(std::memory_order_relaxed),
          account.requests.load(std::memory_order_relaxed),
          account.seeks.load(std::memory_order_relaxed),
          account.switches.load(std::memory_order_relaxed)};
}

namespace {

std::string what_of(const Request& request) {
  return (request.operation == Operation::read ? "read " : "write ") +
         std::to_string(request.bytes) + " bytes at offset " + std::to_string(request.offset);
}

}  // namespace

Error error_of(const Request& request) {
  const File& file = *request.file;
  if (const Outlet* outlet = outlet_of(request)) {
    if (auto refused = outlet->error()) return std::move(*refused);
  }
  const auto damage = file.checks() != nullptr ? file.checks()->damage() : std::nullopt;
  if (request.error != damaged || !damage)
    return system_error(request.error, what_of(request), file.path()).error();
  return damaged_temporary(file.path(), damage->offset, damage->bytes);
}

Error damaged_temporary(const std::string& name, uint64_t offset, uint64_t bytes) {
  return Error{.code = ErrorCode::corrupt,
               .attempted = "trust a temporary: the " + std::to_string(bytes) +
                            " bytes at offset " + std::to_string(offset) +
                            " did not come back as they were written",
               .subject = name,
               .system_errno = 0,
               .hint =
                   "look at the disk and the memory (dmesg), then run the command again; "
                   "after a sort with --resume, remove this file first to start anew"};
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

}  // namespace penstock::io
