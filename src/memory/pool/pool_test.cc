// The contract of pool.h, the same for every mechanism and block size.

#include "memory/pool/pool.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <thread>
#include <tuple>
#include <vector>

#include "base/random.h"
#include "base/trials.h"
#include "memory/pool/pinned_page_fixture.h"
#include "os/limits.h"
#include "os/process_counts.h"
#include "os/sanitizer.h"

namespace penstock::pool {
namespace {

struct Case {
  Mechanism mechanism;
  bool strict;
  size_t block_bytes;
};

// Returns whether an address can be read, by a system call: no signal, and no page appears.
bool readable(const std::byte* address) {
  static int* const ends = [] {
    static int pair[2];
    EXPECT_EQ(pipe(pair), 0);
    return pair;
  }();
  if (write(ends[1], address, 1) != 1) {
    EXPECT_EQ(errno, EFAULT);
    return false;
  }
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 1);
  return true;
}

// Writes a word in each page that tells the block, its version, and the place in the block.
void stamp(std::byte* at, size_t bytes, uint64_t tag) {
  for (size_t offset = 0; offset < bytes; offset += os::page_bytes) {
    const uint64_t word = mix64(tag + offset);
    std::memcpy(at + offset + 8 * (tag % 512), &word, sizeof word);
  }
}
bool has_stamp(const std::byte* at, size_t bytes, uint64_t tag) {
  for (size_t offset = 0; offset < bytes; offset += os::page_bytes) {
    uint64_t word;
    std::memcpy(&word, at + offset + 8 * (tag % 512), sizeof word);
    if (word != mix64(tag + offset)) return false;
  }
  return true;
}

uint64_t field_kib(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
  return 0;
}
uint64_t memory_bytes() {
  return (field_kib("/proc/self/status", "RssAnon:") +
          field_kib("/proc/self/status", "RssShmem:")) *
         KiB;
}

class PoolContract : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    for (const MechanismReport& report : probe())
      if (report.mechanism == GetParam().mechanism && !report.works) GTEST_SKIP() << report.detail;
  }
  PoolOptions options(uint32_t blocks) const {
    return {.block_bytes = GetParam().block_bytes,
            .blocks_max = blocks,
            .mechanism = GetParam().mechanism,
            .strict = GetParam().strict,
            .unmap_batch_blocks = 5};
  }
  std::unique_ptr<Pool> open(uint32_t blocks) const { return Pool::open(options(blocks)).value(); }
};

