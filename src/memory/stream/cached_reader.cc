// All but open() and the destructor is the fault path: nothing allocates, and nothing takes a lock
// that the consumer could hold.

#include "memory/stream/cached_reader.h"

#include <cerrno>
#include <cstdio>

#include "base/bits.h"
#include "io/engine.h"
#include "os/file_pages.h"

namespace penstock::stream {
CachedReader::CachedReader(const io::File& file, uint64_t bytes, const Options& options)
    : file_(file),
      options_(options),
      bytes_(bytes),
      pages_end_(round_down(bytes, uint64_t{os::page_bytes})) {}

Result<std::unique_ptr<CachedReader>> CachedReader::open(const io::File& file, uint64_t bytes,
                                                         const Options& options) {
  std::unique_ptr<CachedReader> reader(new CachedReader(file, bytes, options));
  const uint64_t block_end = round_up(bytes, options.block_bytes);
  auto range = os::Reservation::reserve(block_end + options.block_bytes);
  if (!range) return std::unexpected(range.error());
  reader->range_ = std::move(*range);
  {
    MutexLock lock(reader->mutex_);
    reader->stretches_.reserve(options.memory_blocks + 1);
  }
  std::byte* const begin = reader->range_.begin();
  // Some file systems have no mappings: find out now.
  int error = os::show_file(file.buffered_descriptor(), 0, begin, os::page_bytes);
  if (error == 0) error = os::decommit(begin, os::page_bytes);
  if (error != 0) return failure(ErrorCode::unsupported, "map", file.path());
  // Behind the last whole page, a mapping would show what others append to the file.
  const uint64_t pages_end = reader->pages_end_;
  error = os::commit(begin + pages_end, block_end + os::page_bytes - pages_end);
  if (error != 0) return system_error(error, "map a page", file.path());
  if (Status read = io::read_exactly(file, pages_end, begin + pages_end, bytes - pages_end); !read)
    return std::unexpected(read.error());
  if (auto watched = reader->watch(reader->range_.begin(), reader->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return reader;
}

CachedReader::~CachedReader() {
  stop_watching();
}

fault::Outcome CachedReader::on_fault(const fault::Fault& fault) noexcept {
  WrittenFailure refusal(file_.path().c_str());
  std::span<std::byte> ahead;
  const Served served = serve(fault.address, true, refusal, ahead);
  if (served == Served::refused) give_up(refusal, fault.context);
  // A failure is harmless, such as after an unmapping: the next load faults.
  if (!ahead.empty()) (void)os::populate_read(ahead.data(), ahead.size());
  return served == Served::no ? fault::Outcome::decline : fault::Outcome::retry;
}

CachedReader::Served CachedReader::serve(const std::byte* address, bool faults,
                                         WrittenFailure& refusal,
                                         std::span<std::byte>& ahead) noexcept {
  MutexLock lock(mutex_);
  const auto offset = static_cast<uint64_t>(address - range_.begin());
  const uint64_t block = offset / options_.block_bytes;
  if (offset >= round_up(bytes_, os::page_bytes)) {
    refusal.write(ErrorCode::invalid_argument,
                  "serve the consumer in block %llu: the data end at %llu bytes",
                  static_cast<unsigned long long>(block), static_cast<unsigned long long>(bytes_));
    return Served::refused;
  }
  if (offset >= pages_end_) return Served::yes;  // the last bytes, which are memory
  const auto found = std::ranges::find_if(stretches_, [block](const MappedStretch& stretch) {
    return stretch.begin <= block && block < stretch.end;
  });
  if (found == stretches_.end()) {
    const MappedStretch next = next_at(block, faults);
    const Served served = show(next, refusal);
    if (served == Served::yes && step_blocks_ > 1)
      ahead = {begin_of(next.begin), begin_of(next.end)};
    return served;
  }
  if (faults && ++idle_faults_ > idle_faults_max) return Served::no;
  const MappedStretch stretch = *found;
  // A stretch that a system call is about to use must not be the next to go.
  if (!faults) std::rotate(found, found + 1, stretches_.end());
  return look_again(stretch, address, refusal);
}

// Chooses the blocks to map for an access to `block`, which is not mapped.
CachedReader::MappedStretch CachedReader::next_at(uint64_t block, bool faults) noexcept {
  const bool goes_on = faults && !stretches_.empty() && stretches_.back().end == block;
  step_blocks_ = goes_on ? std::min<uint64_t>(2 * step_blocks_, options_.memory_blocks - 1) : 1;
  uint64_t end = std::min(block + step_blocks_, ceil_div(pages_end_, options_.block_bytes));
  for (const MappedStretch& other : stretches_)
    if (other.begin > block) end = std::min(end, other.begin);
  return {block, end};
}

// Serves a fault in a mapped stretch: another thread mapped it, or the page cannot be read.
CachedReader::Served CachedReader::look_again(const MappedStretch& stretch,
                                              const std::byte* address,
                                              WrittenFailure& refusal) noexcept {
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
  if (options_.policy == ErrorPolicy::zeros &&
      os::commit(page, static_cast<size_t>(begin_of(stretch.end) - page)) == 0)
    return Served::yes;
  refusal = *failed_;
  return Served::refused;
}

CachedReader::Served CachedReader::show(const MappedStretch& stretch,
                                        WrittenFailure& refusal) noexcept {
  const uint64_t blocks = stretch.end - stretch.begin;
  while (shown_blocks_ + blocks > options_.memory_blocks)
    drop_first(shown_blocks_ + blocks - options_.memory_blocks);
  std::byte* const at = begin_of(stretch.begin);
  const auto bytes = static_cast<size_t>(begin_of(stretch.end) - at);
  const auto offset = static_cast<uint64_t>(at - range_.begin());
  int error = 0;
  if (!failed_) {
    error = os::show_file(file_.buffered_descriptor(), offset, at, bytes);
    if (error != 0)
      note(error == ENOMEM ? ErrorCode::out_of_mappings : ErrorCode::io, error, "map", offset);
  }
  if (failed_) error = options_.policy == ErrorPolicy::zeros ? os::commit(at, bytes) : EIO;
  if (error != 0) {
    refusal = *failed_;
    return Served::refused;
  }
  shown_blocks_ += blocks;
  idle_faults_ = 0;
  if (!stretches_.empty() && stretches_.back().end == stretch.begin)
    stretches_.back().end = stretch.end;
  else
    stretches_.push_back(stretch);
  return Served::yes;
}

// Unmaps at most `blocks` blocks of the stretch that was mapped first.
void CachedReader::drop_first(uint64_t blocks) noexcept {
  MappedStretch& first = stretches_.front();
  const uint64_t dropped = std::min(blocks, first.end - first.begin);
  std::byte* const begin = begin_of(first.begin);
  first.begin += dropped;
  shown_blocks_ -= dropped;
  std::byte* lowest = begin_of(first.begin);
  (void)os::decommit(begin, static_cast<size_t>(lowest - begin));
  if (first.begin == first.end) stretches_.erase(stretches_.begin());
  for (const MappedStretch& other : stretches_) lowest = std::min(lowest, begin_of(other.begin));
  const std::span<std::byte> tables = passed_.pass(range_.begin(), lowest);
  if (!tables.empty()) (void)os::decommit(tables.data(), tables.size());
}

void CachedReader::note(ErrorCode code, int system_errno, const char* what,
                        uint64_t offset) noexcept {
  if (failed_) return;
  failed_.emplace(file_.path().c_str());
  failed_->system_errno = system_errno;
  failed_->write(code, "%s at offset %llu", what, static_cast<unsigned long long>(offset));
}

Status CachedReader::status() const {
  if (is_inherited()) return {};
  MutexLock lock(mutex_);
  if (!failed_) return {};
  return std::unexpected(failed_->error());
}

// The kernel reads mapped pages by itself, so this only maps.
Result<size_t> CachedReader::prepare(std::byte* address, size_t bytes, fault::Access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  const auto offset = static_cast<uint64_t>(address - range_.begin());
  const uint64_t zeros_end = round_up(bytes_, options_.block_bytes) + os::page_bytes;
  // Two blocks, because a system call's buffer may reach from one into the next.
  const uint64_t end =
      std::min({offset + bytes, round_down(offset, options_.block_bytes) + 2 * options_.block_bytes,
                zeros_end});
  for (uint64_t at = offset; at == offset || at < std::min(end, bytes_);
       at = round_down(at, options_.block_bytes) + options_.block_bytes) {
    if (at >= bytes_ && at < zeros_end) break;
    WrittenFailure refusal(file_.path().c_str());
    std::span<std::byte> ahead;
    if (serve(range_.begin() + at, false, refusal, ahead) == Served::refused)
      return std::unexpected(refusal.error());
  }
  if (auto fine = status(); !fine) return std::unexpected(std::move(fine.error()));
  return end - offset;
}

}  // namespace penstock::stream
