#pragma once

// System calls on a stream's pointer.
//
// The kernel does not run a stream's fault handler: a system call that touches a block which is not
// there ends with EFAULT, or half done. prepare() makes a piece ready beforehand; the calls below
// do so for pieces of any length, window by window. They work on every kind of stream and on custom
// regions, and on ordinary memory, where there is nothing to prepare; the caller need not know
// which it is. (Where a privileged userfaultfd is granted, RemapStream::Options::system_calls makes
// all of this unnecessary.)
//
//   auto log = penstock::FileReader::open("access.log");
//   penstock::Result<uint64_t> sent = penstock::system_calls::send(socket, log->begin(),
//   log->bytes());
//
// A piece must not reach from a stream into other memory. Thread safety: as the stream's side that
// the pointer belongs to. Errors: the stream's (what a load or store would have met; with
// ErrorPolicy::stop some streams stop the program instead), or the system's.

#include <cstddef>
#include <cstdint>

#include "penstock/error.h"

namespace penstock::system_calls {

// Makes as many of the bytes from `address` on ready as a stream can have at once, and waits for
// them where it must: at least 1 unless bytes is 0. They are until the same side moves on.
Result<size_t> prepare_read(const void* address, size_t bytes);
Result<size_t> prepare_write(void* address, size_t bytes);

// Reads from a descriptor to memory until `bytes` are there or the data end; how many there are.
Result<uint64_t> read(int fd, void* to, uint64_t bytes);
Result<uint64_t> recv(int socket, void* to, uint64_t bytes, int flags = 0);
// Writes all of it. A descriptor in non-blocking mode is waited for. SIGPIPE is as always; send()
// raises none.
Result<uint64_t> write(int fd, const void* from, uint64_t bytes);
Result<uint64_t> send(int socket, const void* from, uint64_t bytes, int flags = 0);

}  // namespace penstock::system_calls
