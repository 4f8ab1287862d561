#include "interfaces/api/binary_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/misuse.h"
#include "base/shell_word.h"
#include "io/names.h"
#include "io/peek.h"

namespace penstock::api {
namespace {

using namespace std::string_view_literals;

struct Kind {
  std::string_view magic;
  std::string_view end;  // the file's end, if the magic may also be text
  const char* name;
  const char* hint;  // {} stands for the file
};
constexpr const char* as_table = "penstock sort --by COLUMN {} -o OUTPUT, which sorts tables";
constexpr const char* as_other = "a program that writes it as CSV";
constexpr Kind kinds[] = {
    {"PAR1", "PAR1", "Parquet", as_table},
    {"ARROW1\0\0"sv, "", "Arrow IPC", as_table},
    {"FEA1", "FEA1", "Feather", "pyarrow, which reads it and writes Arrow IPC"},
    {"Obj\x01", "", "Avro", as_other},
    {"\x89HDF\r\n\x1a\n", "", "HDF5", as_other},
    {"\xd0\xcf\x11\xe0", "", "old Excel or Word", as_other},
    {"PK\x03\x04", "", "zip", "unzip -p {} | penstock ..."},
    {"7z\xbc\xaf\x27\x1c", "", "7z", "7z e -so {} | penstock ..."},
    {"Rar!\x1a\x07", "", "rar", "unrar p -inul {} | penstock ..."},
    {"SQLite format 3\0"sv, "", "SQLite", "sqlite3 {} 'SELECT ...' | penstock ..."},
    {"%PDF-", "", "PDF", "pdftotext {} - | penstock ..."},
    {"\x89PNG\r\n\x1a\n", "", "PNG", "another file"},
    {"\xff\xd8\xff", "", "JPEG", "another file"},
    {"\x7f"
     "ELF",
     "", "ELF", "another file"},
    {"\x5d\0\0"sv, "", "lzma", "xz --format=lzma -dc {} | penstock ..."},
    {"\x02\x21\x4c\x18", "", "lz4's old format", "lz4 -dc {} | penstock ..."},
    {"\x1f\x9d", "", "compress (.Z)", "gzip -dc {} | penstock ..."}};
constexpr std::string_view array_magic = "\x93NUMPY";
constexpr const char* as_array =
    "np.load(FILE, mmap_mode='r').tofile(ITEMS) in Python, which writes the items alone";

std::unexpected<Error> no_lines(const char* kind, const std::string& input,
                                const std::string& hint) {
  return misuse(fmt::format("read {} data as lines of text", kind), io::shown_input(input),
                hint + "; or --no-decompress, if these bytes are meant as lines");
}

bool is_control(char c) {
  return static_cast<unsigned char>(c) < ' ' &&
         std::string_view("\t\n\v\f\r\x1b").find(c) == std::string_view::npos;
}

// A magic that may be text counts if the file also ends like its kind. If it has no such end, or the
// end of a pipe is not known, other bytes that text has not decide.
bool begins_as(const Kind& kind, const io::Peek& seen) {
  if (!seen.bytes.starts_with(kind.magic)) return false;
  if (std::ranges::any_of(kind.magic, [](char c) { return is_control(c) || (c & 0x80) != 0; }))
    return true;
  return seen.is_file && !kind.end.empty() ? seen.tail.ends_with(kind.end)
                                           : std::ranges::any_of(seen.bytes, is_control);
}

}  // namespace

Status refuse_binary(const ItemFormat& items, const std::string& input, const io::Peek& seen) {
  const bool lines = items.name == "lines";
  if (seen.bytes.starts_with(array_magic)) {
    if (lines)
      return no_lines("NumPy", input, std::string(as_array) + ", for --format u64 or another one");
    return misuse("take the header of np.save() for items", io::shown_input(input),
                  std::string(as_array) + "; or --no-decompress, if these bytes are meant");
  }
  if (!lines) return {};
  for (const Kind& kind : kinds) {
    if (!begins_as(kind, seen)) continue;
    // Items that end with NUL may begin with such a magic.
    if (items.zero_terminated && kind.magic.contains('\0')) continue;
    const std::string file = input == "-" ? "FILE" : shell_word(input);
    return no_lines(kind.name, input, fmt::format(fmt::runtime(kind.hint), file));
  }
  return {};
}

Status refuse_binary(const FilesOptions& files) {
  if (!files.source.decompress) return {};
  // A wait for one pipe among other inputs might never end: one writer may feed several in turn.
  const io::Wait wait =
      files.inputs.size() + files.sources.size() == 1 ? io::Wait::byte : io::Wait::none;
  for (const std::string& input : files.inputs) {
    const io::Peek seen = io::peek_if_possible(
        input, {.tail_bytes = kind_tail_bytes, .wait = wait, .cancel = files.cancel});
    if (Status fine = refuse_binary(files.items, input, seen); !fine) return fine;
  }
  return {};
}

}  // namespace penstock::api
