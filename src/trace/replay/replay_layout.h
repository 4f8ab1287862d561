#pragma once

// The layout of a trace's files for a replay: section VI.D of Tuxedo.
//
// A file system places each new file differently, scatters large ones, and uses the disk's fast end
// for one and its slow end for another. Replays on such files would differ for reasons that have
// nothing to do with the program.
//
// So all files are extents of one region, in the order in which the trace saw them first. Each is
// contiguous and as long as its data ever became (which the conversion knows; space that a program
// only reserved is left out). Sequential accesses within a file are sequential in the region, and
// no others are: a gap between two files makes the step from the end of one to the beginning of the
// next a seek, as it was.
//
//   | file 1 ......... | gap | file 2 ... | gap | file 3 ................ |
//   0                        base, a multiple of 1 MiB for files of 1 MiB and more, of 4 KiB for
//                            smaller ones (a hundred thousand small ones must not take 100 GB)
//
// Room::touched lays out only the accessed part of each file, from the first byte to the last, for
// disks without room for whole files. Distances within a file stay the same. Block devices are
// always laid out so.

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

enum class Room : uint8_t { peak, touched };

// The range of a file that requests touched.
struct TouchedRange {
  uint64_t low = ~uint64_t{0};  // offset of the first byte
  uint64_t end = 0;             // offset behind the last byte; 0 if there is none

  void add(uint64_t offset, uint64_t bytes);
};

// The part of the region for a file.
struct FileExtent {
  uint64_t base = 0;           // address in the region
  uint64_t skipped_bytes = 0;  // bytes at the file's beginning that are left out
  uint64_t bytes = 0;          // 0: the file is not in the region
};

struct ReplayLayout {
  std::vector<FileExtent> extents;  // [index into Conversion::files]
  uint64_t bytes = 0;               // size of the region, in whole sectors
  uint64_t files = 0;               // number of files in the region

  // Returns the address of bytes of a file. Errors: corrupt if they are in no extent, because the
  // trace has changed since the layout.
  Result<uint64_t> address(uint32_t file, uint64_t offset, uint64_t bytes_wanted) const;
};

// Lays out files. `touched` is parallel to `files`, or shorter. Errors: unsupported if the sizes sum
// up to more than a file can have.
Result<ReplayLayout> lay_out(std::span<const ConvertedFile> files,
                             std::span<const TouchedRange> touched, Room room);

}  // namespace penstock::trace
