// Test labels: one-thread

#include "trace/import/import.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/trace.h"
#include "trace/export/export.h"
#include "trace/format/format.h"
#include "trace/import/strace_line.h"

namespace penstock::trace {
namespace {

// The conversion of a log.
struct Converted {
  Conversion conversion;
  std::vector<Request> requests;
  Error error{};  // empty without an error

  // Returns "path read 0+10" for each request.
  std::vector<std::string> request_texts() const {
    std::vector<std::string> lines;
    for (const Request& r : requests) {
      lines.push_back(fmt::format("{} {} {}+{}", conversion.files[r.file].first_path,
                                  r.access == Access::read ? "read" : "write", r.offset, r.bytes));
    }
    return lines;
  }
};

Converted convert_log(std::string_view text, LogKind kind = LogKind::detect) {
  Converted converted;
  auto trace = trace_of_text(text, kind);
  if (!trace) {
    converted.error = trace.error();
    return converted;
  }
  auto conversion = convert(*trace, {}, [&](std::span<const Request> batch) -> Status {
    converted.requests.insert(converted.requests.end(), batch.begin(), batch.end());
    return {};
  });
  if (conversion) {
    converted.conversion = std::move(*conversion);
  } else {
    converted.error = conversion.error();
  }
  return converted;
}

using Texts = std::vector<std::string>;

// ---- parts of strace's lines

TEST(StraceLine, ThreadsAndTimesOfAllOptions) {
  const auto line = [](std::string_view text) { return parse_strace_line(text).value(); };
  using Clock = StraceLine::Clock;
  StraceLine l = line("29951 1795334319.784933 read(3, \"x\", 1) = 1 <0.000008>");
  EXPECT_EQ(l.thread, 29951);
  EXPECT_EQ(l.clock, Clock::since_1970);
  EXPECT_EQ(l.time_ns, 1795334319784933000u);
  EXPECT_EQ(l.name, "read");
  l = line("[pid    12] 13:02:03.5 read(3, <unfinished ...>");
  EXPECT_EQ(l.thread, 12);
  EXPECT_EQ(l.clock, Clock::of_day);
  EXPECT_EQ(l.time_ns, (13 * 3600 + 2 * 60 + 3) * 1000000000ull + 500000000);
  EXPECT_EQ(l.kind, StraceLine::Kind::unfinished);
  EXPECT_EQ(l.text, "read(3, ");
  l = line("     0.000123 <... read resumed>\"x\", 1) = 1");
  EXPECT_EQ(l.clock, Clock::since_last);
  EXPECT_EQ(l.time_ns, 123000u);
  EXPECT_EQ(l.kind, StraceLine::Kind::resumed);
  EXPECT_EQ(line("7<a b> 1795334319 (+     0.1) [00007f12] [ 257] close(3) = 0").text,
            "close(3) = 0");
  EXPECT_EQ(line("1795334319.1 close(3) = 0").thread, 0);
  EXPECT_EQ(line("close(3) = 0").clock, Clock::none);
  EXPECT_EQ(line("12 +++ exited with 3 +++").number, 3);
  EXPECT_EQ(line("12 +++ killed by SIGKILL +++").number, 137);
  EXPECT_EQ(line("12 +++ superseded by execve in pid 14 +++").number, 14);
  EXPECT_EQ(
      line("12 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=9, si_uid=0} ---").number,
      9);
  EXPECT_EQ(line("12 read(0,  <unfinished ...>) = ?").kind, StraceLine::Kind::nothing);
  EXPECT_EQ(line("12 execve(\"/a\" <pid changed to 9 ...>").number, 9);
  for (const char* bad : {"hello", "12 hello", "(", "12 ", "0 close(3) = 0", "[pid x] close(3) = 0",
                          "99:00:00 close(3) = 0", "12 +++ exited with 999 +++", "<... read"}) {
    EXPECT_FALSE(parse_strace_line(bad) &&
                 parse_strace_line(bad)->kind != StraceLine::Kind::nothing)
        << bad;
  }
}

TEST(StraceLine, ArgumentsContainBracketsAndQuotes) {
  const auto call = parse_strace_call(
      "pwritev2(3</a \\74,\\\"b>, [{iov_base=\"a,)\\\"]\", iov_len=3}, {iov_base=\"\"..., "
      "iov_len=3}], 2, 50, 0 /* x, y) */) = 6</tmp/x>(deleted) <0.000056>");
  ASSERT_TRUE(call);
  ASSERT_EQ(call->argument_count, 5u);
  EXPECT_EQ(call->arguments[0], "3</a \\74,\\\"b>");
  EXPECT_EQ(call->arguments[2], "2");
  EXPECT_EQ(call->arguments[3], "50");
  EXPECT_EQ(call->result, 6u);
  EXPECT_EQ(call->result_annotation, "/tmp/x");
  EXPECT_EQ(call->latency_ns, 56000u);
  const auto socket = parse_strace_call("read(5<TCPv6:[[::1]:80->[::1]:1,2]>, \"\", 4) = 0");
  ASSERT_TRUE(socket);
  EXPECT_EQ(socket->argument_count, 3u);
  EXPECT_EQ(socket->latency_ns, std::nullopt);
  EXPECT_TRUE(parse_strace_call("read(5, 0x7f, 4) = -1 EBADF (Bad file) <0.1>")->failed);
  EXPECT_TRUE(parse_strace_call("read(5, 0x7f, 4) = ? ERESTARTSYS (To be restarted)")->failed);
  EXPECT_EQ(parse_strace_call("mmap(NULL, 1) = 0x7f22dabc4000")->result, 0x7f22dabc4000u);
  EXPECT_EQ(parse_strace_call("f()      = 0")->argument_count, 0u);
  for (const char* bad : {"read", "read(", "read(3", "read(3)", "read(3) =", "read(3) = x",
                          "read(\"a) = 3", "read(3<a) = 3", "read(3, [) = 3", "read(3] = 3"}) {
    EXPECT_FALSE(parse_strace_call(bad)) << bad;
  }
  EXPECT_EQ(strace_string("\"a\\n\\\"\\\\\\74\\x41\\0b\""), "a\n\"\\<A");
  EXPECT_EQ(strace_string("NULL"), std::nullopt);
  EXPECT_EQ(strace_number("-0x10"), -16);
  EXPECT_EQ(strace_number("1 "), std::nullopt);
  EXPECT_EQ(strace_descriptor("AT_FDCWD</tmp>")->annotation, "/tmp");
  EXPECT_EQ(strace_descriptor("3</dev/null<char 1:3>>")->annotation, "/dev/null<char 1:3>");
}

// ---- fio

TEST(Iolog, Version3HasTimes) {
  const Converted c = convert_log(
      "fio version 3 iolog\n"
      "0 /data/a add\n"
      "5 /data/a open\n"
      "15 /data/a read 4096 8192\n"
      "20 /data/a write 12288 4096\n"
      "21 /data/a datasync 0 0\n"
      "22 /data/a trim 0 4096\n"
      "25 /dev/sdb read 512 512\n"
      "30 /data/a close\n");
  EXPECT_EQ(c.request_texts(),
            (Texts{"/data/a read 4096+8192", "/data/a write 12288+4096", "/dev/sdb read 512+512"}));
  ASSERT_EQ(c.requests.size(), 3u);
  EXPECT_EQ(c.requests[0].start_ns, 15000u);
  EXPECT_FALSE(c.requests[1].device_seek);
  EXPECT_EQ(c.conversion.files[0].peak_bytes, 16384u);
  EXPECT_EQ(c.conversion.files[0].syncs, 1u);
  EXPECT_EQ(c.conversion.files[1].kind, FileKind::block_device);
  EXPECT_TRUE(c.conversion.complete);
  EXPECT_TRUE(c.conversion.caveats().empty());
}

TEST(Iolog, Version2HasTimesFromItsWaits) {
  const Converted c = convert_log(
      "fio version 2 iolog\r\n"
      "a b add\r\n"
      "a b open\r\n"
      "a b read 0 10\r\n"
      "a b wait 1000 0\r\n"
      "a b read read 10 10\r\n"
      "\r\n"
      "wait write 1 1\r\n");
  // A name ends before its action, whatever it contains.
  EXPECT_EQ(c.request_texts(), (Texts{"a b read 0+10", "a b read read 10+10", "wait write 1+1"}));
  ASSERT_EQ(c.requests.size(), 3u);
  EXPECT_EQ(c.requests[1].start_ns, 1000000u);
}

TEST(Iolog, BadLinesAreErrorsWithTheirNumber) {
  const auto error_of = [](const std::string& line) {
    const Converted c = convert_log("fio version 3 iolog\n1 a add\n" + line + "\n");
    EXPECT_EQ(c.error.code, ErrorCode::corrupt) << line;
    return c.error.message();
  };
  for (const char* line :
       {"a read 0 1", "2", "2 a", "2 read 0 1", "2 a read 0", "2 a frob 0 1", "2 a read -1 5",
        "2 a read 9223372036854775807 1", "2 a read 18446744073709551616 1", "x a add",
        "99999999999999999999 a add", "2 a wait 5 0", "2 add"}) {
    EXPECT_NE(error_of(line).find("line 3 "), std::string::npos) << error_of(line);
  }
  EXPECT_NE(convert_log("fio version 1 iolog\n").error.message().find("line 1 "),
            std::string::npos);
}

TEST(Iolog, LastLineWithoutItsEndIsLeftOutAndAnError) {
  // "10" may have been "1000".
  const Converted c = convert_log("fio version 3 iolog\n1 a open\n2 a read 0 10\n3 a read 10 10");
  EXPECT_EQ(c.request_texts(), Texts{"a read 0+10"});
  EXPECT_FALSE(c.conversion.complete);
  ASSERT_EQ(c.conversion.caveats().size(), 1u);
  EXPECT_NE(c.conversion.caveats()[0].find("within line 4"), std::string::npos);
}

// ---- strace

TEST(Strace, FollowsProcessesWithLinesBeforeTheEndOfTheirFork) {
  const Converted c = convert_log(
      "100 1700000010.000000 open(\"/a\", O_RDONLY) = 3 <0.000010>\n"
      "100 1700000010.000100 read(3, \"\"..., 100) = 100 <0.000020>\n"
      "100 1700000010.000200 vfork( <unfinished ...>\n"
      "101 1700000010.000300 read(3, \"\"..., 50) = 50 <0.000001>\n"
      "101 1700000010.000400 clone(child_stack=NULL, flags=CLONE_FILES|SIGCHLD <unfinished ...>\n"
      "102 1700000010.000500 open(\"/b\", O_RDWR|O_CREAT|O_TRUNC, 0666) = 4\n"
      "101 1700000010.000600 <... clone resumed>) = 102 <0.000200>\n"
      "100 1700000010.000700 <... vfork resumed>) = 101 <0.000500>\n"
      "101 1700000010.000800 write(4, \"\"..., 7) = 7 <0.000001>\n"
      "101 1700000010.000850 +++ exited with 0 +++\n"
      "100 1700000010.000900 read(3, \"\"..., 50) = 10 <0.000001>\n"
      "102 1700000010.001000 read(3,  <unfinished ...>\n"
      "100 1700000010.001100 close(3) = 0\n"
      "102 1700000010.001200 <... read resumed>\"\"..., 5) = 5\n"
      "100 1700000010.001300 +++ exited with 7 +++\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 0+100", "/a read 100+50", "/b write 0+7",
                                      "/a read 150+10", "/a read 160+5"}));
  ASSERT_EQ(c.requests.size(), 5u);
  EXPECT_EQ(c.requests[1].process, 101);
  EXPECT_EQ(c.requests[0].start_ns, 100000u);
  EXPECT_EQ(c.requests[0].latency_ns, 20000u);
  EXPECT_EQ(c.requests[4].latency_ns, 200000u);  // time from one line to the other, without -T
  EXPECT_EQ(c.conversion.exit_code, 7);
  EXPECT_EQ(c.conversion.unseen, UnseenCounts{});
}