TEST_P(PoolContract, BehavesLikeAPlainModel) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  constexpr uint32_t blocks = 12;
  constexpr size_t places = 40;
  const auto pool = open(blocks);
  const size_t bytes = pool->block_bytes();
  auto range = pool->reserve(places * bytes).value();
  ASSERT_GE(range.bytes(), places * bytes);
  ASSERT_EQ(reinterpret_cast<uintptr_t>(range.begin()) % bytes, 0u);

  struct Model {
    enum { free, home, mapped } where = free;
    size_t place = 0;
    uint64_t tag = 0;
  };
  std::vector<Model> model(blocks);
  std::vector<BlockId> block_at(places, no_block);
  uint64_t tags = seed;
  uint32_t free = blocks, taken_most = 0;
  const auto address = [&](size_t place) { return range.begin() + place * bytes; };
  const auto free_place = [&] {
    size_t place;
    do place = random.below(places);
    while (block_at[place] != no_block);
    return place;
  };
  const auto visible_at = [&](BlockId block) {
    return model[block].where == Model::home ? pool->home(block) : address(model[block].place);
  };
  for (int step = 0; step < 2000; ++step) {
    const auto block = static_cast<BlockId>(random.below(blocks));
    Model& it = model[block];
    switch (random.below(6)) {
      case 0: {
        const BlockId taken = pool->take();
        ASSERT_EQ(taken == no_block, free == 0);
        if (taken == no_block) break;
        ASSERT_EQ(model[taken].where, Model::free);
        model[taken].where = Model::home;
        stamp(pool->home(taken), bytes, model[taken].tag = ++tags);
        taken_most = std::max(taken_most, blocks - --free);
        break;
      }
      case 1:
        if (it.where != Model::home) break;
        pool->give(block);
        it.where = Model::free;
        ++free;
        break;
      case 2:
        if (it.where != Model::home) break;
        it.place = free_place();
        ASSERT_EQ(pool->map(block, address(it.place)), 0);
        it.where = Model::mapped;
        block_at[it.place] = block;
        break;
      case 3: {
        if (it.where != Model::mapped) break;
        const size_t to = free_place();
        ASSERT_EQ(pool->remap(block, address(it.place), address(to)), 0);
        block_at[it.place] = no_block;
        block_at[it.place = to] = block;
        break;
      }
      case 4:
        if (it.where != Model::mapped) break;
        ASSERT_EQ(pool->unmap(block, address(it.place)), 0);
        it.where = Model::home;
        block_at[it.place] = no_block;
        break;
      case 5:
        if (it.where == Model::free) break;
        ASSERT_TRUE(has_stamp(visible_at(block), bytes, it.tag))
            << "block " << block << ", step " << step;
        stamp(visible_at(block), bytes, it.tag = ++tags);
        break;
    }
    ASSERT_EQ(pool->blocks_free(), free);
    ASSERT_EQ(pool->blocks_committed(), taken_most);
    if (!GetParam().strict && random.below(50) != 0) continue;
    ASSERT_EQ(pool->flush_unmaps(), 0);
    for (size_t place = 0; place < places; ++place) {
      ASSERT_EQ(readable(address(place)), block_at[place] != no_block)
          << "place " << place << ", step " << step;
      ASSERT_EQ(readable(address(place) + bytes - 1), block_at[place] != no_block);
    }
  }
  for (BlockId block = 0; block < blocks; ++block) {
    if (model[block].where == Model::free) continue;
    EXPECT_TRUE(has_stamp(visible_at(block), bytes, model[block].tag));
    if (model[block].where == Model::mapped) {
      EXPECT_EQ(pool->unmap(block, address(model[block].place)), 0);
    }
    EXPECT_TRUE(has_stamp(pool->home(block), bytes, model[block].tag));
  }
  pool->release(range);
}

sigjmp_buf after_fault;
volatile sig_atomic_t signal_seen;
void* volatile address_seen;
void on_fault(int signal, siginfo_t* info, void*) {
  signal_seen = signal;
  address_seen = info->si_addr;
  siglongjmp(after_fault, 1);
}

TEST_P(PoolContract, TouchingAnUnmappedPlaceRaisesItsFaultSignal) {
  const auto pool = open(2);
  auto range = pool->reserve(4 * pool->block_bytes()).value();
  struct sigaction ours = {}, segv, bus;
  ours.sa_sigaction = on_fault;
  ours.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &ours, &segv);
  sigaction(SIGBUS, &ours, &bus);
  const auto signal_of = [&](size_t offset, bool write) -> int {
    signal_seen = 0;
    auto* const at = reinterpret_cast<volatile char*>(range.begin() + offset);
    if (sigsetjmp(after_fault, 1) == 0) {
      if (write)
        *at = 1;
      else
        static_cast<void>(*at);
      return 0;
    }
    EXPECT_EQ(address_seen, at);
    return signal_seen;
  };
  const BlockId block = pool->take();
  ASSERT_EQ(pool->map(block, range.begin() + pool->block_bytes()), 0);
  EXPECT_EQ(signal_of(123, false), pool->fault_signal());
  EXPECT_EQ(signal_of(123, true), pool->fault_signal());
  EXPECT_EQ(signal_of(pool->block_bytes() + 123, true), 0);
  EXPECT_EQ(signal_of(2 * pool->block_bytes(), true), pool->fault_signal());
  ASSERT_EQ(pool->remap(block, range.begin() + pool->block_bytes(), range.begin()), 0);
  ASSERT_EQ(pool->flush_unmaps(), 0);
  EXPECT_EQ(signal_of(123, true), 0);
  EXPECT_EQ(signal_of(pool->block_bytes() + 123, false), pool->fault_signal());
  sigaction(SIGSEGV, &segv, nullptr);
  sigaction(SIGBUS, &bus, nullptr);
  pool->release(range);
}

