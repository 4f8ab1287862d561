// gzip members (RFC 1952), by zlib.

#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "source/decoder.h"

namespace penstock::source {
namespace {

constexpr int largest_window_with_gzip_header = 15 + 16;

class GzipDecoder final : public Decoder {
 public:
  ~GzipDecoder() override {
    if (open_) ::inflateEnd(&zlib_);
  }
  bool open() {
    open_ = ::inflateInit2(&zlib_, largest_window_with_gzip_header) == Z_OK;
    return open_;
  }
  const char* name() const override { return "gzip"; }

  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override {
    zlib_.next_in = reinterpret_cast<const Bytef*>(input.data());
    zlib_.avail_in = clamp(input.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(output.data());
    zlib_.avail_out = clamp(output.size());
    const uInt in = zlib_.avail_in, out = zlib_.avail_out;
    const int answer = ::inflate(&zlib_, Z_NO_FLUSH);
    Step step{.consumed = in - zlib_.avail_in, .produced = out - zlib_.avail_out};
    switch (answer) {
      case Z_STREAM_END:
        step.frame_ended = true;
        ::inflateReset(&zlib_);
        break;
      case Z_OK:
      case Z_BUF_ERROR:  // neither input nor room for output was left
        break;
      case Z_MEM_ERROR:
        step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      default:
        step.problem = {ErrorCode::corrupt, zlib_.msg != nullptr ? zlib_.msg : "invalid data"};
    }
    return step;
  }

 private:
  static uInt clamp(size_t bytes) {
    return static_cast<uInt>(std::min<size_t>(bytes, std::numeric_limits<uInt>::max()));
  }

  z_stream zlib_ = {};
  bool open_ = false;
};

}  // namespace

std::unique_ptr<Decoder> make_gzip_decoder() {
  auto decoder = std::make_unique<GzipDecoder>();
  if (!decoder->open()) return nullptr;
  return decoder;
}

}  // namespace penstock::source
