#pragma once

// -Z, of every command that writes one output.

#include <optional>
#include <string>

#include "base/misuse.h"
#include "cli/common/parser.h"
#include "penstock/source.h"

namespace penstock::cli {

// `word` must outlive the parsing.
inline void add_compressed_word(Parser& parser, std::string& word) {
  parser
      .add_flag("-Z,--compressed", word,
                "compress the output: as gzip, zstd or lz4 by its name (.gz, .zst, .lz4), or by "
                "--compressed=FORMAT, which standard output needs")
      .value_name("FORMAT");
}

// Of an output of that name. Nothing: it is not compressed.
inline Result<std::optional<CompressedFormat>> compressed_format(const std::string& word,
                                                                 const std::string& output) {
  using enum CompressedFormat;
  if (word.empty()) return std::nullopt;
  if (word == "gzip") return gzip;
  if (word == "zstd") return zstd;
  if (word == "lz4") return lz4;
  if (word != "true")
    return misuse("compress in this way", "--compressed=" + word, "gzip, zstd or lz4");
  if (const auto named = compressed_format_of_name(output)) return named;
  return misuse("tell by its name how to compress the output", "-o " + output,
                "--compressed=gzip, zstd or lz4; or a name that ends in .gz, .zst or .lz4");
}

}  // namespace penstock::cli
