#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "trace/preload/functions.h"
#include "trace/preload/instructions.h"

// What the library in a program makes of the program's code: instructions, as the assembler that
// made them knows them, and functions, as the linker knows them.

#if defined(__x86_64__) && defined(__linux__)

// clang-format off
// An instruction, its length, and what is to be known of it: it may be MOVED, STAYs, or JUMPs.
#define SAMPLE(what, text) \
  "91:\n" text "\n92:\n.pushsection .rodata\n.byte 92b-91b, '" what "'\n.popsection\n"
#define MOVED(text) SAMPLE("m", text)
#define STAYS(text) SAMPLE("s", text)
#define JUMPS(text) SAMPLE("j", text)
asm(".pushsection .rodata\n"
    "penstock_sample_facts:\n"
    ".popsection\n"
    ".pushsection .text\n"
    "penstock_samples:\n"
    MOVED("mov $17, %eax")
    MOVED("mov $0x1234, %ax")
    MOVED("movabs $0x1122334455667788, %rax")
    MOVED("movabs 0x1122334455667788, %al")
    MOVED("mov %r12d, %eax")
    MOVED("xor %eax, %eax")
    STAYS("syscall")
    MOVED("cmp $-4096, %rax")
    MOVED("cmp $-4095, %eax")
    MOVED("mov %rax, 0x50(%rbx)")
    MOVED("mov 0x18(%rsp), %rdx")
    MOVED("mov 0x12345678(%rsp,%rcx,8), %rdx")
    MOVED("mov 0x12345678(,%rcx,8), %rdx")
    MOVED("mov (%r12), %al")
    MOVED("mov (%r13), %al")
    MOVED("mov (%r13d), %al")
    MOVED("mov %fs:0, %rax")
    STAYS("lea 16(%rip), %rsi")
    MOVED("movl $5, 8(%rsp)")
    MOVED("movw $5, 8(%rsp)")
    MOVED("movb $5, 8(%rsp)")
    MOVED("test $5, %al")
    MOVED("testb $5, (%rax)")
    MOVED("testw $5, (%rax)")
    MOVED("testl $5, (%rax)")
    MOVED("not %rax")
    MOVED("notb (%rax)")
    MOVED("incl (%rax)")
    MOVED("push (%rax)")
    MOVED("push $5")
    MOVED("push $500")
    MOVED("push %r15")
    MOVED("pop %r15")
    MOVED("imul $5, %rax, %rdx")
    MOVED("imul $500, %rax, %rdx")
    MOVED("shl $3, %rax")
    MOVED("shl %rax")
    MOVED("lock cmpxchg %rdx, (%rdi)")
    MOVED("movzbl 3(%rax), %eax")
    MOVED("movslq %edi, %rdi")
    MOVED("cmovne %rax, %rdx")
    MOVED("sete %al")
    MOVED("bt $3, %rax")
    MOVED("shld $3, %rax, %rdx")
    MOVED("bswap %r9")
    MOVED("rep movsb")
    MOVED("rdtsc")
    MOVED("cpuid")
    MOVED("leave")
    MOVED("enter $8, $0")
    MOVED("fldt (%rax)")
    MOVED("xchg %ax, %ax")
    MOVED("endbr64")
    MOVED("nopw 0x0(%rax,%rax,1)")
    MOVED("cs nopw 0x0(%rax,%rax,1)")
    MOVED("movups %xmm0, 8(%rsp)")
    MOVED("pshufd $1, %xmm0, %xmm1")
    MOVED("pshufb %xmm0, %xmm1")
    MOVED("palignr $1, %xmm0, %xmm1")
    MOVED("pextrw $1, %xmm0, %eax")
    MOVED("vmovdqu (%rdi), %ymm0")
    MOVED("vpshufd $1, %ymm0, %ymm1")
    MOVED("vpshufb (%r9,%r10), %ymm0, %ymm1")
    MOVED("vpalignr $1, %ymm0, %ymm1, %ymm9")
    STAYS("vmovdqu 16(%rip), %ymm12")
    MOVED("vzeroupper")
    MOVED("vmovdqu64 64(%rdi), %zmm17")
    MOVED("vpternlogd $1, %zmm1, %zmm2, %zmm3")
    STAYS("ret")
    STAYS("ret $8")
    STAYS("call *%rax")
    STAYS("jmp *8(%rax)")
    STAYS("ud2")
    STAYS("int3")
    STAYS("int $3 + 0x50")
    JUMPS("1: jmp 1b")
    JUMPS("1: jne 1b")
    JUMPS("1: jrcxz 1b")
    JUMPS("1: loop 1b")
    JUMPS("jmp . + 0x1000")
    JUMPS("jne . + 0x1000")
    JUMPS("call . + 0x1000")
    ".popsection\n"
    ".pushsection .rodata\n"
    ".byte 0, 0\n"
    ".popsection\n");
