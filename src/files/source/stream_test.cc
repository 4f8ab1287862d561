// Tests of SourceStream and SinkStream.

#include "penstock/stream.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>

#include "base/trials.h"
#include "files/source/fixture.h"
#include "io/whole_file_fixture.h"
#include "os/sanitizer.h"
#include "penstock/source.h"

namespace penstock::source {
namespace {

constexpr size_t block = 64 * KiB;

SourceStreamOptions small(ErrorPolicy policy = ErrorPolicy::recover) {
  return {.block_bytes = block, .bytes_max = 64 * MiB, .policy = policy};
}

SourceStream open(std::unique_ptr<Source> source, const SourceStreamOptions& options) {
  auto stream = SourceStream::open(std::move(source), "test", options);
  EXPECT_TRUE(stream) << stream.error().message();
  return std::move(*stream);
}

// Reads byte by byte at the pointer, until at_end().
std::string text_at(SourceStream& stream) {
  std::string text;
  for (const char* at = stream.begin<char>(); !stream.at_end(at); ++at) text += *at;
  return text;
}

// A caller's source that claims to have stored more than the room given.
class Boaster final : public Source {
 public:
  explicit Boaster(int64_t good_reads, size_t too_many = 1)
      : good_reads_(good_reads), too_many_(too_many) {}
  Result<size_t> read(std::span<std::byte> into) override {
    std::ranges::fill(into, std::byte{'x'});
    return into.size() + (good_reads_-- > 0 ? 0 : too_many_);
  }

