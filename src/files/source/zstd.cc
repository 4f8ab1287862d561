// zstd frames (RFC 8878), and the skippable frames that zstd and lz4 share, by libzstd.

#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <array>
#include <bit>

#include "files/source/codec.h"

namespace penstock::source {
namespace {

class ZstdDecoder final : public Decoder {
 public:
  ~ZstdDecoder() override { ::ZSTD_freeDCtx(context_); }
  bool open(uint64_t window_bytes_max) {
    context_ = ::ZSTD_createDCtx();
    if (context_ == nullptr) return false;
    const ZSTD_bounds bounds = ::ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    const int log = static_cast<int>(std::bit_width(std::max<uint64_t>(window_bytes_max, 1))) - 1;
    const size_t set = ::ZSTD_DCtx_setParameter(
        context_, ZSTD_d_windowLogMax, std::clamp(log, bounds.lowerBound, bounds.upperBound));
    return ::ZSTD_isError(set) == 0;
  }

  // Memory for the window, blocks of at most 128 KiB, and tables; 0 for a skippable frame.
  static uint64_t memory_bytes(Head head) {
    return byte_at(head, 0) == 0x28 && head.size() > 4 ? window_bytes(head) + 640 * KiB : 0;
  }

  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override {
    ZSTD_inBuffer in{input.data(), std::min(input.size(), wanted_bytes_), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const size_t answer = ::ZSTD_decompressStream(context_, &out, &in);
    Step step{.consumed = in.pos, .produced = out.pos, .frame_ended = answer == 0};
    if (::ZSTD_isError(answer) == 0) {
      wanted_bytes_ = answer == 0 ? frame_start_bytes : answer;
      return step;
    }
    step.problem = {ErrorCode::corrupt, ::ZSTD_getErrorName(answer)};
    const ZSTD_ErrorCode code = ::ZSTD_getErrorCode(answer);
    if (code == ZSTD_error_memory_allocation) step.problem->code = ErrorCode::out_of_memory;
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      step.problem = {ErrorCode::out_of_memory, "the frame needs a larger window than allowed",
                      true};
    }
    return step;
  }

 private:
  // Window that a frame's header asks for (RFC 8878).
  static uint64_t window_bytes(Head head) {
    constexpr std::array<size_t, 4> dictionary_bytes = {0, 1, 2, 4};
    const uint8_t flags = byte_at(head, 4);
    if ((flags & 0x20) == 0) {
      if (head.size() < 6) return 0;
      const uint64_t base = uint64_t{1} << (10 + (byte_at(head, 5) >> 3));
      return base + base / 8 * (byte_at(head, 5) & 7);
    }
    const size_t size_bytes = size_t{1} << (flags >> 6);
    const size_t from = 5 + dictionary_bytes[flags & 3];
    if (head.size() < from + size_bytes) return 0;
    uint64_t bytes = 0;
    for (size_t i = size_bytes; i-- > 0;) bytes = bytes << 8 | byte_at(head, from + i);
    return size_bytes == 2 ? bytes + 256 : bytes;
  }

  // Bytes of the next block, as libzstd requests them: fed block by block, because after an error
  // it forgets what else it decoded in the same call.
  static constexpr size_t frame_start_bytes = 5;
  size_t wanted_bytes_ = frame_start_bytes;
  ZSTD_DCtx* context_ = nullptr;  // freed by this class
};

class ZstdEncoder final : public Encoder {
 public:
  ~ZstdEncoder() override { ::ZSTD_freeCCtx(context_); }
  bool open() {
    // A smaller window than usual, for less memory: 2 MiB altogether.
    constexpr int window_log = 19;
    context_ = ::ZSTD_createCCtx();
    return context_ != nullptr &&
           ::ZSTD_isError(::ZSTD_CCtx_setParameter(context_, ZSTD_c_windowLog, window_log)) == 0 &&
           ::ZSTD_isError(::ZSTD_CCtx_setParameter(context_, ZSTD_c_checksumFlag, 1)) == 0;
  }
  // Any piece may carry a block that zstd has held back.
  size_t bound(size_t bytes) const override {
    return ::ZSTD_compressBound(bytes) + ::ZSTD_CStreamOutSize();
  }
  Result<size_t> encode(std::span<const std::byte> piece, std::span<std::byte> to) override {
    return compress(piece, to, ZSTD_e_continue);
  }
  Result<size_t> finish(std::span<std::byte> to) override { return compress({}, to, ZSTD_e_end); }

 private:
  Result<size_t> compress(std::span<const std::byte> piece, std::span<std::byte> to,
                          ZSTD_EndDirective directive) {
    ZSTD_inBuffer in{piece.data(), piece.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), 0};
    for (;;) {
      const size_t left = ::ZSTD_compressStream2(context_, &out, &in, directive);
      if (::ZSTD_isError(left) != 0 || (left != 0 && out.pos == out.size))
        return failure(ErrorCode::io, "compress as zstd", "output", ::ZSTD_getErrorName(left));
      if (directive == ZSTD_e_end ? left == 0 : in.pos == in.size) return out.pos;
    }
  }

  ZSTD_CCtx* context_ = nullptr;  // freed by this class
};

}  // namespace

const Codec zstd_codec = {
    .name = "zstd",
    .suffix = ".zst",
    .output = CompressedFormat::zstd,
    // The reserved bit is zero; skippable frames have any of sixteen magic numbers.
    .magics = {{{.bytes = "\x28\xb5\x2f\xfd"sv,
                 .header_bytes = 5,
                 .fits = [](Head head) { return (byte_at(head, 4) & 0x08) == 0; }},
                {.bytes = "\x50\x2a\x4d\x18"sv, .first_byte_mask = 0xf0}}},
    .decoding_bytes = ZstdDecoder::memory_bytes,
    .make_decoder = opened<ZstdDecoder>,
    .make_encoder = opened<ZstdEncoder>,
};

}  // namespace penstock::source
