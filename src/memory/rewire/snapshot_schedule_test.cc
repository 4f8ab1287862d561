// Test labels: first

// Tables under random schedules: one thread against a copied model, and writers in several threads
// while others take snapshots.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "base/access.h"
#include "base/trials.h"
#include "memory/rewire/table_core.h"
#include "memory/rewire/table_fixture.h"
#include "os/sanitizer.h"
#include "penstock/stream.h"

namespace penstock::rewire {
namespace {

// ---- one thread, a model

struct Frozen {
  Snapshot snapshot;
  std::vector<uint64_t> model;
};

// Operations of a random schedule, and the plain copies that it is compared with.
class Schedule {
 public:
  Schedule(uint64_t seed, WriteDetection detection)
      : random_(seed), detection_(detection), pages_(1 + random_() % 24) {
    const uint64_t pool_pages =
        pages_ * (detection == WriteDetection::signal ? 1 : 2) + random_() % (pages_ * 6 + 1);
    pool_ = open_pool(pool_pages * 4 * KiB);
    guaranteed_ = random_() % 4 == 0;
    auto table = RewiredTable::open(*pool_, {.bytes = pages_ * 4 * KiB,
                                             .detection = detection,
                                             .policy = ErrorPolicy::recover,
                                             .guarantee_copies = guaranteed_});
    EXPECT_TRUE(table) << table.error().message();
    table_.emplace(std::move(*table));
    model_.assign(pages_ * page_items, 0);
  }

  void step() {
    switch (random_() % 16) {
      case 0:
      case 1:
        return freeze();
      case 2:
      case 3:
        return forget();
      case 4:
        return merge();
      case 5:
        return change();
      case 6:
        return check_one();
      case 7:
        return fill_page();
      default:
        return store();
    }
  }

  void end() {
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), live()));
    while (!frozen_.empty()) {
      check(frozen_.size() - 1);
      forget();
    }
    EXPECT_EQ(table_->counts().snapshots, 0u);
    for (uint64_t i = 0; i < 40; ++i) store();
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), live()));
    table_.reset();
    EXPECT_EQ(pool_->pages_taken(), 0u);
    EXPECT_EQ(pool_->mappings(), 0u);
  }

 private:
  static constexpr size_t page_items = 512;

  uint64_t* live() { return table_->begin<uint64_t>(); }

  void store() {
    const uint64_t at = random_() % model_.size(), value = random_();
    const auto outcome = RecoveryPoint::run([&] { write(live() + at, value); });
    if (outcome) {
      model_[at] = value;
    } else {
      EXPECT_EQ(outcome.error().code, ErrorCode::out_of_memory) << outcome.error().message();
      EXPECT_EQ(pool_->pages_free(), 0u);
      EXPECT_FALSE(guaranteed_);
    }
    EXPECT_EQ(read(live() + at), model_[at]);
  }

  // One of three contents, so that there is something to merge.
  void fill_page() {
    const uint64_t page = random_() % pages_, value = random_() % 3;
    if (!table_->prepare_write(live() + page * page_items, 4 * KiB)) return;
    for (uint64_t i = page * page_items; i < (page + 1) * page_items; ++i) {
      write(live() + i, value);
      model_[i] = value;
    }
  }

  void freeze() {
    auto snapshot = table_->snapshot();
    if (!snapshot) {
      EXPECT_EQ(snapshot.error().code, ErrorCode::out_of_memory) << snapshot.error().message();
      EXPECT_TRUE(guaranteed_ || detection_ == WriteDetection::asynchronous);
      return;
    }
    frozen_.push_back({std::move(*snapshot), model_});
  }

  void forget() {
    if (frozen_.empty()) return;
    std::swap(frozen_[random_() % frozen_.size()], frozen_.back());
    frozen_.pop_back();
  }

  void merge() {
    const uint64_t taken = pool_->pages_taken();
    const auto merged = table_->merge_equal_pages();
    if (detection_ == WriteDetection::asynchronous) {
      EXPECT_FALSE(merged);
    } else if (!merged) {
      EXPECT_TRUE(guaranteed_ && merged.error().code == ErrorCode::out_of_memory);
    } else if (!guaranteed_) {
      EXPECT_EQ(taken - pool_->pages_taken(), merged->pages_freed);
    }
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), live()));
  }

  void change() {
    const bool based = random_() % 2 == 0 && !frozen_.empty();
    const Frozen* const base = based ? &frozen_[random_() % frozen_.size()] : nullptr;
    auto changes = table_->changes(based ? base->snapshot : Snapshot());
    if (!changes) {
      EXPECT_EQ(detection_, WriteDetection::asynchronous);
      return;
    }
    std::vector<uint64_t> next = model_;
    bool moved_on = false;
    for (uint64_t left = random_() % 8; left > 0; --left) {
      const uint64_t page = random_() % pages_, at = random_() % page_items, value = random_();
      const bool is_new = changes->size() == 0 || changed_.count(page) == 0;
      const auto items = changes->page_of<uint64_t>(page);
      if (!items) break;
      if (is_new && based) {
        const auto begin = base->model.begin() + static_cast<ptrdiff_t>(page * page_items);
        std::copy_n(begin, page_items, next.begin() + static_cast<ptrdiff_t>(page * page_items));
        moved_on |= base->snapshot.page(page) != page_of_now(page);
      }
      changed_.insert(page);
      (*items)[at] = value;
      next[page * page_items + at] = value;
    }
    changed_.clear();
    if (random_() % 4 == 0) return;
    if (const Status status = changes->apply(); !status) {
      EXPECT_TRUE(moved_on);
      EXPECT_EQ(status.error().code, ErrorCode::cancelled);
      EXPECT_TRUE(std::equal(model_.begin(), model_.end(), live()));
      if (random_() % 2 == 0) return;
      EXPECT_TRUE(changes->apply_anyway());
    } else {
      EXPECT_FALSE(moved_on);
    }
    model_ = std::move(next);
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), live()));
  }

  PageId page_of_now(uint64_t page) { return internal::Access::core(*table_)->live().page(page); }

  void check_one() {
    if (!frozen_.empty()) check(random_() % frozen_.size());
  }
  void check(size_t index) {
    const Frozen& frozen = frozen_[index];
    EXPECT_TRUE(
        std::equal(frozen.model.begin(), frozen.model.end(), frozen.snapshot.begin<uint64_t>()));
  }

  std::mt19937_64 random_;
  const WriteDetection detection_;
  const uint64_t pages_;
  bool guaranteed_ = false;
  std::optional<PagePool> pool_;
  std::optional<RewiredTable> table_;
  std::vector<uint64_t> model_;
  std::vector<Frozen> frozen_;
  std::set<uint64_t> changed_;
};

