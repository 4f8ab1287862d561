// Test labels: ci

// Tests of the library in processes of other runtimes: each runs a small program in the other
// language and checks its end. The programs say what each case shows; README.md has the findings.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <string>

namespace {

struct Ending {
  int status = -1;
  std::string output;  // stdout and stderr

  bool killed_by(int signal) const { return WIFSIGNALED(status) && WTERMSIG(status) == signal; }
  size_t count(const std::string& text) const {
    size_t found = 0;
    for (size_t at = output.find(text); at != std::string::npos; at = output.find(text, at + 1))
      ++found;
    return found;
  }
};

void PrintTo(const Ending& ending, std::ostream* out) {
  *out << "status " << ending.status << ", output:\n" << ending.output;
}

void expect_ok(const Ending& ending) {
  EXPECT_EQ(ending.status, 0) << ending.output;
}

// Runs `command` in a shell. A program that hangs is killed, which is a failure, too.
Ending ending_of(const std::string& command) {
  const std::string bounded = "ulimit -c 0; exec timeout -s KILL 120 " + command + " 2>&1";
  Ending ending;
  FILE* const pipe = popen(bounded.c_str(), "r");
  if (pipe == nullptr) return ending;
  std::array<char, 4096> piece;
  while (const size_t bytes = fread(piece.data(), 1, piece.size(), pipe))
    ending.output.append(piece.data(), bytes);
  ending.status = pclose(pipe);
  return ending;
}

// A test without its toolchain on this machine is skipped, visibly: an empty path means "not
// found".
#ifndef GDB
#define GDB ""
#endif
#ifndef JAVA
#define JAVA ""
#define JVM_LIBRARY ""
#define JVM_SIGNAL_LIBRARY ""
#define JVM_HOST ""
#define GUEST_JNI ""
#define GUEST_CLASSES ""
#endif
#ifndef GO_PROGRAM
#define GO_PROGRAM ""
#define GO_LIBRARY ""
#define GO_HOST ""
#endif

// ---------------------------------------------------------------- CPython

Ending python(const std::string& what) {
  return ending_of(fmt::format("{} {}/guest_faulthandler.py {} {}", PYTHON, SOURCES, GUEST, what));
}

constexpr const char* traceback = "Fatal Python error: Segmentation fault";

TEST(Faulthandler, StreamsWorkWhenItWasEnabledBefore) {
  expect_ok(python("enabled_before"));
}

TEST(Faulthandler, InstallOvertakesItWhenItWasEnabledAfter) {
  expect_ok(python("enabled_after"));
}

TEST(Faulthandler, ItMayComeAndGo) {
  expect_ok(python("enabled_twice"));
}

TEST(Faulthandler, AStreamGoesOnWhenItIsEnabledMeanwhile) {
  expect_ok(python("enabled_during"));
}

TEST(Faulthandler, WithoutInstallItTakesAStreamsFaultForACrash) {
  const Ending ending = python("enabled_after_without_install");
  EXPECT_TRUE(ending.killed_by(SIGSEGV)) << testing::PrintToString(ending);
  EXPECT_EQ(ending.count(traceback), 1u) << ending.output;
}

TEST(Faulthandler, UninstallGivesTheSignalsBack) {
  expect_ok(python("uninstall_gives_back_the_default"));
}

class FaulthandlerCrash : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Orders, FaulthandlerCrash,
                         testing::Values("crash_before", "crash_after", "crash_after_uninstall"),
                         [](const auto& test) { return test.param; });

TEST_P(FaulthandlerCrash, PrintsItsTracebackOnceAndEndsWithTheSignal) {
  const Ending ending = python(GetParam());
  EXPECT_TRUE(ending.killed_by(SIGSEGV)) << testing::PrintToString(ending);
  EXPECT_EQ(ending.count(traceback), 1u) << ending.output;
  EXPECT_EQ(ending.count(" in crash\n"), 1u) << ending.output;
}

TEST(Faulthandler, WithoutItACrashEndsWithTheSignalAlone) {
  const Ending ending = python("crash_without_faulthandler");
  EXPECT_TRUE(ending.killed_by(SIGSEGV)) << testing::PrintToString(ending);
  EXPECT_EQ(ending.output, "");
}

// ---------------------------------------------------------------- a JVM

class Jvm : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(JAVA).empty()) GTEST_SKIP() << "no JDK was found when this was built";
  }
  static Ending java(const std::string& options, const std::string& what) {
    return ending_of(
        fmt::format("{} {} -cp {} Guest {} {}", JAVA, options, GUEST_CLASSES, what, GUEST_JNI));
  }
  static Ending java_with_signal_library(const std::string& what) {
    return ending_of(fmt::format("env LD_PRELOAD={} {} -Xcheck:jni -cp {} Guest {} {}",
                                 JVM_SIGNAL_LIBRARY, JAVA, GUEST_CLASSES, what, GUEST_JNI));
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, Jvm,
                         testing::Values("before_and_after", "during",
                                         "collects_while_a_native_method_waits", "java_code_reads",
                                         "java_code_reads_prepared_windows",
                                         "collection_waits_for_java_code"),
                         [](const auto& test) { return test.param; });

