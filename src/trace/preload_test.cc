#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "trace/preload/functions.h"
#include "trace/preload/instructions.h"
#include "trace/preload/library.h"
#include "trace/preload/site_search.h"
#include "trace/preload_watch.h"

// What the library in a program makes of the program's code: instructions, as the assembler that
// made them knows them, functions, as the linker knows them, and calls that can be taken over. And
// what its capture makes of memory that a program has written to.

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
// Calls as they stand in code. The bytes before the second and the third look like the first.
asm(".pushsection .text\n"
    ".type penstock_calls, @function\n"
    "penstock_calls:\n"
    ".cfi_startproc\n"
    "mov $17, %eax\n"
    "syscall\n"
    "cmp $-4096, %rax\n"
    "movl $17, -0x48(%rsp)\n"
    "syscall\n"
    "cmp $-4096, %rax\n"
    "cmpl $17, -0x48(%rbp)\n"
    "syscall\n"
    "cmp $-4096, %rax\n"
    "mov $200, %eax\n"  // of no interest
    "syscall\n"
    "cmp $-4096, %rax\n"
    "jmp 2f\n"
    "1: xor %eax, %eax\n"
    "2: syscall\n"
    "nopl (%rax)\n"
    "ja 1b\n"
    "ret\n"
    ".cfi_endproc\n"
    ".size penstock_calls, . - penstock_calls\n"
    ".popsection\n");
extern "C" const uint8_t penstock_calls[];
extern "C" const uint8_t penstock_samples[];
extern "C" const char penstock_sample_facts[];