TEST_P(PoolContract, GivesOutEachBlockOnceAndNoMoreThanAllowed) {
  const auto pool = open(7);
  EXPECT_EQ(pool->blocks_free(), 7u);
  EXPECT_EQ(pool->blocks_committed(), 0u);
  std::vector<bool> seen(7);
  for (int i = 0; i < 7; ++i) {
    const BlockId block = pool->take();
    ASSERT_LT(block, 7u);
    EXPECT_FALSE(seen[block]);
    seen[block] = true;
    EXPECT_EQ(pool->blocks_committed(), i + 1u);
  }
  EXPECT_EQ(pool->take(), no_block);
  EXPECT_EQ(pool->blocks_free(), 0u);
  pool->give(3);
  EXPECT_EQ(pool->take(), 3u);
  EXPECT_EQ(pool->take(), no_block);
}

TEST_P(PoolContract, ABlockGivenLastIsTakenFirstSoThatMemoryStaysSmall) {
  const auto pool = open(1000);
  for (int i = 0; i < 50; ++i) {
    const BlockId a = pool->take(), b = pool->take();
    pool->give(a);
    pool->give(b);
    EXPECT_EQ(pool->take(), b);
    pool->give(b);
  }
  EXPECT_EQ(pool->blocks_committed(), 2u);
}

TEST_P(PoolContract, TrimGivesTheMemoryOfFreeBlocksBack) {
  const auto pool = open(8);
  std::vector<BlockId> blocks;
  for (int i = 0; i < 8; ++i) blocks.push_back(pool->take());
  for (const BlockId block : blocks) stamp(pool->home(block), pool->block_bytes(), block);
  for (int i = 1; i < 8; ++i) pool->give(blocks[i]);
  const uint64_t before = memory_bytes();
  pool->trim();
  EXPECT_EQ(pool->blocks_committed(), 1u);
  EXPECT_EQ(pool->blocks_free(), 7u);
  if (pool->block_bytes() >= MiB) {
    EXPECT_LT(memory_bytes(), before - 6 * pool->block_bytes());
  }
  EXPECT_TRUE(has_stamp(pool->home(blocks[0]), pool->block_bytes(), blocks[0]));
  auto range = pool->reserve(8 * pool->block_bytes()).value();
  for (int i = 1; i < 8; ++i) {  // trimmed blocks can be taken again
    const BlockId block = pool->take();
    ASSERT_NE(block, no_block);
    stamp(pool->home(block), pool->block_bytes(), 100 + block);
    ASSERT_EQ(pool->map(block, range.begin() + i * pool->block_bytes()), 0);
    EXPECT_TRUE(
        has_stamp(range.begin() + i * pool->block_bytes(), pool->block_bytes(), 100 + block));
  }
  pool->release(range);
}