TEST(Strace, ThreadsShareOneTableAndExecLeavesOneOfThem) {
  const Converted c = convert_log(
      "100 open(\"/a\", O_RDONLY|O_CLOEXEC) = 3\n"
      "100 clone3({flags=CLONE_VM|CLONE_FILES|CLONE_THREAD, stack=0x7f} => {parent_tid=[101]}, 88) "
      "= 101\n"
      "101 read(3, \"\", 10) = 10\n"
      "101 dup2(3, 5) = 5\n"
      "100 read(5, \"\", 10) = 10\n"
      "101 execve(\"/bin/true\", [\"true\"], 0x7f /* 1 vars */ <unfinished ...>\n"
      "100 +++ superseded by execve in pid 101 +++\n"
      "100 <... execve resumed>) = 0\n"
      "100 read(3, \"\", 10) = 10\n"
      "100 read(5, \"\", 10) = 10\n"
      "100 +++ exited with 0 +++\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 0+10", "/a read 10+10", "/a read 20+10"}));
  EXPECT_EQ(c.conversion.processes, 1u);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::unknown_descriptors)], 1u);
}

TEST(Strace, SizesComeFromCallsThatReturnedThem) {
  const Converted c = convert_log(
      "open(\"/log\", O_WRONLY|O_APPEND) = 3\n"
      "newfstatat(3, \"\", {st_mode=S_IFREG|0644, st_size=1000, ...}, AT_EMPTY_PATH) = 0\n"
      "write(3, \"\", 10) = 10\n"
      "openat(AT_FDCWD, \"/other\", O_RDWR) = 4\n"
      "lseek(4, -5, SEEK_END) = 95\n"
      "fcntl(4, F_SETFL, O_RDWR|O_APPEND) = 0\n"
      "write(4, \"\", 10) = 10\n"
      "pwrite64(4, \"\", 10, 0) = 10\n"
      "ftruncate(4, 50) = 0\n"
      "fallocate(4, 0, 40, 20) = 0\n"
      "fallocate(4, FALLOC_FL_KEEP_SIZE|FALLOC_FL_PUNCH_HOLE, 0, 4096) = 0\n"
      "write(4, \"\", 1) = 1\n"
      "open(\"/log\", O_WRONLY|O_APPEND|O_TRUNC) = 5\n"
      "write(5, \"\", 3) = 3\n");
  EXPECT_EQ(c.request_texts(),
            (Texts{"/log write 1000+10", "/other write 100+10", "/other write 110+10",
                   "/other write 60+1", "/log write 0+3"}));
  EXPECT_EQ(c.conversion.files[0].first_bytes, 1000u);
}

