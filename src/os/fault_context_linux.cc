#include <ucontext.h>

#include <cstdint>
#include <cstring>

#include "os/fault_context.h"

namespace penstock::os {

#if defined(__x86_64__)

FaultAccess fault_access(const void* context) noexcept {
  constexpr greg_t page_fault_trap = 14;
  constexpr greg_t write_bit = 1 << 1;
  constexpr greg_t fetch_bit = 1 << 4;
  const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
  if (registers[REG_TRAPNO] != page_fault_trap) return FaultAccess::read;
  if ((registers[REG_ERR] & fetch_bit) != 0) return FaultAccess::execute;
  return (registers[REG_ERR] & write_bit) != 0 ? FaultAccess::write : FaultAccess::read;
}

#elif defined(__aarch64__)

FaultAccess fault_access(const void* context) noexcept {
  // The frame ends in a list of records {magic, size}; ESR_MAGIC is followed by the exception
  // syndrome register.
  constexpr uint32_t esr_magic = 0x45535201;
  struct Record {
    uint32_t magic;
    uint32_t size;
  };
  const auto& reserved = static_cast<const ucontext_t*>(context)->uc_mcontext.__reserved;
  for (size_t at = 0; at + sizeof(Record) + sizeof(uint64_t) <= sizeof reserved;) {
    Record record;
    std::memcpy(&record, reserved + at, sizeof record);
    if (record.magic == 0 || record.size < sizeof record) break;
    if (record.magic != esr_magic) {
      at += record.size;
      continue;
    }
    uint64_t syndrome;
    std::memcpy(&syndrome, reserved + at + sizeof record, sizeof syndrome);
    const uint64_t exception_class = syndrome >> 26 & 0x3f;
    if (exception_class == 0x20 || exception_class == 0x21) return FaultAccess::execute;
    const bool data_abort = exception_class == 0x24 || exception_class == 0x25;
    return data_abort && (syndrome >> 6 & 1) != 0 ? FaultAccess::write : FaultAccess::read;
  }
  return FaultAccess::read;
}

#else
#error "fault_access() is not written for this processor"
#endif

}  // namespace penstock::os
