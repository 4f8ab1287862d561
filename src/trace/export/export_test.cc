// Test labels: one-thread

#include "trace/export/export.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>

#include "penstock/trace.h"
#include "trace/follow/script_fixture.h"

namespace penstock::trace {
namespace {

TEST(Export, NamesAreEscapedForEachFormat) {
  EXPECT_EQ(csv_string("a\"b,c"), "\"a\"\"b,c\"");
  EXPECT_EQ(json_string("a\"\\\n\x01</script>"), "\"a\\\"\\\\\\u000a\\u0001</script>\"");
  EXPECT_EQ(json_string("\xc3\xa9"), "\"\xc3\xa9\"");
  EXPECT_EQ(json_string("\xff\xc0\x80\xed\xa0\x80"),
            "\"\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
  EXPECT_EQ(iolog_name(6, "/tmp/a b:c/..\x80x y"), "00007-.._x_y");
}

TEST(Export, FormatsHaveALineForEachRequest) {
  Script script;
  const uint32_t file = script.file("/tmp/a,b", 1000);
  script.open(1, 3, file, 1000);
  script.read(1, 3, 100);
  script.write(1, 3, 200, 500);
  (void)script.convert();
  const std::string out = script.path() + ".out";
  const auto exported = [&](ExportFormat format) {
    auto trace = TraceReader::open(script.path());
    EXPECT_TRUE(trace);
    EXPECT_TRUE(export_requests(*trace, {}, format, out));
    std::string text(std::filesystem::file_size(out), ' ');
    std::FILE* from = std::fopen(out.c_str(), "rb");
    EXPECT_EQ(std::fread(text.data(), 1, text.size(), from), text.size());
    std::fclose(from);
    std::filesystem::remove(out);
    return text;
  };
  EXPECT_EQ(exported(ExportFormat::csv),
            "start_ns,latency_ns,process,thread,access,file,offset,bytes,file_seek,device_seek\r\n"
            "200,0,1,1,read,\"/tmp/a,b\",0,100,0,1\r\n"
            "300,0,1,1,write,\"/tmp/a,b\",500,200,1,1\r\n");
  EXPECT_EQ(exported(ExportFormat::iolog),
            "fio version 3 iolog\n0 00001-a_b add\n0 00001-a_b open\n0 00001-a_b read 0 100\n"
            "0 00001-a_b write 500 200\n0 00001-a_b close\n");
  const std::string json = exported(ExportFormat::perfetto);
  EXPECT_EQ(std::ranges::count(json, '\n'), 4);
  EXPECT_NE(json.find("\"ts\":0.200"), std::string::npos);
}

}  // namespace
}  // namespace penstock::trace
