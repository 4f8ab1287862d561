// Test labels: ci, no-sanitizer, loops

// Runs other people's code on a stream's pointer, as on ordinary memory. A touch outside the stream's
// window fails the test. The streams' memory is 1 to 3 MiB for data of 32 to 64 MiB.
//
// The demands of such code on a stream, and its breaches:
//   strstr, memchr, rep movs, rep stos    forward: M = 1, L = 1
//   memcpy, memmove                       any order: a call must stay within M + 1 (L + 1) blocks;
//                                         penstock::copy need not
//   qsort_r, std::sort                    any order: within M + 1 blocks
//   deflate, raw inflate                  forward; 32 KiB back in the output: L = 1
//   inflate of zlib and gzip formats      checks all that one call wrote once more when the call
//                                         ends, unless inflateValidate(0) says not to, or avail_out is
//                                         within L + 1 blocks
//   RapidJSON's SAX reader                forward: M = 0 already does
//   simdjson, iterate_many                two batches, as a second thread indexes one ahead: M of
//                                         two batches. iterate() indexes the whole document in memory.
//   PCRE2                                 back to the start of an attempted match: M for the
//                                         longest one, and a lookbehind. With PCRE2_UTF it reads all of the
//                                         subject first, unless told PCRE2_NO_UTF_CHECK.
//   AVX-512                               lanes that are masked out touch nothing: L = 0 if no
//                                         vector straddles blocks

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <immintrin.h>
#include <pcre2.h>
#include <rapidjson/reader.h>
#include <simdjson.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "os/cpu.h"
#include "os/sanitizer.h"
#include "penstock/file_stream.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

using Side = Side;

constexpr size_t block = 256 * KiB;
constexpr uint64_t stream_bytes = 64 * MiB;

struct Limits {
  uint32_t producer_comeback = 1;  // L
  uint32_t consumer_comeback = 1;  // M
  ErrorPolicy policy = ErrorPolicy::stop;
};

RemapStream open(uint64_t bytes, const Limits& limits = {}) {
  auto pipe = RemapStream::open({.bytes = bytes,
                                 .block_bytes = block,
                                 .producer_comeback_blocks = limits.producer_comeback,
                                 .consumer_comeback_blocks = limits.consumer_comeback,
                                 .policy = limits.policy});
  EXPECT_TRUE(pipe) << pipe.error().message();
  return std::move(*pipe);
}

// Text of 'a' to 'p', a function of the piece's number, which compresses to about a half.
constexpr size_t piece_bytes = block;
void make_text(std::span<char> text, uint64_t piece) {
  Random random(seed_of_run() + piece);
  for (size_t i = 0; i < text.size(); i += 16) {
    const uint64_t nibbles = random.next();
    for (size_t k = 0; k < 16; ++k) text[i + k] = static_cast<char>('a' + (nibbles >> 4 * k & 15));
  }
}

void write_text(char* out, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes; at += piece_bytes)
    make_text({out + at, piece_bytes}, at / piece_bytes);
}

// The number of pieces that differ from the text.
uint64_t wrong_pieces(const char* in, uint64_t bytes) {
  std::vector<char> expected(piece_bytes);
  uint64_t wrong = 0;
  for (uint64_t at = 0; at < bytes; at += piece_bytes) {
    make_text(expected, at / piece_bytes);
    wrong += std::memcmp(in + at, expected.data(), piece_bytes) != 0;
  }
  return wrong;
}

uint64_t resident_bytes() {
  uint64_t size_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> size_pages >> resident_pages;
  return resident_pages * 4096;
}

// ---------------------------------------------------------------- the C library

TEST(Libc, StrstrFindsTextAtTheEndOfAStream) {
  if (os::shadowed) GTEST_SKIP() << "the sanitizers' strstr reads the text a second time";
  RemapStream pipe = open(stream_bytes);
  const std::string needle = "<needle>";
  const uint64_t at = stream_bytes - block - 3;  // straddles two blocks
  std::jthread producer([&] {
    write_text(pipe.writer(), stream_bytes - block);
    std::memcpy(pipe.writer() + at, needle.data(), needle.size());
    EXPECT_TRUE(pipe.finish(at + needle.size()));
  });
  const char* hit = std::strstr(pipe.reader(), needle.c_str());
  EXPECT_EQ(hit, pipe.reader() + at);
}

