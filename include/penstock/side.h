#pragma once

#include <cstdint>

namespace penstock {

// The two ends of a stream between threads or processes.
enum class Side : uint8_t { producer, consumer };

}  // namespace penstock
