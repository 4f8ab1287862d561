// Test labels: first

#include "io/engine.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/run_scope.h"
#include "base/temporary_folder_fixture.h"
#include "base/thread.h"
#include "base/trials.h"
#include "penstock/base.h"
#include "test/support/environment.h"
#include "test/support/injection.h"

namespace penstock::io {
namespace {

namespace fs = std::filesystem;

// Sector-aligned memory with room for any displacement.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : data_(static_cast<std::byte*>(std::aligned_alloc(
                  sector_bytes, round_up(bytes + 2 * sector_bytes, sector_bytes))),
              &std::free) {}
  std::byte* at(size_t displacement = 0) const { return data_.get() + displacement; }

 private:
  std::unique_ptr<std::byte, decltype(&std::free)> data_;
};

void fill(std::byte* to, size_t bytes, uint64_t seed) {
  Random random(seed);
  for (size_t i = 0; i < bytes; i += 8) {
    const uint64_t word = random.next();
    std::memcpy(to + i, &word, std::min<size_t>(8, bytes - i));
  }
}

class EngineTest : public testing::TestWithParam<EngineKind> {
 protected:
  ~EngineTest() override {
    engine_.reset();
    inject({});
  }

  void open(unsigned depth = 64) {
    auto engine = Engine::open({.depth = depth, .kind = GetParam()});
    if (!engine) GTEST_SKIP() << engine.error().message();
    engine_ = std::move(*engine);
    ASSERT_EQ(engine_->kind(), GetParam());
  }
  File temporary(Caching wanted = Caching::direct) {
    auto file = File::create_temporary(directory_.string(), wanted);
    EXPECT_TRUE(file);
    return std::move(*file);
  }
  // Returns both ends of a new pipe, as streams.
  std::pair<File, File> pipe() {
    const std::string name = (directory_ / "pipe").string();
    EXPECT_EQ(::mkfifo(name.c_str(), 0600), 0);
    int keep_open = ::open(name.c_str(), O_RDWR);
    auto in = File::open_read(name);
    auto out = File::create_output(name);
    ::close(keep_open);
    fs::remove(name);
    EXPECT_TRUE(in && out);
    return {std::move(*in), std::move(*out)};
  }

  void check_against_model(const Injection& injection, Caching caching);

  const TemporaryFolder folder_;
  const fs::path directory_ = folder_.path();
  std::unique_ptr<Engine> engine_;
};