TEST(Libc, MemchrStepsThroughAllLines) {
  RemapStream pipe = open(stream_bytes);
  constexpr uint64_t line_bytes = 1000003;
  std::jthread producer([&] {
    write_text(pipe.writer(), stream_bytes);
    EXPECT_TRUE(pipe.finish(stream_bytes));
  });
  RemapStream lines = open(stream_bytes);
  std::jthread breaker([&] {
    for (uint64_t at = 0; at < stream_bytes; ++at)
      lines.writer()[at] = at % line_bytes == line_bytes - 1 ? '\n' : pipe.reader()[at];
    EXPECT_TRUE(lines.finish(stream_bytes));
  });
  const char* const begin = lines.reader();
  const char* const end = begin + stream_bytes;
  uint64_t found = 0, wrong = 0;
  for (const char* at = begin;
       (at = static_cast<const char*>(std::memchr(at, '\n', end - at))) != nullptr; ++at)
    wrong += static_cast<uint64_t>(at - begin) != ++found * line_bytes - 1;
  EXPECT_EQ(found, stream_bytes / line_bytes);
  EXPECT_EQ(wrong, 0u);
}

// Sorts one window at a time: `sort` sorts `count` numbers in place at the consumer's pointer.
void expect_sorted_windows(void (*sort)(uint64_t* numbers, size_t count)) {
  constexpr uint32_t window_blocks = 4;
  constexpr size_t window = window_blocks * block / sizeof(uint64_t);
  constexpr uint64_t windows = 32;
  RemapStream pipe =
      open(windows * window * sizeof(uint64_t), {.consumer_comeback = window_blocks - 1});
  std::jthread producer([&] {
    Random random(seed_of_run());
    for (uint64_t i = 0; i < windows * window; ++i) pipe.writer<uint64_t>()[i] = random.next();
    EXPECT_TRUE(pipe.finish(windows * window * sizeof(uint64_t)));
  });
  Random random(seed_of_run());
  std::vector<uint64_t> expected(window);
  for (uint64_t i = 0; i < windows; ++i) {
    for (uint64_t& number : expected) number = random.next();
    std::sort(expected.begin(), expected.end());
    uint64_t* const numbers = pipe.reader<uint64_t>() + i * window;
    sort(numbers, window);
    ASSERT_TRUE(std::equal(expected.begin(), expected.end(), numbers)) << "window " << i;
  }
}

TEST(Libc, QsortSortsAWindowInPlace) {
  expect_sorted_windows([](uint64_t* numbers, size_t count) {
    uint64_t compared = 0;  // the argument of the _r variant
    qsort_r(
        numbers, count, sizeof(uint64_t),
        [](const void* a, const void* b, void* argument) {
          ++*static_cast<uint64_t*>(argument);
          const uint64_t x = *static_cast<const uint64_t*>(a), y = *static_cast<const uint64_t*>(b);
          return (x > y) - (x < y);
        },
        &compared);
    EXPECT_GE(compared, count - 1);
  });
}

TEST(Libc, StdSortSortsAWindowInPlace) {
  expect_sorted_windows(
      [](uint64_t* numbers, size_t count) { std::sort(numbers, numbers + count); });
}

// Copies all of one stream into another, `step` bytes a call.
Status copy_in_steps(size_t step, void* (*copy)(void*, const void*, size_t)) {
  RemapStream from = open(stream_bytes, {.policy = ErrorPolicy::recover});
  RemapStream to = open(stream_bytes, {.policy = ErrorPolicy::recover});
  std::jthread producer([&] {
    const Status written = RecoveryPoint::run(
        [&] { write_text(from.writer(), stream_bytes); });  // the write may be cancelled
    EXPECT_TRUE(!written || from.finish(stream_bytes));
  });
  uint64_t wrong = 0;
  Status checked;
  std::jthread consumer([&] {
    checked = RecoveryPoint::run([&] {
      for (uint64_t at = 0; at < stream_bytes; at += sizeof(uint64_t))
        wrong += *reinterpret_cast<const uint64_t*>(to.reader() + at) == 0;
    });
  });
  const Status copied = RecoveryPoint::run([&] {
    for (uint64_t at = 0; at < stream_bytes; at += step)
      copy(to.writer() + at, from.reader() + at, std::min<uint64_t>(step, stream_bytes - at));
  });
  if (copied) {
    EXPECT_TRUE(to.finish(stream_bytes));
  } else {
    from.cancel(Side::consumer);
    to.fail(Side::producer, copied.error());
  }
  consumer.join();
  EXPECT_EQ(checked.has_value(), copied.has_value());
  EXPECT_TRUE(!copied || wrong == 0);  // bytes that a copy skips read as zeros
  return copied;
}

