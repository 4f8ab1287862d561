#pragma once

// Inputs whose bytes come in order alone. They have one owner, whatever reads them: a thread that
// fills a stream (SourceStream). All other files are read at any place, many requests at a time.

#include <atomic>
#include <memory>

#include "io/file.h"
#include "penstock/source.h"

namespace penstock::source {

// How the bytes of an input come.
struct Arrival {
  // It is a pipe, or holds compressed data, unless the options say that their bytes are meant.
  bool in_order = false;
  uint64_t decoding_bytes = 0;  // of memory that this takes; of a pipe nobody knows
};
Result<Arrival> arrival_of(const io::File& file, const SourceOptions& options);

// The same options, of decoders that leave most of the memory to others.
SourceOptions within_memory(SourceOptions options, uint64_t memory_bytes);

// All of it, decompressed as the options say: from the beginning, or of a pipe from where it stands.
// What a caller's source gives is taken as it is. `file` may be closed afterwards. Where `cancel` is given
// and set, reads end with ErrorCode::cancelled, those too that wait; it outlives the source.
Result<std::unique_ptr<Source>> source_of(const io::File& file, const SourceOptions& options,
                                          const std::atomic<bool>* cancel = nullptr);

}  // namespace penstock::source
