#include "files/run/input.h"

#include <algorithm>

#include "base/mutex.h"
#include "files/bowtie/addresses.h"
#include "files/source/in_order.h"
#include "os/memory.h"

namespace penstock::files {

namespace {

// Held while a stream of unknown length finds out how many addresses are free.
Mutex opening;

// The number of addresses for a stream that could need `wanted`: all of them if little else is
// reserved, otherwise a share of the free ones, so that many streams at once each get some. (A
// stream takes two views.)
uint64_t addresses_to_take(uint64_t wanted) REQUIRES_LOCK(opening) {
  // If the limit is low (ulimit -v), `wanted` is already a part of it.
  constexpr uint64_t least = 64 * GiB;
  constexpr uint64_t alone = 6;
  constexpr uint64_t beside_others = 32;
  if (os::Reservation::reserve(alone * wanted)) return wanted;
  while (wanted > least && !os::Reservation::reserve(beside_others * wanted)) wanted /= 2;
  return wanted;
}

}  // namespace

Result<std::shared_ptr<PieceReader>> PieceReader::open_in_order(
    const io::File& file, const FilesOptions& options, size_t block_bytes,
    uint32_t read_ahead_blocks, uint32_t comeback_blocks, uint64_t bytes_max) {
  auto bytes = source::source_of(file, source::within_memory(options.source, options.memory_bytes),
                                 options.cancel);
  if (!bytes) return std::unexpected(bytes.error());
  MutexLock lock(opening);
  auto stream = SourceStream::open(std::move(*bytes), file.path(),
                                   {.block_bytes = block_bytes,
                                    .read_ahead_blocks = read_ahead_blocks,
                                    .comeback_blocks = comeback_blocks,
                                    .bytes_max = addresses_to_take(bytes_max),
                                    .policy = ErrorPolicy::recover,
                                    .strict = false});
  if (!stream) return std::unexpected(stream.error());
  return std::make_shared<PieceReader>(std::move(*stream));
}

// Blocks are prepared before they are touched: a loop that met an error in a fault would read zeros
// as keys, and keys decide where items go.
size_t PieceReader::available(const std::byte* at, size_t wanted) {
  if (!stream_) {
    const size_t bytes = std::min(wanted, static_cast<size_t>(reader_->end() - at));
    reader_->prepare(at, bytes);
    return reader_->status() ? bytes : 0;
  }
  const auto offset = static_cast<uint64_t>(at - stream_->begin());
  const Result<uint64_t> ready = stream_->wait_ready(offset + wanted - 1);
  if (!ready) return fail(ready.error());
  if (*ready <= offset) return 0;
  const size_t bytes = std::min<uint64_t>(wanted, *ready - offset);
  // A failed mapping is not an error of the stream, which could be read again.
  if (Status prepared = stream_->prepare_read(at, bytes); !prepared) return fail(prepared.error());
  return bytes;
}

namespace {

std::unexpected<Error> error_of_file(Error error, const std::string& file) {
  error.subject = file;
  return std::unexpected(std::move(error));
}

// The last line of a file may lack its end.
void end_header(const items::Format& format, std::string& header) {
  if (format.header_lines > 0 && !header.empty() && !header.ends_with(format.line_end))
    header += format.line_end;
}

}  // namespace

Result<std::string> PieceReader::take_header(const items::Format& format, const std::string& file) {
  const size_t have = available(begin_, block_bytes_);
  if (auto failed = status(); !failed) return std::unexpected(failed.error());
  const std::string_view data = items::text_at(begin_, have);
  const auto found = items::head_bytes(format, data, true);
  if (!found) return error_of_file(found.error(), file);
  const std::optional<size_t> bytes = *found;
  if (!bytes && have == block_bytes_) {
    return failure(ErrorCode::corrupt,
                   "find the end of its header in the first " + std::to_string(have) + " bytes",
                   file, "no --header, if its first line is none; or a larger -S");
  }
  std::string header(data.substr(0, bytes.value_or(have)));
  begin_ += header.size();
  offset_ += header.size();
  end_header(format, header);
  head_lines_ = static_cast<uint64_t>(std::ranges::count(header, format.line_end));
  return header;
}

std::unexpected<Error> endless_header(const std::string& file) {
  return failure(ErrorCode::corrupt, "find the end of its header", file,
                 "no --header, if its first line is none");
}

Result<TakenHeader> read_header(const items::Format& format, const std::string& file,
                                const ReadSome& read, size_t bytes_max) {
  // The first read. It is long enough for most heads, and doubles up to one byte over the limit.
  constexpr size_t look_bytes = 64 * KiB;
  std::string head;
  std::optional<size_t> bytes;
  for (bool ended = false; !bytes && !ended;) {
    if (head.size() > bytes_max) return endless_header(file);
    const size_t before = head.size();
    head.resize(std::min(before + std::max(look_bytes, before), bytes_max + 1));
    const auto have = read(std::as_writable_bytes(std::span(head)).subspan(before));
    if (!have) return std::unexpected(have.error());
    ended = *have == 0;
    head.resize(before + *have);
    const auto found = items::head_bytes(format, head, ended);
    if (!found) return error_of_file(found.error(), file);
    bytes = *found;
  }
  TakenHeader header{.is_of_nothing = head.empty(),
                     .text = head.substr(0, bytes.value_or(head.size()))};
  header.bytes = header.text.size();
  header.rest = head.substr(header.bytes);
  if (header.bytes > bytes_max) return endless_header(file);
  end_header(format, header.text);
  return header;
}

Result<TakenHeader> read_header(const items::Format& format, const io::File& file,
                                uint64_t file_bytes, size_t bytes_max) {
  uint64_t at = 0;
  const auto read = [&](std::span<std::byte> into) -> Result<size_t> {
    const size_t bytes = std::min<uint64_t>(into.size(), file_bytes - at);
    if (bytes == 0) return 0;
    if (auto status = io::read_exactly(file, at, into.data(), bytes); !status)
      return std::unexpected(status.error());
    at += bytes;
    return bytes;
  };
  return read_header(format, file.path(), read, bytes_max);
}

Status check_same_header(const items::Format& format, const std::string& header,
                         const std::string& file, const std::string& first,
                         const std::string& first_file) {
  const auto difference = items::header_difference(format, header, first, first_file);
  if (!difference) return {};
  return failure(ErrorCode::unsupported, "take files with different headers: " + *difference, file,
                 format.csv ? "--columns same or union, with sort, merge and group"
                            : "files with the same header");
}

Result<std::shared_ptr<PieceReader>> PieceReaders::open(const Piece& piece) {
  if (piece.reader) return piece.reader;
  if (piece.in_order) {
    files_.reset();
    auto reader = PieceReader::open_in_order(*piece.file, options_, shape_.block_bytes,
                                             shape_.read_ahead_blocks, shape_.comeback_blocks,
                                             bowtie::stream_address_bytes());
    if (!reader || !piece.has_header) return reader;
    const auto header = (*reader)->take_header(options_.format, piece.file->path());
    if (!header) return std::unexpected(header.error());
    if (!header->empty()) {
      auto same = check_same_header(options_.format, *header, piece.file->path(), piece.header,
                                    piece.header_file);
      if (!same) return std::unexpected(same.error());
    }
    return reader;
  }
  if (!files_) {
    auto files =
        FileIo::open(options_, shape_.block_bytes,
                     shape_.read_ahead_blocks + shape_.comeback_blocks + 1, shape_.total_bytes);
    if (!files) return std::unexpected(files.error());
    files_ = std::move(*files);
  }
  const stream::FileReaderCore::Options options{.read_ahead_blocks = shape_.read_ahead_blocks,
                                                .comeback_blocks = shape_.comeback_blocks};
  stream::BlockIo& io = files_->io();
  auto reader = piece.file != nullptr ? stream::FileReaderCore::open(io, *piece.file, piece.offset,
                                                                     piece.bytes, options)
                                      : stream::FileReaderCore::open(io, piece.extents, options);
  if (!reader) return std::unexpected(reader.error());
  return std::make_shared<PieceReader>(std::move(*reader), shape_.block_bytes, piece.offset);
}

}  // namespace penstock::files
