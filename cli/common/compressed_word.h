#pragma once

// The option -Z, for all commands that write one output.

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "base/misuse.h"
#include "cli/common/option_words.h"
#include "files/source/codec.h"
#include "penstock/source.h"

namespace penstock::cli {

// `word` must outlive the parsing.
inline void add_compressed_word(Parser& parser, std::string& word) {
  add_flag(parser, api::option<FilesOptions>("compressed"), word)
      .offers(api::option_words<CompressedFormat>)
      .values_like([](const std::string& format) {
        const auto& words = api::option_words<CompressedFormat>;
        return std::ranges::find(words, format) != std::end(words);
      });
}

// The format that `word` (the value of -Z) selects for an output of that name; nullopt: not
// compressed.
inline Result<std::optional<CompressedFormat>> compressed_format(const std::string& word,
                                                                 const std::string& output) {
  if (word.empty()) return std::nullopt;
  if (word != "true")
    return api::value_of_word<CompressedFormat>(word, "compress in this way", "--compressed=");
  if (const auto named = compressed_format_of_name(output)) return named;
  return misuse("choose a compression format by this name", "-o " + output,
                "--compressed=gzip, zstd or lz4; or a name that ends in .gz, .zst or .lz4");
}

// A notice about an output that is not compressed though its name ends like a compressed file's;
// empty otherwise. `compresses`: the command has -Z.
inline std::string uncompressed_notice(const std::string& word, const std::string& output,
                                       bool compresses = true) {
  if (!word.empty()) return {};
  const std::string notice = output + " is written uncompressed";
  for (const source::Codec* codec : source::codecs()) {
    if (!output.ends_with(codec->suffix)) continue;
    if (!compresses) return notice;
    return notice +
           (codec->output ? " (try: -Z)" : " (try: -Z with a name that ends in .gz, .zst or .lz4)");
  }
  return {};
}

}  // namespace penstock::cli
