// Test labels: one-thread

#include "trace/format/format.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"
#include "items/crc32.h"
#include "penstock/trace.h"

namespace penstock::trace {
namespace {

// Name of a trace file, which the destructor removes.
class TemporaryName {
 public:
  TemporaryName()
      : path_((std::filesystem::temp_directory_path() /
               ("penstock-format-" + std::to_string(::getpid()) + ".trace"))
                  .string()) {}
  ~TemporaryName() { std::filesystem::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

using Bytes = std::vector<std::byte>;

Bytes contents(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  Bytes bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

constexpr std::array calls = {
    Call::open, Call::describe, Call::close,  Call::close_range, Call::duplicate, Call::set_flags,
    Call::read, Call::write,    Call::seek,   Call::copy,        Call::truncate,  Call::allocate,
    Call::sync, Call::rename,   Call::unlink, Call::map,         Call::size,      Call::stat,
    Call::fork, Call::exec,     Call::exit,   Call::ring_setup};

// Returns a number of any size.
uint64_t any_number(Random& random) {
  return random.next() >> (1 + random.below(63));
}

Event any_event(Random& random, uint32_t files, uint32_t strings, const Event& before) {
  Event event = before;  // most members stay, as in real traces
  event.call = calls[random.below(calls.size())];
  event.start_ns += random.below(100000);
  event.latency_ns = any_number(random) >> 1;
  if (random.below(4) == 0) event.process = static_cast<int32_t>(random.next());
  if (random.below(4) == 0) event.thread = static_cast<int32_t>(random.next());
  if (random.below(4) == 0) event.descriptor = static_cast<int32_t>(random.next());
  event.offset = random.below(3) == 0 ? no_offset : any_number(random);
  event.offset2 = random.below(3) == 0 ? any_number(random) : no_offset;
  if (random.below(2) == 0) event.result = any_number(random);
  event.bytes = random.below(2) == 0 ? event.result : any_number(random);
  event.descriptor2 = random.below(4) == 0 ? static_cast<int32_t>(random.next()) : -1;
  event.child = random.below(4) == 0 ? static_cast<int32_t>(random.next()) : 0;
  event.flags = static_cast<uint32_t>(random.next()) & flag::all;
  event.file = static_cast<uint32_t>(random.below(files + 1));
  event.path = static_cast<uint32_t>(random.below(strings + 1));
  return event;
}

struct Written {
  Header header{.backend = Backend::synthetic, .wall_ns = 123, .command = "a b", .host = "here"};
  std::vector<Event> events;
  std::vector<FileRecord> files;
  std::vector<std::string> strings;
  Totals totals;
};

Written write_some(const std::string& path, uint64_t seed, size_t count) {
  Random random(seed);
  Written written;
  auto writer = TraceWriter::create(path, written.header);
  EXPECT_TRUE(writer);
  Event before;
  while (written.events.size() < count) {
    if (random.below(20) == 0) {
      std::string text(random.below(300), static_cast<char>(1 + random.below(255)));
      EXPECT_EQ(writer->add_string(text), written.strings.size() + 1);
      written.strings.push_back(text);
    }
    if (random.below(20) == 0) {
      FileRecord file{.id = static_cast<uint32_t>(written.files.size() + 1),
                      .kind = static_cast<FileKind>(random.below(file_kind_max + 1u)),
                      .device = any_number(random),
                      .inode = random.next(),
                      .birth_ns = any_number(random),
                      .bytes = any_number(random),
                      .path = std::string(random.below(200), '/')};
      EXPECT_EQ(writer->add_file(file), file.id);
      written.files.push_back(file);
    }
    before = any_event(random, static_cast<uint32_t>(written.files.size()),
                       static_cast<uint32_t>(written.strings.size()), before);
    EXPECT_TRUE(writer->add(before));
    written.events.push_back(before);
    if (random.below(1000) == 0) {
      EXPECT_TRUE(writer->flush());
    }
  }
  written.totals = {.end_ns = 99, .exit_code = -3};
  written.totals.unseen[2] = 17;
  EXPECT_TRUE(writer->finish(written.totals));
  written.totals.events = written.events.size();
  written.totals.files = written.files.size();
  return written;
}

// All events of a trace, and the error that ended them, if any.
struct Taken {
  std::vector<Event> events;
  Status status;
  bool cut_off = false;
};
Taken take_all(TraceReader& reader) {
  Taken taken;
  std::vector<Event> some(37);
  while (true) {
    const auto got = reader.next(some);
    if (!got) {
      taken.status = std::unexpected(got.error());
      taken.cut_off = reader.cut_off();
      return taken;
    }
    if (*got == 0) return taken;
    taken.events.insert(taken.events.end(), some.begin(), some.begin() + static_cast<long>(*got));
  }
}

TEST(TraceFormat, ReadsBackEveryEvent) {
  TemporaryName name;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Written written = write_some(name.path(), seed, 20000);
    auto reader = TraceReader::open(name.path());
    ASSERT_TRUE(reader) << reader.error().message();
    EXPECT_EQ(reader->header(), written.header);
    const Taken taken = take_all(*reader);
    ASSERT_TRUE(taken.status) << taken.status.error().message();
    ASSERT_EQ(taken.events.size(), written.events.size());
    for (size_t i = 0; i < taken.events.size(); ++i) {
      ASSERT_EQ(taken.events[i], written.events[i]) << "event " << i;
    }
    EXPECT_EQ(reader->files(), written.files);
    for (size_t i = 0; i < written.strings.size(); ++i) {
      ASSERT_EQ(reader->string(static_cast<uint32_t>(i + 1)), written.strings[i]);
    }
    EXPECT_TRUE(reader->complete());
    EXPECT_EQ(reader->totals(), written.totals);
  }
}

TEST(TraceFormat, SequentialReadsTakeAFewBytesEach) {
  TemporaryName name;
  auto writer = TraceWriter::create(name.path(), {});
  ASSERT_TRUE(writer);
  Event event{.latency_ns = 5000, .offset = 0, .bytes = 4096, .result = 4096, .descriptor = 3};
  for (int i = 0; i < 100000; ++i) {
    ASSERT_TRUE(writer->add(event));
    event.start_ns += 6000;
    event.offset += 4096;
  }
  ASSERT_TRUE(writer->finish({}));
  EXPECT_LT(writer->file_bytes(), 8u * 100000);
}

TEST(TraceFormat, TraceThatWasCutOffHasItsWholeChunks) {
  TemporaryName name;
  const Written written = write_some(name.path(), 7, 10000);
  const Bytes whole = contents(name.path());
  Random random(8);
  for (int round = 0; round < 60; ++round) {
    const size_t kept = random.below(whole.size());
    auto reader = TraceReader::of_memory(std::span(whole).first(kept));
    if (!reader) {
      EXPECT_LT(kept, 300u);
      EXPECT_EQ(reader.error().code, ErrorCode::corrupt);
      continue;
    }
    const Taken taken = take_all(*reader);
    ASSERT_FALSE(taken.status);
    EXPECT_TRUE(taken.cut_off);
    EXPECT_NE(taken.status.error().message().find("cut off"), std::string::npos);
    ASSERT_LE(taken.events.size(), written.events.size());
    EXPECT_TRUE(std::equal(taken.events.begin(), taken.events.end(), written.events.begin()));
  }
}

template <class T>
T load(const Bytes& from, size_t at) {
  T value;
  std::memcpy(&value, from.data() + at, sizeof value);
  return value;
}

// A chunk of a complete trace: its offset and the length of its body (docs/formats.md).
struct Chunk {
  size_t at, body_bytes;
};
std::vector<Chunk> chunks_of(const Bytes& trace) {
  std::vector<Chunk> chunks;
  for (size_t at = 64; at < trace.size(); at += 32 + chunks.back().body_bytes) {
    chunks.push_back({at, load<uint32_t>(trace, at + 8)});
  }
  return chunks;
}

void seal(Bytes& trace, const Chunk& chunk) {
  const auto put = [&](size_t at, uint32_t value) {
    std::memcpy(trace.data() + at, &value, sizeof value);
  };
  put(chunk.at + 24, items::crc32(trace.data() + chunk.at + 32, chunk.body_bytes));
  put(chunk.at + 28, items::crc32(trace.data() + chunk.at, 28));
}

TEST(TraceFormat, DamagedTraceIsRefused) {
  TemporaryName name;
  (void)write_some(name.path(), 9, 1000);
  const Bytes whole = contents(name.path());
  Random random(10);
  for (int round = 0; round < 1000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    Bytes damaged = whole;
    std::byte& byte = damaged[random.below(damaged.size())];
    byte ^= static_cast<std::byte>(1 + random.below(255));
    auto reader = TraceReader::of_memory(damaged);
    ASSERT_TRUE(!reader || !take_all(*reader).status);
  }
}

// Damage with corrected checksums reaches the decoder and the conversion. They return events or an
// error; sanitizers check the rest.
TEST(TraceFormat, HostileTraceIsDecodedOrRefused) {
  TemporaryName name;
  (void)write_some(name.path(), 11, 300);
  const Bytes whole = contents(name.path());
  const std::vector<Chunk> chunks = chunks_of(whole);
  ASSERT_GE(chunks.size(), 3u);
  Random random(12);
  size_t refused = 0, events = 0;
  constexpr int rounds = 5000;
  for (int round = 0; round < rounds; ++round) {
    Bytes hostile = whole;
    const Chunk& chunk = chunks[random.below(chunks.size())];
    if (chunk.body_bytes == 0) continue;
    for (uint64_t i = 0; i <= random.below(4); ++i) {
      hostile[chunk.at + 32 + random.below(chunk.body_bytes)] =
          static_cast<std::byte>(random.next());
    }
    if (random.below(4) == 0) {
      const auto count = static_cast<uint32_t>(random.next());
      std::memcpy(hostile.data() + chunk.at + 12, &count, sizeof count);
    }
    seal(hostile, chunk);
    auto reader = TraceReader::of_memory(hostile);
    const auto converted =
        reader ? convert(*reader, {}, {}) : Result<Conversion>(std::unexpected(reader.error()));
    if (!converted) {
      ++refused;
      EXPECT_FALSE(converted.error().message().empty());
    } else {
      events += converted->events;
    }
  }
  EXPECT_GT(refused, 0u);
  EXPECT_GT(events, 0u);
}

TEST(TraceFormat, FilesOfOtherKindsAreRefusedWithTheirKind) {
  TemporaryName name;
  std::ofstream(name.path()) << "this is no trace, but long enough to be the header of one, or so";
  auto reader = TraceReader::open(name.path());
  ASSERT_FALSE(reader);
  EXPECT_NE(reader.error().message().find(name.path()), std::string::npos);
  std::ofstream(name.path(), std::ios::trunc).flush();
  EXPECT_FALSE(TraceReader::open(name.path()));
  EXPECT_FALSE(TraceReader::open("/nonexistent/x.trace"));
}

TEST(TraceFormat, ReadsVersion1AndNoVersionToCome) {
  TemporaryName name;
  auto writer = TraceWriter::create(name.path(), {.backend = Backend::synthetic});
  ASSERT_TRUE(writer);
  ASSERT_TRUE(writer->finish({}));
  Bytes trace = contents(name.path());
  const auto put = [&](size_t at, uint32_t value) {
    std::memcpy(trace.data() + at, &value, sizeof value);
  };
  for (const uint32_t version : {0u, 1u, format_version, format_version + 1}) {
    put(8, version);
    put(60, items::crc32(trace.data(), 60));
    const auto reader = TraceReader::of_memory(trace);
    EXPECT_EQ(reader.has_value(), version == 1 || version == format_version) << version;
    if (!reader) {
      EXPECT_EQ(reader.error().code, ErrorCode::unsupported);
    }
  }
}

TEST(TraceFormat, ANewTraceIsReadableByItsOwnerOnly) {
  TemporaryName name;
  std::filesystem::remove(name.path());
  const mode_t before = ::umask(0);
  auto writer = TraceWriter::create(name.path(), {});
  ::umask(before);
  ASSERT_TRUE(writer);
  using std::filesystem::perms;
  EXPECT_EQ(std::filesystem::status(name.path()).permissions(),
            perms::owner_read | perms::owner_write);
}

TEST(TraceFormat, FullDiskIsAnErrorOfFinish) {
  auto writer = TraceWriter::create("/dev/full", {});
  if (!writer) {
    EXPECT_EQ(writer.error().code, ErrorCode::out_of_space);
    return;
  }
  for (int i = 0; i < 100; ++i) (void)writer->add({});
  EXPECT_FALSE(writer->finish({}));
}

}  // namespace
}  // namespace penstock::trace
