#pragma once

// The options that all commands with inputs share.

#include "cli/common/option_words.h"
#include "penstock/source.h"

namespace penstock::cli {

// `options` must outlive the parsing.
inline void add_source_words(Parser& parser, SourceOptions& options) {
  add_flag_that_clears(parser, api::option<FilesOptions>("decompress"), options.decompress);
  add_option(parser, api::option<FilesOptions>("encoding"), options.encoding)
      .offers({"UTF-16", "UTF-16LE", "UTF-16BE", "latin1", "windows-1252"});
}

}  // namespace penstock::cli
