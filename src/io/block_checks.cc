#include "io/block_checks.h"

#include <algorithm>

#include "base/check.h"
#include "io/crc32c.h"
#include "penstock/base.h"

// A block's check is the XOR of its pieces' checks, each as if zeros followed the piece to the
// block's end. So pieces may be written, and may come back, in any order and size; and the check of
// two merged blocks follows from theirs, without reading the data.

namespace penstock::io {
namespace {

// Defaults without a given size: a list of 1 KiB for each file, which is little beside its
// descriptors. Small files have a block for each sector, so that it is checked before it is used.
constexpr size_t few_blocks = 128;
constexpr uint64_t few_block_bytes = 4 * KiB;
constexpr uint64_t few_block_bytes_max = 2 * GiB;
// Most partial reads of blocks that were never read to their end.
constexpr size_t parts_max = 1 << 16;

}  // namespace

BlockChecks::BlockChecks(size_t block_bytes)
    : grows_(block_bytes != 0), block_bytes_(grows_ ? block_bytes : few_block_bytes) {
  if (!grows_) blocks_.reserve(few_blocks);
}

BlockChecks::Block& BlockChecks::at(uint64_t number) {
  if (number >= blocks_.capacity()) blocks_.reserve(number + number / 4 + 4);
  if (number >= blocks_.size()) blocks_.resize(number + 1);
  return blocks_[number];
}

void BlockChecks::make_fewer() {
  for (size_t i = 0; i < blocks_.size(); i += 2) {
    const Block left = blocks_[i];
    const Block right = i + 1 < blocks_.size() ? blocks_[i + 1] : Block{};
    blocks_[i / 2] = {crc32c_moved(left.check, block_bytes_) ^ right.check,
                      left.bytes + right.bytes};
  }
  blocks_.resize((blocks_.size() + 1) / 2);
  block_bytes_ *= 2;
  parts_.clear();
}

void BlockChecks::wrote(uint64_t offset, const std::byte* data, size_t bytes) {
  MutexLock lock(mutex_);
  for (const uint64_t end = offset + bytes; offset < end;) {
    while (!grows_ && offset / block_bytes_ >= few_blocks && block_bytes_ < few_block_bytes_max)
      make_fewer();
    const uint64_t block_end = (offset / block_bytes_ + 1) * block_bytes_;
    const size_t here = std::min(end, block_end) - offset;
    Block& block = at(offset / block_bytes_);
    block.check ^= crc32c_moved(crc32c(data, here), block_end - offset - here);
    block.bytes += static_cast<uint32_t>(here);
    offset += here;
    data += here;
  }
}

// Returns the end of a block's written bytes in the file.
uint64_t BlockChecks::end_of(uint64_t number) const {
  return number * block_bytes_ + (number < blocks_.size() ? blocks_[number].bytes : 0);
}

// Returns the id of a partial read; 0 if the range is the whole block, or empty.
uint32_t BlockChecks::id_of(uint64_t number, uint64_t begin, uint64_t end) {
  if (begin >= end || (begin == number * block_bytes_ && end == end_of(number))) return 0;
  if (parts_.size() >= parts_max) parts_.clear();
  auto [part, last] = parts_.equal_range(number);
  auto mine = last;
  bool goes_on = false;
  while (part != last) {
    if (part->second.next == begin) {
      goes_on = true;
      mine = part++;
    } else if (part->second.begin < end && begin < part->second.next) {
      part = parts_.erase(part);
    } else {
      ++part;
    }
  }
  if (!goes_on)
    mine = parts_.emplace(number, PartialRead{.id = ++last_id_, .begin = begin, .next = begin});
  mine->second.next = end;
  return mine->second.id;
}

// Adds bytes to a partial read. If it is gone, its bytes were read again.
bool BlockChecks::arrived(uint64_t number, uint32_t id, uint64_t bytes, uint32_t check) {
  uint64_t whole_bytes = 0;
  uint32_t whole_check = 0;
  auto [part, last] = parts_.equal_range(number);
  for (; part != last; ++part) {
    PartialRead& one = part->second;
    if (one.id == id) {
      one.arrived_bytes += bytes;
      one.check ^= check;
    }
    if (one.arrived_bytes != one.next - one.begin) continue;
    whole_bytes += one.arrived_bytes;
    whole_check ^= one.check;
  }
  if (whole_bytes != blocks_[number].bytes) return true;
  parts_.erase(number);
  return compare(number, whole_check);
}

BlockChecks::PartialReadIds BlockChecks::begin_read(uint64_t offset, size_t bytes) noexcept {
  if (bytes == 0) return {};
  MutexLock lock(mutex_);
  const uint64_t first = offset / block_bytes_;
  const uint64_t last = (offset + bytes - 1) / block_bytes_;
  auto id_in = [&](uint64_t number) REQUIRES_LOCK(mutex_) {
    return id_of(number, std::max(offset, number * block_bytes_),
                 std::min(offset + bytes, end_of(number)));
  };
  PartialReadIds ids;
  ids.first = id_in(first);
  ids.last = last == first ? ids.first : id_in(last);
  return ids;
}

bool BlockChecks::compare(uint64_t number, uint32_t check) {
  if (check == blocks_[number].check) return true;
  if (!damage_) damage_ = {number * block_bytes_, blocks_[number].bytes};
  return false;
}

bool BlockChecks::end_read(uint64_t offset, const std::byte* data, size_t bytes,
                           const PartialReadIds& ids) noexcept {
  MutexLock lock(mutex_);
  const uint64_t first = offset / block_bytes_;
  bool fine = true;
  for (uint64_t at = offset; at < offset + bytes;) {
    const uint64_t number = at / block_bytes_;
    const uint64_t start = number * block_bytes_;
    const uint64_t end = std::min(offset + bytes, end_of(number));
    if (at < end) {
      const bool whole = at == start && end == end_of(number);
      const uint32_t id = number == first ? ids.first : ids.last;
      if (whole || id != 0) {
        const uint32_t check =
            crc32c_moved(crc32c(data + (at - offset), end - at), start + block_bytes_ - end);
        fine &= whole ? compare(number, check) : arrived(number, id, end - at, check);
      }
    }
    at = start + block_bytes_;
  }
  return fine;
}

BlockChecks::Block BlockChecks::block(uint64_t number) const {
  MutexLock lock(mutex_);
  return number < blocks_.size() ? blocks_[number] : Block{};
}

void BlockChecks::restore(uint64_t number, const Block& block) {
  MutexLock lock(mutex_);
  at(number) = block;
}

std::optional<BlockChecks::Damage> BlockChecks::damage() const {
  MutexLock lock(mutex_);
  return damage_;
}

}  // namespace penstock::io
