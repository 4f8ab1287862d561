// A program that has streams before it loads Go, as a shared library: Go's handlers then come
// before the library's, and forward to them. go_host GUEST_GO CASE

#include <dlfcn.h>

#include <cstdio>
#include <thread>

#include "guest.h"

namespace {

constexpr uint64_t numbers = 3 << 20;

int fail(const char* what) {
  std::fprintf(stderr, "go_host: %s\n", what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return fail("GUEST_GO CASE");
  const uint64_t expected = guest_checksum(numbers);
  if (guest_stream(numbers, 0) != expected || !guest_installed()) return fail("no Go yet");
  guest_pipe* const pipe = guest_open(numbers * 8, 1 << 16, 0);

  void* const library = dlopen(arguments[1], RTLD_NOW);
  if (library == nullptr) return fail(dlerror());
  const auto guest_main = reinterpret_cast<int (*)(char*)>(dlsym(library, "GuestMain"));
  if (guest_main == nullptr) return fail(dlerror());

  // A stream opened before Go: its faults come through Go's handlers, once these are installed.
  std::jthread producer(guest_produce, pipe, numbers, 0);
  if (guest_drain(pipe, numbers) != expected) return fail("a stream from before Go");
  producer.join();
  guest_close(pipe);

  if (guest_main(arguments[2]) != 0) return fail("Go");
  return guest_stream(numbers, 0) == expected ? 0 : fail("a stream after Go");
}
