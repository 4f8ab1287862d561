#pragma once

// Keeps a run from destroying its inputs.
//
// Comparing names is not enough, because a disk has many: links, nodes, the partitions on it, loop
// devices over its files, mapped devices over all of these. So each file or device is followed down
// through all layers that it lies on, as /sys tells them. An output that is written in place (not
// replaced by a new file) is refused if it lies on an input, or an input lies on it.
//
//   /dev/loop0p1 -> /dev/loop0 -> the file behind it -> the disk's partition -> the disk
//
// Two things side by side on a third, such as two partitions of one disk, are not refused. But two
// loop devices over one file may show the same bytes, and are refused.

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

// A layer: a block device, or (inode != 0) a file on one.
struct Layer {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t above = 0;  // the loop device that shows a file
};

// Returns the layers that a device or a file lies on, itself first. `block_devices`: the system's.
inline constexpr const char* system_block_devices = "/sys/dev/block";
std::vector<Layer> layers_of(const Layer& top,
                             const std::string& block_devices = system_block_devices);
// Returns whether the two can share bytes. REQUIRES: both are from layers_of().
bool overlap(const std::vector<Layer>& one, const std::vector<Layer>& other);

// The inputs of a run. Thread safety: const members from any thread.
class InputGuard {
 public:
  // Adds an opened input, before any of it is read.
  Status add(const File& input);
  // Adds an input by its name, or "-". A missing file is reported by the code that opens it.
  void add(const std::string& path);

  // Fails if writing to this would change an input. `path` is for the message.
  Status check_apart(const struct stat& output, const std::string& path) const;
  // Fails if an input lies on this file, because replacing it would take the input's name away.
  Status check_replaceable(const struct stat& output, const std::string& path) const;
  // Returns whether the file is an input that was opened, or that an input's name leads to by now.
  bool contains(const struct stat& file) const;
  // Returns an input whose name leads to another file than the opened one, or to other contents.
  // (Devices and pipes cannot be compared.)
  std::optional<std::string> changed() const;

 private:
  class Layers;
  struct Input {
    std::string path;
    struct stat status;
  };
  std::vector<Input> inputs_;
};

}  // namespace penstock::io