TEST_P(PoolContract, ServesManyThreads) {
  constexpr int threads = 4, rounds = os::shadowed ? 20 : 150;
  constexpr uint32_t blocks = 10;  // fewer than the threads would like
  const auto pool = open(blocks);
  const size_t bytes = pool->block_bytes();
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  // A thread that maps memory into any hole that a move leaves in the address space.
  std::thread intruder([&] {
    while (!stop) {
      void* const mine =
          mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (mine == MAP_FAILED) continue;
      *static_cast<volatile char*>(mine) = 1;
      munmap(mine, bytes);
    }
  });
  std::thread trimmer([&] {
    while (!stop) {
      pool->trim();
      std::this_thread::yield();
    }
  });
  std::vector<std::thread> crowd;
  for (int t = 0; t < threads; ++t) {
    crowd.emplace_back([&, t] {
      auto range = pool->reserve(8 * bytes).value();
      Random random(static_cast<uint64_t>(t));
      for (int round = 0; round < rounds; ++round) {
        BlockId held[4];
        int count = 0;
        while (count < 4 && (held[count] = pool->take()) != no_block) ++count;
        const uint64_t tag = random.next();
        for (int i = 0; i < count; ++i) {
          std::byte* const at = range.begin() + static_cast<size_t>(i) * bytes;
          stamp(pool->home(held[i]), bytes, tag + i);
          if (pool->map(held[i], at) != 0) ++wrong;
          if (!has_stamp(at, bytes, tag + i)) ++wrong;
          if (pool->remap(held[i], at, at + 4 * bytes) != 0) ++wrong;
          if (!has_stamp(at + 4 * bytes, bytes, tag + i)) ++wrong;
        }
        for (int i = 0; i < count; ++i) {
          if (pool->unmap(held[i], range.begin() + static_cast<size_t>(4 + i) * bytes) != 0)
            ++wrong;
          if (!has_stamp(pool->home(held[i]), bytes, tag + i)) ++wrong;
          pool->give(held[i]);
        }
      }
      pool->release(range);
    });
  }
  for (auto& thread : crowd) thread.join();
  stop = true;
  intruder.join();
  trimmer.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(pool->blocks_free(), blocks);
}

TEST_P(PoolContract, LeavesNothingBehind) {
  const auto use = [&] {
    const auto pool = open(16);
    const size_t bytes = pool->block_bytes();
    auto first = pool->reserve(16 * bytes).value();
    auto second = pool->reserve(64 * bytes).value();
    for (size_t i = 0; i < 16; ++i) {
      const BlockId block = pool->take();
      stamp(pool->home(block), bytes, i);
      ASSERT_EQ(pool->map(block, first.begin() + i * bytes), 0);
      if (i % 2 == 0) {
        ASSERT_EQ(pool->remap(block, first.begin() + i * bytes, second.begin() + 3 * i * bytes), 0);
      }
    }
    pool->release(second);
    pool->release(first);
  };
  use();
  const size_t mappings_before = os::mappings().used, descriptors_before = os::descriptors();
  const uint64_t memory_before = memory_bytes();
  for (int i = 0; i < 5; ++i) use();
  if (!os::shadowed) {
    EXPECT_LE(os::mappings().used, mappings_before + 1);
  }
  EXPECT_EQ(os::descriptors(), descriptors_before);
  EXPECT_LE(memory_bytes(), memory_before + 4 * MiB);
}

class PoolOfPages : public PoolContract {};

// A thread that comes back meanwhile must fault: zeros that it read there would be wrong data.
TEST_P(PoolContract, AddressesAreNeverReadableWhileTheirPageTablesAreFreed) {
  auto pool = open(4);
  auto range = pool->reserve(4 * pool->block_bytes()).value();
  std::atomic<bool> ends = false;
  std::atomic<uint64_t> looks = 0, found = 0;
  std::thread other([&] {
    for (; !ends.load(std::memory_order_relaxed); ++looks) found += readable(range.begin()) ? 1 : 0;
  });
  for (int calls = 0; static_cast<uint64_t>(calls) < trials(4000) || looks < 100; ++calls)
    ASSERT_EQ(pool->free_page_tables({range.begin(), range.bytes()}), 0);
  ends = true;
  other.join();
  EXPECT_EQ(found, 0u) << "of " << looks;
  pool->release(range);
}

