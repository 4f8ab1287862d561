#include "base/did_you_mean.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace penstock {
namespace {

const std::vector<std::string> columns = {"id", "customer", "price"};

TEST(DidYouMean, FindsMisspeltNames) {
  EXPECT_EQ(nearest_name("pirce", columns), "price");
  EXPECT_EQ(nearest_name("custmer", columns), "customer");
  EXPECT_EQ(did_you_mean("PRICE", columns), " (did you mean price?)");
  EXPECT_EQ(did_you_mean("unit prize", std::vector<std::string>{"unit price"}),
            " (did you mean 'unit price'?)");
}

TEST(DidYouMean, SaysNothingWithoutANearName) {
  EXPECT_EQ(nearest_name("date", columns), "");
  EXPECT_EQ(nearest_name("", columns), "");
  EXPECT_EQ(did_you_mean("quantity", columns), "");
  EXPECT_EQ(did_you_mean("x", {}), "");
}

}  // namespace
}  // namespace penstock
