#pragma once

// Blocks of temporaries made smaller by LZ4, and how much smaller they become.
//
// A compressed block is one block of the LZ4 block format and nothing else; how many bytes it takes
// and holds stands in the bucket's list.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bowtie/device_profile.h"
#include "external/context.h"
#include "files/input.h"

namespace penstock::external {

// What does not shrink by so much of itself is stored as it is.
inline constexpr size_t shrinks_by = 8;

// Returns what it takes at `to`, where there is room for `bytes`; 0: it does not shrink enough.
size_t compress_block(const std::byte* from, size_t bytes, std::byte* to);
// False: what was written is not what is there. Never writes more than `bytes` at `to`.
[[nodiscard]] bool inflate_block(const std::byte* from, size_t stored_bytes, std::byte* to,
                                 size_t bytes);

// What became of a few stretches of the input.
struct CompressionTrial {
  double ratio = 1;  // of the bytes, compressed and not
  double compress_bytes_per_s = 0;
  double inflate_bytes_per_s = 0;
};
// Reads about a MiB of files. Nothing to try gives a ratio of 1.
Result<CompressionTrial> try_compression(Context& context, const std::vector<Piece>& pieces);

}  // namespace penstock::external
