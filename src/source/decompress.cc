// A source of compressed data as a source of what it says.
//
// Between two frames the next bytes decide what follows: a frame of any format, padding, the end,
// or, at the very start, data that is not compressed. So `cat a.gz b.zst` on a pipe comes out as
// the two texts.
//
// Who is to say that bytes are compressed? A name can be wrong, and a pipe has none. So the bytes
// do. A file of numbers may begin like a frame by chance: seldom, for the header has to fit as well,
// and then it does not decompress, which is an error. The other mistake, compressed data that are
// taken for items, would be no error, and is not made: what is cut off in its header counts as
// compressed.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "base/run_scope.h"
#include "penstock/source.h"
#include "source/checked_read.h"
#include "source/decoder.h"

namespace penstock {

namespace source {

namespace {

constexpr size_t input_bytes = 256 * KiB;  // of compressed data, at a time

enum class Format : uint8_t { gzip, zstd, lz4, xz, bzip2 };
constexpr size_t formats = 5;

uint8_t at(std::span<const std::byte> head, size_t i) {
  return static_cast<uint8_t>(head[i]);
}

// ---- How a frame of each format begins: a magic number, and a header whose fields agree. Bytes that
// are numbers, and begin with a magic number by chance, are seldom such a header as well.

struct Magic {
  Format format;
  std::string_view bytes;
  uint8_t first_byte_mask = 0xff;
  size_t header_bytes = 0;  // which `fits` looks at
  bool (*fits)(std::span<const std::byte> header) = nullptr;
};
using namespace std::string_view_literals;
constexpr std::array magics = {
    // Reserved flags.
    Magic{Format::gzip, "\x1f\x8b\x08"sv, 0xff, 4,
          [](std::span<const std::byte> header) { return (at(header, 3) & 0xe0) == 0; }},
    // The reserved bit.
    Magic{Format::zstd, "\x28\xb5\x2f\xfd"sv, 0xff, 5,
          [](std::span<const std::byte> header) { return (at(header, 4) & 0x08) == 0; }},
    Magic{Format::zstd, "\x50\x2a\x4d\x18"sv, 0xf0},  // skippable
    // The version; reserved bits; a size of blocks.
    Magic{Format::lz4, "\x04\x22\x4d\x18"sv, 0xff, 6,
          [](std::span<const std::byte> header) {
            return (at(header, 4) & 0xc2) == 0x40 && (at(header, 5) & 0x8f) == 0 &&
                   at(header, 5) >= 0x40;
          }},
    // Reserved bits.
    Magic{Format::xz, "\xfd\x37\x7a\x58\x5a\x00"sv, 0xff, 8,
          [](std::span<const std::byte> header) {
            return at(header, 6) == 0 && (at(header, 7) & 0xf0) == 0;
          }},
    // The level, and how a block begins, or the end.
    Magic{Format::bzip2, "\x42\x5a\x68"sv, 0xff, 10,
          [](std::span<const std::byte> header) {
            const auto* text = reinterpret_cast<const char*>(header.data());
            const std::string_view block(text + 4, 6);
            return text[3] >= '1' && text[3] <= '9' &&
                   (block == "\x31\x41\x59\x26\x53\x59"sv || block == "\x17\x72\x45\x38\x50\x90"sv);
          }},
};

// How far `head` agrees with how a frame begins: not at all; all of it; or as long as it reaches,
// in the magic number or behind it.
enum class Kind : uint8_t { none, frame, part_of_magic, part_of_header };

Kind compare(const Magic& magic, std::span<const std::byte> head) {
  for (size_t i = 0; i < magic.bytes.size(); ++i) {
    if (i == head.size()) return Kind::part_of_magic;
    const auto mask = i == 0 ? magic.first_byte_mask : uint8_t{0xff};
    if ((at(head, i) & mask) != static_cast<uint8_t>(magic.bytes[i])) return Kind::none;
  }
  if (magic.fits == nullptr) return Kind::frame;
  if (head.size() < magic.header_bytes) return Kind::part_of_header;
  return magic.fits(head) ? Kind::frame : Kind::none;
}

// Of data that end with `head`, a part of a header is a frame that is cut off.
struct Guess {
  Kind kind;
  Format format;
  bool needs_more() const { return kind == Kind::part_of_magic || kind == Kind::part_of_header; }
  bool is_frame() const { return kind == Kind::frame || kind == Kind::part_of_header; }
};
Guess guess(std::span<const std::byte> head) {
  Guess best{Kind::none, Format::gzip};
  for (const Magic& magic : magics) {
    const Kind kind = compare(magic, head);
    if (kind > best.kind || kind == Kind::frame) best = {kind, magic.format};
    if (kind == Kind::frame) break;
  }
  return best;
}

// ---- What decompression takes.

constexpr uint64_t gzip_bytes = 64 * KiB;
constexpr uint64_t bzip2_bytes_per_level = 400'000;

// The window that the header of a frame asks for (RFC 8878).
uint64_t zstd_window_bytes(std::span<const std::byte> head) {
  constexpr std::array<size_t, 4> dictionary_bytes = {0, 1, 2, 4};
  const uint8_t flags = at(head, 4);
  if ((flags & 0x20) == 0) {
    if (head.size() < 6) return 0;
    const uint64_t base = uint64_t{1} << (10 + (at(head, 5) >> 3));
    return base + base / 8 * (at(head, 5) & 7);
  }
  const size_t size_bytes = size_t{1} << (flags >> 6);
  const size_t from = 5 + dictionary_bytes[flags & 3];
  if (head.size() < from + size_bytes) return 0;
  uint64_t bytes = 0;
  for (size_t i = size_bytes; i-- > 0;) bytes = bytes << 8 | at(head, from + i);
  return size_bytes == 2 ? bytes + 256 : bytes;
}

uint64_t lz4_bytes(std::span<const std::byte> head) {
  if (head.size() < 6) return 0;
  return (uint64_t{2} << (8 + 2 * (at(head, 5) >> 4 & 7))) + 256 * KiB;
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
    while (found.needs_more() && !ended_) {
      if (Status filled = fill(); !filled) return std::unexpected(filled.error());
      found = guess(buffered());
    }
    if (found.is_frame()) {
      if (Status begun = begin_frame(found.format); !begun) return std::unexpected(begun.error());
      return Next::frame;
    }
    if (!last_format_) {
      plain_ = true;
      return Next::plain;
    }
    if (*last_format_ == Format::gzip || *last_format_ == Format::xz) {
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
      decoder = make_decoder(format);
    }
    if (decoder == nullptr) {
      return failure(ErrorCode::out_of_memory, "prepare to decompress", name_);
    }
    const uint64_t most_bytes = options_.window_bytes_max + MiB;
    MemoryCharge& charge = charges_[static_cast<size_t>(format)];
    charge = MemoryCharge(
        std::max(charge.bytes(), std::min(decoding_bytes(buffered()).value_or(0), most_bytes)));
    decoder_ = decoder.get();
    last_format_ = format;
    ++frames_;
    return {};
  }

