#pragma once

// Inputs whose bytes come in order alone. They have one owner, whatever reads them: a thread that
// fills a stream (SourceStream). All other files are read at any place, many requests at a time.

#include <memory>

#include "file/file.h"
#include "penstock/source.h"

namespace penstock::source {

// Whether this is such an input: a pipe, or compressed data, unless the options say that their
// bytes are meant.
Result<bool> comes_in_order(const file::File& file, const SourceOptions& options);

// All of it, decompressed as the options say: from the beginning, or of a pipe from where it stands.
// `file` may be closed afterwards.
Result<std::unique_ptr<Source>> source_of(const file::File& file, const SourceOptions& options);

}  // namespace penstock::source
