#pragma once

// Two plain pointers, the writer's and the reader's, to one stream of bytes that may be far longer
// than memory.
//
// One side writes to writer() from the first byte on, the other reads the same bytes at reader();
// no call per item or per block. Whoever runs ahead waits inside its own load or store until the
// other side has caught up. Memory: read_ahead + producer_comeback + consumer_comeback + 1 blocks,
// whatever the length. (Vortex-C of Hanel, Carnovale, Tong and Loguinov, "Vortex:
// Extreme-Performance Memory Abstractions for Data-Intensive Streaming Applications", ASPLOS 2020,
// section 4.3.)
//
//   auto pipe = penstock::RemapStream::open({.bytes = 10 * penstock::TiB});
//   std::jthread producer([&] { std::memset(pipe->writer(), 'a', n); (void)pipe->finish(n); });
//   char* hit = std::strstr(pipe->reader<char>(), "hello world");
//
// memcpy and memmove may touch the last bytes first, which a stream takes for a jump: let them copy
// at most a block at a time. (test/third_party_test.cc shows what other libraries need: a decoder
// that checks its output's sum, or a parser that validates all text first, goes over it twice.) A
// pointer given to a system call is no load or store: the kernel answers EFAULT where the stream
// would have waited. Call prepare_write() or prepare_read() on the piece first, or use
// penstock/system_calls.h, or Options::system_calls.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/mechanism.h"
#include "penstock/side.h"
#include "penstock/units.h"

namespace penstock {

namespace stream {
class RemapStreamCore;
}

// Thread safety: the producer's members (writer, prepare_write, finish) and the consumer's (reader,
// prepare_read, wait_ready) may be called, and the two pointers used, at the same time from
// different threads. Several threads may share a side as long as together they keep its rule. fail,
// cancel and status: any thread. A move must not overlap with anything.
class RemapStream {
 public:
  using Side = penstock::Side;

  using Mechanism = penstock::Mechanism;

  struct Options {
    uint64_t bytes = 0;  // the longest that the stream may become: address space, not memory
    size_t block_bytes = 4 * MiB;    // a power of two, at least 4 KiB
    uint32_t read_ahead_blocks = 2;  // N: full blocks that may wait for the consumer
    uint32_t producer_comeback_blocks =
        1;  // L: after writing to block x the producer may still write to x - L
    uint32_t consumer_comeback_blocks =
        1;  // M: after reading block x the consumer may still read x - M
    // For a side that waits in a load or store for what will never come: data of a producer that
    // failed, room from a consumer that cancelled. (A broken limit, such as a comeback of too many
    // blocks, stops or recovers, but never reads as zeros.)
    ErrorPolicy policy = ErrorPolicy::stop;
    Mechanism mechanism = Mechanism::automatic;
    // Finds every breach of L and M, and ends with a message that names stream, block and limit:
    // for tests and debugging (slower: one more move per block and side). Without it a store to a
    // block that has been handed over, or a load from one that was given back, may go unnoticed
    // until the other side has taken the block, and read or spoil newer data.
    bool strict = false;
    // With Mechanism::mremap: a block takes memory as it is written, not when the stream is opened;
    // for many blocks of which few may be needed.
    bool sparse = false;
    // System calls that are given either pointer wait as loads and stores do, instead of ending
    // with EFAULT: `write(fd, pipe.reader(), 1 * GiB)` simply works. Needs a privileged userfaultfd
    // (root, or access to /dev/userfaultfd; `penstock doctor` tells), and costs a thread per side
    // and a change of threads per fault. Not for O_DIRECT files: pages under such I/O cannot move.
    bool system_calls = false;
    std::string name = "pipe";  // for messages
  };
  // L and M of 1 are what library functions need: a load or store that straddles two blocks, memcpy
  // and strstr touch both. 0 is for loops over aligned items.

  static Result<RemapStream> open(const Options& options);
  RemapStream(RemapStream&&) noexcept;
  RemapStream& operator=(RemapStream&&) noexcept;
  // REQUIRES: no thread uses either pointer any more.
  ~RemapStream();

  // ---- the producer. What it skips reads as zeros; what it reads before writing is undefined.
  template <class T = char>
  T* writer() const {
    return reinterpret_cast<T*>(writer_address());
  }
  // [address, address + bytes) can be written without a fault until the producer moves on.
  // REQUIRES: it spans at most producer_comeback_blocks + 1 blocks. Errors: the consumer's;
  // invalid_argument.
  Status prepare_write(const void* address, size_t bytes);
  // The stream is `bytes` long and complete. The producer no longer touches writer(). Errors: the
  // consumer's, where it gave up; invalid_argument when `bytes` is beyond the capacity, or blocks
  // past it are already with the consumer.
  Status finish(uint64_t bytes);

  // ---- the consumer. It may jump forward: what it skips goes back to the producer unread. After
  // the last byte come zeros to the end of the block, and one more block of zeros (so strlen and
  // strstr stop).
  template <class T = char>
  T* reader() const {
    return reinterpret_cast<T*>(reader_address());
  }
  // The same as prepare_write for the consumer. Waits for the data. Errors: the producer's;
  // invalid_argument.
  Status prepare_read(const void* address, size_t bytes);
  // Waits until more than `offset` bytes are there, or the stream is complete; returns how many are
  // there now. Counts as touching the block of `offset`. Errors: the producer's, when it failed
  // before; invalid_argument when this side gave up meanwhile.
  Result<uint64_t> wait_ready(uint64_t offset);

  // ---- both. The side gives up and no longer touches its pointer; the other side meets the error
  // (see ErrorPolicy) when it needs what will not come: a consumer still reads what was full by
  // then. The first error of a side counts.
  void fail(Side side, Error error);
  void cancel(Side side);
  // The error with which a side gave up, or ok.
  Status status() const;

  Mechanism mechanism() const;    // the one in use
  uint64_t memory_bytes() const;  // physical memory held

 private:
  explicit RemapStream(std::unique_ptr<stream::RemapStreamCore> core);
  std::byte* writer_address() const;
  std::byte* reader_address() const;

  std::unique_ptr<stream::RemapStreamCore> core_;
};

}  // namespace penstock
