// How a FileWriterCore works.
//
// The producer stores through a pointer into a reserved range; blocks appear under it as it goes
// and leave behind it:
//
//       in the file, or being written  | comeback |  y  |
//     --------------------------------+----------+-----+--------------
//      0 ................ next_block_      mapped       nothing there
//
// A fault in block y hands over everything below y - comeback: each block goes home and into an
// asynchronous write, which returns it to the pool when it ends. Then a free block is mapped at y;
// if none is free, the fault waits for a write, and so a slow disk slows the producer down. The
// next fault, or finish(), reports a failed write.
//
// A fault behind next_block_ reopens the block (of a file only: a pipe cannot be read back): when
// the writes in flight have ended, it is read and mapped. It is handed over again after two others
// have been reopened, or at the end. Two, because one store may reach into two blocks.
//
// Invariants: blocks are handed over in order, and once, except for reopened ones; a block is in
// slots_ (mapped), or with BlockIo (being written), or in the pool. A block that was handed over is
// not visible any more, not even for a moment: a late store through an old view of a shared block
// would change another block.
//
// This is the fault path: nothing allocates, and nothing takes a lock that the producer could hold.

#include "memory/stream/file_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bits.h"
#include "base/check.h"
#include "io/outlet.h"
#include "memory/stream/sides.h"