TEST(Strace, NamesMoveAndFilesStay) {
  const Converted c = convert_log(
      "chdir(\"/w\") = 0\n"
      "open(\"a\", O_RDWR|O_CREAT, 0600) = 3\n"
      "write(3, \"\", 10) = 10\n"
      "rename(\"a\", \"./b\") = 0\n"
      "open(\"/w/b\", O_RDONLY) = 4\n"
      "read(4, \"\", 20) = 10\n"
      "unlink(\"b\") = 0\n"
      "openat(AT_FDCWD, \"b\", O_RDWR|O_CREAT, 0600) = 5\n"
      "write(5, \"\", 1) = 1\n"
      "open(\"/\", O_RDONLY|O_DIRECTORY) = 6\n"
      "openat(6, \"w/b\", O_RDONLY) = 7\n"
      "read(7, \"\", 1) = 1\n"
      "open(\"/tmp\", O_RDWR|O_TMPFILE, 0600) = 8\n"
      "write(8, \"\", 1) = 1\n"
      "open(\"/tmp\", O_RDWR|O_TMPFILE, 0600) = 9\n"
      "write(9, \"\", 1) = 1\n");
  EXPECT_EQ(c.request_texts(),
            (Texts{"/w/a write 0+10", "/w/a read 0+10", "/w/b write 0+1", "/w/b read 0+1",
                   "/tmp/(unnamed) write 0+1", "/tmp/(unnamed) write 0+1"}));
  ASSERT_GE(c.conversion.files.size(), 2u);
  EXPECT_EQ(c.conversion.files[0].path, "/w/b");
  EXPECT_TRUE(c.conversion.files[0].unlinked);
  EXPECT_NE(c.requests[4].file, c.requests[5].file);
}

TEST(Strace, AnnotationsIdentifyUnseenDescriptors) {
  const Converted c = convert_log(
      "read(0</in put>, \"\", 10) = 10\n"
      "read(0</in put>, \"\", 10) = 10\n"
      "write(1<pipe:[77]>, \"\", 10) = 10\n"
      "write(2</dev/pts/0<char 136:0>>, \"\", 10) = 10\n"
      "read(3<TCP:[1.2.3.4:5->6.7.8.9:10]>, \"\", 1) = 1\n"
      "read(0</other>, \"\", 5) = 5\n"
      "pread64(9</dev/sda<block 8:0>>, \"\", 512, 1024) = 512\n"
      "read(8, \"\", 5) = 5\n"
      "dup2(0</other>, 1) = 1</other>\n"
      "read(1</other>, \"\", 5) = 5\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/in put read 0+10", "/in put read 10+10", "/other read 0+5",
                                      "/dev/sda read 1024+512", "/other read 5+5"}));
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::stream_calls)], 3u);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::unknown_descriptors)], 1u);
}

TEST(Strace, TransfersOfAllKinds) {
  const Converted c = convert_log(
      "open(\"/a\", O_RDONLY) = 3\n"
      "open(\"/b\", O_RDWR|O_CREAT|O_EXCL, 0600) = 4\n"
      "pipe2([5, 6], O_CLOEXEC) = 0\n"
      "readv(3, [{iov_base=\"a\", iov_len=1}, {iov_base=\"b\", iov_len=2}], 2) = 3\n"
      "preadv2(3, [{iov_base=\"a\", iov_len=1}], 1, -1, 0) = 1\n"
      "preadv(3, [{iov_base=\"a\", iov_len=1}], 1, 100) = 1\n"
      "pwritev2(4, [{iov_base=\"a\", iov_len=1}], 1, 0, RWF_APPEND) = 1\n"
      "sendfile(4, 3, [7] => [57], 50) = 50\n"
      "sendfile(4, 3, NULL, 50) = 6\n"
      "copy_file_range(3, [10], 4, [200], 100, 0) = 100\n"
      "splice(3, [3], 6, NULL, 30, 0) = 30\n"
      "splice(5, NULL, 4, [900], 30, 0) = 30\n"
      "_llseek(3, 4096, [4096], SEEK_SET) = 0\n"
      "read(3, \"\", 1) = 1\n"
      "fcntl(3, F_DUPFD, 10) = 10\n"
      "read(10, \"\", 1) = 1\n"
      "close_range(10, 4294967295, 0) = 0\n"
      "read(10, \"\", 1) = -1 EBADF (Bad file descriptor)\n"
      "mmap(NULL, 4096, PROT_READ, MAP_SHARED, 3, 0x1000) = 0x7fffffffffff\n"
      "io_uring_enter(11, 4, 0, 0, NULL, 8) = 4\n");
  EXPECT_EQ(
      c.request_texts(),
      (Texts{"/a read 0+3", "/a read 3+1", "/a read 100+1", "/b write 0+1", "/a read 7+50",
             "/b write 0+50", "/a read 4+6", "/b write 50+6", "/a read 10+100", "/b write 200+100",
             "/a read 3+30", "/b write 900+30", "/a read 4096+1", "/a read 4097+1"}));
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::mapped_files)], 1u);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::failed_calls)], 1u);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::ring_unconfirmed)], 4u);
}

