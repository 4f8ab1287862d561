#pragma once

// One compressed format, decoded piece by piece into memory of the caller's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "penstock/base.h"

namespace penstock::source {

// What is wrong with the data; the caller knows the file and the offset.
struct Problem {
  ErrorCode code;
  std::string reason;
  std::string hint = {};
};

// Thread safety: one thread at a time.
class Decoder {
 public:
  struct Step {
    size_t consumed = 0;  // of the input
    size_t produced = 0;  // of the output
    bool frame_ended = false;
    std::optional<Problem> problem = {};  // met behind what was produced; nothing can follow
  };
  virtual ~Decoder() = default;
  virtual const char* name() const = 0;
  // Goes as far as input and output reach, at most to the end of the frame; the next call then
  // begins a new frame.
  virtual Step decode(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

// nullptr: out of memory.
std::unique_ptr<Decoder> make_gzip_decoder();
std::unique_ptr<Decoder> make_zstd_decoder(uint64_t window_bytes_max);  // and skippable frames
std::unique_ptr<Decoder> make_lz4_decoder();
std::unique_ptr<Decoder> make_xz_decoder(uint64_t window_bytes_max);
std::unique_ptr<Decoder> make_bzip2_decoder();

// What an xz stream may take beside its window.
inline uint64_t xz_memory_bytes(uint64_t window_bytes) {
  return window_bytes + 128 * KiB;
}
// With such a head.
uint64_t xz_decoding_bytes(std::span<const std::byte> head);
inline Problem too_much_memory(uint64_t bytes) {
  return {ErrorCode::out_of_memory,
          "it takes " + std::to_string(bytes / MiB + 1) + " MiB, more than allowed",
          "more memory: -S of the program, window_bytes_max of the library"};
}

// What decompression takes of data that begin like this; nothing: they are in no known format. As
// much as there is of the first head_bytes is needed.
inline constexpr size_t head_bytes = 2 * KiB;
std::optional<uint64_t> decoding_bytes(std::span<const std::byte> head);

}  // namespace penstock::source
