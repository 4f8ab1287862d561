#pragma once

// What every command with inputs says of them.

#include "cli/common/modes.h"
#include "cli/common/parser.h"
#include "penstock/source.h"

namespace penstock::cli {

// `options` must outlive the parsing.
inline void add_source_words(Parser& parser, SourceOptions& options) {
  parser
      .add_flag_that_clears("--no-decompress", options.decompress,
                            "take the bytes as they are, also of what begins like gzip, zstd, "
                            "lz4, xz or bzip2 data")
      .in(modes::sorts | modes::checking);
}

}  // namespace penstock::cli