TEST(Strace, AsynchronousRequestsAreTheAcceptedOnes) {
  const Converted c = convert_log(
      "openat(AT_FDCWD, \"/a\", O_RDWR) = 3\n"
      "io_submit(0x7f, 3, [{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3</a>, "
      "aio_buf=0x55, aio_nbytes=4096, aio_offset=8192}, {aio_lio_opcode=IOCB_CMD_PWRITE, "
      "aio_reqprio=1, aio_fildes=3, aio_buf=\"x},{\"..., aio_nbytes=100, aio_offset=5}, "
      "{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3, aio_buf=0x55, aio_nbytes=1, aio_offset=0}]) = "
      "2\n"
      "io_submit(0x7f, 1, [{aio_lio_opcode=IOCB_CMD_PREADV, aio_fildes=3, aio_buf=[{iov_base=0x1, "
      "iov_len=10}, {iov_base=0x2, iov_len=20}], aio_nbytes=2, aio_offset=7}]) = 1\n"
      "io_submit(0x7f, 1, [{aio_lio_opcode=IOCB_CMD_FSYNC, aio_fildes=3}]) = 1\n"
      "io_submit(0x7f, 4, 0x7fff) = 4\n"
      "io_submit(0x7f, 1, [{aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=3}]) = -1 EAGAIN (x)\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 8192+4096", "/a write 5+100", "/a read 7+30"}));
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::ring_unconfirmed)], 3u);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::ring_other)], 5u);
}

// On a terminal there are no numbers while there is one process, and remarks in the middle of lines.
TEST(Strace, OutputOfATerminal) {
  const Converted c = convert_log(
      "100.5 open(\"/a\", O_RDONLY) = 3\n"
      "100.6 clone(child_stack=NULL, flags=SIGCHLDstrace: Process 45 attached\n"
      ", child_tidptr=0x7f) = 45\n"
      "[pid    44] 100.7 read(3,  <unfinished ...>\n"
      "[pid    45] 100.8 read(3, strace: Process 46 attached\n"
      " <unfinished ...>\n"
      "[pid    46] 100.85 close(3) = 0\n"
      "[pid    44] 100.9 <... read resumed>\"\", 10) = 10\n"
      "[pid    45] 101.0 <... read resumed>\"\", 10) = 10\n"
      "[pid    45] 101.1 +++ exited with 0 +++\n"
      "[pid    46] 101.1 +++ exited with 0 +++\n"
      "101.2 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=45, si_uid=0} ---\n"
      "101.3 read(3, \"\", 10) = 10\n"
      "101.4 +++ exited with 1 +++\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 0+10", "/a read 10+10", "/a read 20+10"}));
  EXPECT_EQ(c.conversion.processes, 2u);
  EXPECT_EQ(c.conversion.exit_code, 1);
  EXPECT_TRUE(c.conversion.unseen == UnseenCounts{});
}

TEST(Strace, BadLinesAreErrorsWithTheirNumber) {
  for (const char* line :
       {"hello world", "read(3", "read(3, \"x\", 1) = 1x", "read(x, \"\", 1) = 1",
        "pread64(3, \"\", 1, y) = 1", "pread64(3, \"\", 10, 9223372036854775800) = 10",
        "read(3, \"\", 1) = 0xffffffffffffffff", "open(NULL, O_RDONLY) = 5", "pipe(0x7f) = 0",
        "lseek(3, 0, SEEK_SET) = 0xffffffffffffff00", "close_range(a, b, 0) = 0"}) {
    const Converted c =
        convert_log("open(\"/a\", O_RDONLY) = 3\nclose(9) = 0\n" + std::string(line) + "\n");
    EXPECT_EQ(c.error.code, ErrorCode::corrupt) << line;
    EXPECT_NE(c.error.message().find("line 3 "), std::string::npos) << c.error.message();
  }
}

TEST(Strace, LastLineWithoutItsEndIsLeftOutAndAnError) {
  const Converted c =
      convert_log("open(\"/a\", O_RDONLY) = 3\nread(3, \"\", 99) = 9\nread(3, \"\", 99) = 1");
  EXPECT_EQ(c.request_texts(), Texts{"/a read 0+9"});
  EXPECT_FALSE(c.conversion.complete);
}

// A line of each process makes the next process, and all of them wait for the first fork.
TEST(Strace, LongChainOfWaitingProcessesNeedsNoStack) {
  std::string log = "1 open(\"/a\", O_RDONLY) = 3\n1 vfork( <unfinished ...>\n";
  constexpr int processes = 30000;
  for (int i = 2; i < processes; ++i) log += fmt::format("{} vfork() = {}\n", i, i + 1);
  log += fmt::format("{} read(3, \"\", 5) = 5\n1 <... vfork resumed>) = 2\n", processes);
  const Converted c = convert_log(log);
  EXPECT_EQ(c.error.message().find("line"), std::string::npos) << c.error.message();
  EXPECT_EQ(c.request_texts(), Texts{"/a read 0+5"});
}

// Each line ends the process that it is held for, and would be held again: 1.6 billion lines.
TEST(Strace, HeldLinesAreNotHeldAgain) {
  std::string log = "1 open(\"/a\", O_RDONLY) = 3\n1 vfork( <unfinished ...>\n";
  for (int i = 0; i < 40000; ++i) log += "2 +++ exited with 0 +++\n";
  log += "3 open(\"/b\", O_RDONLY) = 3\n3 read(3, \"\", 7) = 7\n";
  EXPECT_EQ(convert_log(log).request_texts(), Texts{"/b read 0+7"});
}

TEST(Strace, NumberOfTheFirstProcessMayBeReused) {
  const Converted c = convert_log(
      "100.5 clone(child_stack=NULL, flags=SIGCHLD) = 101\n"
      "[pid 100] 100.6 +++ exited with 0 +++\n"
      "[pid 101] 100.7 open(\"/a\", O_RDONLY) = 3\n"
      "[pid 101] 100.8 fork() = 100\n"
      "[pid 100] 100.9 read(3, \"\", 5) = 5\n"
      "[pid 101] 101.0 read(3, \"\", 6) = 6\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 0+5", "/a read 5+6"}));
}