 private:
  int64_t good_reads_;
  const size_t too_many_;
};

TEST(SourceStream, ASourceThatClaimsMoreThanTheRoomIsAnError) {
  for (const int64_t good_reads : {0, 1, 3}) {
    for (const size_t too_many : {size_t{1}, size_t{block}, size_t{64 * MiB}}) {
      SCOPED_TRACE(testing::Message() << good_reads << " reads, " << too_many << " bytes");
      for (const bool decompressed : {false, true}) {
        std::unique_ptr<Source> boaster = std::make_unique<Boaster>(good_reads, too_many);
        if (decompressed) boaster = decompress(std::move(boaster), "test");
        SourceStream stream = open(std::move(boaster), small(ErrorPolicy::zeros));
        const char* at = stream.begin<char>();
        while (!stream.at_end(at)) EXPECT_EQ(*at++, 'x');
        ASSERT_FALSE(stream.status());
        EXPECT_EQ(stream.status().error().code, ErrorCode::invalid_argument);
        EXPECT_NE(stream.status().error().message().find("where there is room for"),
                  std::string::npos);
      }
      // At the end of the addresses, one byte is requested.
      SourceStream full =
          open(std::make_unique<Boaster>(1, too_many),
               {.block_bytes = block, .bytes_max = block, .policy = ErrorPolicy::zeros});
      (void)full.at_end(full.begin<char>() + block);
      ASSERT_FALSE(full.status());
      EXPECT_EQ(full.status().error().code, ErrorCode::invalid_argument);
    }
  }
}

TEST(SourceStream, ASourceIsCalledWithTheSignalsOfTheThreadThatOpenedTheStream) {
  int blocked = -1;
  SourceStream stream = open(callback_source([&](std::span<std::byte>) -> Result<size_t> {
                               sigset_t mask;
                               pthread_sigmask(SIG_SETMASK, nullptr, &mask);
                               blocked = sigismember(&mask, SIGTERM);
                               return 0;
                             }),
                             small(ErrorPolicy::zeros));
  EXPECT_TRUE(stream.at_end(stream.begin<char>()));
  EXPECT_EQ(blocked, 0);
}

TEST(SourceStream, ThePointerGivesWhatTheSourceGives) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(40); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const size_t edges[] = {0, 1, block - 1, block, block + 1, 5 * block};
    const size_t bytes = random.below(2) == 0 ? edges[random.below(6)] : random.below(20 * block);
    const std::string text = random_text(bytes, seed);
    SourceStreamOptions options = small(ErrorPolicy::stop);
    options.read_ahead_blocks = static_cast<uint32_t>(1 + random.below(3));
    options.comeback_blocks = static_cast<uint32_t>(random.below(3));
    options.strict = random.below(2) == 0;
    const bool compressed = random.below(2) == 0;
    auto source = pieces(compressed ? all_formats[random.below(3)](text) : text, seed,
                         random.below(2) == 0 ? 1000 : 200'000);
    SourceStream stream = open(decompress(std::move(source), "test"), options);
    ASSERT_EQ(text_at(stream), text);
    EXPECT_EQ(stream.bytes(), bytes);
    EXPECT_TRUE(stream.status());
    EXPECT_TRUE(std::all_of(stream.begin<char>() + bytes, stream.begin<char>() + bytes + 100,
                            [](char c) { return c == 0; }));
  }
}

TEST(SourceStream, CopyWritesAllToASink) {
  const std::string text = random_text(3'000'000, 2);
  SourceStream stream = open(pieces(text, 1, 100'000), small());
  Ends ends = make_pipe();
  Result<uint64_t> copied = 0;
  std::jthread writer([&] {
    auto sink = descriptor_sink(ends.write, "pipe");
    ends.close_write();
    copied = copy(stream, **sink);
  });
  auto source = descriptor_source(ends.read, "pipe");
  EXPECT_EQ(read_all(**source, 1).text, text);
  writer.join();
  EXPECT_EQ(copied, text.size());
}

TEST(SourceStream, LargePlainFilesNeedNoThreadAndAllOthersWork) {
  const std::string path = testing::TempDir() + "penstock-stream-" + std::to_string(getpid());
  const std::string text = random_text(10 * block + 77, 3);
  auto check = [&](const std::string& contents, const std::string& wanted, bool direct) {
    std::ofstream(path, std::ios::binary) << contents;
    auto stream = SourceStream::open(path, small());
    ASSERT_TRUE(stream) << stream.error().message();
    EXPECT_EQ(stream->rereads(), direct);
    // The other inputs have a size when they end, which one that reads ahead may do before this
    // check.
    if (direct) {
      EXPECT_EQ(stream->bytes(), wanted.size());
    }
    EXPECT_EQ(text_at(*stream), wanted);
    EXPECT_EQ(stream->bytes(), wanted.size());
    EXPECT_TRUE(stream->status());
  };
  check(text, text, true);
  check(text.substr(0, block), text.substr(0, block), true);
  check(text.substr(0, block - 1), text.substr(0, block - 1), false);
  check("", "", false);
  for (const Compress& compress : all_formats) check(compress(text), text, false);
  std::remove(path.c_str());
}

TEST(SourceStream, FilesThatDoNotKnowTheirSizeAreReadToTheirEnd) {
  auto stream = SourceStream::open("/proc/self/status", small());
  ASSERT_TRUE(stream) << stream.error().message();
  EXPECT_TRUE(text_at(*stream).starts_with("Name:"));
}

// ---- a source that fails

const Error moon{ErrorCode::io, "read the moon", "moon"};

TEST(SourceStream, AnErrorComesBehindAllBytesIfThePolicyIsZeros) {
  for (size_t bytes : {size_t{0}, size_t{10}, block, 3 * block + 5}) {
    const std::string text = random_text(bytes, 4);
    SourceStream stream = open(pieces(text, 1, 5000, moon), small(ErrorPolicy::zeros));
    EXPECT_EQ(text_at(stream), text);
    EXPECT_EQ(stream.begin<char>()[bytes + 7 * block], 0);
    ASSERT_FALSE(stream.status());
    EXPECT_EQ(stream.status().error().attempted, moon.attempted);
    EXPECT_FALSE(stream.wait_ready(bytes + 7 * block));
  }
}

TEST(SourceStream, DeliverTailPutsAnErrorBehindAllBytes) {
  const std::string text = random_text(3 * block + 5, 4);
  SourceStreamOptions options = small();
  options.deliver_tail = true;
  SourceStream stream = open(pieces(text, 1, 5000, moon), options);
  EXPECT_EQ(text_at(stream), text);
  const auto ready = stream.wait_ready(text.size());
  ASSERT_FALSE(ready);
  EXPECT_EQ(ready.error().attempted, moon.attempted);
}

TEST(SourceStream, TheAccessMeetsTheErrorIfThePolicyIsRecover) {
  const std::string text = random_text(3 * block + 5, 4);
  SourceStream stream = open(pieces(text, 1, 5000, moon), small());
  uint64_t seen = 0;
  const Status scanned = RecoveryPoint::run([&] {
    const char* data = stream.begin<char>();
    for (;; ++seen) {
      if (data[seen] != text[std::min<uint64_t>(seen, text.size() - 1)]) break;
    }
  });
  ASSERT_FALSE(scanned);
  EXPECT_EQ(seen, 3 * block) << "full blocks, and none of the bytes that nobody vouches for";
  EXPECT_NE(scanned.error().attempted.find("read the moon"), std::string::npos);
  EXPECT_FALSE(stream.at_end(stream.begin() + 3 * block));
}

TEST(SourceStreamDeathTest, TheProgramStopsWithTheReasonIfThePolicyIsStop) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        SourceStream stream = open(pieces("text", 1, 5000, moon), small(ErrorPolicy::stop));
        const volatile char first = *stream.begin<char>();
        (void)first;
      },
      "read the moon");
}

