// A source of compressed data as a source of their text.
//
// Between two frames the next bytes decide what follows: a frame of any format, padding, the end,
// or, at the very start, data that is not compressed. So `cat a.gz b.zst` on a pipe comes out as
// the two texts.
//
// Only the bytes can say whether data are compressed: a name can be wrong, and a pipe has none. A
// file of numbers may begin like a frame by chance: seldom, because the header has to fit as well,
// and then it does not decompress, which is an error. The opposite mistake, to take compressed data
// for items, would be no error, and is never made: data that are cut off in a header count as
// compressed.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/run_scope.h"
#include "files/source/checked_read.h"
#include "files/source/codec.h"
#include "files/source/in_order.h"
#include "penstock/source.h"

namespace penstock {

namespace source {

namespace {

constexpr size_t input_bytes = 256 * KiB;  // compressed bytes per read

// Degree to which `head` agrees with the beginning of a frame: not at all, completely, or as far as
// it reaches (it ends in the magic number, or in the header behind it).
enum class Kind : uint8_t { none, frame, part_of_magic, part_of_header };

Kind compare(const Magic& magic, Head head) {
  for (size_t i = 0; i < magic.bytes.size(); ++i) {
    if (i == head.size()) return Kind::part_of_magic;
    const auto mask = i == 0 ? magic.first_byte_mask : uint8_t{0xff};
    if ((byte_at(head, i) & mask) != static_cast<uint8_t>(magic.bytes[i])) return Kind::none;
  }
  if (magic.fits == nullptr) return Kind::frame;
  if (head.size() < magic.header_bytes) return Kind::part_of_header;
  return magic.fits(head) ? Kind::frame : Kind::none;
}

// The best guess. If the data end with `head`, a part of a header is a frame that is cut off.
struct Guess {
  Kind kind = Kind::none;
  const Codec* codec = nullptr;
  bool needs_more() const { return kind == Kind::part_of_magic || kind == Kind::part_of_header; }
  bool is_frame() const { return kind == Kind::frame || kind == Kind::part_of_header; }
};
Guess guess(Head head) {
  Guess best;
  for (const Codec* codec : codecs()) {
    for (const Magic& magic : codec->magics) {
      if (magic.bytes.empty()) continue;
      const Kind kind = compare(magic, head);
      if (kind == Kind::frame) return {kind, codec};
      if (kind > best.kind) best = {kind, codec};
    }
  }
  return best;
}

// Thread safety: that of a Source. Invariants: input_[begin_, end_) has been read and not used;
// offset_ is the position of input_[begin_] in the compressed data.
class Decompressor final : public Source {
 public:
  Decompressor(std::unique_ptr<Source> compressed, std::string name, const SourceOptions& options)
      : compressed_(std::move(compressed)), name_(std::move(name)), options_(options) {}

  Result<size_t> read(std::span<std::byte> into) override {
    if (error_) return std::unexpected(*error_);
    Result<size_t> got = advance(into);
    if (!got) error_ = got.error();
    return got;
  }
  void cancel() override { compressed_->cancel(); }

 private:
  enum class Next : uint8_t { frame, plain, end };
  struct OpenDecoder {
    const Codec* codec;
    std::unique_ptr<Decoder> decoder;
    MemoryCharge charge;  // the most that a frame needed
  };

  Result<size_t> advance(std::span<std::byte> into) {
    for (;;) {
      if (decoder_ == nullptr) {
        Result<Next> next = choose();
        if (!next) return std::unexpected(next.error());
        if (*next == Next::plain) return read_plain(into);
        if (*next == Next::end) return 0;
      }
      const Decoder::Step step = decoder_->decode(buffered(), into);
      take(step.consumed);
      if (step.problem) note(*step.problem);
      if (step.frame_ended) decoder_ = nullptr;
      if (step.produced != 0) return step.produced;
      if (error_) return std::unexpected(*error_);
      if (decoder_ == nullptr || step.consumed != 0) continue;
      if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      if (ended_) return std::unexpected(truncated());
    }
  }

  // Decides what follows at a place where a frame may begin. Sets decoder_ for Next::frame.
  Result<Next> choose() {
    if (plain_) return Next::plain;
    Guess found = guess(buffered());
    while (found.needs_more() && !ended_) {
      if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      found = guess(buffered());
    }
    if (found.is_frame()) {
      if (Status begun = begin_frame(*found.codec); !begun) return std::unexpected(begun.error());
      return Next::frame;
    }
    if (last_ == nullptr) {
      plain_ = true;
      return Next::plain;
    }
    if (last_->zeros_may_follow) {
      if (Status skipped = skip_zeros(); !skipped) return std::unexpected(skipped.error());
    }
    if (begin_ == end_) return Next::end;
    return failure(ErrorCode::corrupt,
                   fmt::format("decompress what follows the {} data at offset {}: it is in no "
                               "known format",
                               last_->name, offset_),
                   name_);
  }

