// xz streams, by liblzma.

#include <lzma.h>

#include <algorithm>

#include "source/decoder.h"

namespace penstock::source {
namespace {

class XzDecoder final : public Decoder {
 public:
  explicit XzDecoder(uint64_t memory_bytes_max) : memory_bytes_max_(memory_bytes_max) {}
  ~XzDecoder() override { ::lzma_end(&lzma_); }
  bool open() { return ::lzma_stream_decoder(&lzma_, memory_bytes_max_, 0) == LZMA_OK; }
  const char* name() const override { return "xz"; }

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
        // The next stream begins anew, in the same memory.
        if (!open()) step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      case LZMA_OK:
      case LZMA_BUF_ERROR:  // neither input nor room for output was left
        break;
      case LZMA_MEM_ERROR:
        step.problem = {ErrorCode::out_of_memory, "not enough memory"};
        break;
      case LZMA_MEMLIMIT_ERROR:
        step.problem = too_much_memory(::lzma_memusage(&lzma_));
        break;
      default:
        step.problem = {ErrorCode::corrupt, "invalid data"};
    }
    return step;
  }

  // What the stream takes that begins like this, as far as its head tells.
  uint64_t memory_bytes(std::span<const std::byte> head) {
    lzma_.next_in = reinterpret_cast<const uint8_t*>(head.data());
    lzma_.avail_in = head.size();
    // It stops at the limit, or where the head ends: both say as much as there is to know.
    [[maybe_unused]] const lzma_ret answer = ::lzma_code(&lzma_, LZMA_RUN);
    return ::lzma_memusage(&lzma_);
  }

 private:
  const uint64_t memory_bytes_max_;
  lzma_stream lzma_ = LZMA_STREAM_INIT;
};

}  // namespace

std::unique_ptr<Decoder> make_xz_decoder(uint64_t window_bytes_max) {
  auto decoder = std::make_unique<XzDecoder>(xz_memory_bytes(window_bytes_max));
  if (!decoder->open()) return nullptr;
  return decoder;
}

uint64_t xz_decoding_bytes(std::span<const std::byte> head) {
  XzDecoder decoder(1);  // it says how much it would need
  return decoder.open() ? decoder.memory_bytes(head) : 0;
}

}  // namespace penstock::source
