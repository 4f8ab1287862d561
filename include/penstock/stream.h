#pragma once

// Streams: bytes in order, longer than memory, behind plain pointers.
//
//   one pointer, filled by a function                    PullStream
//   two threads, a pointer each, which meet in blocks    RemapStream
//   two threads, one pointer                             GuardStream
//   two processes, a pointer each                        ProcessStream
//
// penstock/file_stream.h and penstock/source.h have files and pipes as pointers, penstock/region.h
// memory with the user's own rules. docs/streams.md tells which one to use.
//
// All of them use the same names. begin<T>() is the address of the first byte; a stream with two
// sides has two such pointers, writer<T>() and reader<T>(). finish(bytes) ends the producer's data.
// prepare_read() and prepare_write() make a piece ready for a system call, wait_ready() waits for
// data without touching them, status() returns the first error.
//
// A thread that uses a pointer must not block SIGSEGV or SIGBUS: the kernel would end the process
// without a message. open(), begin(), reader(), writer() and RecoveryPoint::run() unblock both in
// the thread that calls them; a thread that blocks them later, or gets the pointer from another
// thread, has to unblock them itself. An alternate signal stack (sigaltstack) needs 16 KiB more
// than the kernel (getauxval(AT_MINSIGSTKSZ)).
//
// Copies. A stream goes forward. On some processors a large memcpy(), memmove() or std::copy() does
// not: C libraries go backward, or store the first bytes last. The stream then ends with an error
// that names stream, block and limit. copy(to, from, bytes) below goes from front to back.

#include <csetjmp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "penstock/base.h"
#include "penstock/internal/recovery_frame.h"

namespace penstock {

namespace stream {
class GuardStreamCore;
class ProcessStreamCore;
class PullStreamCore;
class RemapStreamCore;
class TwoSidedCore;
}  // namespace stream

// Copies from front to back, whatever the size; returns the end of the written bytes. Either
// pointer, or both, may be a stream's, with any comeback. REQUIRES: the pieces do not overlap.
std::byte* copy(void* to, const void* from, size_t bytes);

// The two ends of a stream between threads or processes.
enum class Side : uint8_t { producer, consumer };

// A plain pointer to bytes that a function produces, block by block, when they are first touched.
//
// The consumer reads at begin(), almost sequentially: after touching block x it may come back to
// blocks x - comeback_blocks and later. Its fault in a block calls the producer, in the consumer's
// own thread, which fills the block; then the block appears, all of it at once. Memory:
// comeback_blocks + 1 blocks, whatever the length. (Vortex-A of Hanel, Arman, Xiao, Keech and
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
// Rules for the producer. It runs inside a signal handler, at the consumer's load, and must keep
// the rules of a function that is called at that place:
//   - It must not take a lock that the code around the load may hold. Allocating is allowed unless
//     the stream's pointer was handed to the allocator itself (no allocator reads foreign memory
//     under its lock); printing is allowed unless the pointer was handed to the same FILE.
//   - It may wait, do I/O and use other streams, also another PullStream; one with
//     ErrorPolicy::recover only inside a RecoveryPoint of its own.
//   - It may read the comeback_blocks blocks in front of its own through begin() (a decompressor's
//     window). Any other touch of its own stream stops the program with a message.
//   - The consumer sees its changes as if another thread had made them: such variables have to be
//     atomic, or the compiler may keep them in registers across the load.
//   - It must not throw, nor jump out.
//   - Its stack is the rest of the consumer's stack, or the thread's alternate signal stack if
//     there is one (sigaltstack; CPython's faulthandler, Go and the JVM set one, often of only 8 to
//     64 KiB): it should keep large state outside.
// errno is kept for the consumer.
//
// Thread safety: one thread at a time uses the stream and its pointer. A move and the destructor
// must not overlap with anything.
class PullStream {
 public:
  // Fills `block`, which begins at byte `offset` of the stream, and returns the number of bytes.
  // Fewer than the block holds end the stream there. An Error ends it, too, and reaches the
  // consumer by Options::policy.
#ifdef __cpp_lib_move_only_function
  using Producer =
      std::move_only_function<Result<size_t>(std::span<std::byte> block, uint64_t offset)>;
#else  // clang's libc++: the callable has to be copyable
  using Producer = std::function<Result<size_t>(std::span<std::byte> block, uint64_t offset)>;
#endif

