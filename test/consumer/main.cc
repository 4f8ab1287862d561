// Sorts the file that it is given, and counts bytes of a stream.
#include <cstdio>
#include <cstring>
#include <thread>

#include "penstock/penstock.hpp"

int main(int, char** argv) {
  const auto sorted = penstock::sort_files(
      {.inputs = {argv[1]}, .output = argv[2], .memory_bytes = 256 * penstock::MiB});
  if (!sorted) {
    std::puts(sorted.error().message().c_str());
    return 1;
  }
  auto pipe = penstock::RemapStream::open({.bytes = 1 << 20});
  if (!pipe) return 1;
  std::jthread producer([&] {
    std::strcpy(pipe->writer(), "streamed");
    (void)pipe->finish(8);
  });
  std::printf("%s, %d lines sorted\n", pipe->reader(), static_cast<int>(sorted->items));
  return 0;
}
