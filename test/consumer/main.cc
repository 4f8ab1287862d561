#include "penstock/file_stream.h"
#include "penstock/remap_stream.h"

int main() {
  const auto pipe = penstock::RemapStream::open({.bytes = 1 << 20});
  return pipe ? 0 : 1;
}
