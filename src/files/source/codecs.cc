// The table of compressed formats.

#include "files/source/codec.h"

namespace penstock {

namespace source {

std::span<const Codec* const> codecs() {
  static constexpr std::array<const Codec*, 6> all = {&gzip_codec, &zstd_codec, &lz4_codec,
                                                      &xz_codec,   &lzip_codec, &bzip2_codec};
  return all;
}

std::string codec_names() {
  std::string names;
  for (const Codec* codec : codecs()) names.append(names.empty() ? "" : ", ").append(codec->name);
  return names;
}

}  // namespace source

std::optional<CompressedFormat> compressed_format_of_name(std::string_view name) {
  for (const source::Codec* codec : source::codecs()) {
    if (name.ends_with(codec->suffix)) return codec->output;
  }
  return {};
}

}  // namespace penstock
