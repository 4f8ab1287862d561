#pragma once

// Where the files of a trace lie while it is replayed: section VI.D of Tuxedo.
//
// The naive way makes a file for each file of the trace and lets the file system choose where. It
// chooses differently each time, scatters large files, and puts one at the disk's fast end and
// another at its slow one; two replays then differ by what has nothing to do with the program.
//
// Here all of them lie in one region, in the order in which the trace saw them first, each in one
// piece and as long as its data ever became (which the conversion knows; space that a program only
// reserved has no room). Sequential accesses within a file are sequential in the region, and
// nothing else is: between two files there is a gap, so that going on from the end of one to the
// beginning of the next is the jump that it was.
//
//   | file 1 ......... | gap | file 2 ... | gap | file 3 ................ |
//   0                        base, a multiple of 1 MiB for files of 1 MiB and more, of 4 KiB for
//                            smaller ones (a hundred thousand small ones must not take 100 GB)
//
// Room::touched lays out only what was accessed, from the first byte to the last, for those who
// have not the room for the rest of a large file; distances within a file stay what they were.
// Block devices are always laid out so.

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

enum class Room : uint8_t { peak, touched };

// What requests touched of a file.
struct Touched {
  uint64_t low = ~uint64_t{0};  // the first byte
  uint64_t end = 0;             // behind the last one; 0: none

  void add(uint64_t offset, uint64_t bytes);
};

struct FilePlace {
  uint64_t base = 0;           // in the region
  uint64_t skipped_bytes = 0;  // of the file's beginning: not laid out
  uint64_t bytes = 0;          // 0: not in the region
};

struct ReplayLayout {
  std::vector<FilePlace> places;  // by index into Conversion::files
  uint64_t bytes = 0;             // of the region: whole sectors
  uint64_t files = 0;             // in it

  // Where these bytes of a file lie. Errors: corrupt, where they lie in no place: the trace has
  // changed since it was laid out.
  Result<uint64_t> address(uint32_t file, uint64_t offset, uint64_t bytes_wanted) const;
};

// `touched` is parallel to `files`, or shorter. Errors: unsupported, when the sizes sum up to more
// than a file can have.
Result<ReplayLayout> lay_out(std::span<const ConvertedFile> files, std::span<const Touched> touched,
                             Room room);

}  // namespace penstock::trace
