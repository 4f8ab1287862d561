// Test labels: threads, loops, templates

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <compare>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/bits.h"
#include "base/random.h"
#include "base/trials.h"
#include "generate/generator.h"
#include "items/items.h"
#include "os/limits.h"
#include "os/memory.h"
#include "os/sanitizer.h"
#include "penstock/base.h"
#include "penstock/sort.h"

// The property suite of the in-memory sort: every type, distribution, size, option and kind of
// memory. ctest runs it once for each tier of processors (PENSTOCK_CPU).
//
// Results are not compared with another sort, which would take most of the time: the output has
// to be in order, and to have the same sum of hashes over all items as the input. Values of pairs
// are the items' places, so that order by (key, place) is the only stable result.
//
// Inputs follow from the seed that a failure prints.

namespace penstock {
namespace {

constexpr size_t leaf_items_max = 256;

// ---- types

template <class T>
constexpr bool is_pair = std::is_same_v<T, KeyValue32> || std::is_same_v<T, KeyValue64>;

template <class T>
std::string name_of_type() {
  if (std::is_same_v<T, KeyValue32>) return "KeyValue32";
  if (std::is_same_v<T, KeyValue64>) return "KeyValue64";
  if (std::is_same_v<T, Key128>) return "Key128";
  std::string name = std::is_floating_point_v<T> ? "f" : std::is_signed_v<T> ? "i" : "u";
  return name + std::to_string(8 * sizeof(T));
}

template <class T>
constexpr unsigned key_bits = std::is_same_v<T, KeyValue32> ? 32
                              : sizeof(T) == 16             ? 64
                                                            : 8 * sizeof(T);

// A key's rank in the order that the header promises, computed independently of the library.
struct Rank {
  uint64_t high;
  uint64_t low;
  auto operator<=>(const Rank&) const = default;
};

template <class T>
Rank ascending_rank(const T& item) {
  if constexpr (is_pair<T>) {
    return {item.key, 0};
  } else if constexpr (std::is_same_v<T, Key128>) {
    return {item.high, item.low};
  } else if constexpr (std::is_same_v<T, float>) {
    const auto bits = std::bit_cast<uint32_t>(item);
    if (std::signbit(item) && std::isnan(item)) return {3, uint32_t{~bits}};
    return {std::signbit(item) ? uint64_t{0} : uint64_t{1},
            std::signbit(item) ? uint32_t{~bits} : bits};
  } else if constexpr (std::is_same_v<T, double>) {
    const auto bits = std::bit_cast<uint64_t>(item);
    if (std::signbit(item) && std::isnan(item)) return {3, ~bits};
    return {std::signbit(item) ? uint64_t{0} : uint64_t{1}, std::signbit(item) ? ~bits : bits};
  } else if constexpr (std::is_signed_v<T>) {
    return {static_cast<uint64_t>(int64_t{item}) ^ (uint64_t{1} << 63), 0};
  } else {
    return {item, 0};
  }
}

template <class T>
Rank rank_of(const T& item, bool descending) {
  const Rank rank = ascending_rank(item);
  return descending ? Rank{~rank.high, ~rank.low} : rank;
}

template <class T>
uint64_t hash_of(const T& item) {
  if constexpr (sizeof(T) == 16) {
    const auto words = std::bit_cast<std::array<uint64_t, 2>>(item);
    return mix64(mix64(words[0]) + words[1]);
  } else if constexpr (sizeof(T) == 8) {
    return mix64(std::bit_cast<uint64_t>(item));
  } else if constexpr (sizeof(T) == 4) {
    return mix64(std::bit_cast<uint32_t>(item));
  } else {
    return mix64(static_cast<uint64_t>(item));
  }
}

template <class T>
uint64_t hash_sum(std::span<const T> items) {
  uint64_t sum = 0;
  for (const T& item : items) sum += hash_of(item);
  return sum;
}

// ---- inputs

// An item whose key has the lowest bits of the word; `other` is its value.
template <class T>
T item_of(uint64_t word, uint64_t other) {
  if constexpr (std::is_same_v<T, KeyValue32>) {
    return {static_cast<uint32_t>(word), static_cast<uint32_t>(other)};
  } else if constexpr (std::is_same_v<T, KeyValue64>) {
    return {word, other};
  } else if constexpr (std::is_same_v<T, Key128>) {
    return {.low = other, .high = word};
  } else if constexpr (std::is_same_v<T, float>) {
    return std::bit_cast<float>(static_cast<uint32_t>(word));
  } else if constexpr (std::is_same_v<T, double>) {
    return std::bit_cast<double>(word);
  } else {
    return static_cast<T>(word);
  }
}

struct Pattern {
  std::string name;
  // The bits of key i of `count`, of which the lowest `bits` are used.
  std::function<uint64_t(Random&, uint64_t i, uint64_t count, unsigned bits)> word;
  // A generator's distribution, used instead of `word` if that is null.
  generate::Distribution distribution = generate::Distribution::uniform;
};

uint64_t from_top(uint64_t word, unsigned bits) {
  return word >> (64 - bits);
}

std::vector<Pattern> own_patterns() {
  std::vector<Pattern> patterns;
  auto add = [&](std::string name, auto word) {
    patterns.push_back({.name = std::move(name), .word = std::move(word)});
  };
  add("organ pipe",
      [](Random&, uint64_t i, uint64_t count, unsigned) { return std::min(i, count - i); });
  add("sawtooth", [](Random&, uint64_t i, uint64_t, unsigned) { return i % 1023; });
  add("few distinct",
      [](Random& random, uint64_t, uint64_t, unsigned) { return mix64(random.below(5)); });
  add("exponential", [](Random& random, uint64_t, uint64_t, unsigned bits) {
    return uint64_t{1} << random.below(bits);
  });
  add("every bit length", [](Random& random, uint64_t, uint64_t, unsigned bits) {
    return from_top(random.next(), bits) >> random.below(bits);
  });
  add("narrow clusters", [](Random& random, uint64_t, uint64_t, unsigned bits) {
    const uint64_t middle = from_top(mix64(random.below(7)), bits);
    return middle + random.below(std::min<uint64_t>(1000, uint64_t{1} << (bits / 2)));
  });
  add("all equal but one", [](Random&, uint64_t i, uint64_t count, unsigned) {
    return i == count / 3 ? uint64_t{0} : uint64_t{77};
  });
  add("two keys, in blocks", [](Random&, uint64_t i, uint64_t count, unsigned) {
    return i < count / 2 ? ~uint64_t{0} : uint64_t{1};
  });
  add("extremes",
      [](Random& random, uint64_t, uint64_t, unsigned) { return uint64_t{0} - random.below(2); });
  add("half equal", [](Random& random, uint64_t, uint64_t, unsigned) {
    return random.below(2) == 0 ? 0x5555555555555555u : random.next();
  });
  // Each bucket's place contains the items of the opposite bucket.
  add("reversed blocks", [](Random& random, uint64_t i, uint64_t count, unsigned bits) {
    const uint64_t block = i * 64 / std::max<uint64_t>(count, 1);
    return (63 - block) << (bits - 6) | from_top(random.next(), bits) >> 6;
  });
  return patterns;
}

constexpr items::Type generated_type(unsigned bits) {
  return bits <= 32 ? items::Type::u32 : items::Type::u64;
}

template <class T>
items::Type generator_of() {
  if (std::is_same_v<T, float>) return items::Type::f32;
  if (std::is_same_v<T, double>) return items::Type::f64;
  if (std::is_same_v<T, int32_t>) return items::Type::i32;
  if (std::is_same_v<T, int64_t>) return items::Type::i64;
  return generated_type(key_bits<T>);
}

template <class T>
std::vector<Pattern> all_patterns() {
  std::vector<Pattern> patterns = own_patterns();
  for (generate::Distribution distribution : generate::distributions_of(generator_of<T>())) {
    patterns.push_back({.name = std::string(generate::name_of(distribution)),
                        .word = nullptr,
                        .distribution = distribution});
  }
  return patterns;
}

// For Key128, the pattern makes one of the two words.
template <class T>
void fill(const Pattern& pattern, uint64_t seed, std::span<T> items) {
  Random random(seed);
  auto item = [&](uint64_t i, uint64_t word) {
    if constexpr (std::is_same_v<T, Key128>) {
      const uint64_t other = seed % 3 == 0 ? 42 : random.next() >> random.below(64);
      items[i] = seed % 2 == 0 ? Key128{.low = other, .high = word}
                               : Key128{.low = word, .high = random.below(3)};
    } else {
      items[i] = item_of<T>(word, i);
    }
  };
  if (pattern.word != nullptr) {
    for (uint64_t i = 0; i < items.size(); ++i)
      item(i, pattern.word(random, i, items.size(), key_bits<T>));
    return;
  }
  if (items.empty()) return;
  const items::Type type = generator_of<T>();
  const bool narrow =
      type == items::Type::u32 || type == items::Type::i32 || type == items::Type::f32;
  const uint32_t bytes = narrow ? 4 : 8;
  auto generator = generate::Generator::open(
      {.format = {.type = type, .record_bytes = bytes, .key_bytes = bytes},
       .distribution = pattern.distribution,
       .count = items.size(),
       .seed = seed});
  ASSERT_TRUE(generator) << generator.error().message();
  std::vector<std::byte> words(items.size() * bytes);
  generator->fill(0, items.size(), words.data());
  for (uint64_t i = 0; i < items.size(); ++i) {
    uint64_t word = 0;
    std::memcpy(&word, words.data() + i * bytes, bytes);
    // For keys of 8 or 16 bits, either end of the word is used.
    if (8 * bytes > key_bits<T> && seed % 2 == 0) word >>= 8 * bytes - key_bits<T>;
    item(i, word);
  }
}

// ---- memory

enum class Kind { heap, anonymous, shared, file, locked, huge };
constexpr Kind kinds[] = {Kind::heap, Kind::anonymous, Kind::shared,
                          Kind::file, Kind::locked,    Kind::huge};
const char* name_of(Kind kind) {
  constexpr const char* names[] = {"heap", "anonymous", "shared", "file", "locked", "huge"};
  return names[static_cast<size_t>(kind)];
}

// Memory of one kind. Mapped memory has an inaccessible page on both sides.
class Memory {
 public:
  Memory(Kind kind, size_t bytes) : kind_(kind), bytes_(round_up(bytes, os::page_bytes)) {
    if (kind == Kind::heap) {
      begin_ = static_cast<std::byte*>(std::malloc(bytes_));
      return;
    }
    // Huge pages begin at multiples of their size.
    if (kind == Kind::huge) bytes_ = round_up(bytes_, os::huge_page_bytes);
    reserved_bytes_ = bytes_ + 2 * os::huge_page_bytes;
    reserved_ = static_cast<std::byte*>(
        ::mmap(nullptr, reserved_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (reserved_ == MAP_FAILED) return;
    begin_ = round_up(reserved_ + os::page_bytes, os::huge_page_bytes);
    int flags = MAP_FIXED | (kind == Kind::shared || kind == Kind::file ? MAP_SHARED : MAP_PRIVATE);
    int file = -1;
    if (kind == Kind::file) {
      std::string name = testing::TempDir() + "/penstock-sort-XXXXXX";
      file = ::mkstemp(name.data());
      if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes_)) != 0) begin_ = nullptr;
      if (file >= 0) ::unlink(name.c_str());
    } else {
      flags |= MAP_ANONYMOUS;
    }
    if (begin_ != nullptr &&
        ::mmap(begin_, bytes_, PROT_READ | PROT_WRITE, flags, file, 0) == MAP_FAILED)
      begin_ = nullptr;
    if (file >= 0) ::close(file);
    if (begin_ == nullptr) return;
    if (kind == Kind::huge) (void)::madvise(begin_, bytes_, MADV_HUGEPAGE);
    if (kind == Kind::locked && ::mlock(begin_, bytes_) != 0) begin_ = nullptr;
  }
  ~Memory() {
    if (kind_ == Kind::heap) std::free(begin_);
    if (kind_ != Kind::heap && reserved_ != MAP_FAILED) ::munmap(reserved_, reserved_bytes_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* begin() const { return begin_; }  // null: the system has none of this kind
  std::byte* end() const { return begin_ + bytes_; }

 private:
  Kind kind_;
  size_t bytes_;
  std::byte* begin_ = nullptr;
  std::byte* reserved_ = static_cast<std::byte*>(MAP_FAILED);
  size_t reserved_bytes_ = 0;
};

// The place of an array in its memory.
enum class Spot { start, middle, end };

// An array within larger memory, whose neighborhood must not change.
template <class T>
class Array {
 public:
  // The memory needed for `count` items at any spot.
  static size_t bytes_needed(size_t count) { return count * sizeof(T) + 4 * margin; }

  Array(const Memory& memory, size_t count, Spot spot) : count_(count) {
    switch (spot) {
      case Spot::start:
        items_ = reinterpret_cast<T*>(memory.begin());
        break;
      case Spot::middle:  // one item behind a line
        items_ = reinterpret_cast<T*>(memory.begin() + margin) + 1;
        break;
      case Spot::end:
        items_ = reinterpret_cast<T*>(memory.end()) - count;
        break;
    }
    auto* first = reinterpret_cast<std::byte*>(items_);
    auto* last = reinterpret_cast<std::byte*>(items_ + count_);
    before_ = {
        std::max(memory.begin(), first - std::min<ptrdiff_t>(margin, first - memory.begin())),
        first};
    behind_ = {last, last + std::min<ptrdiff_t>(margin, memory.end() - last)};
    std::memset(before_.data(), canary, before_.size());
    std::memset(behind_.data(), canary, behind_.size());
  }

  std::span<T> items() const { return {items_, count_}; }
  bool surroundings_are_intact() const {
    auto intact = [](std::span<std::byte> bytes) {
      return std::ranges::all_of(bytes, [](std::byte b) { return b == std::byte{canary}; });
    };
    return intact(before_) && intact(behind_);
  }

 private:
  static constexpr size_t margin = 1024;
  static constexpr int canary = 0xa5;
  size_t count_;
  T* items_ = nullptr;
  std::span<std::byte> before_;
  std::span<std::byte> behind_;
};

// ---- properties

// The error in the order of `items`; empty if there is none.
template <class T>
std::string fault_in_order(std::span<const T> items, bool descending, bool stable) {
  for (size_t i = 1; i < items.size(); ++i) {
    const Rank before = rank_of(items[i - 1], descending);
    const Rank after = rank_of(items[i], descending);
    if (after < before) return "out of order at " + std::to_string(i);
    if constexpr (is_pair<T>) {
      if (stable && before == after && items[i].value <= items[i - 1].value)
        return "equal keys changed their order at " + std::to_string(i);
    }
  }
  return {};
}

struct Case {
  SortOptions options;
  bool in_place = true;
  Spot spot = Spot::middle;
};

std::string describe(const Case& c) {
  return std::string(c.options.descending ? "descending" : "ascending") +
         (c.options.stable ? ", stable" : "") + ", threads " + std::to_string(c.options.threads) +
         (c.in_place ? ", in place" : ", out of place") + ", spot " +
         std::to_string(static_cast<int>(c.spot));
}

// Sorts a pattern in the given memory; returns the error in the result, or an empty string.
template <class T>
std::string fault_of_sort(const Pattern& pattern, size_t count, uint64_t seed, const Case& c,
                          const Memory& memory, const Memory& other) {
  const Array<T> array(memory, count, c.spot);
  const std::span<T> items = array.items();
  uint64_t hash = 0;
  if (c.in_place) {
    fill<T>(pattern, seed, items);
    hash = hash_sum<T>(items);
    if (auto status = sort(items, c.options); !status) return status.error().message();
  } else {
    const Array<T> in(other, count, Spot::end);
    fill<T>(pattern, seed, in.items());
    hash = hash_sum<T>(in.items());
    const uint64_t ordered_hash = count == 0 ? 0 : hash_of(in.items().front());
    if (auto status = sort(std::span<const T>(in.items()), items, c.options); !status)
      return status.error().message();
    if (hash_sum<T>(in.items()) != hash || !in.surroundings_are_intact() ||
        (count != 0 && hash_of(in.items().front()) != ordered_hash))
      return "the input has changed";
  }
  if (hash_sum<T>(items) != hash) return "not the items that were given";
  if (!array.surroundings_are_intact()) return "written outside of the items";
  return fault_in_order<T>(items, c.options.descending, c.options.stable);
}

template <class T>
void expect_sorts(const Pattern& pattern, size_t count, uint64_t seed, const Case& c,
                  const Memory& memory, const Memory& other) {
  const std::string fault = fault_of_sort<T>(pattern, count, seed, c, memory, other);
  ASSERT_EQ(fault, "") << name_of_type<T>() << ", " << pattern.name << ", " << count
                       << " items, seed " << seed << ", " << describe(c);
}

template <class T>
class SortProperties : public testing::Test {};
using Types = testing::Types<uint8_t, uint16_t, uint32_t, uint64_t, int8_t, int16_t, int32_t,
                             int64_t, float, double, KeyValue32, KeyValue64, Key128>;
TYPED_TEST_SUITE(SortProperties, Types);

// Sizes up to some thousands: the edges of leaves, lines and powers of two.
std::vector<size_t> small_sizes() {
  std::vector<size_t> sizes = {0,   1, 2, leaf_items_max - 1, leaf_items_max, leaf_items_max + 1,
                               1000};
  for (unsigned bits = 2; bits <= (os::sanitized ? 11 : 13); ++bits) {
    for (size_t size : {-1, 0, 1}) sizes.push_back((size_t{1} << bits) + size);
  }
  return sizes;
}

TYPED_TEST(SortProperties, SortsEverySmallSizeOfEveryPattern) {
  using T = TypeParam;
  const size_t largest = std::ranges::max(small_sizes());
  const Memory memory(Kind::anonymous, Array<T>::bytes_needed(largest));
  const Memory other(Kind::anonymous, Array<T>::bytes_needed(largest));
  ASSERT_NE(memory.begin(), nullptr);
  ASSERT_NE(other.begin(), nullptr);
  uint64_t seed = 1;
  for (const Pattern& pattern : all_patterns<T>()) {
    for (size_t count : small_sizes()) {
      for (unsigned choice = 0; choice < 4; ++choice, ++seed) {
        if (!tried()) continue;
        const Case c = {.options = {.threads = 1 + static_cast<unsigned>(seed % 3),
                                    .descending = choice % 2 != 0,
                                    .stable = choice >= 2},
                        .in_place = mix64(seed) % 4 != 0,
                        .spot = static_cast<Spot>(mix64(seed + 1000) % 3)};
        expect_sorts<T>(pattern, count, seed, c, memory, other);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

// Sizes from a few thousand items to about the size from which chunks are used. Each pattern
// and power of two gets one of its neighbours, in turn.
TYPED_TEST(SortProperties, SortsMiddleSizesOfEveryPattern) {
  using T = TypeParam;
  const unsigned bits_max = os::sanitized ? 16 : 18;
  const size_t largest = (size_t{1} << bits_max) + 1;
  const Memory memory(Kind::anonymous, Array<T>::bytes_needed(largest));
  const Memory other(Kind::anonymous, Array<T>::bytes_needed(largest));
  ASSERT_NE(memory.begin(), nullptr);
  ASSERT_NE(other.begin(), nullptr);
  uint64_t seed = 1;
  for (const Pattern& pattern : all_patterns<T>()) {
    for (unsigned bits = 14; bits <= bits_max; ++bits, ++seed) {
      if (!tried()) continue;
      const size_t count = (size_t{1} << bits) + seed % 3 - 1;
      const Case c = {.options = {.threads = 1 + static_cast<unsigned>(mix64(seed) % 3),
                                  .descending = seed % 2 != 0,
                                  .stable = mix64(seed + 1) % 2 != 0},
                      .in_place = mix64(seed + 2) % 4 != 0,
                      .spot = static_cast<Spot>(mix64(seed + 3) % 3)};
      expect_sorts<T>(pattern, count, seed, c, memory, other);
      if (this->HasFatalFailure()) return;
    }
  }
}

template <class T>
class LargeSortProperties : public testing::Test {};
using LargeTypes = testing::Types<uint32_t, uint64_t, double, KeyValue32, KeyValue64, Key128>;
TYPED_TEST_SUITE(LargeSortProperties, LargeTypes);

// Arrays from 1 MiB to 64 MiB use chunks and threads.
TYPED_TEST(LargeSortProperties, SortsInChunksAndByThreads) {
  using T = TypeParam;
  const size_t once = os::sanitized ? (3u << 17) + 5 : (1u << 22) - 1;
  const Memory memory(Kind::anonymous, Array<T>::bytes_needed(once));
  const Memory other(Kind::anonymous, Array<T>::bytes_needed(once));
  ASSERT_NE(memory.begin(), nullptr);
  ASSERT_NE(other.begin(), nullptr);
  uint64_t seed = 1;
  auto run = [&](const Pattern& pattern, size_t count) {
    ++seed;
    if (!tried()) return;
    const Case c = {.options = {.threads = 1 + static_cast<unsigned>(seed % 3),
                                .descending = mix64(seed) % 2 != 0,
                                .stable = mix64(seed + 1) % 2 != 0},
                    .in_place = mix64(seed + 2) % 4 != 0,
                    .spot = static_cast<Spot>(mix64(seed + 3) % 3)};
    expect_sorts<T>(pattern, count, seed, c, memory, other);
  };
  const std::vector<Pattern> patterns = all_patterns<T>();
  for (size_t i = 0; i < patterns.size(); ++i) {
    run(patterns[i], (os::sanitized ? 1u << 18 : 1u << 20) + i % 3 - 1);
    if (this->HasFatalFailure()) return;
    if (!os::sanitized) run(patterns[i], (1u << 21) + 1 + i % 3);
    if (this->HasFatalFailure()) return;
    if (i % 6 == sizeof(T) % 6) run(patterns[i], once);
    if (this->HasFatalFailure()) return;
  }
}

// Stable sorts read in order, so that every chunk first finds its place taken: for this input
// chunks have to be moved, with every number of threads.
TYPED_TEST(LargeSortProperties, SortsWhatLiesInTheWrongPlace) {
  using T = TypeParam;
  const size_t count = os::sanitized ? (1u << 18) + 77 : (5u << 18) + 77;
  const Memory memory(Kind::anonymous, Array<T>::bytes_needed(count));
  ASSERT_NE(memory.begin(), nullptr);
  std::vector<Pattern> patterns;
  auto add = [&](std::string name, auto block_of) {
    patterns.push_back({.name = std::move(name),
                        .word = [block_of](Random& random, uint64_t i, uint64_t n, unsigned bits) {
                          const uint64_t block = block_of(i * 64 / n);
                          return block << (bits - 6) | from_top(random.next(), bits) >> 6;
                        }});
  };
  add("blocks backwards", [](uint64_t block) { return 63 - block; });
  add("blocks shuffled", [](uint64_t block) { return block * 37 % 64; });
  add("halves exchanged", [](uint64_t block) { return (block + 32) % 64; });
  add("turned by one", [](uint64_t block) { return (block + 1) % 64; });
  add("small keys first", [](uint64_t block) { return block < 32 ? block % 2 : block; });
  add("one key first", [](uint64_t block) { return block < 32 ? uint64_t{0} : block % 4; });
  uint64_t seed = 1;
  for (const Pattern& pattern : patterns) {
    for (bool stable : {false, true}) {
      for (unsigned threads : {1, 2, 3}) {
        ++seed;
        if (!tried()) continue;
        const Case c = {
            .options = {.threads = threads, .descending = seed % 2 != 0, .stable = stable}};
        expect_sorts<T>(pattern, count, seed, c, memory, memory);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

// Few distinct keys make buckets of one key that are too large for the cache.
TYPED_TEST(LargeSortProperties, SortsBucketsOfOneKey) {
  using T = TypeParam;
  const size_t count = (os::sanitized ? 1u << 20 : 3u << 20) + 1;
  const Memory memory(Kind::anonymous, Array<T>::bytes_needed(count));
  ASSERT_NE(memory.begin(), nullptr);
  uint64_t seed = 1;
  for (uint64_t distinct : {2, 3, 7, 40}) {
    const Pattern pattern = {.name = std::to_string(distinct) + " keys",
                             .word = [distinct](Random& random, uint64_t, uint64_t, unsigned) {
                               return mix64(random.below(distinct));
                             }};
    for (bool stable : {false, true}) {
      for (unsigned threads : {1, 3}) {
        ++seed;
        if (!tried()) continue;
        const Case c = {
            .options = {.threads = threads, .descending = seed % 2 != 0, .stable = stable}};
        expect_sorts<T>(pattern, count, seed, c, memory, memory);
        if (this->HasFatalFailure()) return;
      }
    }
  }
}

template <class T>
void expect_sorts_in(Kind kind) {
  const size_t large = (os::sanitized ? 1u << 18 : 1u << 20) + 11;
  const Memory memory(kind, Array<T>::bytes_needed(large));
  if (memory.begin() == nullptr) GTEST_SKIP() << "no memory of this kind: " << name_of(kind);
  const std::vector<Pattern> patterns = all_patterns<T>();
  uint64_t seed = 1;
  for (const char* name : {"uniform", "few distinct", "reversed blocks", "zipf"}) {
    const auto pattern =
        std::ranges::find_if(patterns, [&](const Pattern& p) { return p.name == name; });
    ASSERT_NE(pattern, patterns.end()) << name;
    for (size_t count : {size_t{300}, size_t{40000}, large}) {
      for (Spot spot : {Spot::start, Spot::middle, Spot::end}) {
        ++seed;
        if (!tried()) continue;
        const Case c = {
            .options = {.threads = 1 + static_cast<unsigned>(seed % 3), .stable = seed % 2 != 0},
            .spot = spot};
        expect_sorts<T>(*pattern, count, seed, c, memory, memory);
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

class SortMemory : public testing::TestWithParam<Kind> {};
TEST_P(SortMemory, SortsInMemoryOfAnyKind) {
  expect_sorts_in<uint32_t>(GetParam());
  if (IsSkipped()) return;
  expect_sorts_in<double>(GetParam());
  expect_sorts_in<KeyValue64>(GetParam());
}
INSTANTIATE_TEST_SUITE_P(Kinds, SortMemory, testing::ValuesIn(kinds),
                         [](const auto& test) { return std::string(name_of(test.param)); });

// ---- leftovers

TEST(SortResources, GivesBackMappingsAndMemory) {
  if (os::sanitized) GTEST_SKIP() << "a sanitizer keeps memory that was given back";
  const size_t count = (96 * MiB) / sizeof(KeyValue64);
  const Memory memory(Kind::anonymous, Array<KeyValue64>::bytes_needed(count));
  const Array<KeyValue64> array(memory, count, Spot::middle);
  const Pattern uniform = {
      .name = "uniform", .word = [](Random& r, uint64_t, uint64_t, unsigned) { return r.next(); }};
  // A first sort, so that the C library has its arenas and stacks for threads.
  fill<KeyValue64>(uniform, 1, array.items());
  ASSERT_TRUE(sort(array.items(), {.threads = 3}));
  const size_t mappings_before = os::mappings().used;
  const uint64_t resident_before = os::resident_memory().bytes;
  for (uint64_t round = 0; round < 3; ++round) {
    fill<KeyValue64>(uniform, round, array.items());
    ASSERT_TRUE(sort(array.items(), {.threads = 3, .stable = round == 1}));
  }
  EXPECT_LE(os::mappings().used, mappings_before + 4);
  EXPECT_LE(os::resident_memory().bytes, resident_before + 4 * MiB);
}

// The header promises at most as much additional memory as the items take, and below 1 GiB.
TEST(SortResources, TakesNoMoreMemoryThanPromised) {
  if (os::sanitized) GTEST_SKIP() << "a sanitizer's own memory counts, too";
  const Pattern uniform = {
      .name = "uniform", .word = [](Random& r, uint64_t, uint64_t, unsigned) { return r.next(); }};
  for (size_t bytes : {4 * MiB, 32 * MiB, 128 * MiB}) {
    const size_t count = bytes / sizeof(uint64_t);
    const Memory memory(Kind::anonymous, Array<uint64_t>::bytes_needed(count));
    const Array<uint64_t> array(memory, count, Spot::middle);
    for (unsigned threads : {1, 2}) {
      if (bytes < 16 * MiB && threads != 1) continue;  // each thread fills its own cache
      fill<uint64_t>(uniform, bytes + threads, array.items());
      if (!os::reset_peak_resident_memory()) GTEST_SKIP() << "the system does not reset the peak";
      const uint64_t before = os::resident_memory().bytes;
      ASSERT_TRUE(sort(array.items(), {.threads = threads}));
      const uint64_t peak = os::resident_memory().peak_bytes;
      EXPECT_LE(peak, before + bytes + MiB) << bytes << " bytes, threads " << threads;
      RecordProperty("extra_bytes_" + std::to_string(bytes) + "_" + std::to_string(threads),
                     std::to_string(peak - std::min(peak, before)));
    }
  }
}

// ---- the other calls

std::vector<size_t> sizes_of_other_calls() {
  if (os::sanitized) return {0, 1, 2, 257, 5000};
  return {0, 1, 2, 3, 255, 257, 1000, 5000, 70001, (1u << 18) + 5};
}

template <class T>
std::vector<Pattern> some_patterns() {
  std::vector<Pattern> some;
  for (Pattern& pattern : all_patterns<T>()) {
    for (const char* name : {"uniform", "few distinct", "sorted", "reverse", "every bit length",
                             "all equal but one", "nan-mix", "zipf"}) {
      if (pattern.name == name) some.push_back(std::move(pattern));
    }
  }
  return some;
}

template <class T>
std::vector<T> made(const Pattern& pattern, size_t count, uint64_t seed) {
  std::vector<T> items(count);
  fill<T>(pattern, seed, items);
  return items;
}

// Whether `first` has, in order, the ranks of the least items of all. The sum of hashes over the
// items less than its last proves that none is missing.
template <class T>
std::string fault_in_least(std::span<const T> first, std::span<const T> all, bool descending) {
  if (std::string fault = fault_in_order<T>(first, descending, false); !fault.empty()) return fault;
  if (first.empty()) return {};
  const Rank last = rank_of(first.back(), descending);
  auto sum_below = [&](std::span<const T> items) {
    uint64_t sum = 0;
    for (const T& item : items) {
      const Rank rank = rank_of(item, descending);
      if (rank < last) sum += mix64(mix64(rank.high) + rank.low);
    }
    return sum;
  };
  if (sum_below(first) != sum_below(all)) return "not the least items";
  const auto equal = [&](const T& item) { return rank_of(item, descending) == last; };
  return std::ranges::count_if(first, equal) <= std::ranges::count_if(all, equal)
             ? ""
             : "more of the last item than there are";
}

TYPED_TEST(SortProperties, PartialSortBringsTheLeastToTheFront) {
  using T = TypeParam;
  uint64_t seed = 1;
  for (const Pattern& pattern : some_patterns<T>()) {
    for (size_t count : sizes_of_other_calls()) {
      for (size_t first : {size_t{0}, size_t{1}, count / 100, count / 3, count, count + 5}) {
        const SortOptions options = {.threads = 1 + static_cast<unsigned>(seed % 2),
                                     .descending = seed % 3 == 0,
                                     .stable = seed % 5 == 0};
        SCOPED_TRACE(testing::Message()
                     << name_of_type<T>() << ", " << pattern.name << ", " << first << " of "
                     << count << ", seed " << seed << ", " << describe({.options = options}));
        std::vector<T> items = made<T>(pattern, count, seed++);
        const uint64_t hash = hash_sum<T>(items);
        ASSERT_TRUE(partial_sort(items, first, options));
        ASSERT_EQ(hash_sum<T>(items), hash);
        const std::span<const T> all = items;
        ASSERT_EQ(fault_in_least<T>(all.first(std::min(first, count)), all, options.descending),
                  "");
      }
    }
  }
}

TYPED_TEST(SortProperties, TopKFindsTheLeastAndLeavesTheInput) {
  using T = TypeParam;
  uint64_t seed = 1;
  for (const Pattern& pattern : some_patterns<T>()) {
    for (size_t count : sizes_of_other_calls()) {
      for (size_t wanted :
           {size_t{0}, std::min<size_t>(count, 10), count / 100, count / 3, count}) {
        const SortOptions options = {.threads = 1, .descending = seed % 2 == 0};
        SCOPED_TRACE(testing::Message()
                     << name_of_type<T>() << ", " << pattern.name << ", " << wanted << " of "
                     << count << ", seed " << seed << ", " << describe({.options = options}));
        const std::vector<T> items = made<T>(pattern, count, seed++);
        const std::vector<T> before = items;
        std::vector<T> out(wanted);
        ASSERT_TRUE(top_k<T>(items, out, options));
        ASSERT_TRUE(count == 0 || std::memcmp(items.data(), before.data(), count * sizeof(T)) == 0);
        ASSERT_EQ(fault_in_least<T>(out, items, options.descending), "");
        if constexpr (is_pair<T>) {
          // Each is an item of the input, used once.
          std::vector<bool> seen(count);
          for (const T& item : out) {
            ASSERT_LT(item.value, count);
            ASSERT_EQ(item.key, items[item.value].key);
            ASSERT_FALSE(seen[item.value]);
            seen[item.value] = true;
          }
        }
      }
    }
  }
}

TYPED_TEST(SortProperties, ArgsortIsTheStablePermutation) {
  using T = TypeParam;
  uint64_t seed = 1;
  for (const Pattern& pattern : some_patterns<T>()) {
    for (size_t count : sizes_of_other_calls()) {
      const SortOptions options = {.threads = 1 + static_cast<unsigned>(seed % 3),
                                   .descending = seed % 2 == 0};
      SCOPED_TRACE(testing::Message()
                   << name_of_type<T>() << ", " << pattern.name << ", " << count << " items, seed "
                   << seed << ", " << describe({.options = options}));
      const std::vector<T> keys = made<T>(pattern, count, seed++);
      std::vector<uint64_t> order(count, ~uint64_t{0});
      ASSERT_TRUE(argsort<T>(keys, order, options));
      std::vector<bool> seen(count);
      for (size_t i = 0; i < count; ++i) {
        ASSERT_LT(order[i], count);
        ASSERT_FALSE(seen[order[i]]) << "twice: " << order[i];
        seen[order[i]] = true;
        if (i == 0) continue;
        const Rank before = rank_of(keys[order[i - 1]], options.descending);
        const Rank here = rank_of(keys[order[i]], options.descending);
        ASSERT_TRUE(before < here || (before == here && order[i - 1] < order[i])) << "place " << i;
      }
    }
  }
}

// ---- more items than 32 bits count

template <class T>
void expect_sorts_over_2_31_items() {
  const uint64_t count = (uint64_t{1} << 31) + 7;
  const Memory memory(Kind::huge, Array<T>::bytes_needed(count));
  ASSERT_NE(memory.begin(), nullptr);
  const Array<T> array(memory, count, Spot::middle);
  const std::span<T> items = array.items();
  for (uint64_t i = 0; i < count; ++i) items[i] = static_cast<T>(mix64(i));
  const uint64_t hash = hash_sum<T>(items);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(sort(items, {.threads = 2}));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%s: %.1f s\n", name_of_type<T>().c_str(), seconds.count());
  EXPECT_EQ(hash_sum<T>(items), hash);
  EXPECT_EQ(fault_in_order<T>(items, false, false), "");
  EXPECT_TRUE(array.surroundings_are_intact());
}

TEST(HugeSort, SortsMoreThan2To31Items) {
  if (std::getenv("PENSTOCK_LARGE") == nullptr)
    GTEST_SKIP() << "takes 9 GiB of memory: asked for by PENSTOCK_LARGE=1";
  expect_sorts_over_2_31_items<uint8_t>();
  expect_sorts_over_2_31_items<uint32_t>();
}

template <class Float, class Bits>
void expect_order_of_files(items::Type type) {
  Random random(7);
  std::vector<Float> items;
  for (int i = 0; i < 5000; ++i) {
    // Every third key has the exponent of NaNs and infinities.
    auto bits = static_cast<Bits>(random.next());
    if (i % 3 == 0) bits |= std::bit_cast<Bits>(std::numeric_limits<Float>::infinity());
    items.push_back(std::bit_cast<Float>(bits));
  }
  auto key = [&](Float item) {
    return items::ItemOrder(*items::parse_format(items::name_of(type)))
        .prefix({reinterpret_cast<const char*>(&item), sizeof item});
  };
  for (const bool descending : {false, true}) {
    ASSERT_TRUE(penstock::sort(items, {.descending = descending}));
    for (size_t i = 1; i < items.size(); ++i) {
      const bool rises = key(items[i - 1]) <= key(items[i]);
      const bool falls = key(items[i - 1]) >= key(items[i]);
      ASSERT_TRUE(descending ? falls : rises) << i;
    }
  }
}

TEST(Sort, HasTheOrderOfFiles) {
  expect_order_of_files<float, uint32_t>(items::Type::f32);
  expect_order_of_files<double, uint64_t>(items::Type::f64);
}

}  // namespace
}  // namespace penstock
