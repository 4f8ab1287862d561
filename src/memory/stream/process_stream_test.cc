#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

constexpr size_t block = 64 * KiB;

ProcessStream create(ProcessStream::Options options, Side side) {
  if (options.block_bytes == 4 * MiB) options.block_bytes = block;
  auto stream = ProcessStream::open(options, side);
  EXPECT_TRUE(stream) << stream.error().message();
  return std::move(*stream);
}

// A process that runs `work` and exits with its result; killed at the end if it still runs.
class Child {
 public:
  explicit Child(const std::function<int()>& work) : pid_(fork()) {
    if (pid_ != 0) return;
    alarm(60);  // a child that hangs is a failure
    _exit(work());
  }
  ~Child() {
    if (pid_ > 0) kill();
  }
  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    wait();
  }
  // Returns the exit code, or minus the signal.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_;
};

// Code in a child cannot use gtest: its exit code says what was wrong.
ProcessStream attach_in_child(int fd, Side side, ProcessStream::AttachOptions options = {}) {
  auto stream = ProcessStream::attach(fd, side, options);
  if (!stream) {
    std::fprintf(stderr, "%s\n", stream.error().message().c_str());
    _exit(90);
  }
  return std::move(*stream);
}

constexpr uint64_t items = 500 * block / sizeof(uint64_t) + 5;

int produce_numbers(ProcessStream& stream) {
  std::iota(stream.writer<uint64_t>(), stream.writer<uint64_t>() + items, uint64_t{7});
  return stream.finish(items * sizeof(uint64_t)) ? 0 : 1;
}
int consume_numbers(ProcessStream& stream) {
  const uint64_t* data = stream.reader<uint64_t>();
  for (uint64_t i = 0; i < items; ++i) {
    if (data[i] != i + 7) return 1;
  }
  auto length = stream.wait_ready(items * sizeof(uint64_t));
  return length && *length == items * sizeof(uint64_t) && data[items] == 0 ? 0 : 2;
}

TEST(ProcessStream, ChildReadsWhatTheParentWrites) {
  for (bool strict : {false, true}) {
    ProcessStream stream = create({.bytes = 1 * TiB, .strict = strict}, Side::producer);
    Child child([&] {
      auto mine = attach_in_child(stream.fd(), Side::consumer, {.strict = strict});
      return consume_numbers(mine);
    });
    EXPECT_EQ(produce_numbers(stream), 0);
    EXPECT_EQ(child.wait(), 0);
    EXPECT_TRUE(stream.status()) << stream.status().error().message();
  }
}

TEST(ProcessStream, ParentReadsWhatTheChildWrites) {
  for (bool strict : {false, true}) {
    ProcessStream stream = create({.bytes = 1 * TiB, .strict = strict}, Side::consumer);
    Child child([&] {
      auto mine = attach_in_child(stream.fd(), Side::producer, {.strict = strict});
      return produce_numbers(mine);
    });
    EXPECT_EQ(consume_numbers(stream), 0);
    EXPECT_EQ(child.wait(), 0);
  }
}

TEST(ProcessStream, HugeBlocksWork) {
  ProcessStream stream = create({.bytes = 1 * TiB, .block_bytes = 2 * MiB}, Side::producer);
  EXPECT_EQ(stream.memory_bytes(), 8 * MiB);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::consumer);
    return consume_numbers(mine);
  });
  EXPECT_EQ(produce_numbers(stream), 0);
  EXPECT_EQ(child.wait(), 0);
}

// The descriptor alone suffices: sent over a socket to a process without another tie to the stream.
TEST(ProcessStream, DescriptorCanBeSentOverASocket) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  Child child([&] {
    char byte;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))];
    iovec data{&byte, 1};
    msghdr message{.msg_iov = &data,
                   .msg_iovlen = 1,
                   .msg_control = control,
                   .msg_controllen = sizeof control};
    if (recvmsg(sockets[1], &message, 0) != 1) return 3;
    int fd;
    std::memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    auto mine = attach_in_child(fd, Side::consumer);
    return consume_numbers(mine);
  });
  ProcessStream stream = create({.bytes = 1 * TiB}, Side::producer);
  char byte = 0;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  iovec data{&byte, 1};
  msghdr message{
      .msg_iov = &data, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = stream.fd();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  ASSERT_EQ(sendmsg(sockets[0], &message, 0), 1);
  EXPECT_EQ(produce_numbers(stream), 0);
  EXPECT_EQ(child.wait(), 0);
  close(sockets[0]);
  close(sockets[1]);
}

