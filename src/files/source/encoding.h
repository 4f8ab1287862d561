#pragma once

// Text in another encoding than UTF-8 (SourceOptions::encoding).

#include <memory>
#include <string>

#include "penstock/source.h"

namespace penstock::source {

// The memory of a decoder, with its buffers.
inline constexpr uint64_t decoder_bytes = MiB;

// Returns the text in UTF-8; the text itself if `word` is empty. Errors: invalid_argument if there is
// no such encoding; of reads: corrupt, with the byte, for bytes that are no characters of it.
Result<std::unique_ptr<Source>> decoded(std::unique_ptr<Source> text, std::string name,
                                        const std::string& word);

}  // namespace penstock::source
