// gzip members (RFC 1952), by zlib.

#define ZLIB_CONST
#include <zlib.h>

#include <algorithm>
#include <limits>

#include "files/source/codec.h"
#include "penstock/base.h"

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
      case Z_BUF_ERROR:  // no input or no room for output is left
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

class GzipEncoder final : public Encoder {
 public:
  ~GzipEncoder() override {
    if (open_) ::deflateEnd(&zlib_);
  }
  bool open() {
    constexpr int usual_memory = 8;
    open_ =
        ::deflateInit2(&zlib_, Z_DEFAULT_COMPRESSION, Z_DEFLATED, largest_window_with_gzip_header,
                       usual_memory, Z_DEFAULT_STRATEGY) == Z_OK;
    return open_;
  }
  // Any piece may carry output that zlib has held back.
  size_t bound(size_t bytes) const override { return bytes + bytes / 8 + 256 * KiB; }
  Result<size_t> encode(std::span<const std::byte> piece, std::span<std::byte> to) override {
    return deflate(piece, to, Z_NO_FLUSH);
  }
  Result<size_t> finish(std::span<std::byte> to) override {
    auto stored = deflate({}, to, Z_FINISH);
    ::deflateReset(&zlib_);
    return stored;
  }

 private:
  Result<size_t> deflate(std::span<const std::byte> piece, std::span<std::byte> to, int flush) {
    zlib_.next_in = reinterpret_cast<const Bytef*>(piece.data());
    zlib_.avail_in = static_cast<uInt>(piece.size());
    zlib_.next_out = reinterpret_cast<Bytef*>(to.data());
    zlib_.avail_out = static_cast<uInt>(to.size());
    const int answer = ::deflate(&zlib_, flush);
    const bool done =
        flush == Z_FINISH ? answer == Z_STREAM_END : (answer == Z_OK || answer == Z_BUF_ERROR);
    if (!done || zlib_.avail_in != 0) return failure(ErrorCode::io, "compress as gzip", "output");
    return to.size() - zlib_.avail_out;
  }

  z_stream zlib_ = {};
  bool open_ = false;
};

}  // namespace

const Codec gzip_codec = {
    .name = "gzip",
    .suffix = ".gz",
    .output = CompressedFormat::gzip,
    // Reserved flags are zero.
    .magics = {{{.bytes = "\x1f\x8b\x08"sv,
                 .header_bytes = 4,
                 .fits = [](Head head) { return (byte_at(head, 3) & 0xe0) == 0; }}}},
    .zeros_may_follow = true,
    .decoding_bytes = [](Head) { return 64 * KiB; },
    .make_decoder = opened<GzipDecoder>,
    .make_encoder = opened<GzipEncoder>,
};

}  // namespace penstock::source
