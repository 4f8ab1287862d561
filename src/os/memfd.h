#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "os/fd.h"
#include "os/memory.h"
#include "penstock/base.h"

namespace penstock::os {

// A file that lives in memory alone: pages that can be seen at several addresses, and from several
// processes. A forked child maps nothing of its parent's (EPERM); it may adopt() the descriptor.
//
// Thread safety: a move-only value; map() may be called from any thread, and on the fault path.
class MemoryFile {
 public:
  enum class Pages { small, hugetlb };

  // Of `bytes` zeros, for which no memory exists yet. hugetlb takes 2 MiB pages that an
  // administrator has reserved; map() fails where there are not enough of them.
  static Result<MemoryFile> create(uint64_t bytes, Pages pages = Pages::small);
  // A file that another process has made: the descriptor is duplicated. Errors: invalid_argument
  // when it is no memory file whose size is sealed (its memory could vanish under a mapping).
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

  // Nobody can change the size any more, whoever else has the descriptor.
  Status seal_size();

  // Makes a part of the file appear at `address`, in place of what is mapped there. With `populate`
  // the pages that exist are entered into the page table at once. 0 or an errno.
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
  uint64_t counted_bytes_ = 0;  // in memory_file_bytes()
};

// Of all memory files of this process, as long as they are. However many views there are of them,
// they take no more memory.
uint64_t memory_file_bytes() noexcept;

// Gives the pages of a view's part of the file back to the system; it reads as zeros from then on,
// in every view.
[[nodiscard]] int discard_file_pages(std::byte* address, size_t bytes) noexcept;

}  // namespace penstock::os
