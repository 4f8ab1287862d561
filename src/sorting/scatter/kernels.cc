#include "sorting/scatter/kernels.h"

#include <cstring>
#include <type_traits>

#include "os/cpu.h"
#include "sorting/scatter/kernels_tiers.h"

namespace penstock::scatter {
namespace {

// Keys of 8 and 16 bits are looked up in the cache, one by one, without vectors.
template <class T>
void scatter_by_table(const T* items, size_t count, const BucketMap& map, const KeyOrder&,
                      Lines& lines, const T*) {
  const uint16_t* const table = map.table.data();
  for (size_t i = 0; i < count; ++i) {
    const uint32_t array = table[items[i]];
    const uint32_t offset = lines.at[array];
    std::memcpy(lines.lines + offset, items + i, sizeof(T));
    lines.at[array] = offset + static_cast<uint32_t>(sizeof(T));
    if (lines.at[array] % lines.line_bytes != 0) continue;
    lines.at[array] -= lines.line_bytes;
    const std::byte* const line = lines.lines + lines.at[array];
    Room& room = lines.rooms[array];
    if (room.next == room.limit) lines.maker.make(lines.maker.self, array, room, line);
    std::memcpy(room.next, line, lines.line_bytes);
    room.next += lines.line_bytes;
  }
}

template <class T>
constexpr Kernels<T> by_table = {scatter_by_table<T>, nullptr};

}  // namespace

template <class T>
const Kernels<T>& kernels() {
  if constexpr (sizeof(T) <= 2) return by_table<T>;
  if constexpr (sizeof(T) > 2) {
#if defined(__x86_64__)
    if (os::cpu_tier() >= os::CpuTier::avx512) return avx512::kernels<T>();
    if (os::cpu_tier() >= os::CpuTier::avx2) return avx2::kernels<T>();
#endif
    return portable::kernels<T>();
  }
}

template const Kernels<uint8_t>& kernels();
template const Kernels<uint16_t>& kernels();
template const Kernels<uint32_t>& kernels();
template const Kernels<uint64_t>& kernels();
template const Kernels<KeyValue32>& kernels();
template const Kernels<KeyValue64>& kernels();
template const Kernels<Key128>& kernels();

}  // namespace penstock::scatter
