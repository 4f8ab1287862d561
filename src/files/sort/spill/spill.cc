#include "files/sort/spill/spill.h"

#include <algorithm>
#include <filesystem>

#include "base/bits.h"
#include "base/check.h"
#include "base/thread.h"

namespace penstock::external {

Result<std::unique_ptr<Spill>> Spill::open(const std::vector<std::string>& directories,
                                           const SpillOptions& options) {
  auto spill = std::make_unique<Spill>();
  spill->block_bytes_ = options.block_bytes;
  spill->unit_bytes_ = options.dense ? io::sector_bytes : options.block_bytes;
  spill->ends_.resize(directories.size());
  spill->named_ = !options.name.empty();
  for (const std::string& directory : directories) {
    std::string path = path_of(directory, options.name, spill->files_.size());
    spill->name_ += (spill->name_.empty() ? "" : ", ") + directory;
    if (!options.wanted.empty()) {
      if (!options.wanted[spill->files_.size()]) {
        spill->files_.push_back(nullptr);
        continue;
      }
      std::error_code error;
      const bool is_there = std::filesystem::exists(path, error);
      if (error) return system_error(error.value(), "look for", path);
      if (!is_there) return failure(ErrorCode::not_found, "resume: temporaries are gone", path);
    }
    auto file = spill->named_ ? io::File::open_kept(path) : io::File::create_temporary(directory);
    if (!file) return std::unexpected(file.error());
    if (!options.dense) file->keep_checks(options.block_bytes);
    spill->files_.push_back(std::make_unique<io::File>(std::move(*file)));
  }
  return spill;
}

std::string Spill::path_of(const std::string& directory, const std::string& name, size_t number) {
  return directory + "/" + name + "." + std::to_string(number);
}

// The unused rest of a block is never written, and takes no space on the disk.
stream::Extent Spill::place(uint32_t bytes) {
  const stream::Extent extent = {files_[next_].get(), ends_[next_], bytes};
  const bool dense = unit_bytes_ != block_bytes_;
  ends_[next_] += dense ? round_up(uint64_t{bytes}, io::sector_bytes) : block_bytes_;
  next_ = (next_ + 1) % files_.size();
  PENSTOCK_CHECK(extent.offset / unit_bytes_ < ~uint32_t{0} / files_.size(),
                 "a block's number has 32 bits, which is for 16 TiB of sectors");
  if (!dense) believe(number_of(extent), 0, 0);  // the list grows here, not during the write
  return extent;
}

uint32_t Spill::check_of(uint32_t number) const {
  return files_[number % files_.size()]->checks()->block(number / files_.size()).check;
}

void Spill::believe(uint32_t number, uint32_t bytes, uint32_t check) {
  files_[number % files_.size()]->checks()->restore(
      number / files_.size(), {check, static_cast<uint32_t>(round_up(bytes, io::sector_bytes))});
}

uint32_t Spill::number_of(const stream::Extent& extent) const {
  size_t file = 0;
  while (files_[file].get() != extent.file) ++file;
  return static_cast<uint32_t>(extent.offset / unit_bytes_ * files_.size() + file);
}

Status Spill::sync() const {
  for (const auto& file : files_) {
    if (file == nullptr) continue;
    // The file is longer on the disk than the data (file.h), which a later run cannot know.
    auto bytes = file->size();
    if (!bytes) return std::unexpected(bytes.error());
    if (auto status = file->set_size(*bytes); !status) return status;
    if (auto status = file->sync(); !status) return status;
  }
  return {};
}

void Spill::remove() {
  if (!named_) return;
  std::error_code ignored;  // files that cannot be removed go with their folder
  for (const auto& file : files_) {
    if (file != nullptr) std::filesystem::remove(file->path(), ignored);
  }
}

std::string SpillSet::name_of(const SpillPlace& place, uint32_t part) {
  return place.stays() ? place.name + "." + std::to_string(part) : std::string();
}

Status SpillSet::open(const SpillPlace& place, uint32_t count, size_t block_bytes, bool dense) {
  block_bytes_ = block_bytes;
  unit_bytes_ = dense ? io::sector_bytes : block_bytes;
  directories_ = place.directories;
  for (uint32_t part = 0; part < count; ++part) {
    auto spill =
        Spill::open(place.directories,
                    {.block_bytes = block_bytes, .dense = dense, .name = name_of(place, part)});
    if (!spill) return std::unexpected(spill.error());
    parts_.push_back({std::move(*spill), 0});
    if (part == 0) name_ = parts_.front().spill->name();
  }
  return {};
}

Status SpillSet::reopen(const SpillPlace& place, const std::vector<std::vector<bool>>& wanted,
                        size_t block_bytes) {
  block_bytes_ = block_bytes;
  parts_.resize(wanted.size());
  for (uint32_t part = 0; part < wanted.size(); ++part) {
    if (std::ranges::find(wanted[part], true) == wanted[part].end()) continue;
    auto spill = Spill::open(
        place.directories,
        {.block_bytes = block_bytes, .name = name_of(place, part), .wanted = wanted[part]});
    if (!spill) return std::unexpected(spill.error());
    parts_[part].spill = std::move(*spill);
    name_ = parts_[part].spill->name();
  }
  return {};
}

uint32_t SpillSet::part_of(uint32_t bucket, uint32_t buckets) const {
  return static_cast<uint32_t>(uint64_t{bucket} * parts_.size() / buckets);
}

SpillSet::BlockLocation SpillSet::location_of(uint32_t number) const {
  return {directories_[number % directories_.size()], number / directories_.size() * unit_bytes_};
}

void SpillSet::release(uint32_t part) {
  PENSTOCK_CHECK(parts_[part].kept > 0, "a part is released as often as it is kept");
  if (--parts_[part].kept != 0) return;
  close_aside(std::move(parts_[part].spill));
}

void SpillSet::wait_until_free() {
  if (closer_.joinable()) closer_.join();
}

// Closes a part on another thread. On a file system that discards freed blocks at once (mounted
// with `discard`), closing a file of 2 GiB took half a second, and longer beside other requests:
// half of the time of a reader that waited for it. Parts are closed one at a time.
void SpillSet::close_aside(std::unique_ptr<Spill> spill) {
  spill->remove();
  wait_until_free();
  // If no thread is available, this thread closes it.
  (void)try_start_thread(closer_, [closing = std::move(spill)]() mutable { closing.reset(); });
}

Status SpillSet::sync() const {
  for (const Part& part : parts_) {
    if (part.spill == nullptr) continue;
    if (auto status = part.spill->sync(); !status) return status;
  }
  return {};
}

std::vector<stream::Extent> SpillSet::extents(uint32_t part, const std::vector<uint32_t>& blocks,
                                              uint64_t bytes, size_t extent_bytes) const {
  std::vector<stream::Extent> extents;
  extents.reserve(ceil_div(bytes, extent_bytes));
  for (uint32_t block : blocks) {
    for (size_t inside = 0; inside < block_bytes_ && bytes > 0; inside += extent_bytes) {
      auto here = static_cast<uint32_t>(std::min<uint64_t>(bytes, extent_bytes));
      stream::Extent extent = this->part(part).numbered(block, here);
      extent.offset += inside;
      extents.push_back(extent);
      bytes -= here;
    }
  }
  return extents;
}

}  // namespace penstock::external