// Writes disjoint pieces in rounds, sharing pages at their ends, all in flight at once; then reads
// anywhere. Every piece starts at any byte, in memory at the same or another place in the sector.
void EngineTest::check_against_model(const Injection& injection, Caching caching) {
  SCOPED_TRACE(testing::Message() << "seed " << injection.seed);
  engine_.reset();
  inject(injection);
  open(24);
  if (IsSkipped()) return;
  Random random(injection.seed);
  constexpr size_t file_bytes = 2 * MiB;
  File file = temporary(caching);
  std::vector<std::byte> model(file_bytes);
  ASSERT_TRUE(file.set_size(file_bytes));
  struct Piece {
    Request request;
    std::unique_ptr<Buffer> buffer;
  };
  auto piece = [&](Operation operation, uint64_t offset, size_t bytes) {
    auto buffer = std::make_unique<Buffer>(bytes);
    const size_t displacement =
        random.below(3) == 0 ? random.below(sector_bytes) : offset % sector_bytes;
    Request request{.operation = operation,
                    .file = &file,
                    .offset = offset,
                    .data = buffer->at(displacement),
                    .bytes = bytes};
    return Piece{request, std::move(buffer)};
  };
  auto run = [&](std::vector<Piece>& pieces) {
    for (Piece& p : pieces) engine_->submit(p.request);
    for (size_t i = random.below(pieces.size() + 1); i < pieces.size(); ++i)
      engine_->wait(pieces[i].request);
    while (engine_->wait_any() != nullptr) {
    }
    ASSERT_EQ(engine_->in_flight(), 0u);
    for (const Piece& p : pieces) ASSERT_FALSE(p.request.in_flight);
  };
  for (int round = 0; round < 12; ++round) {
    std::vector<Piece> writes;
    for (uint64_t offset = random.below(5000); offset < file_bytes;) {
      const size_t longest = random.below(4) == 0 ? 300 * KiB : 20'000;
      size_t bytes = std::min<size_t>(random.below(longest), file_bytes - offset);
      if (random.below(3) == 0)
        bytes = std::min<size_t>(round_up(offset + bytes, sector_bytes), file_bytes) - offset;
      if (random.below(4) != 0) {
        writes.push_back(piece(Operation::write, offset, bytes));
        Request& request = writes.back().request;
        fill(request.data, bytes, random.next());
        if (bytes > 0) std::memcpy(&model[offset], request.data, bytes);
      }
      offset += bytes + (random.below(3) == 0 ? random.below(9000) : 0);
    }
    run(writes);
    for (const Piece& p : writes) {
      ASSERT_EQ(p.request.error, 0);
      ASSERT_EQ(p.request.done_bytes, p.request.bytes);
    }
    std::vector<Piece> reads;
    for (int i = 0; i < 30; ++i) {
      const uint64_t offset = random.below(file_bytes + 3000);
      reads.push_back(piece(Operation::read, offset, random.below(200 * KiB)));
    }
    run(reads);
    for (const Piece& p : reads) {
      const size_t there = p.request.offset >= file_bytes
                               ? 0
                               : std::min<size_t>(p.request.bytes, file_bytes - p.request.offset);
      ASSERT_EQ(p.request.error, 0);
      ASSERT_EQ(p.request.done_bytes, there) << p.request.offset << " + " << p.request.bytes;
      if (there == 0) continue;
      ASSERT_EQ(std::memcmp(p.request.data, &model[p.request.offset], there), 0)
          << p.request.offset << " + " << there;
    }
  }
}

TEST_P(EngineTest, AnyRangesAgreeWithAPlainModel) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 3; ++seed) {
    check_against_model({.seed = seed}, Caching::direct);
    check_against_model({.seed = seed}, Caching::buffered);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(EngineTest, AnyRangesAgreeWithAPlainModelUnderShortTransfersAndDelays) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 3; ++seed) {
    check_against_model({.seed = seed, .short_transfer = 0.4, .delay = 0.2, .delay_us_max = 400},
                        Caching::direct);
    check_against_model({.seed = seed, .short_transfer = 0.4, .delay = 0.2, .delay_us_max = 400},
                        Caching::buffered);
    if (HasFatalFailure() || IsSkipped()) return;
  }
}

TEST_P(EngineTest, ManyLargeRequestsAtOnce) {
  constexpr size_t count = 256, bytes = MiB;
  open(64);
  if (IsSkipped()) return;
  File file = temporary();
  Buffer buffer(count * bytes);
  std::vector<Request> requests(count);
  auto submit_all = [&](Operation operation) {
    for (size_t i = 0; i < count; ++i) {
      requests[i] = {.operation = operation,
                     .file = &file,
                     .offset = i * bytes,
                     .data = buffer.at(i * bytes),
                     .bytes = bytes,
                     .tag = i};
      engine_->submit(requests[i]);
    }
    EXPECT_EQ(engine_->in_flight(), count);
    std::vector<bool> seen(count);
    while (Request* request = engine_->wait_any()) {
      EXPECT_FALSE(seen[request->tag]) << "reported twice";
      seen[request->tag] = true;
      EXPECT_EQ(request->done_bytes, bytes);
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), true), static_cast<ptrdiff_t>(count));
  };
  for (size_t i = 0; i < count; ++i) fill(buffer.at(i * bytes), 64, i);
  submit_all(Operation::write);
  for (size_t i = 0; i < count; ++i) std::memset(buffer.at(i * bytes), 0, 64);
  submit_all(Operation::read);
  for (size_t i = 0; i < count; ++i) {
    std::byte expected[64];
    fill(expected, 64, i);
    ASSERT_EQ(std::memcmp(buffer.at(i * bytes), expected, 64), 0) << i;
  }
}

