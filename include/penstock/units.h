#pragma once

#include <cstdint>

namespace penstock {

inline constexpr uint64_t KiB = uint64_t{1} << 10;
inline constexpr uint64_t MiB = uint64_t{1} << 20;
inline constexpr uint64_t GiB = uint64_t{1} << 30;
inline constexpr uint64_t TiB = uint64_t{1} << 40;

}  // namespace penstock
