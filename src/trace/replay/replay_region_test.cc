#include "trace/replay/replay_region.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/temporary_folder_fixture.h"

// Devices that a replay may overwrite.

namespace penstock::trace {
namespace {

namespace fs = std::filesystem;
using io::sector_bytes;

TEST(InUse, FindsMountsPartitionsSwapAndHolders) {
  TemporaryFolder folder;
  const std::string root = folder.path();
  for (const char* name : {"disk", "disk1", "disk2", "other", "held"}) {
    std::ofstream(folder / name) << "";
  }
  fs::create_directories(root + "/sys/class/block/disk/disk1");
  fs::create_directories(root + "/sys/class/block/disk/queue");
  std::ofstream(root + "/sys/class/block/disk/disk1/partition") << "1";
  fs::create_directories(root + "/sys/class/block/held/holders/dm-0");
  fs::create_directories(root + "/sys/class/block/other/holders");
  fs::create_directories(root + "/proc/self");
  auto mounts = [&](const std::string& text) {
    std::ofstream(root + "/proc/self/mounts") << "proc /proc proc rw 0 0\n" << text;
  };
  auto swaps = [&](const std::string& text) {
    std::ofstream(root + "/proc/swaps") << "Filename Type Size Used Priority\n" << text;
  };
  mounts("");
  swaps("");
  EXPECT_EQ(in_use(folder / "disk", root), "");
  EXPECT_EQ(in_use(folder / "other", root), "");
  EXPECT_NE(in_use(folder / "held", root), "");
  mounts((folder / "disk1") + " /data ext4 rw 0 0\n");
  EXPECT_EQ(in_use(folder / "disk", root), "disk1 is mounted");
  EXPECT_EQ(in_use(folder / "other", root), "");
  mounts((folder / "other") + " /data ext4 rw 0 0\n");
  EXPECT_EQ(in_use(folder / "other", root), "other is mounted");
  swaps((folder / "disk") + " partition 1 0 -2\n");
  EXPECT_EQ(in_use(folder / "disk", root), "disk is swapped to");
}

// A loop device, if the system permits one.
class LoopDevice {
 public:
  LoopDevice(const std::string& file, uint64_t bytes) {
    std::ofstream(file) << "";
    fs::resize_file(file, bytes);
    const int control = ::open("/dev/loop-control", O_RDWR | O_CLOEXEC);
    const int backing = ::open(file.c_str(), O_RDWR | O_CLOEXEC);
    // Another process may take the same number first.
    for (int i = 0; control >= 0 && fd_ < 0 && i < 8; ++i) {
      path_ = "/dev/loop" + std::to_string(::ioctl(control, LOOP_CTL_GET_FREE));
      fd_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
      if (fd_ >= 0 && ::ioctl(fd_, LOOP_SET_FD, backing) != 0) {
        ::close(fd_);
        fd_ = -1;
      }
    }
    ::close(backing);
    if (control >= 0) ::close(control);
  }
  ~LoopDevice() {
    if (fd_ < 0) return;
    ::ioctl(fd_, LOOP_CLR_FD);
    ::close(fd_);
  }
  LoopDevice(const LoopDevice&) = delete;
  LoopDevice& operator=(const LoopDevice&) = delete;
  bool is_there() const { return fd_ >= 0; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  int fd_ = -1;
};

TEST(Devices, ADeviceInUseIsNotOverwrittenByAnyName) {
  TemporaryFolder folder;
  const LoopDevice loop(folder / "disk", 1 << 20);
  if (!loop.is_there()) GTEST_SKIP() << "no loop devices here";
  struct stat status = {};
  ASSERT_EQ(::stat(loop.path().c_str(), &status), 0);
  const std::string other = folder / "other.node";
  if (::mknod(other.c_str(), S_IFBLK | 0600, status.st_rdev) != 0) GTEST_SKIP() << "no mknod here";
  const int probe = ::open(other.c_str(), O_RDWR | O_CLOEXEC);
  if (probe < 0) GTEST_SKIP() << "device nodes of a folder cannot be opened here";
  ::close(probe);
  // A mount claims the device like this, also in another namespace, which our tables do not show.
  const int claim = ::open(loop.path().c_str(), O_RDWR | O_EXCL | O_CLOEXEC);
  ASSERT_GE(claim, 0);
  for (const std::string& name : {loop.path(), other}) {
    const auto region = ReplayRegion::open({.device = name, .bytes = sector_bytes});
    ASSERT_FALSE(region) << name;
    EXPECT_EQ(region.error().code, ErrorCode::permission) << region.error().message();
  }
  ::close(claim);
  for (const std::string& name : {loop.path(), other}) {
    const auto region =
        ReplayRegion::open({.device = name, .bytes = sector_bytes, .buffered = true});
    EXPECT_TRUE(region) << name << ": " << region.error().message();
  }
}

TEST(InUse, FindsADeviceByItsNumber) {
  TemporaryFolder folder;
  const LoopDevice loop(folder / "disk", 1 << 20);
  if (!loop.is_there()) GTEST_SKIP() << "no loop devices here";
  struct stat status = {};
  ASSERT_EQ(::stat(loop.path().c_str(), &status), 0);
  const std::string other = folder / "other.node";
  if (::mknod(other.c_str(), S_IFBLK | 0600, status.st_rdev) != 0) GTEST_SKIP() << "no mknod here";
  fs::create_directories(folder / "proc/self");
  std::ofstream(folder / "proc/self/mounts") << other << " /data ext4 rw 0 0\n";
  EXPECT_TRUE(in_use(loop.path(), folder.path()).ends_with(" is mounted"));
}

TEST(Devices, OtherFilesAreNotOverwritten) {
  TemporaryFolder folder;
  std::ofstream(folder / "file") << "mine";
  const auto region = ReplayRegion::open({.device = folder / "file", .bytes = sector_bytes});
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(fs::file_size(folder / "file"), 4u);
}

}  // namespace
}  // namespace penstock::trace
