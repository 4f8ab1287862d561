#include "report/text.h"

#include <gtest/gtest.h>

#include <string>

namespace penstock::report {
namespace {

TEST(HtmlEscaped, LeavesNothingThatActs) {
  EXPECT_EQ(html_escaped("<script>alert(\"1\" + '2' & 3)</script>"),
            "&lt;script&gt;alert(&quot;1&quot; + &#39;2&#39; &amp; 3)&lt;/script&gt;");
}

TEST(Numbers, AreReadable) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.00 KiB");
  EXPECT_EQ(bytes_text(1.5 * 1024 * 1024), "1.50 MiB");
  EXPECT_EQ(bytes_text(1024.0 * 1024 * 1024 - 1), "1.00 GiB");
  EXPECT_EQ(rate_text(2.5e9), "2.50 GB/s");
  EXPECT_EQ(duration_text(0), "0 ns");
  EXPECT_EQ(duration_text(0.0015), "1.50 ms");
  EXPECT_EQ(duration_text(65), "65.0 s");
  EXPECT_EQ(duration_text(601), "10:01 min");
  EXPECT_EQ(duration_text(3600 + 5 * 60 + 7), "1:05:07");
  EXPECT_EQ(share_text(1, 0), "-");
  EXPECT_EQ(share_text(1, 1000), "< 1 %");
  EXPECT_EQ(share_text(1, 4), "25 %");
}

TEST(Base64, OfItsDefinition) {
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