TEST(ProcessStream, AConsumerLearnsThatItsProducerDied) {
  ProcessStream stream = create(
      {.bytes = 100 * block, .policy = ErrorPolicy::recover, .name = "orphan"}, Side::consumer);
  int written[2];
  ASSERT_EQ(::pipe(written), 0);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    std::memset(mine.writer(), 'x', 3 * block + 5);  // releases blocks 0 and 1 (L is 1)
    if (::write(written[1], "x", 1) == 1) pause();
    return 0;
  });
  close(written[1]);  // so that the child's end closes the pipe
  std::jthread killer([&] {
    char byte;
    EXPECT_EQ(::read(written[0], &byte, 1), 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the reader waits by now
    child.kill();
  });
  uint64_t seen = 0;  // outside of the callable: it must survive the jump
  auto read = RecoveryPoint::run([&] {
    while (stream.reader()[seen] == 'x') ++seen;
  });
  ASSERT_FALSE(read);
  EXPECT_EQ(seen, 2 * block);
  EXPECT_EQ(read.error().code, ErrorCode::cancelled);
  EXPECT_NE(read.error().message().find("has ended"), std::string::npos) << read.error().message();
  EXPECT_NE(read.error().message().find("orphan"), std::string::npos) << read.error().message();
  EXPECT_FALSE(stream.status());
  EXPECT_FALSE(stream.wait_ready(2 * block));
  killer.join();
  close(written[0]);
}

TEST(ProcessStream, TheRestOfADeadProducersStreamReadsAsZerosIfThatIsThePolicy) {
  ProcessStream stream =
      create({.bytes = 100 * block, .policy = ErrorPolicy::zeros}, Side::consumer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    std::memset(mine.writer(), 'x', 3 * block + 5);
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(std::count(stream.reader(), stream.reader() + 100 * block, 'x'),
            static_cast<ptrdiff_t>(2 * block));
  EXPECT_EQ(stream.status().error().code, ErrorCode::cancelled);
}

TEST(ProcessStream, AProducerLearnsThatItsConsumerDied) {
  ProcessStream stream = create({.bytes = 1 * TiB, .policy = ErrorPolicy::recover}, Side::producer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::consumer);
    ::kill(getpid(), mine.reader()[10 * block] == 'x' ? SIGKILL : SIGTERM);
    return 0;
  });
  auto written = RecoveryPoint::run([&] { std::memset(stream.writer(), 'x', 1 * GiB); });
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().message().find("has ended"), std::string::npos);
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_FALSE(stream.finish(1 * GiB));
}

TEST(ProcessStream, AProcessThatEndsInPeaceButUnfinishedIsNoticedToo) {
  ProcessStream stream =
      create({.bytes = 100 * block, .policy = ErrorPolicy::recover}, Side::consumer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    mine.writer()[0] = 'x';
    return 0;  // its destructor cancels
  });
  auto ready = stream.wait_ready(0);
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().message().find("closed"), std::string::npos) << ready.error().message();
}

TEST(ProcessStream, AFinishedProducerMayDie) {
  ProcessStream stream = create({.bytes = 100 * block}, Side::consumer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    std::memset(mine.writer(), 'x', 2 * block);
    if (!mine.finish(2 * block)) return 1;
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  EXPECT_EQ(child.wait(), -SIGKILL);
  EXPECT_EQ(stream.wait_ready(0), 2 * block);
  EXPECT_EQ(std::strlen(stream.reader()), 2 * block);
  EXPECT_TRUE(stream.status());
}

TEST(ProcessStream, AProcessThatNeverComesIsNotWaitedForForEver) {
  ProcessStream stream = create(
      {.bytes = 100 * block, .policy = ErrorPolicy::recover, .attach_ms_max = 100}, Side::consumer);
  auto ready = stream.wait_ready(0);
  ASSERT_FALSE(ready);
  EXPECT_NE(ready.error().message().find("attached"), std::string::npos);
}

TEST(ProcessStream, AFailureAndItsReasonReachTheOtherProcess) {
  ProcessStream stream =
      create({.bytes = 100 * block, .policy = ErrorPolicy::recover}, Side::consumer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    mine.fail(Error{ErrorCode::io, "read the sensor", std::string(1000, 's')});
    return mine.status().error().attempted == "read the sensor" ? 0 : 1;
  });
  auto read = RecoveryPoint::run([&] { return stream.reader()[0]; });
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::io);
  EXPECT_NE(stream.status().error().message().find("ssss"), std::string::npos);
  EXPECT_EQ(child.wait(), 0);
}