TEST(Libc, MemcpyAndMemmoveCopyBlocksOfAnyAlignment) {
  for (const size_t step : {block, block - 1, size_t{4097}}) {
    EXPECT_TRUE(copy_in_steps(step, std::memcpy));
    EXPECT_TRUE(copy_in_steps(step, std::memmove));
  }
}

// memcpy()'s order depends on the processor, and may keep the rules.
TEST(Libc, MemcpyOfManyBlocksIsRightOrNamed) {
  const Status copied = copy_in_steps(stream_bytes, std::memcpy);
  if (copied) return;
  EXPECT_NE(copied.error().message().find("penstock::copy"), std::string::npos)
      << copied.error().message();
}

TEST(Libc, CopyOfManyBlocksKeepsTheRules) {
  EXPECT_TRUE(copy_in_steps(stream_bytes, [](void* to, const void* from, size_t bytes) -> void* {
    return penstock::copy(to, from, bytes);
  }));
}

// ---------------------------------------------------------------- instructions

#if defined(__x86_64__)

TEST(Instructions, OneRepMovsCopiesAWholeStream) {
  RemapStream from = open(stream_bytes), to = open(stream_bytes);
  std::jthread producer([&] {
    write_text(from.writer(), stream_bytes);
    EXPECT_TRUE(from.finish(stream_bytes));
  });
  std::jthread copier([&] {
    const char* source = from.reader();
    char* target = to.writer();
    uint64_t count = stream_bytes - 5;
    asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    EXPECT_EQ(count, 0u);
    count = 5;
    asm volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(count) : : "memory");
    EXPECT_TRUE(to.finish(stream_bytes));
  });
  EXPECT_EQ(wrong_pieces(to.reader(), stream_bytes), 0u);
}

TEST(Instructions, OneRepStosFillsAWholeStream) {
  RemapStream pipe = open(stream_bytes);
  constexpr uint64_t value = 0x0123456789abcdef;
  std::jthread producer([&] {
    uint64_t* target = pipe.writer<uint64_t>();
    uint64_t count = stream_bytes / 8 - 1;
    asm volatile("rep stosq" : "+D"(target), "+c"(count) : "a"(value) : "memory");
    *target = 1;
    EXPECT_TRUE(pipe.finish(stream_bytes));
  });
  const uint64_t* const number = pipe.reader<uint64_t>();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < stream_bytes / 8 - 1; ++i) wrong += number[i] != value;
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(number[stream_bytes / 8 - 1], 1u);
}

class Avx512 : public testing::Test {
 protected:
  void SetUp() override {
    if (os::cpu_tier() < os::CpuTier::avx512) GTEST_SKIP() << "no AVX-512";
  }
};

[[gnu::target("avx512f")]] void stream_numbers(uint64_t* out, uint64_t count) {
  __m512i numbers = _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0);
  for (uint64_t i = 0; i < count; i += 8) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(out + i), numbers);
    numbers = _mm512_add_epi64(numbers, _mm512_set1_epi64(8));
  }
  _mm_sfence();  // before finish(), which publishes the last stores to another thread
}

// The numbers of `in` that are divisible by three, next to each other.
[[gnu::target("avx512f")]] uint64_t filter(const uint64_t* in, uint64_t count, uint64_t* out) {
  uint64_t kept = 0;
  const __m512i third = _mm512_set1_epi64(static_cast<int64_t>(0xaaaaaaaaaaaaaaab));
  const __m512i limit = _mm512_set1_epi64(0x5555555555555555);
  for (uint64_t i = 0; i < count; i += 8) {
    const __m512i numbers = _mm512_loadu_si512(in + i);
    // n is divisible by 3 if and only if n times the inverse of 3 modulo 2^64 is small.
    const __m512i low = _mm512_mul_epu32(numbers, third);
    const __m512i cross = _mm512_add_epi64(_mm512_mul_epu32(_mm512_srli_epi64(numbers, 32), third),
                                           _mm512_mul_epu32(numbers, _mm512_srli_epi64(third, 32)));
    const __m512i quotient = _mm512_add_epi64(low, _mm512_slli_epi64(cross, 32));
    const __mmask8 keep = _mm512_cmple_epu64_mask(quotient, limit);
    _mm512_mask_compressstoreu_epi64(out + kept, keep, numbers);
    kept += static_cast<uint64_t>(__builtin_popcount(keep));
  }
  return kept;
}

