#include "io/input_guard.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/temporary_folder_fixture.h"

namespace penstock::io {
namespace {

namespace fs = std::filesystem;

class InputGuardTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ / name; }
  static void put(const fs::path& to, const std::string& text) {
    fs::create_directories(to.parent_path());
    std::ofstream(to) << text;
  }
  static struct stat look(const std::string& name) {
    struct stat status = {};
    EXPECT_EQ(::stat(name.c_str(), &status), 0) << name;
    return status;
  }

  const TemporaryFolder vanishing_;
  const fs::path folder_ = vanishing_.path();
};

// A disk as shown by /sys: folders below the disk's own, which the links in dev/block lead to.
class Disks : public InputGuardTest {
 protected:
  const uint64_t disk = makedev(8, 0), first = makedev(8, 1), second = makedev(8, 2);
  const uint64_t loop = makedev(7, 0), again = makedev(7, 1), other = makedev(7, 2);
  const uint64_t in_loop = makedev(259, 0), mapped = makedev(253, 0);

  Disks() {
    make("sda", disk);
    make("sda/sda1", first, "partition", "1");
    make("sda/sda2", second, "partition", "2");
    make("loop0", loop, "loop/backing_file", path("image"));
    make("loop0/loop0p1", in_loop, "partition", "1");
    make("loop1", again, "loop/backing_file", path("image"));
    make("loop2", other, "loop/backing_file", path("image2"));
    make("dm-0", mapped, "slaves/sda2/dev", "8:2");
    std::ofstream(path("image")) << "x";
    std::ofstream(path("image2")) << "x";
  }

  void make(const std::string& name, uint64_t device, const std::string& file = {},
            const std::string& text = {}) {
    const std::string number = std::to_string(major(device)) + ":" + std::to_string(minor(device));
    const fs::path at = folder_ / "sys/devices" / name;
    put(at / "dev", number + "\n");
    if (!file.empty()) put(at / file, text + "\n");
    fs::create_directories(folder_ / "sys/block");
    fs::create_symlink("../devices/" + name, folder_ / "sys/block" / number);
  }

  bool meet(const Layer& one, const Layer& two) const {
    const std::string block_devices = path("sys/block");
    const auto above = layers_of(one, block_devices), below = layers_of(two, block_devices);
    EXPECT_EQ(overlap(above, below), overlap(below, above));
    return overlap(above, below);
  }
  Layer image(const std::string& name) const {
    const struct stat status = look(path(name));
    return {.device = status.st_dev, .inode = status.st_ino};
  }
};

TEST_F(Disks, PartitionsMeetTheirDiskAndNotEachOther) {
  EXPECT_TRUE(meet({disk}, {disk}));
  EXPECT_TRUE(meet({disk}, {first}));
  EXPECT_FALSE(meet({first}, {second}));
}

TEST_F(Disks, MappedDevicesMeetTheDevicesBelow) {
  EXPECT_TRUE(meet({mapped}, {second}));
  EXPECT_TRUE(meet({mapped}, {disk}));
  EXPECT_FALSE(meet({mapped}, {first}));
}

TEST_F(Disks, LoopDevicesMeetTheirFileAndEachOther) {
  EXPECT_TRUE(meet({loop}, image("image")));
  EXPECT_TRUE(meet({in_loop}, image("image")));
  EXPECT_TRUE(meet({loop}, {again}));
  EXPECT_TRUE(meet({in_loop}, {again}));
  EXPECT_TRUE(meet({in_loop}, {loop}));
  EXPECT_FALSE(meet({loop}, {other}));
  EXPECT_FALSE(meet({loop}, image("image2")));
}

TEST_F(InputGuardTest, AFileIsMetByAnyOfItsNames) {
  put(path("one"), "1");
  put(path("two"), "2");
  fs::create_hard_link(path("one"), path("link"));
  InputGuard inputs;
  inputs.add(path("one"));
  inputs.add(path("nothing"));
  EXPECT_FALSE(inputs.check_apart(look(path("link")), "link"));
  EXPECT_TRUE(inputs.check_apart(look(path("two")), "two"));
  EXPECT_TRUE(inputs.contains(look(path("link"))));
  EXPECT_FALSE(inputs.contains(look(path("two"))));
  EXPECT_TRUE(inputs.check_replaceable(look(path("one")), "one"));
}

TEST_F(InputGuardTest, AnInputThatChangesIsKnown) {
  for (const bool in_place : {true, false}) {
    put(path("one"), "1");
    InputGuard inputs;
    auto file = File::open_read(path("one"));
    ASSERT_TRUE(file && inputs.add(*file));
    EXPECT_FALSE(inputs.changed());
    if (in_place) {
      std::ofstream(path("one"), std::ios::app) << "more";
    } else {
      put(path("new"), "1");
      fs::rename(path("new"), path("one"));
    }
    EXPECT_EQ(inputs.changed(), path("one")) << in_place;
  }
}

}  // namespace
}  // namespace penstock::io
