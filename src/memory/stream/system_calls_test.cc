#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/temporary_folder_fixture.h"
#include "penstock/base.h"
#include "penstock/file_stream.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

constexpr size_t block = 64 * KiB;

std::vector<uint8_t> random_bytes(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random.next());
  return data;
}

struct Ends {
  int in = -1, out = -1;
  ~Ends() {
    close_out();
    if (in >= 0) ::close(in);
  }
  void close_out() {
    if (out >= 0) ::close(std::exchange(out, -1));
  }
};
Ends open_pipe() {
  int fds[2];
  EXPECT_EQ(::pipe(fds), 0);
  return {fds[0], fds[1]};
}
Ends open_sockets() {
  int fds[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
  return {fds[0], fds[1]};
}

// memory -> pipe -> RemapStream -> socket (non-blocking) -> GuardStream -> pipe -> ProcessStream ->
// pipe -> FileWriter; FileReader -> pipe -> memory. No transfer fits any stream's window.
TEST(SystemCalls, CarryDataThroughEveryKindOfStream) {
  const auto data = random_bytes(40 * block + 12345, 1);
  const size_t bytes = data.size();
  Ends first = open_pipe(), second = open_sockets(), third = open_pipe(), fourth = open_pipe();
  auto remap = RemapStream::open({.bytes = bytes, .block_bytes = block});
  auto guard = GuardStream::open({.bytes = bytes, .block_bytes = block});
  auto producer = ProcessStream::open({.bytes = bytes, .block_bytes = block}, Side::producer);
  ASSERT_TRUE(remap && guard && producer);
  auto consumer = ProcessStream::attach(producer->fd(), Side::consumer);
  ASSERT_TRUE(consumer) << consumer.error().message();
  TemporaryFolder folder;
  {
    std::vector<std::jthread> threads;
    auto run = [&](auto work) { threads.emplace_back(work); };
    run([&] {
      EXPECT_EQ(system_calls::write(first.out, data.data(), bytes), bytes);
      first.close_out();
    });
    run([&] {
      EXPECT_EQ(system_calls::read(first.in, remap->writer(), bytes), bytes);
      EXPECT_TRUE(remap->finish(bytes));
    });
    run([&] { EXPECT_EQ(system_calls::send(second.out, remap->reader(), bytes), bytes); });
    run([&] {
      EXPECT_EQ(system_calls::recv(second.in, guard->writer(), bytes), bytes);
      EXPECT_TRUE(guard->finish(bytes));
    });
    run([&] { EXPECT_EQ(system_calls::write(third.out, guard->reader(), bytes), bytes); });
    run([&] {
      EXPECT_EQ(system_calls::read(third.in, producer->writer(), bytes), bytes);
      EXPECT_TRUE(producer->finish(bytes));
    });
    run([&] {
      EXPECT_EQ(system_calls::write(fourth.out, consumer->reader(), bytes), bytes);
      fourth.close_out();
    });
    run([&] {
      auto file = FileWriter::open(folder / "copy", {.block_bytes = block});
      ASSERT_TRUE(file);
      // More than there is: the data end first.
      auto got = system_calls::read(fourth.in, file->begin(), bytes + 1000);
      EXPECT_EQ(got, bytes);
      EXPECT_TRUE(file->finish(bytes));
    });
  }
  auto file = FileReader::open(folder / "copy", {.block_bytes = block});
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(file->bytes(), bytes);
  Ends last = open_pipe();
  std::jthread writer([&] {
    EXPECT_EQ(system_calls::write(last.out, file->begin(), bytes), bytes);
    last.close_out();
  });
  std::vector<uint8_t> back(bytes + 1);
  EXPECT_EQ(system_calls::read(last.in, back.data(), bytes + 1), bytes);
  back.pop_back();
  EXPECT_TRUE(back == data);
}

TEST(SystemCalls, PrepareSaysHowMuchIsReady) {
  auto pipe = RemapStream::open({.bytes = 100 * block, .block_bytes = block});
  ASSERT_TRUE(pipe);
  EXPECT_EQ(system_calls::prepare_write(pipe->writer() + 10, 0), 0u);
  EXPECT_EQ(system_calls::prepare_write(pipe->writer() + 10, 100), 100u);
  EXPECT_EQ(system_calls::prepare_write(pipe->writer() + 10, 50 * block), 2 * block - 10);
  // Check the answer: the kernel may store there.
  const int zero = ::open("/dev/zero", O_RDONLY);
  EXPECT_EQ(::read(zero, pipe->writer() + 10, 2 * block - 10),
            static_cast<ssize_t>(2 * block - 10));
  EXPECT_EQ(::read(zero, pipe->writer() + 3 * block, 100), -1);
  EXPECT_EQ(errno, EFAULT);
  ::close(zero);
  char ordinary[100];
  EXPECT_EQ(system_calls::prepare_read(ordinary, sizeof ordinary), sizeof ordinary);
}

TEST(SystemCalls, ErrorsOfStreamsAndOfTheSystemAreReported) {
  auto pipe = RemapStream::open({.bytes = 100 * block, .block_bytes = block});
  ASSERT_TRUE(pipe);
  pipe->fail(Side::producer, Error{ErrorCode::io, "read the tape"});
  Ends ends = open_pipe();
  auto written = system_calls::write(ends.out, pipe->reader(), block);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::io);

  char byte = 0;
  auto refused = system_calls::write(-1, &byte, 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().system_errno, EBADF);

  Ends sockets = open_sockets();
  ::close(std::exchange(sockets.in, -1));
  auto sent = system_calls::send(sockets.out, &byte, 1);  // no SIGPIPE
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().system_errno, EPIPE);
}

}  // namespace
}  // namespace penstock
