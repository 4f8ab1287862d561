// Test labels: one-thread

#include "trace/import/import.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/trace.h"
#include "trace/import/converted_fixture.h"
#include "trace/import/strace_line.h"

namespace penstock::trace {
namespace {

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

TEST(Strace, NamesThatWereNotFoundAreKept) {
  const Converted c = convert_log(
      "chdir(\"/home\") = 0\n"
      "open(\"/b\", O_RDONLY) = -1 ENOENT (No such file) <0.000003>\n"
      "stat(\"x\", 0x7fff) = -1 ENOENT (No such file) <0.000004>\n"
      "openat(AT_FDCWD, \"/b\", O_RDONLY) = -1 ENOENT (No such file) <0.000005>\n"
      "access(\"/c\", R_OK) = 0 <0.000006>\n"
      "read(7, \"\", 1) = -1 EBADF (Bad file descriptor)\n");
  EXPECT_EQ(c.conversion.calls.of(CallKind::failed), (CallSum{3, 12'000}));
  EXPECT_EQ(c.conversion.calls.of(CallKind::stat), (CallSum{1, 6'000}));
  ASSERT_EQ(c.conversion.failed_names.size(), 2u);
  EXPECT_EQ(c.conversion.failed_names[0].path, "/b");
  EXPECT_EQ(c.conversion.failed_names[0].calls, 2u);
  EXPECT_EQ(c.conversion.failed_names[1].path, "/home/x");
  EXPECT_EQ(c.conversion.unseen[static_cast<size_t>(Unseen::failed_calls)], 1u);
}

TEST(Strace, UnseenCallsAreCountedInALogThatWasCutOff) {
  const Converted c = convert_log(
      "open(\"/a\", O_RDONLY) = 3\nopen(\"/b\", O_RDONLY) = -1 EACCES (Permission denied)\nread(3");
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

}  // namespace
}  // namespace penstock::trace
