#include "trace/replay/background_sync.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <vector>

#include "io/engine_fixture.h"

namespace penstock::trace {
namespace {

class SyncOn : public io::EngineFixture {
 protected:
  void SetUp() override {
    io::EngineFixture::SetUp();
    if (engine_ == nullptr) return;
    auto file = io::File::create_temporary(std::filesystem::temp_directory_path().string(),
                                           io::Caching::buffered);
    ASSERT_TRUE(file);
    file_ = std::move(*file);
    auto sync = BackgroundSync::open(*engine_, file_);
    ASSERT_TRUE(sync) << sync.error().message();
    sync_ = std::move(*sync);
  }
  void TearDown() override {
    sync_.reset();
    engine_.reset();  // waits for requests in flight
  }
  io::File file_;
  std::unique_ptr<BackgroundSync> sync_;
};

TEST_P(SyncOn, EndsRepeatedlyBesideRequests) {
  std::vector<std::byte> data(4096);
  for (int i = 0; i < 10; ++i) {
    io::Request request{
        .operation = io::Operation::write, .file = &file_, .data = data.data(), .bytes = 4096};
    ASSERT_FALSE(sync_->running());
    sync_->start();
    EXPECT_TRUE(sync_->running());
    engine_->submit(request);
    expect_both_ends(request, [&](io::Request* done) { return sync_->ended(done); });
    EXPECT_TRUE(sync_->status());
  }
  EXPECT_EQ(engine_->wait_any(), nullptr);
}

// /dev/null, which cannot be synced, takes the place of the file's descriptor.
TEST_P(SyncOn, AFailureIsReportedAndTheNextSyncRuns) {
  const int fd = file_.buffered_descriptor();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  const int real = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  ASSERT_TRUE(null >= 0 && real >= 0);
  for (const bool fails : {true, false}) {
    ASSERT_EQ(::dup3(fails ? null : real, fd, O_CLOEXEC), fd);
    sync_->start();
    ASSERT_TRUE(sync_->ended(engine_->wait_any()));
    EXPECT_EQ(sync_->status().has_value(), !fails);
    if (fails && !sync_->status()) {
      EXPECT_EQ(sync_->status().error().system_errno, EINVAL);
    }
  }
  ::close(null);
  ::close(real);
}

TEST_P(SyncOn, ASyncUnderWayCanBeDestroyed) {
  sync_->start();
  sync_.reset();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, SyncOn, io::engine_kinds());

}  // namespace
}  // namespace penstock::trace