// clang-format on
extern "C" const uint8_t penstock_samples[];
extern "C" const char penstock_sample_facts[];

namespace penstock::trace::preload {
namespace {

TEST(Instructions, AreAsTheAssemblerMadeThem) {
  const uint8_t* at = penstock_samples;
  size_t samples = 0;
  for (const char* facts = penstock_sample_facts; facts[0] != 0; facts += 2, ++samples) {
    const auto bytes = static_cast<uint32_t>(facts[0]);
    const Instruction found = decode(at, 64);
    ASSERT_EQ(found.bytes, bytes) << "sample " << samples;
    EXPECT_EQ(found.is_movable, facts[1] == 'm') << "sample " << samples;
    EXPECT_EQ(found.has_target, facts[1] == 'j') << "sample " << samples;
    if (found.has_target) {
      // To itself, or to 4096 bytes behind its beginning.
      const int64_t target = found.target + int64_t{bytes};
      EXPECT_TRUE(target == 0 || target == 0x1000) << "sample " << samples << ": " << target;
    }
    // One that is cut off is none, and nothing behind the end is looked at.
    for (uint32_t part = 0; part < bytes; ++part) {
      const std::vector<uint8_t> cut(at, at + part);
      EXPECT_EQ(decode(cut.data(), cut.size()).bytes, 0u) << "sample " << samples;
    }
    at += bytes;
  }
  EXPECT_EQ(samples, 82u);
}

TEST(Instructions, AnyBytesAreReadWithinTheirEnd) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200000; ++i) {
    std::vector<uint8_t> bytes(random() % 20);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    const Instruction found = decode(bytes.data(), bytes.size());
    ASSERT_LE(found.bytes, std::min<size_t>(bytes.size(), 15));
  }
}

// This program's own file.
struct Program {
  std::vector<uint8_t> bytes;
  uint64_t code_offset = 0;   // of the code's segment in the file
  uint64_t code_address = 0;  // and where it is in memory

  Program() {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      unsigned long begin = 0, end = 0, offset = 0;
      char rights[5] = {};
      if (std::sscanf(line.c_str(), "%lx-%lx %4s %lx", &begin, &end, rights, &offset) != 4)
        continue;
      const auto here = reinterpret_cast<uint64_t>(&decode);
      if (rights[2] != 'x' || here < begin || here >= end) continue;
      code_offset = offset;
      code_address = begin;
    }
  }
};

TEST(Functions, BeginAndEndWhereTheLinkerPutThem) {
  const Program program;
  ASSERT_NE(program.code_address, 0u);
  Functions functions;
  functions.open(program.bytes.data(), program.bytes.size(), program.code_offset);
  const uint64_t own = reinterpret_cast<uint64_t>(&decode) - program.code_address;
  uint64_t begin = 0, end = 0;
  for (const uint64_t inside : {0, 1, 5}) {
    ASSERT_TRUE(functions.find(own + inside, begin, end));
    EXPECT_EQ(begin, own);
    EXPECT_GT(end, own + 5);
  }
  // The whole of a function is instructions, to its last byte.
  const uint8_t* code = program.bytes.data() + program.code_offset;
  while (begin < end) {
    const Instruction instruction = decode(code + begin, end - begin);
    ASSERT_GT(instruction.bytes, 0u) << "at " << begin;
    begin += instruction.bytes;
  }
  EXPECT_EQ(begin, end);
  EXPECT_FALSE(functions.find(program.bytes.size() * 2, begin, end));
}

TEST(Functions, DamagedFilesGiveNoneOrWrongOnesAndNoHarm) {
  const Program program;
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 200; ++i) {
    std::vector<uint8_t> bytes(
        program.bytes.begin(),
        program.bytes.begin() + static_cast<ptrdiff_t>(random() % program.bytes.size()));
    for (int k = 0; k < 20 && bytes.size() > 512; ++k) {
      bytes[random() % (k < 15 ? 512 : bytes.size())] = static_cast<uint8_t>(random());
    }
    Functions functions;
    functions.open(bytes.data(), bytes.size(), program.code_offset);
    uint64_t begin = 0, end = 0;
    for (int k = 0; k < 50; ++k) (void)functions.find(random() % program.bytes.size(), begin, end);
  }
}

}  // namespace
}  // namespace penstock::trace::preload

#endif
