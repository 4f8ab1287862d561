#include "memory/rewire/range.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "os/sanitizer.h"
#include "penstock/base.h"

namespace penstock::rewire {
namespace {

using pool::PageStore;

std::shared_ptr<PageStore> store_of(uint32_t pages, size_t page_bytes = 4 * KiB,
                                    uint64_t mappings_max = 0) {
  auto store = PageStore::open({.page_bytes = page_bytes,
                                .bytes_max = pages * uint64_t{page_bytes},
                                .mappings_max = mappings_max});
  EXPECT_TRUE(store) << store.error().message();
  return std::shared_ptr<PageStore>(std::move(*store));
}

std::unique_ptr<Range> range_of(const std::shared_ptr<PageStore>& store, uint64_t slots) {
  auto range = Range::reserve(store, slots);
  EXPECT_TRUE(range) << range.error().message();
  return std::move(*range);
}

// Number of the kernel's mappings that overlap the range.
uint64_t kernel_mappings(const Range& range) {
  std::ifstream file("/proc/self/maps");
  const auto begin = reinterpret_cast<uintptr_t>(range.begin());
  const auto end = reinterpret_cast<uintptr_t>(range.end());
  uint64_t count = 0;
  for (std::string line; std::getline(file, line);) {
    unsigned long first = 0, last = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx", &first, &last) == 2)
      count += first < end && last > begin;
  }
  return count;
}

uint64_t word_at(const Range& range, uint64_t slot) {
  uint64_t word;
  std::memcpy(&word, range.address(slot), sizeof word);
  return word;
}

// The page tables order what a slot shows. The thread sanitizer knows only locks and atomics, and
// takes a rewiring for a write.
__attribute__((no_sanitize("thread"))) uint64_t unordered_word_at(const Range& range,
                                                                  uint64_t slot) {
  return *reinterpret_cast<volatile uint64_t*>(range.address(slot));
}

// Whether the kernel can access the address: a pipe takes a byte from there, or stores one.
bool can_read(const std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const bool can = write(ends[1], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}
bool can_write(std::byte* address) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  std::byte now{};
  const bool readable = can_read(address);
  if (readable) now = *address;
  EXPECT_EQ(write(ends[1], &now, 1), 1);
  const bool can = read(ends[0], address, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

// Pages taken one by one, each with its number written into it.
class Pages {
 public:
  Pages(std::shared_ptr<PageStore> store, uint32_t count) : store_(std::move(store)) {
    for (uint32_t i = 0; i < count; ++i) {
      const PageRun run = store_->take_run(1, ids_.empty() ? no_page : ids_.back());
      EXPECT_EQ(run.count, 1u);
      ids_.push_back(run.first);
      *reinterpret_cast<uint64_t*>(store_->home(run.first)) = run.first + 1000;
    }
  }
  ~Pages() { drop(); }
  void drop() {
    store_->release(ids_);
    ids_.clear();
  }
  PageId operator[](size_t index) const { return ids_[index]; }
  const std::vector<PageId>& ids() const { return ids_; }

 private:
  std::shared_ptr<PageStore> store_;
  std::vector<PageId> ids_;
};

TEST(Range, ShowsAPageAtManyPlacesAndTakesItsReferences) {
  const auto store = store_of(8);
  auto range = range_of(store, 100);
  EXPECT_EQ(range->mappings(), 1u);
  EXPECT_EQ(store->mappings(), 1u);
  PageRun run = store->take_run(3);
  ASSERT_EQ(run.count, 3u);
  ASSERT_EQ(range->map(0, run, Protection::read_write), 0);
  ASSERT_EQ(range->map(50, run, Protection::read), 0);
  EXPECT_EQ(store->references(run.first), 3u);
  store->release(run);
  EXPECT_EQ(store->pages_free(), 5u);

  std::memset(range->address(1), 7, 4 * KiB);
  EXPECT_EQ(range->address(51)[100], std::byte{7});
  EXPECT_EQ(store->home(run.first + 1)[200], std::byte{7});
  EXPECT_EQ(range->page(51), run.first + 1);
  EXPECT_EQ(range->access(51), Protection::read);
  EXPECT_EQ(range->page(49), no_page);
  EXPECT_EQ(range->run_at(51, 100), (PageRun{run.first + 1, 2}));
  EXPECT_EQ(range->run_at(51, 1), (PageRun{run.first + 1, 1}));
  EXPECT_EQ(range->run_at(49, 100).count, 0u);
  EXPECT_EQ(range->mappings(), 4u);
  EXPECT_EQ(kernel_mappings(*range), 4u);

  ASSERT_EQ(range->unmap(0, 3), 0);
  EXPECT_EQ(store->pages_free(), 5u);
  ASSERT_EQ(range->unmap(50, 3), 0);
  EXPECT_EQ(store->pages_free(), 8u);
  EXPECT_FALSE(can_read(range->address(50)));
  range.reset();
  EXPECT_EQ(store->mappings(), 0u);
}

TEST(Range, AnAccessThatIsNotAllowedFaults) {
  const auto store = store_of(4);
  const auto range = range_of(store, 8);
  const PageRun run = store->take_run(4);
  ASSERT_EQ(range->map(2, run, Protection::read_write), 0);
  store->release(run);
  ASSERT_EQ(range->protect(3, 2, Protection::read), 0);
  EXPECT_TRUE(can_write(range->address(2)));
  EXPECT_TRUE(can_read(range->address(3)));
  EXPECT_FALSE(can_write(range->address(3)));
  EXPECT_TRUE(can_write(range->address(5)));
  EXPECT_FALSE(can_read(range->address(6)));
  ASSERT_EQ(range->protect(0, 8, Protection::none), 0);  // gaps included
  for (uint64_t slot = 0; slot < 8; ++slot) EXPECT_FALSE(can_read(range->address(slot))) << slot;
  EXPECT_EQ(range->page(3), run.first + 1);
  EXPECT_EQ(range->mappings(), 3u);
  EXPECT_EQ(kernel_mappings(*range), 3u);
  ASSERT_EQ(range->protect(0, 8, Protection::read_write), 0);
  EXPECT_TRUE(can_write(range->address(2)));
  EXPECT_FALSE(can_read(range->address(1)));
}

// A model of a range: an array of pages and accesses.
struct Model {
  struct Slot {
    PageId page = no_page;
    Protection access = Protection::none;
    bool operator==(const Slot&) const = default;
  };
  std::vector<Slot> slots;

  uint64_t mappings() const {
    uint64_t count = 1;
    for (size_t i = 1; i < slots.size(); ++i) {
      const Slot &left = slots[i - 1], &right = slots[i];
      const bool joined = left.page == no_page
                              ? right.page == no_page
                              : right.page == left.page + 1 && right.access == left.access;
      count += !joined;
    }
    return count;
  }
};

void expect_same(const Range& range, const Model& model) {
  for (uint64_t slot = 0; slot < model.slots.size(); ++slot) {
    ASSERT_EQ(range.page(slot), model.slots[slot].page) << "slot " << slot;
    ASSERT_EQ(range.access(slot), model.slots[slot].access) << "slot " << slot;
    if (model.slots[slot].page == no_page || model.slots[slot].access == Protection::none) continue;
    ASSERT_EQ(word_at(range, slot), model.slots[slot].page + 1000) << "slot " << slot;
  }
  ASSERT_EQ(range.mappings(), model.mappings());
}

// Random operations on two ranges of one store, whose limit on mappings is sometimes reached.
void compare_with_model(uint64_t seed, size_t page_bytes, uint64_t mappings_max) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  constexpr uint64_t slots = 40;
  constexpr uint32_t pages_max = 48;
  const auto store = store_of(pages_max, page_bytes, mappings_max);
  std::unique_ptr<Range> ranges[2] = {range_of(store, slots), range_of(store, slots)};
  Model models[2];
  for (Model& model : models) model.slots.resize(slots);
  Pages pages(store, pages_max);
  uint64_t refused = 0;

  for (int step = 0; step < 400; ++step) {
    const size_t which = below(2);
    Range& range = *ranges[which];
    Model& model = models[which];
    const uint64_t slot = below(slots);
    const uint64_t count = 1 + below(slots - slot);
    const auto access = static_cast<Protection>(below(3));
    const Model before = model;
    int error = 0;
    switch (below(8)) {
      case 0: {  // neighbours
        const auto first = static_cast<PageId>(below(pages_max));
        const auto length = static_cast<uint32_t>(std::min<uint64_t>({count, pages_max - first}));
        error = range.map(slot, PageRun{first, length}, access, below(2) != 0);
        for (uint32_t i = 0; i < length; ++i) model.slots[slot + i] = {first + i, access};
        break;
      }
      case 1: {  // any order, repeats, with some neighbours
        std::vector<PageId> ids;
        while (ids.size() < count) {
          const bool next = !ids.empty() && ids.back() + 1 < pages_max && below(3) != 0;
          ids.push_back(next ? ids.back() + 1 : static_cast<PageId>(below(pages_max)));
        }
        error = range.map(slot, ids, access, below(2) != 0);
        for (uint64_t i = 0; i < count; ++i) model.slots[slot + i] = {ids[i], access};
        break;
      }
      case 2:
        error = range.unmap(slot, count);
        for (uint64_t i = 0; i < count; ++i) model.slots[slot + i] = {};
        break;
      case 3:
        error = range.protect(slot, count, access);
        for (uint64_t i = 0; i < count; ++i) {
          if (model.slots[slot + i].page != no_page) model.slots[slot + i].access = access;
        }
        break;
      case 4: {
        const uint64_t length = 1 + below(slots / 2);
        const uint64_t a = below(slots - 2 * length + 1);
        const uint64_t b = a + length + below(slots - 2 * length - a + 1);
        error = below(2) == 0 ? range.swap(a, b, length) : range.swap(b, a, length);
        for (uint64_t i = 0; i < length; ++i) std::swap(model.slots[a + i], model.slots[b + i]);
        break;
      }
      case 5: {
        const uint64_t to = below(slots - count + 1);
        error = range.move(slot, to, count);
        std::vector<Model::Slot> moved(model.slots.begin() + static_cast<long>(slot),
                                       model.slots.begin() + static_cast<long>(slot + count));
        for (uint64_t i = 0; i < count; ++i) model.slots[slot + i] = {};
        std::copy(moved.begin(), moved.end(), model.slots.begin() + static_cast<long>(to));
        break;
      }
      case 6: {
        const uint64_t stride = 2 + below(5),
                       times = 1 + below((slots - slot + stride - 1) / stride);
        const auto page = static_cast<PageId>(below(pages_max));
        error = range.map_every(slot, times, stride, page, access);
        for (uint64_t i = 0; i < times; ++i) model.slots[slot + i * stride] = {page, access};
        break;
      }
      case 7:
        error = range.populate(slot, count);
        break;
    }
    if (error != 0) {
      ASSERT_EQ(error, ENOMEM);
      model = before;  // refused before anything changed
      ++refused;
    }
    ASSERT_NO_FATAL_FAILURE(expect_same(range, model)) << "step " << step;
    ASSERT_EQ(store->mappings(), ranges[0]->mappings() + ranges[1]->mappings());
    ASSERT_LE(store->mappings(), store->mappings_max());
    if (step % 16 == 0) {
      ASSERT_EQ(kernel_mappings(*ranges[0]), models[0].mappings());
      ASSERT_EQ(kernel_mappings(*ranges[1]), models[1].mappings());
    }
  }
  if (mappings_max == 0) {
    EXPECT_EQ(refused, 0u);
  } else {
    EXPECT_GT(refused, 0u);
  }

  std::map<PageId, uint32_t> references;
  for (const PageId page : pages.ids()) ++references[page];
  for (const Model& model : models) {
    for (const Model::Slot& slot : model.slots) {
      if (slot.page != no_page) ++references[slot.page];
    }
  }
  for (const auto& [page, count] : references) ASSERT_EQ(store->references(page), count);
  pages.drop();
  for (auto& range : ranges) range.reset();
  EXPECT_EQ(store->pages_free(), pages_max);
  EXPECT_EQ(store->mappings(), 0u);
}

// Pages that only the slots hold change their order in one call.
TEST(Range, KeepsPagesThatOnlyChangeTheirOrder) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  constexpr uint32_t count = 30;
  const auto store = store_of(count);
  const auto range = range_of(store, count);
  std::vector<PageId> order;
  {
    Pages pages(store, count);
    order = pages.ids();
    ASSERT_EQ(range->map(0, order, Protection::read_write), 0);
  }
  for (int round = 0; round < 100; ++round) {
    const auto first = static_cast<long>(random() % count);
    const auto last = first + static_cast<long>(random() % (count - first + 1));
    if (round % 2 == 0)
      std::shuffle(order.begin() + first, order.begin() + last, random);
    else
      std::rotate(order.begin(), order.begin() + first, order.end());
    ASSERT_EQ(range->map(0, order, Protection::read_write, round % 3 != 0), 0);
    for (uint32_t slot = 0; slot < count; ++slot)
      ASSERT_EQ(word_at(*range, slot), order[slot] + 1000) << "round " << round;
    ASSERT_EQ(store->pages_free(), 0u);
  }
  std::vector<uint64_t> some = {3, 1, 3, 7};
  std::vector<PageId> shared(4);
  ASSERT_EQ(range->share(some, shared), 0);
  EXPECT_EQ(shared[2], order[3]);
  EXPECT_EQ(store->references(order[3]), 3u);
  store->release(shared);
  some[3] = count;
  EXPECT_EQ(range->share(some, shared), ENOENT);
  EXPECT_EQ(store->references(order[3]), 1u);
}

TEST(Range, DoesWhatAnArrayOfPagesDoes) {
  const uint64_t seed = std::random_device()();
  for (uint64_t round = 0; round < 30; ++round) compare_with_model(seed + round, 4 * KiB, 0);
}

TEST(Range, ChangesNothingWhenMappingsWouldNotSuffice) {
  const uint64_t seed = std::random_device()();
  for (uint64_t round = 0; round < 30; ++round)
    compare_with_model(seed + round, 4 * KiB, 8 + round % 20);
}

TEST(Range, WorksWithPagesOfManySizes) {
  const uint64_t seed = std::random_device()();
  compare_with_model(seed, 64 * KiB, 0);
  compare_with_model(seed + 1, 2 * MiB, 0);
  if (!os::shadowed) compare_with_model(seed + 2, 4 * MiB, 0);
}

TEST(Range, NeedsNoMoreMappingsThanTheWorstMomentHas) {
  // 1 mapping for the range, 1 per piece and gap.
  const auto store = store_of(16, 4 * KiB, 5);
  const auto range = range_of(store, 10);
  const Pages pages(store, 16);
  ASSERT_EQ(range->map(2, PageRun{0, 2}, Protection::read), 0);  // 3
  ASSERT_EQ(range->map(6, PageRun{0, 2}, Protection::read), 0);  // 5
  EXPECT_EQ(range->map(9, PageRun{9, 1}, Protection::read), ENOMEM);
  EXPECT_EQ(range->page(9), no_page);
  EXPECT_EQ(range->map(3, PageRun{7, 1}, Protection::read), ENOMEM);
  EXPECT_EQ(range->page(3), 1u);
  EXPECT_EQ(range->protect(2, 1, Protection::read_write), ENOMEM);
  EXPECT_EQ(range->map(0, PageRun{5, 2}, Protection::read), 0);  // the gap closes, a new piece: 5
  EXPECT_EQ(range->map(0, PageRun{0, 10}, Protection::read), 0);
  EXPECT_EQ(range->mappings(), 1u);
  EXPECT_EQ(range->unmap(5, 1), 0);  // makes a hole: 3
  const std::vector<PageId> backwards = {9, 8, 7};
  EXPECT_EQ(range->map(0, backwards, Protection::read), ENOMEM);
  const std::vector<PageId> pair = {9, 8};
  EXPECT_EQ(range->map(0, pair, Protection::read), 0);
  EXPECT_EQ(store->mappings(), 5u);
}

TEST(Range, GuaranteedMappingsAreNeverRefused) {
  const auto store = store_of(16, 4 * KiB, 20);
  auto range = range_of(store, 16), other = range_of(store, 16);
  Pages pages(store, 16);
  EXPECT_EQ(range->guarantee_mappings(), 0);
  EXPECT_EQ(range->guarantee_mappings(), 0);
  EXPECT_EQ(store->mappings(), 17u);
  EXPECT_EQ(other->guarantee_mappings(), ENOMEM);
  std::vector<PageId> backwards(pages.ids().rbegin(), pages.ids().rend());
  EXPECT_EQ(other->map(0, backwards, Protection::read), ENOMEM);
  EXPECT_EQ(range->map(0, backwards, Protection::read), 0);
  EXPECT_EQ(range->mappings(), 16u);
  EXPECT_EQ(range->swap(0, 8, 8), 0);
  EXPECT_EQ(range->unmap(0, 16), 0);
  EXPECT_EQ(range->mappings(), 1u);
  EXPECT_EQ(store->mappings(), 17u);
  range.reset();
  EXPECT_EQ(store->mappings(), 1u);
}

// Reaches the kernel's own limit: the store promises more mappings than there are.
TEST(Range, SurvivesTheKernelsRefusal) {
  const uint64_t limit = [] {
    uint64_t value = 0;
    std::ifstream("/proc/sys/vm/max_map_count") >> value;
    return value;
  }();
  if (limit == 0 || limit > 200'000) GTEST_SKIP() << "vm.max_map_count is " << limit;
  if (os::shadowed) GTEST_SKIP() << "a sanitizer needs mappings of its own";
  const auto store = store_of(2, 4 * KiB, 10 * limit);
  auto range = range_of(store, 2 * limit);
  const Pages pages(store, 2);
  int error = 0;
  uint64_t slot = 0;
  for (; error == 0 && slot < 2 * limit; ++slot)
    error = range->map(slot, PageRun{pages[0], 1}, Protection::read, false);  // not a neighbour of
                                                                              // itself
  EXPECT_EQ(error, ENOMEM);
  EXPECT_GT(slot, limit / 2);
  --slot;
  EXPECT_EQ(range->page(slot), no_page);
  EXPECT_EQ(range->mappings(), slot + 1);
  EXPECT_EQ(store->mappings(), slot + 1);
  EXPECT_EQ(word_at(*range, slot - 1), range->page(slot - 1) + 1000);
  // Nothing can be mapped in this process now, but everything can be unmapped.
  EXPECT_EQ(range->unmap(slot - 1, 1), 0);
  EXPECT_EQ(range->page(slot - 1), no_page);
  EXPECT_EQ(range->map(slot - 1, PageRun{pages[0], 1}, Protection::read, false), 0);
  range.reset();
  EXPECT_EQ(store->mappings(), 0u);
  EXPECT_EQ(store->references(pages[0]), 1u);
}

// A reader finds one of the two pages at any moment, never a fault, while they are swapped.
TEST(Range, AReaderNeverFindsAHole) {
  const auto store = store_of(2);
  const auto range = range_of(store, 2);
  const Pages pages(store, 2);
  ASSERT_EQ(range->map(0, pages.ids(), Protection::read), 0);
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> wrong{0}, seen[2] = {};
  std::thread reader([&] {
    while (!stop.load(std::memory_order_relaxed)) {
      const uint64_t word = unordered_word_at(*range, 0);
      if (word == pages[0] + 1000)
        ++seen[0];
      else if (word == pages[1] + 1000)
        ++seen[1];
      else
        ++wrong;
    }
  });
  while (seen[0] == 0) std::this_thread::yield();
  for (int i = 0; i < 2000 || seen[1] == 0; ++i) {
    ASSERT_EQ(
        i % 2 == 0 ? range->swap(0, 1, 1) : range->map(0, PageRun{pages[0], 1}, Protection::read),
        0);
    if (i % 2 == 1) {
      ASSERT_EQ(range->map(1, PageRun{pages[1], 1}, Protection::read), 0);
    }
  }
  stop = true;
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

// Threads rewire their own parts of one range, and take and release pages of one store.
TEST(Range, ThreadsRewireAtTheSameTime) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  constexpr uint64_t threads = 4, part = 16;
  const auto store = store_of(48);
  auto range = range_of(store, threads * part);
  std::atomic<uint64_t> wrong{0}, empty{0};
  std::vector<std::thread> workers;
  for (uint64_t t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      std::mt19937_64 random(seed + t);
      std::vector<uint64_t> expected(part, 0);
      for (uint64_t step = 0; step < 1000; ++step) {
        const uint64_t slot = random() % part;
        const uint64_t here = t * part + slot;
        switch (random() % 4) {
          case 0: {
            const PageRun run =
                store->take_run(static_cast<uint32_t>(1 + random() % (part - slot)));
            if (run.count == 0) {
              ++empty;
              break;
            }
            if (range->map(here, run, Protection::read_write, random() % 2 != 0) != 0) ++wrong;
            store->release(run);
            for (uint32_t i = 0; i < run.count; ++i) {
              expected[slot + i] = t << 32 | step << 8 | (i + 1);
              *reinterpret_cast<uint64_t*>(range->address(here + i)) = expected[slot + i];
            }
            break;
          }
          case 1: {
            const uint64_t count = 1 + random() % (part - slot);
            if (range->unmap(here, count) != 0) ++wrong;
            std::fill_n(expected.begin() + static_cast<long>(slot), count, 0);
            break;
          }
          case 2: {
            const uint64_t other = random() % part;
            if (range->swap(here, t * part + other, 1) != 0) ++wrong;
            std::swap(expected[slot], expected[other]);
            break;
          }
          case 3:
            for (uint64_t i = 0; i < part; ++i) {
              const bool there = range->page(t * part + i) != no_page;
              if (there != (expected[i] != 0)) ++wrong;
              if (there && word_at(*range, t * part + i) != expected[i]) ++wrong;
            }
            if (random() % 8 == 0) store->trim();
            break;
        }
      }
    });
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_EQ(range->mappings(), kernel_mappings(*range));
  EXPECT_EQ(store->mappings(), range->mappings());
  range.reset();
  EXPECT_EQ(store->pages_free(), 48u);
}

// Runs a check in a forked child and returns its result.
bool holds_in_child(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Range, AForkedChildReadsAndChangesNothing) {
  const auto store = store_of(8);
  auto range = range_of(store, 8);
  Pages pages(store, 4);
  ASSERT_EQ(range->map(0, pages.ids(), Protection::read_write), 0);
  EXPECT_FALSE(store->is_inherited());
  EXPECT_TRUE(holds_in_child([&] {
    bool good = store->is_inherited() && word_at(*range, 2) == pages[2] + 1000;
    good = good && store->take_run(1).count == 0;
    good = good && range->map(5, PageRun{pages[0], 1}, Protection::read) == EPERM;
    good = good && range->unmap(0, 1) == EPERM && range->swap(0, 1, 1) == EPERM;
    good = good && range->protect(0, 1, Protection::read) == EPERM && range->move(0, 4, 1) == EPERM;
    good = good && range->guarantee_mappings() == EPERM && store->prefault(1) == EPERM;
    good = good && range->populate(0, 8) == 0;
    store->trim();
    pages.drop();
    range.reset();
    return good;
  }));
  EXPECT_EQ(store->pages_taken(), 4u);
  for (uint64_t slot = 0; slot < 4; ++slot) EXPECT_EQ(word_at(*range, slot), pages[slot] + 1000);
}

// A child does not inherit the home view, so its own memory may be there when the store ends.
TEST(Range, AStoreThatEndsInAChildTakesNothingFromIt) {
  auto store = store_of(8);
  EXPECT_TRUE(holds_in_child([&] {
    std::byte* const home = store->home(0);
    if (os::commit(home, 8 * 4 * KiB) != 0) return false;  // mmap() might choose this address
    *home = std::byte{1};
    store.reset();
    return *home == std::byte{1} && can_write(home);
  }));
}

TEST(Range, ReportsWhatItShows) {
  const auto store = store_of(4);
  const auto range = range_of(store, 6);
  const Pages pages(store, 4);
  ASSERT_EQ(range->map(1, pages.ids(), Protection::read), 0);
  std::vector<PageId> shown(6);
  range->pages(0, shown);
  EXPECT_EQ(shown, (std::vector<PageId>{no_page, pages[0], pages[1], pages[2], pages[3], no_page}));
  EXPECT_TRUE(range->contains(range->address(5)));
  EXPECT_FALSE(range->contains(range->end()));
  EXPECT_EQ(range->slot_of(range->address(3) + 17), 3u);
}

TEST(RangeDeathTest, StopsAtASlotThatIsNotThere) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // no forked child: it would change nothing
  const auto store = store_of(4);
  const auto range = range_of(store, 6);
  const Pages pages(store, 4);
  EXPECT_DEATH((void)range->map(4, PageRun{pages[0], 3}, Protection::read), "slot");
  EXPECT_DEATH((void)range->swap(0, 1, 2), "overlap");
  EXPECT_DEATH(store->retain(PageRun{3, 2}), "nobody holds");
}

}  // namespace
}  // namespace penstock::rewire
