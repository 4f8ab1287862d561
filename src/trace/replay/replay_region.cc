#include "trace/replay/replay_region.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <utility>

#include "base/bits.h"
#include "base/random.h"
#include "io/emulation.h"
#include "io/extents.h"
#include "io/request_ring.h"
#include "penstock/base.h"

namespace penstock::trace {
namespace {

namespace fs = std::filesystem;

// Space that stays free, so that other programs can write to the disk meanwhile.
constexpr uint64_t spare_bytes = 64 * MiB;

constexpr unsigned fill_depth = 16;
constexpr size_t fill_bytes = 2 * MiB;

Error no_room(uint64_t needed_bytes, uint64_t there_bytes, const std::string& place) {
  // The numbers are rounded apart, so that they differ if the sizes do.
  return Error{ErrorCode::out_of_space,
               fmt::format("hold the trace's files, {} MiB: {} MiB are free",
                           ceil_div(needed_bytes, MiB), there_bytes / MiB),
               place};
}

// Returns the system's name of a device, regardless of the name of its node.
std::string device_name(const std::string& path, const std::string& root) {
  struct stat status = {};
  std::error_code error;
  fs::path real;
  if (::stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) {
    const std::string number = fmt::format("{}:{}", major(status.st_rdev), minor(status.st_rdev));
    real = fs::canonical(root + "/sys/dev/block/" + number, error);
    if (error) return number;
  } else {
    real = fs::canonical(path, error);
  }
  return error ? "" : real.filename().string();
}

// Returns the first words of the lines of one of the system's tables, which are devices.
std::vector<std::string> first_words(const std::string& path) {
  std::vector<std::string> words;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) words.push_back(line.substr(0, line.find(' ')));
  return words;
}

// Turns the emulated device off during its lifetime.
class OnTheRealDevice {
 public:
  OnTheRealDevice() : emulated_(io::emulated()) {
    if (emulated_) io::emulate(std::nullopt);
  }
  ~OnTheRealDevice() {
    if (emulated_) io::emulate(emulated_);
  }
  OnTheRealDevice(const OnTheRealDevice&) = delete;
  OnTheRealDevice& operator=(const OnTheRealDevice&) = delete;

 private:
  const std::optional<io::EmulatedDevice> emulated_;
};

}  // namespace

Result<ReplayBuffers> ReplayBuffers::make(unsigned buffers, size_t buffer_bytes) {
  ReplayBuffers made;
  auto memory = os::huge_buffer(buffers * buffer_bytes, "buffers");
  if (!memory) return std::unexpected(memory.error());
  made.memory_ = std::move(*memory);
  made.buffer_bytes_ = buffer_bytes;
  made.random_.resize(buffers);
  return made;
}

void ReplayBuffers::renew(unsigned buffer, size_t bytes) {
  std::byte* const data = at(buffer);
  if (!random_[buffer]) {
    Random random(buffer + 1);
    for (size_t i = 0; i < buffer_bytes_; i += sizeof(uint64_t)) {
      const uint64_t word = random.next();
      std::memcpy(data + i, &word, sizeof word);
    }
    random_[buffer] = true;
  }
  for (size_t i = 0; i + sizeof(uint64_t) <= bytes; i += io::sector_bytes) {
    const uint64_t word = mix64(++sectors_);
    std::memcpy(data + i, &word, sizeof word);
  }
}

std::string in_use(const std::string& device, const std::string& root) {
  const std::string name = device_name(device, root);
  if (name.empty()) return "";
  std::error_code error;
  std::vector<std::string> parts = {name};
  const fs::path folder = fs::path(root + "/sys/class/block") / name;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string entry = at->path().filename().string();
    std::error_code ignored;
    if (entry.starts_with(name) && fs::exists(at->path() / "partition", ignored)) {
      parts.push_back(entry);
    }
  }
  for (const std::string& part : parts) {
    const fs::path holders = fs::path(root + "/sys/class/block") / part / "holders";
    std::error_code ignored;
    if (fs::exists(holders, ignored) && !fs::is_empty(holders, ignored)) {
      return part + " is part of another device (" + holders.string() + ")";
    }
  }
  for (const char* table : {"/proc/self/mounts", "/proc/swaps"}) {
    for (const std::string& source : first_words(root + table)) {
      if (!source.starts_with('/')) continue;
      const std::string used = device_name(source, root);
      if (std::ranges::find(parts, used) != parts.end()) {
        return fmt::format("{} is {}", used,
                           std::string_view(table).ends_with("swaps") ? "swapped to" : "mounted");
      }
    }
  }
  return "";
}

