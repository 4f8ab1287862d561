#include "file/background_sync.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

namespace penstock::file {
namespace {

class SyncOn : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    auto opened = Engine::open({.depth = 4, .kind = GetParam()});
    if (!opened && GetParam() == EngineKind::io_uring) GTEST_SKIP() << opened.error().message();
    ASSERT_TRUE(opened);
    engine_ = std::move(*opened);
    auto file =
        File::create_temporary(std::filesystem::temp_directory_path().string(), Caching::buffered);
    ASSERT_TRUE(file);
    file_ = std::move(*file);
    auto sync = BackgroundSync::open(*engine_, file_);
    ASSERT_TRUE(sync) << sync.error().message();
    sync_ = std::move(*sync);
  }
  File file_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<BackgroundSync> sync_;  // goes before the engine
};

TEST_P(SyncOn, EndsBesideRequestsAgainAndAgain) {
  std::vector<std::byte> data(4096);
  for (int i = 0; i < 10; ++i) {
    Request request{
        .operation = Operation::write, .file = &file_, .data = data.data(), .bytes = 4096};
    ASSERT_FALSE(sync_->running());
    sync_->start();
    EXPECT_TRUE(sync_->running());
    engine_->submit(request);
    int ended = 0, written = 0;
    for (int k = 0; k < 2; ++k) {
      Request* done = engine_->wait_any();
      ASSERT_NE(done, nullptr);
      sync_->ended(done) ? ++ended : ++written;
    }
    EXPECT_EQ(ended, 1);
    EXPECT_EQ(written, 1);
    EXPECT_TRUE(sync_->status());
  }
  EXPECT_EQ(engine_->wait_any(), nullptr);
}

TEST_P(SyncOn, OneUnderWayCanBeForgotten) {
  sync_->start();
  sync_.reset();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, SyncOn,
                         ::testing::Values(EngineKind::io_uring, EngineKind::threads));

}  // namespace
}  // namespace penstock::file
