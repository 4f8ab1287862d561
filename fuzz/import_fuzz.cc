#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "check_trace.h"
#include "trace/format/format.h"
#include "trace/import/import.h"

// Fuzzing the readers of other programs' logs, and the conversion of their events:
//
//   byte 0   modulo 4: 0 the kind is detected; 1 an iolog, whose first line is put in front;
//            2 and 3 strace
//   rest     the log
//
// The events must keep the rules of event_source.h.

namespace penstock::trace {
namespace {

void check_events(TraceReader& trace) {
  std::vector<Event> events(64);
  while (true) {
    const auto got = trace.next(events);
    if (!got || *got == 0) break;
    for (size_t i = 0; i < *got; ++i) {
      const Event& event = events[i];
      require(!name_of(event.call).empty(), "an unknown call");
      require((event.flags & ~flag::all) == 0, "an unknown flag");
      require(event.file <= trace.files().size(), "an unknown file");
      require(event.path == 0 || trace.string(event.path).size() <= string_bytes_max, "a string");
      require(event.result <= largest_offset && event.bytes <= largest_offset, "a size");
      require(event.offset <= largest_offset || event.offset == no_offset, "an offset");
      require(event.offset2 <= largest_offset || event.offset2 == no_offset, "an offset");
      require(event.start_ns <= uint64_t{1} << 62, "a time");
      require(event.latency_ns <= uint64_t{1} << 62, "a latency");
    }
  }
}

void try_log(std::string_view text, LogKind kind) {
  auto trace = trace_of_text(text, kind);
  if (!trace) return;
  check_events(*trace);
  auto again = trace_of_text(text, kind);
  check_conversion(*again);
}

}  // namespace
}  // namespace penstock::trace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace penstock::trace;
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      try_log(rest, LogKind::detect);
      break;
    case 1:
      try_log(
          "fio version " + std::string(data[0] & 4 ? "2" : "3") + " iolog\n" + std::string(rest),
          LogKind::iolog);
      break;
    default:
      try_log(rest, LogKind::strace);
  }
  return 0;
}