  struct Options {
    uint64_t bytes = 0;            // longest size of the stream: address space
    size_t block_bytes = 2 * MiB;  // a power of two, 4 KiB to 1 GiB
    uint32_t comeback_blocks = 1;  // M
    // Lets the stream request any block, any number of times. Then a consumer that jumps forward
    // makes the producer produce only the touched blocks, and one that goes back further than
    // comeback_blocks gets the blocks again. Otherwise each block is requested once, in order:
    // blocks that the consumer skips are produced and dropped, and going back too far is an error.
    bool random_access = false;
    // A broken limit stops or recovers; it never reads as zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    Mechanism mechanism = Mechanism::automatic;
    // Removes blocks behind the limit at once, so that every load from them is an error. false, for
    // `shared` only, removes them a few blocks later; then such a load may read newer data.
    bool strict = true;
    std::string name = "pull stream";  // for messages
  };
  // A comeback of 1 suits library functions: a load that straddles two blocks touches both.

  static Result<PullStream> open(const Options& options, Producer producer);

  // Returns the stream's pointer. Behind the last byte are zeros to the end of the block, and one
  // more block of zeros (so that strlen and strstr stop). The consumer may also write, which lasts
  // as long as the block.
  template <class T = char>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  // Returns whether the stream ends at or before `position`; produces the block there if necessary,
  // which counts as touching it.
  bool at_end(const void* position);
  // Returns the length, once the producer has come to its end.
  std::optional<uint64_t> bytes() const;
  // Makes [address, address + bytes) readable without a fault, until the consumer moves on: for
  // system calls, which would get EFAULT. Errors: the producer's; invalid_argument if the piece
  // spans more than comeback_blocks + 1 blocks, or lies behind them or past the end.
  Status prepare_read(const void* address, size_t bytes);
  // Returns the producer's error, or ok.
  Status status() const;

  Mechanism mechanism() const;    // the mechanism in use
  uint64_t memory_bytes() const;  // physical memory held

 private:
  friend struct internal::Access;
  explicit PullStream(internal::Owner<stream::PullStreamCore> core) : core_(std::move(core)) {}
  std::byte* address() const;

  internal::Owner<stream::PullStreamCore> core_;
};

// The members of all streams with two sides: RemapStream, GuardStream, ProcessStream.
//
// Thread safety: the producer's members (writer, prepare_write, finish) and pointer may be used at
// the same time as the consumer's (reader, prepare_read, wait_ready), in different threads. Several
// threads may share a side as long as together they keep its rule. fail, cancel and status: any
// thread. A move and the destructor must not overlap with anything.
class TwoSidedStream {
 public:
  TwoSidedStream(TwoSidedStream&&) noexcept = default;

  // ---- The producer. A block that it skips reads as zeros.
  template <class T = char>
  T* writer() const {
    return reinterpret_cast<T*>(writer_address());
  }
  // Makes [address, address + bytes) writable without a fault until the producer moves on.
  // REQUIRES: it spans at most producer_comeback_blocks + 1 blocks. Errors: the consumer's;
  // invalid_argument.
  Status prepare_write(const void* address, size_t bytes);
  // Completes the stream with a length of `bytes`. The producer no longer touches writer(). Errors:
  // the consumer's, if it gave up; invalid_argument if `bytes` is beyond the capacity, or blocks
  // past it are already complete.
  Status finish(uint64_t bytes);

