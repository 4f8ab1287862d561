// xz streams and lzip members, by liblzma.

#include <lzma.h>

#include <algorithm>

#include "files/source/codec.h"

namespace penstock::source {
namespace {

// Memory of a stream beside its window.
constexpr uint64_t beside_window_bytes = 128 * KiB;

// Prepares a stream for the data of one of liblzma's formats.
using Begin = lzma_ret (*)(lzma_stream* stream, uint64_t memory_bytes_max, uint32_t flags);

template <Begin begin_data>
class LzmaDecoder final : public Decoder {
 public:
  ~LzmaDecoder() override { ::lzma_end(&lzma_); }
  bool open(uint64_t window_bytes_max) {
    memory_bytes_max_ = window_bytes_max + beside_window_bytes;
    return begin();
  }

  Step decode(std::span<const std::byte> input, std::span<std::byte> output) override {
    lzma_.next_in = reinterpret_cast<const uint8_t*>(input.data());
    lzma_.avail_in = input.size();
    lzma_.next_out = reinterpret_cast<uint8_t*>(output.data());
    lzma_.avail_out = output.size();
    const lzma_ret answer = ::lzma_code(&lzma_, LZMA_RUN);
    Step step{.consumed = input.size() - lzma_.avail_in,
              .produced = output.size() - lzma_.avail_out};
    switch (answer) {
      case LZMA_STREAM_END:
        step.frame_ended = true;
        if (!begin()) step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      case LZMA_OK:
      case LZMA_BUF_ERROR:  // no input or no room for output is left
        break;
      case LZMA_MEM_ERROR:
        step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      case LZMA_MEMLIMIT_ERROR:
        step.problem = {
            ErrorCode::out_of_memory,
            fmt::format("it takes {} MiB, more than allowed", ::lzma_memusage(&lzma_) / MiB + 1),
            true};
        break;
      default:
        step.problem = {ErrorCode::corrupt, "invalid data"};
    }
    return step;
  }

  // Returns the memory for a stream with this beginning, as far as it tells.
  static uint64_t memory_bytes(Head head) {
    LzmaDecoder decoder;
    decoder.memory_bytes_max_ = 1;  // the decoder stops there, and reports the memory it needs
    if (!decoder.begin()) return 0;
    decoder.decode(head, {});
    return ::lzma_memusage(&decoder.lzma_);
  }

 private:
  // Begins a new stream in the same memory.
  bool begin() { return begin_data(&lzma_, memory_bytes_max_, 0) == LZMA_OK; }

  uint64_t memory_bytes_max_ = 0;
  lzma_stream lzma_ = LZMA_STREAM_INIT;
};

using XzDecoder = LzmaDecoder<::lzma_stream_decoder>;
using LzipDecoder = LzmaDecoder<::lzma_lzip_decoder>;

}  // namespace

const Codec xz_codec = {
    .name = "xz",
    .suffix = ".xz",
    // Reserved bits are zero.
    .magics = {{{.bytes = "\xfd\x37\x7a\x58\x5a\x00"sv,
                 .header_bytes = 8,
                 .fits =
                     [](Head head) {
                       return byte_at(head, 6) == 0 && (byte_at(head, 7) & 0xf0) == 0;
                     }}}},
    .zeros_may_follow = true,
    .decoding_bytes = XzDecoder::memory_bytes,
    .make_decoder = opened<XzDecoder>,
};

const Codec lzip_codec = {
    .name = "lzip",
    .suffix = ".lz",
    // A version, and the binary logarithm of a window of 4 KiB to 512 MiB.
    .magics = {{{.bytes = "LZIP"sv,
                 .header_bytes = 6,
                 .fits =
                     [](Head head) {
                       const int log = byte_at(head, 5) & 0x1f;
                       return byte_at(head, 4) <= 1 && log >= 12 && log <= 29;
                     }}}},
    .decoding_bytes = LzipDecoder::memory_bytes,
    .make_decoder = opened<LzipDecoder>,
};

}  // namespace penstock::source
