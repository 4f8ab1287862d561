#pragma once

// A pipe, socket, terminal or file that is read or written in order from where it stands, by calls
// that somebody else can end.
//
// The engine serves whole requests, on files; here a read returns what is there, as a conversation
// over a socket needs it. A call waits in poll(), for the descriptor or for interrupt(), and then makes a
// system call that does not wait.
//
// Thread safety: one reader or writer at a time; interrupt() from any thread. A blocking descriptor
// that others read as well may still make read() wait, for what they took between poll() and
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
  // A duplicate of `fd`, which stays the caller's. `name` is for messages. `offset`: of a file, where
  // its reads begin; they leave alone where it stands.
  static Result<Descriptor> duplicate(int fd, std::string name,
                                      std::optional<uint64_t> offset = {});

  // What is there, at least a byte; 0 is the end. Signals, short transfers and O_NONBLOCK are taken
  // care of.
  Result<size_t> read(std::span<std::byte> into);
  // All of it. A pipe without a reader raises SIGPIPE as always, and is EPIPE where that is
  // ignored; a socket is EPIPE.
  Status write(std::span<const std::byte> from);
  // Calls that wait, and all later ones, end with ErrorCode::cancelled.
  void interrupt() noexcept;
  // The same when `*cancel` is set: calls that wait look at it some times a second. It outlives this.
  void heed(const std::atomic<bool>* cancel) { cancel_ = cancel; }

  const std::string& name() const { return name_; }

 private:
  enum class Kind : uint8_t { file, socket, other };

  Descriptor(os::Fd fd, os::Event interrupted, Kind kind, std::string name);
  bool wait(short events) noexcept;  // false: interrupted
  int64_t write_some(std::span<const std::byte> from) noexcept;
  std::unexpected<Error> cancelled(const char* attempted) const;
  std::unexpected<Error> failed(const char* attempted) const;  // errno says why

  os::Fd fd_;
  os::Event interrupted_;
  const std::atomic<bool>* cancel_ = nullptr;
  Kind kind_;
  bool may_refuse_to_wait_ = true;  // RWF_NOWAIT works
  uint64_t offset_ = 0;             // bytes transferred, for messages
  std::optional<uint64_t> begin_;   // of reads at their places
  std::string name_;
};

}  // namespace penstock::io
