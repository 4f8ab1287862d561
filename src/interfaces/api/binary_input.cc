#include "interfaces/api/binary_input.h"

#include <fmt/format.h>

#include <string_view>

#include "base/misuse.h"
#include "base/shell_word.h"
#include "io/file_ends.h"

namespace penstock::api {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic;
  std::string_view end;  // the file's end, if the magic may also be text
  const char* name;
  const char* hint;  // {} stands for the file
};
constexpr const char* as_table = "penstock sort --by COLUMN -o FILE, which sorts tables";
constexpr Kind kinds[] = {
    {"PAR1", "PAR1", "Parquet", as_table},
    {"ARROW1\0\0"sv, "", "Arrow IPC", as_table},
    {"FEA1", "FEA1", "Feather", "pyarrow, which reads it and writes Arrow IPC"},
    {"PK\x03\x04", "", "zip", "unzip -p {} |"},
    {"SQLite format 3\0"sv, "", "SQLite", "sqlite3 {} 'SELECT ...' |"},
    {"\x7f"
     "ELF",
     "", "ELF", "another file"},
    {"\x5d\0\0"sv, "", "lzma", "xz --format=lzma -dc {} |"},
    {"\x02\x21\x4c\x18", "", "lz4's old format", "lz4 -dc {} |"},
    {"\x1f\x9d", "", "compress (.Z)", "gzip -dc {} |"}};
constexpr std::string_view array_magic = "\x93NUMPY";
constexpr const char* as_array =
    "np.load(FILE, mmap_mode='r').tofile(ITEMS) in Python, which writes the items alone";

std::unexpected<Error> no_lines(const char* kind, const std::string& input,
                                const std::string& hint) {
  return misuse(fmt::format("read as lines what begins as a file of {} does", kind), input,
                hint + "; --no-decompress, if these bytes are meant as lines");
}

Status refuse_binary(const std::string& input, const ItemFormat& items) {
  const bool lines = items.name == "lines";
  const io::FileEnds ends = io::file_ends(input);
  if (ends.head.starts_with(array_magic)) {
    if (lines)
      return no_lines("NumPy's .npy", input,
                      std::string(as_array) + ", for --format u64 or another one");
    return misuse("take the header of np.save() for items", input,
                  std::string(as_array) + "; or --no-decompress, if these bytes are meant");
  }
  if (!lines) return {};
  for (const Kind& kind : kinds) {
    if (!ends.head.starts_with(kind.magic) || !ends.tail.ends_with(kind.end)) continue;
    // Items that end with NUL may begin with such a magic.
    if (items.zero_terminated && kind.magic.contains('\0')) continue;
    const std::string file = input == "-" ? "FILE" : shell_word(input);
    return no_lines(kind.name, input, fmt::format(fmt::runtime(kind.hint), file));
  }
  return {};
}

}  // namespace

Status refuse_binary(const FilesOptions& files) {
  if (!files.source.decompress) return {};
  for (const std::string& input : files.inputs) {
    if (Status fine = refuse_binary(input, files.items); !fine) return fine;
  }
  return {};
}

}  // namespace penstock::api
