// A program that uses a stream and then crashes with a fault outside of any stream.

#include "guest.h"

static int guilty(const int* address) {
  return *address + 1;
}

int main() {
  if (guest_stream(1 << 20, 0) != guest_checksum(1 << 20)) return 2;
  int (*volatile call)(const int*) = guilty;  // hides the crash from the compiler
  return call(nullptr);
}