  // ---- The consumer. It may jump forward: blocks that it skips are given back unread. Behind the
  // last byte are zeros to the end of the block, and one more block of zeros (so that strlen and
  // strstr stop).
  template <class T = char>
  T* reader() const {
    return reinterpret_cast<T*>(reader_address());
  }
  // Makes a piece readable, as prepare_write() makes one writable. Waits for the data. Errors: the
  // producer's; invalid_argument.
  Status prepare_read(const void* address, size_t bytes);
  // Waits until more than `offset` bytes can be read without waiting, or the stream is complete;
  // returns their number. Counts as touching the block of `offset`. Errors: the producer's, if it
  // failed before; invalid_argument if this side gave up meanwhile.
  Result<uint64_t> wait_ready(uint64_t offset);

  // ---- Both sides.
  //
  // Make a side give up; it no longer touches its pointer (another process keeps its own). The
  // other side meets the error (see ErrorPolicy) when it needs data or room that will not come; a
  // consumer still reads blocks that were full by then. The first error of a side counts.
  void fail(Side side, Error error);
  void cancel(Side side);
  // Returns the error with which a side gave up, or ok.
  Status status() const;

  uint64_t memory_bytes() const;  // physical memory held now

 protected:
  explicit TwoSidedStream(internal::Owner<stream::TwoSidedCore> core) : core_(std::move(core)) {}
  // Not public, because the assigned stream may be of another kind.
  TwoSidedStream& operator=(TwoSidedStream&&) noexcept = default;
  std::byte* writer_address() const;
  std::byte* reader_address() const;

  friend struct internal::Access;
  internal::Owner<stream::TwoSidedCore> core_;
};

// Two plain pointers, the writer's and the reader's, to a stream that may be longer than memory.
//
// One side writes to writer() from the first byte on, the other reads the same bytes at reader(),
// without a call per item or block. The side that runs ahead waits inside its own load or store
// until the other side has caught up. Memory: read_ahead + producer_comeback + consumer_comeback +
// 1 blocks, whatever the length. (Vortex-C of Hanel, Arman, Xiao, Keech and Loguinov, "Vortex:
// Extreme-Performance Memory Abstractions for Data-Intensive Streaming Applications", ASPLOS 2020,
// section 4.3.)
//
//   auto pipe = penstock::RemapStream::open({.bytes = 10 * penstock::TiB});
//   std::jthread producer([&] { std::memset(pipe->writer(), 'a', n); (void)pipe->finish(n); });
//   char* hit = std::strstr(pipe->reader<char>(), "hello world");
//
// Code that takes the pointer for memory must go forward, as far as the comebacks say. A large
// memcpy() or memmove() may not, and is then an error: use copy(). (test/third_party_test.cc shows
// the needs of other libraries: a decoder that checks its output's sum, or a parser that validates
// all text first, goes over it twice.) A system call on the pointer is no load or store: the kernel
// returns EFAULT if the stream would have waited. Call prepare_write() or prepare_read() on the
// piece first, or use penstock::system_calls, or Options::system_calls.
//
// Bytes that the producer leaves out within a block that it touches are undefined, and so is
// everything that it reads before writing.
class RemapStream : public TwoSidedStream {
 public:
  struct Options {
    uint64_t bytes = 0;              // longest size of the stream: address space, not memory
    size_t block_bytes = 4 * MiB;    // a power of two, 4 KiB to 1 GiB
    uint32_t read_ahead_blocks = 2;  // N: full blocks that may wait for the consumer
    uint32_t producer_comeback_blocks =
        1;  // L: after writing to block x the producer may still write to x - L
    uint32_t consumer_comeback_blocks =
        1;  // M: after reading block x the consumer may still read x - M
    // Reaction of a side that waits in a load or store for data of a producer that failed, or room
    // from a consumer that cancelled. A load that breaks a limit (a comeback of too many blocks)
    // stops or recovers, but never reads as zeros. With zeros, a store that breaks a limit makes
    // the producer fail: its later stores are dropped, and finish() and status() return the reason.
    // A block that the system does not map (I/O pins a page of it) makes its side fail in the same
    // way; a consumer's loads then read zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    Mechanism mechanism = Mechanism::automatic;
    // Takes a block away from a side before the other side learns of it, so that every breach of L
    // and M is an error that names stream, block and limit. false is for code whose order was
    // checked: it is faster by up to a move per block and side, but breaches may go unnoticed. A
    // store to a block that has been handed over is lost or spoils newer data; a load from one that
    // was given back reads newer data.
    bool strict = true;
    // Lets a block take memory when it is written, not when the stream is opened, with
    // Mechanism::mremap; for many blocks of which few may be needed.
    bool sparse = false;
    // Makes system calls on either pointer wait as loads and stores do, instead of failing with
    // EFAULT: `write(fd, pipe.reader(), 1 * GiB)` works. Needs a privileged userfaultfd (root, or
    // access to /dev/userfaultfd; `penstock doctor` tells), and costs a thread per side and a
    // change of threads per fault. Not for O_DIRECT files: pages under such I/O cannot move.
    bool system_calls = false;
    std::string name = "pipe";  // for messages
  };
  // L and M of 1 suit library functions: a load or store that straddles two blocks, memcpy and
  // strstr touch both. 0 is for loops over aligned items.

