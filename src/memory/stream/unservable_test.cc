// Tests of faults that no stream can serve: in a forked child, which cannot use its parent's
// streams and gets an error, loses nothing by ending them, and does not disturb the parent; and in
// memory that the hardware has lost.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bits.h"
#include "io/whole_file_fixture.h"
#include "memory/fault/registry.h"
#include "memory/stream/file_fixture.h"
#include "memory/stream/forked_child_fixture.h"
#include "os/sanitizer.h"
#include "penstock/file_stream.h"
#include "penstock/region.h"
#include "penstock/stream.h"

namespace penstock::stream {
namespace {

template <class Options>
Options options(Mechanism mechanism = Mechanism::automatic) {
  Options options;
  options.bytes = blocks * block_bytes;
  options.policy = ErrorPolicy::recover;
  options.name = "the subject";
  if constexpr (requires { options.block_bytes; }) options.block_bytes = block_bytes;
  if constexpr (requires { options.read_ahead_blocks; }) options.read_ahead_blocks = blocks;
  if constexpr (requires { options.mechanism; }) options.mechanism = mechanism;
  return options;
}

// A stream that its user fills from `begin` on and `is_whole` finishes and checks.
template <class Stream>
Subject filled(Result<Stream> opened, auto begin_of, auto ahead_of, auto is_whole) {
  const auto stream = std::make_shared<std::optional<Stream>>(std::move(*opened));
  std::byte* const begin = begin_of(**stream);
  fill(begin, 0), fill(begin + block_bytes, 1);
  return {.shown = begin + block_bytes,
          .ahead = ahead_of(**stream),
          .end = [stream] { stream->reset(); },
          .goes_on =
              [stream, begin, is_whole] {
                fill_rest(begin);
                return is_whole(**stream);
              }};
}

Result<Subject> remap(Mechanism mechanism) {
  auto opened = RemapStream::open(options<RemapStream::Options>(mechanism));
  if (!opened) return std::unexpected(opened.error());
  const auto reader = [](const RemapStream& stream) { return stream.reader<std::byte>(); };
  return filled(
      std::move(opened), [](const RemapStream& stream) { return stream.writer<std::byte>(); },
      reader,
      [reader](RemapStream& stream) {
        return stream.finish(blocks * block_bytes) && holds_all(reader(stream));
      });
}

Result<Subject> guard(Mechanism) {
  auto opened = GuardStream::open(options<GuardStream::Options>());
  if (!opened) return std::unexpected(opened.error());
  const auto writer = [](const GuardStream& stream) { return stream.writer<std::byte>(); };
  return filled(
      std::move(opened), writer,
      [writer](const GuardStream& stream) { return writer(stream) + 3 * block_bytes; },
      [](GuardStream& stream) {
        return stream.finish(blocks * block_bytes) && holds_all(stream.reader<std::byte>());
      });
}

Result<Subject> process(Mechanism) {
  auto opened = ProcessStream::open(options<ProcessStream::Options>(), Side::producer);
  if (!opened) return std::unexpected(opened.error());
  auto other = ProcessStream::attach(opened->fd(), Side::consumer);
  if (!other) return std::unexpected(other.error());
  const auto consumer = std::make_shared<ProcessStream>(std::move(*other));
  const auto reader = [consumer](const ProcessStream&) { return consumer->reader<std::byte>(); };
  return filled(
      std::move(opened), [](const ProcessStream& stream) { return stream.writer<std::byte>(); },
      reader,
      [reader](ProcessStream& stream) {
        return stream.finish(blocks * block_bytes) && holds_all(reader(stream));
      });
}

// A stream that fills itself, of which block 0 has been read. Keeps `name` until its end.
template <class Stream>
Result<Subject> read_of(Result<Stream> opened, std::shared_ptr<void> name = nullptr) {
  if (!opened) return std::unexpected(opened.error());
  const auto stream = std::make_shared<std::optional<Stream>>(std::move(*opened));
  auto* const begin = const_cast<std::byte*>((*stream)->template begin<std::byte>());
  const bool first = holds(begin, 0);
  return Subject{.shown = begin,
                 .ahead = begin + 2 * block_bytes,
                 .end = [stream] { stream->reset(); },
                 .goes_on = [name, stream, begin, first] { return first && holds_all(begin); }};
}

Result<Subject> pull(Mechanism mechanism) {
  return read_of(PullStream::open(
      options<PullStream::Options>(mechanism),
      [](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
        std::memset(block.data(), static_cast<int>(offset / block_bytes + 1), block.size());
        return block.size();
      }));
}

Result<Subject> array(Mechanism mechanism) {
  auto pool =
      BlockPool::open({.block_bytes = block_bytes, .blocks = blocks + 1, .mechanism = mechanism});
  if (!pool) return std::unexpected(pool.error());
  auto opened = VanishingArray::open(*pool, options<VanishingArray::Options>());
  if (!opened) return std::unexpected(opened.error());
  const auto begin = [](const VanishingArray& array) { return array.begin<std::byte>(); };
  return filled(
      std::move(opened), begin,
      [begin](const VanishingArray& array) { return begin(array) + 2 * block_bytes; },
      [begin](const VanishingArray& array) { return holds_all(begin(array)); });
}

Result<Subject> region(Mechanism mechanism) {
  auto pool =
      BlockPool::open({.block_bytes = block_bytes, .blocks = blocks, .mechanism = mechanism});
  if (!pool) return std::unexpected(pool.error());
  return read_of(
      Region::open(*pool, options<Region::Options>(),
                   [pool = *pool](Region::Blocks& shown, const Region::Fault& fault) -> Status {
                     auto block = pool.take();
                     if (!block) return failure(ErrorCode::out_of_memory, "take a block");
                     fill(block.bytes().data(), fault.index);
                     if (const int error = shown.show(fault.index, std::move(block)))
                       return system_error(error, "show a block", "the subject");
                     return {};
                   }));
}

// A temporary file name; the file is removed at the end.
struct TemporaryName {
  std::string path = testing::TempDir() + "penstock-fork-" + std::to_string(::getpid());
  ~TemporaryName() { ::unlink(path.c_str()); }
};

Result<Subject> open_file(bool is_cached) {
  auto name = std::make_shared<TemporaryName>();
  {
    std::ofstream file(name->path, std::ios::binary);
    for (uint64_t i = 0; i < blocks; ++i)
      file << std::string(block_bytes, static_cast<char>(i + 1));
  }
  if (!is_cached) drop_from_page_cache(name->path);
  return read_of(
      FileReader::open(name->path, {.block_bytes = block_bytes, .policy = ErrorPolicy::recover}),
      name);
}

Result<Subject> file_reader(Mechanism) {
  return open_file(false);
}
Result<Subject> reader_of_cached_file(Mechanism) {
  return open_file(true);
}

Result<Subject> file_writer(Mechanism) {
  auto name = std::make_shared<TemporaryName>();
  auto opened = FileWriter::open(name->path, {.bytes_max = blocks * block_bytes,
                                              .block_bytes = block_bytes,
                                              .write_behind_blocks = 1,
                                              .policy = ErrorPolicy::recover});
  if (!opened) return std::unexpected(opened.error());
  const auto begin = [](const FileWriter& writer) { return writer.begin<std::byte>(); };
  return filled(
      std::move(opened), begin,
      [begin](const FileWriter& writer) { return begin(writer) + 2 * block_bytes; },
      [name](FileWriter& writer) {
        if (!writer.finish(blocks * block_bytes)) return false;
        const std::string all = io::read_whole(name->path);
        return all.size() == blocks * block_bytes &&
               holds_all(reinterpret_cast<const std::byte*>(all.data()));
      });
}

class ForkedChildThatRecovers : public ForkedChild {};

TEST_P(ForkedChildThatRecovers, IsSentToItsRecoveryPoint) {
  EXPECT_EXIT(
      {
        const Status touched = RecoveryPoint::run([&] { (void)load(subject_.shown); });
        ::_exit(!touched && touched.error().code == ErrorCode::unsupported ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(subject_.goes_on());
}

std::vector<Case> all(const std::vector<std::vector<Case>>& groups) {
  std::vector<Case> cases;
  for (const auto& group : groups) cases.insert(cases.end(), group.begin(), group.end());
  return cases;
}
std::vector<Case> those_with_a_policy() {
  return all({on_every_mechanism("remap", remap),
              on_every_mechanism("pull", pull),
              on_every_mechanism("array", array),
              on_every_mechanism("region", region),
              {{"guard", guard}, {"process", process}},
              {{"file_reader", file_reader},
               {"reader_of_cached_file", reader_of_cached_file},
               {"file_writer", file_writer}}});
}
INSTANTIATE_TEST_SUITE_P(Streams, ForkedChild, testing::ValuesIn(those_with_a_policy()),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Streams, ForkedChildThatRecovers, testing::ValuesIn(those_with_a_policy()),
                         name_of_case);

// Sends the signal as the kernel does.
void send_memory_error(const std::byte* address, int code) {
  siginfo_t info = {};
  info.si_signo = SIGBUS;
  info.si_code = code;
  info.si_addr = const_cast<std::byte*>(address);
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), SIGBUS, &info) != 0) std::abort();
}

class MemoryError : public ForkedChild {};

TEST_P(MemoryError, InABlockThatIsThereMeetsThePolicy) {
  const Status met = RecoveryPoint::run([&] { send_memory_error(subject_.shown, BUS_MCEERR_AR); });
  ASSERT_FALSE(met);
  EXPECT_EQ(met.error().code, ErrorCode::io);
  EXPECT_NE(met.error().message().find("a memory error of the hardware"), std::string::npos)
      << met.error().message();
  EXPECT_DEATH(send_memory_error(subject_.shown, BUS_MCEERR_AR),
               "cannot serve 0x.*: a memory error of the hardware");
  EXPECT_TRUE(subject_.goes_on());
}

// The interrupted code may be any: it is not sent to its recovery point.
TEST_P(MemoryError, InMemoryThatNoCodeTouchedIsReportedAndHandedOn) {
  EXPECT_EXIT(
      {
        ::signal(SIGBUS, SIG_DFL);  // a sanitizer has a handler of its own
        if (!fault::install()) ::_exit(3);
        const Status met =
            RecoveryPoint::run([&] { send_memory_error(subject_.shown, BUS_MCEERR_AO); });
        ::_exit(met ? 1 : 2);
      },
      testing::KilledBySignal(SIGBUS), "cannot serve 0x.*: a memory error of the hardware");
}

INSTANTIATE_TEST_SUITE_P(Streams, MemoryError, testing::ValuesIn(those_with_a_policy()),
                         name_of_case);

// A page for which a system call's fault was refused is poisoned: a load gets that as a memory
// error.
TEST(MemoryErrorForSystemCalls, IsTheRefusalThatItStandsFor) {
  auto pipe =
      RemapStream::open({.bytes = 100 * MiB, .policy = ErrorPolicy::recover, .system_calls = true});
  if (!pipe) GTEST_SKIP() << pipe.error().message();
  pipe->fail(Side::producer, Error{ErrorCode::io, "read the tape"});
  const Status met = RecoveryPoint::run([&] {
    send_memory_error(reinterpret_cast<const std::byte*>(pipe->reader()), BUS_MCEERR_AR);
  });
  ASSERT_FALSE(met);
  EXPECT_NE(met.error().message().find("read the tape"), std::string::npos)
      << met.error().message();
}

TEST(ForkedChildCalls, EndWithAnError) {
  auto stream = RemapStream::open({.bytes = blocks * block_bytes, .block_bytes = block_bytes});
  ASSERT_TRUE(stream) << stream.error().message();
  EXPECT_EXIT(
      {
        ::alarm(20);
        const bool refused =
            stream->wait_ready(0).error().code == ErrorCode::unsupported &&
            stream->finish(0).error().code == ErrorCode::unsupported &&
            stream->prepare_read(stream->reader(), 1).error().code == ErrorCode::unsupported;
        ::_exit(refused ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(stream->finish(0));
}

TEST(ForkedChildCalls, GetNoBlockFromABlockPool) {
  auto pool = BlockPool::open({.block_bytes = block_bytes, .blocks = 2});
  ASSERT_TRUE(pool) << pool.error().message();
  auto held = pool->take();
  fill(held.bytes().data(), 7);
  EXPECT_EXIT(
      {
        const bool refused = !pool->take() && !VanishingArray::open(*pool, {.bytes = block_bytes});
        held = {};
        pool->trim();
        ::_exit(refused ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(holds(held.bytes().data(), 7));
  EXPECT_EQ(pool->blocks_free(), 1u);
}

// Only a thread of the parent waits for events of a privileged userfaultfd.
TEST(ForkedChildCalls, EndAStreamWhoseFaultsAThreadServes) {
  auto opened = RemapStream::open(
      {.bytes = blocks * block_bytes, .block_bytes = block_bytes, .system_calls = true});
  if (!opened) GTEST_SKIP() << opened.error().message();
  if (os::shadowed) GTEST_SKIP() << "a sanitizer does not fork with threads";
  auto stream = std::make_unique<RemapStream>(std::move(*opened));
  fill(stream->writer<std::byte>(), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    stream.reset();
    ::_exit(0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  fill(stream->writer<std::byte>() + block_bytes, 1);
  ASSERT_TRUE(stream->finish(2 * block_bytes));
  EXPECT_TRUE(holds(stream->reader<std::byte>(), 0));
  EXPECT_TRUE(holds(stream->reader<std::byte>() + block_bytes, 1));
}

// A child of a bare clone() runs no handler of pthread_atfork().
TEST(ForkedChildCalls, EndWithAnErrorInAChildOfABareCloneToo) {
  if (os::shadowed) GTEST_SKIP() << "sanitizers need fork() itself";
  auto stream = RemapStream::open(
      {.bytes = blocks * block_bytes, .block_bytes = block_bytes, .policy = ErrorPolicy::recover});
  ASSERT_TRUE(stream) << stream.error().message();
  fill(stream->writer<std::byte>(), 0);
  const auto child = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
  if (child == 0) {
    const Status touched = RecoveryPoint::run([&] { (void)load(stream->writer<std::byte>()); });
    ::_exit(!touched && touched.error().code == ErrorCode::unsupported ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(stream->finish(block_bytes));
  EXPECT_TRUE(holds(stream->reader<std::byte>(), 0));
}

}  // namespace
}  // namespace penstock::stream