TEST(Strace, HexadecimalAnnotationsNameFiles) {
  const Converted c = convert_log(
      "read(3<\\x2f\\x61>, \"\", 4) = 4\n"
      "openat(AT_FDCWD<\\x2f\\x64>, \"\\x62\", O_RDONLY) = 4<\\x2f\\x64\\x2f\\x62>\n"
      "read(4<\\x2f\\x64\\x2f\\x62>, \"\", 2) = 2\n");
  EXPECT_EQ(c.request_texts(), (Texts{"/a read 0+4", "/d/b read 0+2"}));
}

TEST(Strace, OmittedDescriptorsAreDescribedAtTheirUse) {
  const Converted c = convert_log(
      "pipe2([...], 0) = 0\n"
      "pipe2([3<pipe:[1]>, ...], O_CLOEXEC) = 0\n"
      "write(4<pipe:[1]>, \"\", 1) = 1\n"
      "read(5</a>, \"\", 1) = 1\n");
  EXPECT_EQ(c.request_texts(), Texts{"/a read 0+1"});
}

TEST(Strace, UnseenCallsAreCountedInALogThatWasCutOff) {
  const Converted c = convert_log(
      "open(\"/a\", O_RDONLY) = 3\nopen(\"/b\", O_RDONLY) = -1 ENOENT (No such file)\nread(3");
  EXPECT_FALSE(c.conversion.complete);
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::failed_calls)], 1u);
}

TEST(Iolog, StreamsAreNoStorage) {
  const Converted c = convert_log(
      "fio version 3 iolog\n"
      "0 /dev/null add\n0 /a add\n0 /dev/null open\n0 /a open\n"
      "1 /dev/null write 0 4096\n2 /a write 0 512\n");
  EXPECT_EQ(c.request_texts(), Texts{"/a write 0+512"});
}

TEST(Import, KindIsRecognisedByContent) {
  EXPECT_EQ(convert_log("").error.code, ErrorCode::corrupt);
  EXPECT_EQ(convert_log("some text\n").error.code, ErrorCode::corrupt);
  EXPECT_EQ(convert_log(std::string("\x07tae\0\0", 6)).error.code, ErrorCode::unsupported);
  EXPECT_EQ(convert_log("\n\nstrace: Process 5 attached\n5 close(3) = 0\n").error.attempted, "");
  // A part of a log may begin within a line.
  const std::string piece = "ead(3, 5) = 0\n5 close(3) = 0\n";
  EXPECT_EQ(convert_log(", 5) = 0\n5 close(3) = 0\n").error.code, ErrorCode::corrupt);
  EXPECT_EQ(convert_log(piece, LogKind::strace).error.attempted, "");
  EXPECT_EQ(convert_log("fio version 3 iolog\n", LogKind::strace).error.code, ErrorCode::corrupt);
  EXPECT_EQ(log_kind_of("iolog"), LogKind::iolog);
  EXPECT_FALSE(log_kind_of("detect"));
}

TEST(Import, EndlessLineIsRefused) {
  const std::string name = (std::filesystem::temp_directory_path() /
                            ("penstock-import-" + std::to_string(::getpid()) + ".log"))
                               .string();
  std::FILE* file = std::fopen(name.c_str(), "wb");
  const std::string chunk(1 << 20, 'x');
  std::fputs("close(3) = 0\nread(3, \"", file);
  for (int i = 0; i < 40; ++i) std::fwrite(chunk.data(), 1, chunk.size(), file);
  std::fclose(file);
  const auto conversion = convert_file(name, {}, {});
  ASSERT_FALSE(conversion);
  EXPECT_NE(conversion.error().message().find("line 2 "), std::string::npos);
  std::filesystem::remove(name);
}

// ---- Comparison with a plain model: the same random calls as a trace and as strace's text.

