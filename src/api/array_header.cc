#include "api/array_header.h"

#include <array>
#include <filesystem>
#include <string_view>

#include "base/misuse.h"
#include "file/file.h"
#include "file/system_calls.h"

namespace penstock::api {
namespace {

constexpr std::string_view magic = "\x93NUMPY";

// A file that cannot be opened begins with nothing: the operation finds what is wrong.
bool has_header(const std::string& path) {
  std::error_code error;
  if (path.starts_with("/dev/") || !std::filesystem::is_regular_file(path, error)) return false;
  const auto file = file::File::open_input(path, file::Caching::buffered);
  if (!file) return false;
  std::array<char, magic.size()> head;
  const int64_t bytes =
      file::read_some(file->descriptor(), 0, std::as_writable_bytes(std::span(head)));
  return bytes == static_cast<int64_t>(head.size()) && std::string_view(head) == magic;
}

}  // namespace

Status refuse_array_headers(const FilesOptions& files) {
  if (!files.source.decompress) return {};
  for (const std::string& path : files.inputs) {
    if (has_header(path))
      return misuse("take the header of np.save() for items", path,
                    "np.load(FILE, mmap_mode='r').tofile(ITEMS) in Python, which writes the items "
                    "alone; or --no-decompress, if these bytes are meant");
  }
  return {};
}

}  // namespace penstock::api
