#include "trace/replay/replay_layout.h"

#include <algorithm>

#include "base/bits.h"
#include "io/file.h"
#include "penstock/base.h"

namespace penstock::trace {
namespace {

using io::sector_bytes;

constexpr uint64_t large_file_bytes = 1 * MiB;
constexpr uint64_t gap_bytes = sector_bytes;

}  // namespace

void Touched::add(uint64_t offset, uint64_t bytes) {
  low = std::min(low, offset);
  end = std::max(end, offset + bytes);
}

Result<ReplayLayout> lay_out(std::span<const ConvertedFile> files, std::span<const Touched> touched,
                             Room room) {
  ReplayLayout layout;
  layout.places.resize(files.size());
  uint64_t end = 0;
  for (size_t i = 0; i < std::min(files.size(), touched.size()); ++i) {
    if (touched[i].end == 0) continue;
    const bool part = room == Room::touched || files[i].kind == FileKind::block_device;
    FilePlace& place = layout.places[i];
    place.skipped_bytes = part ? round_down(touched[i].low, sector_bytes) : 0;
    // Sizes are below 2^63, so that rounding up stays in its type.
    const uint64_t last = part ? touched[i].end : std::max(touched[i].end, files[i].used_bytes);
    place.bytes = round_up(last, sector_bytes) - place.skipped_bytes;
    place.base = round_up(end, place.bytes >= large_file_bytes ? large_file_bytes : sector_bytes);
    if (place.bytes > largest_offset / 2 ||
        place.base > largest_offset / 2 - large_file_bytes - gap_bytes) {
      return failure(ErrorCode::unsupported,
                     "lay out files that are together longer than a file can be",
                     files[i].first_path, "only what is accessed (--room touched), or --under");
    }
    layout.bytes = place.base + place.bytes;
    end = layout.bytes + gap_bytes;
    ++layout.files;
  }
  return layout;
}

Result<uint64_t> ReplayLayout::address(uint32_t file, uint64_t offset,
                                       uint64_t bytes_wanted) const {
  if (file < places.size()) {
    const FilePlace& place = places[file];
    const uint64_t within = offset - place.skipped_bytes;
    if (offset >= place.skipped_bytes && within <= place.bytes &&
        bytes_wanted <= place.bytes - within) {
      return place.base + within;
    }
  }
  return failure(ErrorCode::corrupt, "replay it: the trace has changed since it was first read", "",
                 "the trace when it is complete");
}

}  // namespace penstock::trace