  static Result<RemapStream> open(const Options& options);

  Mechanism mechanism() const;  // the mechanism in use

 private:
  using TwoSidedStream::TwoSidedStream;
};

// One plain pointer, shared by a writer and a reader, to a stream that may be longer than memory.
//
// One side writes from the first byte on, the other reads the same bytes at the same address,
// without a call per item or block. The side that runs ahead waits inside its own load or store.
// Memory is taken from the system on the first write to a block and given back behind the reader:
// at most read_ahead + producer_comeback + consumer_comeback + 1 blocks, whatever the length.
// (Vortex-B of Hanel, Arman, Xiao, Keech and Loguinov, "Vortex: Extreme-Performance Memory
// Abstractions for Data-Intensive Streaming Applications", ASPLOS 2020, section 4.2.)
//
//   auto pipe = penstock::GuardStream::open({.bytes = 10 * penstock::TiB});
//   std::jthread producer([&] { std::memset(pipe->writer(), 'a', n); (void)pipe->finish(n); });
//   char* hit = std::strstr(pipe->reader<char>(), "hello world");
//
// RemapStream does the same with two pointers and is faster, because its blocks are never cleared
// by the kernel; it also lets a reader jump anywhere. One address has two advantages: pointers that
// the producer stores in the data stay valid for the consumer, and only memory between the two
// sides is held.
//
// Costs of one address. Both sides see the same mapping, so
//   - reader() must be called in the consumer's thread: it waits until the first block is complete,
//     or the producer has finished or failed;
//   - the consumer gets a block when the producer has completed that one and the next (or has
//     finished), because the guard on the next one is what will stop it;
//   - a consumer may jump forward over complete blocks, which wait_ready() tells, and beyond the
//     producer's head. A jump into the producer_comeback_blocks + 1 blocks that the producer may
//     still write to meets no guard, not even with `strict`: it reads whatever is there;
//   - the producer must not load from a block before it stores to it: such a load is taken for the
//     consumer's, which would wait for its own thread, and is an error.
//
// A system call on the pointer is no load or store: the kernel returns EFAULT if the stream would
// have waited. Call prepare_write() or prepare_read() on the piece first.
class GuardStream : public TwoSidedStream {
 public:
  struct Options {
    uint64_t bytes = 0;              // longest size of the stream: address space, not memory
    size_t block_bytes = 4 * MiB;    // a power of two, 4 KiB to 1 GiB; huge pages from 2 MiB on
    uint32_t read_ahead_blocks = 2;  // N: full blocks that may wait for the consumer; at least 1
    uint32_t producer_comeback_blocks =
        1;  // L: after writing to block x the producer may still write to x - L
    uint32_t consumer_comeback_blocks =
        1;  // M: after reading block x the consumer may still read x - M
    // Reaction of a side that waits in a load or store for data of a producer that failed, or room
    // from a consumer that cancelled. (A broken limit, such as a comeback of too many blocks, stops
    // or recovers, but never reads as zeros.)
    ErrorPolicy policy = ErrorPolicy::stop;
    // Lets the consumer only read, so that every store outside of the producer's window is an error
    // that names the breach of L. false lets the consumer store to what it reads, for producers
    // whose order was checked: then such a store is found if the block has been given back, or the
    // store comes from the producer's last thread; in a block that the consumer still has it goes
    // unnoticed. (A load behind the consumer's window, M, is always found, one in the producer's
    // window never.)
    bool strict = true;
    std::string name = "pipe";  // for messages
  };
  // L and M of 1 suit library functions: a load or store that straddles two blocks, memcpy and
  // strstr touch both. 0 is for loops over aligned items.

