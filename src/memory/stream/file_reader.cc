// How a FileReaderCore works.
//
// Code that wants a pointer to a file can use mmap(), but then the page cache takes what memory
// there is, reads are small and synchronous, and an I/O error is a SIGBUS. Reading the file into a
// buffer first needs as much memory as the file.
//
// Here the pointer leads into a reserved range in which only a window of blocks is mapped at any
// time:
//
//        released      | comeback |  y  |   read-ahead, at home    | not started
//     ---------------+----------+-----+--------------------------+-------------
//                     mapped      the consumer's last fault
//
// A fault in block y is the only event. It moves the window to [y - comeback, y + read_ahead]:
// blocks outside are released, reads of missing ones inside are started, and then the fault waits
// for block y alone. Mapped blocks inside stay mapped. Because only the window counts, a jump,
// forward or back, needs no code of its own.
//
// That is for many readers that share a pool: a block that one does not need is free for the
// others. A reader that has the pool for itself (keeps_blocks) releases nothing. When it needs
// memory, it recycles the block that was in the window of a fault longest ago, unless it is in the
// window of this one. Only faults are seen, so even a block in constant use is recycled and read
// again.
//
// Several threads. The lock is held while a fault is served, including the wait for the disk: other
// reads are in flight by then, and loads without a fault need no lock. A block may be unmapped
// while others read it. They fault, wait for the lock, and have it read again; so the bytes are
// always right, and memory for too few windows is only slow. A thread that waited for the lock may
// find its block mapped.
//
// Invariants: slots_ contains each block that has memory once; a slot is mapped, or reading, or
// (after an error) empty. All blocks of slots_ belong to this reader and return to the pool in
// drop() only. A block that could not be unmapped is stuck: it may be inaccessible where it is, and
// a later access to it is refused. A released block is not visible any more: a shared pool that
// unmaps late has to flush first, or a consumer that comes back would see another block's bytes.
//
// This is the fault path: nothing allocates (slots_ has room for all blocks of the pool), and
// nothing takes a lock that the consumer could hold: mutex_ is private to this class.

#include "memory/stream/file_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>

#include "base/bits.h"
#include "base/check.h"
#include "memory/stream/sides.h"