TEST_P(EngineTest, AnErrorEndsItsRequestAndNothingElse) {
  inject({.seed = 1, .error = EIO, .error_after = 3, .error_operation = Operation::read});
  open();
  if (IsSkipped()) return;
  File file = temporary();
  Buffer buffer(8 * sector_bytes);
  std::memset(buffer.at(), 1, 8 * sector_bytes);
  std::vector<Request> requests(8);
  for (size_t i = 0; i < 8; ++i) {
    requests[i] = {.operation = Operation::write,
                   .file = &file,
                   .offset = i * sector_bytes,
                   .data = buffer.at(i * sector_bytes),
                   .bytes = sector_bytes};
    engine_->submit(requests[i]);
  }
  for (Request& request : requests) {
    engine_->wait(request);
    EXPECT_EQ(request.error, 0);
  }
  for (Request& request : requests) {
    request.operation = Operation::read;
    engine_->submit(request);
  }
  int failed = 0;
  for (Request& request : requests) {
    engine_->wait(request);
    EXPECT_TRUE(request.error == EIO || request.done_bytes == sector_bytes);
    failed += request.error == EIO;
  }
  EXPECT_EQ(failed, 5);
  EXPECT_EQ(engine_->wait_any(), nullptr);
}

TEST_P(EngineTest, ASystemErrorIsReported) {
  open();
  if (IsSkipped()) return;
  auto full = File::create_output("/dev/full");
  if (!full) GTEST_SKIP() << full.error().message();
  Buffer buffer(sector_bytes);
  std::memset(buffer.at(), 0, sector_bytes);
  Request request{
      .operation = Operation::write, .file = &*full, .data = buffer.at(), .bytes = sector_bytes};
  engine_->submit(request);
  engine_->wait(request);
  EXPECT_EQ(request.error, ENOSPC);
}

