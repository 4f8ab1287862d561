#include <gtest/gtest.h>

#include <string>

#include "trace/report/advice.h"
#include "trace/report/terminal.h"

namespace penstock::report {
namespace {

using trace::CallKind;
using trace::Conversion;

// A program of ten seconds that reads and writes two files in order, in large pieces, and computes for
// half of its time.
Conversion good_trace() {
  Conversion trace;
  trace.files.resize(2);
  trace.files[0].path = "/data/in";
  trace.files[1].path = "/data/log";
  trace.requests = 2000;
  trace.reads = trace.writes = 1000;
  trace.read_bytes = trace.written_bytes = 1000 * MiB;
  trace.calls.of(CallKind::read) = {1000, 2'500'000'000};
  trace.calls.of(CallKind::write) = {1000, 2'500'000'000};
  trace.files[0].calls.of(CallKind::read) = {1000, 2'500'000'000};
  trace.files[1].calls.of(CallKind::write) = {1000, 2'500'000'000};
  trace.busy_ns = 5'000'000'000;
  trace.whole_ns = 10'000'000'000;
  return trace;
}

std::string only_advice_on(const Conversion& trace) {
  const std::vector<Advice> all = advice_on(trace);
  if (all.empty()) return {};
  EXPECT_EQ(all.size(), 1u);
  return all[0].what + " | " + all[0].why;
}

TEST(TraceAdvice, GoodFiguresGiveNone) {
  EXPECT_EQ(only_advice_on(good_trace()), "");
  EXPECT_EQ(only_advice_on({}), "");
}

TEST(TraceAdvice, SyncsThatTakeTheTimeComeWithTheirFigures) {
  Conversion trace = good_trace();
  trace.written_bytes = 400 * 51;
  trace.writes = 400;
  trace.calls.of(CallKind::write) = {400, 1'000'000};
  trace.calls.of(CallKind::sync) = {400, 2'700'000'000};
  trace.files[1].calls.of(CallKind::sync) = {400, 2'700'000'000};
  trace.whole_ns = 2'930'000'000;
  trace.calls.of(CallKind::read) = {};
  EXPECT_EQ(
      only_advice_on(trace),
      "Write more per sync: sync once for many records, not for each | 400 syncs took 2.70 s, "
      "92 % of the time, for 51 B written per sync. All of it on /data/log.");
  trace.calls.of(CallKind::sync).ns = 200'000'000;  // 7 %
  EXPECT_EQ(only_advice_on(trace), "");
}

TEST(TraceAdvice, SmallCallsWantABuffer) {
  Conversion trace = good_trace();
  trace.read_bytes = 64'000'000;
  trace.calls.of(CallKind::read).calls = 1'000'000;
  trace.requests = 1'001'000;
  const std::string advice = only_advice_on(trace);
  EXPECT_TRUE(advice.starts_with("Read more per call")) << advice;
  EXPECT_NE(advice.find("64 B each; with 256 KiB each, 245 would do"), advice.npos) << advice;
}

TEST(TraceAdvice, JumpsOfADiskWantAnOrder) {
  Conversion trace = good_trace();
  trace.file_seeks = 1500;
  trace.calls.of(CallKind::write) = {};
  EXPECT_TRUE(only_advice_on(trace).starts_with("Read in the order of the file"));
  trace.calls.of(CallKind::read).calls = 1'000'000;  // each within microseconds: of the cache
  EXPECT_EQ(only_advice_on(trace), "");
}

TEST(TraceAdvice, FilesThatAreOpenedAgainAndAgainStayOpen) {
  Conversion trace = good_trace();
  trace.calls.of(CallKind::open) = {5000, 2'000'000'000};
  trace.files[0].calls.of(CallKind::open) = {5000, 2'000'000'000};
  EXPECT_TRUE(only_advice_on(trace).starts_with("Keep files open"));
  trace.calls.of(CallKind::open).calls = 3;
  EXPECT_EQ(only_advice_on(trace), "");
}

TEST(TraceAdvice, SearchesThatFindNothingComeWithTheirNames) {
  Conversion trace = good_trace();
  trace.calls.of(CallKind::failed) = {5000, 2'000'000'000};
  trace.failed_names = {{"/lib/a.so", 4000}, {"/lib/b.so", 1000}};
  EXPECT_EQ(only_advice_on(trace),
            "Look in fewer places for files that are not there | 5,000 opens and stats that failed "
            "took 2.00 s, 20 % of the time. Most often: /lib/a.so (4,000), /lib/b.so (1,000).");
  EXPECT_NE(terminal_calls(trace).find("Not found: /lib/a.so (4,000), /lib/b.so (1,000)."),
            std::string::npos);
}

TEST(TraceAdvice, MappingsAndIdleDisksAreSaid) {
  Conversion trace = good_trace();
  trace.files[0].mapped_bytes = 3 * GiB;  // some of it twice
  trace.files[0].peak_bytes = 2 * GiB;
  const std::string advice = only_advice_on(trace);
  EXPECT_NE(advice.find("2.00 GiB of /data/in are mapped"), advice.npos) << advice;
  trace = good_trace();
  trace.busy_ns = 300'000'000;
  for (trace::CallSum& sum : trace.calls) sum.ns /= 20;
  EXPECT_TRUE(only_advice_on(trace).starts_with("Look elsewhere"));
}

TEST(TerminalCalls, HaveALineForEachKind) {
  const std::string text = terminal_calls(good_trace());
  EXPECT_NE(text.find("under way for 50 % of 10.0 s"), text.npos) << text;
  EXPECT_NE(text.find("  read           1,000      2.50 s         25 %     2.50 ms\n"), text.npos)
      << text;
  EXPECT_EQ(text.find("sync"), text.npos);
  EXPECT_EQ(terminal_calls({}), "");
}

}  // namespace
}  // namespace penstock::report