class SnapshotSchedule : public testing::TestWithParam<WriteDetection> {
 protected:
  void SetUp() override {
    if (const auto why = missing(GetParam())) GTEST_SKIP() << *why;
  }
};

INSTANTIATE_TEST_SUITE_P(Detection, SnapshotSchedule,
                         testing::Values(WriteDetection::signal, WriteDetection::asynchronous),
                         [](const auto& test) {
                           return test.param == WriteDetection::signal ? "signal" : "asynchronous";
                         });

TEST_P(SnapshotSchedule, EqualsItsModel) {
  const uint64_t maps_before = mappings_of_files_in_memory();
  const uint64_t schedules = trials(os::shadowed ? 1000 : 3000);
  for (uint64_t i = 0; i < schedules && !HasFailure(); ++i) {
    const uint64_t seed = mix64(seed_of_run() + i);
    SCOPED_TRACE(seed);
    Schedule schedule(seed, GetParam());
    const uint64_t steps = 20 + seed % 100;
    for (uint64_t step = 0; step < steps && !HasFailure(); ++step) schedule.step();
    schedule.end();
  }
  EXPECT_EQ(mappings_of_files_in_memory(), maps_before);
}

// ---- several threads, a cut

// A history of stores: the k-th goes to cell cell_of(k), and stores k. A snapshot that is a cut
// contains exactly the results of the first m stores, for some m.
class History {
 public:
  History(uint64_t* live, uint64_t cells, uint64_t stride, uint64_t offset, uint64_t seed)
      : live_(live), cells_(cells), stride_(stride), offset_(offset), seed_(seed) {}

  // REQUIRES: the calls for k = 1, 2, ... happen one after the other.
  void store(uint64_t k) { write(cell(cell_of(k)), k); }
  bool is_stored(uint64_t k) const { return read(cell(cell_of(k))) >= k; }

