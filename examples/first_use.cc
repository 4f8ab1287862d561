#include <cstring>
#include <thread>

#include "penstock/stream.h"

int main() {
  auto pipe = penstock::RemapStream::open({.bytes = 10 * penstock::GiB});
  if (!pipe) return 1;
  const size_t bytes = 9 * penstock::GiB;
  std::jthread producer([&] {
    std::memset(pipe->writer(), 'a', bytes);  // a plain char*: a store waits for the reader
    std::memcpy(pipe->writer() + bytes - 5, "hello", 5);
    (void)pipe->finish(bytes);
  });
  const char* hit = std::strstr(pipe->reader(), "hello");  // a load waits for the writer
  return hit == pipe->reader() + bytes - 5 ? 0 : 1;
}