  std::unique_ptr<Decoder> make_decoder(Format format) const {
    switch (format) {
      case Format::gzip:
        return make_gzip_decoder();
      case Format::zstd:
        return make_zstd_decoder(options_.window_bytes_max);
      case Format::lz4:
        return make_lz4_decoder();
      case Format::xz:
        return make_xz_decoder(options_.window_bytes_max);
      case Format::bzip2:
        return make_bzip2_decoder();
    }
    return nullptr;
  }

  // Tapes and some archivers pad gzip data with zeros, and xz knows padding.
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
    Result<size_t> got = checked_read(*compressed_, std::span(input_).subspan(end_));
    if (!got) return std::unexpected(got.error());
    end_ += *got;
    ended_ = *got == 0;
    return {};
  }

  void note(const Problem& problem) {
    error_ = Error{problem.code,
                   fmt::format("decompress {} data at offset {}: {}", decoder_->name(), offset_,
                               problem.reason),
                   name_, 0, problem.hint.empty() ? hint() : problem.hint};
  }
  // Who has read nothing so far may have met a magic number by chance.
  std::string hint() const {
    return frames_ > 1 ? "" : "--no-decompress, if these bytes are what is meant";
  }
  Error truncated() const {
    return {ErrorCode::corrupt,
            fmt::format("decompress {} data: the file ends at offset {}, in the middle of it",
                        decoder_->name(), offset_),
            name_, 0, hint()};
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
  std::array<MemoryCharge, formats> charges_;  // of each what its frames asked for at most
  Decoder* decoder_ = nullptr;                 // of the frame that we are in
  std::optional<Format> last_format_;
  uint64_t frames_ = 0;  // begun
  std::optional<Error> error_;
};

}  // namespace

std::optional<uint64_t> decoding_bytes(std::span<const std::byte> head) {
  const Guess found = guess(head);
  if (!found.is_frame()) return std::nullopt;
  uint64_t bytes = 0;
  switch (found.format) {
    case Format::gzip:
      bytes = gzip_bytes;
      break;
    case Format::zstd:
      // Beside it blocks of at most 128 KiB, and tables. (A skippable frame tells nothing.)
      if (at(head, 0) == 0x28 && head.size() > 4) bytes = zstd_window_bytes(head) + 640 * KiB;
      break;
    case Format::lz4:
      bytes = lz4_bytes(head);
      break;
    case Format::xz:
      bytes = xz_decoding_bytes(head);
      break;
    case Format::bzip2:
      bytes = head.size() > 3 ? bzip2_bytes_per_level * (at(head, 3) - '0' + 1u) : 0;
      break;
  }
  return bytes + input_bytes;
}

}  // namespace source

std::unique_ptr<Source> decompress(std::unique_ptr<Source> compressed, std::string name,
                                   const SourceOptions& options) {
  if (!options.decompress) return compressed;
  return std::make_unique<source::Decompressor>(std::move(compressed), std::move(name), options);
}

}  // namespace penstock
