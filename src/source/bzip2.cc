// bzip2 streams, by libbz2.

#include <bzlib.h>

#include <algorithm>
#include <limits>

#include "source/decoder.h"

namespace penstock::source {
namespace {

class Bzip2Decoder final : public Decoder {
 public:
  ~Bzip2Decoder() override { close(); }
  bool open() {
    open_ = ::BZ2_bzDecompressInit(&bzip2_, 0, 0) == BZ_OK;
    return open_;
  }
  const char* name() const override { return "bzip2"; }

  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override {
    bzip2_.next_in = reinterpret_cast<char*>(const_cast<std::byte*>(input.data()));
    bzip2_.avail_in = clamp(input.size());
    bzip2_.next_out = reinterpret_cast<char*>(output.data());
    bzip2_.avail_out = clamp(output.size());
    const unsigned in = bzip2_.avail_in, out = bzip2_.avail_out;
    const int answer = ::BZ2_bzDecompress(&bzip2_);
    Step step{.consumed = in - bzip2_.avail_in, .produced = out - bzip2_.avail_out};
    switch (answer) {
      case BZ_STREAM_END:
        step.frame_ended = true;
        close();
        if (!open()) step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      case BZ_OK:
        break;
      case BZ_MEM_ERROR:
        step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      default:
        step.problem = {ErrorCode::corrupt, "invalid data"};
    }
    return step;
  }

 private:
  static unsigned clamp(size_t bytes) {
    return static_cast<unsigned>(std::min<size_t>(bytes, std::numeric_limits<unsigned>::max()));
  }
  void close() {
    if (open_) ::BZ2_bzDecompressEnd(&bzip2_);
    open_ = false;
  }

  bz_stream bzip2_ = {};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_bzip2_decoder() {
  auto decoder = std::make_unique<Bzip2Decoder>();
  if (!decoder->open()) return nullptr;
  return decoder;
}

}  // namespace penstock::source
