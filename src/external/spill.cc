#include "external/spill.h"

#include "base/bits.h"

namespace penstock::external {

Result<std::unique_ptr<Spill>> Spill::open(const std::vector<std::string>& directories) {
  auto spill = std::make_unique<Spill>();
  for (const std::string& directory : directories) {
    auto file = file::File::create_temporary(directory);
    if (!file) return std::unexpected(file.error());
    spill->name_ += (spill->name_.empty() ? "" : ", ") + directory;
    spill->parts_.push_back(std::make_unique<Part>());
    spill->parts_.back()->file = std::move(*file);
  }
  return spill;
}

stream::Extent Spill::place(uint32_t bytes) noexcept {
  uint32_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
  Part& part = *parts_[turn % parts_.size()];
  uint64_t space = round_up(bytes, file::sector_bytes);
  uint64_t offset = part.end.fetch_add(space, std::memory_order_relaxed);
  placed_bytes_.fetch_add(space, std::memory_order_relaxed);
  return {&part.file, offset, bytes};
}

void Spill::discard(const std::vector<stream::Extent>& extents) {
  for (const stream::Extent& extent : extents) {
    for (auto& part : parts_) {
      // Failing to punch a hole only keeps the space until the file is closed.
      if (&part->file == extent.file) {
        (void)part->file.discard(extent.offset, round_up(extent.bytes, file::sector_bytes));
      }
    }
  }
}

Result<std::unique_ptr<BucketExtents>> BucketExtents::open(Spill& spill, uint32_t buckets,
                                                           uint64_t extents_max) {
  std::unique_ptr<BucketExtents> table(new BucketExtents(spill));
  uint64_t bytes = round_up(extents_max * sizeof(Entry), os::page_bytes);
  auto memory = os::Reservation::reserve(bytes, os::page_bytes);
  if (!memory) return std::unexpected(memory.error());
  table->table_ = std::move(*memory);
  if (int error = os::commit(table->table_.begin(), bytes); error != 0) {
    return system_error(error, "commit the table of extents", "temporaries");
  }
  table->capacity_ = extents_max;
  for (uint32_t bucket = 0; bucket < buckets; ++bucket) {
    table->sinks_.push_back(std::make_unique<BucketSink>(*table));
  }
  return table;
}

stream::Extent BucketExtents::BucketSink::place(uint64_t, uint32_t bytes) noexcept {
  if (owner_.used_ == owner_.capacity_) return {};
  stream::Extent extent = owner_.spill_.place(bytes);
  uint64_t entry = owner_.used_++;
  owner_.entries()[entry] = {extent, 0};
  if (last_plus_one != 0) {
    owner_.entries()[last_plus_one - 1].next_plus_one = entry + 1;
  } else {
    first_plus_one = entry + 1;
  }
  last_plus_one = entry + 1;
  return extent;
}

std::vector<stream::Extent> BucketExtents::extents(uint32_t bucket) const {
  std::vector<stream::Extent> list;
  for (uint64_t at = sinks_[bucket]->first_plus_one; at != 0;
       at = entries()[at - 1].next_plus_one) {
    list.push_back(entries()[at - 1].extent);
  }
  return list;
}

}  // namespace penstock::external
