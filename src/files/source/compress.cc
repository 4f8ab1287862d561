// A sink that takes a text and passes it on compressed. All formats end a frame when the sink is
// closed, so that an empty text is an empty frame.
//
// An encoder's memory is resident when the sink is made, so that a run that plans with the rest of
// its budget sees it. (A library's pages become resident as it touches them: megabytes later.)

#include <algorithm>
#include <utility>
#include <vector>

#include "base/run_scope.h"
#include "files/source/codec.h"
#include "penstock/source.h"

namespace penstock {

namespace source {
namespace {

constexpr size_t piece_bytes = 64 * KiB;
// At least the bytes of any encoder's window.
constexpr size_t warm_up_bytes = 1 * MiB;
// Memory of the libraries at these levels, with the room for a piece.
constexpr uint64_t memory_bytes = 2 * MiB;

class CompressedSink final : public Sink {
 public:
  CompressedSink(std::unique_ptr<Encoder> encoder, std::unique_ptr<Sink> to)
      : encoder_(std::move(encoder)), to_(std::move(to)), packed_(encoder_->bound(piece_bytes)) {}

  // Touches all memory, and begins again.
  Status warm_up() {
    const std::vector<std::byte> piece(piece_bytes);
    for (size_t bytes = 0; bytes < warm_up_bytes; bytes += piece.size()) {
      if (auto packed = encoder_->encode(piece, packed_); !packed)
        return std::unexpected(packed.error());
    }
    if (auto packed = encoder_->finish(packed_); !packed) return std::unexpected(packed.error());
    return {};
  }

  Status write(std::span<const std::byte> from) override {
    while (!from.empty()) {
      const auto piece = from.first(std::min(from.size(), piece_bytes));
      if (Status written = hand_on(encoder_->encode(piece, packed_)); !written) return written;
      from = from.subspan(piece.size());
    }
    return {};
  }
  Status close() override {
    if (Status written = hand_on(encoder_->finish(packed_)); !written) return written;
    return to_->close();
  }
  void cancel() override { to_->cancel(); }

 private:
  Status hand_on(const Result<size_t>& packed) {
    if (!packed) return std::unexpected(packed.error());
    return *packed == 0 ? Status{} : to_->write(std::span(packed_).first(*packed));
  }

  const std::unique_ptr<Encoder> encoder_;
  const std::unique_ptr<Sink> to_;
  std::vector<std::byte> packed_;
  const MemoryCharge charge_{memory_bytes};
};

}  // namespace
}  // namespace source

Result<std::unique_ptr<Sink>> compress(std::unique_ptr<Sink> to, CompressedFormat format) {
  const auto codec = std::ranges::find(source::codecs(), std::optional(format),
                                       [](const auto* one) { return one->output; });
  auto encoder = (*codec)->make_encoder();
  if (encoder == nullptr)
    return failure(ErrorCode::out_of_memory, "get memory to compress", "output");
  auto sink = std::make_unique<source::CompressedSink>(std::move(encoder), std::move(to));
  if (Status warm = sink->warm_up(); !warm) return std::unexpected(warm.error());
  return sink;
}

}  // namespace penstock