namespace penstock::trace::preload {

bool is_of_interest(uint32_t number) {
  return number == 17;
}

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

// Where a jump would stand, and where the program goes on, from the call on.
std::vector<std::pair<int64_t, int64_t>> places_of(const Code& code, uint64_t from) {
  std::vector<Site> sites(sites_at_once);
  sites.resize(find_sites(code, from, sites.data()));
  std::vector<std::pair<int64_t, int64_t>> places;
  for (const Site& site : sites) {
    places.emplace_back(static_cast<int64_t>(site.begin - site.call),
                        static_cast<int64_t>(site.back - site.call));
  }
  return places;
}
using Places = std::vector<std::pair<int64_t, int64_t>>;

TEST(Sites, NumberThatIsPartOfAnotherInstructionIsNone) {
  const Program program;
  ASSERT_NE(program.code_address, 0u);
  Functions functions;
  functions.open(program.bytes.data(), program.bytes.size(), program.code_offset);
  const uint64_t own = reinterpret_cast<uint64_t>(penstock_calls) - program.code_address;
  uint64_t begin = 0, end = 0;
  ASSERT_TRUE(functions.find(own, begin, end));
  const Code code{.bytes = program.bytes.data() + program.code_offset,
                  .begin = 0,
                  .size = end,
                  .functions = functions};
  // The fourth is of no interest. The last one is jumped to: all before the call stays as it is.
  EXPECT_EQ(places_of(code, begin), (Places{{-5, 2}, {0, 8}, {0, 8}, {0, 5}}));
}

TEST(Sites, WithoutATableOfFunctionsNumbersAreTrustedWhereNothingElseEndsWithThem) {
  const auto places = [](std::vector<uint8_t> code) {
    code.insert(code.end(), {0x11, 0, 0, 0, 0x0f, 0x05});
    code.insert(code.end(), 16, 0x90);
    return places_of({.bytes = code.data(), .begin = 0, .size = code.size(), .functions = {}}, 0);
  };
  EXPECT_EQ(places({0x90, 0x90, 0x90, 0xb8}), (Places{{-5, 2}}));  // mov $17,%eax
  EXPECT_EQ(places({0x90, 0x48, 0xc7, 0xc0}), (Places{{-7, 2}}));  // mov $17,%rax
  EXPECT_EQ(places({0xc7, 0x44, 0x24, 0xb8}), Places{});           // movl $17,-0x48(%rsp)
  EXPECT_EQ(places({0xc7, 0x44, 0x88, 0xb8}), Places{});           // ... (%rax,%rcx,4)
  EXPECT_EQ(places({0x90, 0x81, 0x7d, 0xb8}), Places{});           // cmpl $17,-0x48(%rbp)
  EXPECT_EQ(places({0x90, 0x90, 0x90, 0x41, 0xb8}), Places{});     // mov $17,%r8d
}

TEST(Functions, NotesOfGoAreKnown) {
  const auto is_of_go = [](const std::string& name, uint8_t type) {
    // Another one before it, whose name and content are padded.
    std::string notes("\x05\0\0\0\x03\0\0\0\x04\0\0\0abcd\0...123.", 24);
    notes += std::string("\x04\0\0\0\x08\0\0\0", 8) + static_cast<char>(type);
    notes += std::string(3, '\0') + name + "12345678";
    return has_note_of_go(reinterpret_cast<const uint8_t*>(notes.data()), notes.size());
  };
  EXPECT_TRUE(is_of_go(std::string("Go\0\0", 4), 4));
  EXPECT_FALSE(is_of_go(std::string("Go\0\0", 4), 1));
  EXPECT_FALSE(is_of_go(std::string("GNU\0", 4), 4));
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes(random() % 64);
    for (uint8_t& byte : bytes) byte = random() % 3 == 0 ? static_cast<uint8_t>(random()) : 0;
    (void)has_note_of_go(bytes.data(), bytes.size());
  }
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

// The memory that a capture shares with programs, as one of them has it.
class Channel {
 public:
  explicit Channel(const PreloadWatch& watch) {
    const PreloadWatch::Environment environment(watch);
    const std::string named = std::getenv("PENSTOCK_TRACE");
    descriptor_ = ::open(named.substr(0, named.find(' ')).c_str(), O_RDWR | O_CLOEXEC);
    bytes_ = static_cast<size_t>(::lseek(descriptor_, 0, SEEK_END));
    at_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0);
  }
  ~Channel() {
    ::munmap(at_, bytes_);
    ::close(descriptor_);
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  int descriptor() const { return descriptor_; }
  Control& control() { return *static_cast<Control*>(at_); }
  // What a program does at a call, in so many bytes.
  void write(const kernel::CallRecord& record, size_t bytes) {
    const uint64_t first = control().tail;
    for (size_t at = 0; at < bytes; at += slot_payload_bytes) {
      const uint64_t number = control().tail++;
      Slot& slot = slots()[number & (control().slots - 1)];
      const auto* from = reinterpret_cast<const uint8_t*>(&record) + at;
      std::memcpy(slot.payload, from, std::min(bytes - at, slot_payload_bytes));
      slot.first = first;
      slot.bytes = static_cast<uint32_t>(bytes);
      __atomic_store_n(&slot.word, slot_word(number, 1, slot_full), __ATOMIC_RELEASE);
    }
  }

 private:
  Slot* slots() { return reinterpret_cast<Slot*>(static_cast<std::byte*>(at_) + slots_at); }
  int descriptor_ = -1;
  size_t bytes_ = 0;
  void* at_ = nullptr;
};

constexpr uint64_t small_ring_bytes = 1024 * sizeof(Slot);
const kernel::CallRecord a_call{.head = {.kind = kernel::record_call, .process = 1, .thread = 1}};

TEST(PreloadWatch, WritersThatWereKilledTogetherAreWaitedForTogether) {
  auto watch = PreloadWatch::open(small_ring_bytes);
  ASSERT_TRUE(watch) << watch.error().message();
  Channel channel(**watch);
  // Numbers that were taken, and nothing written: a second each would be two minutes.
  constexpr uint64_t killed = 120;
  channel.control().tail += killed;
  channel.write(a_call, slot_payload_bytes);
  uint64_t calls = 0;
  const auto give_up_at = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((*watch)->drain([&](auto) { ++calls; }) != PreloadWatch::Drained::all) {
    ASSERT_LT(std::chrono::steady_clock::now(), give_up_at);
    ::usleep(1000);
  }
  EXPECT_EQ(calls, 1u);
  EXPECT_EQ((*watch)->counted().calls.lost, killed);
}

TEST(PreloadWatch, WhatIsMissingCanBeGivenUp) {
  auto watch = PreloadWatch::open(small_ring_bytes);
  ASSERT_TRUE(watch) << watch.error().message();
  Channel channel(**watch);
  constexpr uint64_t garbage = uint64_t{1} << 39;
  channel.control().tail += garbage;
  EXPECT_EQ((*watch)->drain([](auto) {}), PreloadWatch::Drained::waits);
  (*watch)->give_up();
  EXPECT_EQ((*watch)->drain([](auto) {}), PreloadWatch::Drained::all);
  EXPECT_EQ((*watch)->counted().calls.lost, garbage);
}

TEST(PreloadWatch, CallsAreGivenWithTheirSecondFileOrWithoutIt) {
  auto watch = PreloadWatch::open(small_ring_bytes);
  ASSERT_TRUE(watch) << watch.error().message();
  Channel channel(**watch);
  std::vector<size_t> given;
  for (size_t bytes = 0; bytes <= sizeof a_call; ++bytes) {
    channel.write(a_call, bytes);
    (void)(*watch)->drain(
        [&](std::span<const std::byte> record) { given.push_back(record.size()); });
  }
  EXPECT_EQ(given, (std::vector<size_t>{slot_payload_bytes, sizeof a_call}));
}

TEST(PreloadWatch, ItsMemoryCannotBeCutOff) {
  auto watch = PreloadWatch::open(small_ring_bytes);
  ASSERT_TRUE(watch) << watch.error().message();
  const Channel channel(**watch);
  EXPECT_NE(::ftruncate(channel.descriptor(), 0), 0);
}

TEST(PreloadWatch, KnowsWhenAProcessBegan) {
  const uint64_t began = PreloadWatch::begin_of(::getpid());
  EXPECT_GT(began, 0u);
  EXPECT_LE(PreloadWatch::begin_of(::getppid()), began);
  EXPECT_EQ(PreloadWatch::begin_of(-1), 0u);
}

}  // namespace
}  // namespace penstock::trace::preload

#endif
