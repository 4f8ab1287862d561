// lz4 frames, by liblz4.

#include <lz4frame.h>

#include <algorithm>
#include <utility>

#include "files/source/codec.h"

namespace penstock::source {
namespace {

class Lz4Decoder final : public Decoder {
 public:
  ~Lz4Decoder() override { ::LZ4F_freeDecompressionContext(context_); }
  bool open() {
    return ::LZ4F_isError(::LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) == 0;
  }

  // Whether a version, reserved bits and a block size follow.
  static bool fits(Head head) {
    return (byte_at(head, 4) & 0xc2) == 0x40 && (byte_at(head, 5) & 0x8f) == 0 &&
           byte_at(head, 5) >= 0x40;
  }
  static uint64_t memory_bytes(Head head) {
    if (head.size() < 6) return 0;
    return (uint64_t{2} << (8 + 2 * (byte_at(head, 5) >> 4 & 7))) + 256 * KiB;
  }

  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override {
    Step step{.consumed = std::min(input.size(), wanted_bytes_), .produced = output.size()};
    const size_t answer = ::LZ4F_decompress(context_, output.data(), &step.produced, input.data(),
                                            &step.consumed, nullptr);
    if (::LZ4F_isError(answer) != 0) {
      return {.problem = Problem{ErrorCode::corrupt, ::LZ4F_getErrorName(answer)}};
    }
    step.frame_ended = answer == 0;
    wanted_bytes_ = step.frame_ended ? frame_start_bytes : answer;
    return step;
  }

 private:
  // Bytes of the next block, as liblz4 requests them: fed block by block, because after an error it
  // does not say what else it decoded in the same call.
  static constexpr size_t frame_start_bytes = 7;
  size_t wanted_bytes_ = frame_start_bytes;
  LZ4F_dctx* context_ = nullptr;  // freed by this class
};

class Lz4Encoder final : public Encoder {
 public:
  ~Lz4Encoder() override { ::LZ4F_freeCompressionContext(context_); }
  bool open() {
    preferences_.frameInfo.blockSizeID = LZ4F_max256KB;
    preferences_.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
    return ::LZ4F_isError(::LZ4F_createCompressionContext(&context_, LZ4F_VERSION)) == 0;
  }
  size_t bound(size_t bytes) const override {
    return LZ4F_HEADER_SIZE_MAX + ::LZ4F_compressBound(bytes, &preferences_);
  }
  Result<size_t> encode(std::span<const std::byte> piece, std::span<std::byte> to) override {
    auto begun = begin(to);
    if (!begun) return begun;
    return stored(*begun, ::LZ4F_compressUpdate(context_, to.data() + *begun, to.size() - *begun,
                                                piece.data(), piece.size(), nullptr));
  }
  Result<size_t> finish(std::span<std::byte> to) override {
    auto begun = begin(to);
    if (!begun) return begun;
    has_begun_ = false;
    return stored(*begun,
                  ::LZ4F_compressEnd(context_, to.data() + *begun, to.size() - *begun, nullptr));
  }

 private:
  // Writes the frame's header, unless it is written.
  Result<size_t> begin(std::span<std::byte> to) {
    if (std::exchange(has_begun_, true)) return 0;
    return stored(0, ::LZ4F_compressBegin(context_, to.data(), to.size(), &preferences_));
  }
  static Result<size_t> stored(size_t before, size_t answer) {
    if (::LZ4F_isError(answer) == 0) return before + answer;
    return failure(ErrorCode::io, "compress as lz4", "output", ::LZ4F_getErrorName(answer));
  }

  LZ4F_preferences_t preferences_ = {};
  LZ4F_cctx* context_ = nullptr;  // freed by this class
  bool has_begun_ = false;
};

}  // namespace

const Codec lz4_codec = {
    .name = "lz4",
    .suffix = ".lz4",
    .output = CompressedFormat::lz4,
    .magics = {{{.bytes = "\x04\x22\x4d\x18"sv, .header_bytes = 6, .fits = Lz4Decoder::fits}}},
    .decoding_bytes = Lz4Decoder::memory_bytes,
    .make_decoder = opened<Lz4Decoder>,
    .make_encoder = opened<Lz4Encoder>,
};

}  // namespace penstock::source
