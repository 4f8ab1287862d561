// This is the fault path, but for open() and the end: nothing allocates, and nothing locks what the
// consumer could hold.

#include "stream/cached_reader.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>

#include "base/bits.h"
#include "file/engine.h"
#include "os/file_pages.h"

namespace penstock::stream {
namespace {

// A reader that goes from front to back gets pieces of half the memory: the larger, the fewer faults and calls (with pieces of 8 MiB a sum of 1 GiB
// takes 7 % more processor time than by one mapping, with 32 MiB 3 %). Two are needed to read across an edge.
uint64_t piece_bytes_of(const CachedReader::Options& options) {
  return std::bit_floor(std::max(1u, options.memory_blocks / 2)) * options.block_bytes;
}

// One that reads at three places in turn would have a fault and two calls for each look: after so many
// returns pieces are single blocks.
constexpr uint32_t returns_max = 8;

}  // namespace

CachedReader::CachedReader(const file::File& file, uint64_t bytes, const Options& options)
    : file_(file),
      options_(options),
      bytes_(bytes),
      pages_end_(round_down(bytes, uint64_t{os::page_bytes})),
      piece_bytes_(piece_bytes_of(options)),
      pieces_max_(std::max<size_t>(2, options.memory_blocks * options.block_bytes / piece_bytes_)) {
}

Result<std::unique_ptr<CachedReader>> CachedReader::open(const file::File& file, uint64_t bytes,
                                                         const Options& options) {
  std::unique_ptr<CachedReader> reader(new CachedReader(file, bytes, options));
  const uint64_t block_end = round_up(bytes, options.block_bytes);
  auto range = os::Reservation::reserve(block_end + options.block_bytes);
  if (!range) return std::unexpected(range.error());
  reader->range_ = std::move(*range);
  {
    MutexLock lock(reader->mutex_);
    reader->pieces_.reserve(std::max<size_t>(reader->pieces_max_, options.memory_blocks) + 1);
  }
  std::byte* const begin = reader->range_.begin();
  // Some file systems have no mappings: better to know it now.
  int error = os::show_file(file.buffered_descriptor(), 0, begin, os::page_bytes);
  if (error == 0) error = os::decommit(begin, os::page_bytes);
  if (error != 0) return failure(ErrorCode::unsupported, "map", file.path());
  // Behind the last whole page a mapping would show what others append to the file.
  const uint64_t pages_end = reader->pages_end_;
  error = os::commit(begin + pages_end, block_end + os::page_bytes - pages_end);
  if (error != 0) return system_error(error, "map a page", file.path());
  if (Status read = file::read_exactly(file, pages_end, begin + pages_end, bytes - pages_end);
      !read)
    return std::unexpected(read.error());
  auto registration =
      fault::Registration::add(reader->range_.begin(), reader->range_.bytes(), *reader);
  if (!registration) return std::unexpected(registration.error());
  reader->registration_ = std::move(*registration);
  return reader;
}

CachedReader::~CachedReader() {
  registration_ = {};
}

size_t CachedReader::bytes_of(uint64_t piece) const {
  return std::min<uint64_t>(piece_bytes_, pages_end_ - piece * piece_bytes_);
}

fault::Outcome CachedReader::on_fault(const fault::Fault& fault) noexcept {
  Refusal refusal;
  const Served served = serve(fault.address, true, refusal);
  if (served == Served::refused) give_up(refusal.failure, fault.context);
  return served == Served::no ? fault::Outcome::decline : fault::Outcome::retry;
}

CachedReader::Served CachedReader::serve(const std::byte* address, bool faults,
                                         Refusal& refusal) noexcept {
  MutexLock lock(mutex_);
  const auto offset = static_cast<uint64_t>(address - range_.begin());
  if (offset >= round_up(bytes_, os::page_bytes)) {
    std::snprintf(refusal.text, sizeof refusal.text,
                  "serve the consumer in block %llu: the data end at %llu bytes",
                  static_cast<unsigned long long>(offset / options_.block_bytes),
                  static_cast<unsigned long long>(bytes_));
    refusal.failure = {ErrorCode::invalid_argument, refusal.text, file_.path().c_str(), 0};
    return Served::refused;
  }
  if (offset >= pages_end_) return Served::yes;  // the last bytes, which are memory
  uint64_t number = offset / piece_bytes_;
  const auto found = std::ranges::find(pieces_, number, &Piece::number);
  if (found == pieces_.end()) {
    if (goes_back_often(number)) {
      show_blocks();
      number = offset / piece_bytes_;
    }
    return show(number, refusal);
  }
  if (faults && ++found->idle_faults > idle_faults_max) return Served::no;
  // What a call is about to use is not the next to go.
  if (!faults) std::rotate(found, found + 1, pieces_.end());
  return look_again(faults ? *found : pieces_.back(), address, refusal);
}

// In a piece that is not mapped.
bool CachedReader::goes_back_often(uint64_t piece) noexcept {
  const bool goes_on = piece >= next_ || piece == last_ + 1;
  next_ = std::max(next_, piece + 1);
  last_ = piece;
  return !goes_on && piece_bytes_ > options_.block_bytes && ++returns_ > returns_max;
}

// From now on pieces are blocks.
void CachedReader::show_blocks() noexcept {
  while (!pieces_.empty()) drop_first();
  piece_bytes_ = options_.block_bytes;
  pieces_max_ = std::max<size_t>(2, options_.memory_blocks);
}

// In a piece that is mapped: another thread has done it meanwhile, or the page cannot be read.
CachedReader::Served CachedReader::look_again(Piece& piece, const std::byte* address,
                                              Refusal& refusal) noexcept {
  const auto offset =
      round_down(static_cast<uint64_t>(address - range_.begin()), uint64_t{os::page_bytes});
  std::byte* const page = range_.begin() + offset;
  if (os::populate_read(page, os::page_bytes) == 0) return Served::yes;
  const auto bytes_now = file_.size();
  if (bytes_now && *bytes_now <= offset) {
    note(ErrorCode::corrupt, 0, "read to the end, the file is shorter than it was:", offset);
  } else {
    note(ErrorCode::io, EIO, "read", offset);
  }
  std::byte* const end = begin_of(piece.number) + bytes_of(piece.number);
  if (options_.policy == ErrorPolicy::zeros &&
      os::commit(page, static_cast<size_t>(end - page)) == 0)
    return Served::yes;
  refusal.failure = failure_;
  return Served::refused;
}

CachedReader::Served CachedReader::show(uint64_t piece, Refusal& refusal) noexcept {
  while (pieces_.size() >= pieces_max_) drop_first();
  std::byte* const at = begin_of(piece);
  const size_t bytes = bytes_of(piece);
  int error = 0;
  if (!failed_) {
    error = os::show_file(file_.buffered_descriptor(), piece * piece_bytes_, at, bytes);
    if (error != 0)
      note(error == ENOMEM ? ErrorCode::out_of_mappings : ErrorCode::io, error, "map",
           piece * piece_bytes_);
  }
  if (failed_) error = options_.policy == ErrorPolicy::zeros ? os::commit(at, bytes) : EIO;
  if (error == 0) {
    pieces_.push_back({piece});
    return Served::yes;
  }
  refusal.failure = failure_;
  return Served::refused;
}

void CachedReader::drop_first() noexcept {
  const uint64_t piece = pieces_.front().number;
  (void)os::decommit(begin_of(piece), bytes_of(piece));
  pieces_.erase(pieces_.begin());
  std::byte* lowest = begin_of(piece) + bytes_of(piece);
  for (const Piece& other : pieces_) lowest = std::min(lowest, begin_of(other.number));
  const std::span<std::byte> tables = passed_.pass(range_.begin(), lowest);
  if (!tables.empty()) (void)os::decommit(tables.data(), tables.size());
}

void CachedReader::note(ErrorCode code, int system_errno, const char* what,
                        uint64_t offset) noexcept {
  if (failed_) return;
  failed_ = true;
  std::snprintf(attempted_, sizeof attempted_, "%s at offset %llu", what,
                static_cast<unsigned long long>(offset));
  failure_ = {code, attempted_, file_.path().c_str(), system_errno};
}

Status CachedReader::status() const {
  if (is_inherited()) return {};
  MutexLock lock(mutex_);
  if (!failed_) return {};
  return std::unexpected(
      Error{failure_.code, failure_.attempted, failure_.subject, failure_.system_errno});
}

// What is mapped the kernel reads by itself.
Result<size_t> CachedReader::prepare(std::byte* address, size_t bytes, fault::Access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  const auto offset = static_cast<uint64_t>(address - range_.begin());
  const uint64_t zeros_end = round_up(bytes_, options_.block_bytes) + os::page_bytes;
  uint64_t end = 0;
  for (uint64_t piece_bytes = 0; piece_bytes != piece_bytes_;) {
    piece_bytes = piece_bytes_;
    // Two pieces, as a system call may be given what reaches from one into the next.
    end = std::min({offset + bytes, (offset / piece_bytes + 2) * piece_bytes, zeros_end});
    for (uint64_t at = offset; at == offset || at < std::min(end, bytes_);
         at = (at / piece_bytes + 1) * piece_bytes) {
      if (at >= bytes_ && at < zeros_end) break;
      Refusal refusal;
      if (serve(range_.begin() + at, false, refusal) == Served::refused) {
        const Failure& why = refusal.failure;
        return std::unexpected(Error{why.code, why.attempted, why.subject, why.system_errno});
      }
    }
  }
  if (auto fine = status(); !fine) return std::unexpected(std::move(fine.error()));
  return end - offset;
}

}  // namespace penstock::stream