  // Returns how many stores a snapshot shows; a failure if they are no prefix of the history.
  uint64_t cut(const uint64_t* frozen) const {
    std::vector<uint64_t> seen(cells_);
    for (uint64_t i = 0; i < cells_; ++i) seen[i] = read(frozen + i * stride_ + offset_);
    const uint64_t stores = *std::max_element(seen.begin(), seen.end());
    // Search the last store of each cell from the end; most are found soon.
    std::vector<bool> settled(cells_, false);
    uint64_t left = cells_;
    for (uint64_t k = stores; k > 0 && left > 0; --k) {
      const uint64_t cell = cell_of(k);
      if (settled[cell]) continue;
      settled[cell] = true;
      --left;
      EXPECT_EQ(seen[cell], k) << "cell " << cell << " of a cut behind store " << stores;
    }
    for (uint64_t cell = 0; cell < cells_; ++cell) EXPECT_TRUE(settled[cell] || seen[cell] == 0);
    return stores;
  }

 private:
  uint64_t cell_of(uint64_t k) const { return mix64(seed_ ^ k) % cells_; }
  uint64_t* cell(uint64_t index) const { return live_ + index * stride_ + offset_; }

  uint64_t* const live_;
  const uint64_t cells_, stride_, offset_, seed_;
};

struct Shape {
  WriteDetection detection;
  size_t page_bytes;
  uint64_t pages;
  int snapshots;
  bool slow = false;  // the moment of the cut is made as long as possible
};

class ConcurrentSnapshots : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    if (const auto why = missing(GetParam().detection)) GTEST_SKIP() << *why;
    const Shape& shape = GetParam();
    std::tie(seed_, stride_) = std::pair(mix64(seed_of_run()), shape.page_bytes / sizeof(uint64_t));
    pool_ = open_pool(shape.pages * shape.page_bytes * 12, shape.page_bytes);
    table_.emplace(open_table(
        *pool_, {.bytes = shape.pages * shape.page_bytes, .detection = shape.detection}));
    if (shape.slow)
      internal::Access::core(*table_)->slow_down_cuts([] { std::this_thread::yield(); });
  }
  // After the end of all snapshots.
  void TearDown() override {
    if (!table_) return;
    EXPECT_EQ(table_->counts().snapshots, 0u);
    table_.reset();
    EXPECT_EQ(pool_->pages_taken(), 0u);
    EXPECT_EQ(pool_->mappings(), 0u);
  }

  int snapshots() const { return os::shadowed ? GetParam().snapshots / 4 : GetParam().snapshots; }
  History history(uint64_t number) {
    return {table_->begin<uint64_t>(), GetParam().pages, stride_, 8 * number,
            mix64(seed_ + number)};
  }
  // Snapshots alive at once, at most as many as have memory for their copies.
  static constexpr size_t alive_max = 5;

  uint64_t seed_ = 0, stride_ = 0;
  std::optional<PagePool> pool_;
  std::optional<RewiredTable> table_;
};

INSTANTIATE_TEST_SUITE_P(
    Shapes, ConcurrentSnapshots,
    testing::Values(Shape{WriteDetection::signal, 4 * KiB, 6, 3000},
                    Shape{WriteDetection::signal, 4 * KiB, 48, 2000},
                    Shape{WriteDetection::signal, 4 * KiB, 12, 1000, true},
                    Shape{WriteDetection::signal, 64 * KiB, 16, 1500},
                    Shape{WriteDetection::signal, 2 * MiB, 6, 300},
                    Shape{WriteDetection::asynchronous, 4 * KiB, 48, 1000},
                    Shape{WriteDetection::asynchronous, 4 * KiB, 12, 500, true},
                    Shape{WriteDetection::asynchronous, 2 * MiB, 6, 200}),
    [](const auto& test) {
      return std::to_string(test.param.page_bytes / KiB) + "KiBx" +
             std::to_string(test.param.pages) +
             (test.param.detection == WriteDetection::signal ? "Signal" : "Asynchronous") +
             (test.param.slow ? "Slow" : "");
    });

