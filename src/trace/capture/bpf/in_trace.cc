#include "trace/capture/bpf/in_trace.h"

#include <cstring>

#include "trace/capture/proc_files.h"

namespace penstock::trace {

using namespace kernel;

namespace {

// Returns the path that /proc shows for a file that is in no folder.
std::string path_apart(const kernel::FileRecord& from) {
  constexpr uint16_t type = 0170000, pipe = 0010000, socket = 0140000;
  const std::string number = ":[" + std::to_string(from.identity.inode) + "]";
  if ((from.mode & type) == pipe) return "pipe" + number;
  if ((from.mode & type) == socket) return "socket" + number;
  const std::string name(from.names, ::strnlen(from.names, from.length));
  return name.starts_with('[') ? "anon_inode:" + name : "/" + name + " (deleted)";
}

}  // namespace

std::string path_of(const char* names, size_t bytes) {
  std::string path;
  for (size_t at = 0; at < bytes;) {
    const std::string name(names + at, ::strnlen(names + at, bytes - at));
    path.insert(0, "/" + name);
    at += name.size() + 1;
  }
  return path.empty() ? "/" : path;
}

trace::FileRecord record_of(const kernel::FileRecord& from) {
  constexpr uint16_t type = 0170000;
  trace::FileRecord record{.device = device_number(from.identity.device),
                           .inode = from.identity.inode,
                           .bytes = from.bytes};
  record.birth_ns = from.birth_ns;
  if (from.is_apart) {
    record.path = path_apart(from);
  } else {
    record.path = (from.is_cut ? "..." : "") + path_of(from.names, from.length);
    if (from.is_deleted) record.path += " (deleted)";
  }
  switch (from.mode & type) {
    case 0100000:
      record.kind = from.is_storage ? FileKind::regular : FileKind::pseudo;
      break;
    case 0060000:
    case 0020000:
      record.kind =
          (from.mode & type) == 0060000 ? FileKind::block_device : FileKind::character_device;
      record.device = device_number(from.special);
      record.inode = 0;  // a device may have several names
      break;
    case 0040000:
      record.kind = FileKind::directory;
      break;
    case 0010000:
      record.kind = FileKind::pipe;
      break;
    case 0140000:
      record.kind = FileKind::socket;
      break;
    default:
      break;
  }
  if (record.path == "anon_inode:[io_uring]") {
    record.kind = FileKind::ring;
  } else if (record.path.starts_with("anon_inode:")) {
    record.kind = FileKind::other;
  }
  return record;
}

DecodedCall decoded_from(const SubmitRecord& submitted) {
  const DecodedCall range{
      .descriptor = submitted.descriptor, .offset = submitted.offset, .bytes = submitted.bytes};
  return decode_request(submitted.operation, range, submitted.flags);
}

}  // namespace penstock::trace
