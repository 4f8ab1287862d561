// Test labels: first, loops, templates

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <fstream>
#include <list>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/access.h"
#include "base/trials.h"
#include "penstock/containers.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/bits.h"
#include "base/random.h"
#include "memory/rewire/vector_core.h"
#include "os/cpu.h"
#include "os/sanitizer.h"
#include "penstock/stream.h"

namespace penstock {
namespace {

constexpr size_t small = 4 * KiB;
constexpr size_t large = 2 * MiB;

PagePool open_pool(size_t page_bytes, uint64_t pages, uint64_t mappings_max = 0) {
  auto pool = PagePool::open({.page_bytes = page_bytes,
                              .bytes_max = pages * page_bytes,
                              .mappings_max = mappings_max,
                              .name = "test pool"});
  EXPECT_TRUE(pool) << pool.error().message();
  return *pool;
}

template <class T>
RewiredVector<T> open_vector(const PagePool& pool, RewiredVectorOptions options = {}) {
  auto vector = RewiredVector<T>::open(pool, options);
  EXPECT_TRUE(vector) << vector.error().message();
  return std::move(*vector);
}

// Number of mappings of memory files in this process.
uint64_t mappings_of_pages() {
  std::ifstream maps("/proc/self/maps");
  uint64_t count = 0;
  for (std::string line; std::getline(maps, line);)
    count += line.find("/memfd:") != std::string::npos;
  return count;
}

template <size_t bytes>
struct Bytes {
  std::array<unsigned char, bytes> content;
  bool operator==(const Bytes&) const = default;
};
struct Three {
  uint32_t a, b, c;
  bool operator==(const Three&) const = default;
};
template <size_t words>
struct Words {
  std::array<uint64_t, words> content;
  bool operator==(const Words&) const = default;
};

template <class T>
T item_of(uint64_t number) {
  std::array<unsigned char, sizeof(T)> bytes;
  for (size_t i = 0; i < sizeof(T); ++i)
    bytes[i] = static_cast<unsigned char>(mix64(number + i / 8) >> i % 8 * 8);
  return std::bit_cast<T>(bytes);
}

template <class T>
std::vector<T> items_of(uint64_t first, size_t count) {
  std::vector<T> items;
  items.reserve(count);
  for (size_t i = 0; i < count; ++i) items.push_back(item_of<T>(first + i));
  return items;
}

template <class T>
bool equal(const RewiredVector<T>& vector, const std::vector<T>& model) {
  return std::equal(vector.begin(), vector.end(), model.begin(), model.end());
}

// Code that knows nothing of vectors and writes to pointers.
template <class T>
[[gnu::noinline]] T* generate_into(T* to, uint64_t first, size_t count) {
  for (size_t i = 0; i < count; ++i) *to++ = item_of<T>(first + i);
  return to;
}

[[gnu::noinline]] void copy_in_lines(void* to, const void* from, size_t bytes) {
#if defined(__x86_64__)
  if (os::cpu_tier() >= os::CpuTier::avx512) {
    [](void* target, const void* source, size_t n) __attribute__((target("avx512f"))) {
      auto* out = static_cast<char*>(target);
      const auto* in = static_cast<const char*>(source);
      for (; n >= 64; n -= 64, out += 64, in += 64) {
        const __m512i line = _mm512_loadu_si512(in);
        if (reinterpret_cast<uintptr_t>(out) % 64 == 0) {
          _mm512_stream_si512(reinterpret_cast<__m512i*>(out), line);
        } else {
          _mm512_storeu_si512(out, line);
        }
      }
      _mm_sfence();
      std::memcpy(out, in, n);
    }(to, from, bytes);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

// ---- against std::vector

template <class T>
class RewiredVectorOf : public testing::Test {};
using ItemTypes =
    testing::Types<uint8_t, uint16_t, Bytes<3>, uint64_t, Three, Words<2>, Words<3>, Words<5>>;
TYPED_TEST_SUITE(RewiredVectorOf, ItemTypes);

// Two vectors on one pool, and a model of each, in step.
template <class T>
class Pair {
 public:
  Pair(const PagePool& pool, uint64_t seed, uint64_t bytes_max)
      : pool_(pool), random_(seed), items_max_(bytes_max / sizeof(T)) {
    for (Side& side : sides_) {
      side.vector = open_vector<T>(
          pool, {.bytes_max = 2 * bytes_max,
                 .growth = random_.below(2) == 0 ? VectorGrowth::doubling : VectorGrowth::pages,
                 .grow_pages = 1 + static_cast<uint32_t>(random_.below(3))});
    }
  }

  void step() {
    Side& side = sides_[random_.below(2)];
    auto& [vector, model] = side;
    T* const before = vector.data();
    switch (random_.below(24)) {
      case 0:
        for (uint64_t i = random_.below(50); i != 0; --i) {
          const T item = next();
          vector.push_back(item);
          model.push_back(item);
        }
        break;
      case 1: {
        const T item = next();
        const T* const there = &vector.emplace_back(item);
        EXPECT_EQ(there, vector.end() - 1);
        model.emplace_back(item);
        break;
      }
      case 2:
      case 3: {
        const auto items = some();
        vector.append(items);
        model.insert(model.end(), items.begin(), items.end());
        break;
      }
      case 4:
        if (!model.empty()) {
          vector.pop_back();
          model.pop_back();
        }
        break;
      case 5:
      case 6:
      case 7: {
        const auto items = some();
        const size_t at = place(model.size());
        const T* const there = vector.insert(vector.begin() + at, items.begin(), items.end());
        EXPECT_EQ(there, vector.begin() + at);
        model.insert(model.begin() + static_cast<ptrdiff_t>(at), items.begin(), items.end());
        break;
      }
      case 8: {
        const size_t at = place(model.size()), count = random_.below(100);
        const T item = next();
        vector.insert(vector.cbegin() + at, count, item);
        model.insert(model.begin() + static_cast<ptrdiff_t>(at), count, item);
        break;
      }
      case 9: {
        if (model.empty()) break;
        const size_t at = place(model.size()), from = random_.below(model.size());
        vector.insert(vector.begin() + at, vector[from]);  // an element of its own
        const T item = model[from];
        model.insert(model.begin() + static_cast<ptrdiff_t>(at), item);
        break;
      }
      case 10:
      case 11:
      case 12:
      case 13: {
        const size_t count = std::min(amount(), model.size());
        const size_t at = place(model.size() - count);
        EXPECT_EQ(vector.erase(vector.begin() + at, vector.begin() + at + count),
                  vector.begin() + at);
        model.erase(model.begin() + static_cast<ptrdiff_t>(at),
                    model.begin() + static_cast<ptrdiff_t>(at + count));
        break;
      }
      case 14: {
        const size_t count = random_.below(items_max_ / 4);
        if (random_.below(2) == 0) {
          vector.resize(count);
          model.resize(count);
        } else {
          const T item = next();
          vector.resize(count, item);
          model.resize(count, item);
        }
        break;
      }
      case 15:
        vector.shrink_to_fit();
        EXPECT_EQ(vector.memory_bytes(), round_up(vector.size() * sizeof(T), pool_.page_bytes()));
        break;
      case 16: {
        const size_t count = random_.below(items_max_);
        vector.reserve(count);
        EXPECT_GE(vector.capacity(), count);
        break;
      }
      case 17: {
        const auto items = some();
        vector.assign(items.begin(), items.end());
        model.assign(items.begin(), items.end());
        break;
      }
      case 18:
        vector.swap(sides_[0].vector);
        model.swap(sides_[0].model);
        break;
      case 19:
        use_window(side);
        break;
      case 20:
      case 21:
        splice();
        break;
      case 22: {
        RewiredVector<T> other(vector);
        EXPECT_TRUE(other == vector);
        RewiredVector<T> moved(std::move(other));
        EXPECT_TRUE(other.empty());
        vector = std::move(moved);
        break;
      }
      case 23:
        if (random_.below(4) == 0) {
          vector.clear();
          model.clear();
          if (random_.below(2) == 0) vector.shrink_to_fit();
        }
        break;
    }
    EXPECT_TRUE(vector.data() == before || vector.data() != nullptr);
    for (Side& one : sides_) {
      if (one.model.size() < items_max_) continue;
      one.vector.erase(one.vector.begin() + 10, one.vector.end());
      one.model.resize(10);
    }
  }

  void expect_equal() {
    uint64_t memory_bytes = 0;
    for (Side& side : sides_) {
      ASSERT_EQ(side.vector.size(), side.model.size());
      ASSERT_TRUE(equal(side.vector, side.model));
      ASSERT_GE(side.vector.capacity(), side.vector.size());
      memory_bytes += side.vector.memory_bytes();
    }
    ASSERT_EQ(pool_.pages_taken() * pool_.page_bytes(), memory_bytes);
  }

 private:
  struct Side {
    RewiredVector<T> vector;
    std::vector<T> model;
  };

  T next() { return item_of<T>(number_++); }
  // Items that fill a whole number of pages.
  size_t items_of_pages() const { return std::lcm(pool_.page_bytes(), sizeof(T)) / sizeof(T); }
  size_t amount() {
    const size_t pages = items_of_pages();
    if (random_.below(2) == 0 && pages <= items_max_ / 4)
      return pages * (1 + random_.below(items_max_ / 4 / pages));
    return random_.below(3) == 0 ? random_.below(items_max_ / 8) : random_.below(20);
  }
  std::vector<T> some() {
    const size_t count = amount();
    number_ += count;
    return items_of<T>(number_ - count, count);
  }
  // A random place in [0, last], half of the time near a page's border.
  size_t place(size_t last) {
    if (last == 0) return 0;
    size_t at = random_.below(last + 1);
    if (random_.below(2) == 0) {
      const size_t border = at * sizeof(T) / pool_.page_bytes() * pool_.page_bytes() / sizeof(T);
      at = std::min(last, border + random_.below(3) - std::min<size_t>(1, border));
      if (random_.below(2) == 0 && items_of_pages() <= last)
        at = random_.below(last / items_of_pages() + 1) * items_of_pages();
    }
    return at;
  }

  void use_window(Side& side) {
    const auto items = some();
    auto window = side.vector.append_window();
    ASSERT_TRUE(window) << window.error().message();
    ASSERT_EQ(*window, side.vector.end());
    switch (items.empty() ? 3 : random_.below(4)) {
      case 0:
        std::memcpy(static_cast<void*>(*window), items.data(), items.size() * sizeof(T));
        break;
      case 1:
        copy_in_lines(*window, items.data(), items.size() * sizeof(T));
        break;
      case 2:
        std::copy_backward(items.begin(), items.end(), *window + items.size());
        break;
      case 3:
        generate_into(*window, number_ - items.size(), items.size());
        break;
    }
    ASSERT_TRUE(side.vector.append_end(*window + items.size()));
    side.model.insert(side.model.end(), items.begin(), items.end());
  }

  void splice() {
    const size_t index = random_.below(2);
    Side& to = sides_[index];
    Side& from = sides_[1 - index];
    size_t count = std::min(amount(), from.model.size());
    size_t first = place(from.model.size() - count);
    if (random_.below(3) == 0) count = from.model.size() - first;
    size_t at = random_.below(3) == 0 ? to.model.size() : place(to.model.size());
    // Sometimes at the same place of a page.
    if (random_.below(2) == 0) {
      const size_t unit = items_of_pages();
      at = std::min(at / unit * unit + first % unit, to.model.size());
    }
    const auto spliced = to.vector.splice(to.vector.begin() + at, from.vector, first, count);
    ASSERT_TRUE(spliced) << spliced.error().message();
    const auto begin = from.model.begin() + static_cast<ptrdiff_t>(first);
    const auto end = begin + static_cast<ptrdiff_t>(count);
    to.model.insert(to.model.begin() + static_cast<ptrdiff_t>(at), begin, end);
    from.model.erase(begin, end);
    pages_moved += spliced->pages_moved;
  }

  const PagePool& pool_;
  Random random_;
  const size_t items_max_;
  uint64_t number_ = 0;
  Side sides_[2];

 public:
  uint64_t pages_moved = 0;
};

template <class T>
void expect_model(size_t page_bytes, uint64_t bytes_max, int steps, int look_every) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(testing::Message() << "seed " << seed << ", pages of " << page_bytes);
  const uint64_t mappings = mappings_of_pages();
  {
    const PagePool pool = open_pool(page_bytes, 8 * bytes_max / page_bytes);
    {
      Pair<T> pair(pool, seed, bytes_max);
      for (int step = 0; step < steps; ++step) {
        pair.step();
        if (testing::Test::HasFailure()) return;
        if (step % look_every == 0) pair.expect_equal();
        if (testing::Test::HasFatalFailure()) return;
      }
      pair.expect_equal();
      if (steps >= 3000) {
        EXPECT_GT(pair.pages_moved, 0u);
      }
    }
    EXPECT_EQ(pool.pages_taken(), 0u);
    EXPECT_EQ(pool.mappings(), 0u);
  }
  EXPECT_EQ(mappings_of_pages(), mappings);
}

TYPED_TEST(RewiredVectorOf, DoesWhatTheModelDoesOnSmallPages) {
  expect_model<TypeParam>(small, 1 * MiB, os::shadowed ? 500 : 3000, 3);
}

TYPED_TEST(RewiredVectorOf, DoesWhatTheModelDoesOnLargePages) {
  expect_model<TypeParam>(large, 44 * MiB, os::shadowed ? 40 : 250, 10);
}

// ---- growth leaves elements in place

TEST(RewiredVector, NothingMovesWhileItGrowsAndShrinks) {
  const PagePool pool = open_pool(small, 1000);
  auto vector = open_vector<uint64_t>(pool);
  vector.push_back(1);
  const uint64_t* const first = &vector.front();
  for (uint64_t i = 2; i <= 1000 * small / 8; ++i) vector.push_back(i);
  EXPECT_EQ(first, vector.data());
  const auto middle = vector.begin() + 1000;
  vector.resize(2000);
  vector.shrink_to_fit();
  EXPECT_EQ(*middle, 1001u);
  EXPECT_EQ(first, vector.data());
  EXPECT_EQ(pool.pages_taken(), 4u);
  RewiredVector<uint64_t> other;
  swap(vector, other);
  EXPECT_EQ(&other[1000], middle);
}

TEST(RewiredVector, OthersReadElementsWhileOneAppends) {
  const PagePool pool = open_pool(small, 2000);
  auto vector = open_vector<uint64_t>(pool);
  std::atomic<uint64_t> there{0};
  std::atomic<uint64_t> wrong{0};
  const uint64_t* const data = vector.data();
  constexpr uint64_t count = 1'000'000;
  std::jthread reader([&] {
    Random random(1);
    for (uint64_t known = 0; known < count;) {
      known = there.load(std::memory_order_acquire);
      if (known == 0) continue;
      const uint64_t index = random.below(known);
      wrong += data[index] != mix64(index);
    }
  });
  for (uint64_t i = 0; i < count; ++i) {
    vector.push_back(mix64(i));
    there.store(i + 1, std::memory_order_release);
  }
  reader.join();
  EXPECT_EQ(wrong, 0u);
}

TEST(RewiredVector, OneThatWasMovedFromHasNoPoolToGrowFrom) {
  const PagePool pool = open_pool(small, 8);
  auto moved_from = open_vector<uint64_t>(pool);
  const auto vector = std::move(moved_from);
  EXPECT_TRUE(moved_from.try_reserve(0));
  const Status grown = moved_from.try_reserve(1);
  ASSERT_FALSE(grown);
  EXPECT_EQ(grown.error().code, ErrorCode::invalid_argument);
}

TEST(RewiredVector, GrowsByDoublingOrByPages) {
  const PagePool pool = open_pool(small, 64);
  auto doubling = open_vector<uint64_t>(pool);
  std::vector<uint64_t> pages;
  for (uint64_t i = 0; i < 9 * small / 8; ++i) {
    doubling.push_back(i);
    if (pages.empty() || pages.back() != doubling.memory_bytes() / small)
      pages.push_back(doubling.memory_bytes() / small);
  }
  EXPECT_EQ(pages, (std::vector<uint64_t>{1, 2, 4, 8, 16}));
  auto steady =
      open_vector<uint64_t>(pool, {.bytes = 1, .growth = VectorGrowth::pages, .grow_pages = 3});
  pages.clear();
  for (uint64_t i = 0; i < 9 * small / 8; ++i) {
    steady.push_back(i);
    if (pages.empty() || pages.back() != steady.memory_bytes() / small)
      pages.push_back(steady.memory_bytes() / small);
  }
  EXPECT_EQ(pages, (std::vector<uint64_t>{1, 4, 7, 10}));
  EXPECT_EQ(pool.pages_taken(), 26u);
}

TEST(RewiredVector, AloneOnAPoolItIsOneMapping) {
  const PagePool pool = open_pool(small, 1000);
  auto vector = open_vector<uint64_t>(pool);
  for (uint64_t i = 0; i < 1000 * small / 8; ++i) vector.push_back(i);
  EXPECT_LE(pool.mappings(), 2u);  // and its guard
}

TEST(RewiredVector, DoublingTakesWhatThePoolHasLeft) {
  const PagePool pool = open_pool(small, 11);
  auto vector = open_vector<uint64_t>(pool);
  for (uint64_t i = 0; i < 11 * small / 8; ++i) vector.push_back(i);
  EXPECT_EQ(vector.capacity(), vector.size());
  EXPECT_EQ(pool.pages_free(), 0u);
}

// ---- insert and erase by pages, at every kind of place

TEST(VectorCore, MovesPagesAndCopiesHalfAPageAtMost) {
  for (const size_t page_bytes : {small, large}) {
    const uint64_t pages = page_bytes == small ? 200 : 12;
    const PagePool pool = open_pool(page_bytes, 2 * pages);
    const uint64_t half = page_bytes / 2;
    std::vector<uint64_t> words(pages * page_bytes / sizeof(uint64_t));
    for (uint64_t i = 0; i < words.size(); ++i) words[i] = mix64(i);
    const auto* const model = reinterpret_cast<const std::byte*>(words.data());
    for (const uint64_t cut :
         {uint64_t{0}, uint64_t{1}, half - 1, half, half + 1, uint64_t{page_bytes} - 1}) {
      for (const uint64_t gap : {1, 2, 5}) {
        for (const uint64_t tail : {uint64_t{0}, uint64_t{1}, half, uint64_t{page_bytes}}) {
          if (!tried()) continue;
          SCOPED_TRACE(testing::Message() << page_bytes << " " << cut << " " << gap << " " << tail);
          auto core = rewire::VectorCore::open(internal::Access::core(pool), {});
          ASSERT_TRUE(core);
          const uint64_t size = (pages - 6) * page_bytes + tail;
          ASSERT_TRUE((*core)->grow(size));
          auto* const bytes = (*core)->begin();
          std::memcpy(bytes, model, size);
          const uint64_t at = 3 * page_bytes + cut;
          const auto copied = (*core)->open_gap(at, gap * page_bytes, size);
          ASSERT_TRUE(copied) << copied.error().message();
          EXPECT_LE(*copied, half);
          EXPECT_EQ(std::memcmp(bytes, model, at), 0);
          EXPECT_EQ(std::memcmp(bytes + at + gap * page_bytes, model + at, size - at), 0);
          std::memset(bytes + at, 1, gap * page_bytes);
          EXPECT_LE((*core)->close_gap(at, gap * page_bytes, size + gap * page_bytes), half);
          EXPECT_EQ(std::memcmp(bytes, model, size), 0);
          EXPECT_EQ(pool.pages_taken(), (*core)->mapped_slots());
        }
      }
    }
    EXPECT_EQ(pool.pages_taken(), 0u);
  }
}

// ---- splice

TEST(RewiredVector, SpliceMovesWholePagesWithoutCopying) {
  constexpr size_t per_page = small / 8;
  const PagePool pool = open_pool(small, 100);
  auto to = open_vector<uint64_t>(pool), from = open_vector<uint64_t>(pool);
  to.append(items_of<uint64_t>(0, 40 * per_page));
  from.append(items_of<uint64_t>(1000000, 50 * per_page));
  to.shrink_to_fit();
  from.shrink_to_fit();
  auto model = items_of<uint64_t>(0, 40 * per_page);
  auto rest = items_of<uint64_t>(1000000, 50 * per_page);
  PagePool(pool).trim();

  // Into the middle, out of the middle.
  auto spliced = to.splice(to.begin() + 7 * per_page, from, 11 * per_page, 13 * per_page);
  ASSERT_TRUE(spliced) << spliced.error().message();
  EXPECT_EQ(spliced->pages_moved, 13u);
  EXPECT_EQ(spliced->copied_bytes, 0u);
  model.insert(model.begin() + 7 * per_page, rest.begin() + 11 * per_page,
               rest.begin() + 24 * per_page);
  rest.erase(rest.begin() + 11 * per_page, rest.begin() + 24 * per_page);
  EXPECT_TRUE(equal(to, model));
  EXPECT_TRUE(equal(from, rest));
  EXPECT_EQ(pool.pages_taken(), 90u);

  // All of it, including its last page, which is not full.
  from.pop_back();
  rest.pop_back();
  spliced = to.splice(to.end(), from, 0, from.size());
  ASSERT_TRUE(spliced);
  EXPECT_EQ(spliced->pages_moved, 37u);
  EXPECT_EQ(spliced->copied_bytes, 0u);
  model.insert(model.end(), rest.begin(), rest.end());
  EXPECT_TRUE(equal(to, model));
  EXPECT_TRUE(from.empty());
  EXPECT_EQ(from.memory_bytes(), 0u);
  EXPECT_EQ(pool.pages_taken(), 90u);
}

TEST(RewiredVector, SpliceNeedsNoPageOfAnEmptyPool) {
  constexpr size_t per_page = small / 8;
  const PagePool pool = open_pool(small, 80);
  auto to = open_vector<uint64_t>(pool), from = open_vector<uint64_t>(pool);
  to.resize(40 * per_page);
  from.resize(40 * per_page);
  ASSERT_EQ(pool.pages_free(), 0u);
  ASSERT_TRUE(to.splice(to.begin(), from, 0, from.size()));
  EXPECT_EQ(to.size(), 80 * per_page);
  EXPECT_EQ(to.try_push_back(1).error().code, ErrorCode::out_of_memory);
}

TEST(RewiredVector, SpliceCopiesTheEndsIfBothLieAtTheSamePlaceInAPage) {
  constexpr size_t per_page = small / 8;
  const PagePool pool = open_pool(small, 400);
  auto to = open_vector<uint64_t>(pool), from = open_vector<uint64_t>(pool);
  to.append(items_of<uint64_t>(0, 10 * per_page + 7));
  from.append(items_of<uint64_t>(50000, 120 * per_page + 7));
  const auto spliced = to.splice(to.end(), from, per_page + 7, 100 * per_page);
  ASSERT_TRUE(spliced);
  EXPECT_EQ(spliced->pages_moved, 99u);
  EXPECT_LT(spliced->copied_bytes, 30 * small);
  auto model = items_of<uint64_t>(0, 10 * per_page + 7);
  const auto more = items_of<uint64_t>(50000 + per_page + 7, 100 * per_page);
  model.insert(model.end(), more.begin(), more.end());
  EXPECT_TRUE(equal(to, model));
}

TEST(RewiredVector, SpliceCopiesBetweenPoolsAndSaysSo) {
  const PagePool one = open_pool(small, 100), two = open_pool(small, 100);
  auto to = open_vector<uint64_t>(one), from = open_vector<uint64_t>(two);
  from.append(items_of<uint64_t>(0, 20 * small / 8));
  const auto spliced = to.splice(to.begin(), from, 0, from.size());
  ASSERT_TRUE(spliced);
  EXPECT_EQ(spliced->pages_moved, 0u);
  EXPECT_EQ(spliced->copied_bytes, 20 * small);
  EXPECT_TRUE(equal(to, items_of<uint64_t>(0, 20 * small / 8)));
  EXPECT_TRUE(from.empty());
}

TEST(RewiredVector, SpliceRefusesInvalidArguments) {
  const PagePool pool = open_pool(small, 10);
  auto to = open_vector<uint64_t>(pool, {.bytes_max = 3 * small});
  auto from = open_vector<uint64_t>(pool);
  from.append(items_of<uint64_t>(0, 4 * small / 8));
  EXPECT_EQ(to.splice(to.end(), from, 1, from.size()).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(to.splice(to.end(), from, SIZE_MAX, 2).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(from.splice(from.end(), from, 0, 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(to.splice(to.end(), from, 0, from.size()).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(RewiredVector<uint64_t>().splice(nullptr, from, 0, 1).error().code,
            ErrorCode::invalid_argument);
  EXPECT_TRUE(to.empty());
  EXPECT_TRUE(equal(from, items_of<uint64_t>(0, 4 * small / 8)));
}

// ---- the append window

TEST(RewiredVector, PagesAppearBehindAPlainPointer) {
  const PagePool pool = open_pool(large, 64);
  auto vector = open_vector<uint64_t>(pool);
  vector.push_back(42);
  uint64_t* window = vector.append_window().value();
  constexpr size_t count = 100 * MiB / 8;
  window = generate_into(window, 7, count);
  EXPECT_EQ(vector.size(), 1u);
  ASSERT_TRUE(vector.append_end(window));
  ASSERT_EQ(vector.size(), count + 1);
  EXPECT_EQ(vector[0], 42u);
  uint64_t wrong = 0;
  for (size_t i = 0; i < count; ++i) wrong += vector[i + 1] != item_of<uint64_t>(7 + i);
  EXPECT_EQ(wrong, 0u);
  EXPECT_LE(vector.memory_bytes(), 100 * MiB + 2 * MiB + 32 * MiB);
  vector.shrink_to_fit();
  EXPECT_EQ(pool.pages_taken(), 51u);
  // And again, across a page's border, with a library function.
  std::memset(vector.append_window().value(), 0xab, 5 * MiB);
  ASSERT_TRUE(vector.append_end(vector.end() + 5 * MiB / 8));
  EXPECT_EQ(vector.back(), 0xababababababababu);
}

TEST(RewiredVector, SeveralThreadsFillAWindow) {
  if (os::thread_sanitized)
    GTEST_SKIP() << "the thread sanitizer takes mmap() for a write of its caller's to what others "
                    "store there";
  const PagePool pool = open_pool(small, 20000);
  for (int round = 0; round < 5; ++round) {
    auto vector = open_vector<uint64_t>(pool);
    uint64_t* const window = vector.append_window().value();
    constexpr uint64_t count = 1'000'000;
    {
      std::vector<std::jthread> threads;
      for (uint64_t t = 0; t < 4; ++t) {
        threads.emplace_back([=] {
          for (uint64_t i = t * count; i < (t + 1) * count; ++i) window[i] = mix64(i);
        });
      }
    }
    ASSERT_TRUE(vector.append_end(window + 4 * count));
    uint64_t wrong = 0;
    for (uint64_t i = 0; i < 4 * count; ++i) wrong += vector[i] != mix64(i);
    EXPECT_EQ(wrong, 0u);
  }
  EXPECT_EQ(pool.pages_taken(), 0u);
}

TEST(RewiredVector, LoadsInTheWindowAreServedToo) {
  const PagePool pool = open_pool(small, 20000);
  auto vector = open_vector<uint64_t>(pool);
  uint64_t* const window = vector.append_window().value();
  for (uint64_t i = 0; i < 1'000'000; ++i) {
    window[i] &= 0;  // loads first
    window[i] |= i;
  }
  ASSERT_TRUE(vector.append_end(window + 1'000'000));
  EXPECT_EQ(vector.back(), 999'999u);
}

TEST(RewiredVector, RecoversWhenThePoolIsEmptyInAFault) {
  const PagePool pool = open_pool(small, 30);
  auto vector = open_vector<uint64_t>(pool, {.policy = ErrorPolicy::recover, .name = "keys"});
  vector.append(items_of<uint64_t>(0, 1000));
  uint64_t* const window = vector.append_window().value();
  volatile uint64_t written = 0;
  const auto filled = RecoveryPoint::run([&] {
    for (uint64_t i = 0;; ++i) {
      window[i] = i;
      written = i + 1;
    }
  });
  ASSERT_FALSE(filled);
  EXPECT_EQ(filled.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(filled.error().message().find("0 of the pool's 30 pages"), std::string::npos)
      << filled.error().message();
  EXPECT_EQ(written, 30 * small / 8 - 1000);
  ASSERT_TRUE(vector.append_end(window + written));
  EXPECT_EQ(vector[999], item_of<uint64_t>(999));
  EXPECT_EQ(vector.back(), written - 1);
  vector.clear();
  vector.shrink_to_fit();
  EXPECT_EQ(pool.pages_taken(), 0u);
}

TEST(RewiredVector, EndsTheWindowWhereItCan) {
  const PagePool pool = open_pool(small, 30);
  auto vector = open_vector<uint64_t>(pool, {.bytes_max = 10 * small});
  uint64_t* const window = vector.append_window().value();
  EXPECT_EQ(vector.append_end(window - 1).error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(vector.append_end(window + 10 * small / 8 + 1).error().code,
            ErrorCode::invalid_argument);
  ASSERT_TRUE(vector.append_end(window + 10 * small / 8));  // untouched, but in the vector
  EXPECT_EQ(pool.pages_taken(), 10u);
  std::fill(vector.begin(), vector.end(), 5);
}

TEST(RewiredVector, SystemCallsReadIntoTheWindow) {
  const PagePool pool = open_pool(small, 2000);
  auto vector = open_vector<char>(pool);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string text(3'000'000, 'x');
  std::jthread writer([&] {
    EXPECT_EQ(system_calls::write(ends[1], text.data(), text.size()), text.size());
    close(ends[1]);
  });
  char* const window = vector.append_window().value();
  const auto got = system_calls::read(ends[0], window, 5'000'000);
  ASSERT_TRUE(got) << got.error().message();
  EXPECT_EQ(*got, text.size());
  ASSERT_TRUE(vector.append_end(window + *got));
  EXPECT_EQ(std::count(vector.begin(), vector.end(), 'x'), 3'000'000);
  close(ends[0]);
  // The window is closed: no page appears any more.
  fault::Handler* const handler = fault::find(vector.data());
  ASSERT_NE(handler, nullptr);
  auto* const behind = reinterpret_cast<std::byte*>(vector.data() + vector.capacity());
  EXPECT_FALSE(handler->prepare(behind, 1, fault::Access::write));
}

// Until the window ends, its contents are behind the elements; only calls documented to do so may
// lose them.
TEST(RewiredVector, AWindowGoesWithItsVectorAndKeepsItsPages) {
  const PagePool pool = open_pool(small, 1000);
  auto vector = open_vector<Three>(pool), other = open_vector<Three>(pool);
  vector.append(items_of<Three>(0, 1000));
  Three* const window = vector.append_window().value();
  Three* end = generate_into(window, 1000, 3000);
  vector.shrink_to_fit();
  other.resize(50 * small / sizeof(Three));  // takes the pages that shrinking returned
  vector.swap(other);
  RewiredVector<Three> moved(std::move(other));
  EXPECT_EQ(vector.append_end(end).error().code, ErrorCode::invalid_argument);
  end = generate_into(end, 4000, 20000);
  ASSERT_TRUE(moved.append_end(end));
  EXPECT_TRUE(equal(moved, items_of<Three>(0, 24000)));
  moved.shrink_to_fit();
  EXPECT_EQ(moved.memory_bytes(), round_up(24000 * sizeof(Three), small));
}

TEST(RewiredVector, AppendsAtItsEndWhileAWindowIsOpen) {
  const PagePool pool = open_pool(small, 2000);
  auto vector = open_vector<uint64_t>(pool);
  uint64_t* const window = vector.append_window().value();
  window[0] = 100;
  window[700] = 7;
  vector.push_back(1);  // in place of the window's element there
  for (uint64_t i = 1; i < 600; ++i) vector.push_back(i);
  vector.append(items_of<uint64_t>(0, 100));
  EXPECT_EQ(window + 700, vector.end());
  ASSERT_TRUE(vector.append_end(window + 701));
  EXPECT_EQ(vector[0], 1u);
  EXPECT_EQ(vector[650], item_of<uint64_t>(50));
  EXPECT_EQ(vector.back(), 7u);
}

class RewiredVectorDeath : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(RewiredVectorDeath, StopsWithAClearMessageWhenThePoolIsEmpty) {
  EXPECT_DEATH(
      {
        auto vector = open_vector<uint64_t>(open_pool(small, 3), {.name = "keys"});
        generate_into(vector.append_window().value(), 0, 10000);
      },
      "keys.*grow to 16384 bytes: 0 of the pool's 3 pages of 4096 bytes are free .this vector has "
      "3");
}

TEST_F(RewiredVectorDeath, StopsWithAClearMessageBehindItsLastAddress) {
  EXPECT_DEATH(
      {
        auto vector =
            open_vector<uint64_t>(open_pool(small, 30), {.bytes_max = 2 * small, .name = "keys"});
        generate_into(vector.append_window().value(), 0, 10000);
      },
      "keys.*grow to 12288 bytes: bytes_max is 8192");
}

TEST_F(RewiredVectorDeath, OutsideOfAWindowAStrayStoreCrashes) {
  EXPECT_DEATH(
      {
        auto vector = open_vector<uint64_t>(open_pool(small, 30));
        uint64_t* const window = vector.append_window().value();
        window[0] = 1;
        (void)vector.append_end(window + 1);
        vector.shrink_to_fit();
        *const_cast<volatile uint64_t*>(window + small / 8) = 1;
      },
      "");
}

// ---- missing resources

TEST(RewiredVector, SaysThatThePoolIsEmptyAndLosesNothing) {
  const PagePool pool = open_pool(small, 10);
  auto vector = open_vector<uint64_t>(pool, {.name = "keys"});
  const auto items = items_of<uint64_t>(0, 10 * small / 8);
  vector.append(items);
  const Status status = vector.try_push_back(1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, ErrorCode::out_of_memory);
  EXPECT_NE(status.error().message().find("keys"), std::string::npos);
  EXPECT_NE(status.error().message().find("0 of the pool's 10 pages"), std::string::npos)
      << status.error().message();
  EXPECT_THROW(vector.push_back(1), std::bad_alloc);
  EXPECT_THROW(vector.insert(vector.begin(), 1), std::bad_alloc);
  EXPECT_THROW(vector.resize(20 * small), std::bad_alloc);
  EXPECT_THROW(vector.resize(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(vector.insert(vector.begin(), SIZE_MAX, 1), std::bad_alloc);
  EXPECT_THROW(vector.reserve(SIZE_MAX / 8 + 2), std::bad_alloc);
  EXPECT_THROW(RewiredVector<uint64_t>{vector}, std::bad_alloc);
  EXPECT_FALSE(vector.try_reserve(vector.size() + 1));
  EXPECT_FALSE(vector.try_append(items));
  EXPECT_TRUE(equal(vector, items));
  EXPECT_EQ(pool.pages_taken(), 10u);
  vector.pop_back();
  vector.push_back(items.back());
  EXPECT_TRUE(equal(vector, items));
}

TEST(RewiredVector, TakesNothingWhenNotAllCanBeHad) {
  const PagePool pool = open_pool(small, 10);
  auto vector = open_vector<uint64_t>(pool);
  vector.push_back(1);
  EXPECT_EQ(vector.try_reserve(11 * small / 8).error().code, ErrorCode::out_of_memory);
  EXPECT_EQ(pool.pages_taken(), 1u);
  EXPECT_EQ(RewiredVector<int>::open(pool, {.bytes = 10 * small}).error().code,
            ErrorCode::out_of_memory);
  EXPECT_EQ(pool.pages_taken(), 1u);
}

TEST(RewiredVector, SaysThatMappingsAreUsedUp) {
  const PagePool pool = open_pool(small, 200, 20);
  // Every second page has another owner.
  std::list<PageSet> others;
  {
    std::list<PageSet> every;
    for (int i = 0; i < 200; ++i) every.push_back(std::move(*pool.take(1)));
    int i = 0;
    for (PageSet& page : every) {
      if (i++ % 2 == 0) others.push_back(std::move(page));
    }
  }
  auto vector =
      open_vector<uint64_t>(pool, {.bytes_max = 150 * small, .growth = VectorGrowth::pages});
  Status status;
  uint64_t count = 0;
  while ((status = vector.try_push_back(item_of<uint64_t>(count)))) ++count;
  EXPECT_EQ(status.error().code, ErrorCode::out_of_mappings) << status.error().message();
  EXPECT_NE(status.error().message().find("vm.max_map_count"), std::string::npos);
  EXPECT_GT(count, 10 * small / 8);
  EXPECT_TRUE(equal(vector, items_of<uint64_t>(0, count)));
  EXPECT_EQ(vector.memory_bytes(), (100 - pool.pages_free()) * small);
  vector.clear();
  vector.shrink_to_fit();
  EXPECT_EQ(pool.pages_free(), 100u);
}

// If mappings for moving pages run out, everything is copied, and right; if those for growing run
// out, nothing is lost.
TEST(RewiredVector, CopiesWhereMappingsAreUsedUp) {
  constexpr size_t per_page = small / 8;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE(seed);
  for (const uint64_t mappings : {6, 8, 10, 12, 16}) {
    const PagePool pool = open_pool(small, 1000, mappings);
    auto vector = open_vector<uint64_t>(pool), other = open_vector<uint64_t>(pool);
    std::vector<uint64_t> model = items_of<uint64_t>(0, 200 * per_page);
    std::vector<uint64_t> other_model = items_of<uint64_t>(1 << 20, 200 * per_page);
    ASSERT_TRUE(vector.try_append(model));
    ASSERT_TRUE(other.try_append(other_model));
    Random random(seed + mappings);
    int grown = 0;
    for (int step = 0; step < 100; ++step) {
      const size_t count = (1 + random.below(4)) * per_page;
      const size_t at = random.below(100) * per_page;
      const auto place = static_cast<ptrdiff_t>(at);
      const auto first = static_cast<ptrdiff_t>(random.below(100) * per_page);
      switch (random.below(3)) {
        case 0:
          try {
            vector.insert(vector.begin() + at, count, 7);
          } catch (const std::bad_alloc&) {
            break;
          }
          model.insert(model.begin() + place, count, 7);
          ++grown;
          break;
        case 1:
          if (model.size() < 150 * per_page) break;
          vector.erase(vector.begin() + at, vector.begin() + at + count);
          model.erase(model.begin() + place, model.begin() + place + static_cast<ptrdiff_t>(count));
          break;
        case 2: {
          if (other_model.size() < 150 * per_page) break;
          const auto spliced =
              vector.splice(vector.begin() + at, other, static_cast<size_t>(first), count);
          if (!spliced) {
            ASSERT_EQ(spliced.error().code, ErrorCode::out_of_mappings);
            break;
          }
          const auto begin = other_model.begin() + first;
          const auto end = begin + static_cast<ptrdiff_t>(count);
          model.insert(model.begin() + place, begin, end);
          other_model.erase(begin, end);
          ++grown;
          break;
        }
      }
      ASSERT_TRUE(equal(vector, model));
      ASSERT_TRUE(equal(other, other_model));
      ASSERT_EQ(pool.pages_taken() * small, vector.memory_bytes() + other.memory_bytes());
    }
    EXPECT_GT(grown, 0);
    EXPECT_LE(pool.mappings(), mappings);
  }
}

TEST(RewiredVector, AForkedChildThatRunsPastTheEndLearnsWhoseVectorItIs) {
  GTEST_FLAG_SET(death_test_style, "fast");  // in a forked child
  const PagePool pool = open_pool(small, 8);
  auto vector = open_vector<uint64_t>(pool);
  vector.append(items_of<uint64_t>(0, 10));
  volatile uint64_t* const behind = vector.append_window().value();
  EXPECT_DEATH(behind[small / 8] = 1,
               "in a forked child: it belongs to process " + std::to_string(getpid()));
  behind[small / 8] = 1;
  (void)vector.append_end(vector.data() + 10);
}

TEST(RewiredVector, EndsInAForkedChildWithoutHarmToTheParent) {
  auto pool = std::make_unique<PagePool>(open_pool(small, 8));
  auto vector = std::make_unique<RewiredVector<uint64_t>>(open_vector<uint64_t>(*pool));
  vector->append(items_of<uint64_t>(0, 1000));
  const pid_t child = fork();
  if (child == 0) {
    alarm(10);
    vector.reset();
    pool->trim();
    pool.reset();
    _exit(0);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  vector->append(items_of<uint64_t>(1000, 1000));
  EXPECT_TRUE(equal(*vector, items_of<uint64_t>(0, 2000)));
}

TEST(RewiredVector, AnInsertionThatFailsMidwayChangesNothing) {
  const PagePool pool = open_pool(small, 3);
  auto vector = open_vector<int>(pool);
  vector.assign(1000, 5);
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "7 ";
  std::istringstream numbers(text);
  EXPECT_THROW(vector.insert(vector.begin() + 10, std::istream_iterator<int>(numbers), {}),
               std::bad_alloc);
  EXPECT_EQ(std::vector(vector.begin(), vector.end()), std::vector(1000, 5));
}

TEST(RewiredVector, HoldsElementsLargerThanAPage) {
  using Large = Bytes<5001>;
  const PagePool pool = open_pool(small, 40);
  auto vector = open_vector<Large>(pool, {.growth = VectorGrowth::pages});
  std::vector<Large> model;
  for (uint64_t i = 0; i < 32; ++i) {
    vector.push_back(item_of<Large>(i));
    model.push_back(item_of<Large>(i));
  }
  EXPECT_THROW(vector.push_back(model[0]), std::bad_alloc);
  vector.erase(vector.begin() + 3, vector.begin() + 20);
  model.erase(model.begin() + 3, model.begin() + 20);
  vector.insert(vector.begin() + 1, vector[5]);
  model.insert(model.begin() + 1, Large(model[5]));
  vector.append({vector.data() + 1, 4});
  for (size_t i = 1; i < 5; ++i) model.push_back(Large(model[i]));
  EXPECT_TRUE(equal(vector, model));
}

TEST(RewiredVector, RefusesInvalidOptions) {
  const PagePool pool = open_pool(small, 10);
  for (const RewiredVectorOptions& options :
       {RewiredVectorOptions{.policy = ErrorPolicy::zeros},
        RewiredVectorOptions{.bytes_max = 200 * TiB},
        RewiredVectorOptions{.growth = VectorGrowth::pages, .grow_pages = 0}})
    EXPECT_EQ(RewiredVector<int>::open(pool, options).error().code, ErrorCode::invalid_argument);
}

TEST(RewiredVector, OneThatWasMovedFromIsEmptyAndCanBeUsedAgain) {
  const PagePool pool = open_pool(small, 20);
  auto vector = open_vector<uint64_t>(pool);
  vector.append(items_of<uint64_t>(0, 2000));
  RewiredVector<uint64_t> other(std::move(vector));
  EXPECT_EQ(other.size(), 2000u);
  EXPECT_TRUE(vector.empty());
  EXPECT_EQ(vector.capacity(), 0u);
  EXPECT_EQ(vector.max_size(), 0u);
  EXPECT_EQ(vector.begin(), vector.end());
  vector.clear();
  vector.shrink_to_fit();
  vector.resize(0);
  vector.append({});
  vector.erase(vector.begin(), vector.end());
  EXPECT_TRUE(vector == RewiredVector<uint64_t>());
  EXPECT_EQ(vector.try_push_back(1).error().code, ErrorCode::invalid_argument);
  EXPECT_THROW(vector.push_back(1), std::bad_alloc);
  EXPECT_THROW(vector.insert(vector.begin(), 1), std::bad_alloc);
  EXPECT_FALSE(vector.append_window());
  RewiredVector<uint64_t> copy(vector);
  EXPECT_TRUE(copy.empty());
  copy = other;
  EXPECT_TRUE(copy == other);
  vector = std::move(other);
  EXPECT_EQ(vector.size(), 2000u);
  vector.push_back(1);
  vector = RewiredVector<uint64_t>();
  copy = vector;
  EXPECT_TRUE(copy.empty());
}

TEST(RewiredVector, HasWhatPeopleExpectOfAVector) {
  const PagePool pool = open_pool(small, 100);
  auto vector = open_vector<int>(pool);
  vector = {3, 1, 2};
  EXPECT_EQ(vector.at(2), 2);
  EXPECT_THROW((void)vector.at(3), std::out_of_range);
  EXPECT_EQ(vector.front(), 3);
  EXPECT_EQ(vector.back(), 2);
  std::ranges::sort(vector);
  EXPECT_TRUE(std::equal(vector.rbegin(), vector.rend(), std::vector{3, 2, 1}.begin()));
  EXPECT_TRUE(std::equal(vector.crbegin(), vector.crend(), std::vector{3, 2, 1}.begin()));
  EXPECT_EQ(*vector.emplace(vector.begin() + 1, 9), 9);
  EXPECT_EQ(*vector.insert(vector.end(), {7, 7, 8}), 7);
  EXPECT_EQ(std::vector(vector.begin(), vector.end()), (std::vector{1, 9, 2, 3, 7, 7, 8}));
  EXPECT_EQ(erase(vector, 7), 2u);
  EXPECT_EQ(erase_if(vector, [](int i) { return i > 7; }), 2u);
  EXPECT_EQ(std::vector(vector.begin(), vector.end()), (std::vector{1, 2, 3}));
  std::istringstream numbers("10 20 30");
  vector.insert(vector.begin() + 1, std::istream_iterator<int>(numbers), {});
  EXPECT_EQ(std::vector(vector.begin(), vector.end()), (std::vector{1, 10, 20, 30, 2, 3}));
  std::istringstream more("4 5");
  auto other = open_vector<int>(pool);
  other.assign(std::istream_iterator<int>(more), {});
  EXPECT_EQ(std::vector(other.begin(), other.end()), (std::vector{4, 5}));
  EXPECT_LT(vector, other);
  EXPECT_NE(vector, other);
  vector.assign(2, 4);
  EXPECT_EQ(std::vector(vector.cbegin(), vector.cend()), (std::vector{4, 4}));
  vector.resize(3, vector[0]);
  EXPECT_EQ(vector.size(), 3u);
  const auto& constant = vector;
  EXPECT_EQ(std::accumulate(constant.begin(), constant.end(), 0), 12);
  static_assert(std::ranges::contiguous_range<RewiredVector<int>>);
  static_assert(std::is_nothrow_move_constructible_v<RewiredVector<int>>);
  std::vector<RewiredVector<int>> many;
  for (int i = 0; i < 10; ++i) {
    many.push_back(open_vector<int>(pool));
    many.back().push_back(i);
  }
  EXPECT_EQ(many[9].front(), 9);
  many.clear();
  EXPECT_EQ(pool.pages_taken(), 2u);
}

}  // namespace
}  // namespace penstock
