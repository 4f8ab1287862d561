#include "cli/common/binary_input.h"

#include <fmt/format.h>

#include <span>
#include <string_view>

#include "base/misuse.h"
#include "base/shell_word.h"
#include "file/file_ends.h"
#include "penstock/source.h"

namespace penstock::cli {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic;
  std::string_view end;  // what the file ends with, where the magic may as well be text
  const char* name;
  const char* hint;  // {} is the file
};
constexpr const char* as_table = "--by COLUMN -o FILE, which sorts tables";
constexpr Kind kinds[] = {
    {"PAR1", "PAR1", "Parquet", as_table},
    {"ARROW1\0\0"sv, "", "Arrow IPC", as_table},
    {"FEA1", "FEA1", "Feather", "pyarrow, which reads it and writes Arrow IPC"},
    {"PK\x03\x04", "", "zip", "unzip -p {} |"},
    {"\x93NUMPY", "", "NumPy's .npy",
     "penstock.sort() of Python, for arrays; --format, for a file of its items alone"},
    {"SQLite format 3\0"sv, "", "SQLite", "sqlite3 {} 'SELECT ...' |"},
    {"\x7f"
     "ELF",
     "", "ELF", "another file"},
    {"\x5d\0\0"sv, "", "lzma", "xz --format=lzma -dc {} |"},
    {"\x02\x21\x4c\x18", "", "lz4's old format", "lz4 -dc {} |"},
    {"\x1f\x9d", "", "compress (.Z)", "gzip -dc {} |"}};

std::vector<std::string> or_stdin(const std::vector<std::string>& inputs) {
  return inputs.empty() ? std::vector<std::string>{"-"} : inputs;
}

}  // namespace

Status refuse_binary(const std::vector<std::string>& inputs, const ItemFormat& items,
                     const SourceOptions& source) {
  if (items.name != "lines" || !source.decompress) return {};
  for (const std::string& input : or_stdin(inputs)) {
    const file::FileEnds ends = file::file_ends(input);
    for (const Kind& kind : kinds) {
      // Items that end with NUL hold the magic numbers that do.
      if (items.zero_terminated && kind.magic.contains('\0')) continue;
      if (!ends.head.starts_with(kind.magic) || !ends.tail.ends_with(kind.end)) continue;
      const std::string file = input == "-" ? "FILE" : shell_word(input);
      return misuse(fmt::format("read as lines what begins as a file of {} does", kind.name), input,
                    fmt::format("{}; --no-decompress, if these bytes are meant as lines",
                                fmt::format(fmt::runtime(kind.hint), file)));
    }
  }
  return {};
}

std::string binary_notice(const std::vector<std::string>& inputs, const ItemFormat& items,
                          const SourceOptions& source) {
  if (items.name != "lines" || items.zero_terminated) return {};
  for (const std::string& input : or_stdin(inputs)) {
    std::string head = file::file_ends(input).head;
    if (head.find('\0') == head.npos) continue;
    // Compressed data have NULs; their text is what counts.
    if (input != "-") {
      const auto opened = open_source(input, source);
      if (!opened) continue;
      const auto bytes = (*opened)->read(std::as_writable_bytes(std::span(head)));
      head.resize(bytes ? *bytes : 0);
      if (head.find('\0') == head.npos) continue;
    } else if (head.starts_with('\x1f') || head.starts_with('\x28') || head.starts_with('\x04') ||
               head.starts_with('\xfd') || head.starts_with("BZh")) {
      continue;
    }
    return fmt::format(
        "{} is read as lines of text, and has bytes that text has not (try: --format u64 or "
        "another one; -z for lines that end with NUL)",
        input == "-" ? "standard input" : input);
  }
  return {};
}

}  // namespace penstock::cli