// The base class TwoSidedStream lets a process name the other side, too.
TEST(ProcessStream, AProcessEndsItsOwnSideAlone) {
  ProcessStream stream = create({.bytes = 1 * TiB}, Side::consumer);
  Child child([&] {
    auto mine = attach_in_child(stream.fd(), Side::producer);
    TwoSidedStream& any = mine;
    any.cancel(Side::consumer);
    any.fail(Side::consumer, Error{ErrorCode::io, "read the sensor"});
    return produce_numbers(mine);
  });
  EXPECT_EQ(consume_numbers(stream), 0);
  EXPECT_TRUE(stream.status());
  EXPECT_EQ(child.wait(), 0);
}

TEST(ProcessStream, ABreachIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ProcessStream stream = create(
            {.bytes = 100 * block, .read_ahead_blocks = 5, .strict = true, .name = "shared pipe"},
            Side::producer);
        for (uint64_t i = 0; i < 5; ++i) stream.writer()[i * block] = 'x';
        std::fputs("so far so good\n", stderr);
        stream.writer()[2 * block] = 'x';
      },
      "so far so good.*shared pipe.*producer in block 2: .*producer_comeback_blocks is 1, at "
      "least 2");
}

TEST(ProcessStream, ADescriptorOfNoStreamIsRefused) {
  EXPECT_EQ(ProcessStream::open({.bytes = 1, .block_bytes = 3}, Side::producer).error().code,
            ErrorCode::invalid_argument);
  int null_fd = open("/dev/null", O_RDWR);
  EXPECT_FALSE(ProcessStream::attach(null_fd, Side::producer));
  close(null_fd);
  EXPECT_FALSE(ProcessStream::attach(-1, Side::producer));

  int fd = memfd_create("stranger", MFD_ALLOW_SEALING);
  EXPECT_EQ(ProcessStream::attach(fd, Side::producer).error().code, ErrorCode::invalid_argument)
      << "its size is not sealed";
  ASSERT_EQ(ftruncate(fd, 1 * MiB), 0);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_EQ(ProcessStream::attach(fd, Side::producer).error().code, ErrorCode::invalid_argument);
  close(fd);

  ProcessStream stream = create({.bytes = 1}, Side::producer);
  EXPECT_EQ(ProcessStream::attach(stream.fd(), Side::producer).error().code,
            ErrorCode::invalid_argument)
      << "the side is taken";
  EXPECT_TRUE(ProcessStream::attach(stream.fd(), Side::consumer));
}

TEST(ProcessStream, AttachingToADeadProcessIsAnError) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  // The child's stream outlives it, because this process opens its descriptor through /proc.
  Child child([&] {
    auto mine = ProcessStream::open({.bytes = 100 * block, .block_bytes = block}, Side::producer);
    const int fd = mine->fd();
    if (write(pipe_fds[1], &fd, sizeof fd) != sizeof fd) return 1;
    char byte;
    if (read(sockets[1], &byte, 1) != 1) return 1;
    ::kill(getpid(), SIGKILL);
    return 0;
  });
  int theirs = -1;
  ASSERT_EQ(read(pipe_fds[0], &theirs, sizeof theirs), static_cast<ssize_t>(sizeof theirs));
  // The child's process id is not public, so search the children of this process.
  std::string children;
  {
    FILE* file = std::fopen("/proc/thread-self/children", "r");
    if (file == nullptr) GTEST_SKIP() << "/proc/PID/children is not in this kernel";
    char text[64] = {};
    ASSERT_NE(std::fgets(text, sizeof text, file), nullptr);
    std::fclose(file);
    children = std::to_string(std::atoi(text));
  }
  int fd = open(("/proc/" + children + "/fd/" + std::to_string(theirs)).c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(write(sockets[0], "x", 1), 1);
  EXPECT_EQ(child.wait(), -SIGKILL);
  auto late = ProcessStream::attach(fd, Side::consumer);
  ASSERT_FALSE(late);
  EXPECT_NE(late.error().message().find("has ended"), std::string::npos) << late.error().message();
  for (int open_fd : {fd, pipe_fds[0], pipe_fds[1], sockets[0], sockets[1]}) close(open_fd);
}

