#pragma once

// Assertions of the schedule tests: all orders of a scenario are right, and a planted fault is found.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "schedules/scheduler.h"

namespace penstock::schedules {

struct Case {
  const char* name;  // FILE.SCENARIO
  void (*scenario)(Run&);
  Bounds bounds;
};
// A fault of plants.cmake, and the case that finds it.
struct Planted {
  int fault;
  const Case* found_by;
};

inline void expect_right(const Case& one) {
  const Found found = explore(one.name, one.bounds, one.scenario);
  EXPECT_FALSE(found.failure) << *found.failure;
  EXPECT_TRUE(found.is_complete);
}

// Expects the fault to be found within the case's deviations, without random orders.
inline void expect_found(int fault, const Case& by) {
  plant(fault);
  Bounds bounds = by.bounds;
  bounds.random = 0;
  const Found found = explore(by.name, bounds, by.scenario);
  plant(0);
  EXPECT_TRUE(found.failure) << "planted: " << fault;
  EXPECT_TRUE(found.repeats) << "planted: " << fault;
  if (found.failure) std::printf("%s\n", found.failure->c_str());
}

// Names for INSTANTIATE_TEST_SUITE_P.
inline std::string name_of_case(const testing::TestParamInfo<Case>& test) {
  return std::strchr(test.param.name, '.') + 1;
}
inline std::string name_of_planted(const testing::TestParamInfo<Planted>& test) {
  return std::to_string(test.param.fault);
}

}  // namespace penstock::schedules