// Each writer has its own history; all share all pages.
TEST_P(ConcurrentSnapshots, CutEachWriterAtOnePlace) {
  constexpr uint64_t writers = 3;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> stored[writers] = {};
  std::vector<History> histories;
  for (uint64_t w = 0; w < writers; ++w) histories.push_back(history(w));
  std::vector<std::jthread> threads;
  for (uint64_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t k = 1; !stop.load(std::memory_order_relaxed); ++k) {
        histories[w].store(k);
        stored[w].store(k, std::memory_order_release);
        if (k % 64 == 0) std::this_thread::yield();
      }
    });
  }
  std::mt19937_64 random(seed_);
  struct Taken {
    Snapshot snapshot;
    uint64_t before[writers], after[writers], cuts[writers];
  };
  std::vector<Taken> alive;
  for (int i = 0; i < snapshots() && !HasFailure(); ++i) {
    Taken taken{};
    for (uint64_t w = 0; w < writers; ++w) taken.before[w] = stored[w].load();
    taken.snapshot = take(*table_);
    for (uint64_t w = 0; w < writers; ++w) taken.after[w] = stored[w].load();
    const auto* const frozen = taken.snapshot.begin<uint64_t>();
    for (uint64_t w = 0; w < writers; ++w) {
      taken.cuts[w] = histories[w].cut(frozen);
      EXPECT_GE(taken.cuts[w], taken.before[w]);
      EXPECT_LE(taken.cuts[w], taken.after[w] + 1);
    }
    alive.push_back(std::move(taken));
    if (alive.size() == alive_max || random() % 3 == 0) {
      std::swap(alive[random() % alive.size()], alive.back());
      // It has not changed.
      for (uint64_t w = 0; w < writers; ++w)
        EXPECT_EQ(histories[w].cut(alive.back().snapshot.begin<uint64_t>()), alive.back().cuts[w]);
      alive.pop_back();
    }
  }
  stop = true;
  threads.clear();
  // No store is lost.
  for (uint64_t w = 0; w < writers; ++w)
    EXPECT_EQ(histories[w].cut(table_->begin<uint64_t>()), stored[w].load());
}

// One history, whose stores several threads make in turn: each stores when it has seen the store
// before, which is on another page. No snapshot shows a store without the one that caused it.
TEST_P(ConcurrentSnapshots, NeverShowAnEffectWithoutItsCause) {
  constexpr uint64_t writers = 2;
  std::atomic<bool> stop = false;
  History history_of_all = history(0);
  std::vector<std::jthread> threads;
  for (uint64_t w = 0; w < writers; ++w) {
    threads.emplace_back([&, w] {
      for (uint64_t k = 1 + w;; k += writers) {
        while (k > 1 && !history_of_all.is_stored(k - 1)) {
          if (stop.load(std::memory_order_relaxed)) return;
          std::this_thread::yield();
        }
        if (stop.load(std::memory_order_relaxed)) return;
        history_of_all.store(k);
      }
    });
  }
  uint64_t last = 0, moved = 0;
  Snapshot previous;
  // Until enough snapshots caught the writers at work.
  for (int i = 0; (i < snapshots() || moved < 20) && !HasFailure(); ++i) {
    const Snapshot snapshot = take(*table_);
    const uint64_t cut = history_of_all.cut(snapshot.begin<uint64_t>());
    EXPECT_GE(cut, last);
    moved += cut > last;
    last = cut;
    if (i % 3 == 0) previous = snapshot;
  }
  stop = true;
  threads.clear();
}

// Snapshots from several threads at once, merges and changes between them, and readers.
TEST_P(ConcurrentSnapshots, StandUpToEverythingAtOnce) {
  const bool merges = GetParam().detection == WriteDetection::signal;
  std::atomic<bool> stop = false;
  std::atomic<uint64_t> stored = 0;
  History written = history(1);
  std::vector<std::jthread> threads;
  threads.emplace_back([&] {
    for (uint64_t k = 1; !stop.load(std::memory_order_relaxed); ++k) {
      written.store(k);
      stored.store(k, std::memory_order_release);
      if (k % 64 == 0) std::this_thread::yield();
    }
  });
  if (merges) {
    threads.emplace_back([&] {
      while (!stop.load(std::memory_order_relaxed)) {
        EXPECT_TRUE(table_->merge_equal_pages());
        std::this_thread::sleep_for(std::chrono::microseconds(200));
      }
    });
  }
  std::vector<std::jthread> takers;
  for (int t = 0; t < 2; ++t) {
    takers.emplace_back([&] {
      uint64_t last = 0;
      Snapshot kept;
      for (int i = 0; i < snapshots() / 4 && !HasFailure(); ++i) {
        const uint64_t before = stored.load(std::memory_order_acquire);
        Snapshot snapshot = take(*table_);
        const uint64_t cut = written.cut(snapshot.begin<uint64_t>());
        EXPECT_GE(cut, before);
        EXPECT_GE(cut, last);
        last = cut;
        if (i % 2 == 0) kept = std::move(snapshot);
        if (const Snapshot latest = table_->latest()) {
          EXPECT_GE(written.cut(latest.begin<uint64_t>()), before);
        }
      }
    });
  }
  takers.clear();
  stop = true;
  threads.clear();
  EXPECT_EQ(written.cut(table_->begin<uint64_t>()), stored.load());
}

}  // namespace
}  // namespace penstock::rewire