std::string escaped(std::string_view text, bool annotation) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if ((annotation && (c == '<' || c == '>')) || static_cast<unsigned char>(c) < 0x20 ||
               static_cast<unsigned char>(c) >= 0x7f) {
      // The shortest form, unless a digit follows.
      const bool digit = i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9';
      out += digit ? fmt::format("\\{:03o}", static_cast<unsigned char>(c))
                   : fmt::format("\\{:o}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

struct Style {
  bool annotations;
  bool pid_column;  // otherwise [pid ...]
  bool latencies;
};

// A small model of the kernel that writes its calls in both formats.
class TwoLanguages {
 public:
  TwoLanguages(uint64_t seed, Style style, const std::string& trace_path)
      : random_(seed),
        style_(style),
        writer_(*TraceWriter::create(trace_path, {.backend = Backend::synthetic})) {
    for (int i = 0; i < 5; ++i) {
      inodes_.push_back({.path = fmt::format("/tmp/f{} \"<{}>\n\xff,)-", i, i),
                         .bytes = random_.below(2) * random_.below(5000)});
    }
    processes_[100] = std::make_shared<Table>();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!under_way_.empty()) finish(under_way_.begin()->first);
    EXPECT_TRUE(writer_.finish({}));
  }
  const std::string& text() const { return text_; }

 private:
  struct Inode {
    std::string path;
    uint64_t bytes = 0;
    uint32_t id = 0;  // id in the trace; 0 before the first open
    bool has_name = true;
  };
  struct Open {
    size_t inode;
    uint64_t position = 0;
    bool append = false;
  };
  struct Slot {
    std::shared_ptr<Open> open;
    bool close_on_exec = false;
  };
  using Table = std::map<int32_t, Slot>;
  // A call under way.
  struct Call2 {
    uint64_t start_us;
    std::string front;  // first part of the line: "read(3, "
    // Executes the call. Returns the rest of the line, "\"\", 5) = 5", and fills in the event.
    std::function<std::string(Event&)> act;
  };

  std::string shown(int32_t descriptor, const Open* open) const {
    if (!style_.annotations || open == nullptr) return std::to_string(descriptor);
    const Inode& inode = inodes_[open->inode];
    return fmt::format("{}<{}>{}", descriptor, escaped(inode.path, true),
                       inode.has_name ? "" : "(deleted)");
  }
  std::string prefix(int32_t process, uint64_t us) const {
    const std::string time = fmt::format("{}.{:06} ", 1700000000 + us / 1000000, us % 1000000);
    return style_.pid_column ? fmt::format("{} {}", process, time)
                             : fmt::format("[pid {:5}] {}", process, time);
  }
  std::string latency(uint64_t us) const {
    return style_.latencies ? fmt::format(" <{}.{:06}>", us / 1000000, us % 1000000) : "";
  }

  void begin(int32_t process, std::string front, std::function<std::string(Event&)> act) {
    under_way_[process] = {now_us_ += 1 + random_.below(50), std::move(front), std::move(act)};
    // Processes that share a table could close each other's descriptors.
    const auto& table = processes_[process];
    const auto users =
        std::ranges::count_if(processes_, [&](const auto& entry) { return entry.second == table; });
    if (users > 1 || random_.below(4) != 0) {
      finish(process, false);
    } else {
      text_ += prefix(process, now_us_) + under_way_[process].front + " <unfinished ...>\n";
    }
  }
  void finish(int32_t process, bool was_cut = true) {
    Call2 call = std::move(under_way_[process]);
    under_way_.erase(process);
    const uint64_t took_us = was_cut ? (now_us_ += 5) - call.start_us : random_.below(30);
    // Without -T, latencies are known for calls in two pieces alone.
    const uint64_t known_us = was_cut || style_.latencies ? took_us : 0;
    Event event{.start_ns = (call.start_us - first_us()) * 1000,
                .latency_ns = known_us * 1000,
                .process = process,
                .thread = process};
    const std::string rest = call.act(event);
    if (event.call != Call::exit) (void)writer_.add(event);
    const std::string name = call.front.substr(0, call.front.find('('));
    if (was_cut) {
      text_ += fmt::format("{}<... {} resumed>{}{}\n", prefix(process, now_us_), name, rest,
                           latency(took_us));
    } else {
      text_ += prefix(process, call.start_us) + call.front + rest + latency(took_us) + "\n";
    }
    if (after_) std::exchange(after_, nullptr)();
  }
  uint64_t first_us() const { return 1; }

  void step() {
    auto at = processes_.begin();
    std::advance(at, static_cast<long>(random_.below(processes_.size())));
    const int32_t process = at->first;
    if (under_way_.contains(process)) return finish(process);
    if (text_.empty()) {  // the first line is time 0
      now_us_ = 1;
      text_ += prefix(process, 1) + "getpid() = 100\n";
    }
    const auto table = at->second;
    const auto descriptor = static_cast<int32_t>(3 + random_.below(5));
    const auto slot = table->find(descriptor);
    const std::shared_ptr<Open> open = slot == table->end() ? nullptr : slot->second.open;
    const uint64_t choice = random_.below(12);
    if (open == nullptr || choice == 0) return open_file(process, table, descriptor);
    Inode* inode = &inodes_[open->inode];
    const std::string fd = shown(descriptor, open.get());
    switch (choice) {
      case 1:
        return begin(process, fmt::format("close({}", fd), [=](Event& e) {
          table->erase(descriptor);
          e.call = Call::close;
          e.descriptor = descriptor;
          return std::string(") = 0");
        });
      case 2: {
        const auto other = static_cast<int32_t>(3 + random_.below(5));
        if (other == descriptor) return;
        return begin(process, fmt::format("dup2({}, {}", fd, other), [=, this](Event& e) {
          (*table)[other] = {open, false};
          e.call = Call::duplicate;
          e.descriptor = descriptor;
          e.descriptor2 = other;
          return fmt::format(") = {}", shown(other, open.get()));
        });
      }
      case 3: {
        if (processes_.size() > 4) return;
        const int32_t child = next_process_++;
        const bool shares = random_.below(4) == 0;
        return begin(
            process,
            fmt::format("clone(child_stack=NULL, flags={}SIGCHLD", shares ? "CLONE_FILES|" : ""),
            [=, this](Event& e) {
              processes_[child] = shares ? table : std::make_shared<Table>(*table);
              e.call = Call::fork;
              e.child = child;
              if (shares) e.flags = flag::shares_descriptors;
              return fmt::format(") = {}", child);
            });
      }
      case 4: {
        if (random_.below(3) != 0) return;
        return begin(
            process, "execve(\"/bin/x\", [\"x\"], 0x7f /* 1 vars, */", [=, this](Event& e) {
              auto mine = std::make_shared<Table>(*table);
              std::erase_if(*mine, [](const auto& entry) { return entry.second.close_on_exec; });
              processes_[process] = mine;
              e.call = Call::exec;
              return std::string(") = 0");
            });
      }
      case 5: {
        if (processes_.size() == 1 || random_.below(3) != 0) return;
        processes_.erase(at);
        (void)writer_.add({.start_ns = (now_us_ - first_us()) * 1000,
                           .process = process,
                           .thread = process,
                           .call = Call::exit});
        text_ += prefix(process, now_us_) + "+++ exited with 0 +++\n";
        return;
      }
      case 6: {
        const int64_t to = static_cast<int64_t>(random_.below(8000));
        const bool from_end = random_.below(2) == 0;
        const std::string front =
            from_end ? fmt::format("lseek({}, -{}, SEEK_END", fd, std::min<int64_t>(to, 5))
                     : fmt::format("lseek({}, {}, SEEK_SET", fd, to);
        return begin(process, front, [=](Event& e) {
          if (from_end && inode->bytes < 5) {
            e.call = Call::exit;  // marks a failed call, which has no event
            return std::string(") = -1 EINVAL (Invalid argument)");
          }
          open->position = from_end ? inode->bytes - std::min<uint64_t>(to, 5) : to;
          e.call = Call::seek;
          e.descriptor = descriptor;
          e.result = open->position;
          return fmt::format(") = {}", open->position);
        });
      }
      case 7: {
        const uint64_t bytes = random_.below(8000);
        return begin(process, fmt::format("ftruncate({}, {}", fd, bytes), [=](Event& e) {
          inode->bytes = bytes;
          e.call = Call::truncate;
          e.file = inode->id;
          e.result = bytes;
          return std::string(") = 0");
        });
      }
      case 8: {
        const bool marks = random_.below(2) == 0;
        return begin(process, fmt::format("fcntl({}, F_SETFD, {}", fd, marks ? "FD_CLOEXEC" : "0"),
                     [=](Event& e) {
                       if (const auto found = table->find(descriptor); found != table->end()) {
                         found->second.close_on_exec = marks;
                       }
                       e.call = Call::set_flags;
                       e.descriptor = descriptor;
                       e.flags = flag::descriptor_flags | (marks ? flag::close_on_exec : 0);
                       return std::string(") = 0");
                     });
      }
      case 9: {
        // The name is removed, and may come back for another file.
        if (!inode->has_name || random_.below(4) != 0) return;
        return begin(process, fmt::format("unlink(\"{}\"", escaped(inode->path, false)),
                     [=, this, index = open->inode](Event& e) {
                       e.call = Call::exit;
                       if (!inodes_[index].has_name) return std::string(") = -1 ENOENT (No such)");
                       inodes_[index].has_name = false;
                       e.call = Call::unlink;
                       e.file = inodes_[index].id;
                       after_ = [this, path = inodes_[index].path] {
                         inodes_.push_back({.path = path});
                       };
                       return std::string(") = 0");
                     });
      }
      default:
        return transfer(process, descriptor, table, open, fd);
    }
  }

  void open_file(int32_t process, const std::shared_ptr<Table>& table, int32_t descriptor) {
    size_t index = random_.below(inodes_.size());
    if (!inodes_[index].has_name) return;
    const bool append = random_.below(3) == 0, truncates = random_.below(4) == 0;
    const bool close_on_exec = random_.below(2) == 0;
    const std::string path = inodes_[index].path;
    begin(process,
          fmt::format("openat(AT_FDCWD, \"{}\", O_RDWR|O_CREAT{}{}{}, 0666", escaped(path, false),
                      append ? "|O_APPEND" : "", truncates ? "|O_TRUNC" : "",
                      close_on_exec ? "|O_CLOEXEC" : ""),
          [=, this](Event& e) {
            e.call = Call::exit;
            // The name is looked up when the call takes effect.
            size_t found = inodes_.size();
            for (size_t i = 0; i < inodes_.size(); ++i) {
              if (inodes_[i].has_name && inodes_[i].path == path) found = i;
            }
            if (found == inodes_.size()) return std::string(") = -1 ENOENT (No such file)");
            // The kernel returns the smallest free number; the model fails if it is taken.
            if (table->contains(descriptor)) return std::string(") = -1 EMFILE (Too many)");
            Inode& inode = inodes_[found];
            if (truncates) inode.bytes = 0;
            auto open = std::make_shared<Open>(Open{found, 0, append});
            (*table)[descriptor] = {open, close_on_exec};
            if (inode.id == 0) {
              inode.id = writer_.add_file(
                  {.kind = FileKind::regular, .bytes = inode.bytes, .path = inode.path});
            }
            e.call = Call::open;
            e.descriptor = descriptor;
            e.file = inode.id;
            e.result = inode.bytes;
            e.flags = flag::read | flag::write | (append ? flag::append : 0) |
                      (truncates ? flag::truncates : 0) | (close_on_exec ? flag::close_on_exec : 0);
            // strace shows no sizes at an open, so the program calls fstat, with no call in between.
            after_ = [=, this] {
              text_ += prefix(process, ++now_us_) +
                       fmt::format("fstat({}, {{st_mode=S_IFREG|0644, st_size={}, ...}}) = 0\n",
                                   shown(descriptor, open.get()), inodes_[found].bytes);
            };
            return fmt::format(") = {}", shown(descriptor, open.get()));
          });
  }

  void transfer(int32_t process, int32_t descriptor, const std::shared_ptr<Table>& table,
                const std::shared_ptr<Open>& open, const std::string& fd) {
    (void)table;
    const bool writes = random_.below(2) == 0;
    const uint64_t asked = 1 + random_.below(900);
    const uint64_t offset = random_.below(2) == 0 ? random_.below(8000) : no_offset;
    const bool vector = random_.below(4) == 0;
    const std::string name =
        fmt::format("{}{}{}", offset == no_offset ? "" : "p", writes ? "write" : "read",
                    vector                ? "v"
                    : offset == no_offset ? ""
                                          : "64");
    const std::string data =
        vector ? fmt::format("[{{iov_base=\"a,)]}}\\\"\"..., iov_len={}}}], 1", asked)
               : fmt::format("\"\\1(, <\"..., {}", asked);
    begin(process, fmt::format("{}({}, ", name, fd), [=, this](Event& e) {
      Inode& inode = inodes_[open->inode];
      const uint64_t from = writes && open->append ? inode.bytes
                            : offset == no_offset  ? open->position
                                                   : offset;
      uint64_t moved = asked;
      if (!writes) moved = from < inode.bytes ? std::min(asked, inode.bytes - from) : 0;
      if (offset == no_offset) open->position = from + moved;
      if (writes) inode.bytes = std::max(inode.bytes, from + moved);
      e.call = writes ? Call::write : Call::read;
      e.descriptor = descriptor;
      e.offset = offset;
      e.bytes = asked;
      e.result = moved;
      return fmt::format("{}{}) = {}", data, offset == no_offset ? "" : fmt::format(", {}", offset),
                         moved);
    });
  }

  Random random_;
  Style style_;
  TraceWriter writer_;
  std::deque<Inode> inodes_;
  std::map<int32_t, std::shared_ptr<Table>> processes_;
  std::map<int32_t, Call2> under_way_;
  std::function<void()> after_;
  std::string text_;
  uint64_t now_us_ = 1;
  int32_t next_process_ = 101;
};

std::string temporary_name(const char* end) {
  return (std::filesystem::temp_directory_path() /
          ("penstock-import-" + std::to_string(::getpid()) + end))
      .string();
}

// Compares everything but the numbers of files, which are in the order of first sight in both.
void expect_equal(const Converted& log, const Converted& ours) {
  ASSERT_EQ(log.error.message(), ours.error.message());
  ASSERT_EQ(log.requests.size(), ours.requests.size());
  for (size_t i = 0; i < ours.requests.size(); ++i) {
    const Request &a = log.requests[i], &b = ours.requests[i];
    ASSERT_TRUE(a == b) << "request " << i << ": " << a.start_ns << " " << a.latency_ns << " "
                        << a.offset << "+" << a.bytes << " of " << a.file << " by " << a.process
                        << ", not " << b.start_ns << " " << b.latency_ns << " " << b.offset << "+"
                        << b.bytes << " of " << b.file << " by " << b.process;
  }
  ASSERT_EQ(log.conversion.files.size(), ours.conversion.files.size());
  for (size_t i = 0; i < ours.conversion.files.size(); ++i) {
    const ConvertedFile &a = log.conversion.files[i], &b = ours.conversion.files[i];
    EXPECT_EQ(a.first_path, b.first_path);
    EXPECT_EQ(a.first_bytes, b.first_bytes) << i;
    EXPECT_EQ(a.peak_bytes, b.peak_bytes) << i;
    EXPECT_EQ(a.last_bytes, b.last_bytes) << i;
    EXPECT_EQ(a.seeks, b.seeks);
    EXPECT_EQ(a.unlinked, b.unlinked);
  }
}

Converted convert_ours(const std::string& path) {
  Converted converted;
  auto conversion = convert_file(path, {}, [&](std::span<const Request> batch) -> Status {
    converted.requests.insert(converted.requests.end(), batch.begin(), batch.end());
    return {};
  });
  EXPECT_TRUE(conversion) << conversion.error().message();
  if (conversion) converted.conversion = std::move(*conversion);
  return converted;
}

TEST(Strace, EqualsATraceOfTheSameCalls) {
  const std::string path = temporary_name(".trace");
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Style style{seed % 2 == 0, seed % 3 != 0, seed % 5 != 0};
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoLanguages calls(seed, style, path);
    calls.run(4000);
    const Converted log = convert_log(calls.text());
    const Converted ours = convert_ours(path);
    ASSERT_GT(ours.requests.size(), 100u);
    expect_equal(log, ours);
    if (HasFailure()) break;
  }
  std::filesystem::remove(path);
}