  static Result<GuardStream> open(const Options& options);

 private:
  using TwoSidedStream::TwoSidedStream;
};

// A RemapStream whose producer and consumer are different processes, each with a plain pointer of
// its own. Either may die at any moment: the other one meets an error instead of waiting.
//
//   auto stream = penstock::ProcessStream::open({.bytes = 10 * penstock::TiB}, Side::producer);
//   // the other process, which has got stream->fd() by inheritance or over a socket (SCM_RIGHTS):
//   auto other = penstock::ProcessStream::attach(fd, Side::consumer);
//
// Reading, writing, jumping, coming back (L and M), finishing and failing work as in RemapStream,
// except that each process calls only the members of its own side. The blocks are pages of a memory
// file that both processes map; no bytes are copied, and the system frees them when both are gone,
// however they ended.
//
// A child of fork() cannot use its parent's streams: it attaches on its own. A process that calls
// exec() without closing its stream counts as running until the new program ends. Both processes
// must see each other's numbers (one pid namespace).
//
// Memory: read_ahead + producer_comeback + consumer_comeback + 1 blocks for both processes
// together. Thread safety: as RemapStream: several threads of a process may share its side.
class ProcessStream : public TwoSidedStream {
 public:
  struct Options {
    uint64_t bytes = 0;                     // longest size of the stream: address space, not memory
    size_t block_bytes = 4 * MiB;           // a power of two, 4 KiB to 1 GiB
    uint32_t read_ahead_blocks = 1;         // N
    uint32_t producer_comeback_blocks = 1;  // L
    uint32_t consumer_comeback_blocks = 1;  // M
    // Reaction of this side when the other one fails or dies. attach() has its own.
    ErrorPolicy policy = ErrorPolicy::stop;
    // Longest wait of an access for a process that attaches; after that the other side counts as
    // failed. 0: for ever.
    uint32_t attach_ms_max = 0;
    bool strict = true;                 // strictness of this side, see RemapStream
    std::string name = "process pipe";  // for messages on both sides; the first 63 bytes
  };
  struct AttachOptions {
    ErrorPolicy policy = ErrorPolicy::stop;
    bool strict = true;
  };

  // Makes a stream with this process as one side.
  static Result<ProcessStream> open(const Options& options, Side side);
  // Attaches to the stream behind `fd` as the other side; `fd` is not used any more afterwards.
  // Errors: invalid_argument if it is no such stream, or the side is taken; cancelled if the
  // process that made it has ended, or does not wait any more (attach_ms_max).
  static Result<ProcessStream> attach(int fd, Side side, const AttachOptions& options);
  static Result<ProcessStream> attach(int fd, Side side) { return attach(fd, side, {}); }

  // Returns the descriptor for the other process; closed on exec, and by the destructor. A stream's
  // destructor makes a producer that has not finished fail, and a consumer cancel.
  int fd() const;
  Side side() const;

  // Make this side give up; the message's first 255 bytes reach the other one. status() also tells
  // that a side died.
  void fail(Error error);
  void cancel();

