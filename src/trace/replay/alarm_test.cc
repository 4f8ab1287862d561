#include "trace/replay/alarm.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <vector>

#include "io/engine_fixture.h"

namespace penstock::trace {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class AlarmOn : public io::EngineFixture {
 protected:
  void SetUp() override {
    io::EngineFixture::SetUp();
    if (engine_ == nullptr) return;
    auto alarm = Alarm::open(*engine_);
    ASSERT_TRUE(alarm) << alarm.error().message();
    alarm_ = std::move(*alarm);
  }
  std::unique_ptr<Alarm> alarm_;  // destroyed before the engine
};

TEST_P(AlarmOn, RingsRepeatedlyAndNeverEarly) {
  for (int i = 0; i < 20; ++i) {
    const auto time = Clock::now() + milliseconds(i % 3);
    ASSERT_FALSE(alarm_->is_set());
    alarm_->set(time);
    ASSERT_TRUE(alarm_->is_set());
    io::Request* done = engine_->wait_any();
    ASSERT_TRUE(alarm_->rang(done));
    EXPECT_GE(Clock::now(), time);
    EXPECT_FALSE(alarm_->is_set());
  }
  EXPECT_EQ(engine_->wait_any(), nullptr);
}

TEST_P(AlarmOn, DiffersFromOtherRequests) {
  auto file = io::File::create_temporary(std::filesystem::temp_directory_path().string(),
                                         io::Caching::buffered);
  ASSERT_TRUE(file);
  std::vector<std::byte> data(4096);
  io::Request request{
      .operation = io::Operation::write, .file = &*file, .data = data.data(), .bytes = 4096};
  alarm_->set(Clock::now() + milliseconds(5));
  engine_->submit(request);
  expect_both_ends(request, [&](io::Request* done) { return alarm_->rang(done); });
}

TEST_P(AlarmOn, AnAlarmInAnHourCanBeDestroyed) {
  alarm_->set(Clock::now() + std::chrono::hours(1));
  alarm_.reset();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Engines, AlarmOn, io::engine_kinds());

}  // namespace
}  // namespace penstock::trace
