#include "files/sort/resume/journal.h"

#include <bit>
#include <cerrno>

#include "base/check.h"
#include "io/engine.h"
#include "items/crc32.h"

// The journal is written through the page cache, because its entries are small and only commit()
// makes them durable. Between two commits everything may be lost or torn; the reader stops at the
// first entry whose check is wrong. If the last entry of a commit is the one that makes the others
// valid, the commit is atomic.

namespace penstock::external {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t header_bytes = 16;
constexpr size_t unwritten_bytes_max = 256 << 10;

struct Header {
  uint32_t kind;
  uint32_t bytes;
  uint32_t previous_check;
  uint32_t check;
};
static_assert(sizeof(Header) == header_bytes);

uint32_t check_of(const Header& header, std::string_view payload) {
  std::string checked(reinterpret_cast<const char*>(&header), header_bytes - sizeof header.check);
  checked += payload;
  return items::crc32(reinterpret_cast<const std::byte*>(checked.data()), checked.size());
}

}  // namespace

// Another process may remove the file between opening and locking it: then the name is not this
// file's, and the file is opened again.
Result<Journal> Journal::open(const std::string& path) {
  for (;;) {
    auto file = io::File::open_kept(path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    auto locked = file->try_lock();
    if (!locked) return std::unexpected(locked.error());
    if (!*locked) {
      return std::unexpected(Error{.code = ErrorCode::invalid_argument,
                                   .attempted = "do what another process is doing now",
                                   .subject = path,
                                   .system_errno = EWOULDBLOCK,
                                   .hint = "wait until it has ended"});
    }
    if (!file->has_name(path)) continue;

    Journal journal;
    journal.file_ = std::move(*file);
    auto size = journal.file_.size();
    if (!size) return std::unexpected(size.error());
    journal.size_bytes_ = *size;
    uint64_t found = 0;
    if (*size >= sizeof magic) {
      auto status =
          io::read_exactly(journal.file_, 0, reinterpret_cast<std::byte*>(&found), sizeof found);
      if (!status) return std::unexpected(status.error());
    }
    journal.end_ = beginning();
    if (found != magic) {
      // The file is new, or was torn when it was created.
      if (auto status = journal.file_.set_size(0); !status) return std::unexpected(status.error());
      journal.size_bytes_ = 0;
      journal.unwritten_.assign(reinterpret_cast<const char*>(&magic), sizeof magic);
    } else {
      journal.written_ = sizeof magic;
    }
    return journal;
  }
}

bool Journal::in_use(const Error& error) {
  return error.code == ErrorCode::invalid_argument && error.system_errno == EWOULDBLOCK;
}

Result<bool> Journal::next(Entry& entry) {
  Header header;
  if (end_.offset + header_bytes > size_bytes_) return false;
  auto status =
      io::read_exactly(file_, end_.offset, reinterpret_cast<std::byte*>(&header), header_bytes);
  if (!status) return std::unexpected(status.error());
  if (header.previous_check != end_.check || header.bytes > payload_bytes_max ||
      end_.offset + header_bytes + header.bytes > size_bytes_)
    return false;
  entry.kind = header.kind;
  entry.payload.resize(header.bytes);
  status = io::read_exactly(file_, end_.offset + header_bytes,
                            reinterpret_cast<std::byte*>(entry.payload.data()), header.bytes);
  if (!status) return std::unexpected(status.error());
  if (check_of(header, entry.payload) != header.check) return false;
  end_ = {end_.offset + header_bytes + header.bytes, header.check};
  return true;
}

Status Journal::cut(const Position& position) {
  end_ = position;
  if (written_ == 0) return {};  // it is new
  written_ = position.offset;
  return file_.set_size(position.offset);
}

Status Journal::append(uint32_t kind, std::string_view payload) {
  PENSTOCK_CHECK(payload.size() <= payload_bytes_max, "a journal's entry is small");
  Header header{.kind = kind,
                .bytes = static_cast<uint32_t>(payload.size()),
                .previous_check = end_.check,
                .check = 0};
  header.check = check_of(header, payload);
  unwritten_.append(reinterpret_cast<const char*>(&header), header_bytes);
  unwritten_ += payload;
  end_ = {end_.offset + header_bytes + payload.size(), header.check};
  return unwritten_.size() < unwritten_bytes_max ? Status{} : write_out();
}

Status Journal::write_out() {
  if (unwritten_.empty()) return {};
  auto status = io::write_exactly(
      file_, written_, reinterpret_cast<const std::byte*>(unwritten_.data()), unwritten_.size());
  if (!status) return status;
  written_ += unwritten_.size();
  unwritten_.clear();
  return {};
}

Status Journal::commit() {
  if (auto status = write_out(); !status) return status;
  return file_.sync();
}

}  // namespace penstock::external
