// A text that is far longer than memory, searched by the C library's own strstr().
//
//   endless_strstr [MEBIBYTES]   amount that the producer writes before the needle (64 by default);
//                                204800 is a text of 200 GiB, in the same 8 MiB of memory
//
// Neither side knows about blocks: the producer calls memset() once, the consumer strstr() once,
// and each waits inside its own loads and stores when the other one is behind.

#include <penstock/base.h>
#include <penstock/stream.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

int main(int argc, char** argv) {
  const uint64_t hay_bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 64) * penstock::MiB;
  const char needle[] = "hello world";

  auto pipe = penstock::RemapStream::open(
      {.bytes = 10 * penstock::TiB, .block_bytes = 2 * penstock::MiB, .read_ahead_blocks = 1});
  if (!pipe) {
    std::fprintf(stderr, "%s\n", pipe.error().message().c_str());
    return 1;
  }
  std::jthread producer([&] {
    std::memset(pipe->writer(), 'a', hay_bytes);
    std::memcpy(pipe->writer() + hay_bytes, needle, sizeof needle - 1);
    if (auto finished = pipe->finish(hay_bytes + sizeof needle - 1); !finished) {
      std::fprintf(stderr, "%s\n", finished.error().message().c_str());
    }
  });
  const char* hit = std::strstr(pipe->reader(), needle);
  std::printf("found after %llu bytes, with %llu bytes of memory\n",
              static_cast<unsigned long long>(hit != nullptr ? hit - pipe->reader() : -1),
              static_cast<unsigned long long>(pipe->memory_bytes()));
  return hit == pipe->reader() + hay_bytes ? 0 : 1;
}
