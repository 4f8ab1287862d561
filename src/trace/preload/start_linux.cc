#include "trace/preload/library.h"

// Before the program's first line, and before that of all its libraries (the library is linked with
// -z initfirst).

namespace penstock::trace::preload {
namespace {

[[gnu::constructor]] void start(int, char**, char** environment) {
  if (!join_capture(environment)) {
    control = nullptr;
    return;
  }
  // Behind the environment as the kernel gave it stands what else it tells. (Ours was taken out, so
  // that the list may end earlier than it did: the numbers behind are no addresses of strings.)
  char** end = environment;
  while (*end != nullptr) ++end;
  while (*end == nullptr || reinterpret_cast<uint64_t>(*end) > 4096) ++end;
  find_clock(reinterpret_cast<const uint64_t*>(end));
  start_sending();
  kernel::FileIdentity program;
  tell_program(program);
  const kernel::ExecRecord record{
      .head = head_of(kernel::record_exec), .start_ns = now_ns(), .program = program};
  send(&record, sizeof record);
  take_over_program();
}

}  // namespace
}  // namespace penstock::trace::preload
