#pragma once

// One compressed format, decoded piece by piece into memory of the caller's.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "penstock/error.h"

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

// Whether data that begin like this, with at least head_bytes, are in one of the formats.
inline constexpr size_t head_bytes = 4;
bool is_compressed(std::span<const std::byte> head);

}  // namespace penstock::source
