// Test labels: first

#include "penstock/source.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>

#include <fstream>

#include "base/trials.h"
#include "files/source/codec.h"
#include "files/source/fixture.h"
#include "io/whole_file_fixture.h"
#include "os/memory.h"
#include "os/process_counts.h"
#include "os/sanitizer.h"

namespace penstock::source {
namespace {

std::unique_ptr<Source> decompressed(std::string data, uint64_t seed, size_t piece_bytes_max,
                                     const SourceOptions& options = {}) {
  return decompress(pieces(std::move(data), seed, piece_bytes_max), "input", options);
}

TEST(Decompress, EachFormatGivesTheTextInPiecesOfAnySize) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    for (size_t format = 0; format < all_formats.size(); ++format) {
      SCOPED_TRACE(testing::Message() << "format " << format);
      const std::string text = random.below(4) == 0 ? random_noise(random.below(1 * MiB), seed)
                                                    : random_text(random.below(2 * MiB), seed);
      auto source =
          decompressed(all_formats[format](text), seed, random.below(2) == 0 ? 10 : 300'000);
      const Read read = read_all(*source, seed, random.below(3) == 0 ? 100 : 1'000'000);
      ASSERT_TRUE(read.status) << read.status.error().message();
      ASSERT_EQ(read.text, text);
    }
  }
}

TEST(Decompress, FramesOfAllFormatsMakeOneText) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string data, text;
    for (uint64_t frames = random.below(8); frames-- > 0;) {
      const std::string part = random_text(random.below(3) == 0 ? 0 : random.below(100'000), seed);
      if (random.below(4) == 0) data += skippable(part);
      data += all_formats[random.below(3)](part);
      text += part;
    }
    auto source = decompressed(data, seed, random.below(2) == 0 ? 5 : 100'000);
    const Read read = read_all(*source, seed);
    ASSERT_TRUE(read.status) << read.status.error().message();
    ASSERT_EQ(read.text, text);
  }
}

TEST(Compress, TheSinkGetsTheTextCompressedInPiecesOfAnySize) {
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    for (const auto format :
         {CompressedFormat::gzip, CompressedFormat::zstd, CompressedFormat::lz4}) {
      const std::string text = random.below(4) == 0 ? random_noise(random.below(1 * MiB), seed)
                                                    : random_text(random.below(2 * MiB), seed);
      std::string arrived;
      auto sink =
          compress(callback_sink([&](std::span<const std::byte> piece) -> Status {
                     arrived.append(reinterpret_cast<const char*>(piece.data()), piece.size());
                     return {};
                   }),
                   format);
      ASSERT_TRUE(sink) << sink.error().message();
      for (size_t at = 0; at < text.size();) {
        const size_t bytes = std::min<size_t>(random.below(300'000), text.size() - at);
        ASSERT_TRUE((*sink)->write(std::as_bytes(std::span(text).subspan(at, bytes))));
        at += bytes;
      }
      ASSERT_TRUE((*sink)->close());
      ASSERT_FALSE(arrived.empty());
      auto source = decompressed(arrived, seed, 100'000);
      const Read read = read_all(*source, seed);
      ASSERT_TRUE(read.status) << read.status.error().message();
      ASSERT_EQ(read.text, text);
      // Uncompressed output is passed on unchanged; a frame begins like one of its format.
      ASSERT_TRUE(decoding_bytes(
                      std::as_bytes(std::span(arrived)).first(std::min(arrived.size(), head_bytes)))
                      .has_value());
    }
  }
}

TEST(Compress, AnErrorOfTheSinkIsTheErrorOfTheWriter) {
  for (const auto format :
       {CompressedFormat::gzip, CompressedFormat::zstd, CompressedFormat::lz4}) {
    auto sink = compress(callback_sink([](std::span<const std::byte>) -> Status {
                           return failure(ErrorCode::io, "write", "a full disk");
                         }),
                         format);
    ASSERT_TRUE(sink) << sink.error().message();
    const std::string noise = random_noise(4 * MiB, 1);
    const Status written = (*sink)->write(std::as_bytes(std::span(noise)));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().subject, "a full disk");
  }
}

TEST(Decompress, UncompressedDataComeUnchanged) {
  using namespace std::string_literals;
  for (const std::string& text : {""s, "a"s, "\x1f"s, "\x1f\x8b"s, "\x28\xb5\x2f"s,
                                  "\x04\x22\x4d\x17xyz"s, random_noise(300'000, 7)}) {
    auto source = decompressed(text, 1, 3);
    const Read read = read_all(*source, 1);
    EXPECT_TRUE(read.status);
    EXPECT_EQ(read.text, text);
  }
  const std::string data = gzipped("text");
  auto source = decompressed(data, 1, 100, {.decompress = false});
  EXPECT_EQ(read_all(*source, 1).text, data);
}

// Cut at any place: the text in front, then the error; never the end as if the text were whole.
TEST(Decompress, TruncatedDataIsAnErrorBehindTheText) {
  const std::string text = random_text(500'000, 3);
  for (size_t format = 0; format < all_formats.size(); ++format) {
    const std::string data = all_formats[format](text);
    Random random(seed_of_run());
    for (int i = 0; i < 60; ++i) {
      const size_t bytes =
          i < 20 ? data.size() - 1 - static_cast<size_t>(i) : 6 + random.below(data.size() - 6);
      SCOPED_TRACE(testing::Message() << "format " << format << ", " << bytes << " bytes");
      auto source = decompressed(data.substr(0, bytes), 1, 50'000);
      const Read read = read_all(*source, 1);
      ASSERT_FALSE(read.status);
      EXPECT_EQ(read.status.error().code, ErrorCode::corrupt);
      EXPECT_EQ(read.status.error().subject, "input");
      EXPECT_NE(read.status.error().attempted.find("offset " + std::to_string(bytes)),
                std::string::npos)
          << read.status.error().message();
      EXPECT_TRUE(text.starts_with(read.text));
      // Nearly all of the data give nearly all of the text.
      EXPECT_TRUE(bytes + 5 <= data.size() || read.text.size() + 200'000 >= text.size());
    }
  }
}

// Some flips change nothing: an offset of LZ4 may point to another copy of the same bytes.
TEST(Decompress, DamagedDataIsAnErrorOrTheWholeText) {
  const std::string text = random_text(300'000, 4);
  for (size_t format = 0; format < all_formats.size(); ++format) {
    const std::string data = all_formats[format](text);
    Random random(seed_of_run());
    int errors = 0;
    for (int i = 0; i < 50; ++i) {
      std::string bad = data;
      const size_t at = 30 + random.below(data.size() - 30);
      bad[at] = static_cast<char>(bad[at] ^ (1 << random.below(8)));
      SCOPED_TRACE(testing::Message() << "format " << format << ", byte " << at);
      auto source = decompressed(bad, 1, 50'000);
      const Read read = read_all(*source, 1);
      if (read.status) {
        ASSERT_EQ(read.text, text);
        continue;
      }
      EXPECT_EQ(read.status.error().code, ErrorCode::corrupt);
      ++errors;
    }
    EXPECT_GE(errors, 40) << "format " << format;
  }
}

TEST(Decompress, AFrameMustBeFollowedByAFrameOrPadding) {
  const std::string text = "some text";
  for (size_t format = 0; format < all_formats.size(); ++format) {
    SCOPED_TRACE(testing::Message() << "format " << format);
    const std::string data = all_formats[format](text);
    auto garbage = decompressed(data + "garbage", 1, 100);
    const Read read = read_all(*garbage, 1);
    EXPECT_EQ(read.text, text);
    ASSERT_FALSE(read.status);
    EXPECT_EQ(read.status.error().code, ErrorCode::corrupt);
    EXPECT_NE(read.status.error().attempted.find("offset " + std::to_string(data.size())),
              std::string::npos);

    auto padded = decompressed(data + std::string(700'000, '\0'), 1, 100'000);
    EXPECT_EQ(read_all(*padded, 1).status.has_value(), format == 0 || format == 3);
    auto padding_and_more = decompressed(data + std::string(700'000, '\0') + "x", 1, 100'000);
    EXPECT_FALSE(read_all(*padding_and_more, 1).status);
  }
}

TEST(Decompress, HeadsRevealTheFormatAndTheMemory) {
  const std::string text = random_text(3 * MiB, 7);
  const auto asked = [](const std::string& data) {
    return decoding_bytes(std::as_bytes(std::span(data)).first(std::min(data.size(), head_bytes)));
  };
  for (const Compress& compress : all_formats) {
    for (const std::string& data : {compress(""), compress(text)}) {
      const auto bytes = asked(data);
      ASSERT_TRUE(bytes);
      EXPECT_GE(*bytes, 256 * KiB);
      EXPECT_LE(*bytes, 10 * MiB);
    }
    // Data cut off in the header count as damaged, cut off in the magic number as not compressed.
    EXPECT_TRUE(asked(compress(text).substr(0, 6)));
    EXPECT_FALSE(asked(compress(text).substr(0, 2)));
  }
  EXPECT_GE(*asked(zstded(text, 27)), 128 * MiB);
  EXPECT_FALSE(asked(""));
  EXPECT_FALSE(asked(text));
  // A magic number with an invalid header.
  for (const std::string head : {"\x1f\x8b\x08\xff", "\x28\xb5\x2f\xfd\x08", "\x04\x22\x4d\x18zz",
                                 "BZh9 is no level", "BZ"}) {
    EXPECT_FALSE(asked(head)) << head;
    const std::string data = head + std::string(100, 'x');
    const Read read = read_all(*decompressed(data, 1, 50), 1);
    EXPECT_TRUE(read.status);
    EXPECT_EQ(read.text, data);
  }
}

TEST(Decompress, LargeWindowsAreTakenOrRefusedAsAsked) {
  const std::string text = random_text(1 * MiB, 5);
  const std::string data = zstded(text, 29);  // more than libzstd accepts by default
  EXPECT_EQ(read_all(*decompressed(data, 1, 100'000), 1).text, text);
  auto refused = decompressed(data, 1, 100'000, {.window_bytes_max = 128 * MiB});
  const Read read = read_all(*refused, 1);
  ASSERT_FALSE(read.status);
  EXPECT_EQ(read.status.error().code, ErrorCode::out_of_memory);
}

TEST(Decompress, AnErrorOfTheSourceIsReported) {
  const Error error{ErrorCode::io, "read the moon", "moon"};
  const std::string text = random_text(100'000, 6);
  for (const std::string& data : {text, gzipped(text)}) {
    auto source = decompress(pieces(data.substr(0, 10'000), 1, 1000, error), "input");
    const Read read = read_all(*source, 1);
    ASSERT_FALSE(read.status);
    EXPECT_EQ(read.status.error().attempted, error.attempted);
    EXPECT_TRUE(text.starts_with(read.text));
    EXPECT_GT(read.text.size(), 5'000u);
  }
}

// ---- descriptors

// Writes in pieces, sometimes slowly.
void write_slowly(int fd, const std::string& text, uint64_t seed) {
  Random random(seed);
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::min<size_t>(text.size() - at, 1 + random.below(20'000));
    write_all(fd, std::string_view(text).substr(at, bytes));
    at += bytes;
    if (random.below(20) == 0) a_while(1);
  }
}

TEST(DescriptorSource, ReadsPipesAndSocketsBlockingOrNot) {
  const std::string text = random_text(1 * MiB, 8);
  for (auto make : {make_pipe, make_socket}) {
    for (bool blocking : {true, false}) {
      Ends ends = make();
      ASSERT_EQ(fcntl(ends.read, F_SETFL, blocking ? 0 : O_NONBLOCK), 0);
      auto source = descriptor_source(ends.read, "pipe");
      ASSERT_TRUE(source);
      std::jthread writer([&] {
        write_slowly(ends.write, text, 1);
        ends.close_write();
      });
      const Read read = read_all(**source, 1);
      EXPECT_TRUE(read.status);
      EXPECT_EQ(read.text, text);
    }
  }
}

TEST(DescriptorSource, ReadsATcpConnection) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length), 0);
  const std::string text = random_text(3 * MiB, 9);
  std::jthread client([&] {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&address), length), 0);
    auto sink = descriptor_sink(fd, "client");
    close(fd);
    const std::string data = gzipped(text);
    EXPECT_TRUE((*sink)->write(std::as_bytes(std::span(data))));
  });
  const int fd = accept(listener, nullptr, nullptr);
  auto source = descriptor_source(fd, "server");
  close(fd);
  close(listener);
  ASSERT_TRUE(source);
  const Read read = read_all(*decompress(std::move(*source), "server"), 1);
  EXPECT_TRUE(read.status) << read.status.error().message();
  EXPECT_EQ(read.text, text);
}

TEST(DescriptorSource, CancelEndsAReadThatWaits) {
  Ends ends = make_pipe();
  auto source = descriptor_source(ends.read, "silent");
  std::jthread other([&] {
    a_while();
    (*source)->cancel();
  });
  const Read read = read_all(**source, 1);
  ASSERT_FALSE(read.status);
  EXPECT_EQ(read.status.error().code, ErrorCode::cancelled);
}

TEST(DescriptorSink, WritesAllWhateverTheOtherEndTakes) {
  const std::string text = random_text(2 * MiB, 10);
  for (auto make : {make_pipe, make_socket}) {
    for (bool blocking : {true, false}) {
      Ends ends = make();
      ASSERT_EQ(fcntl(ends.write, F_SETFL, blocking ? 0 : O_NONBLOCK), 0);
      Status written;
      std::jthread writer([&] {
        auto sink = descriptor_sink(ends.write, "pipe");
        ends.close_write();
        written = (*sink)->write(std::as_bytes(std::span(text)));
      });
      auto source = descriptor_source(ends.read, "pipe");
      const Read read = read_all(**source, 2, 5000);
      writer.join();
      EXPECT_TRUE(written);
      EXPECT_EQ(read.text, text);
    }
  }
}

TEST(DescriptorSink, CancelEndsAWriteThatWaits) {
  for (auto make : {make_pipe, make_socket}) {
    Ends ends = make();
    auto sink = descriptor_sink(ends.write, "full");
    std::jthread other([&] {
      a_while();
      (*sink)->cancel();
    });
    const std::string text(4 * MiB, 'x');  // a blocking descriptor would wait inside write()
    const Status written = (*sink)->write(std::as_bytes(std::span(text)));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::cancelled);
  }
}

TEST(DescriptorSink, AClosedReaderIsAnError) {
  signal(SIGPIPE, SIG_IGN);
  for (auto make : {make_pipe, make_socket}) {
    Ends ends = make();
    ends.close_read();
    auto sink = descriptor_sink(ends.write, "nobody");
    const Status written = (*sink)->write(std::as_bytes(std::span("text")));
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().system_errno, EPIPE);
  }
  signal(SIGPIPE, SIG_DFL);
}

// ---- files

class FilesTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const {
    return testing::TempDir() + "penstock-source-" + std::to_string(getpid()) + "-" + name;
  }
};

TEST_F(FilesTest, AFileSinkAppearsWhenItIsClosed) {
  const std::string text = random_text(1'000'003, 11), file = path("sink");
  auto sink = open_sink(file);
  ASSERT_TRUE(sink) << sink.error().message();
  Random random(seed_of_run());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = std::min<size_t>(text.size() - at, 1 + random.below(100'000));
    ASSERT_TRUE((*sink)->write(std::as_bytes(std::span(text).subspan(at, bytes))));
    at += bytes;
  }
  EXPECT_NE(access(file.c_str(), F_OK), 0);
  ASSERT_TRUE((*sink)->close());
  EXPECT_EQ(io::read_whole(file), text);
  auto source = open_source(file);
  ASSERT_TRUE(source);
  EXPECT_EQ(read_all(**source, 1).text, text);
  std::remove(file.c_str());
}

TEST_F(FilesTest, MissingFilesAndFoldersAreErrorsWithTheirNames) {
  for (const std::string& file : {path("missing"), testing::TempDir()}) {
    const auto source = open_source(file);
    ASSERT_FALSE(source);
    EXPECT_EQ(source.error().subject, file);
  }
}

TEST_F(FilesTest, StretchesComeOneAfterTheOtherBehindTheHead) {
  const std::array files = {path("first"), path("second")};
  const std::array texts = {random_noise(9'000'001, 1), random_noise(5000, 2)};
  for (size_t i = 0; i < files.size(); ++i) std::ofstream(files[i], std::ios::binary) << texts[i];
  for (uint64_t seed = seed_of_run(); seed < seed_of_run() + trials(20); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed);
    std::string expected = random.below(2) == 0 ? "head\n" : "";
    const std::string head = expected;
    std::vector<Stretch> stretches;
    for (uint64_t count = random.below(12); count > 0; --count) {
      const size_t i = random.below(2);
      const uint64_t offset = random.below(texts[i].size() + 1);
      const uint64_t left = texts[i].size() - offset;
      const uint64_t bytes = random.below(4) == 0 ? left : random.below(left + 1);
      stretches.push_back({files[i], offset, bytes});
      expected += texts[i].substr(offset, bytes);
    }
    auto source = stretches_source(stretches, head);
    const Read read = read_all(*source, seed, random.below(2) == 0 ? 10'000 : 3'000'000);
    ASSERT_TRUE(read.status) << read.status.error().message();
    ASSERT_TRUE(read.text == expected);
  }
  for (const std::string& file : files) std::remove(file.c_str());
}

TEST_F(FilesTest, TheErrorOfAMissingStretchNamesTheFile) {
  const std::string file = path("short");
  std::ofstream(file) << "ten bytes.";
  struct {
    Stretch stretch;
    ErrorCode code;
  } const cases[] = {{{path("missing"), 0, 1}, ErrorCode::not_found},
                     {{file, 5, 6}, ErrorCode::corrupt},
                     {{file, UINT64_MAX, 2}, ErrorCode::corrupt},
                     {{file, 11, 0}, ErrorCode::corrupt}};
  for (const auto& each : cases) {
    auto source = stretches_source({{file, 0, 10}, each.stretch}, "head");
    const Read read = read_all(*source, 1);
    EXPECT_EQ(read.text, "headten bytes.");
    ASSERT_FALSE(read.status);
    EXPECT_EQ(read.status.error().code, each.code);
    EXPECT_EQ(read.status.error().subject, each.stretch.path);
  }
  std::remove(file.c_str());
}

// Many of them live to the end of a run.
TEST_F(FilesTest, StretchesReadToTheirEndHaveNoThreadAndNoMemory) {
  const auto address_pages = [] {
    uint64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    return pages;
  };
  const std::string file = path("piece");
  std::ofstream(file) << random_noise(5'000'000, 4);
  std::vector<std::unique_ptr<Source>> sources;
  const auto read_another = [&] {
    sources.push_back(stretches_source({{file, 0, 5'000'000}}));
    ASSERT_EQ(read_all(*sources.back(), 1).text.size(), 5'000'000u);
  };
  read_another();                             // the first thread leaves something behind
  const auto threads_before = os::threads();  // it may still count that one
  const uint64_t pages_before = address_pages();
  for (int i = 0; i < 32; ++i) read_another();
  std::array<std::byte, 10> some;
  EXPECT_EQ(sources.back()->read(some).value_or(1), 0u) << "the end stays the end";
  os::wait_until_threads_are_gone(threads_before);
  EXPECT_LE(os::threads(), threads_before);
  if (!os::shadowed) {
    EXPECT_LT(address_pages(), pages_before + 32 * MiB / os::page_bytes);
  }
  std::remove(file.c_str());
}

TEST_F(FilesTest, AbandonedStretchesEnd) {
  const std::string file = path("large");
  std::ofstream(file) << random_noise(20'000'000, 3);
  auto source = stretches_source({{file, 0, 20'000'000}});
  std::array<std::byte, 100> some;
  ASSERT_TRUE(source->read(some));
  source->cancel();
  const auto after = source->read(some);
  ASSERT_FALSE(after);
  EXPECT_EQ(after.error().code, ErrorCode::cancelled);
  source.reset();
  (void)stretches_source({{file, 0, 20'000'000}})->read(some);  // and is abandoned
  std::remove(file.c_str());
}

TEST(CallbackSource, CancelReachesTheCallback) {
  bool told = false;
  auto source = callback_source([](std::span<std::byte>) -> Result<size_t> { return 1; },
                                [&] { told = true; });
  source->cancel();
  EXPECT_TRUE(told);
  const Read read = read_all(*source, 1);
  ASSERT_FALSE(read.status);
  EXPECT_EQ(read.status.error().code, ErrorCode::cancelled);
}

}  // namespace
}  // namespace penstock::source
