#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>

#include "memory/fault/registry.h"
#include "penstock/stream.h"

namespace penstock::system_calls {
namespace {

// Limit on one system call.
constexpr size_t call_bytes_max = size_t{1} << 30;
constexpr int taken_max = 1000;

Result<size_t> prepare(void* address, size_t bytes, fault::Access access) {
  if (bytes == 0) return 0;
  fault::Handler* const handler = fault::find(address);
  if (handler == nullptr) return bytes;
  return handler->prepare(static_cast<std::byte*>(address), bytes, access);
}

// Waits until a non-blocking descriptor is ready again.
void wait_for(int fd, short events) {
  pollfd entry = {.fd = fd, .events = events, .revents = 0};
  (void)poll(&entry, 1, -1);
}

// Calls `transfer(address, bytes)` piece by piece, until all is done or it returns 0.
template <class Transfer>
Result<uint64_t> transfer_all(int fd, const void* memory, uint64_t bytes, fault::Access access,
                              const char* attempted, Transfer transfer) {
  auto* at = const_cast<std::byte*>(static_cast<const std::byte*>(memory));
  uint64_t done = 0;
  int taken = 0;
  while (done < bytes) {
    const size_t wanted = std::min<uint64_t>(bytes - done, call_bytes_max);
    auto ready = prepare(at + done, wanted, access);
    if (!ready) return std::unexpected(std::move(ready.error()));
    const ssize_t some = transfer(at + done, *ready);
    if (some == 0) break;
    if (some > 0) {
      done += static_cast<uint64_t>(some);
      taken = 0;
    } else if (errno == EFAULT && fault::find(at + done) != nullptr && ++taken < taken_max) {
      // Another thread's read took the data that were ready (FileReader).
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(fd, access == fault::Access::read ? POLLOUT : POLLIN);
    } else if (errno != EINTR) {
      return system_error(errno,
                          std::string(attempted) + " after " + std::to_string(done) + " bytes",
                          "descriptor " + std::to_string(fd));
    }
  }
  return done;
}

}  // namespace

Result<size_t> prepare_read(const void* address, size_t bytes) {
  return prepare(const_cast<void*>(address), bytes, fault::Access::read);
}
Result<size_t> prepare_write(void* address, size_t bytes) {
  return prepare(address, bytes, fault::Access::write);
}

Result<uint64_t> read(int fd, void* to, uint64_t bytes) {
  return transfer_all(fd, to, bytes, fault::Access::write, "read",
                      [fd](void* at, size_t some) { return ::read(fd, at, some); });
}
Result<uint64_t> recv(int socket, void* to, uint64_t bytes, int flags) {
  return transfer_all(socket, to, bytes, fault::Access::write, "receive",
                      [=](void* at, size_t some) { return ::recv(socket, at, some, flags); });
}
Result<uint64_t> write(int fd, const void* from, uint64_t bytes) {
  return transfer_all(fd, from, bytes, fault::Access::read, "write",
                      [fd](const void* at, size_t some) { return ::write(fd, at, some); });
}
Result<uint64_t> send(int socket, const void* from, uint64_t bytes, int flags) {
  return transfer_all(
      socket, from, bytes, fault::Access::read, "send",
      [=](const void* at, size_t some) { return ::send(socket, at, some, flags | MSG_NOSIGNAL); });
}

}  // namespace penstock::system_calls
