#pragma once

// A pipe, socket, terminal or file that is read or written in order from its current position, by
// calls that another thread can end.
//
// The engine serves whole requests, on files; here a read returns the bytes that are there, as a
// conversation over a socket needs it. A call waits in poll(), for the descriptor or for
// interrupt(), and then makes a system call that does not wait.
//
// Thread safety: one reader or writer at a time; interrupt() from any thread. If others read a
// blocking descriptor as well, read() may still wait for bytes that they took between poll() and
// read(): nothing ends that.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "os/event.h"
#include "os/fd.h"
#include "penstock/base.h"

namespace penstock::io {

class Descriptor {
 public:
  // Duplicates `fd`, which stays the caller's. `name` is for messages. `offset` makes reads of a
  // file begin there, and leaves its position alone.
  static Result<Descriptor> duplicate(int fd, std::string name,
                                      std::optional<uint64_t> offset = {});

  // Reads at least a byte; 0 is the end. Handles signals, short transfers and O_NONBLOCK.
  Result<size_t> read(std::span<std::byte> into);
  // Writes all bytes. A pipe without a reader raises SIGPIPE as usual, or returns EPIPE if that is
  // ignored; a socket always returns EPIPE.
  Status write(std::span<const std::byte> from);
  // Ends waiting calls, and all later ones, with ErrorCode::cancelled.
  void interrupt() noexcept;
  // Does the same when `*cancel` is set, which waiting calls poll. It outlives this.
  void set_cancel(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  const std::string& name() const { return name_; }

 private:
  enum class Kind : uint8_t { file, socket, other };

  Descriptor(os::Fd fd, os::Event interrupted, Kind kind, std::string name);
  bool wait(short events) noexcept;  // false: interrupted
  int64_t write_some(std::span<const std::byte> from) noexcept;
  std::unexpected<Error> cancelled(const char* attempted) const;
  std::unexpected<Error> failed(const char* attempted) const;  // errno has the reason

  os::Fd fd_;
  os::Event interrupted_;
  const std::atomic<bool>* cancel_ = nullptr;
  Kind kind_;
  bool may_refuse_to_wait_ = true;  // RWF_NOWAIT works
  uint64_t offset_ = 0;             // bytes transferred, for messages
  std::optional<uint64_t> begin_;   // start of reads at their own offsets
  std::string name_;
};

}  // namespace penstock::io
