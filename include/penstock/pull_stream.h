#pragma once

// A plain pointer to bytes that a function makes, block by block, when they are first touched.
//
// The consumer reads at begin(), almost sequentially: after touching block x it may come back to
// blocks x - comeback_blocks and later. Its fault in a block calls the producer, in the consumer's
// own thread, which fills the block; then the block appears, all of it at once. Memory:
// comeback_blocks + 1 blocks, whatever the length. (Vortex-A of Hanel, Carnovale, Tong and
// Loguinov, "Vortex: Extreme-Performance Memory Abstractions for Data-Intensive Streaming
// Applications", ASPLOS 2020, section 4.1 and Algorithm 6.)
//
//   auto numbers = penstock::PullStream::open(
//       {.bytes = 1 * penstock::TiB},
//       [](std::span<std::byte> block, uint64_t offset) -> penstock::Result<size_t> {
//         auto* item = reinterpret_cast<uint64_t*>(block.data());
//         for (size_t i = 0; i < block.size() / 8; ++i) item[i] = square(offset / 8 + i);
//         return block.size();
//       });
//   const uint64_t* square_of = numbers->begin<uint64_t>();
//
// What the producer may do. It runs inside a signal handler, at the consumer's load, and everything
// holds for it that holds for a function called at that very place:
//   - It must not take a lock that the code around the load may hold. Allocating is fine unless the
//     stream's pointer was handed to the allocator itself (no allocator reads foreign memory under
//     its lock); printing is fine unless the pointer was handed to the same FILE.
//   - It may wait, do I/O and use other streams, also another PullStream; one with
//     ErrorPolicy::recover only inside a RecoveryPoint of its own.
//   - It may read the comeback_blocks blocks in front of its own through begin() (a decompressor's
//     window). Any other touch of its own stream stops the program with a message.
//   - What it changes, the consumer reads as if another thread had changed it: let such variables
//     be atomic, or the compiler may keep them in registers across the load.
//   - It must not throw, nor jump out.
//   - Its stack is what the consumer has left, or the thread's alternate signal stack where there
//     is one (sigaltstack; CPython's faulthandler, Go and the JVM set one, often of only 8 to 64 KiB):
//     let it keep large state outside.
// errno is kept for the consumer.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "penstock/error.h"
#include "penstock/error_policy.h"
#include "penstock/mechanism.h"
#include "penstock/units.h"

namespace penstock {

namespace stream {
class PullStreamCore;
}

// Thread safety: one thread at a time uses the stream and its pointer. A move must not overlap with
// anything.
class PullStream {
 public:
  // Fills `block`, which begins at byte `offset` of the stream, and returns how many bytes it
  // produced: fewer than the block holds end the stream there. An Error ends it, too, and meets the
  // consumer as Options::policy says.
  using Producer =
      std::move_only_function<Result<size_t>(std::span<std::byte> block, uint64_t offset)>;

  struct Options {
    uint64_t bytes = 0;            // the longest that the stream may become: address space
    size_t block_bytes = 2 * MiB;  // a power of two, at least 4 KiB
    uint32_t comeback_blocks = 1;  // M
    // The producer may be asked for any block, any number of times. Then a consumer that jumps
    // forward makes it produce only what is touched, and one that goes back further than
    // comeback_blocks is served anew. Otherwise it is asked for each block once, in order: blocks
    // that the consumer skips are produced and dropped, and going back too far is an error.
    bool random_access = false;
    ErrorPolicy policy = ErrorPolicy::stop;  // (a broken limit stops or recovers; it never reads as
                                             // zeros)
    Mechanism mechanism = Mechanism::automatic;
    bool strict = false;  // `shared` only: what lies behind vanishes at once, so that every load
                          // behind the limit is found. The other mechanisms find each anyway
    std::string name = "pull stream";  // for messages
  };
  // A comeback of 1 is what library functions need: a load that straddles two blocks touches both.

  static Result<PullStream> open(const Options& options, Producer producer);
  PullStream(PullStream&&) noexcept;
  PullStream& operator=(PullStream&&) noexcept;
  ~PullStream();

  // After the last byte come zeros to the end of the block, and one more block of zeros (so that
  // strlen and strstr stop). The consumer may also write: that lasts as long as the block.
  template <class T = char>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  // Whether the stream ends at or before `position`; produces the block there if need be, which
  // counts as touching it.
  bool at_end(const void* position);
  // The length, once the producer has come to its end.
  std::optional<uint64_t> bytes() const;
  // Makes [address, address + bytes) readable without a fault, until the consumer moves on: for
  // system calls, which would get EFAULT. Errors: the producer's; invalid_argument when the piece
  // spans more than comeback_blocks + 1 blocks, or lies behind them or past the end.
  Status prepare(const void* address, size_t bytes);
  // The producer's error, or ok.
  Status status() const;

  Mechanism mechanism() const;    // the one in use
  uint64_t memory_bytes() const;  // physical memory held

 private:
  explicit PullStream(std::unique_ptr<stream::PullStreamCore> core);
  std::byte* address() const;

  std::unique_ptr<stream::PullStreamCore> core_;
};

}  // namespace penstock
