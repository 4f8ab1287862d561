#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "check.h"
#include "penstock/source.h"

// Fuzzing decompression:
//
//   byte 0   modulo 4: 0 to 2, the format to which the rest is compressed first; 3, it is used unchanged
//   byte 1   number of bytes to change, modulo 4; each by the next three: position (2), value to XOR
//   next     size of pieces: reading in pieces and all at once must give the same bytes and the same end
//   rest     text

namespace penstock {
namespace {

constexpr size_t text_bytes_max = 1 << 20;

struct Outcome {
  std::string text;
  bool good = false;

  bool operator==(const Outcome&) const = default;
};

Outcome read(const std::string& compressed, size_t given_bytes, size_t taken_bytes) {
  size_t at = 0;
  auto source = decompress(callback_source([&](std::span<std::byte> into) -> Result<size_t> {
                             const size_t bytes =
                                 std::min({into.size(), given_bytes, compressed.size() - at});
                             std::memcpy(into.data(), compressed.data() + at, bytes);
                             at += bytes;
                             return bytes;
                           }),
                           "fuzz", {.window_bytes_max = 8 << 20});
  Outcome outcome;
  std::string piece(taken_bytes, '\0');
  while (outcome.text.size() < text_bytes_max) {
    const auto bytes = source->read(std::as_writable_bytes(std::span(piece)));
    if (!bytes) return outcome;
    if (*bytes == 0) break;
    require(*bytes <= piece.size(), "more than there is room for");
    outcome.text.append(piece, 0, *bytes);
  }
  // Both texts are cut at the same length.
  outcome.text.resize(std::min(outcome.text.size(), text_bytes_max));
  outcome.good = true;
  return outcome;
}

std::string compressed(std::string_view text, CompressedFormat format) {
  std::string made;
  auto sink = compress(callback_sink([&](std::span<const std::byte> from) -> Status {
                         made.append(reinterpret_cast<const char*>(from.data()), from.size());
                         return {};
                       }),
                       format);
  require(sink.has_value() && (*sink)->write(std::as_bytes(std::span(text))).has_value() &&
              (*sink)->close().has_value(),
          "compress");
  return made;
}

}  // namespace
}  // namespace penstock

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock;
  constexpr std::array formats = {CompressedFormat::gzip, CompressedFormat::zstd,
                                  CompressedFormat::lz4};
  constexpr size_t head = 3 + 3 * 3;
  if (size < head) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + head, size - head);
  std::string bytes =
      data[0] % 4 < formats.size() ? compressed(text, formats[data[0] % 4]) : std::string(text);
  const size_t changes = data[1] % 4;
  for (size_t i = 0; i < changes && !bytes.empty(); ++i) {
    const uint8_t* const change = data + 3 + 3 * i;
    char& byte = bytes[(change[0] + size_t{256} * change[1]) % bytes.size()];
    byte = static_cast<char>(byte ^ change[2]);
  }
  const size_t piece = 1 + data[2];
  const Outcome whole = read(bytes, bytes.size(), size_t{64} << 10);
  const Outcome pieces = read(bytes, piece, piece);
  // (If the data ends with an error, the two ways may differ in the bytes before it.)
  require(whole.good == pieces.good, "one of two ways ends with an error");
  require(!whole.good || whole.text == pieces.text, "both ways give the same");
  if (changes == 0 && data[0] % 4 < formats.size())
    require(whole.good && whole.text == text.substr(0, text_bytes_max), "what was compressed");
  return 0;
}
