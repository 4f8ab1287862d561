#pragma once

#include <numeric>
#include <vector>

#include "base/random.h"
#include "files/bowtie/run.h"

namespace penstock::bowtie {

// Moves each item of each input to a random output, from random inputs: equal shares, as in theory.
inline Computation spread(uint64_t seed) {
  return [seed](Streams& streams) -> Status {
    Random random(seed);
    const uint32_t inputs = streams.inputs();
    const uint32_t outputs = streams.outputs();
    std::vector<uint32_t> live(inputs);
    std::iota(live.begin(), live.end(), 0u);
    constexpr size_t item_bytes = 64;
    while (!live.empty()) {
      const size_t at = random.below(live.size());
      InputStream& in = streams.input(live[at]);
      const auto window = in.window(item_bytes);
      if (window.size() < item_bytes) {
        live.erase(live.begin() + static_cast<ptrdiff_t>(at));
        continue;
      }
      if (outputs > 0 && !streams.output(static_cast<uint32_t>(random.below(outputs)))
                              .append(window.data(), item_bytes))
        break;
      in.advance(item_bytes);
    }
    return {};
  };
}

}  // namespace penstock::bowtie