  Status begin_frame(const Codec& codec) {
    auto decoder = std::ranges::find(decoders_, &codec, &OpenDecoder::codec);
    if (decoder == decoders_.end()) {
      auto made = codec.make_decoder(options_.window_bytes_max);
      if (made == nullptr) return failure(ErrorCode::out_of_memory, "prepare to decompress", name_);
      decoder = decoders_.insert(decoder, {&codec, std::move(made), {}});
    }
    frame_bytes_ = decoding_bytes(buffered()).value_or(0);
    decoder->charge = MemoryCharge(
        std::max(decoder->charge.bytes(), std::min(frame_bytes_, decoding_bytes_max(options_))));
    decoder_ = decoder->decoder.get();
    last_ = &codec;
    ++frames_;
    return {};
  }

  // Skips padding: tapes and some archivers pad gzip data with zeros, and xz defines padding.
  Status skip_zeros() {
    for (;;) {
      const auto rest = buffered();
      const auto stop = std::ranges::find_if(rest, [](std::byte b) { return b != std::byte{0}; });
      take(static_cast<size_t>(stop - rest.begin()));
      if (begin_ != end_ || ended_) return {};
      if (Status filled = fill(); !filled) return filled;
    }
  }

  Result<size_t> read_plain(std::span<std::byte> into) {
    if (begin_ == end_) return ended_ ? Result<size_t>(0) : checked_read(*compressed_, into);
    const size_t bytes = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), buffered().data(), bytes);
    take(bytes);
    return bytes;
  }

  std::span<const std::byte> buffered() const { return {input_.get() + begin_, end_ - begin_}; }
  void take(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }
  // Reads more behind the buffered bytes, which are few or none; sets ended_ at the end.
  Status fill() {
    std::memmove(input_.get(), input_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    Result<size_t> got = checked_read(*compressed_, {input_.get() + end_, input_bytes - end_});
    if (!got) return std::unexpected(got.error());
    end_ += *got;
    ended_ = *got == 0;
    return {};
  }

  void note(const Problem& problem) {
    error_ = Error{
        problem.code,
        fmt::format("decompress {} data at offset {}: {}", last_->name, offset_, problem.reason),
        name_, 0,
        problem.is_window ? hint_of_window(std::max(frame_bytes_, options_.window_bytes_max + 1))
                          : hint()};
  }
  // If nothing was decoded yet, the magic number may be a coincidence.
  std::string hint() const {
    constexpr const char* another = "another copy of the file";
    return another +
           std::string(frames_ > 1 ? "" : "; or --no-decompress, to read these bytes unchanged");
  }
  Error truncated() const {
    return {ErrorCode::corrupt,
            fmt::format("decompress {} data: the file ends at offset {}, in the middle of it",
                        last_->name, offset_),
            name_, 0, hint()};
  }

  std::unique_ptr<Source> compressed_;
  const std::string name_;
  const SourceOptions options_;
  // Short inputs touch only their own pages of it.
  std::unique_ptr<std::byte[]> input_ = std::make_unique_for_overwrite<std::byte[]>(input_bytes);
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;  // no more input follows input_
  bool plain_ = false;
  std::vector<OpenDecoder> decoders_;
  Decoder* decoder_ = nullptr;   // decoder of the present frame
  const Codec* last_ = nullptr;  // format of the last frame that began
  uint64_t frames_ = 0;          // frames begun
  uint64_t frame_bytes_ = 0;     // memory for the last one, as far as its head tells
  std::optional<Error> error_;
};

}  // namespace

std::optional<uint64_t> decoding_bytes(Head head) {
  const Guess found = guess(head);
  if (!found.is_frame()) return std::nullopt;
  return found.codec->decoding_bytes(head) + input_bytes;
}

}  // namespace source

std::unique_ptr<Source> decompress(std::unique_ptr<Source> compressed, std::string name,
                                   const SourceOptions& options) {
  if (!options.decompress) return compressed;
  return std::make_unique<source::Decompressor>(std::move(compressed), std::move(name), options);
}

}  // namespace penstock