TEST_P(EngineTest, APipeIsWrittenInTheOrderOfSubmission) {
  inject({.seed = seed_of_run(), .short_transfer = 0.3, .delay = 0.2, .delay_us_max = 300});
  for (const bool blocking : {true, false}) {
    open(32);
    if (IsSkipped()) return;
    auto [in, out] = pipe();
    if (!blocking) ::fcntl(out.descriptor(), F_SETFL, O_NONBLOCK);
    Random random(seed_of_run());
    std::vector<std::byte> sent(700'000), received(sent.size());
    fill(sent.data(), sent.size(), 7);
    std::vector<Request> writes;
    for (size_t done = 0; done < sent.size();) {
      const size_t bytes = std::min<size_t>(random.below(60'000), sent.size() - done);
      writes.push_back({.operation = Operation::write,
                        .file = &out,
                        .data = sent.data() + done,
                        .bytes = bytes});
      done += bytes;
    }
    std::jthread reader([&, fd = in.descriptor()] {
      for (size_t done = 0; done < received.size();) {
        const ssize_t got = ::read(fd, &received[done], received.size() - done);
        ASSERT_GT(got, 0);
        done += static_cast<size_t>(got);
      }
    });
    // One engine has as many in flight as its depth allows.
    for (Request& write : writes) engine_->submit(write);
    for (Request& write : writes) {
      engine_->wait(write);
      ASSERT_EQ(write.error, 0);
    }
    reader.join();
    EXPECT_TRUE(received == sent);
  }
}

TEST_P(EngineTest, WaitingForAFullPipeSleeps) {
  open();
  if (IsSkipped()) return;
  auto [in, out] = pipe();
  ::fcntl(out.descriptor(), F_SETFL, O_NONBLOCK);
  std::vector<std::byte> data(200'000);
  Request write{
      .operation = Operation::write, .file = &out, .data = data.data(), .bytes = data.size()};
  std::jthread reader([fd = in.descriptor()] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::vector<std::byte> room(200'000);
    for (size_t done = 0; done < room.size();)
      done += static_cast<size_t>(std::max<ssize_t>(1, ::read(fd, room.data(), room.size())));
  });
  rusage before, after;
  ::getrusage(RUSAGE_THREAD, &before);
  engine_->submit(write);
  engine_->wait(write);
  ::getrusage(RUSAGE_THREAD, &after);
  EXPECT_EQ(write.error, 0);
  auto cpu_us = [](const rusage& usage) {
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1'000'000 + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
  };
  EXPECT_LT(cpu_us(after) - cpu_us(before), 100'000);
}

TEST_P(EngineTest, RequestsSurviveTheThreadThatSubmittedThem) {
  open();
  if (IsSkipped()) return;
  auto [in, out] = pipe();
  File file = temporary();
  ASSERT_TRUE(file.set_size(8 * MiB));
  Buffer buffer(8 * MiB);
  std::vector<std::byte> text(200'000, std::byte{'x'});  // more than a pipe takes
  Request to_pipe{
      .operation = Operation::write, .file = &out, .data = text.data(), .bytes = text.size()};
  Request from_file{
      .operation = Operation::read, .file = &file, .data = buffer.at(), .bytes = 8 * MiB};
  std::thread([&] {
    engine_->submit(to_pipe);
    engine_->submit(from_file);
  }).join();
  engine_->wait(from_file);
  EXPECT_EQ(from_file.done_bytes, 8 * MiB);
  std::vector<std::byte> got(text.size());
  std::jthread reader([&, fd = in.descriptor()] {
    for (size_t done = 0; done < got.size();)
      done += static_cast<size_t>(std::max<ssize_t>(1, ::read(fd, &got[done], got.size() - done)));
  });
  engine_->wait(to_pipe);
  EXPECT_EQ(to_pipe.error, 0);
  reader.join();
  EXPECT_TRUE(got == text);
}

TEST_P(EngineTest, DestructionWaitsForRequestsInFlight) {
  inject({.seed = 3, .delay = 1, .delay_us_max = 3000});
  open(16);
  if (IsSkipped()) return;
  File file = temporary();
  Buffer buffer(16 * MiB);
  std::memset(buffer.at(), 1, 16 * MiB);
  std::vector<Request> requests(16);
  for (size_t i = 0; i < 16; ++i) {
    requests[i] = {.operation = Operation::write,
                   .file = &file,
                   .offset = i * MiB,
                   .data = buffer.at(i * MiB),
                   .bytes = MiB};
    engine_->submit(requests[i]);
  }
  engine_.reset();
  for (const Request& request : requests) EXPECT_EQ(request.done_bytes, MiB);
  EXPECT_EQ(*file.size(), 16 * MiB);
}

TEST_P(EngineTest, TrafficCountsBytesRequestsAndSeeks) {
  open();
  if (IsSkipped()) return;
  File file = temporary();
  Buffer buffer(4 * sector_bytes);
  std::memset(buffer.at(), 0, 4 * sector_bytes);
  auto write_at = [&](uint64_t sector) {
    Request request{.operation = Operation::write,
                    .file = &file,
                    .offset = sector * sector_bytes,
                    .data = buffer.at(),
                    .bytes = sector_bytes};
    engine_->submit(request);
    engine_->wait(request);
  };
  const Traffic before = traffic();
  for (uint64_t sector : {0, 1, 2, 7, 8, 3}) write_at(sector);
  const Traffic after = traffic();
  EXPECT_EQ(after.bytes_written - before.bytes_written, 6 * sector_bytes);
  EXPECT_EQ(after.bytes_read - before.bytes_read, 0u);
  EXPECT_EQ(after.requests - before.requests, 6u);
  EXPECT_EQ(after.seeks - before.seeks, 2u);
  // The first request follows one at another place.
  EXPECT_EQ(after.switches - before.switches, 3u);
}

TEST_P(EngineTest, CountsForTheRunThatOpenedIt) {
  const auto account = std::make_shared<TrafficAccount>();
  {
    const RunScope scope({.traffic = account});
    open();
  }
  if (IsSkipped()) return;
  File file = temporary();
  Buffer buffer(sector_bytes);
  std::memset(buffer.at(), 0, sector_bytes);
  const Traffic before = traffic();
  const auto run = [&](Operation operation) {
    Request request{
        .operation = operation, .file = &file, .data = buffer.at(), .bytes = sector_bytes};
    engine_->submit(request);
    engine_->wait(request);
    EXPECT_EQ(request.error, 0);
  };
  run(Operation::write);
  run(Operation::read);
  EXPECT_EQ(account->bytes_written, sector_bytes);
  EXPECT_EQ(account->bytes_read, sector_bytes);
  EXPECT_EQ(account->requests, 2u);
  EXPECT_EQ(traffic().requests, before.requests) << "this thread works for no run";
  ASSERT_TRUE(write_exactly(file, 0, buffer.at(), sector_bytes));
  EXPECT_EQ(traffic().requests, before.requests + 1);
  EXPECT_EQ(account->requests, 2u);
}

TEST_P(EngineTest, EveryChangeOfTheFileIsASwitch) {
  open();
  if (IsSkipped()) return;
  File files[] = {temporary(), temporary()};
  Buffer buffer(2 * sector_bytes);
  std::memset(buffer.at(), 0, 2 * sector_bytes);
  uint64_t next[2] = {0, 0};
  auto write_next = [&](size_t file) {
    Request request{.operation = Operation::write,
                    .file = &files[file],
                    .offset = std::exchange(next[file], next[file] + sector_bytes),
                    .data = buffer.at(),
                    .bytes = sector_bytes};
    engine_->submit(request);
    engine_->wait(request);
  };
  const Traffic before = traffic();
  for (size_t file : {0, 0, 1, 1, 1, 0, 1}) write_next(file);
  const Traffic after = traffic();
  EXPECT_EQ(after.switches - before.switches, 4u);
  EXPECT_EQ(after.seeks - before.seeks, 0u) << "each file alone was written in order";
}

TEST_P(EngineTest, ABufferedWriterDoesNotFillThePageCacheWithDirtyPages) {
  open();
  if (IsSkipped()) return;
  File file = temporary(Caching::buffered);
  struct statfs system;
  Buffer buffer(MiB);
  std::memset(buffer.at(), 1, MiB);
  constexpr uint64_t mib = 256;
  for (uint64_t i = 0; i < mib; ++i) {
    Request request{.operation = Operation::write,
                    .file = &file,
                    .offset = i * MiB,
                    .data = buffer.at(),
                    .bytes = MiB};
    engine_->submit(request);
    engine_->wait(request);
  }
  void* view = ::mmap(nullptr, mib * MiB, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  ASSERT_NE(view, MAP_FAILED);
  std::vector<unsigned char> pages(mib * MiB / sector_bytes);
  ASSERT_EQ(::mincore(view, mib * MiB, pages.data()), 0);
  ::munmap(view, mib * MiB);
  const auto resident =
      std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; });
  if (::fstatfs(file.descriptor(), &system) == 0 && system.f_type == TMPFS_MAGIC)
    GTEST_SKIP() << "tmpfs is page cache";
  EXPECT_LT(static_cast<uint64_t>(resident) * sector_bytes, 100 * MiB);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EngineTest,
                         testing::Values(EngineKind::io_uring, EngineKind::threads,
                                         EngineKind::caller),
                         [](const auto& kind) { return name_of(kind.param); });

TEST(EngineChoice, ThreadsServeIfIoUringIsRefused) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog filter{.len = std::size(program), .filter = program};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
      ::_exit(77);
    ::unsetenv("PENSTOCK_IO");
    auto engine = Engine::open();
    auto refused = Engine::open({.kind = EngineKind::io_uring});
    const bool right = engine && (*engine)->kind() == EngineKind::threads && !refused &&
                       refused.error().code == ErrorCode::permission;
    ::_exit(right ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system has no seccomp filters";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// ---- refusals after the opening

// Runs `work` in a child process, which it may spoil. Its result: 0: success; 77: to be skipped.
template <class Work>
void expect_in_child(const Work& work) {
  pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::alarm(60);  // ends a child that would wait for ever
    ::_exit(work());
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_FALSE(WIFSIGNALED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this system cannot refuse that";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool refuse_threads() {
  // The limit does not apply to root.
  if (::getuid() == 0 && ::setresuid(65534, 65534, 65534) != 0) return false;
  const rlimit none{};
  if (::setrlimit(RLIMIT_NPROC, &none) != 0) return false;
  std::thread thread;
  return !try_start_thread(thread, [] {}) || (thread.join(), false);
}

bool refuse_entering(int error) {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_enter, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog filter{.len = std::size(program), .filter = program};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

struct Pipe {
  int in;
  File out;
};

// Opens an output that is a pipe, which has a thread. The process that uses it opens it, because a
// sanitizer does not fork with threads.
Result<Pipe> open_pipe() {
  int ends[2];
  if (::pipe(ends) != 0) return system_error(errno, "open", "pipe");
  auto out = File::create_output("/dev/fd/" + std::to_string(ends[1]));
  if (!out) return std::unexpected(out.error());
  return Pipe{ends[0], std::move(*out)};
}

// Writes and reads a file in several requests at once, and writes a pipe.
int serves_files_and_pipes(Engine& engine, const File& file, const std::byte* data) {
  const auto pipe = open_pipe();
  if (!pipe) return 4;
  constexpr size_t count = 8;
  Buffer read_back(count * MiB);
  for (Operation operation : {Operation::write, Operation::read}) {
    std::byte* at = operation == Operation::write ? const_cast<std::byte*>(data) : read_back.at();
    std::vector<Request> requests(count);
    for (size_t i = 0; i < count; ++i) {
      requests[i] = {.operation = operation,
                     .file = &file,
                     .offset = i * MiB,
                     .data = at + i * MiB,
                     .bytes = MiB};
      engine.submit(requests[i]);
    }
    for (Request& request : requests) engine.wait(request);
    for (const Request& request : requests) {
      if (request.error != 0 || request.done_bytes != MiB) return 2;
    }
  }
  if (std::memcmp(read_back.at(), data, count * MiB) != 0) return 3;

  char letters[] = "abcd", got[4] = {};
  Request first{.operation = Operation::write,
                .file = &pipe->out,
                .data = reinterpret_cast<std::byte*>(letters),
                .bytes = 2};
  Request second = first;
  second.data += 2;
  engine.submit(first);
  engine.submit(second);
  engine.wait(first);
  engine.wait(second);
  if (::read(pipe->in, got, 4) != 4 || std::memcmp(letters, got, 4) != 0) return 5;
  return 0;
}

TEST_P(EngineTest, ServesIfTheSystemRefusesThreads) {
  for (Caching caching : {Caching::buffered, Caching::direct}) {
    File file = temporary(caching);
    Buffer data(8 * MiB);
    fill(data.at(), 8 * MiB, 1);
    expect_in_child([&] {
      if (!refuse_threads()) return 77;
      auto engine = Engine::open({.kind = GetParam()});
      if (!engine) return GetParam() == EngineKind::io_uring ? 77 : 1;
      return serves_files_and_pipes(**engine, file, data.at());
    });
  }
}

TEST_P(EngineTest, ServesIfTheSystemRefusesEntries) {
  for (int error : {ENOMEM, EIO, EACCES, EAGAIN}) {
    SCOPED_TRACE(testing::Message() << "errno " << error);
    File file = temporary();
    Buffer data(8 * MiB);
    fill(data.at(), 8 * MiB, 2);
    expect_in_child([&] {
      auto engine = Engine::open({.kind = GetParam()});
      if (!engine) return 77;
      // A request in flight while the system begins to refuse.
      Request early{.operation = Operation::write,
                    .file = &file,
                    .offset = 8 * MiB,
                    .data = data.at(),
                    .bytes = 8 * MiB};
      (*engine)->submit(early);
      if (!refuse_entering(error)) return 77;
      const int right = serves_files_and_pipes(**engine, file, data.at());
      (*engine)->wait(early);
      if (early.error != 0 || early.done_bytes != 8 * MiB) return 9;
      return right;
    });
  }
}

TEST(EngineChoice, SetsUpNothingForFewBytes) {
  ::unsetenv("PENSTOCK_IO");
  auto engine = Engine::open({.total_bytes = 4 * KiB});
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->kind(), EngineKind::caller);
  auto asked_for = Engine::open({.kind = EngineKind::threads, .total_bytes = 4 * KiB});
  ASSERT_TRUE(asked_for);
  EXPECT_EQ((*asked_for)->kind(), EngineKind::threads);
  auto much = Engine::open({.total_bytes = 64 * MiB});
  ASSERT_TRUE(much);
  EXPECT_NE((*much)->kind(), EngineKind::caller);
}

TEST(EngineChoice, TheEnvironmentOverridesAutomatic) {
  ::setenv("PENSTOCK_IO", "threads", 1);
  auto engine = Engine::open();
  ASSERT_TRUE(engine);
  EXPECT_EQ((*engine)->kind(), EngineKind::threads);
  auto little = Engine::open({.total_bytes = 4 * KiB});
  ASSERT_TRUE(little);
  EXPECT_EQ((*little)->kind(), EngineKind::threads);
  ::setenv("PENSTOCK_IO", "carrier pigeon", 1);
  EXPECT_FALSE(Engine::open());
  ::unsetenv("PENSTOCK_IO");
  EXPECT_FALSE(Engine::open({.depth = 0}));
}

TEST(InjectionTest, IsReadFromText) {
  const auto injection =
      Injection::parse("seed=7,short=0.25,delay=0.5:500,error=ENOSPC@write:100,forget=3");
  ASSERT_TRUE(injection.has_value());
  EXPECT_EQ(injection->seed, 7u);
  EXPECT_DOUBLE_EQ(injection->short_transfer, 0.25);
  EXPECT_DOUBLE_EQ(injection->delay, 0.5);
  EXPECT_EQ(injection->delay_us_max, 500u);
  EXPECT_EQ(injection->error, ENOSPC);
  EXPECT_EQ(injection->error_operation, Operation::write);
  EXPECT_EQ(injection->error_after, 100u);
  EXPECT_EQ(injection->forget, 3u);
  for (const char* text : {"nonsense", "seed", "seed=x", "error=EPERM@write:1", "error=EIO@walk:1",
                           "short=0.1,,", "delay=0.1:x"}) {
    const auto refused = Injection::parse(text);
    ASSERT_FALSE(refused.has_value()) << text;
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_argument);
  }
}

// Foreign programs may have any environment: only our own programs obey it.
TEST(InjectionTest, TheLibraryAloneDoesNotLookAtTheEnvironment) {
  ::setenv("PENSTOCK_INJECT", "nonsense", 1);
  EXPECT_TRUE(Engine::open().has_value());
  EXPECT_EQ(obey_environment().error().code, ErrorCode::invalid_argument);
  ::setenv("PENSTOCK_INJECT", "flip=9", 1);
  EXPECT_EQ(injected().flip, 0u);
  ASSERT_TRUE(obey_environment().has_value());
  EXPECT_EQ(injected().flip, 9u);
  inject({});
  ::unsetenv("PENSTOCK_INJECT");
}

}  // namespace
}  // namespace penstock::io
