#pragma once

// Blocks of temporaries made smaller, and how much smaller they become.
//
// A compressed block of records or lines is one block of the LZ4 block format and nothing else, one of
// numbers is packed (packed_numbers.h); how many bytes it takes and holds stands in the bucket's list.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/run/input.h"
#include "files/sort/context.h"
#include "files/sort/spill/spill.h"

namespace penstock::external {

// What does not shrink by so much of itself is stored as it is.
inline constexpr size_t shrinks_by = 8;

// Of records and lines. Returns what it takes at `to`, where there is room for `bytes`; 0: it does not shrink enough.
size_t compress_block(const std::byte* from, size_t bytes, std::byte* to);
// False: what was written is not what is there. Never writes more than `bytes` at `to`.
[[nodiscard]] bool inflate_block(const std::byte* from, size_t stored_bytes, std::byte* to,
                                 size_t bytes);

// A block that was read, in its place: where it was compressed, of any format, what it was.
// `spare`: room for a block; `place`: where it was read. Error: it is not what was written.
Status restore_block(const items::Format& format, std::byte* block, const StoredBlock& stored,
                     size_t bytes, std::vector<std::byte>& spare, const SpillSet::Place& place);

// What became of a few stretches of the input.
struct CompressionTrial {
  double ratio = 1;  // of the bytes, compressed and not
  double compress_bytes_per_s = 0;
  double inflate_bytes_per_s = 0;
};
// At so many places of the input, of numbers without values at none.
inline constexpr uint32_t compression_trial_places = 8;
// Reads about a MiB of files. Nothing to try gives a ratio of 1.
Result<CompressionTrial> try_compression(Context& context, const std::vector<files::Piece>& pieces);
// Of numbers in so many buckets: the sample tells what their keys share, and a few looks at the input
// what values do that lie `block_items` items of a bucket apart.
Result<CompressionTrial> try_packing(Context& context, const std::vector<files::Piece>& pieces,
                                     std::vector<uint64_t> keys, uint32_t buckets,
                                     uint64_t block_items);

}  // namespace penstock::external
