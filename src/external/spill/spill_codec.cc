#include "external/spill/spill_codec.h"

#include <lz4.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "base/bits.h"

// A disk that is slower than a processor compresses is waited for; there every byte that is not
// written, and later not read, is time gained. A fast one is not, and then compressing takes a
// processor that has better things to do. So the planner compares what both phases take with and
// without it (plan/sort_planner.cc).
//
// How well the data shrinks, and how fast, is tried on a piece of the input. (A bucket's blocks
// hold items of like keys, which shrink a little better than what lies side by side in the input.)

namespace penstock::external {
namespace {

constexpr size_t trial_bytes = 1 * MiB;
constexpr size_t stretch_bytes = 128 * KiB;

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
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

Result<CompressionTrial> try_compression(Context& context, const std::vector<Piece>& pieces) {
  uint64_t total = 0;
  for (const Piece& piece : pieces)
    total += piece.file != nullptr && !piece.in_order ? piece.bytes : 0;
  std::vector<std::byte> memory(2 * stretch_bytes + file::sector_bytes);
  auto* data = reinterpret_cast<std::byte*>(
      round_up(reinterpret_cast<uintptr_t>(memory.data()), file::sector_bytes));
  std::vector<std::byte> compressed(stretch_bytes);
  const MemoryCharge charge(3 * stretch_bytes);
  size_t tried = 0;
  size_t stored = 0;
  double compress_seconds = 0;
  double inflate_seconds = 0;
  uint64_t piece_start = 0;
  constexpr size_t stretches = trial_bytes / stretch_bytes;
  for (const Piece& piece : pieces) {
    if (piece.file == nullptr || piece.in_order) continue;
    for (size_t i = 0; i < stretches; ++i) {
      const uint64_t place = total / stretches * i;
      if (place < piece_start || place >= piece_start + piece.bytes) continue;
      const uint64_t inside = round_down(place - piece_start, file::sector_bytes);
      const size_t bytes = std::min<uint64_t>(stretch_bytes, piece.bytes - inside);
      if (auto status = file::read_exactly(*piece.file, piece.offset + inside, data, bytes);
          !status)
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

}  // namespace penstock::external
