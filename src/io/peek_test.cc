// Test labels: nobody (the size of a pipe is limited)
#include "io/peek.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <string>
#include <thread>

#include "base/temporary_folder_fixture.h"
#include "os/fd.h"

namespace penstock::io {
namespace {

constexpr size_t bytes_max = MiB;

bool has_line(const Peek& seen) {
  return seen.bytes.contains('\n');
}

const PeekOptions lines = {.bytes_max = bytes_max, .wait = Wait::enough, .enough = has_line};

std::string name_of(int fd) {
  return "/dev/fd/" + std::to_string(fd);
}

std::string read_all(int fd) {
  std::string text, piece(4096, '\0');
  for (ssize_t bytes; (bytes = ::read(fd, piece.data(), piece.size())) > 0;)
    text.append(piece, 0, static_cast<size_t>(bytes));
  return text;
}

void write_all(int fd, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t bytes = ::write(fd, text.data() + at, text.size() - at);
    ASSERT_GT(bytes, 0);
    at += static_cast<size_t>(bytes);
  }
}

TEST(Peek, ReadsMoreOfAFileOnlyIfThatIsNotEnough) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  const std::string text = std::string(300 * KiB, 'a') + "\nb";
  std::ofstream(path) << text;
  auto seen = peek(path, lines).value().value();
  EXPECT_EQ(seen.bytes, text);
  EXPECT_TRUE(seen.is_all);
  EXPECT_TRUE(seen.is_file);
  seen = peek(path, {.bytes_max = bytes_max, .enough = [](const Peek&) { return true; }})
             .value()
             .value();
  EXPECT_EQ(seen.bytes, text.substr(0, 256 * KiB));
  EXPECT_FALSE(seen.is_all);
  seen = peek(path, {.bytes_max = 10, .enough = has_line}).value().value();
  EXPECT_EQ(seen.bytes, text.substr(0, 10));
}

TEST(Peek, LeavesTheBytesInAPipe) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::Fd from(ends[0]);
  const std::string text = std::string(200 * KiB, 'a') + "\n" + std::string(300 * KiB, 'b');
  std::jthread writer([&text, to = ends[1]] {
    size_t at = 0;
    for (const size_t end : {size_t{1}, 100 * KiB, text.size()}) {
      write_all(to, text.substr(at, end - at));
      at = end;
      ::usleep(20'000);
    }
    ::close(to);
  });
  const auto seen = peek(name_of(from.get()), lines).value().value();
  EXPECT_TRUE(text.starts_with(seen.bytes));
  EXPECT_GT(seen.bytes.size(), 200 * KiB);
  EXPECT_FALSE(seen.is_file);
  EXPECT_EQ(read_all(from.get()), text);
}

TEST(Peek, SeesTheEndOfAFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  std::ofstream(path) << "begin, middle, end";
  auto seen = peek(path, {.bytes_max = 5, .tail_bytes = 3}).value().value();
  EXPECT_EQ(seen.bytes, "begin");
  EXPECT_EQ(seen.tail, "end");
  EXPECT_FALSE(seen.is_all);
  seen = peek(path, {.tail_bytes = 100}).value().value();
  EXPECT_EQ(seen.bytes, seen.tail);
  EXPECT_TRUE(seen.is_all);
}

TEST(Peek, WaitsForAPipeOnlyIfAsked) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::Fd from(ends[0]), to(ends[1]);
  const std::string name = name_of(from.get());
  const Peek none = peek(name).value().value();
  EXPECT_EQ(none.bytes, "");
  EXPECT_FALSE(none.is_all);
  const std::atomic<bool> cancel = true;
  EXPECT_EQ(peek(name, {.wait = Wait::byte, .cancel = &cancel}).value().value().bytes, "");
  std::jthread writer([&] {
    ::usleep(20'000);
    write_all(to.get(), "a");
  });
  EXPECT_EQ(peek(name, {.wait = Wait::byte}).value().value().bytes, "a");
  EXPECT_EQ(peek(name).value().value().bytes, "a");
}

TEST(Peek, SeesAMebibyteOfAPipeWithoutRights) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::Fd from(ends[0]);
  const std::string text = std::string(800 * KiB, 'a') + "\n";
  std::jthread writer([&text, to = ends[1]] {
    write_all(to, text);
    ::close(to);
  });
  const Peek seen =
      peek(name_of(from.get()), {.bytes_max = 4 * MiB, .wait = Wait::enough, .enough = has_line})
          .value()
          .value();
  EXPECT_EQ(seen.bytes, text);
  EXPECT_EQ(read_all(from.get()), text);
}

TEST(Peek, IsCancelledInSpiteOfSignals) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const os::Fd from(ends[0]), to(ends[1]);
  struct sigaction action = {}, before;
  action.sa_handler = [](int) {};
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> cancel = false;
  std::jthread interrupter([&cancel, waiting = ::pthread_self()] {
    for (int i = 0; i < 5; ++i) {
      ::usleep(5'000);
      ::pthread_kill(waiting, SIGUSR1);
    }
    cancel = true;
    ::pthread_kill(waiting, SIGUSR1);
  });
  EXPECT_EQ(
      peek(name_of(from.get()), {.wait = Wait::byte, .cancel = &cancel}).value().value().bytes, "");
  EXPECT_TRUE(cancel);
  interrupter.join();
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST(Peek, TakesAPipeThatDoesNotBlock) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
  const os::Fd from(ends[0]), to(ends[1]);
  std::jthread writer([&] {
    ::usleep(20'000);
    write_all(to.get(), "a\n");
  });
  EXPECT_EQ(peek(name_of(from.get()), lines).value().value().bytes, "a\n");
}

TEST(Peek, SeesTheEndOfAPipe) {
  for (const std::string& text : {std::string(), std::string("no line end")}) {
    int ends[2];
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const os::Fd from(ends[0]);
    write_all(ends[1], text);
    ::close(ends[1]);
    const auto seen = peek(name_of(from.get()), lines).value().value();
    EXPECT_EQ(seen.bytes, text);
    EXPECT_TRUE(seen.is_all);
    EXPECT_EQ(read_all(from.get()), text);
  }
}

TEST(Peek, LeavesTheBytesInASocket) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const os::Fd from(ends[0]);
  write_all(ends[1], "a\nb\n");
  ::close(ends[1]);
  EXPECT_EQ(peek(name_of(from.get()), lines).value().value().bytes, "a\nb\n");
  EXPECT_EQ(read_all(from.get()), "a\nb\n");
}

TEST(Peek, DoesNotOpenWhatCanBeReadOnlyOnce) {
  const TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "named").c_str(), 0600), 0);
  EXPECT_FALSE(peek(folder / "named", lines).value().has_value());
  EXPECT_FALSE(peek("/dev/zero", lines).value().has_value());
  EXPECT_TRUE(peek("/dev/null", lines).value().value().is_all);
  const os::Fd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(peek(name_of(null.get()), lines).value().value().is_all);
  EXPECT_EQ(peek(folder / "none", lines).error().code, ErrorCode::not_found);
}

}  // namespace
}  // namespace penstock::io
