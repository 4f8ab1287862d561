#pragma once

// A range of addresses with your own answer to a fault in it: memory that appears where it is
// touched, and that you take back when you like. What the streams are made of, for things that are
// no streams: a table that computes itself, a cache in front of a device, a sparse array.
//
//   auto memory = penstock::BlockPool::open({.block_bytes = 64 * KiB, .blocks = 16});
//   auto table = penstock::Region::open(
//       *memory, {.bytes = 1 * penstock::TiB},
//       [&](penstock::Region::Blocks& blocks, const penstock::Region::Fault& fault) {
//         penstock::BlockPool::Block block = memory->take();
//         if (!block) block = blocks.hide(oldest());  // takes another block's memory
//         compute(fault.index, block.bytes());        // filled where nobody else can see it
//         blocks.show(fault.index, std::move(block)); // and there it is, all of it at once
//         return penstock::Status();
//       });
//   double f = table->begin<double>()[i];
//
// See examples/lazy_table.cc for the whole of it.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "penstock/block_pool.h"
#include "penstock/error.h"
#include "penstock/error_policy.h"

namespace penstock {

namespace stream {
class RegionCore;
}

// Thread safety: the pointer and blocks() may be used by any number of threads at the same time. A
// move must not overlap with anything.
class Region {
 public:
  enum class Protection : uint8_t { none, read, read_write };

  struct Fault {
    uint64_t index;      // of the block: (address - begin) / block_bytes
    std::byte* address;  // the first byte that was touched
    bool is_write;
    bool is_present;  // the block is there, and its protection forbids the access
  };

  // What a handler may do with the region; other code may, too, at any time.
  // Nothing here allocates. Results of int are 0 or an errno.
  class Blocks {
   public:
    // The block appears at its index, readable and writable, complete for every thread that sees
    // it. On an error it stays with the caller: EEXIST when one is there already, ENOMEM when the
    // process has too many mappings (vm.max_map_count).
    // REQUIRES: the block is of the region's pool; index < count().
    [[nodiscard]] int show(uint64_t index, BlockPool::Block&& block);
    // The block vanishes from its index and is the caller's alone, with all that any thread stored
    // in it. Empty when none is there, when the fault of another thread is being served at this
    // index (so that what a handler shows is there when its access runs again), or when the system
    // refuses to move it.
    BlockPool::Block hide(uint64_t index);
    // From the return on, an access that the protection forbids calls the handler, with
    // Fault::is_present. Lasts until the block is hidden. ENOENT when no block is there.
    [[nodiscard]] int protect(uint64_t index, Protection protection);
    bool is_present(uint64_t index) const;

    uint64_t count() const;
    std::byte* address_of(uint64_t index) const;

   private:
    friend class stream::RegionCore;
    explicit Blocks(stream::RegionCore& core) : core_(core) {}
    stream::RegionCore& core_;
  };

  // Called when a thread touches what is not there, or not allowed, in that thread and inside a
  // signal handler, so that everything holds for it that holds for a function called at that very
  // place:
  //   - for one block it is called by one thread at a time, and others that touch the block wait;
  //     for different blocks it may run in several threads at once. It may lock a mutex of its own
  //     that is never held while the region is touched;
  //   - it may allocate unless the pointer is handed to the allocator itself; it may wait, use
  //     streams (one with ErrorPolicy::recover only inside a RecoveryPoint of its own) and touch
  //     other blocks of the region, if no circle comes of it; its own block stops the program;
  //   - what it changes, the interrupted code reads as if another thread had changed it: let such
  //     variables be atomic, or the compiler may keep them in registers across the touch;
  //   - it must not throw, nor jump out;
  //   - its stack is what the thread has left, or its alternate signal stack where there is one.
  // When it returns ok, the access must be possible. An error becomes what Options::policy says.
  using Handler = std::function<Status(Blocks& blocks, const Fault& fault)>;

  struct Options {
    uint64_t bytes = 0;  // address space; rounded up to blocks
    // For an access that the handler refuses: stop or recover. No zeros.
    ErrorPolicy policy = ErrorPolicy::stop;
    std::string name = "region";  // for messages
  };

  // Memory comes from the pool, which several regions and arrays may share.
  static Result<Region> open(const BlockPool& pool, const Options& options, Handler handler);
  Region(Region&&) noexcept;
  Region& operator=(Region&&) noexcept;
  // REQUIRES: no thread uses the pointer any more. All blocks go back to the pool.
  ~Region();

  template <class T = std::byte>
  T* begin() const {
    return reinterpret_cast<T*>(address());
  }
  uint64_t bytes() const;
  Blocks& blocks() const;
  // As if every block of [address, address + bytes) were touched once, in order: for system calls,
  // which would get EFAULT. What the handler hides meanwhile is gone again. Errors: the handler's.
  Status prepare_read(const void* address, size_t bytes) const;
  Status prepare_write(void* address, size_t bytes) const;

 private:
  explicit Region(std::unique_ptr<stream::RegionCore> core);
  std::byte* address() const;

  std::unique_ptr<stream::RegionCore> core_;
};

}  // namespace penstock
