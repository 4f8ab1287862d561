#include "io/input_guard.h"

#include <fmt/format.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "io/names.h"

namespace penstock::io {
namespace {

bool same(const Layer& one, const Layer& other) {
  return one.device == other.device && one.inode == other.inode;
}

std::string folder_of(const std::string& block_devices, uint64_t device) {
  return fmt::format("{}/{}:{}", block_devices, major(device), minor(device));
}

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

// Reads "7:1"; returns 0 if there is no such file.
uint64_t device_in(const std::string& path) {
  unsigned int major_number = 0, minor_number = 0;
  if (std::sscanf(first_line(path).c_str(), "%u:%u", &major_number, &minor_number) != 2) return 0;
  return makedev(major_number, minor_number);
}

void follow(const Layer& layer, const std::string& block_devices, std::vector<Layer>& found) {
  const bool known = std::ranges::any_of(
      found, [&](const Layer& one) { return same(one, layer) && one.above == layer.above; });
  if (known) return;
  found.push_back(layer);
  if (layer.inode != 0) return follow({.device = layer.device}, block_devices, found);

  const std::string folder = folder_of(block_devices, layer.device);
  std::error_code error;
  if (std::filesystem::exists(folder + "/partition", error)) {
    if (const uint64_t whole = device_in(folder + "/../dev"); whole != 0)
      follow({.device = whole}, block_devices, found);
  }
  struct stat behind;
  const std::string file = first_line(folder + "/loop/backing_file");
  if (!file.empty() && ::stat(file.c_str(), &behind) == 0) {
    const bool on_device = S_ISBLK(behind.st_mode);
    follow({.device = on_device ? behind.st_rdev : behind.st_dev,
            .inode = on_device ? 0 : behind.st_ino,
            .above = layer.device},
           block_devices, found);
  }
  for (const auto& slave : std::filesystem::directory_iterator(folder + "/slaves", error)) {
    if (const uint64_t device = device_in(slave.path().string() + "/dev"); device != 0)
      follow({.device = device}, block_devices, found);
  }
}

Layer layer_of(const struct stat& status) {
  if (S_ISBLK(status.st_mode)) return {.device = status.st_rdev};
  return {.device = status.st_dev, .inode = status.st_ino};
}

bool holds_data(const struct stat& status) {
  return S_ISBLK(status.st_mode) || S_ISREG(status.st_mode);
}

bool look(const std::string& path, struct stat& status) {
  return (path == "-" ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status)) == 0;
}

bool equal(const timespec& one, const timespec& other) {
  return one.tv_sec == other.tv_sec && one.tv_nsec == other.tv_nsec;
}

}  // namespace

std::vector<Layer> layers_of(const Layer& top, const std::string& block_devices) {
  std::vector<Layer> found;
  follow(top, block_devices, found);
  return found;
}

bool overlap(const std::vector<Layer>& one, const std::vector<Layer>& other) {
  for (const Layer& a : one) {
    for (const Layer& b : other) {
      if (!same(a, b)) continue;
      if (&a == &one.front() || &b == &other.front()) return true;
      // Both lie below different loop devices that show the same file.
      if (a.above != 0 && b.above != 0 && a.above != b.above) return true;
    }
  }
  return false;
}

Status InputGuard::add(const File& input) {
  if (input.source() != nullptr) return {};
  struct stat status;
  if (::fstat(input.buffered_descriptor(), &status) != 0)
    return system_error(errno, "look at", input.path());
  if (holds_data(status)) inputs_.push_back({input.path(), status});
  return {};
}

void InputGuard::add(const std::string& path) {
  struct stat status;
  if (look(path, status) && holds_data(status)) inputs_.push_back({path, status});
}

// Layers of devices, each looked up once, because many files lie on few devices.
class InputGuard::Layers {
 public:
  std::vector<Layer> of(const struct stat& status) {
    const uint64_t device = S_ISBLK(status.st_mode) ? status.st_rdev : status.st_dev;
    auto [found, is_new] = devices_.try_emplace(device);
    if (is_new) found->second = layers_of({.device = device});
    std::vector<Layer> layers = found->second;
    if (!S_ISBLK(status.st_mode)) layers.insert(layers.begin(), layer_of(status));
    return layers;
  }

 private:
  std::map<uint64_t, std::vector<Layer>> devices_;
};

Status InputGuard::check_apart(const struct stat& output, const std::string& path) const {
  if (!holds_data(output)) return {};
  // A file shares nothing with the device that it lies on: its bytes are its own.
  std::vector<Layer> to = {layer_of(output)};
  const bool on_device = S_ISBLK(output.st_mode);
  if (on_device) to = layers_of(to.front());
  Layers layers;
  for (const Input& input : inputs_) {
    if (overlap(layers.of(input.status), to)) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("write to the same data as the input {}, by this or another name",
                                 shown_input(input.path)),
                     path == "-" ? "standard output" : path, "another place for the output");
    }
    if (on_device && S_ISBLK(input.status.st_mode) &&
        ::access(folder_of(system_block_devices, output.st_rdev).c_str(), F_OK) != 0) {
      return failure(
          ErrorCode::unsupported,
          fmt::format("find out whether it lies on the same disk as {}", shown_input(input.path)),
          path, "with /sys mounted, or another place for the output");
    }
  }
  return {};
}

Status InputGuard::check_replaceable(const struct stat& output, const std::string& path) const {
  Layers layers;
  for (const Input& input : inputs_) {
    const std::vector<Layer> from = layers.of(input.status);
    const bool below = std::any_of(from.begin() + 1, from.end(), [&](const Layer& layer) {
      return same(layer, layer_of(output));
    });
    if (below) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("replace the file that {} lies on", shown_input(input.path)), path,
                     "another name for the output");
    }
  }
  return {};
}

// A file that somebody has put in an input's place counts as an input, too: one that has changed.
bool InputGuard::contains(const struct stat& file) const {
  if (!S_ISREG(file.st_mode)) return false;
  return std::ranges::any_of(inputs_, [&](const Input& input) {
    struct stat now;
    return same(layer_of(input.status), layer_of(file)) ||
           (look(input.path, now) && same(layer_of(now), layer_of(file)));
  });
}

std::optional<std::string> InputGuard::changed() const {
  for (const Input& input : inputs_) {
    const struct stat& then = input.status;
    if (!S_ISREG(then.st_mode)) continue;
    struct stat now;
    const bool is_as_it_was = look(input.path, now) && same(layer_of(now), layer_of(then)) &&
                              now.st_size == then.st_size && equal(now.st_mtim, then.st_mtim) &&
                              equal(now.st_ctim, then.st_ctim);
    if (!is_as_it_was) return shown_input(input.path);
  }
  return std::nullopt;
}

}  // namespace penstock::io
