#pragma once

// One plain pointer, shared by a writer and a reader, to a stream of bytes that may be far longer
// than memory.
//
// One side writes from the first byte on, the other reads the same bytes at the same address; no
// call per item or per block. Whoever runs ahead waits inside its own load or store. Memory is
// taken from the system on the first write to a block and given back behind the reader: at most
// read_ahead + producer_comeback + consumer_comeback + 1 blocks, whatever the length. (Vortex-B of
// Hanel, Carnovale, Tong and Loguinov, "Vortex: Extreme-Performance Memory Abstractions for
// Data-Intensive Streaming Applications", ASPLOS 2020, section 4.2.)
//
//   auto pipe = penstock::GuardStream::open({.bytes = 10 * penstock::TiB});
//   std::jthread producer([&] { std::memset(pipe->writer(), 'a', n); (void)pipe->finish(n); });
//   char* hit = std::strstr(pipe->reader<char>(), "hello world");
//
// RemapStream does the same with two pointers and is faster, because its blocks are never cleared
// by the kernel; it also lets a reader jump anywhere. What speaks for one address: pointers that
// the producer stores in the data stay valid for the consumer, and no memory is held that is not
// between the two.
//
// What one address costs. Both sides see the same mapping, so
//   - call reader() in the consumer's thread: it waits until the first block is guarded;
//   - the consumer gets a block when the producer has completed that one and the next (or has
//     finished), for the guard on the next one is what will stop it;
//   - a consumer may jump forward over complete blocks, which wait_ready() tells, and beyond the
//     producer's head. A jump into the producer_comeback_blocks + 1 blocks that the producer may
//     still write to meets no guard, not even with `strict`: it reads what happens to be there;
//   - the producer must not load from a block before it stores to it: a load in a block that is not
//     there waits like a consumer, for a producer that waits for itself.
//
// A pointer given to a system call is no load or store: the kernel answers EFAULT where the stream
// would have waited. Call prepare_write() or prepare_read() on the piece first.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/side.h"
#include "penstock/units.h"

namespace penstock {

namespace stream {
class GuardStreamCore;
}

// Thread safety: the producer's members (writer, prepare_write, finish) and the consumer's (reader,
// prepare_read, wait_ready) may be called, and the pointer used, at the same time from different
// threads. Several threads may share a side as long as together they keep its rule. fail, cancel
// and status: any thread. A move must not overlap with anything.
class GuardStream {
 public:
  using Side = penstock::Side;

  struct Options {
    uint64_t bytes = 0;  // the longest that the stream may become: address space, not memory
    size_t block_bytes = 4 * MiB;    // a power of two, at least 4 KiB; huge pages from 2 MiB on
    uint32_t read_ahead_blocks = 2;  // N: full blocks that may wait for the consumer; at least 1
    uint32_t producer_comeback_blocks =
        1;  // L: after writing to block x the producer may still write to x - L
    uint32_t consumer_comeback_blocks =
        1;  // M: after reading block x the consumer may still read x - M
    // For a side that waits in a load or store for what will never come: data of a producer that
    // failed, room from a consumer that cancelled. (A broken limit, such as a comeback of too many
    // blocks, stops or recovers, but never reads as zeros.)
    ErrorPolicy policy = ErrorPolicy::stop;
    // The consumer may only read, so that every store outside of the producer's window is found and
    // named as its breach of L: for tests and debugging. Without it such a store is found when the
    // block has been given back; to a block that the consumer still has it goes unnoticed. (A load
    // behind the consumer's window, M, is always found, one in the producer's window never.)
    bool strict = false;
    std::string name = "pipe";  // for messages
  };
  // L and M of 1 are what library functions need: a load or store that straddles two blocks, memcpy
  // and strstr touch both. 0 is for loops over aligned items.

  static Result<GuardStream> open(const Options& options);
  GuardStream(GuardStream&&) noexcept;
  GuardStream& operator=(GuardStream&&) noexcept;
  // REQUIRES: no thread uses the pointer any more.
  ~GuardStream();

  // ---- the producer. What it skips reads as zeros.
  template <class T = char>
  T* writer() const {
    return reinterpret_cast<T*>(writer_address());
  }
  // [address, address + bytes) can be used without a fault until the producer moves on.
  // REQUIRES: it spans at most producer_comeback_blocks + 1 blocks. Errors: the consumer's;
  // invalid_argument.
  Status prepare_write(const void* address, size_t bytes);
  // The stream is `bytes` long and complete. The producer no longer touches the pointer. Errors:
  // the consumer's, where it gave up; invalid_argument when `bytes` is beyond the capacity, or
  // blocks past it are already complete.
  Status finish(uint64_t bytes);

  // ---- the consumer. What it skips is given back unread. After the last byte come zeros to the
  // end of the block, and one more block of zeros (so strlen and strstr stop).
  // The address is writer()'s; the call waits until the first block is complete, or the producer
  // has finished or failed.
  template <class T = char>
  T* reader() const {
    return reinterpret_cast<T*>(reader_address());
  }
  // The same as prepare_write for the consumer. Waits for the data. Errors: the producer's;
  // invalid_argument.
  Status prepare_read(const void* address, size_t bytes);
  // Waits until more than `offset` bytes can be read without waiting, or the stream is complete;
  // returns how many can. The producer's error, when it failed before.
  Result<uint64_t> wait_ready(uint64_t offset);

  // ---- both. The side gives up and no longer touches the pointer; the other side meets the error
  // (see ErrorPolicy) when it needs what will not come: a consumer still reads what was full by
  // then. The first error of a side counts.
  void fail(Side side, Error error);
  void cancel(Side side);
  // The error with which a side gave up, or ok.
  Status status() const;

  uint64_t memory_bytes() const;  // of the blocks that are committed now

 private:
  explicit GuardStream(std::unique_ptr<stream::GuardStreamCore> core);
  std::byte* writer_address() const;
  std::byte* reader_address() const;

  std::unique_ptr<stream::GuardStreamCore> core_;
};

}  // namespace penstock