TEST_P(PoolOfPages, RunsOutOfMappingsWithAnErrorAndNoLoss) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  uint64_t mappings_max = 0;
  std::ifstream("/proc/sys/vm/max_map_count") >> mappings_max;
  if (mappings_max > 100'000) GTEST_SKIP() << "vm.max_map_count is " << mappings_max;
  const auto blocks = static_cast<uint32_t>(mappings_max / 2 + 1000);
  const auto pool = open(blocks);
  const size_t bytes = pool->block_bytes();
  auto range = pool->reserve(uint64_t{2} * blocks * bytes).value();
  const auto place = [&](uint32_t i) { return range.begin() + uint64_t{2} * i * bytes; };
  std::vector<BlockId> taken(blocks);
  int error = 0;
  uint32_t mapped = 0;
  for (uint32_t i = 0; i < blocks; ++i) {
    taken[i] = pool->take();
    if (taken[i] == no_block) break;  // committing a block may need a mapping, too
    stamp(pool->home(taken[i]), bytes, i);
    if (error == 0 && (error = pool->map(taken[i], place(i))) == 0) mapped = i + 1;
  }
  if (GetParam().mechanism == Mechanism::uffd_move) {
    EXPECT_EQ(error, 0);
    EXPECT_EQ(mapped, blocks);
  } else {
    EXPECT_EQ(error, ENOMEM);
    EXPECT_GT(mapped, 10'000u);
    EXPECT_LT(mapped, blocks);
    EXPECT_TRUE(
        has_stamp(pool->home(taken[mapped]), bytes, mapped));  // the one that failed stayed at home
  }
  for (uint32_t i = 0; i < mapped; ++i) {
    ASSERT_TRUE(has_stamp(place(i), bytes, i)) << i;
    ASSERT_EQ(pool->unmap(taken[i], place(i)), 0) << i;
    ASSERT_TRUE(has_stamp(pool->home(taken[i]), bytes, i)) << i;
  }
  pool->release(range);
}

class PoolOfHugePages : public PoolContract {};

TEST_P(PoolOfHugePages, ReallyHasHugePages) {
  const auto pool = open(4);
  if (pool->pages() != PageKind::huge)
    GTEST_SKIP() << "no transparent huge pages here: " << name_of(pool->pages());
  auto range = pool->reserve(8 * pool->block_bytes()).value();
  for (size_t i = 0; i < 4; ++i) {
    const BlockId block = pool->take();
    ASSERT_EQ(pool->map(block, range.begin() + 2 * i * pool->block_bytes()), 0);
    ASSERT_TRUE(readable(range.begin() + 2 * i * pool->block_bytes()));
  }
  const uint64_t huge_kib = field_kib("/proc/self/smaps_rollup", "AnonHugePages:") +
                            field_kib("/proc/self/smaps_rollup", "ShmemPmdMapped:");
  EXPECT_GE(huge_kib * KiB, 4 * pool->block_bytes());
  pool->release(range);
}

TEST_P(PoolOfHugePages, HasThemIfLargerBlocksHave) {
  PoolOptions larger = options(4);
  larger.block_bytes *= 2;
  EXPECT_EQ(open(4)->pages(), Pool::open(larger).value()->pages());
}

TEST_P(PoolContract, WorksWithoutPrivilege) {
  if (geteuid() != 0) GTEST_SKIP() << "this whole program runs without privilege";
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    if (setgid(65534) != 0 || setuid(65534) != 0) _exit(1);
    auto pool = Pool::open(options(4));
    if (!pool) _exit(2);
    const size_t bytes = (*pool)->block_bytes();
    auto range = (*pool)->reserve(4 * bytes);
    const BlockId block = (*pool)->take();
    if (!range || block == no_block) _exit(3);
    stamp((*pool)->home(block), bytes, 77);
    if ((*pool)->map(block, range->begin() + bytes) != 0) _exit(4);
    if (!has_stamp(range->begin() + bytes, bytes, 77)) _exit(5);
    _exit((*pool)->unmap(block, range->begin() + bytes) == 0 ? 0 : 6);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
}

// A child does not inherit the arena, so its own memory may lie there when the pool ends.
TEST_P(PoolContract, EndsInAForkedChildWithoutTakingAnythingFromIt) {
  auto pool = open(4);
  std::byte* const home = pool->home(0);
  const size_t bytes = pool->block_bytes();
  const pid_t child = fork();
  if (child == 0) {
    if (os::commit(home, bytes) != 0) _exit(1);  // mmap() might choose this place
    *home = std::byte{1};
    pool.reset();
    _exit(readable(home) ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  const BlockId block = pool->take();
  ASSERT_NE(block, no_block);
  stamp(pool->home(block), bytes, 77);
  EXPECT_TRUE(has_stamp(pool->home(block), bytes, 77));
  pool->give(block);
}

TEST_P(PoolContract, AForkedChildGetsNothingAndTakesNothing) {
  auto pool = open(4);
  const size_t bytes = pool->block_bytes();
  auto range = pool->reserve(2 * bytes);
  ASSERT_TRUE(range) << range.error().message();
  const BlockId at_home = pool->take(), mapped = pool->take();
  stamp(pool->home(mapped), bytes, 78);
  ASSERT_EQ(pool->map(mapped, range->begin()), 0);
  const pid_t child = fork();
  if (child == 0) {
    std::byte* const behind = range->begin() + bytes;
    auto refused = pool->reserve(bytes);
    const bool right = pool->take() == no_block && pool->map(at_home, behind) == EPERM &&
                       pool->remap(mapped, range->begin(), behind) == EPERM &&
                       pool->unmap(mapped, range->begin()) == 0 &&
                       pool->unmap_in_use(mapped, range->begin(), Protection::read_write) == 0 &&
                       pool->free_page_tables({range->begin(), range->bytes()}) == 0 && !refused &&
                       refused.error().code == ErrorCode::unsupported;
    pool->give(at_home);
    pool->trim();
    _exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(pool->blocks_free(), 2u);
  EXPECT_TRUE(has_stamp(range->begin(), bytes, 78));
  ASSERT_EQ(pool->unmap(mapped, range->begin()), 0);
  EXPECT_TRUE(has_stamp(pool->home(mapped), bytes, 78));
  pool->give(mapped);
  pool->give(at_home);
  pool->release(*range);
}

std::vector<Case> cases(const std::vector<size_t>& block_sizes) {
  std::vector<Case> all;
  for (const size_t bytes : block_sizes) {
    all.push_back({Mechanism::mremap, false, bytes});
    all.push_back({Mechanism::uffd_move, false, bytes});
    all.push_back({Mechanism::shared, false, bytes});
    all.push_back({Mechanism::shared, true, bytes});
  }
  return all;
}
std::string name_of_case(const testing::TestParamInfo<Case>& tested) {
  const Case& it = tested.param;
  return std::string(name_of(it.mechanism)) + (it.strict ? "_strict_" : "_") +
         std::to_string(it.block_bytes / KiB) + "KiB";
}
INSTANTIATE_TEST_SUITE_P(All, PoolContract,
                         testing::ValuesIn(cases({4 * KiB, 64 * KiB, 256 * KiB, 2 * MiB})),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(All, PoolOfPages, testing::ValuesIn(cases({4 * KiB})), name_of_case);
INSTANTIATE_TEST_SUITE_P(All, PoolOfHugePages, testing::ValuesIn(cases({2 * MiB, 4 * MiB})),
                         name_of_case);

TEST(Pool, RefusesInvalidOptions) {
  EXPECT_FALSE(Pool::open({.block_bytes = 3000, .blocks_max = 1}));
  EXPECT_FALSE(Pool::open({.block_bytes = 2048, .blocks_max = 1}));
  EXPECT_FALSE(Pool::open({.block_bytes = 4 * GiB, .blocks_max = 1}));
  EXPECT_FALSE(Pool::open({.blocks_max = 0}));
  EXPECT_FALSE(
      Pool::open({.blocks_max = 1, .mechanism = Mechanism::mremap, .pages = PageKind::hugetlb}));
}

// Makes requests to userfaultfds of this process fail while it lives.
class UserfaultsGone {
 public:
  UserfaultsGone() {
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      std::error_code unread;
      if (std::filesystem::read_symlink(entry, unread) == "anon_inode:[userfaultfd]")
        fds_.push_back({std::stoi(entry.path().filename()), -1});
    }
    for (auto& [fd, copy] : fds_) {
      copy = ::dup(fd);
      EXPECT_EQ(::dup2(nothing, fd), fd);
    }
    ::close(nothing);
  }
  ~UserfaultsGone() {
    for (const auto& [fd, copy] : fds_) {
      EXPECT_EQ(::dup3(copy, fd, O_CLOEXEC), fd);
      ::close(copy);
    }
  }

 private:
  struct Moved {
    int fd, copy;
  };
  std::vector<Moved> fds_;
};

bool has_memory(const std::byte* address, size_t bytes) {
  std::vector<unsigned char> resident(bytes / os::page_bytes);
  EXPECT_EQ(::mincore(const_cast<std::byte*>(address), bytes, resident.data()), 0);
  return std::any_of(resident.begin(), resident.end(), [](unsigned char page) { return page & 1; });
}

Result<std::unique_ptr<Pool>> open_uffd(uint32_t blocks, bool system_calls = false) {
  return Pool::open({.block_bytes = 64 * KiB,
                     .blocks_max = blocks,
                     .mechanism = Mechanism::uffd_move,
                     .system_calls = system_calls});
}

TEST(UffdPool, ABlockThatCannotBeWatchedGetsNoMemory) {
  auto pool = open_uffd(2);
  if (!pool) GTEST_SKIP() << pool.error().message();
  {
    const UserfaultsGone gone;
    EXPECT_EQ((*pool)->take(), no_block);
  }
  EXPECT_EQ((*pool)->blocks_committed(), 0u);
  EXPECT_FALSE(has_memory((*pool)->home(0), 2 * (*pool)->block_bytes()));
  EXPECT_NE((*pool)->take(), no_block);
}

TEST(UffdPool, ARangeThatCannotBeReservedLeavesRoomForOthers) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's own memory counts as data";
  auto pool = open_uffd(1, true);
  if (!pool) GTEST_SKIP() << pool.error().message();
  // Writable memory counts as data.
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_DATA, &before), 0);
  const rlimit some = {.rlim_cur = 1 * GiB, .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &some), 0);
  for (int i = 0; i < 3; ++i) {
    const auto refused = (*pool)->reserve(1 * TiB);
    ASSERT_FALSE(refused);
    if (refused.error().code == ErrorCode::permission) {
      ::setrlimit(RLIMIT_DATA, &before);
      GTEST_SKIP() << refused.error().message();
    }
    EXPECT_EQ(refused.error().code, ErrorCode::out_of_memory) << refused.error().message();
  }
  ASSERT_EQ(::setrlimit(RLIMIT_DATA, &before), 0);
  for (int i = 0; i < 2; ++i) {
    auto range = (*pool)->reserve(1 * MiB);
    EXPECT_TRUE(range) << range.error().message();
    if (i == 1 && range) (*pool)->release(*range);
  }
}

