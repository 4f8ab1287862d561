// A source of compressed data as a source of what it says.
//
// Between two frames the next bytes decide what follows: a frame of any format, padding, the end,
// or, at the very start, data that is not compressed. So `cat a.gz b.zst` on a pipe comes out as
// the two texts.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/source.h"
#include "source/decoder.h"

namespace penstock {

namespace source {

namespace {

constexpr size_t input_bytes = 256 * KiB;

enum class Format : uint8_t { gzip, zstd, lz4 };
constexpr size_t formats = 3;

enum class Kind : uint8_t { frame, none, needs_more };

struct Magic {
  Format format;
  std::string_view bytes;
  uint8_t first_byte_mask = 0xff;
};
using namespace std::string_view_literals;
constexpr std::array magics = {
    Magic{Format::gzip, "\x1f\x8b\x08"sv},
    Magic{Format::zstd, "\x28\xb5\x2f\xfd"sv},
    Magic{Format::zstd, "\x50\x2a\x4d\x18"sv, 0xf0},  // skippable
    Magic{Format::lz4, "\x04\x22\x4d\x18"sv},
};

// How far `head` agrees with a magic number: none, a frame, or as long as `head` reaches.
Kind compare(const Magic& magic, std::span<const std::byte> head) {
  for (size_t i = 0; i < magic.bytes.size(); ++i) {
    if (i == head.size()) return Kind::needs_more;
    const auto mask = i == 0 ? magic.first_byte_mask : uint8_t{0xff};
    if ((static_cast<uint8_t>(head[i]) & mask) != static_cast<uint8_t>(magic.bytes[i])) {
      return Kind::none;
    }
  }
  return Kind::frame;
}

struct Guess {
  Kind kind;
  Format format;
};
Guess guess(std::span<const std::byte> head) {
  Guess best{Kind::none, Format::gzip};
  for (const Magic& magic : magics) {
    const Kind kind = compare(magic, head);
    if (kind == Kind::frame) return {kind, magic.format};
    if (kind == Kind::needs_more) best.kind = kind;
  }
  return best;
}

// Thread safety: as a Source. Invariants: input_[begin_, end_) has been read and not used;
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

  // What comes at a place where a frame may begin. Sets decoder_ for Next::frame.
  Result<Next> choose() {
    if (plain_) return Next::plain;
    Guess found = guess(buffered());
    while (found.kind == Kind::needs_more && !ended_) {
      if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      found = guess(buffered());
    }
    if (found.kind == Kind::frame) {
      if (Status begun = begin_frame(found.format); !begun) return std::unexpected(begun.error());
      return Next::frame;
    }
    if (!last_format_) {
      plain_ = true;
      return Next::plain;
    }
    if (*last_format_ == Format::gzip) {
      if (Status skipped = skip_zeros(); !skipped) return std::unexpected(skipped.error());
    }
    if (begin_ == end_) return Next::end;
    return failure(ErrorCode::corrupt,
                   fmt::format("decompress what follows the {} data at offset {}: it is in no "
                               "known format",
                               decoders_[static_cast<size_t>(*last_format_)]->name(), offset_),
                   name_);
  }

  Status begin_frame(Format format) {
    std::unique_ptr<Decoder>& decoder = decoders_[static_cast<size_t>(format)];
    if (decoder == nullptr) {
      decoder = format == Format::gzip   ? make_gzip_decoder()
                : format == Format::zstd ? make_zstd_decoder(options_.window_bytes_max)
                                         : make_lz4_decoder();
    }
    if (decoder == nullptr) {
      return failure(ErrorCode::out_of_memory, "prepare to decompress", name_);
    }
    decoder_ = decoder.get();
    last_format_ = format;
    return {};
  }

  // Tapes and some archivers pad gzip data with zeros.
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
    if (begin_ == end_) return ended_ ? Result<size_t>(0) : compressed_->read(into);
    const size_t bytes = std::min(into.size(), end_ - begin_);
    std::memcpy(into.data(), &input_[begin_], bytes);
    take(bytes);
    return bytes;
  }

  std::span<const std::byte> buffered() const { return {input_.data() + begin_, end_ - begin_}; }
  void take(size_t bytes) {
    begin_ += bytes;
    offset_ += bytes;
  }
  // Reads more behind what is buffered, which is little or nothing; ended_ where nothing comes.
  Status fill() {
    std::memmove(input_.data(), input_.data() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
    Result<size_t> got = compressed_->read(std::span(input_).subspan(end_));
    if (!got) return std::unexpected(got.error());
    end_ += *got;
    ended_ = *got == 0;
    return {};
  }

  void note(const Problem& problem) {
    error_ = Error{problem.code,
                   fmt::format("decompress {} data at offset {}: {}", decoder_->name(), offset_,
                               problem.reason),
                   name_, 0, problem.hint};
  }
  Error truncated() const {
    return {ErrorCode::corrupt,
            fmt::format("decompress {} data: the file ends at offset {}, in the middle of it",
                        decoder_->name(), offset_),
            name_};
  }

  std::unique_ptr<Source> compressed_;
  const std::string name_;
  const SourceOptions options_;
  std::vector<std::byte> input_ = std::vector<std::byte>(input_bytes);
  size_t begin_ = 0, end_ = 0;
  uint64_t offset_ = 0;
  bool ended_ = false;  // nothing comes behind input_
  bool plain_ = false;
  std::array<std::unique_ptr<Decoder>, formats> decoders_;
  Decoder* decoder_ = nullptr;  // of the frame that we are in
  std::optional<Format> last_format_;
  std::optional<Error> error_;
};

}  // namespace

bool is_compressed(std::span<const std::byte> head) {
  return guess(head).kind == Kind::frame;
}

}  // namespace source

std::unique_ptr<Source> decompress(std::unique_ptr<Source> compressed, std::string name,
                                   const SourceOptions& options) {
  if (!options.decompress) return compressed;
  return std::make_unique<source::Decompressor>(std::move(compressed), std::move(name), options);
}

}  // namespace penstock
