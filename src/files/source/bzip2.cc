// bzip2 streams, by libbz2.

#include <bzlib.h>

#include <algorithm>
#include <limits>

#include "files/source/codec.h"

namespace penstock::source {
namespace {

class Bzip2Decoder final : public Decoder {
 public:
  ~Bzip2Decoder() override { close(); }
  bool open() {
    open_ = ::BZ2_bzDecompressInit(&bzip2_, 0, 0) == BZ_OK;
    return open_;
  }

  // Whether a level follows, and a block or the end of the stream begins.
  static bool fits(Head head) {
    const std::string_view block(reinterpret_cast<const char*>(head.data()) + 4, 6);
    return byte_at(head, 3) >= '1' && byte_at(head, 3) <= '9' &&
           (block == "\x31\x41\x59\x26\x53\x59"sv || block == "\x17\x72\x45\x38\x50\x90"sv);
  }
  static uint64_t memory_bytes(Head head) {
    constexpr uint64_t bytes_per_level = 400'000;
    return head.size() > 3 ? bytes_per_level * (byte_at(head, 3) - '0' + 1u) : 0;
  }

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

const Codec bzip2_codec = {
    .name = "bzip2",
    .suffix = ".bz2",
    .magics = {{{.bytes = "BZh"sv, .header_bytes = 10, .fits = Bzip2Decoder::fits}}},
    .decoding_bytes = Bzip2Decoder::memory_bytes,
    .make_decoder = opened<Bzip2Decoder>,
};

}  // namespace penstock::source
