#pragma once

// Inputs whose bytes come only in order. A thread that fills a stream (SourceStream) is their one
// owner, whatever reads them. All other files are read at any place, many requests at a time.

#include <atomic>
#include <memory>
#include <string>

#include "io/file.h"
#include "penstock/source.h"

namespace penstock::source {

// How the bytes of an input arrive.
struct Arrival {
  // True for a pipe, for compressed data unless the options ask for their bytes, and with a filter.
  bool in_order = false;
  // Memory for decoding and the filter. The decoder of a pipe is not known, and not in it.
  uint64_t decoding_bytes = 0;
};
Result<Arrival> arrival_of(const io::File& file, const SourceOptions& options);

// The most memory of a decoder with these options.
constexpr uint64_t decoding_bytes_max(const SourceOptions& options) {
  return options.window_bytes_max + MiB;
}
// Returns what to try for a frame whose decoder takes more.
std::string hint_of_window(uint64_t decoding_bytes);

// Returns the options for decoders that leave most of the memory to others.
SourceOptions within_memory(SourceOptions options, uint64_t memory_bytes);

// The whole input, decompressed and filtered as the options say: from the beginning, or, for a
// pipe, from its present place. A caller's own source is not decompressed. `file` may be closed
// afterwards. Once `cancel`, which outlives the source, is set, all reads end with
// ErrorCode::cancelled.
Result<std::unique_ptr<Source>> source_of(const io::File& file, const SourceOptions& options,
                                          const std::atomic<bool>* cancel = nullptr);

}  // namespace penstock::source