Result<ReplayRegion> ReplayRegion::open(const ReplayRegionOptions& options) {
  ReplayRegion region;
  region.bytes_ = options.bytes;
  const bool on_device = !options.device.empty();
  region.place_ = on_device ? options.device : options.directory;
  const auto caching = options.buffered ? io::Caching::buffered : io::Caching::direct;

  if (on_device) {
    std::error_code error;
    if (!fs::is_block_file(options.device, error)) {
      return failure(ErrorCode::invalid_argument, "overwrite this: it is no block device",
                     options.device, "a directory, without --overwrite-device");
    }
    if (const std::string why = in_use(options.device); !why.empty()) {
      return failure(ErrorCode::permission, "overwrite this device: " + why, options.device,
                     "a device that nothing uses");
    }
    // create_output() opens an existing device as it is, and exclusively. The message of in_use() is
    // better, but it sees only what this process can see.
    auto device = io::File::create_output(
        options.device,
        {.caching = caching, .rules = {.overwrite_device = true}, .bytes = options.bytes});
    if (!device) return std::unexpected(device.error());
    auto bytes = device->size();
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes < options.bytes)
      return std::unexpected(no_room(options.bytes, *bytes, options.device));
    region.file_ = std::move(*device);
    region.pieces_ = Pieces{.count = 1};
  } else {
    auto space = io::space_of(options.directory);
    if (!space) return std::unexpected(space.error());
    if (space->free_bytes < spare_bytes || space->free_bytes - spare_bytes < options.bytes)
      return std::unexpected(
          no_room(options.bytes + spare_bytes, space->free_bytes, options.directory));
    auto file = io::File::create_temporary(options.directory, caching);
    if (!file) return std::unexpected(file.error());
    region.file_ = std::move(*file);
  }
  if (!options.buffered && region.file_.caching() != io::Caching::direct) {
    return failure(ErrorCode::unsupported, "read and write past the page cache", region.place_,
                   "a directory on a disk, or --buffered");
  }
  if (!on_device && options.bytes != 0) {
    if (Status reserved = region.file_.preallocate(options.bytes); !reserved) {
      return std::unexpected(reserved.error());
    }
    // A file system that cannot reserve space makes a sparse file of that size.
    auto bytes = region.file_.size();
    if (!bytes) return std::unexpected(bytes.error());
    if (*bytes < options.bytes) {
      if (Status made = region.file_.set_size(options.bytes); !made) {
        return std::unexpected(made.error());
      }
    }
    if (auto extents = io::extents_of(region.file_); extents && !extents->empty()) {
      region.pieces_ = Pieces{.count = extents->size(), .begin = extents->front().place};
    }
  }
  return region;
}

Status ReplayRegion::fill(const std::atomic<bool>* cancel, const ReplayProgress& progress) {
  const OnTheRealDevice real;
  auto buffers = ReplayBuffers::make(fill_depth, fill_bytes);
  if (!buffers) return std::unexpected(buffers.error());
  io::RequestRing ring;  // destroyed first: waits for its requests
  if (Status opened = ring.open({.depth = fill_depth}); !opened) return opened;
  for (uint64_t submitted = 0, done = 0; done < bytes_;) {
    if (submitted < bytes_ && !ring.full()) {
      const auto buffer = static_cast<unsigned>(submitted / fill_bytes % fill_depth);
      const uint64_t bytes = std::min<uint64_t>(fill_bytes, bytes_ - submitted);
      buffers->renew(buffer, bytes);
      ring.submit({.operation = io::Operation::write,
                   .file = &file_,
                   .offset = submitted,
                   .data = buffers->at(buffer),
                   .bytes = bytes});
      submitted += bytes;
      continue;
    }
    done += ring.wait_oldest().bytes;
    if (Status status = ring.status(); !status) return status;
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed))  // guards no other data
      return failure(ErrorCode::interrupted, "fill the region of the replay", place_);
    if (progress) progress(done, bytes_);
  }
  if (Status synced = file_.sync(); !synced) return synced;
  filled_ = true;
  return {};
}

}  // namespace penstock::trace