TEST_F(Avx512, NonTemporalAndCompressingStoresFillStreams) {
  constexpr uint64_t count = stream_bytes / 8;
  RemapStream numbers = open(stream_bytes), kept = open(stream_bytes);
  std::jthread producer([&] {
    stream_numbers(numbers.writer<uint64_t>(), count);
    EXPECT_TRUE(numbers.finish(stream_bytes));
  });
  std::jthread filterer([&] {
    const uint64_t found = filter(numbers.reader<uint64_t>(), count, kept.writer<uint64_t>());
    EXPECT_EQ(found, (count + 2) / 3);
    EXPECT_TRUE(kept.finish(found * 8));
  });
  const uint64_t* const multiple = kept.reader<uint64_t>();
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < (count + 2) / 3; ++i) wrong += multiple[i] != 3 * i;
  EXPECT_EQ(wrong, 0u);
}

[[gnu::target("avx512f")]] void store_masked(uint64_t* out, uint8_t lanes, int64_t value) {
  _mm512_mask_storeu_epi64(out, lanes, _mm512_set1_epi64(value));
}

TEST_F(Avx512, LanesThatAreMaskedOutTouchNothing) {
  // With L = 0 a touch of the next block would end this one, and the next store to this one would fail the test.
  constexpr uint64_t blocks = 20, per_block = block / 8;
  RemapStream pipe = open(blocks * block, {.producer_comeback = 0});
  std::jthread producer([&] {
    for (uint64_t i = 0; i < blocks; ++i) {
      uint64_t* const end = pipe.writer<uint64_t>() + (i + 1) * per_block;
      for (int lanes = 1; lanes < 8; ++lanes)  // the vector's first `lanes` are in the block
        store_masked(end - lanes, static_cast<uint8_t>((1 << lanes) - 1),
                     static_cast<int64_t>(i + 1));
      end[-8] = i;
    }
    EXPECT_TRUE(pipe.finish(blocks * block));
  });
  for (uint64_t i = 0; i < blocks; ++i) {
    const uint64_t* const end = pipe.reader<uint64_t>() + (i + 1) * per_block;
    EXPECT_EQ(end[-8], i);
    for (int lane = 1; lane < 8; ++lane) ASSERT_EQ(end[-lane], i + 1) << lane;
  }
}

TEST_F(Avx512, MaskedStoresStraddleBlocks) {
  RemapStream pipe = open(stream_bytes);
  constexpr uint64_t step = 5, steps = stream_bytes / 8 / step;  // 5 of 8 lanes, at any alignment
  std::jthread producer([&] {
    for (uint64_t i = 0; i < steps; ++i)
      store_masked(pipe.writer<uint64_t>() + i * step, 0x1f, static_cast<int64_t>(i));
    EXPECT_TRUE(pipe.finish(steps * step * 8));
  });
  uint64_t wrong = 0;
  for (uint64_t i = 0; i < steps * step; ++i) wrong += pipe.reader<uint64_t>()[i] != i / step;
  EXPECT_EQ(wrong, 0u);
}

#endif

// ---------------------------------------------------------------- zlib

constexpr int raw_bits = -15, gzip_bits = 15 + 16;

