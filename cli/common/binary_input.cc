#include "cli/common/binary_input.h"

#include <fmt/format.h>

#include <memory>
#include <span>
#include <utility>

#include "interfaces/api/binary_input.h"
#include "io/file_ends.h"
#include "items/items.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

std::vector<std::string> or_stdin(const std::vector<std::string>& inputs) {
  return inputs.empty() ? std::vector<std::string>{"-"} : inputs;
}

// A source that reads `bytes` from memory.
std::unique_ptr<Source> source_of(std::string bytes) {
  return callback_source([bytes = std::move(bytes),
                          at = size_t{0}](std::span<std::byte> into) mutable -> Result<size_t> {
    const size_t taken = bytes.copy(reinterpret_cast<char*>(into.data()), into.size(), at);
    at += taken;
    return taken;
  });
}

}  // namespace

std::string binary_notice(const std::vector<std::string>& inputs, const ItemFormat& items,
                          const SourceOptions& source) {
  if (items.name != "lines" || items.zero_terminated) return {};
  if (!api::refuse_binary({.inputs = or_stdin(inputs), .items = items, .source = source}))
    return {};
  for (const std::string& input : or_stdin(inputs)) {
    std::string head = io::file_ends(input).head;
    if (head.find('\0') == head.npos) continue;
    // Compressed data contain NULs; only their text counts.
    const auto text = input == "-" ? decompress(source_of(head), input, source)
                                   : open_source(input, source).value_or(nullptr);
    if (text == nullptr) continue;
    const auto bytes = text->read(std::as_writable_bytes(std::span(head)));
    head.resize(bytes ? *bytes : 0);
    if (head.find('\0') == head.npos) continue;
    const char* const encoding = items::wide_encoding(head);
    if (encoding != nullptr && items.csv) return {};  // such rows are refused, with this hint
    return fmt::format("{} is read as lines of text, but contains NUL bytes (try: {})",
                       input == "-" ? "standard input" : input,
                       encoding == nullptr
                           ? "--format u64 or another format; -z for lines that end with NUL"
                           : items::hint_of_encoding(encoding));
  }
  return {};
}

}  // namespace penstock::cli