TEST(UffdPool, ABlockWithAPinnedPageStaysWhereItIs) {
  for (const bool system_calls : {false, true}) {
    auto opened = open_uffd(1, system_calls);
    if (!opened) GTEST_SKIP() << opened.error().message();
    Pool& pool = **opened;
    const size_t bytes = pool.block_bytes();
    auto first = pool.reserve(bytes), second = pool.reserve(bytes);
    if (!first || !second) GTEST_SKIP() << first.error().message();
    const BlockId block = pool.take();
    stamp(pool.home(block), bytes, 5);
    {
      const PinnedPage pinned(pool.home(block) + bytes / 2);
      if (!pinned.is_pinned()) GTEST_SKIP() << "no registered buffers here";
      EXPECT_EQ(pool.map(block, first->begin()), EBUSY);
      EXPECT_TRUE(has_stamp(pool.home(block), bytes, 5));
    }
    ASSERT_EQ(pool.map(block, first->begin()), 0);
    {
      const PinnedPage pinned(first->begin() + bytes / 2);
      EXPECT_EQ(pool.remap(block, first->begin(), second->begin()), EBUSY);
      EXPECT_EQ(pool.unmap(block, first->begin()), EBUSY);
      EXPECT_TRUE(has_stamp(first->begin(), bytes, 5));
    }
    // A fault that was declined meanwhile has poisoned the page.
    if (system_calls) {
      std::byte* const page = second->begin() + 3 * os::page_bytes;
      ASSERT_EQ(pool.events_of(*second)->poison(page, os::page_bytes), 0);
    }
    ASSERT_EQ(pool.remap(block, first->begin(), second->begin()), 0);
    EXPECT_TRUE(has_stamp(second->begin(), bytes, 5));
    ASSERT_EQ(pool.unmap(block, second->begin()), 0);
    pool.give(block);
    pool.release(*first);
    pool.release(*second);
  }
}

