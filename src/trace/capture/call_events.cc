#include "trace/capture/call_events.h"

#include "base/check.h"

namespace penstock::trace {

Event event_of(const AskedCall& asked, uint64_t result) {
  Event event{.descriptor = asked.descriptor, .flags = asked.flags};
  switch (asked.what) {
    case Asked::duplicate:
      event.call = Call::duplicate;
      event.descriptor2 = static_cast<int32_t>(result);
      break;
    case Asked::set_flags:
      event.call = Call::set_flags;
      break;
    case Asked::read:
    case Asked::write:
      event.call = asked.what == Asked::read ? Call::read : Call::write;
      event.offset = asked.offset;
      event.result = result;
      event.bytes = asked.flags & flag::vector ? result : asked.bytes;
      break;
    case Asked::seek:
      event.call = Call::seek;
      event.result = result;
      break;
    case Asked::copy:
      event.call = Call::copy;
      event.descriptor2 = asked.descriptor2;
      event.bytes = asked.bytes;
      event.result = result;
      break;
    case Asked::truncate:
    case Asked::truncate_path:
      event.call = Call::truncate;
      event.bytes = event.result = asked.bytes;
      break;
    case Asked::allocate:
      event.call = Call::allocate;
      event.offset = asked.offset;
      event.bytes = asked.bytes;
      break;
    case Asked::sync:
      event.call = Call::sync;
      break;
    case Asked::rename:
      event.call = Call::rename;
      break;
    case Asked::unlink:
      event.call = Call::unlink;
      break;
    case Asked::map:
      event.call = Call::map;
      event.offset = asked.offset;
      event.bytes = event.result = asked.bytes;
      break;
    default:
      PENSTOCK_CHECK(false, "a call that has no event of its own");
  }
  return event;
}

}  // namespace penstock::trace
