// A program that uses a stream and then, as programs do, makes a fault that is no stream's.

#include "guest.h"

static int guilty(const int* address) {
  return *address + 1;
}

int main() {
  if (guest_stream(1 << 20, 0) != guest_checksum(1 << 20)) return 2;
  int (*volatile call)(const int*) = guilty;  // so that no compiler sees through it
  return call(nullptr);
}
