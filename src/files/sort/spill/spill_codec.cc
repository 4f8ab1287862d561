#include "files/sort/spill/spill_codec.h"

#include <lz4.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "base/bits.h"
#include "base/seconds.h"
#include "files/sort/spill/packed_numbers.h"
#include "io/crc32c.h"
#include "io/engine.h"
#include "io/test_seam.h"
#include "items/keys/codec.h"

// Compression saves time on a disk that is slower than a processor compresses, where every byte
// that is not written, and later not read, is time gained. On a fast disk it takes a processor that
// has better things to do. So the planner compares the times of both phases with and without it
// (plan/sort_planner.cc).
//
// The ratio and the speed are measured on samples of the input. (A bucket's blocks hold items of
// similar keys, which shrink a little better than neighbours in the input.)

namespace penstock::external {
namespace {

constexpr size_t stretch_bytes = 128 * KiB;

// Size of the data that packing is tried on.
constexpr size_t packed_bytes = 256 * KiB;

using Clock = std::chrono::steady_clock;

// The bits in which any of the words differ.
uint64_t differing(std::span<const uint64_t> words) {
  uint64_t differs = 0;
  for (const uint64_t word : words) differs |= word ^ words.front();
  return differs;
}

unsigned width_of(uint64_t differs) {
  return differs == 0 ? 0
                      : static_cast<unsigned>(std::bit_width(differs) - std::countr_zero(differs));
}

// Mean over the buckets of the number of bits in which their keys differ.
double key_bits(std::vector<uint64_t> keys, uint32_t buckets, double key_bits_max) {
  if (keys.empty()) return key_bits_max;
  std::ranges::sort(keys);
  const uint64_t all = differing(keys);
  const auto below = static_cast<unsigned>(all == 0 ? 0 : std::countr_zero(all));
  double bits = 0;
  for (uint32_t i = 0; i < buckets; ++i) {
    const uint64_t low = keys[keys.size() * i / buckets];
    const uint64_t high = keys[std::min(keys.size() - 1, keys.size() * (i + 1) / buckets)];
    const auto above = static_cast<unsigned>(std::bit_width(low ^ high));
    bits += above - std::min(above, below);
  }
  return bits / buckets;
}

// Number of bits in which values of pairs differ, up to `apart_bytes` of the input apart.
Result<unsigned> value_bits(const std::vector<files::Piece>& pieces, uint64_t apart_bytes) {
  const auto piece = std::ranges::find_if(pieces, [](const files::Piece& one) {
    return one.file != nullptr && !one.in_order && one.bytes >= io::sector_bytes;
  });
  if (piece == pieces.end()) return 64;
  alignas(io::sector_bytes) std::array<uint64_t, io::sector_bytes / sizeof(uint64_t)> words;
  std::vector<uint64_t> values;
  const uint64_t bytes = std::min(piece->bytes - io::sector_bytes, apart_bytes);
  for (uint64_t i = 0; i < compression_trial_places; ++i) {
    const uint64_t inside =
        round_down(bytes * i / (compression_trial_places - 1), io::sector_bytes);
    if (auto status = io::read_exactly(*piece->file, piece->offset + inside,
                                       reinterpret_cast<std::byte*>(words.data()), sizeof(words));
        !status)
      return std::unexpected(status.error());
    for (size_t at = 1; at < words.size(); at += 2) values.push_back(words[at]);
  }
  return width_of(differing(values));
}

}  // namespace

size_t compress_block(const std::byte* from, size_t bytes, std::byte* to) {
  const int compressed =
      ::LZ4_compress_default(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to),
                             static_cast<int>(bytes), static_cast<int>(bytes - bytes / shrinks_by));
  return compressed > 0 && static_cast<size_t>(compressed) < bytes ? static_cast<size_t>(compressed)
                                                                   : 0;
}

bool inflate_block(const std::byte* from, size_t stored_bytes, std::byte* to, size_t bytes) {
  return ::LZ4_decompress_safe(reinterpret_cast<const char*>(from), reinterpret_cast<char*>(to),
                               static_cast<int>(stored_bytes),
                               static_cast<int>(bytes)) == static_cast<int>(bytes);
}

Status restore_block(const items::Format& format, std::byte* block, const StoredBlock& stored,
                     size_t bytes, std::vector<std::byte>& spare,
                     const SpillSet::BlockLocation& location) {
  auto restore = [&] {
    if (stored.bytes >= bytes) return true;
    if (format.numeric())
      return unpack_numbers(items::item_bytes_of(format.type), block, stored.bytes, bytes);
    // This allocates once: no later block is larger than the first.
    if (spare.size() < bytes) spare.resize(bytes);
    std::memcpy(spare.data(), block, stored.bytes);
    return inflate_block(spare.data(), stored.bytes, block, bytes);
  };
  if (io::test_seam != nullptr) io::test_seam->damage_checked(block, stored.bytes);
  if (io::crc32c(block, stored.bytes) == stored.check && restore()) return {};
  return std::unexpected(io::damaged_temporary(location.name, location.offset, stored.bytes));
}

