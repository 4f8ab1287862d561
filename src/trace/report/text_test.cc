#include "trace/report/text.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::report {
namespace {

TEST(HtmlEscaped, LeavesNothingThatActs) {
  EXPECT_EQ(html_escaped("<script>alert(\"1\" + '2' & 3)</script>"),
            "&lt;script&gt;alert(&quot;1&quot; + &#39;2&#39; &amp; 3)&lt;/script&gt;");
}

TEST(ShareText, IsAPercentage) {
  EXPECT_EQ(share_text(1, 0), "-");
  EXPECT_EQ(share_text(1, 1000), "< 1 %");
  EXPECT_EQ(share_text(1, 4), "25 %");
}

TEST(Base64, KnownAnswers) {
  auto of = [](std::string_view text) {
    return base64({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
  EXPECT_EQ(of("\xff\xfe\xfd"), "//79");
}

}  // namespace
}  // namespace penstock::report