void deflate_text(RemapStream& to, int bits) {
  z_stream zip = {};
  ASSERT_EQ(deflateInit2(&zip, 1, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
  zip.next_out = to.writer<Bytef>();
  zip.avail_out = UINT_MAX;
  std::vector<char> text(piece_bytes);
  for (uint64_t at = 0; at < stream_bytes; at += piece_bytes) {
    make_text(text, at / piece_bytes);
    zip.next_in = reinterpret_cast<Bytef*>(text.data());
    zip.avail_in = static_cast<uInt>(text.size());
    const bool last = at + piece_bytes == stream_bytes;
    EXPECT_EQ(deflate(&zip, last ? Z_FINISH : Z_NO_FLUSH), last ? Z_STREAM_END : Z_OK);
  }
  EXPECT_GT(zip.total_out, 20 * MiB);
  const Status finished = to.finish(zip.total_out);
  EXPECT_TRUE(finished || finished.error().code == ErrorCode::cancelled);
  deflateEnd(&zip);
}

// Inflates a stream into another in a single call. Returns inflate()'s result, or the stream's error.
Result<int> inflate_in_one_call(int bits, bool validate) {
  RemapStream zipped = open(stream_bytes, {.policy = ErrorPolicy::zeros});
  RemapStream text = open(stream_bytes, {.policy = ErrorPolicy::recover});
  std::jthread producer([&] { deflate_text(zipped, bits); });

  Result<uint64_t> wrong = 0;
  std::jthread consumer([&] {
    std::vector<char> expected(piece_bytes);  // owned outside the recovery point
    wrong = RecoveryPoint::run([&] {
      uint64_t found = 0;
      for (uint64_t at = 0; at < stream_bytes; at += piece_bytes) {
        make_text(expected, at / piece_bytes);
        found += std::memcmp(text.reader() + at, expected.data(), piece_bytes) != 0;
      }
      return found;
    });
  });
  z_stream zip = {};
  EXPECT_EQ(inflateInit2(&zip, bits), Z_OK);
  EXPECT_EQ(inflateValidate(&zip, validate), Z_OK);
  zip.next_in = zipped.reader<Bytef>();
  zip.avail_in = UINT_MAX;
  zip.next_out = text.writer<Bytef>();
  zip.avail_out = UINT_MAX;
  const Result<int> said = RecoveryPoint::run([&] { return inflate(&zip, Z_NO_FLUSH); });
  if (said) {
    EXPECT_EQ(zip.total_out, stream_bytes);
    EXPECT_TRUE(text.finish(stream_bytes));
  } else {
    zipped.cancel(Side::consumer);
    text.fail(Side::producer, said.error());
  }
  inflateEnd(&zip);
  consumer.join();
  EXPECT_EQ(wrong.has_value(), said.has_value());
  EXPECT_EQ(wrong.value_or(0), 0u);
  return said;
}

TEST(Zlib, RawInflateReadsAStreamAndWritesAnotherInOneCall) {
  EXPECT_EQ(inflate_in_one_call(raw_bits, true), Z_STREAM_END);
}

TEST(Zlib, InflateOfGzipDoesSoWithoutItsOwnCheck) {
  EXPECT_EQ(inflate_in_one_call(gzip_bits, false), Z_STREAM_END);
}

TEST(Zlib, InflatesCheckOfAllTheOutputIsFoundToBreakTheRules) {
  const Result<int> said = inflate_in_one_call(gzip_bits, true);
  ASSERT_FALSE(said);
  EXPECT_NE(said.error().message().find("producer_comeback_blocks"), std::string::npos)
      << said.error().message();
}

// ---------------------------------------------------------------- JSON

constexpr uint64_t json_records = 500'000;

// Writes a record in one line, its fields a function of its number; returns the end.
char* write_record(char* out, uint64_t i, const char* after) {
  return fmt::format_to(out, R"({{"id": {}, "name": "record {}", "tags": ["a", "b\n", {}]}}{})", i,
                        i * 7, i % 10, after);
}

// The growth of memory while a parser works, measured every few thousand records.
class Growth {
 public:
  void look(uint64_t record) {
    if (record % 5000 == 0) peak_ = std::max(peak_, resident_bytes());
  }
  uint64_t bytes() const { return peak_ - std::min(peak_, before_); }

 private:
  const uint64_t before_ = resident_bytes();
  uint64_t peak_ = 0;
};

constexpr uint64_t growth_max = 16 * MiB;

// RapidJSON's events: an array of objects, each of a known shape.
struct Counter : rapidjson::BaseReaderHandler<rapidjson::UTF8<>, Counter> {
  Growth growth;
  uint64_t records = 0, ids = 0, texts_bytes = 0;
  bool is_id = false;

  bool Key(const char* text, rapidjson::SizeType bytes, bool) {
    is_id = bytes == 2 && std::memcmp(text, "id", 2) == 0;
    return true;
  }
  bool Uint(unsigned value) {
    if (is_id) ids += value;
    is_id = false;
    return true;
  }
  bool String(const char*, rapidjson::SizeType bytes, bool) {
    texts_bytes += bytes;
    return true;
  }
  bool EndObject(rapidjson::SizeType) {
    growth.look(records++);
    return true;
  }
};

TEST(RapidJson, ReadsADocumentFarLargerThanTheStream) {
  RemapStream pipe = open(stream_bytes, {.consumer_comeback = 0});
  uint64_t bytes = 0, names_bytes = 0;
  std::jthread producer([&] {
    char* out = pipe.writer();
    *out++ = '[';
    for (uint64_t i = 0; i < json_records; ++i) {
      out = write_record(out, i, i + 1 < json_records ? ",\n" : "]");
      names_bytes += fmt::formatted_size("record {}", i * 7);
    }
    bytes = static_cast<uint64_t>(out - pipe.writer());
    EXPECT_TRUE(pipe.finish(bytes));
  });
  Counter counter;
  rapidjson::Reader reader;
  rapidjson::StringStream text(pipe.reader());  // ends at the zero after the end
  EXPECT_TRUE(reader.Parse(text, counter));
  producer.join();
  EXPECT_GT(bytes, 8 * pipe.memory_bytes());
  EXPECT_EQ(text.Tell(), bytes);
  EXPECT_EQ(counter.records, json_records);
  EXPECT_EQ(counter.ids, json_records * (json_records - 1) / 2);
  EXPECT_EQ(counter.texts_bytes, names_bytes + 3 * json_records);
  EXPECT_LT(counter.growth.bytes(), growth_max);
}

TEST(Simdjson, ReadsLinesOfJsonFarLargerThanTheStream) {
  constexpr size_t batch = 2 * block;
  RemapStream pipe = open(stream_bytes, {.consumer_comeback = 2 * batch / block + 1});
  std::vector<char> line(1000);
  uint64_t bytes = 0;
  for (uint64_t i = 0; i < json_records; ++i)
    bytes += static_cast<uint64_t>(write_record(line.data(), i, "\n") - line.data());
  std::jthread producer([&] {
    char* out = pipe.writer();
    for (uint64_t i = 0; i < json_records; ++i) out = write_record(out, i, "\n");
    EXPECT_TRUE(pipe.finish(bytes));
  });
  EXPECT_GT(bytes, 8 * pipe.memory_bytes());
  Growth growth;
  simdjson::ondemand::parser parser;
  // The block of zeros after the end is the padding that simdjson requires.
  simdjson::ondemand::document_stream documents;
  ASSERT_EQ(parser.iterate_many(pipe.reader(), bytes, batch).get(documents), simdjson::SUCCESS);
  uint64_t records = 0, wrong = 0;
  for (auto document : documents) {
    uint64_t id = 0;
    std::string_view name;
    wrong += document["id"].get(id) != simdjson::SUCCESS || id != records;
    wrong += document["name"].get(name) != simdjson::SUCCESS ||
             name != fmt::format("record {}", records * 7);
    growth.look(records++);
  }
  EXPECT_EQ(records, json_records);
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(documents.truncated_bytes(), 0u);
  EXPECT_LT(growth.bytes(), growth_max);
}

// ---------------------------------------------------------------- PCRE2

constexpr uint64_t hit_distance = 100003;
constexpr uint64_t hits = stream_bytes / hit_distance - 1;

// Text with "<0001>", "<0002>", ... at multiples of hit_distance, and one more astride two blocks.
std::vector<char> text_with_hits() {
  std::vector<char> text(stream_bytes);
  write_text(text.data(), stream_bytes);
  for (uint64_t i = 1; i <= hits; ++i)
    fmt::format_to_n(text.data() + i * hit_distance, 6, "<{:04}>", i);
  fmt::format_to_n(text.data() + 11 * block - 3, 6, "<9999>");
  return text;
}

struct FreePattern {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};
using Pattern = std::unique_ptr<pcre2_code, FreePattern>;
using MatchData = std::unique_ptr<pcre2_match_data, FreePattern>;

Pattern compile(const char* pattern, uint32_t options) {
  int error = 0;
  size_t where = 0;
  Pattern code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED, options,
                             &error, &where, nullptr));
  EXPECT_TRUE(code) << pattern << ": " << error << " at " << where;
  return code;
}

