// Tests of a forked child of a process whose threads work: their locks are copied as they are at
// the moment of the fork, and no thread of the child can release them.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <optional>
#include <thread>
#include <tuple>

#include "memory/rewire/table_fixture.h"
#include "os/sanitizer.h"
#include "penstock/containers.h"
#include "penstock/rewire.h"

namespace penstock::rewire {
namespace {

// Forks a hundred children, each of which checks `is_right`.
template <class IsRight>
void expect_children_are_right(IsRight is_right) {
  for (int i = 0; i < 100 && !testing::Test::HasFailure(); ++i) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(is_right() ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status << " of child " << i;
  }
}

bool is_refused(const auto& result) {
  return !result && result.error().code == ErrorCode::unsupported;
}

class ForkedChild : public testing::TestWithParam<std::tuple<uint64_t, WriteDetection>> {};

INSTANTIATE_TEST_SUITE_P(Kinds, ForkedChild,
                         testing::Combine(testing::Values(4 * KiB, 64 * KiB, 2 * MiB),
                                          testing::Values(WriteDetection::signal,
                                                          WriteDetection::asynchronous)));

TEST_P(ForkedChild, NeverHangsOnATable) {
  const auto [page_bytes, detection] = GetParam();
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's runtime is not for children of many threads";
  if (const auto why = missing(detection)) GTEST_SKIP() << *why;
  const PagePool pool = open_pool(32 * page_bytes, page_bytes);
  std::optional<RewiredTable> table =
      open_table(pool, {.bytes = 8 * page_bytes, .detection = detection, .guarantee_copies = true});
  const Snapshot snapshot = take(*table);
  std::atomic<bool> stop = false;
  std::jthread parent([&, page_items = page_bytes / sizeof(uint64_t)] {
    while (!stop) {
      (void)take(*table);
      for (uint64_t page = 0; page < 8; ++page)
        write(table->begin<uint64_t>() + page * page_items, 1);
    }
  });
  expect_children_are_right([&] {
    bool right = table->epoch() >= 1 && !table->latest();
    (void)table->counts();
    right &= is_refused(table->snapshot()) && is_refused(table->merge_equal_pages());
    right &= is_refused(table->changes());
    right &= is_refused(table->prepare_write(table->begin(), 1));
    right &= is_refused(snapshot.keep_while(getpid()));
    table.reset();
    return right;
  });
  stop = true;
}

TEST(ForkedChild, ReadsAVectorAndGetsAnErrorWhenItGrows) {
  if (os::shadowed) GTEST_SKIP() << "a sanitizer's runtime is not for children of many threads";
  constexpr uint64_t page_items = 4 * KiB / sizeof(uint64_t);
  const PagePool pool = open_pool(4000 * 4 * KiB);
  auto busy = RewiredVector<uint64_t>::open(pool);
  auto calm = RewiredVector<uint64_t>::open(pool);
  ASSERT_TRUE(busy && calm);
  for (uint64_t i = 0; i < 1000; ++i) calm->push_back(i);
  const uint64_t* const first = busy->data();
  std::atomic<bool> stop = false;
  std::jthread writer([&] {
    while (!stop) {
      volatile uint64_t* const window = busy->append_window().value();
      for (uint64_t page = 0; page < 3000; page += 512) window[page * page_items] = 1;
      (void)busy->append_end(first);
      busy->shrink_to_fit();
    }
  });
  expect_children_are_right([&] {
    bool right = calm->size() == 1000;
    for (uint64_t i = 0; i < 1000; ++i) right &= (*calm)[i] == i;
    return right && is_refused(calm->try_reserve(5000)) && !busy->try_reserve(4000 * page_items);
  });
  stop = true;
}

}  // namespace
}  // namespace penstock::rewire
