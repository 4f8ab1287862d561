#pragma once

// One compressed format, encoded piece by piece: decoder.h the other way round.

#include <cstddef>
#include <memory>
#include <span>

#include "penstock/base.h"

namespace penstock::source {

// Thread safety: one thread at a time.
class Encoder {
 public:
  virtual ~Encoder() = default;
  // The most that encode() of so many bytes, or finish(), stores.
  virtual size_t bound(size_t bytes) const = 0;
  // The next piece of the frame: how many bytes were stored, which may be none. REQUIRES: `to` has bound()
  // bytes.
  virtual Result<size_t> encode(std::span<const std::byte> piece, std::span<std::byte> to) = 0;
  // The end of the frame. The next call begins a new one.
  virtual Result<size_t> finish(std::span<std::byte> to) = 0;
};

// At the levels that gzip, zstd and lz4 have by themselves. nullptr: out of memory.
std::unique_ptr<Encoder> make_gzip_encoder();
std::unique_ptr<Encoder> make_zstd_encoder();
std::unique_ptr<Encoder> make_lz4_encoder();

}  // namespace penstock::source
