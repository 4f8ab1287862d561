#pragma once

// Shared parts of this folder's tests: data, the formats made by their own libraries, pipes and
// sockets, misbehaving sources.

#include <bzlib.h>
#include <gtest/gtest.h>
#include <lz4frame.h>
#include <lzma.h>
#include <sys/socket.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/random.h"
#include "base/trials.h"
#include "penstock/source.h"

namespace penstock::source {

// Text that compresses somewhat.
inline std::string random_text(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::string text;
  text.reserve(bytes + 64);
  while (text.size() < bytes) {
    if (random.below(4) == 0 && text.size() > 100) {
      text += text.substr(random.below(text.size() - 60), random.below(60));
    } else {
      text += static_cast<char>('a' + random.below(26));
    }
  }
  text.resize(bytes);
  return text;
}

inline std::string random_noise(size_t bytes, uint64_t seed) {
  Random random(seed);
  std::string noise(bytes, '\0');
  std::ranges::generate(noise, [&] { return static_cast<char>(random.next()); });
  return noise;
}

inline std::string gzipped(const std::string& text) {
  z_stream zlib = {};
  EXPECT_EQ(deflateInit2(&zlib, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&zlib, text.size()) + 64, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(out.data());
  zlib.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&zlib, Z_FINISH), Z_STREAM_END);
  out.resize(zlib.total_out);
  deflateEnd(&zlib);
  return out;
}

inline std::string zstded(const std::string& text, int window_log = 0) {
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context(ZSTD_createCCtx(), &ZSTD_freeCCtx);
  ZSTD_CCtx_setParameter(context.get(), ZSTD_c_checksumFlag, 1);
  if (window_log != 0) ZSTD_CCtx_setParameter(context.get(), ZSTD_c_windowLog, window_log);
  std::string out(ZSTD_compressBound(text.size()), '\0');
  ZSTD_inBuffer in{text.data(), text.size(), 0};
  ZSTD_outBuffer to{out.data(), out.size(), 0};
  // In two steps: otherwise the frame would know its size and need no window.
  EXPECT_FALSE(ZSTD_isError(ZSTD_compressStream2(context.get(), &to, &in, ZSTD_e_flush)));
  EXPECT_EQ(ZSTD_compressStream2(context.get(), &to, &in, ZSTD_e_end), 0u);
  out.resize(to.pos);
  return out;
}

inline std::string lz4ed(const std::string& text) {
  LZ4F_preferences_t preferences = {};
  preferences.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled;
  preferences.frameInfo.blockMode = LZ4F_blockLinked;
  std::string out(LZ4F_compressFrameBound(text.size(), &preferences), '\0');
  const size_t bytes =
      LZ4F_compressFrame(out.data(), out.size(), text.data(), text.size(), &preferences);
  EXPECT_FALSE(LZ4F_isError(bytes));
  out.resize(bytes);
  return out;
}

inline std::string xzed(const std::string& text) {
  std::string out(lzma_stream_buffer_bound(text.size()), '\0');
  size_t bytes = 0;
  EXPECT_EQ(lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, nullptr,
                                    reinterpret_cast<const uint8_t*>(text.data()), text.size(),
                                    reinterpret_cast<uint8_t*>(out.data()), &bytes, out.size()),
            LZMA_OK);
  out.resize(bytes);
  return out;
}