// A daemon closes all inherited descriptors.
TEST(UffdPool, PoolsOpenAfterAllDescriptorsWereClosed) {
  if (auto first = open_uffd(1); !first) GTEST_SKIP() << first.error().message();
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        if (!open_uffd(1)) ::_exit(2);
        ::closefrom(3);
        auto second = open_uffd(1);
        ::_exit(second && (*second)->reserve(1 * MiB) ? 0 : 1);
      },
      testing::ExitedWithCode(0), "");
}

TEST(UffdPool, AllPoolsHaveTheUserfaultfdOfTheProcess) {
  auto first = open_uffd(1);
  if (!first) GTEST_SKIP() << first.error().message();
  const auto descriptors = [] {
    const auto all = std::filesystem::directory_iterator("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  const auto before = descriptors();
  std::vector<std::unique_ptr<Pool>> pools;
  for (int i = 0; i < 10; ++i) pools.push_back(open_uffd(1).value());
  EXPECT_EQ(descriptors(), before);
}

TEST(Pool, AutomaticWorksForEveryUseAndSize) {
  for (const Use use : {Use::same_thread, Use::between_threads})
    for (const size_t bytes : {4 * KiB, 256 * KiB, 2 * MiB, 8 * MiB}) {
      const auto pool = Pool::open({.block_bytes = bytes, .blocks_max = 1, .use = use});
      ASSERT_TRUE(pool);
      EXPECT_EQ((*pool)->mechanism(), preferred(use, bytes, 1));
      EXPECT_NE((*pool)->take(), no_block);
    }
}

TEST(Pool, SmallPagesAreObeyed) {
  for (const Mechanism mechanism : {Mechanism::mremap, Mechanism::shared}) {
    const auto pool =
        Pool::open({.blocks_max = 1, .mechanism = mechanism, .pages = PageKind::small}).value();
    EXPECT_EQ(pool->pages(), PageKind::small);
    EXPECT_NE(pool->take(), no_block);
  }
}

TEST(Pool, ProbeReportsEveryMechanism) {
  const auto reports = probe();
  ASSERT_EQ(reports.size(), 3u);
  for (const auto& report : reports)
    EXPECT_EQ(report.works, report.detail.empty()) << report.detail;
}

TEST(PoolDeathTest, MisusedBlocksStopTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no forked child, where a pool does nothing
  const auto pool =
      Pool::open({.block_bytes = 4 * KiB, .blocks_max = 2, .mechanism = Mechanism::mremap}).value();
  auto range = pool->reserve(4 * KiB).value();
  const BlockId block = pool->take();
  ASSERT_EQ(pool->map(block, range.begin()), 0);
  EXPECT_DEATH(pool->give(block), "not where the call needs it");
  EXPECT_DEATH(static_cast<void>(pool->map(block, range.begin())), "not where the call needs it");
  EXPECT_DEATH(pool->give(7), "no such block");
}

}  // namespace
}  // namespace penstock::pool