// Finds all matches, each from the end of the one before, and compares their places.
void expect_all_hits(const char* text, const pcre2_code* code) {
  MatchData data(pcre2_match_data_create(1, nullptr));
  size_t at = 0;
  uint64_t found = 0, wrong = 0;
  while (pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(text), stream_bytes, at, 0, data.get(),
                     nullptr) >= 0) {
    const size_t* const place = pcre2_get_ovector_pointer(data.get());
    at = place[1];
    wrong += place[0] % hit_distance != 0 && place[0] != 11 * block - 3;
    ++found;
  }
  EXPECT_EQ(found, hits + 1);
  EXPECT_EQ(wrong, 0u);
}

class Pcre2 : public testing::TestWithParam<bool> {
 protected:
  // A pattern that makes PCRE2 go back: a lookbehind, a class, a bounded repeat and a
  // backreference.
  Pattern code() const {
    Pattern code = compile("(?<=[a-p])<\\d{2}\\d+>(?=[a-p]{1,20})", 0);
    if (GetParam() && pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE) != 0) return nullptr;
    return code;
  }
};
INSTANTIATE_TEST_SUITE_P(Matchers, Pcre2, testing::Bool(),
                         [](const auto& test) { return test.param ? "compiled" : "interpreted"; });

TEST_P(Pcre2, FindsAllMatchesInAStreamOfKnownLength) {
  const Pattern pattern = code();
  if (!pattern) GTEST_SKIP() << "this PCRE2 has no compiler for this machine";
  RemapStream pipe = open(stream_bytes);
  const std::vector<char> text = text_with_hits();
  std::jthread producer([&] {
    std::copy(text.begin(), text.end(), pipe.writer<volatile char>());  // byte by byte
    EXPECT_TRUE(pipe.finish(stream_bytes));
  });
  expect_all_hits(pipe.reader(), pattern.get());
}

