#include "trace/preload/library.h"

// From a call's place in the code to the hooks and back.
//
// A place that was taken over jumps to code of its own (sites_linux.cc), which calls
// penstock_trace_entry with the registers as the program set them for the kernel:
//
//   rsp -> where that code goes on
//          the place in the program behind its system call
//          128 bytes that the program may use below its stack (the "red zone")
//          the program's stack
//
// All registers but rax (the answer), rcx and r11 are as before when it returns, as the kernel
// would leave them; but the flags, which no compiler expects to outlive a call, are not. rcx says
// what is left to do there (`Then`). Unwinding (a thread that is cancelled while it waits in
// read(), a debugger) finds the program's own place by what .cfi says.

asm(R"(
.pushsection .text
.global penstock_trace_entry
.hidden penstock_trace_entry
.type penstock_trace_entry, @function
penstock_trace_entry:
  .cfi_startproc
  .cfi_def_cfa rsp, 144
  .cfi_offset rip, -136
  cmp $512, %rax
  jae 1f
  lea penstock_trace_interest(%rip), %rcx
  cmpb $0, (%rcx,%rax)
  je 1f
  push %r9
  .cfi_adjust_cfa_offset 8
  push %r8
  .cfi_adjust_cfa_offset 8
  push %r10
  .cfi_adjust_cfa_offset 8
  push %rdx
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rax
  .cfi_adjust_cfa_offset 8
  mov %rsp, %rdi
  call penstock_trace_observe
  mov %rdx, %rcx
  lea 8(%rsp), %rsp
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdx
  .cfi_adjust_cfa_offset -8
  pop %r10
  .cfi_adjust_cfa_offset -8
  pop %r8
  .cfi_adjust_cfa_offset -8
  pop %r9
  .cfi_adjust_cfa_offset -8
  ret
1:
  mov $1, %ecx
  ret
  .cfi_endproc
.size penstock_trace_entry, . - penstock_trace_entry

.global penstock_trace_after
.hidden penstock_trace_after
.type penstock_trace_after, @function
penstock_trace_after:
  push %r9
  push %r8
  push %r10
  push %rdx
  push %rsi
  push %rdi
  push %rax
  mov %rax, %rdi
  call penstock_trace_say
  pop %rax
  pop %rdi
  pop %rsi
  pop %rdx
  pop %r10
  pop %r8
  pop %r9
  ret
.size penstock_trace_after, . - penstock_trace_after
.popsection
)");