namespace penstock::stream {
Result<std::unique_ptr<FileReaderCore>> FileReaderCore::open_range(
    std::unique_ptr<FileReaderCore> reader, uint64_t blocks, const Options& options) {
  if (options.read_ahead_blocks == 0) {
    return failure(ErrorCode::invalid_argument, "read without read-ahead", "FileReader",
                   "1 or more");
  }
  reader->options_ = options;
  // One extra block for the page of zeros behind the end.
  auto range = reader->io_.pool().reserve((blocks + 1) * reader->block_bytes_);
  if (!range) return std::unexpected(range.error());
  reader->range_ = std::move(*range);
  reader->begin_ = reader->range_.begin();
  reader->blocks_ = blocks;
  {
    MutexLock lock(reader->mutex_);
    reader->slots_.reserve(reader->io_.pool().blocks_max());
    if (options.keeps_blocks) reader->was_read_.resize(ceil_div(blocks, uint64_t{64}));
  }
  if (int error = reader->add_zero_page(); error != 0)
    return system_error(error, "map a page", "FileReader");
  if (auto watched = reader->watch(reader->range_.begin(), reader->range_.bytes()); !watched)
    return std::unexpected(std::move(watched.error()));
  return reader;
}

Result<std::unique_ptr<FileReaderCore>> FileReaderCore::open(BlockIo& io, const io::File& file,
                                                             uint64_t offset, uint64_t bytes,
                                                             const Options& options) {
  if (!file.seekable()) {
    return failure(ErrorCode::unsupported, "read a stream as a file", file.path(), "SourceStream");
  }
  std::unique_ptr<FileReaderCore> reader(new FileReaderCore(io));
  const uint64_t head_bytes = bytes == 0 ? 0 : offset % io::sector_bytes;
  reader->file_ = &file;
  reader->file_offset_ = offset - head_bytes;
  reader->range_bytes_ = head_bytes + bytes;
  const uint64_t blocks = ceil_div(reader->range_bytes_, reader->block_bytes_);
  auto opened = open_range(std::move(reader), blocks, options);
  if (opened) {
    (*opened)->begin_ += head_bytes;
    (*opened)->bytes_ = bytes;
  }
  return opened;
}

Result<std::unique_ptr<FileReaderCore>> FileReaderCore::open(BlockIo& io,
                                                             std::vector<Extent> extents,
                                                             const Options& options) {
  std::unique_ptr<FileReaderCore> reader(new FileReaderCore(io));
  for (size_t i = 0; i < extents.size(); ++i) {
    const uint64_t bytes = extents[i].bytes;
    const bool last = i + 1 == extents.size();
    if (bytes > reader->block_bytes_ || bytes == 0 || (!last && bytes != reader->block_bytes_)) {
      return failure(ErrorCode::invalid_argument, "read extents that are no whole blocks",
                     extents[i].file->path());
    }
    reader->range_bytes_ += bytes;
  }
  const uint64_t blocks = extents.size();
  reader->extents_ = std::move(extents);
  reader->bytes_ = reader->range_bytes_;
  return open_range(std::move(reader), blocks, options);
}

FileReaderCore::~FileReaderCore() {
  stop_watching();
  if (is_inherited()) return;  // the requests in flight are the parent's
  MutexLock lock(mutex_);
  // No thread reads any more: blocks go home without mprotect(), which the system may refuse.
  options_.keeps_blocks = false;
  while (!slots_.empty()) {
    // A block that cannot be unmapped is lost with its range: the pool has one less.
    if (!drop(slots_.back())) slots_.pop_back();
  }
  io_.pool().release(range_);
}

fault::Outcome FileReaderCore::on_fault(const fault::Fault& fault) noexcept {
  const auto block = static_cast<uint64_t>(fault.address - range_.begin()) / block_bytes_;
  WrittenFailure refusal(subject());
  const Served served = serve(block, refusal);
  if (served == Served::refused) give_up(refusal, fault.context);
  return served == Served::no ? fault::Outcome::decline : fault::Outcome::retry;
}

FileReaderCore::Served FileReaderCore::serve(uint64_t block, WrittenFailure& refusal) noexcept {
  MutexLock lock(mutex_);
  return serve_locked(block, refusal);
}

FileReaderCore::Served FileReaderCore::refuse_failed(WrittenFailure& refusal) noexcept {
  refusal = *failed_;
  return Served::refused;
}

FileReaderCore::Served FileReaderCore::serve_locked(uint64_t block,
                                                    WrittenFailure& refusal) noexcept {
  if (Slot* slot = find(block); slot != nullptr && slot->mapped) {
    if (slot->stuck == 0) return ++slot->idle_faults > idle_faults_max ? Served::no : Served::yes;
    note(code_of_errno(slot->stuck), slot->stuck, extent_of(block), "make accessible again");
    return refuse_failed(refusal);
  }
  if (failed_ && options_.policy != ErrorPolicy::zeros) return refuse_failed(refusal);
  if (block >= blocks_) {
    refusal.write(
        ErrorCode::invalid_argument, "serve the consumer in block %llu: the data end at %llu bytes",
        static_cast<unsigned long long>(block), static_cast<unsigned long long>(range_bytes_));
    return Served::refused;
  }
  ++faults_;
  const std::byte* const passed = passed_by_consumer_.load(std::memory_order_relaxed);
  const uint64_t passed_blocks =
      passed == nullptr ? 0 : static_cast<uint64_t>(passed - range_.begin()) / block_bytes_;
  const uint64_t first = block - std::min<uint64_t>(block, options_.comeback_blocks);
  const Window window{std::min(std::max(first, passed_blocks), block),
                      block + options_.read_ahead_blocks};
  if (options_.keeps_blocks) {
    touch(window);
  } else {
    drop_outside(window);
  }
  if (slot_for(block, window) == nullptr) {
    note(ErrorCode::out_of_memory, 0, extent_of(block), "find a free block to read");
    return refuse_failed(refusal);  // zeros would need a block, too
  }
  read_ahead(block, window);
  Slot& wanted = *find(block);
  const size_t valid_bytes = wait_for(wanted);
  if (failed_ && options_.policy != ErrorPolicy::zeros) return refuse_failed(refusal);
  return show(wanted, valid_bytes, refusal);
}

// Returns the file's name for messages.
const char* FileReaderCore::subject() const noexcept {
  const io::File* const file = extents_.empty() ? file_ : extents_.front().file;
  return file == nullptr ? "FileReader" : file->path().c_str();
}

Extent FileReaderCore::extent_of(uint64_t block) const noexcept {
  if (!extents_.empty()) return extents_[block];
  const uint64_t start = block * block_bytes_;
  const uint64_t bytes = std::min<uint64_t>(block_bytes_, range_bytes_ - start);
  return {file_, file_offset_ + start, static_cast<uint32_t>(bytes)};
}

FileReaderCore::Slot* FileReaderCore::find(uint64_t block) noexcept {
  auto found = std::find_if(slots_.begin(), slots_.end(),
                            [&](const Slot& slot) { return slot.block == block; });
  return found == slots_.end() ? nullptr : &*found;
}

FileReaderCore::Slot* FileReaderCore::slot_for(uint64_t block, const Window& window) noexcept {
  if (Slot* slot = find(block)) return slot;
  pool::BlockId id = io_.take();
  if (id == pool::no_block) id = recycle(window);
  if (id == pool::no_block) id = sacrifice(block);
  return id == pool::no_block ? nullptr : add(block, id);
}

// Adds a slot for the block and starts its read, unless an error has ended reading. Whole sectors
// are requested, so that the end of a file is read directly.
FileReaderCore::Slot* FileReaderCore::add(uint64_t block, pool::BlockId id) noexcept {
  PENSTOCK_CHECK(slots_.size() < slots_.capacity(), "a reader has more blocks than its pool");
  slots_.push_back({block, id, false, !failed_, faults_});
  if (!failed_) {
    count(block);
    const Extent extent = extent_of(block);
    io_.read(id, *extent.file, extent.offset, round_up(extent.bytes, io::sector_bytes));
  }
  return &slots_.back();
}

// Returns the block to the pool; false if it cannot be unmapped (out of mappings, or of memory).
bool FileReaderCore::drop(Slot& slot) noexcept {
  if (slot.mapped) {
    std::byte* const at = range_.begin() + slot.block * block_bytes_;
    if (const int error = options_.keeps_blocks
                              ? io_.pool().unmap_in_use(slot.id, at, Protection::read_write)
                              : io_.pool().unmap(slot.id, at);
        error != 0) {
      slot.stuck = error;
      return false;
    }
  }
  if (slot.reading) io_.wait_read(slot.id);
  io_.give(slot.id);
  slot = slots_.back();
  slots_.pop_back();
  return true;
}

// Marks the window's blocks that have memory as just wanted.
void FileReaderCore::touch(const Window& window) noexcept {
  for (Slot& slot : slots_) {
    if (window.holds(slot.block)) slot.wanted_at = faults_;
  }
}

void FileReaderCore::drop_outside(const Window& window) noexcept {
  bool dropped = false;
  for (size_t i = 0; i < slots_.size();) {
    if (window.holds(slots_[i].block) || !drop(slots_[i])) {
      ++i;
    } else {
      dropped = true;
    }
  }
  if (dropped) (void)io_.pool().flush_unmaps();

  // A consumer that comes back maps blocks there again.
  std::byte* lowest = range_.begin() + window.first * block_bytes_;
  for (const Slot& slot : slots_)
    lowest = std::min(lowest, range_.begin() + slot.block * block_bytes_);
  const std::span<std::byte> tables = passed_.pass(range_.begin(), lowest);
  if (!tables.empty()) (void)io_.pool().free_page_tables(tables);
}

// Returns the memory of the block that was wanted longest ago; with keeps_blocks only.
pool::BlockId FileReaderCore::recycle(const Window& window) noexcept {
  if (!options_.keeps_blocks) return pool::no_block;
  Slot* oldest = nullptr;
  for (Slot& slot : slots_) {
    if (window.holds(slot.block)) continue;
    if (oldest == nullptr || slot.wanted_at < oldest->wanted_at) oldest = &slot;
  }
  if (oldest == nullptr) return pool::no_block;
  const uint64_t block = oldest->block;
  if (!drop(*oldest)) return pool::no_block;
  (void)io_.pool().flush_unmaps();
  free_page_tables_of(block);
  return io_.take();
}

// Frees the page tables of the piece (see page_tables.h) around `block` if it has no mapped block.
void FileReaderCore::free_page_tables_of(uint64_t block) noexcept {
  constexpr uint64_t piece_bytes = pool::PassedPageTables::piece_bytes;
  const auto address = reinterpret_cast<uintptr_t>(range_.begin()) + block * block_bytes_;
  std::byte* const begin = reinterpret_cast<std::byte*>(round_down(address, piece_bytes));
  std::byte* const end = begin + piece_bytes;
  if (begin < range_.begin() || end > range_.begin() + blocks_ * block_bytes_) return;
  for (const Slot& slot : slots_) {
    const std::byte* const at = range_.begin() + slot.block * block_bytes_;
    if (slot.mapped && at >= begin && at < end) return;
  }
  (void)io_.pool().free_page_tables({begin, end});
}

// Called when the pool is empty. Returns the memory of this reader's least urgent block: first
// read-ahead, the farthest first, then blocks that the consumer has seen.
pool::BlockId FileReaderCore::sacrifice(uint64_t wanted) noexcept {
  if (slots_.empty()) return pool::no_block;
  auto distance = [&](const Slot& slot) {
    return slot.block > wanted ? slot.block - wanted : wanted - slot.block;
  };
  auto less_urgent = [&](const Slot& a, const Slot& b) {
    if (a.mapped != b.mapped) return a.mapped;
    return distance(a) < distance(b);
  };
  if (!drop(*std::max_element(slots_.begin(), slots_.end(), less_urgent))) return pool::no_block;
  (void)io_.pool().flush_unmaps();
  return io_.take();
}

// Starts reads ahead as far as free blocks allow; it never waits for one.
void FileReaderCore::read_ahead(uint64_t block, const Window& window) noexcept {
  const uint64_t last = std::min(block + options_.read_ahead_blocks, blocks_ - 1);
  for (uint64_t ahead = block + 1; ahead <= last && !failed_; ++ahead) {
    if (find(ahead) != nullptr) continue;
    pool::BlockId id = io_.pool().take();
    if (id == pool::no_block) id = recycle(window);
    if (id == pool::no_block) return;
    add(ahead, id);
  }
}

// Waits for the slot's read and returns how many bytes of the block are data. Notes errors.
size_t FileReaderCore::wait_for(Slot& slot) noexcept {
  if (!slot.reading) return 0;
  const int64_t arrived = io_.wait_read(slot.id);
  slot.reading = false;
  if (failed_) return 0;  // it was in flight when the first error came
  const Extent extent = extent_of(slot.block);
  if (arrived < 0) {
    const int error = static_cast<int>(-arrived);
    if (error == io::damaged) {
      note(ErrorCode::corrupt, 0, extent, "trust a temporary that is not what was written: read");
    } else {
      note(code_of_errno(error), error, extent, "read");
    }
  } else if (static_cast<uint64_t>(arrived) < extent.bytes) {
    note(ErrorCode::corrupt, 0, extent, "read to the end, the file is shorter than it was:");
  }
  return failed_ ? 0 : std::min<size_t>(static_cast<size_t>(arrived), extent.bytes);
}

FileReaderCore::Served FileReaderCore::show(Slot& slot, size_t valid_bytes,
                                            WrittenFailure& refusal) noexcept {
  std::memset(io_.pool().home(slot.id) + valid_bytes, 0, block_bytes_ - valid_bytes);
  const int error = io_.pool().map(slot.id, range_.begin() + slot.block * block_bytes_);
  slot.mapped = error == 0;
  if (slot.mapped) return Served::yes;
  const bool out_of_mappings = error == ENOMEM;
  note(out_of_mappings ? ErrorCode::out_of_mappings : ErrorCode::io, error, extent_of(slot.block),
       "map");
  return refuse_failed(refusal);
}

// Counts a read of the block.
void FileReaderCore::count(uint64_t block) noexcept {
  if (was_read_.empty()) return;
  uint64_t& word = was_read_[block / 64];
  const uint64_t bit = uint64_t{1} << block % 64;
  ++reads_.blocks;
  if ((word & bit) != 0) ++reads_.again;
  word |= bit;
}

FileReaderCore::Reads FileReaderCore::reads() const {
  MutexLock lock(mutex_);
  return reads_;
}

int FileReaderCore::add_zero_page() noexcept {
  return os::commit(range_.begin() + blocks_ * block_bytes_, os::page_bytes);
}

void FileReaderCore::note(ErrorCode code, int system_errno, const Extent& extent,
                          const char* what) noexcept {
  if (failed_) return;
  failed_.emplace(extent.file->path().c_str());
  failed_->system_errno = system_errno;
  failed_->write(code, "%s %u bytes at offset %llu", what, extent.bytes,
                 static_cast<unsigned long long>(extent.offset));
}

Status FileReaderCore::status() const {
  if (is_inherited()) return {};
  MutexLock lock(mutex_);
  if (!failed_) return {};
  return std::unexpected(failed_->error());
}

Result<size_t> FileReaderCore::prepare(std::byte* address, size_t bytes, fault::Access) {
  if (auto owned = check_owned("prepare memory"); !owned) return std::unexpected(owned.error());
  const stream::Window window{range_, block_bytes_, Position{options_.comeback_blocks}};
  const size_t fits = window.fitting(address, bytes);
  for (const Position block : window.blocks_of(address, fits).each()) {
    WrittenFailure refusal(subject());
    if (serve(static_cast<uint64_t>(block), refusal) == Served::refused)
      return std::unexpected(refusal.error());
  }
  if (auto fine = status(); !fine) return std::unexpected(std::move(fine.error()));
  return fits;
}

void FileReaderCore::prepare(const void* address, size_t bytes) {
  if (is_inherited()) refuse_inherited(address);
  if (bytes == 0) return;
  const stream::Window window{range_, block_bytes_, Position{options_.comeback_blocks}};
  for (const Position block : window.blocks_of(address, bytes).each()) {
    WrittenFailure refusal(subject());
    if (serve(static_cast<uint64_t>(block), refusal) == Served::refused) give_up(refusal, nullptr);
  }
}

}  // namespace penstock::stream
