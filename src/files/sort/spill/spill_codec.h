#pragma once

// Compression of blocks in temporaries, and a trial of how much smaller they become.
//
// A compressed block of records or lines is one block of the LZ4 block format and nothing else; one
// of numbers is packed (packed_numbers.h). The bucket's list has its size.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "files/bowtie/device_profile.h"
#include "files/run/input.h"
#include "files/sort/context.h"
#include "files/sort/spill/spill.h"

namespace penstock::external {

// A block is stored compressed if it shrinks by at least one part in this many.
inline constexpr size_t shrinks_by = 8;

// Compresses records or lines. Returns the size at `to`, which has room for `bytes`; 0: the block
// does not shrink enough.
size_t compress_block(const std::byte* from, size_t bytes, std::byte* to);
// Returns false if the data are damaged. Never writes more than `bytes` at `to`.
[[nodiscard]] bool inflate_block(const std::byte* from, size_t stored_bytes, std::byte* to,
                                 size_t bytes);

// Checks a block that was read, and decompresses it in place if it was compressed. `spare`: scratch
// memory for a block; `location`: for messages. Fails if the block is not what was written.
Status restore_block(const items::Format& format, std::byte* block, const StoredBlock& stored,
                     size_t bytes, std::vector<std::byte>& spare,
                     const SpillSet::BlockLocation& location);

// Result of compressing samples of the input.
struct CompressionTrial {
  double ratio = 1;  // compressed bytes over plain bytes
  double compress_bytes_per_s = 0;
  double inflate_bytes_per_s = 0;
};
// Number of places of the input that are sampled; numbers without values need none.
inline constexpr uint32_t compression_trial_places = 8;
// Compresses about a MiB from files. Without files to sample the ratio is 1.
Result<CompressionTrial> try_compression(Context& context, const std::vector<files::Piece>& pieces);
// Predicts the packing of numbers in this many buckets. The sample tells which bits keys share, and
// reads of the input tell it of the values of a block, which has `block_items` items of one bucket.
Result<CompressionTrial> try_packing(Context& context, const std::vector<files::Piece>& pieces,
                                     std::vector<uint64_t> keys, uint32_t buckets,
                                     uint64_t block_items);

}  // namespace penstock::external
