#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/fd.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::os {

// A file that exists only in memory: pages that can be mapped at several addresses, and in several
// processes. A forked child maps nothing of its parent's (EPERM); it may adopt() the descriptor.
//
// Thread safety: a move-only value; map() may be called from any thread, and on the fault path.
class MemoryFile {
 public:
  enum class Pages { small, hugetlb };

  // Makes a file of `bytes` zeros without memory. hugetlb takes 2 MiB pages that an administrator
  // has reserved; map() fails if there are not enough of them.
  static Result<MemoryFile> create(uint64_t bytes, Pages pages = Pages::small);
  // Adopts a file that another process has made: the descriptor is duplicated. Errors:
  // invalid_argument if it is no memory file with a sealed size (its memory could vanish under a
  // mapping).
  static Result<MemoryFile> adopt(int fd);
  MemoryFile() = default;
  MemoryFile(MemoryFile&& other) noexcept
      : fd_(std::move(other.fd_)),
        made_(other.made_),
        counted_bytes_(std::exchange(other.counted_bytes_, 0)) {}
  MemoryFile& operator=(MemoryFile&& other) noexcept;
  ~MemoryFile();

  int fd() const { return fd_.get(); }
  uint64_t bytes() const;

  // Seals the size: nobody can change it any more, not even others with the descriptor.
  Status seal_size();

  // Maps a part of the file at `address`, in place of the mapping there. `populate` enters existing
  // pages into the page table at once. Returns 0 or an errno.
  [[nodiscard]] int map(std::byte* address, size_t bytes, uint64_t offset,
                        bool populate) const noexcept {
    return map(address, bytes, offset, Protection::read_write, populate);
  }
  [[nodiscard]] int map(std::byte* address, size_t bytes, uint64_t offset, Protection access,
                        bool populate) const noexcept;

 private:
  void count();

  Fd fd_;
  Generation made_;
  uint64_t counted_bytes_ = 0;  // counted in memory_file_bytes()
};

// Returns the size of all memory files of this process that exist. They take no more memory than
// that, however many views they have.
uint64_t memory_file_bytes() noexcept;

// Gives the pages of a view's part of the file back to the system; then all views read zeros.
[[nodiscard]] int discard_file_pages(std::byte* address, size_t bytes) noexcept;

}  // namespace penstock::os
