#pragma once

// One compressed format: how its frames begin, and what decodes and encodes them. Each format is a
// file that defines its Codec, and a row in codecs.cc; all other code uses the table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/source.h"

namespace penstock::source {

using namespace std::string_view_literals;

// A fault in the data; the caller adds the file and the offset.
struct Problem {
  ErrorCode code;
  std::string reason;
  bool is_window = false;  // a frame needs a larger window than make_decoder() allows
};

// Decodes one format piece by piece into the caller's memory.
//
// Thread safety: one thread at a time.
class Decoder {
 public:
  struct Step {
    size_t consumed = 0;  // input bytes
    size_t produced = 0;  // output bytes
    bool frame_ended = false;
    std::optional<Problem> problem = {};  // behind what was produced; nothing can follow
  };
  virtual ~Decoder() = default;
  // Continues as far as input and output reach, at most to the end of the frame; the next call then
  // begins a new frame.
  virtual Step decode(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

// Encodes one format piece by piece, at the default level of the format's own program.
//
// Thread safety: one thread at a time.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // The most bytes that encode() of this many bytes, or finish(), stores.
  virtual size_t bound(size_t bytes) const = 0;
  // Encodes the next piece of the frame, and returns the bytes stored, perhaps none. REQUIRES: `to`
  // has bound() bytes.
  virtual Result<size_t> encode(std::span<const std::byte> piece, std::span<std::byte> to) = 0;
  // Ends the frame. The next call begins a new one.
  virtual Result<size_t> finish(std::span<std::byte> to) = 0;
};

// The first bytes of a frame: all of them, or head_bytes.
using Head = std::span<const std::byte>;
inline constexpr size_t head_bytes = 2 * KiB;

inline uint8_t byte_at(Head head, size_t i) {
  return static_cast<uint8_t>(head[i]);
}

// The beginning of a frame: a magic number, and a header whose fields agree. Numbers that begin
// with a magic number by chance seldom also have such a header.
struct Magic {
  std::string_view bytes = {};  // empty: unused
  uint8_t first_byte_mask = 0xff;
  size_t header_bytes = 0;            // bytes that `fits` reads
  bool (*fits)(Head head) = nullptr;  // nullptr: any header fits
};

struct Codec {
  const char* name;
  const char* suffix;                           // suffix of file names
  std::optional<CompressedFormat> output = {};  // nullopt: a format for reading only
  std::array<Magic, 2> magics;
  bool zeros_may_follow = false;  // padding behind a frame
  // Returns the memory for decoding, as far as the head tells.
  uint64_t (*decoding_bytes)(Head head);
  // Makes a decoder, which refuses a frame with a larger window; nullptr: out of memory.
  std::unique_ptr<Decoder> (*make_decoder)(uint64_t window_bytes_max);
  std::unique_ptr<Encoder> (*make_encoder)() = nullptr;  // nullptr: a format for reading only
};

extern const Codec gzip_codec, zstd_codec, lz4_codec, xz_codec, lzip_codec, bzip2_codec;

// All formats.
std::span<const Codec* const> codecs();
// "gzip, zstd, lz4", in the order of the table.
std::string codec_names();

// make_decoder, by open(window_bytes_max) or open() of a class, and make_encoder, by open().
template <class D>
std::unique_ptr<Decoder> opened(uint64_t window_bytes_max) {
  auto decoder = std::make_unique<D>();
  if constexpr (requires { decoder->open(window_bytes_max); }) {
    if (!decoder->open(window_bytes_max)) return nullptr;
  } else {
    if (!decoder->open()) return nullptr;
  }
  return decoder;
}
template <class E>
std::unique_ptr<Encoder> opened() {
  auto encoder = std::make_unique<E>();
  if (!encoder->open()) return nullptr;
  return encoder;
}

// Memory for decompressing data that begin with `head`; nullopt: they are in no known format.
std::optional<uint64_t> decoding_bytes(Head head);

}  // namespace penstock::source
