#pragma once

// The options that all commands with inputs share.

#include "cli/common/option_words.h"
#include "penstock/source.h"

namespace penstock::cli {

// `options` must outlive the parsing.
inline void add_source_words(Parser& parser, SourceOptions& options) {
  add_flag_that_clears(parser, api::option<FilesOptions>("decompress"), options.decompress);
}

}  // namespace penstock::cli