TEST_P(Pcre2, FindsAllMatchesInAFile) {
  const Pattern pattern = code();
  if (!pattern) GTEST_SKIP() << "this PCRE2 has no compiler for this machine";
  const std::string path = fmt::format("{}penstock-pcre2-{}", testing::TempDir(), getpid());
  {
    const std::vector<char> text = text_with_hits();
    std::ofstream(path, std::ios::binary)
        .write(text.data(), static_cast<std::streamsize>(text.size()));
  }
  auto file = FileReader::open(path, {.block_bytes = block, .read_ahead_blocks = 4});
  ASSERT_TRUE(file) << file.error().message();
  ASSERT_EQ(unlink(path.c_str()), 0);
  expect_all_hits(file->begin<char>(), pattern.get());
}

TEST(Pcre2Utf, CheckOfTheWholeSubjectIsFoundToBreakTheRules) {
  const Pattern unchecked = compile("<\\d+>", PCRE2_UTF | PCRE2_NO_UTF_CHECK);
  const Pattern checked = compile("<\\d+>", PCRE2_UTF);
  MatchData data(pcre2_match_data_create(1, nullptr));
  for (const bool check : {false, true}) {
    RemapStream pipe = open(stream_bytes, {.policy = ErrorPolicy::recover});
    std::jthread producer([&] {
      const Status written = RecoveryPoint::run([&] {
        write_text(pipe.writer(), stream_bytes);
        std::memcpy(pipe.writer() + stream_bytes - 6, "<1234>", 6);
      });
      EXPECT_TRUE(!written || pipe.finish(stream_bytes));
    });
    const Result<int> matched = RecoveryPoint::run([&] {
      return pcre2_match((check ? checked : unchecked).get(), pipe.reader<PCRE2_UCHAR>(),
                         stream_bytes, 0, check ? 0 : PCRE2_NO_UTF_CHECK, data.get(), nullptr);
    });
    EXPECT_EQ(matched.has_value(), !check);
    if (matched) {
      EXPECT_EQ(*matched, 1);
      EXPECT_EQ(*pcre2_get_ovector_pointer(data.get()), stream_bytes - 6);
    } else {
      EXPECT_NE(matched.error().message().find("consumer_comeback_blocks"), std::string::npos)
          << matched.error().message();
    }
    pipe.cancel(Side::consumer);
  }
}

}  // namespace
}  // namespace penstock
