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

void TouchedRange::add(uint64_t offset, uint64_t bytes) {
  low = std::min(low, offset);
  end = std::max(end, offset + bytes);
}

Result<ReplayLayout> lay_out(std::span<const ConvertedFile> files,
                             std::span<const TouchedRange> touched, Room room) {
  ReplayLayout layout;
  layout.extents.resize(files.size());
  uint64_t end = 0;
  for (size_t i = 0; i < std::min(files.size(), touched.size()); ++i) {
    if (touched[i].end == 0) continue;
    const bool part = room == Room::touched || files[i].kind == FileKind::block_device;
    FileExtent& extent = layout.extents[i];
    extent.skipped_bytes = part ? round_down(touched[i].low, sector_bytes) : 0;
    // Sizes are below 2^63, so rounding up does not overflow.
    const uint64_t last = part ? touched[i].end : std::max(touched[i].end, files[i].used_bytes);
    extent.bytes = round_up(last, sector_bytes) - extent.skipped_bytes;
    extent.base = round_up(end, extent.bytes >= large_file_bytes ? large_file_bytes : sector_bytes);
    if (extent.bytes > largest_offset / 2 ||
        extent.base > largest_offset / 2 - large_file_bytes - gap_bytes) {
      return failure(ErrorCode::unsupported,
                     "lay out files that are together longer than a file can be",
                     files[i].first_path, "only what is accessed (--room touched), or --under");
    }
    layout.bytes = extent.base + extent.bytes;
    end = layout.bytes + gap_bytes;
    ++layout.files;
  }
  return layout;
}

Result<uint64_t> ReplayLayout::address(uint32_t file, uint64_t offset,
                                       uint64_t bytes_wanted) const {
  if (file < extents.size()) {
    const FileExtent& extent = extents[file];
    const uint64_t within = offset - extent.skipped_bytes;
    if (offset >= extent.skipped_bytes && within <= extent.bytes &&
        bytes_wanted <= extent.bytes - within) {
      return extent.base + within;
    }
  }
  return failure(ErrorCode::corrupt, "replay it: the trace has changed since it was first read", "",
                 "the trace when it is complete");
}

}  // namespace penstock::trace