TEST(Iolog, EqualsATraceOfTheSameRequests) {
  const std::string path = temporary_name(".trace");
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    auto writer = TraceWriter::create(path, {.backend = Backend::synthetic});
    ASSERT_TRUE(writer);
    std::string text = "fio version 3 iolog\n";
    std::map<std::string, uint32_t> files;
    uint64_t now_us = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::string name = fmt::format("/d/f {}", random.below(6));
      now_us += random.below(100);
      Event event{.start_ns = now_us * 1000, .process = 1, .thread = 1};
      uint32_t& file = files[name];
      if (file == 0) {
        file = writer->add_file({.kind = FileKind::regular, .path = name});
        event.descriptor = static_cast<int32_t>(file);
        event.file = file;
        event.call = Call::open;
        ASSERT_TRUE(writer->add(event));
        text += fmt::format("{0} {1} add\n{0} {1} open\n", now_us, name);
      }
      event.descriptor = static_cast<int32_t>(file);
      event.file = 0;
      event.offset = random.below(3) == 0 ? 0 : random.next() >> (1 + random.below(60));
      event.bytes = event.result = random.below(1 << 20);
      event.offset = std::min(event.offset, largest_offset - event.bytes);
      event.call = random.below(2) == 0 ? Call::read : Call::write;
      ASSERT_TRUE(writer->add(event));
      text += fmt::format("{} {} {} {} {}\n", now_us, name,
                          event.call == Call::read ? "read" : "write", event.offset, event.bytes);
    }
    ASSERT_TRUE(writer->finish({}));
    expect_equal(convert_log(text), convert_ours(path));
  }
  std::filesystem::remove(path);
}

