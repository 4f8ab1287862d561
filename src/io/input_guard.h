#pragma once

// Keeps a run from destroying what it reads.
//
// The naive way compares names. But a disk has many: links, nodes, the partitions on it, loop
// devices over its files, mapped devices over all of these. So each thing is followed down to all
// that it lies on, as /sys tells it, and whatever is written as it is (not replaced by a new file)
// is refused when it lies on an input, or an input on it.
//
//   /dev/loop0p1 -> /dev/loop0 -> the file behind it -> the disk's partition -> the disk
//
// Two things beside each other on a third, such as two partitions of one disk, are not refused. But
// two loop devices over one file may show the same bytes, and are.

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/file.h"
#include "penstock/base.h"

namespace penstock::io {

// A block device, or (inode != 0) a file on one.
struct Layer {
  uint64_t device = 0;
  uint64_t inode = 0;
  uint64_t above = 0;  // of a file: the loop device that shows it
};

// What a device or a file lies on, itself first. `block_devices`: where the system tells.
inline constexpr const char* system_block_devices = "/sys/dev/block";
std::vector<Layer> layers_of(const Layer& top,
                             const std::string& block_devices = system_block_devices);
// Whether bytes of one can be bytes of the other. REQUIRES: both are from layers_of().
bool overlap(const std::vector<Layer>& one, const std::vector<Layer>& other);

// The inputs of a run. Thread safety: const members from any thread.
class InputGuard {
 public:
  // As it was opened, before anything of it is read.
  Status add(const File& input);
  // By its name, or "-". What is not there is left to those who open it.
  void add(const std::string& path);

  // Fails where writing to this would change an input. `path`: for the message.
  Status check_apart(const struct stat& output, const std::string& path) const;
  // Fails where an input lies on this file, so that replacing it would take the input's name away.
  Status check_replaceable(const struct stat& output, const std::string& path) const;
  // Whether it is an input: that was opened, or that an input's name leads to by now.
  bool contains(const struct stat& file) const;
  // An input whose name leads to something else than was opened, or to another content. (Of
  // devices and pipes nobody knows.)
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