TEST(SourceStream, MoreBytesThanAddressesAreAnErrorAndExactlyAsManyAreNone) {
  for (size_t extra : {size_t{0}, size_t{1}}) {
    const std::string text = random_text(2 * block + 100 + extra, 5);
    SourceStreamOptions options = small(ErrorPolicy::zeros);
    options.bytes_max = 2 * block + 100;
    SourceStream stream = open(pieces(text, 1, 5000), options);
    EXPECT_EQ(text_at(stream), text.substr(0, options.bytes_max));
    EXPECT_EQ(stream.status().has_value(), extra == 0);
  }
}

// ---- cancelling

TEST(SourceStream, DestructionDoesNotWaitForASilentPipe) {
  for (auto make : {make_pipe, make_socket}) {
    Ends ends = make();
    auto source = descriptor_source(ends.read, "silent");
    SourceStream stream = open(decompress(std::move(*source), "silent"), small());
    a_while(5);
  }
}

TEST(SourceStream, DestructionDoesNotWaitForAConsumer) {
  for (ErrorPolicy policy : {ErrorPolicy::stop, ErrorPolicy::recover, ErrorPolicy::zeros}) {
    for (int reads = 0; reads < 3; ++reads) {
      // An endless source: the pump waits for room, or is about to.
      auto endless = callback_source([](std::span<std::byte> into) -> Result<size_t> {
        std::ranges::fill(into, std::byte{'x'});
        return into.size();
      });
      SourceStreamOptions options = small(policy);
      options.bytes_max = 256 * MiB;
      SourceStream stream = open(std::move(endless), options);
      if (reads > 0) {
        EXPECT_EQ(stream.begin<char>()[reads * block], 'x');
      }
      if (reads == 2) a_while(5);
    }
  }
}

TEST(SourceStream, CancelReachesAConsumerThatWaitsInAFault) {
  Ends ends = make_pipe();
  auto source = descriptor_source(ends.read, "silent");
  SourceStream stream = open(std::move(*source), small());
  std::jthread other([&] {
    a_while();
    stream.cancel();
  });
  const Result<char> first = RecoveryPoint::run([&] { return *stream.begin<char>(); });
  ASSERT_FALSE(first);
  EXPECT_EQ(first.error().code, ErrorCode::cancelled);
}

TEST(SourceStream, CancelWhileThePumpWaitsForRoomEndsTheStreamBehindFullBlocks) {
  auto endless = callback_source([](std::span<std::byte> into) -> Result<size_t> {
    std::ranges::fill(into, std::byte{'x'});
    return into.size();
  });
  SourceStream stream = open(std::move(endless), small());
  EXPECT_EQ(*stream.begin<char>(), 'x');
  a_while(5);
  stream.cancel();
  uint64_t ready_bytes = 0;
  for (;;) {
    const auto ready = stream.wait_ready(ready_bytes);
    if (!ready) {
      EXPECT_EQ(ready.error().code, ErrorCode::cancelled);
      break;
    }
    for (; ready_bytes < *ready; ready_bytes += block) {
      EXPECT_EQ(stream.begin<char>()[ready_bytes], 'x');
    }
  }
  EXPECT_LE(ready_bytes, 10 * block);
}