TEST(Import, LogBecomesAnEqualTrace) {
  const std::string ours = temporary_name(".trace"), copy = temporary_name(".copy");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoLanguages calls(seed, {true, true, true}, ours);
    calls.run(1000);
    const Converted log = convert_log(calls.text());
    auto trace = trace_of_text(calls.text());
    ASSERT_TRUE(trace);
    const auto written = export_requests(*trace, {}, ExportFormat::trace, copy);
    ASSERT_TRUE(written) << written.error().message();
    expect_equal(convert_ours(copy), log);
    // A log that was cut off becomes a trace that is cut off.
    auto cut = trace_of_text(std::string_view(calls.text()).substr(0, calls.text().size() / 2));
    ASSERT_TRUE(cut);
    const auto half = export_requests(*cut, {}, ExportFormat::trace, copy);
    ASSERT_TRUE(half);
    const Converted read_again = convert_ours(copy);
    EXPECT_EQ(read_again.requests.size(), half->requests);
    EXPECT_EQ(read_again.conversion.complete, half->complete);
  }
  std::filesystem::remove(ours);
  std::filesystem::remove(copy);
}

// A damaged log becomes valid requests, or an error with the number of a line.
TEST(Import, DamagedLogsEndInRequestsOrAnError) {
  const std::string path = temporary_name(".trace");
  TwoLanguages calls(7, {true, false, true}, path);
  calls.run(300);
  std::filesystem::remove(path);
  const std::vector<std::string> logs = {
      calls.text(),
      "fio version 3 iolog\n1 a add\n2 a open\n3 a read 0 10\n4 a write 5 5\n5 a sync 0 0\n"
      "6 b trim 0 5\n7 a close\n",
      "fio version 2 iolog\na add\na open\na read 0 10\na wait 100 0\na close\n"};
  const std::string_view pieces[] = {"\n",
                                     "<",
                                     ">",
                                     "\"",
                                     "(",
                                     ")",
                                     " = ",
                                     "<unfinished ...>",
                                     "<... read resumed>",
                                     "18446744073709551615",
                                     "-1",
                                     "\\",
                                     "[",
                                     "100 ",
                                     " vfork() = 101\n",
                                     "0x",
                                     ",",
                                     "+++ exited with 0 +++"};
  Random random(1);
  uint64_t errors = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::string log = logs[random.below(logs.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0 && !log.empty(); --changes) {
      const size_t at = random.below(log.size());
      switch (random.below(5)) {
        case 0:
          log[at] = static_cast<char>(random.next());
          break;
        case 1:
          log.erase(at, 1 + random.below(40));
          break;
        case 2:
          log.insert(at, pieces[random.below(std::size(pieces))]);
          break;
        case 3:
          log.insert(at, log.substr(random.below(log.size()), random.below(200)));
          break;
        case 4:
          log.resize(at);
          break;
      }
    }
    for (const LogKind kind : {LogKind::detect, LogKind::strace, LogKind::iolog}) {
      const Converted c = convert_log(log, kind);
      for (const Request& r : c.requests) {
        ASSERT_GT(r.bytes, 0u);
        ASSERT_LE(r.bytes, largest_offset);
        ASSERT_LE(r.offset, largest_offset - r.bytes);
        ASSERT_LE(r.start_ns, uint64_t{1} << 62);
      }
      if (!c.error.attempted.empty()) ++errors;
    }
  }
  EXPECT_GT(errors, 3000u);
}

}  // namespace
}  // namespace penstock::trace
