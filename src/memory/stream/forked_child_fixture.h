#pragma once

// Tests of a forked child and its parent's streams, of any kind: the child cannot use them and gets
// an error, ending them takes nothing from it, and the parent goes on as if nothing had happened.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "memory/pool/pool.h"
#include "penstock/base.h"
#include "penstock/region.h"

namespace penstock::stream {
namespace {

constexpr size_t block_bytes = 64 * KiB;
constexpr uint64_t blocks = 6;

// A stream of the parent, in use.
struct Subject {
  std::byte* shown = nullptr;  // a block that the parent sees
  std::byte* ahead = nullptr;  // a block that it has not touched
  std::function<void()> end;
  std::function<bool()> goes_on;  // runs once, to the stream's end, and checks all contents
};

void fill(std::byte* block, uint64_t number) {
  std::memset(block, static_cast<int>(number + 1), block_bytes);
}
bool holds(const std::byte* block, uint64_t number) {
  return block[0] == std::byte(number + 1) && block[block_bytes - 1] == std::byte(number + 1);
}
bool holds_all(const std::byte* begin) {
  for (uint64_t i = 0; i < blocks; ++i)
    if (!holds(begin + i * block_bytes, i)) return false;
  return true;
}
// Fills the rest of a stream whose blocks 0 and 1 are written.
void fill_rest(std::byte* begin) {
  for (uint64_t i = 2; i < blocks; ++i) fill(begin + i * block_bytes, i);
}

struct Case {
  std::string name;
  Result<Subject> (*open)(Mechanism);
  Mechanism mechanism = Mechanism::automatic;
};

class ForkedChild : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().mechanism == Mechanism::uffd_move) {
      for (const auto& report : pool::probe()) {
        if (report.mechanism == pool::Mechanism::uffd_move && !report.works)
          GTEST_SKIP() << report.detail;
      }
    }
    auto opened = GetParam().open(GetParam().mechanism);
    ASSERT_TRUE(opened) << opened.error().message();
    subject_ = std::move(*opened);
  }
  std::string message() const {
    return "cannot serve 0x.* in a forked child: it belongs to process " +
           std::to_string(::getpid()) + ", which opened it";
  }
  Subject subject_;
};

int load(const std::byte* address) {
  return std::to_integer<int>(*const_cast<const volatile std::byte*>(address));
}

TEST_P(ForkedChild, LearnsWhoseStreamItTouches) {
  EXPECT_DEATH(load(subject_.shown), message());
  EXPECT_DEATH(*const_cast<volatile std::byte*>(subject_.shown) = std::byte{99}, message());
  EXPECT_DEATH(load(subject_.ahead), message());
  EXPECT_TRUE(subject_.goes_on());
}

// The child has nothing at the parent's block, so its own memory may be mapped there.
TEST_P(ForkedChild, EndsTheStreamWithoutHarmToItselfOrTheParent) {
  EXPECT_EXIT(
      {
        void* const own = ::mmap(subject_.shown, block_bytes, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        if (own != subject_.shown) ::_exit(1);
        fill(subject_.shown, 41);
        subject_.end();
        ::_exit(holds(subject_.shown, 41) ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_TRUE(subject_.goes_on());
}

std::vector<Case> on_every_mechanism(const std::string& name, Result<Subject> (*open)(Mechanism)) {
  return {{name + "_by_mremap", open, Mechanism::mremap},
          {name + "_by_uffd_move", open, Mechanism::uffd_move},
          {name + "_by_shared", open, Mechanism::shared}};
}
std::string name_of_case(const testing::TestParamInfo<Case>& tested) {
  return tested.param.name;
}

}  // namespace
}  // namespace penstock::stream
