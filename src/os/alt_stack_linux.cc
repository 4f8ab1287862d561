#include <sys/auxv.h>

#include <cerrno>

#include "base/bits.h"
#include "os/alt_stack.h"

// Younger than some headers; the kernel's own figure for the frame, AVX-512 and AMX registers
// included.
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

namespace penstock::os {

AltStack::AltStack(size_t bytes) {
  const size_t stack_bytes = round_up(bytes + getauxval(AT_MINSIGSTKSZ), page_bytes);
  auto memory = Reservation::reserve(page_bytes + stack_bytes, page_bytes);
  if (!memory) {
    status_ = std::unexpected(memory.error());
    return;
  }
  std::byte* const stack = memory->begin() + page_bytes;
  if (const int error = commit(stack, stack_bytes)) {
    status_ = system_error(error, "commit a signal stack", "alternate stack");
    return;
  }
  const stack_t ours = {.ss_sp = stack, .ss_flags = 0, .ss_size = stack_bytes};
  if (sigaltstack(&ours, &previous_) != 0) {
    status_ = system_error(errno, "use a signal stack", "alternate stack");
    return;
  }
  memory_ = std::move(*memory);
}

AltStack::~AltStack() {
  if (!status_) return;
  previous_.ss_flags &= SS_DISABLE;
  sigaltstack(&previous_, nullptr);
}

}  // namespace penstock::os