TEST(SourceStream, RandomSchedulesOfCancelsAndDeathsNeverHang) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 100; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const std::string text = random_text(random.below(12 * block), seed);
    Ends ends = random.below(2) == 0 ? make_pipe() : make_socket();
    auto source = descriptor_source(ends.read, "pipe");
    ends.close_read();
    SourceStreamOptions options = small();
    options.deliver_tail = random.below(2) == 0;
    const bool silent_at_end = random.below(3) == 0;
    std::atomic<bool> written = false;
    std::jthread writer([&] {
      signal(SIGPIPE, SIG_IGN);
      std::string_view rest = text;
      while (!rest.empty()) {
        const ssize_t put = write(ends.write, rest.data(), std::min<size_t>(rest.size(), 30'000));
        if (put < 0) break;  // the reader died
        rest.remove_prefix(static_cast<size_t>(put));
      }
      if (!silent_at_end) ends.close_write();
      written = true;
    });
    SourceStream stream = open(std::move(*source), options);
    std::jthread canceller;
    const bool cancels = silent_at_end || random.below(2) == 0;
    if (cancels) {
      const int us = static_cast<int>(random.below(3000));
      canceller = std::jthread([&stream, us] {
        std::this_thread::sleep_for(std::chrono::microseconds(us));
        stream.cancel();
      });
    }
    const uint64_t stop_at = random.below(3) == 0 ? random.below(text.size() + 1) : text.size();
    for (uint64_t done = 0; done < stop_at;) {
      const auto ready = stream.wait_ready(done);
      if (!ready || *ready <= done) {
        ASSERT_TRUE(cancels || ready) << ready.error().message();
        break;
      }
      ASSERT_TRUE(stream.prepare_read(stream.begin() + done, 1));
      ASSERT_EQ(stream.begin<char>()[done], text[done]);
      done = std::min(*ready, (done / block + 1) * block);
    }
    if (canceller.joinable()) canceller.join();
  }
  signal(SIGPIPE, SIG_DFL);
}

// ---- SinkStream

SinkStreamOptions small_sink(ErrorPolicy policy = ErrorPolicy::zeros) {
  return {.block_bytes = block, .bytes_max = 64 * MiB, .policy = policy};
}

struct Collected {
  std::string text;
  uint64_t fail_at = ~uint64_t{0};
};
std::unique_ptr<Sink> collecting(Collected& collected) {
  return callback_sink([&](std::span<const std::byte> from) -> Status {
    collected.text.append(reinterpret_cast<const char*>(from.data()), from.size());
    if (collected.text.size() > collected.fail_at) return std::unexpected(moon);
    return {};
  });
}

void store(SinkStream& stream, const std::string& text) {
  for (size_t at = 0; at < text.size(); at += 1000) {
    std::memcpy(stream.begin<char>() + at, text.data() + at,
                std::min<size_t>(1000, text.size() - at));
  }
}

TEST(SinkStream, TheSinkGetsWhatIsStored) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + 30; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    const size_t edges[] = {0, 1, block - 1, block, block + 1, 5 * block};
    const std::string text =
        random_text(random.below(2) == 0 ? edges[random.below(6)] : random.below(20 * block), seed);
    Collected collected;
    SinkStreamOptions options = small_sink(ErrorPolicy::stop);
    options.strict = random.below(2) == 0;
    auto stream = SinkStream::open(collecting(collected), "test", options);
    ASSERT_TRUE(stream);
    store(*stream, text);
    ASSERT_TRUE(stream->finish(text.size()));
    ASSERT_EQ(collected.text, text);
    EXPECT_FALSE(stream->finish(text.size())) << "twice";
  }
}

TEST(SinkStream, ASystemCallMayStore) {
  const std::string text = random_text(block + 100, 7);
  Ends ends = make_pipe();
  std::jthread writer([&] {
    write_all(ends.write, text);
    ends.close_write();
  });
  Collected collected;
  auto stream = SinkStream::open(collecting(collected), "test", small_sink());
  size_t at = 0;
  for (;;) {
    ASSERT_TRUE(stream->prepare_write(stream->begin() + at, 5000));
    const ssize_t got = read(ends.read, stream->begin() + at, 5000);
    ASSERT_GE(got, 0);
    if (got == 0) break;
    at += static_cast<size_t>(got);
  }
  ASSERT_TRUE(stream->finish(at));
  EXPECT_EQ(collected.text, text);
}

