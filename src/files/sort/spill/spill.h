#pragma once

// Temporary space for what does not fit in memory: one file in each temporary directory, written
// front to back in blocks that go to the directories in turn, so that every bucket and every disk
// gets its share of each.
//
// Such files vanish with their run, or have a name and stay, for a run that goes on (resume.h).
// What is written is remembered by a check for each block (io/block_checks.h), of eight bytes of
// memory; whoever reads a block that does not match gets an error. Blocks that become smaller on
// their way lie one behind the other, without holes: a file of holes takes three times as long to
// free where its blocks are discarded. The checks of these are their writer's (StoredBlock).
//
// Thread safety: all members from any thread, but place(), which is for one at a time, open() and
// the destructor. Invariant: an extent belongs to one taker; extents never overlap.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/block_checks.h"
#include "io/file.h"
#include "memory/stream/file_reader.h"

namespace penstock::external {

// A block of which the disk may have less than it holds, as it was written.
struct StoredBlock {
  uint32_t bytes = 0;
  uint32_t check = 0;  // CRC-32C of these
};

struct SpillOptions {
  size_t block_bytes = 0;  // of every extent but the last one of a bucket, which may use less
  bool dense = false;      // blocks take what they use, in sectors, and keep no checks
  std::string name = {};   // of the file in each directory; empty: it has none, and vanishes
  // Of a spill that an earlier run left: in which directories something of it is wanted. The others
  // may have no file of it. Empty: a new one.
  std::vector<bool> wanted = {};
};

class Spill {
 public:
  static Result<std::unique_ptr<Spill>> open(const std::vector<std::string>& directories,
                                             const SpillOptions& options);
  // What a named spill's file is called in the directory of this number. (The number, so that a
  // directory that is given twice has two files.)
  static std::string path_of(const std::string& directory, const std::string& name, size_t number);

  // Room for the next block, of which `bytes` are used: for a whole block, or, in a dense spill, for
  // these in whole sectors.
  stream::Extent place(uint32_t bytes);
  // An extent is told by the number of its block, which takes four bytes instead of 24.
  uint32_t number_of(const stream::Extent& extent) const;
  stream::Extent numbered(uint32_t number, uint32_t bytes) const {
    return {files_[number % files_.size()].get(), number / files_.size() * unit_bytes_, bytes};
  }
  // Of a block that was written, for a later run; and what an earlier one had. Not of a dense one.
  uint32_t check_of(uint32_t number) const;
  void believe(uint32_t number, uint32_t bytes, uint32_t check);
  // What was written is on the disk. Nothing is written afterwards.
  Status sync() const;
  // Takes the names away: the space is free when the spill is closed.
  void remove();

  // The directories, for messages.
  const char* name() const { return name_.c_str(); }

 private:
  std::string name_;
  size_t block_bytes_ = 0;
  size_t unit_bytes_ = 0;  // what blocks are numbered by: a block, or a sector
  bool named_ = false;
  std::vector<std::unique_ptr<io::File>> files_;  // of each directory; nullptr: not wanted
  std::vector<uint64_t> ends_;                    // of these: where the next block goes
  size_t next_ = 0;                               // the file whose turn it is
};

// Where the temporaries of a split go, and how they are called.
struct SpillPlace {
  std::vector<std::string> directories;
  std::string name = {};  // empty: they have no names, and vanish

  bool stays() const { return !name.empty(); }
};

// The temporaries of a split: several spills, each of a range of buckets, so that space is given
// back when these have been read. (To give back a part of a file waits for all requests on it.)
// Thread safety: as a Spill for placing; keep() and release() by one thread at a time.
class SpillSet {
 public:
  Status open(const SpillPlace& place, uint32_t count, size_t block_bytes, bool dense = false);
  // What an earlier run left of such a set: of the parts that somebody is going to keep, the
  // directories in which something of them is wanted; of the others none.
  Status reopen(const SpillPlace& place, const std::vector<std::vector<bool>>& wanted,
                size_t block_bytes);
  // The name of a part's files.
  static std::string name_of(const SpillPlace& place, uint32_t part);

  bool empty() const { return parts_.empty(); }
  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }
  size_t block_bytes() const { return block_bytes_; }
  // The part for a bucket of so many.
  uint32_t part_of(uint32_t bucket, uint32_t buckets) const;
  Spill& part(uint32_t part) const { return *parts_[part].spill; }
  // Where blocks that hold so many bytes lie, in extents of a block or a part of one, which is a
  // power of two as it is: a run that goes on may have less memory to read with than the one that
  // wrote them.
  std::vector<stream::Extent> extents(uint32_t part, const std::vector<uint32_t>& blocks,
                                      uint64_t bytes, size_t extent_bytes) const;
  // The file of a block, and where in it, of a part that is closed, too.
  struct Place {
    std::string name;
    uint64_t offset = 0;
  };
  Place place_of(uint32_t number) const;
  // A part is closed, and its space is free, when all who keep it have released it; or soon after,
  // for that may take long: before the next part is closed, the set is gone, or wait_until_free()
  // returns.
  void keep(uint32_t part) { ++parts_[part].kept; }
  void release(uint32_t part);
  void wait_until_free();
  // All that was written is on the disk.
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
  size_t unit_bytes_ = 0;  // as a spill's
  std::vector<Part> parts_;
  std::jthread closer_;  // of the part that was released last
};

}  // namespace penstock::external
