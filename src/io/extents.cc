#include "io/extents.h"

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <sys/ioctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <memory>

namespace penstock::io {
namespace {

constexpr uint32_t extents_per_call = 256;
// Flags that make the place meaningless: not chosen yet, compressed, or within a block of metadata.
constexpr uint32_t no_place = FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_ENCODED |
                              FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_NOT_ALIGNED;

void append(std::vector<Extent>& extents, const Extent& next) {
  if (!extents.empty()) {
    Extent& last = extents.back();
    if (last.offset + last.bytes == next.offset && last.place + last.bytes == next.place) {
      last.bytes += next.bytes;
      return;
    }
  }
  extents.push_back(next);
}

}  // namespace

Result<std::vector<Extent>> extents_of(const File& file) {
  const char* attempted = "find its place on the disk";
  const size_t bytes = sizeof(fiemap) + extents_per_call * sizeof(fiemap_extent);
  const std::unique_ptr<void, decltype(&std::free)> memory(std::calloc(1, bytes), &std::free);
  if (memory == nullptr) return system_error(ENOMEM, attempted, file.path());
  auto* map = static_cast<fiemap*>(memory.get());

  std::vector<Extent> extents;
  uint64_t from = 0;
  for (bool last = false; !last;) {
    map->fm_start = from;
    map->fm_length = FIEMAP_MAX_OFFSET - from;
    map->fm_flags = FIEMAP_FLAG_SYNC;
    map->fm_extent_count = extents_per_call;
    map->fm_mapped_extents = 0;
    if (::ioctl(file.buffered_descriptor(), FS_IOC_FIEMAP, map) != 0) {
      if (errno == EINTR) continue;
      if (errno == EOPNOTSUPP || errno == ENOTTY || errno == EINVAL) {
        return failure(ErrorCode::unsupported, attempted, file.path());
      }
      return system_error(errno, attempted, file.path());
    }
    last = map->fm_mapped_extents == 0;
    for (uint32_t i = 0; i < map->fm_mapped_extents; ++i) {
      const fiemap_extent& found = map->fm_extents[i];
      if ((found.fe_flags & no_place) != 0) {
        return failure(ErrorCode::unsupported, attempted, file.path());
      }
      append(extents, {found.fe_logical, found.fe_physical, found.fe_length});
      from = found.fe_logical + found.fe_length;
      last = last || (found.fe_flags & FIEMAP_EXTENT_LAST) != 0;
    }
  }
  return extents;
}

}  // namespace penstock::io
