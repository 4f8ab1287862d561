#include "file/alarm.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "base/random.h"

namespace penstock::file {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class AlarmOn : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    auto opened = Engine::open({.depth = 4, .kind = GetParam()});
    if (!opened && GetParam() == EngineKind::io_uring) GTEST_SKIP() << opened.error().message();
    ASSERT_TRUE(opened);
    engine_ = std::move(*opened);
    auto alarm = Alarm::open(*engine_);
    ASSERT_TRUE(alarm) << alarm.error().message();
    alarm_ = std::move(*alarm);
  }
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Alarm> alarm_;  // goes before the engine
};

TEST_P(AlarmOn, RingsAgainAndAgainAndNeverBeforeItsTime) {
  for (int i = 0; i < 20; ++i) {
    const auto time = Clock::now() + milliseconds(i % 3);
    ASSERT_FALSE(alarm_->is_set());
    alarm_->set(time);
    ASSERT_TRUE(alarm_->is_set());
    Request* done = engine_->wait_any();
    ASSERT_TRUE(alarm_->rang(done));
    EXPECT_GE(Clock::now(), time);
    EXPECT_FALSE(alarm_->is_set());
  }
  EXPECT_EQ(engine_->wait_any(), nullptr);
}

TEST_P(AlarmOn, IsToldFromTheRequestsBesideIt) {
  auto file =
      File::create_temporary(std::filesystem::temp_directory_path().string(), Caching::buffered);
  ASSERT_TRUE(file);
  std::vector<std::byte> data(4096);
  Request request{
      .operation = Operation::write, .file = &*file, .data = data.data(), .bytes = 4096};
  alarm_->set(Clock::now() + milliseconds(5));
  engine_->submit(request);
  int rung = 0, written = 0;
  for (int i = 0; i < 2; ++i) {
    Request* done = engine_->wait_any();
    ASSERT_NE(done, nullptr);
    alarm_->rang(done) ? ++rung : ++written;
  }
  EXPECT_EQ(rung, 1);
  EXPECT_EQ(written, 1);
}

TEST_P(AlarmOn, OneThatIsSetForAnHourCanBeForgotten) {
  alarm_->set(Clock::now() + std::chrono::hours(1));
  alarm_.reset();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, AlarmOn,
                         ::testing::Values(EngineKind::io_uring, EngineKind::threads));

}  // namespace
}  // namespace penstock::file
