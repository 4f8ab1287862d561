#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "check_trace.h"
#include "items/crc32.h"
#include "trace/format/format.h"

// Fuzzing the reader of traces and the conversion. Checksums keep random bytes out, so the input
// becomes a chunk's body, behind a header and in a chunk that are right:
//
//   byte 0      bit 0: the input is a whole trace, with all its checksums
//   bytes 1, 2  how many events the chunk says it has
//   rest        the body
//
// The events must keep the rules of the header.

namespace penstock::trace {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void put(Bytes& into, T value) {
  const auto* bytes = reinterpret_cast<const std::byte*>(&value);
  into.insert(into.end(), bytes, bytes + sizeof value);
}

void put_chunk(Bytes& into, uint32_t kind, std::span<const std::byte> body, uint32_t events) {
  const size_t at = into.size();
  put(into, uint32_t{0x4b4e4843});
  put(into, kind);
  put(into, static_cast<uint32_t>(body.size()));
  put(into, events);
  put(into, uint64_t{events});
  put(into, items::crc32(body.data(), body.size()));
  put(into, items::crc32(into.data() + at, 28));
  into.insert(into.end(), body.begin(), body.end());
}

Bytes trace_around(std::span<const std::byte> body, uint32_t events) {
  Bytes trace;
  for (const char c : {'P', 'E', 'N', 'T', 'R', 'A', 'C', 'E'}) put(trace, c);
  put(trace, format_version);
  put(trace, uint32_t{64});
  trace.resize(60);
  put(trace, items::crc32(trace.data(), 60));
  const Bytes info(2);  // two empty strings
  put_chunk(trace, 3, info, 0);
  put_chunk(trace, 1, body, events);
  return trace;
}

void try_trace(std::span<const std::byte> trace) {
  auto reader = TraceReader::of_memory(trace);
  if (!reader) return;
  std::vector<Event> events(64);
  while (true) {
    const auto got = reader->next(events);
    if (!got || *got == 0) break;
    for (size_t i = 0; i < *got; ++i) {
      const Event& event = events[i];
      require(!name_of(event.call).empty(), "an unknown call");
      require(event.file <= reader->files().size(), "an unknown file");
      require(event.path == 0 || reader->string(event.path).size() <= string_bytes_max, "a string");
      require(event.result <= largest_offset && event.bytes <= largest_offset, "a size");
    }
  }
  auto again = TraceReader::of_memory(trace);
  check_conversion(*again);
}

}  // namespace
}  // namespace penstock::trace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::trace;
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  if (size < 3) return 0;
  if (data[0] & 1) {
    try_trace(input.subspan(1));
  } else {
    const auto events = static_cast<uint32_t>(data[1] | (data[2] << 8));
    try_trace(trace_around(input.subspan(3, std::min<size_t>(size - 3, 1 << 20)), events));
  }
  return 0;
}