TEST(SinkStream, FinishReportsASinkThatFails) {
  Collected collected{.fail_at = 2 * block};
  auto stream = SinkStream::open(collecting(collected), "test", small_sink());
  const std::string text = random_text(30 * block, 8);
  store(*stream, text);
  const Status finished = stream->finish(text.size());
  ASSERT_FALSE(finished);
  EXPECT_EQ(finished.error().attempted, moon.attempted);
  EXPECT_FALSE(stream->status());
}

TEST(SinkStream, TheStoreMeetsTheErrorIfThePolicyIsRecover) {
  Collected collected{.fail_at = 2 * block};
  auto stream = SinkStream::open(collecting(collected), "test", small_sink(ErrorPolicy::recover));
  const std::string text = random_text(30 * block, 8);
  const Status stored = RecoveryPoint::run([&] { store(*stream, text); });
  ASSERT_FALSE(stored);
  EXPECT_NE(stored.error().attempted.find("read the moon"), std::string::npos);
}

TEST(SinkStream, DestructionAndCancelDoNotWaitForAFullPipe) {
  for (auto make : {make_pipe, make_socket}) {
    for (bool cancelled : {false, true}) {
      Ends ends = make();
      auto sink = descriptor_sink(ends.write, "full");
      auto stream = SinkStream::open(std::move(*sink), "full", small_sink());
      std::memset(stream->begin(), 'x', 2 * block);
      std::memset(stream->begin<char>() + 2 * block, 'x', 1);
      a_while(5);
      if (!cancelled) continue;
      std::jthread other([&] {
        a_while();
        stream->cancel();
      });
      const Status finished = stream->finish(2 * block + 1);
      other.join();
      // A socket may have taken everything before.
      EXPECT_TRUE(finished || finished.error().code == ErrorCode::cancelled);
    }
  }
}

TEST(SinkStream, WithoutFinishAFileDoesNotAppear) {
  const std::string path = testing::TempDir() + "penstock-sink-" + std::to_string(getpid());
  const std::string text = random_text(3 * block + 9, 9);
  for (bool finish : {false, true}) {
    auto sink = open_sink(path);
    auto stream = SinkStream::open(std::move(*sink), path, small_sink());
    store(*stream, text);
    if (finish) {
      ASSERT_TRUE(stream->finish(text.size()));
    }
    stream = std::unexpected(moon);
    EXPECT_EQ(access(path.c_str(), F_OK) == 0, finish);
  }
  EXPECT_EQ(io::read_whole(path), text);
  std::remove(path.c_str());
}

// ---- forked children, which have neither the threads nor the sources of their parent

// Ends the stream in a child, for which the parent waits.
template <class Stream>
void end_in_a_child(std::unique_ptr<Stream>& stream) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    const bool told = !stream->status();
    stream.reset();
    ::_exit(told ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(SourceStream, EndsInAForkedChildAndGoesOnInTheParent) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer does not fork with threads";
  const std::string text = random_text(20 * block, 6);
  Ends ends = make_pipe();
  auto source = descriptor_source(ends.read, "pipe");
  ASSERT_TRUE(source);
  auto stream = std::make_unique<SourceStream>(open(std::move(*source), small()));
  end_in_a_child(stream);
  std::jthread writer([&] {
    write_all(ends.write, text);
    ends.close_write();
  });
  EXPECT_EQ(text_at(*stream), text);
}

TEST(SinkStream, EndsInAForkedChildAndGoesOnInTheParent) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer does not fork with threads";
  const std::string text = random_text(20 * block, 7);
  Collected collected;
  auto opened = SinkStream::open(collecting(collected), "test", small_sink());
  ASSERT_TRUE(opened) << opened.error().message();
  auto stream = std::make_unique<SinkStream>(std::move(*opened));
  std::memcpy(stream->begin<char>(), text.data(), 1000);
  end_in_a_child(stream);
  store(*stream, text);
  EXPECT_TRUE(stream->finish(text.size()));
  EXPECT_EQ(collected.text, text);
}

}  // namespace
}  // namespace penstock::source
