#include "sorting/sort/in_place/chunk_space.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "base/random.h"

namespace penstock::sorting {
namespace {

using List = ChunkSpace::List;

constexpr size_t chunk_bytes = 256;
constexpr size_t chunk_words = chunk_bytes / sizeof(uint64_t);

// A space on its own array.
struct Fixture {
  Fixture(uint32_t chunks, uint32_t spare_chunks, bool array_is_input,
          size_t bytes_of_chunk = chunk_bytes)
      : words(size_t{chunks} * bytes_of_chunk / sizeof(uint64_t)) {
    auto opened = ChunkSpace::open({.array = reinterpret_cast<std::byte*>(words.data()),
                                    .array_bytes = words.size() * sizeof(uint64_t),
                                    .chunk_bytes = bytes_of_chunk,
                                    .spare_chunks = spare_chunks,
                                    .array_is_input = array_is_input});
    EXPECT_TRUE(opened) << opened.error().message();
    space = std::move(*opened);
  }

  // Address of one of the array's chunks.
  uint64_t* chunk_of_array(uint32_t chunk) { return words.data() + chunk * chunk_words; }

  std::vector<uint64_t> words;
  std::unique_ptr<ChunkSpace> space;
};

void write_chunk(std::byte* chunk, uint64_t mark) {
  for (size_t i = 0; i < chunk_words; ++i) {
    const uint64_t word = mix64(mark * chunk_words + i);
    std::memcpy(chunk + i * sizeof(word), &word, sizeof(word));
  }
}

bool holds(const std::byte* chunk, uint64_t mark) {
  for (size_t i = 0; i < chunk_words; ++i) {
    uint64_t word;
    std::memcpy(&word, chunk + i * sizeof(word), sizeof(word));
    if (word != mix64(mark * chunk_words + i)) return false;
  }
  return true;
}

TEST(ChunkSpace, TakesFreeChunksOfTheListsOwnRegionFirst) {
  Fixture fixture(64, 8, false);
  const uint64_t shares[] = {1, 2, 1};
  fixture.space->divide(shares, 0);
  List list = {.chunks = {}, .region = 1};
  for (int i = 0; i < 32; ++i) fixture.space->append(list);
  std::set<uint32_t> chunks(list.chunks.begin(), list.chunks.end());
  EXPECT_EQ(chunks.size(), 32u);
  EXPECT_EQ(*chunks.begin(), 16u);
  EXPECT_EQ(*chunks.rbegin(), 47u);
  for (int i = 0; i < 40; ++i) fixture.space->append(list);  // all that are left: every other chunk
  chunks = {list.chunks.begin(), list.chunks.end()};
  EXPECT_EQ(chunks.size(), 72u);
}

TEST(ChunkSpace, TakesSpareChunksNextAndThenTheNearestRegion) {
  Fixture fixture(400, 2, true);
  const std::vector<uint64_t> shares(200, 1);  // two chunks each, but for the first two
  fixture.space->divide(shares, 4);
  ChunkSpace::Share share = fixture.space->share(1);
  auto region = [](uint32_t number) { return 4 + 2 * number; };  // first chunk of the region
  for (const uint32_t number : {3u, 70u, 99u, 130u, 197u}) share.release_input(region(number));
  share.release_input(1);  // in front of all regions
  List list = {.chunks = {}, .region = 99};
  for (int i = 0; i < 8; ++i) share.append(list);
  const std::vector<uint32_t> expected = {region(99),  400,        401,       region(130),
                                          region(197), region(70), region(3), 1};
  EXPECT_TRUE(std::ranges::equal(list.chunks, expected));
}

TEST(ChunkSpaceDeathTest, StopsWhereNoChunkIsFree) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fixture fixture(4, 1, false);
  List list;
  for (int i = 0; i < 5; ++i) fixture.space->append(list);
  EXPECT_DEATH(fixture.space->append(list), "no free chunk");
}

// All rounds, one behind the other.
std::vector<uint32_t> in_rounds(const ChunkSpace& space, uint32_t rounds) {
  std::vector<uint32_t> order, round_chunks;
  for (uint32_t round = 0; round < rounds; ++round) {
    space.list_round(round, rounds, round_chunks);
    order.insert(order.end(), round_chunks.begin(), round_chunks.end());
  }
  return order;
}

TEST(ChunkSpace, RoundsVisitEachChunkOnceAndAllRegionsAtOnePace) {
  Fixture fixture(1000, 8, true);
  const uint64_t shares[] = {10, 0, 50, 1, 39};
  fixture.space->divide(shares, 7);
  for (const uint32_t rounds : {1u, 7u, 100u, 3000u, fixture.space->rounds(3)}) {
    const std::vector<uint32_t> order = in_rounds(*fixture.space, rounds);
    std::vector<uint32_t> sorted = order;
    std::ranges::sort(sorted);
    ASSERT_EQ(sorted.size(), 1000u);
    for (uint32_t i = 0; i < 1000; ++i) ASSERT_EQ(sorted[i], i);
    if (rounds < 100) continue;
    // Half of the first half of the order lies in the first region: chunks 7 to 106.
    const auto in_first = std::count_if(order.begin(), order.begin() + 500,
                                        [](uint32_t chunk) { return chunk >= 7 && chunk < 107; });
    EXPECT_NEAR(static_cast<double>(in_first), 50, 10) << rounds << " rounds";
  }
}

TEST(ChunkSpace, ClearMovesChunksAndFreesTheirPlacesPermanently) {
  Fixture fixture(8, 8, false);
  List list;
  for (uint64_t i = 0; i < 8; ++i) write_chunk(fixture.space->append(list), i);
  auto* array = reinterpret_cast<std::byte*>(fixture.words.data());
  // From the middle of chunk 1 to the middle of chunk 3: three chunks.
  fixture.space->clear(array + chunk_bytes + 8, array + 3 * chunk_bytes + 8);
  EXPECT_EQ(fixture.space->chunks_moved(), 3u);
  std::memset(array + chunk_bytes, 0xee, 3 * chunk_bytes);
  for (uint64_t i = 0; i < 8; ++i) EXPECT_TRUE(holds(fixture.space->begin_reading(list, i), i));
  List* const lists[] = {&list};
  fixture.space->release(lists);
  List next;
  for (int i = 0; i < 13; ++i) fixture.space->append(next);
  for (uint32_t chunk : next.chunks) EXPECT_TRUE(chunk < 1 || chunk > 3) << chunk;
}

TEST(ChunkSpace, ClearWaitsForReaders) {
  Fixture fixture(4, 4, false);
  List list;
  for (uint64_t i = 0; i < 4; ++i) write_chunk(fixture.space->append(list), i);
  auto* array = reinterpret_cast<std::byte*>(fixture.words.data());
  const std::byte* read = fixture.space->begin_reading(list, 2);
  std::atomic<bool> cleared = false;
  std::thread other([&] {
    fixture.space->clear(array, array + 4 * chunk_bytes);
    cleared = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(cleared);
  EXPECT_TRUE(holds(read, 2));
  fixture.space->release(list, 2);
  other.join();
  EXPECT_EQ(fixture.space->chunks_moved(), 3u);
}

// One thread moves all chunks, and the other waits for that: large ones, so that it comes in time.
TEST(ChunkSpace, TwoThreadsClearTheSameChunks) {
  constexpr uint32_t chunks = 16;  // the most moved at once
  for (int round = 0; round < 50; ++round) {
    Fixture fixture(chunks, chunks, false, 64 * KiB);
    List list;
    for (uint32_t i = 0; i < chunks; ++i) write_chunk(fixture.space->append(list), i);
    const auto* array = reinterpret_cast<const std::byte*>(fixture.words.data());
    std::atomic<int> ready = 0;
    const auto clear = [&] {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      fixture.space->clear(array, array + size_t{chunks} * 64 * KiB);
    };
    std::thread other(clear);
    clear();
    other.join();
    EXPECT_EQ(fixture.space->chunks_moved(), chunks);
    for (uint64_t i = 0; i < chunks; ++i)
      EXPECT_TRUE(holds(fixture.space->begin_reading(list, i), i));
  }
}

TEST(ChunkSpace, ChunksThatStayAreNotMovedBeforeTheirEndOfReading) {
  Fixture fixture(2, 4, false);
  List list;
  std::byte* first = fixture.space->append(list, true);
  auto* array = reinterpret_cast<std::byte*>(fixture.words.data());
  std::atomic<bool> cleared = false;
  std::thread other([&] {
    fixture.space->clear(array, array + 2 * chunk_bytes);
    cleared = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(cleared);
  write_chunk(first, 5);
  List* const lists[] = {&list};
  fixture.space->end_reading(lists);
  other.join();
  std::memset(array, 0xee, 2 * chunk_bytes);
  EXPECT_GE(fixture.space->chunks_moved(), 1u);
  EXPECT_TRUE(holds(fixture.space->begin_reading(list, 0), 5));
}

// Random operations against a model: a list is the marks of its chunks, in order. Chunks that may
// be taken are counted beforehand, as in a sort.
class Actor {
 public:
  Actor(Fixture& fixture, std::atomic<int64_t>& free, uint32_t clear_from, uint32_t clear_to,
        uint64_t seed)
      : fixture_(fixture),
        free_(free),
        random_(seed),
        clear_next_(clear_from),
        clear_to_(clear_to),
        lists_(6),
        marks_(lists_.size()),
        mark_(seed << 32) {
    for (List& list : lists_) list.region = static_cast<uint32_t>(random_.below(3));
  }

  void act() {
    const size_t l = random_.below(lists_.size());
    List& list = lists_[l];
    List* const one[] = {&list};
    std::vector<uint64_t>& marks = marks_[l];
    ChunkSpace& space = *fixture_.space;
    switch (random_.below(8)) {
      case 0:
      case 1:
      case 2:  // append; if others may clear, a chunk stays until it is written
        if (!take(1)) break;
        write_chunk(space.append(list, true), mark_);
        space.end_reading(one);
        marks.push_back(mark_++);
        break;
      case 3: {  // read one, and keep it
        if (marks.empty()) break;
        const size_t i = random_.below(marks.size());
        ASSERT_TRUE(holds(space.begin_reading(list, i), marks[i]));
        space.end_reading(one);
        break;
      }
      case 4: {  // read all, release all
        space.begin_reading(one);
        for (size_t i = 0; i < marks.size(); ++i)
          ASSERT_TRUE(holds(space.address(list.chunks[i]), marks[i]));
        space.release(one);
        free_ += static_cast<int64_t>(marks.size());
        marks.clear();
        break;
      }
      case 5: {  // release one by one
        for (size_t i = 0; i < marks.size(); ++i) {
          ASSERT_TRUE(holds(space.begin_reading(list, i), marks[i]));
          space.release(list, i);
          ++free_;
        }
        list.chunks.clear();
        marks.clear();
        break;
      }
      case 6: {  // output
        const auto chunks = static_cast<uint32_t>(random_.below(4) + 1);
        if (random_.below(4) != 0 || clear_next_ + chunks > clear_to_ || !take(chunks)) break;
        auto* from = reinterpret_cast<std::byte*>(fixture_.chunk_of_array(clear_next_));
        space.clear(from, from + chunks * chunk_bytes);
        std::memset(from, 0xee, chunks * chunk_bytes);
        clear_next_ += chunks;
        break;
      }
      case 7:
        break;
    }
  }

  void check_all() {
    for (size_t l = 0; l < lists_.size(); ++l) {
      ASSERT_EQ(lists_[l].chunks.size(), marks_[l].size());
      for (size_t i = 0; i < marks_[l].size(); ++i)
        ASSERT_TRUE(holds(fixture_.space->begin_reading(lists_[l], i), marks_[l][i]));
    }
  }
  bool has_cleared() const { return clear_next_ == clear_to_; }

 private:
  bool take(uint32_t chunks) {
    if (free_.fetch_sub(chunks) >= chunks) return true;
    free_ += chunks;
    return false;
  }

  Fixture& fixture_;
  std::atomic<int64_t>& free_;
  Random random_;
  uint32_t clear_next_;
  uint32_t clear_to_;
  std::vector<List> lists_;
  std::vector<std::vector<uint64_t>> marks_;
  uint64_t mark_;
};

void act_by_threads(unsigned threads, uint64_t seed) {
  SCOPED_TRACE(testing::Message() << threads << " threads, seed " << seed);
  constexpr uint32_t array_chunks = 240;
  constexpr uint32_t spare_chunks = 40;
  Fixture fixture(array_chunks, spare_chunks, true);
  const uint64_t shares[] = {2, 5, 3};
  fixture.space->divide(shares, 5);
  ChunkSpace::Share share = fixture.space->share(1);
  for (uint32_t chunk = 0; chunk < array_chunks; ++chunk) share.release_input(chunk);
  fixture.space->join(share, {});
  std::atomic<int64_t> free = array_chunks + spare_chunks;
  std::vector<std::unique_ptr<Actor>> actors;
  for (unsigned t = 0; t < threads; ++t) {
    actors.push_back(std::make_unique<Actor>(fixture, free, array_chunks * t / threads,
                                             array_chunks * (t + 1) / threads, seed + t));
  }
  {
    std::vector<std::jthread> running;
    for (auto& actor : actors) {
      running.emplace_back([&actor] {
        for (int i = 0; i < 4000; ++i) actor->act();
      });
    }
  }
  for (auto& actor : actors) {
    actor->check_all();
    EXPECT_TRUE(actor->has_cleared());
  }
  EXPECT_GT(fixture.space->chunks_moved(), 0u);
}

TEST(ChunkSpace, AgreesWithAModelUnderRandomOperations) {
  for (uint64_t seed = 1; seed <= 20; ++seed) act_by_threads(1, seed);
}
TEST(ChunkSpace, AgreesWithAModelByTwoThreads) {
  for (uint64_t seed = 101; seed <= 120; ++seed) act_by_threads(2, seed);
}

// A distribution as in the sort, of chunks that belong to one bucket each: input chunk i belongs to
// bucket_of(i), and the array must contain the buckets in order afterwards.
uint64_t moved_by_distribution(uint32_t buckets, auto bucket_of, bool in_order) {
  constexpr uint32_t array_chunks = 1024;
  const uint32_t shift = in_order ? 0 : 8;
  Fixture fixture(array_chunks, buckets + shift + 4, true);
  ChunkSpace& space = *fixture.space;
  std::vector<uint64_t> shares(buckets, 0);
  std::vector<std::vector<uint64_t>> expected(buckets);
  for (uint32_t i = 0; i < array_chunks; ++i) {
    write_chunk(reinterpret_cast<std::byte*>(fixture.chunk_of_array(i)), i);
    ++shares[bucket_of(i)];
  }
  space.divide(shares, shift);
  std::vector<uint32_t> order(array_chunks);
  std::iota(order.begin(), order.end(), 0u);
  if (!in_order) order = in_rounds(space, space.rounds(1));
  std::vector<List> lists(buckets);
  for (uint32_t j = 0; j < buckets; ++j) lists[j].region = j;
  ChunkSpace::Share share = space.share(1);
  for (uint32_t i : order) {
    const uint32_t bucket = bucket_of(i);
    std::byte* to = share.append(lists[bucket]);
    std::memcpy(to, space.address(i), chunk_bytes);
    expected[bucket].push_back(i);
    share.release_input(i);
  }
  space.join(share, lists);
  auto* out = reinterpret_cast<std::byte*>(fixture.words.data());
  for (uint32_t j = 0; j < buckets; ++j) {
    std::vector<std::byte> items;
    List* const one[] = {&lists[j]};
    space.begin_reading(one);
    for (uint32_t chunk : lists[j].chunks)
      items.insert(items.end(), space.address(chunk), space.address(chunk) + chunk_bytes);
    space.release(one);
    space.clear(out, out + items.size());
    out = std::copy(items.begin(), items.end(), out);
  }
  const std::byte* at = reinterpret_cast<std::byte*>(fixture.words.data());
  for (uint32_t j = 0; j < buckets; ++j) {
    for (uint64_t mark : expected[j]) {
      EXPECT_TRUE(holds(at, mark)) << "bucket " << j;
      at += chunk_bytes;
    }
  }
  return space.chunks_moved();
}

// Threads distribute random words, each with a share; then they finish buckets, as they come, and
// clear the chunks in their way.
class Distribution {
 public:
  Distribution(unsigned threads, bool in_order, uint64_t seed)
      : threads_(threads),
        buckets_(static_cast<uint32_t>(2 + Random(seed).below(40))),
        array_chunks_(static_cast<uint32_t>(threads * 60 + Random(seed + 1).below(500))),
        in_order_(in_order),
        shift_(in_order ? 0 : 4),
        fixture_(array_chunks_, threads * (buckets_ + 2) + shift_, true),
        random_(seed + 2) {
    std::vector<uint64_t> shares(buckets_, 1);
    for (uint64_t& word : fixture_.words) {
      word = random_.next();
      ++shares[bucket_of(word)];
    }
    expected_ = fixture_.words;
    std::ranges::sort(expected_);
    space().divide(shares, shift_);
    for (unsigned t = 0; t < threads; ++t) {
      workers_.push_back({space().share(threads), std::vector<List>(buckets_), {}});
      for (uint32_t j = 0; j < buckets_; ++j) workers_[t].lists[j].region = j;
      workers_[t].counts.resize(buckets_);
    }
  }

  void run() {
    in_threads([this](unsigned t) { distribute(workers_[t], t); });
    uint64_t start = 0;
    for (uint32_t j = 0; j < buckets_; ++j) {
      starts_.push_back(start);
      for (const Worker& worker : workers_) start += worker.counts[j];
    }
    ASSERT_EQ(start, expected_.size());
    in_threads([this](unsigned) { finish(); });
    EXPECT_EQ(fixture_.words, expected_);
  }

 private:
  struct Worker {
    ChunkSpace::Share share;
    std::vector<List> lists;
    std::vector<uint64_t> counts;
  };

  ChunkSpace& space() { return *fixture_.space; }
  uint32_t bucket_of(uint64_t word) const {
    return static_cast<uint32_t>((word >> 32) * buckets_ >> 32);
  }
  template <class Work>
  void in_threads(Work work) {
    std::vector<std::jthread> threads;
    for (unsigned t = 0; t < threads_; ++t) threads.emplace_back([&work, t] { work(t); });
  }

  // Claims the next round at its turn, however few rounds the others get.
  void distribute(Worker& worker, unsigned index) {
    std::vector<uint64_t*> rooms(buckets_, nullptr);
    space().read_array(
        {index, threads_, in_order_, next_}, worker.share, [&](uint32_t chunk, uint32_t) {
          uint64_t words[chunk_words];
          std::memcpy(words, space().address(chunk), chunk_bytes);
          for (uint64_t word : words) {
            const uint32_t bucket = bucket_of(word);
            if (worker.counts[bucket]++ % chunk_words == 0) {
              rooms[bucket] =
                  reinterpret_cast<uint64_t*>(worker.share.append(worker.lists[bucket]));
              std::memset(rooms[bucket], 0xee, chunk_bytes);
            }
            *rooms[bucket]++ = word;
          }
        });
    space().join(worker.share, worker.lists);
  }

  void finish() {
    for (uint32_t j = next_bucket_++; j < buckets_; j = next_bucket_++) {
      std::vector<List*> lists;
      std::vector<uint64_t> words;
      for (Worker& worker : workers_) lists.push_back(&worker.lists[j]);
      space().begin_reading(lists);
      for (Worker& worker : workers_) {
        uint64_t left = worker.counts[j];
        for (uint32_t chunk : worker.lists[j].chunks) {
          const auto* from = reinterpret_cast<const uint64_t*>(space().address(chunk));
          const uint64_t here = std::min<uint64_t>(left, chunk_words);
          words.insert(words.end(), from, from + here);
          left -= here;
        }
      }
      space().release(lists);
      std::ranges::sort(words);
      uint64_t* const to = fixture_.words.data() + starts_[j];
      space().clear(reinterpret_cast<std::byte*>(to),
                    reinterpret_cast<std::byte*>(to + words.size()));
      std::ranges::copy(words, to);
    }
  }

  unsigned threads_;
  uint32_t buckets_;
  uint32_t array_chunks_;
  bool in_order_;
  uint32_t shift_;
  Fixture fixture_;
  Random random_;
  std::vector<uint64_t> expected_;
  std::vector<Worker> workers_;
  std::vector<uint64_t> starts_;
  std::atomic<uint32_t> next_ = 0;
  std::atomic<uint32_t> next_bucket_ = 0;
};

TEST(ChunkSpace, ThreadsWithSharesSortAsOneWould) {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    for (const unsigned threads : {1u, 2u, 5u}) {
      SCOPED_TRACE(testing::Message() << threads << " threads, seed " << seed);
      Distribution(threads, seed % 2 == 0, seed).run();
    }
  }
}

TEST(ChunkSpaceDeathTest, AShareHasOnlyItsPartAndTheChunksItHasRead) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Fixture fixture(8, 4, true);
  ChunkSpace::Share share = fixture.space->share(2);
  List list;
  for (int i = 0; i < 2; ++i) share.append(list);
  share.release_input(3);
  share.append(list);
  EXPECT_EQ(list.chunks[2], 3u);
  EXPECT_DEATH(share.append(list), "no free chunk");
}

TEST(ChunkSpace, MovesFewChunksOfRandomInput) {
  const auto random = [](uint32_t i) { return static_cast<uint32_t>(mix64(i) % 32); };
  EXPECT_LT(moved_by_distribution(32, random, false), 1024u / 4);
}

TEST(ChunkSpace, MovesChunksThatLieInTheWrongPlace) {
  const auto backwards = [](uint32_t i) { return 31 - i / 32; };
  const auto shuffled = [](uint32_t i) { return i / 32 * 37 % 32; };
  const auto small_first = [](uint32_t i) { return i < 512 ? i % 2 : i / 32; };
  EXPECT_GT(moved_by_distribution(32, backwards, true), 0u);
  EXPECT_GT(moved_by_distribution(32, shuffled, true), 0u);
  EXPECT_GT(moved_by_distribution(32, small_first, true), 0u);
  moved_by_distribution(32, small_first, false);
  moved_by_distribution(32, backwards, false);
  moved_by_distribution(32, shuffled, false);
}

}  // namespace
}  // namespace penstock::sorting
