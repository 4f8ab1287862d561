#pragma once

// A fixture for tests of completions beside an engine's requests: an engine of each kind, and a
// check of its completions.

#include <gtest/gtest.h>

#include <memory>

#include "io/engine.h"

namespace penstock::io {

class EngineFixture : public testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    auto opened = Engine::open({.depth = 4, .kind = GetParam()});
    if (!opened && GetParam() == EngineKind::io_uring) GTEST_SKIP() << opened.error().message();
    ASSERT_TRUE(opened) << opened.error().message();
    engine_ = std::move(*opened);
  }
  // Expects the next two completions to be `request` and one that is_ours() accepts.
  template <class IsOurs>
  void expect_both_ends(const Request& request, IsOurs&& is_ours) {
    int ours = 0, requests = 0;
    for (int i = 0; i < 2; ++i) {
      Request* done = engine_->wait_any();
      ASSERT_NE(done, nullptr);
      if (is_ours(done)) {
        ++ours;
      } else if (done == &request) {
        ++requests;
      }
    }
    EXPECT_EQ(ours, 1);
    EXPECT_EQ(requests, 1);
    EXPECT_EQ(request.error, 0);
  }

  std::unique_ptr<Engine> engine_;
};

// The last argument of INSTANTIATE_TEST_SUITE_P.
inline auto engine_kinds() {
  return testing::Values(EngineKind::io_uring, EngineKind::threads);
}

}  // namespace penstock::io