TEST_P(Jvm, RunsBeforeTheLibrary) {
  expect_ok(java("", GetParam()));
}

TEST_P(Jvm,
       RunsBeforeTheLibraryWithItsFirstCompilerAlone) {  // which never drops implicit null checks
  expect_ok(java("-XX:TieredStopAtLevel=1 -XX:+UseSerialGC", GetParam()));
}

TEST_P(Jvm, IsMadeAfterTheLibrary) {
  expect_ok(ending_of(
      fmt::format("{} {} {} {} {}", JVM_HOST, JVM_LIBRARY, GUEST_CLASSES, GetParam(), GUEST_JNI)));
}

using JvmChecks = Jvm;

// -Xcheck:jni only warns that its handlers no longer come first, and names the library to load.
TEST_F(JvmChecks, FindNothingButThatTheLibraryIsInFront) {
  const Ending ending = java("-Xcheck:jni", "during");
  expect_ok(ending);
  EXPECT_EQ(ending.count("Warning"), 2u) << ending.output;
  EXPECT_EQ(ending.count("Warning: SIGSEGV handler modified!"), 1u) << ending.output;
  EXPECT_EQ(ending.count("Warning: SIGBUS handler modified!"), 1u) << ending.output;
}

// The JVM's handlers stay first with libjsig, and call the library's. Native code uses streams as
// before; Java code may only use prepared windows, because the JVM takes a SIGBUS in Java code for
// its own.
TEST_F(JvmChecks, FindNothingWithTheJvmsSignalLibrary) {
  for (const char* what :
       {"during", "collects_while_a_native_method_waits", "java_code_reads_prepared_windows"}) {
    const Ending ending = java_with_signal_library(what);
    expect_ok(ending);
    EXPECT_EQ(ending.count("Warning"), 0u) << ending.output;
  }
}

// ---------------------------------------------------------------- Go

class Go : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (std::string(GO_PROGRAM).empty()) GTEST_SKIP() << "no Go was found when this was built";
  }
};

INSTANTIATE_TEST_SUITE_P(Cases, Go,
                         testing::Values("before_and_after", "during",
                                         "collects_while_a_call_waits", "go_code_reads",
                                         "go_code_reads_prepared_windows",
                                         "collection_waits_for_go_code"),
                         [](const auto& test) { return test.param; });

TEST_P(Go, RunsBeforeTheLibrary) {
  expect_ok(ending_of(fmt::format("{} {}", GO_PROGRAM, GetParam())));
}

TEST_P(Go, IsLoadedAfterTheLibrary) {
  expect_ok(ending_of(fmt::format("{} {} {}", GO_HOST, GO_LIBRARY, GetParam())));
}

// ---------------------------------------------------------------- gdb

class Gdb : public testing::Test {
 protected:
  void SetUp() override {
    if (std::string(GDB).empty()) GTEST_SKIP() << "no gdb was found when this was built";
    if (debugged("true", "").count("exited normally") == 0)
      GTEST_SKIP() << "processes may not be traced here";
  }
  static Ending debugged(const std::string& program, const std::string& before_run) {
    return ending_of(fmt::format("{} -nx -batch -x {} {} -ex run -ex backtrace {}", GDB,
                                 GDB_COMMANDS, before_run, program));
  }
};

TEST_F(Gdb, AProgramWithStreamsRunsToItsEnd) {
  const Ending ending = debugged(EXAMPLE, "");
  EXPECT_EQ(ending.count("exited normally"), 1u) << ending.output;
}

TEST_F(Gdb, ABacktraceLeadsFromTheHandlerToTheAccess) {
  const Ending ending = debugged(EXAMPLE, "-ex 'break penstock::stream::TwoSidedCore::on_fault'");
  EXPECT_EQ(ending.count("<signal handler called>"), 1u) << ending.output;
  // In main() or in its thread, whichever crashes first.
  EXPECT_GE(ending.count(" main ()") + ending.count("main::{lambda"), 1u) << ending.output;
}

TEST_F(Gdb, AFaultOutsideOfStreamsStopsAtItsCause) {
  const Ending ending = debugged(CRASH, "");
  // The function's name with and without line information.
  EXPECT_GE(ending.count("::crash (") + ending.count("::crash(int"), 1u) << ending.output;
  EXPECT_GE(ending.count("guilty"), 1u) << ending.output;
}

}  // namespace