 private:
  using TwoSidedStream::TwoSidedStream;
};

// ---- Errors in the middle of a load or store.

// A recovery point: the place where code that uses a stream's plain pointer continues when the
// stream fails (ErrorPolicy::recover).
//
//   auto hits = RecoveryPoint::run([&] { return std::count(reader.begin(), reader.end(), 'x'); });
//   if (!hits) report(hits.error().message());
//
// An access that cannot be served leaves the callable at that very instruction, by a jump
// (sigsetjmp, siglongjmp) to the innermost run() of the same thread. The jump skips everything that
// the callable's frames had still to do, destructors and catch blocks included. So the callable
// must not own anything at the time of an access, neither locks nor containers; it should fill
// objects that the caller owns. (Formally, C++ leaves a jump over a non-trivial destructor
// undefined; in practice the object is leaked and a lock stays locked.) Variables of the caller
// that the callable changed through a reference keep their last stored value.
//
// Thread safety: recovery points are per thread and nest; the innermost one gets the error.
class RecoveryPoint {
 public:
  // Returns the callable's result (a Result stays as it is), or the error of its stream.
  template <class Callable>
  static auto run(Callable&& callable) ->
      typename internal::AsResult<std::invoke_result_t<Callable&>>::type {
    internal::RecoveryFrame frame;
    if (sigsetjmp(frame.jump, 1) != 0) return std::unexpected(frame.error());
    if constexpr (std::is_void_v<std::invoke_result_t<Callable&>>) {
      std::invoke(callable);
      return {};
    } else {
      return std::invoke(callable);
    }
  }
};

}  // namespace penstock

// System calls on a stream's pointer.
//
// The kernel does not run a stream's fault handler: a system call that touches a missing block
// fails with EFAULT, or ends half done. A prepare function makes a piece ready beforehand; the
// calls below do so for pieces of any length, window by window. They work on every kind of stream,
// on custom regions, and on ordinary memory, which needs no preparation; the caller need not know
// which it is. (If a privileged userfaultfd is granted, RemapStream::Options::system_calls makes
// all of this unnecessary.)
//
//   auto log = penstock::FileReader::open("access.log");
//   penstock::Result<uint64_t> sent = penstock::system_calls::send(socket, log->begin(),
//   log->bytes());
//
// A piece must not reach from a stream into other memory. Thread safety: that of the stream's side
// with the pointer. Errors: the stream's (those of a load or store; with ErrorPolicy::stop some
// streams stop the program instead), or the system's.
namespace penstock::system_calls {

// Makes as many of the bytes from `address` on ready as a stream can have at once, and waits for
// them if it must: at least 1 unless bytes is 0. They stay ready until the same side moves on.
Result<size_t> prepare_read(const void* address, size_t bytes);
Result<size_t> prepare_write(void* address, size_t bytes);

// Reads from a descriptor to memory until `bytes` are there or the data end; returns the number.
Result<uint64_t> read(int fd, void* to, uint64_t bytes);
Result<uint64_t> recv(int socket, void* to, uint64_t bytes, int flags = 0);
// Writes all bytes. Waits for a descriptor in non-blocking mode. Only write() raises SIGPIPE.
Result<uint64_t> write(int fd, const void* from, uint64_t bytes);
Result<uint64_t> send(int socket, const void* from, uint64_t bytes, int flags = 0);

}  // namespace penstock::system_calls

// The library's signal handlers, for programs and runtimes that install handlers of their own
// (CPython's faulthandler, the JVM, crash reporters). Opening the first stream installs ours for
// SIGSEGV and SIGBUS; a fault that belongs to no stream goes to the handler that was there before.
//
// A handler that is installed after ours and does not hand on (faulthandler, for one) also takes
// the streams' faults: call install() after it, or open a stream.
//
// Thread safety: all functions may be called from any thread, outside of signal handlers.
namespace penstock::fault {

// Returns whether both signals reach us first, or through a handler that seems to chain to us.
bool installed();

// Puts our handlers (back) in front, and chains to those that were installed meanwhile.
Status install();

// Gives the signals back to the previous handlers. REQUIRES: no stream is open.
Status uninstall();

}  // namespace penstock::fault
