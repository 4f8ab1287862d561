// lz4 frames, by liblz4.

#include <lz4frame.h>

#include <algorithm>

#include "source/decoder.h"

namespace penstock::source {
namespace {

class Lz4Decoder final : public Decoder {
 public:
  ~Lz4Decoder() override { ::LZ4F_freeDecompressionContext(context_); }
  bool open() {
    return ::LZ4F_isError(::LZ4F_createDecompressionContext(&context_, LZ4F_VERSION)) == 0;
  }
  const char* name() const override { return "lz4"; }

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
  // A block at a time, as liblz4 asks for them: on an error it does not say what else it had
  // decoded in the same call.
  static constexpr size_t frame_start_bytes = 7;
  size_t wanted_bytes_ = frame_start_bytes;
  LZ4F_dctx* context_ = nullptr;  // freed by us alone
};

}  // namespace

std::unique_ptr<Decoder> make_lz4_decoder() {
  auto decoder = std::make_unique<Lz4Decoder>();
  if (!decoder->open()) return nullptr;
  return decoder;
}

}  // namespace penstock::source
