#pragma once

// Temporary space for items that do not fit in memory: one file in each temporary directory,
// written front to back in blocks that go to the directories in turn, so that every bucket and
// every disk gets its share of each.
//
// The files have no names and vanish with the run, or have names and stay, for a run that resumes
// this one (resume.h). Each written block is remembered by a check (io/block_checks.h), eight
// bytes of memory, and reading a block that does not match is an error. Compressed blocks lie one
// behind the other, without holes: on a disk that discards freed blocks, a file with holes takes
// three times as long to free. Their writer keeps the checks of these (StoredBlock).
//
// Thread safety: all members from any thread, except that place() is for one thread at a time, like
// open() and the destructor. Invariant: extents never overlap.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/block_checks.h"
#include "io/file.h"
#include "memory/stream/file_reader.h"

namespace penstock::external {

// A written block, whose size on the disk may be less than its contents.
struct StoredBlock {
  uint32_t bytes = 0;
  uint32_t check = 0;  // CRC-32C of these bytes
};

struct SpillOptions {
  size_t block_bytes = 0;  // size of every extent but a bucket's last one, which may use less
  bool dense = false;      // blocks take only the sectors that they use, and keep no checks
  std::string name = {};   // name of the file in each directory; empty: no name, and it vanishes
  // Directories that hold wanted blocks of an earlier run's spill. The others may lack the file.
  // Empty: the spill is new.
  std::vector<bool> wanted = {};
};

class Spill {
 public:
  static Result<std::unique_ptr<Spill>> open(const std::vector<std::string>& directories,
                                             const SpillOptions& options);
  // Path of a named spill's file in the directory with this number. The number distinguishes the
  // files of a directory that is given twice.
  static std::string path_of(const std::string& directory, const std::string& name, size_t number);

  // Allocates the next block, of which `bytes` are used: a whole block, or in a dense spill these
  // bytes in whole sectors.
  stream::Extent place(uint32_t bytes);
  // An extent is identified by the number of its block, which takes four bytes instead of 24.
  uint32_t number_of(const stream::Extent& extent) const;
  stream::Extent numbered(uint32_t number, uint32_t bytes) const {
    return {files_[number % files_.size()].get(), number / files_.size() * unit_bytes_, bytes};
  }
  // Check of a written block, for a later run, and its counterpart that sets an earlier run's
  // check. Not for a dense spill.
  uint32_t check_of(uint32_t number) const;
  void believe(uint32_t number, uint32_t bytes, uint32_t check);
  // Flushes everything written to the disk. REQUIRES: nothing is written afterwards.
  Status sync() const;
  // Removes the names: the space is free when the spill is closed.
  void remove();

  // Lists the directories, for messages.
  const char* name() const { return name_.c_str(); }

 private:
  std::string name_;
  size_t block_bytes_ = 0;
  size_t unit_bytes_ = 0;  // unit of block numbers: a block, or a sector
  bool named_ = false;
  std::vector<std::unique_ptr<io::File>> files_;  // by directory; nullptr: not wanted
  std::vector<uint64_t> ends_;                    // by file: where the next block goes
  size_t next_ = 0;                               // the file of the next block
};

// Directories and names of a split's temporaries.
struct SpillPlace {
  std::vector<std::string> directories;
  std::string name = {};  // empty: they have no names, and vanish

  bool stays() const { return !name.empty(); }
};

// Temporaries of a split: several spills, each of a range of buckets, whose space is freed when
// these have been read. (Punching a hole into a file waits for all requests on it.) Thread safety:
// as a Spill for place(); keep() and release() by one thread at a time.
class SpillSet {
 public:
  Status open(const SpillPlace& place, uint32_t count, size_t block_bytes, bool dense = false);
  // Opens the set of an earlier run. `wanted` has the directories of each part that hold wanted
  // blocks, none for a part that nobody will keep.
  Status reopen(const SpillPlace& place, const std::vector<std::vector<bool>>& wanted,
                size_t block_bytes);
  static std::string name_of(const SpillPlace& place, uint32_t part);

  bool empty() const { return parts_.empty(); }
  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }
  size_t block_bytes() const { return block_bytes_; }
  // Part of a bucket, of `buckets` in all.
  uint32_t part_of(uint32_t bucket, uint32_t buckets) const;
  Spill& part(uint32_t part) const { return *parts_[part].spill; }
  // Extents of blocks that hold `bytes` bytes. An extent is a block or a part of one; both sizes
  // are powers of two: a resumed run may have less memory than the run that wrote.
  std::vector<stream::Extent> extents(uint32_t part, const std::vector<uint32_t>& blocks,
                                      uint64_t bytes, size_t extent_bytes) const;
  // File and offset of a block, also of a part that is closed.
  struct BlockLocation {
    std::string name;
    uint64_t offset = 0;
  };
  BlockLocation location_of(uint32_t number) const;
  // Keeps and releases a part. When all keepers have released it, the part is closed and its space
  // is freed, possibly a little later, because that may take long: before the next part is closed,
  // the set is destroyed, or wait_until_free() returns.
  void keep(uint32_t part) { ++parts_[part].kept; }
  void release(uint32_t part);
  void wait_until_free();
  // Flushes everything written to the disk.
  Status sync() const;
  const char* name() const { return name_.c_str(); }

 private:
  struct Part {
    std::unique_ptr<Spill> spill;
    uint64_t kept = 0;
  };
  void close_aside(std::unique_ptr<Spill> spill);

  std::string name_;
  std::vector<std::string> directories_;
  size_t block_bytes_ = 0;
  size_t unit_bytes_ = 0;  // unit of block numbers, as in Spill
  std::vector<Part> parts_;
  std::jthread closer_;  // closes the part that was released last
};

}  // namespace penstock::external