namespace penstock::stream {

FileWriterCore::FileWriterCore(BlockIo& io, const io::File& file, uint64_t offset,
                               const Options& options)
    : io_(io),
      block_bytes_(io.pool().block_bytes()),
      file_(file),
      options_(options),
      head_bytes_(file.seekable() ? offset % io::sector_bytes : 0),
      file_offset_(offset - head_bytes_) {}

Result<std::unique_ptr<FileWriterCore>> FileWriterCore::open(BlockIo& io, const io::File& file,
                                                             uint64_t offset,
                                                             const Options& options) {
  std::unique_ptr<FileWriterCore> writer(new FileWriterCore(io, file, offset, options));
  // One extra block, so that a write beyond bytes_max faults here and gets a message.
  const uint64_t bytes = round_up(writer->head_bytes_ + options.bytes_max, writer->block_bytes_) +
                         writer->block_bytes_;
  auto range = io.pool().reserve(bytes);
  if (!range) return std::unexpected(range.error());
  writer->range_ = std::move(*range);
  writer->begin_ = writer->range_.begin() + writer->head_bytes_;
  writer->slots_.reserve(io.pool().blocks_max());
  if (auto watched = writer->watch(writer->range_.begin(), writer->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return writer;
}

FileWriterCore::~FileWriterCore() {
  stop_watching();
  if (is_inherited()) return;  // the requests in flight are the parent's
  for (const Slot& slot : slots_) {
    // A block that cannot be unmapped is lost with its range: the pool has one less.
    if (io_.pool().unmap(slot.id, address_of(slot.block)) == 0) io_.give(slot.id);
  }
  io_.wait_writes(&error_);
  io_.pool().release(range_);
}

FileWriterCore::Slot* FileWriterCore::find(uint64_t block) noexcept {
  auto found = std::find_if(slots_.begin(), slots_.end(),
                            [&](const Slot& slot) { return slot.block == block; });
  return found == slots_.end() ? nullptr : &*found;
}

Failure FileWriterCore::failure(int error) const noexcept {
  return {code_of_errno(error), "write", subject(), error};
}

fault::Outcome FileWriterCore::on_fault(const fault::Fault& fault) noexcept {
  const auto block = static_cast<uint64_t>(fault.address - range_.begin()) / block_bytes_;
  if (find(block) != nullptr)
    return fault::Outcome::decline;  // mapped and still a fault: not this handler's to mend
  // A store needs memory: the policy `zeros` cannot mend this.
  if (const auto refused = serve(block)) give_up(*refused, fault.context);
  return fault::Outcome::retry;
}

// Maps a block, or returns why it cannot. REQUIRES: it is not mapped.
std::optional<Failure> FileWriterCore::serve(uint64_t block) noexcept {
  const bool goes_back = block < next_block_;
  const auto refuse = [this](const char* attempted) {
    return Failure{ErrorCode::invalid_argument, attempted, subject()};
  };
  if (ended_) return refuse("store through the pointer after finish()");
  if (goes_back && !file_.seekable())
    return refuse("store before the comeback window: that block is written");
  if ((block + 1) * block_bytes_ >= range_.bytes())
    return refuse("store beyond the stream's bytes_max");
  if (!goes_back) hand_over_below(block - std::min<uint64_t>(block, options_.comeback_blocks));
  hand_over_reopened(1);
  (void)io_.pool().flush_unmaps();
  if (error_ != 0 && options_.policy != ErrorPolicy::zeros) return failure(error_);

  const pool::BlockId id = goes_back ? reopen(block) : take();
  const int error = id == pool::no_block ? ENOMEM : io_.pool().map(id, address_of(block));
  if (error == 0) {
    PENSTOCK_CHECK(slots_.size() < slots_.capacity(), "a writer has more blocks than its pool");
    slots_.push_back({block, id});
    return {};
  }
  if (id != pool::no_block) io_.give(id);
  if (error_ == 0) error_ = error;
  return failure(error);
}

Result<size_t> FileWriterCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  const Window window{range_, block_bytes_, Position{options_.comeback_blocks}};
  const size_t fits = window.fitting(address, bytes);
  for (const Position position : window.blocks_of(address, fits).each()) {
    const auto block = static_cast<uint64_t>(position);
    if (find(block) != nullptr) continue;
    if (const auto refused = serve(block)) return std::unexpected(refused->error());
  }
  if (auto fine = status(); !fine) return std::unexpected(std::move(fine.error()));
  return fits;
}

pool::BlockId FileWriterCore::take() noexcept {
  const pool::BlockId id = io_.take();
  if (id != pool::no_block) return id;
  hand_over_reopened(0);
  (void)io_.pool().flush_unmaps();
  return io_.take();
}

// Returns a block, at home, with what was written to the file before.
pool::BlockId FileWriterCore::reopen(uint64_t block) noexcept {
  const pool::BlockId id = take();
  io_.wait_writes(&error_);
  if (id == pool::no_block || error_ != 0) return id;
  io_.read(id, file_, file_offset_ + block * block_bytes_, block_bytes_);
  const int64_t arrived = io_.wait_read(id);
  if (arrived < 0) error_ = static_cast<int>(-arrived);
  return id;
}

// Hands over all but the last `keep` reopened blocks.
void FileWriterCore::hand_over_reopened(size_t keep) noexcept {
  auto is_reopened = [this](const Slot& slot) { return slot.block < next_block_; };
  for (auto count = static_cast<size_t>(std::count_if(slots_.begin(), slots_.end(), is_reopened));
       count > keep; --count) {
    hand_over(std::find_if(slots_.begin(), slots_.end(), is_reopened)->block, block_bytes_);
  }
}

void FileWriterCore::hand_over_below(uint64_t block) noexcept {
  for (; next_block_ < block; ++next_block_) hand_over(next_block_, block_bytes_);

  // A producer that comes back maps blocks there again.
  std::byte* lowest = address_of(next_block_);
  for (const Slot& slot : slots_) lowest = std::min(lowest, address_of(slot.block));
  const std::span<std::byte> tables = passed_.pass(range_.begin(), lowest);
  if (!tables.empty()) (void)io_.pool().free_page_tables(tables);
}

// Unmaps the block and returns its id, which is no longer this writer's; no_block and an errno if
// it cannot be unmapped. REQUIRES: it is mapped.
pool::BlockId FileWriterCore::bring_home(uint64_t block, int& error) noexcept {
  const Slot* slot = find(block);
  if ((error = io_.pool().unmap(slot->id, address_of(block))) != 0) return pool::no_block;
  const pool::BlockId id = slot->id;
  slots_.erase(slots_.begin() + (slot - slots_.data()));
  return id;
}

// Starts writing `bytes` from the block's start. An untouched block is written as zeros.
void FileWriterCore::hand_over(uint64_t block, size_t bytes) noexcept {
  const bool touched = find(block) != nullptr;
  int error = ENOMEM;
  pool::BlockId id = touched ? bring_home(block, error) : error_ == 0 ? io_.take() : pool::no_block;
  if (id == pool::no_block) {
    if (error_ == 0) error_ = error;
    return;
  }
  if (!touched) std::memset(io_.pool().home(id), 0, block_bytes_);
  const size_t skip = block == 0 ? head_bytes_ : 0;
  if (error_ == 0 && bytes > skip) {
    io_.write(id, file_, file_offset_ + block * block_bytes_ + skip, skip, bytes - skip, &error_);
  } else {
    io_.give(id);
  }
}

// Whether the end is within the range and not in front of what was handed over.
bool FileWriterCore::can_end_at(uint64_t bytes) const noexcept {
  return bytes <= static_cast<uint64_t>(range_.end() - begin_) - block_bytes_ &&
         bytes + head_bytes_ >= next_block_ * block_bytes_;
}

void FileWriterCore::flush(std::byte* end) {
  if (is_inherited()) refuse_inherited(end);
  if (ended_) return;
  PENSTOCK_CHECK(can_end_at(static_cast<uint64_t>(end - begin_)),
                 "a stream ends within its range, after the last block that was handed over");
  const auto bytes = static_cast<uint64_t>(end - range_.begin());
  const uint64_t whole_blocks = bytes / block_bytes_;
  hand_over_reopened(0);
  hand_over_below(whole_blocks);
  const size_t rest = bytes % block_bytes_;
  if (rest != 0) hand_over(next_block_++, rest);
  ended_ = true;
  while (!slots_.empty()) {  // touched, but behind the end
    int ignored = 0;
    const pool::BlockId id = bring_home(slots_.back().block, ignored);
    if (id == pool::no_block) return;  // the destructor tries again
    io_.give(id);
  }
}

Status FileWriterCore::finish(uint64_t bytes) {
  if (auto owned = check_owned("finish"); !owned) return std::unexpected(owned.error());
  if (!ended_ && !can_end_at(bytes)) {
    const uint64_t written = next_block_ * block_bytes_;
    return penstock::failure(
        ErrorCode::invalid_argument, fmt::format("finish at byte {}", bytes), subject(),
        fmt::format("an end from {} (what is written already) to {} (bytes_max)",
                    written - std::min<uint64_t>(written, head_bytes_), options_.bytes_max));
  }
  flush(begin_ + bytes);
  io_.wait_writes(&error_);
  return status();
}

Status FileWriterCore::status() const {
  if (error_ == 0) return {};
  if (const io::Outlet* outlet = file_.outlet()) {
    if (auto refused = outlet->error()) return std::unexpected(std::move(*refused));
  }
  return std::unexpected(failure(error_).error());
}

}  // namespace penstock::stream