Result<CompressionTrial> try_compression(Context& context,
                                         const std::vector<files::Piece>& pieces) {
  uint64_t total = 0;
  for (const files::Piece& piece : pieces)
    total += piece.file != nullptr && !piece.in_order ? piece.bytes : 0;
  std::vector<std::byte> memory(2 * stretch_bytes + io::sector_bytes);
  auto* data = reinterpret_cast<std::byte*>(
      round_up(reinterpret_cast<uintptr_t>(memory.data()), io::sector_bytes));
  std::vector<std::byte> compressed(stretch_bytes);
  const MemoryCharge charge(3 * stretch_bytes);
  size_t tried = 0;
  size_t stored = 0;
  double compress_seconds = 0;
  double inflate_seconds = 0;
  uint64_t piece_start = 0;
  constexpr size_t stretches = compression_trial_places;
  for (const files::Piece& piece : pieces) {
    if (piece.file == nullptr || piece.in_order) continue;
    for (size_t i = 0; i < stretches; ++i) {
      const uint64_t place = total / stretches * i;
      if (place < piece_start || place >= piece_start + piece.bytes) continue;
      const uint64_t inside = round_down(place - piece_start, io::sector_bytes);
      const size_t bytes = std::min<uint64_t>(stretch_bytes, piece.bytes - inside);
      if (auto status = io::read_exactly(*piece.file, piece.offset + inside, data, bytes); !status)
        return std::unexpected(status.error());
      if (auto status = context.pulse(); !status) return std::unexpected(status.error());
      auto start = Clock::now();
      const size_t taken = compress_block(data, bytes, compressed.data());
      compress_seconds += seconds_since(start);
      tried += bytes;
      stored += taken == 0 ? bytes : taken;
      if (taken == 0) continue;
      start = Clock::now();
      (void)inflate_block(compressed.data(), taken, data + stretch_bytes, bytes);
      inflate_seconds += seconds_since(start);
    }
    piece_start += piece.bytes;
  }
  CompressionTrial trial;
  if (tried == 0) return trial;
  trial.ratio = static_cast<double>(stored) / static_cast<double>(tried);
  trial.compress_bytes_per_s = static_cast<double>(tried) / std::max(compress_seconds, 1e-9);
  trial.inflate_bytes_per_s = static_cast<double>(tried) / std::max(inflate_seconds, 1e-9);
  return trial;
}

Result<CompressionTrial> try_packing(Context& context, const std::vector<files::Piece>& pieces,
                                     std::vector<uint64_t> keys, uint32_t buckets,
                                     uint64_t block_items) {
  const size_t item_bytes = items::item_bytes_of(context.options.format.type);
  const MemoryCharge charge(keys.size() * sizeof(uint64_t) + packed_bytes);
  double bits = key_bits(std::move(keys), buckets, item_bytes == 4 ? 32 : 64);
  if (item_bytes == 16) {
    auto of_values = value_bits(pieces, block_items * buckets * item_bytes);
    if (!of_values) return std::unexpected(of_values.error());
    bits += *of_values;
  }
  CompressionTrial trial{.ratio = bits / (8.0 * static_cast<double>(item_bytes))};
  // All numbers take about as long to pack. The best of a few times is the one least disturbed.
  std::vector<std::byte> memory(packed_bytes);
  for (size_t at = 0; at < memory.size(); at += sizeof(uint32_t)) {
    const auto word = static_cast<uint32_t>(at);
    std::memcpy(memory.data() + at, &word, sizeof(word));
  }
  double pack_seconds = 1, unpack_seconds = 1;
  for (int i = 0; i < 3; ++i) {
    const auto start = Clock::now();
    const size_t packed = pack_numbers(item_bytes, memory.data(), memory.size());
    const auto middle = Clock::now();
    if (packed > 0) (void)unpack_numbers(item_bytes, memory.data(), packed, memory.size());
    pack_seconds = std::min(pack_seconds, seconds_between(start, middle));
    unpack_seconds = std::min(unpack_seconds, seconds_since(middle));
  }
  trial.compress_bytes_per_s = packed_bytes / std::max(pack_seconds, 1e-9);
  trial.inflate_bytes_per_s = packed_bytes / std::max(unpack_seconds, 1e-9);
  return trial;
}

}  // namespace penstock::external