// Nonsense that the other process writes into the shared state may only stop or starve this one.
TEST(ProcessStream, ASharedHeadFullOfNonsenseHarmsNothing) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(seed);
    ProcessStream stream = create(
        {.bytes = 3 * GiB, .policy = ErrorPolicy::zeros, .attach_ms_max = 200}, Side::consumer);
    auto* words = static_cast<uint64_t*>(
        mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, stream.fd(), 0));
    ASSERT_NE(words, MAP_FAILED);
    Random random(seed);
    for (int i = 0; i < 300; ++i) {
      words[random.below(4096 / 8)] = random.below(2) == 0 ? random.next() : random.below(1u << 20);
    }
    (void)stream.wait_ready(random.below(4 * GiB));
    (void)stream.prepare_read(stream.reader() + random.below(3 * GiB - 100), 100);
    (void)ProcessStream::attach(stream.fd(), Side::producer);
    munmap(words, 4096);
  }
}

uint8_t value_at(uint64_t seed, uint64_t offset) {
  return static_cast<uint8_t>(1 + mix64(seed + offset) % 255);
}

// Random shapes; the producer is killed at a random moment. All blocks that the consumer sees
// before the error must be as written.
TEST(ProcessStream, BlocksReleasedBeforeADeathAreRight) {
  const Seeds seeds = stress_seeds(trials(60));
  for (uint64_t seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE("PENSTOCK_STRESS_SEED=" + std::to_string(seed));
    Random random(seed);
    const uint64_t bytes = 1 + random.below(200 * block);
    ProcessStream::Options options{
        .bytes = bytes,
        .block_bytes = 4 * KiB << random.below(5),
        .read_ahead_blocks = static_cast<uint32_t>(random.below(3)),
        .producer_comeback_blocks = static_cast<uint32_t>(random.below(3)),
        .consumer_comeback_blocks = static_cast<uint32_t>(random.below(3)),
        .policy = ErrorPolicy::recover,
        .attach_ms_max = 1000,  // the producer may be killed before it attaches
        .strict = random.below(2) == 0};
    const bool consumer_dies = random.below(3) == 0;
    const uint64_t delay_us = random.below(20'000);
    const Side mine = consumer_dies ? Side::producer : Side::consumer;
    auto stream = create(options, mine);
    auto produce = [&](ProcessStream& at) {
      uint8_t* data = at.writer<uint8_t>();
      for (uint64_t i = 0; i < bytes; ++i) data[i] = value_at(seed, i);
      return at.finish(bytes);
    };
    uint64_t seen = 0, wrong = 0;
    auto consume = [&](ProcessStream& at) {
      const uint8_t* data = at.reader<uint8_t>();
      for (; seen < bytes; ++seen) wrong += data[seen] != value_at(seed, seen);
    };
    Child child([&] {
      auto theirs =
          attach_in_child(stream.fd(), mine == Side::producer ? Side::consumer : Side::producer,
                          {.strict = options.strict});
      if (consumer_dies) {
        consume(theirs);
        return wrong == 0 ? 0 : 1;
      }
      return produce(theirs) ? 0 : 1;
    });
    std::jthread killer([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      child.kill();
    });
    alarm(30);
    auto done = RecoveryPoint::run([&] {
      if (consumer_dies) {
        (void)produce(stream);
      } else {
        consume(stream);
      }
    });
    alarm(0);
    EXPECT_EQ(wrong, 0u);
    if (!done) {
      EXPECT_EQ(done.error().code, ErrorCode::cancelled) << done.error().message();
    } else if (!consumer_dies) {
      EXPECT_EQ(seen, bytes);
    }
  }
}

}  // namespace
}  // namespace penstock