// Makes a lzip member by the format's description: liblzma only reads them.
inline std::string lziped(const std::string& text) {
  constexpr int window_log = 20;
  lzma_options_lzma options;
  EXPECT_FALSE(lzma_lzma_preset(&options, 1));
  options.dict_size = 1u << window_log;
  const lzma_filter filters[] = {{LZMA_FILTER_LZMA1, &options}, {LZMA_VLI_UNKNOWN, nullptr}};
  std::string packed(text.size() + text.size() / 2 + 1024, '\0');
  size_t packed_bytes = 0;
  EXPECT_EQ(lzma_raw_buffer_encode(filters, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                                   text.size(), reinterpret_cast<uint8_t*>(packed.data()),
                                   &packed_bytes, packed.size()),
            LZMA_OK);
  packed.resize(packed_bytes);
  auto little_endian = [](uint64_t number, size_t bytes) {
    return std::string(reinterpret_cast<const char*>(&number), bytes);
  };
  const uint32_t sum = lzma_crc32(reinterpret_cast<const uint8_t*>(text.data()), text.size(), 0);
  return std::string("LZIP\1") + static_cast<char>(window_log) + packed + little_endian(sum, 4) +
         little_endian(text.size(), 8) + little_endian(packed_bytes + 26, 8);
}

inline std::string bzip2ed(const std::string& text) {
  auto bytes = static_cast<unsigned>(text.size() + text.size() / 100 + 600);
  std::string out(bytes, '\0');
  EXPECT_EQ(BZ2_bzBuffToBuffCompress(out.data(), &bytes, const_cast<char*>(text.data()),
                                     static_cast<unsigned>(text.size()), 1, 0, 0),
            BZ_OK);
  out.resize(bytes);
  return out;
}

inline std::string skippable(const std::string& text) {
  std::string out = "\x53\x2a\x4d\x18";
  const auto bytes = static_cast<uint32_t>(text.size());
  out.append(reinterpret_cast<const char*>(&bytes), 4);
  return out + text;
}

using Compress = std::function<std::string(const std::string&)>;
inline const std::array<Compress, 6> all_formats = {
    gzipped, [](const std::string& text) { return zstded(text); }, lz4ed, xzed, lziped, bzip2ed};

// A source of `data` in pieces of random sizes up to `piece_bytes_max`, then the end or an error.
inline std::unique_ptr<Source> pieces(std::string data, uint64_t seed, size_t piece_bytes_max,
                                      std::optional<Error> error = {}) {
  auto random = std::make_shared<Random>(seed);
  auto rest = std::make_shared<std::string>(std::move(data));
  auto at = std::make_shared<size_t>(0);
  return callback_source([=](std::span<std::byte> into) -> Result<size_t> {
    const size_t bytes =
        std::min({into.size(), rest->size() - *at, size_t{1} + random->below(piece_bytes_max)});
    if (bytes == 0 && error) return std::unexpected(*error);
    std::memcpy(into.data(), rest->data() + *at, bytes);
    *at += bytes;
    return bytes;
  });
}

// All bytes of a source, read in random sizes, and how it ended.
struct Read {
  std::string text;
  Status status;
};
inline Read read_all(Source& source, uint64_t seed, size_t read_bytes_max = 100'000) {
  Random random(seed);
  Read read;
  std::string piece;
  for (;;) {
    piece.resize(1 + random.below(read_bytes_max));
    Result<size_t> got = source.read(std::as_writable_bytes(std::span(piece)));
    if (!got) {
      read.status = std::unexpected(got.error());
      Result<size_t> again = source.read(std::as_writable_bytes(std::span(piece)));
      EXPECT_FALSE(again) << "an error is reported again";
      return read;
    }
    if (*got == 0) return read;
    read.text.append(piece, 0, *got);
  }
}

struct Ends {
  int read, write;
  void close_read() { close(read), read = -1; }
  void close_write() { close(write), write = -1; }
  ~Ends() {
    if (read >= 0) close(read);
    if (write >= 0) close(write);
  }
};
inline Ends make_pipe() {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  return {ends[0], ends[1]};
}
inline Ends make_socket() {
  int ends[2];
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  return {ends[0], ends[1]};
}

inline void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = write(fd, text.data(), text.size());
    ASSERT_GT(put, 0);
    text.remove_prefix(static_cast<size_t>(put));
  }
}

inline void a_while(int ms = 20) {
  std::this_thread::sleep_for(std::chrono::milliseconds(ms));
}

}  // namespace penstock::source
