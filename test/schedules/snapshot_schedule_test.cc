// Schedule tests of snapshots of tables that are being written: the table's own code, with faults raised by the system.
// Writers' stores go to real memory, without old values or races: only the order of stores counts.

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

#include "base/access.h"
#include "memory/rewire/table_core.h"
#include "penstock/rewire.h"
#include "schedules/expectations.h"

namespace penstock::schedules {
namespace {

constexpr size_t page_items = 512;
constexpr uint64_t pages = 3;

// A table of a few small pages, with one cell on each page.
struct Table {
  explicit Table(bool guarantee_copies = false)
      : pool(*PagePool::open(
            {.page_bytes = 4 * KiB, .bytes_max = pages * 4 * 4 * KiB, .kind = PageKind::small})),
        table(*RewiredTable::open(
            pool, {.bytes = pages * 4 * KiB, .guarantee_copies = guarantee_copies})),
        live(table.begin<uint64_t>()) {
    internal::Access::core(table)->slow_down_cuts(point);
  }
  [[gnu::no_sanitize_thread, gnu::noinline]] void store(uint64_t page, uint64_t value) {
    point();
    *const_cast<volatile uint64_t*>(live + page * page_items) = value;
  }
  [[gnu::no_sanitize_thread, gnu::noinline]] uint64_t load(uint64_t page) {
    point();
    return *const_cast<volatile uint64_t*>(live + page * page_items);
  }
  Snapshot take() {
    auto snapshot = table.snapshot();
    require(snapshot.has_value(), "a snapshot was refused");
    return std::move(*snapshot);
  }

  PagePool pool;
  RewiredTable table;
  uint64_t* const live;
};
[[gnu::no_sanitize_thread, gnu::noinline]] uint64_t in(const Snapshot& snapshot, uint64_t page) {
  return snapshot.begin<uint64_t>()[page * page_items];
}

// A store, its effect on another page by another thread, and the effect's effect: no snapshot shows an effect
// without its cause, an earlier snapshot shows none of them, and nothing is lost.
void cut(Run& run) {
  Table table;
  const Snapshot base = table.take();
  table.store(1, 0);  // page 1 is unshared again, the others are shared
  std::optional<Snapshot> first, second;
  run.thread([&] {
    table.store(2, 1);
    table.store(1, 1);
  });
  run.thread([&] {
    if (table.load(1) == 1) table.store(0, 1);
  });
  run.thread([&] {
    first = table.take();
    second = table.take();
  });
  run.go();
  for (const auto& snapshot : {&*first, &*second}) {
    require(in(*snapshot, 0) <= in(*snapshot, 1), "a snapshot shows an effect without its cause");
    require(in(*snapshot, 1) <= in(*snapshot, 2),
            "a snapshot shows a later store of a thread without an earlier one");
  }
  for (uint64_t page = 0; page < pages; ++page) {
    require(in(*first, page) <= in(*second, page), "an older snapshot shows more than a newer one");
    require(in(*second, page) <= table.load(page), "a store is lost");
  }
  require(table.load(2) == 1 && table.load(1) == 1, "a store is lost");
}

// Two writers of one page, and the end of the only snapshot.
void ending(Run& run) {
  Table table(true);
  std::optional<Snapshot> snapshot = table.take();
  for (uint64_t value : {1, 2})
    run.thread([&table, value] {
      table.store(0, value);
      table.store(value, value);
    });
  run.thread([&] {
    require(in(*snapshot, 0) == 0, "a snapshot has changed");
    point();
    require(in(*snapshot, 0) == 0 && in(*snapshot, 1) == 0, "a snapshot has changed");
    snapshot.reset();
  });
  run.go();
  require(table.load(0) != 0 && table.load(1) == 1 && table.load(2) == 2, "a store is lost");
  require(table.table.counts().snapshots == 0 && table.pool.pages_taken() == pages,
          "pages are left");
}

// Changes made on copies appear at once, and do not overwrite later stores.
void changing(Run& run) {
  Table table;
  const Snapshot base = table.take();
  bool is_applied = false;
  run.thread([&] { table.store(1, 1); });
  run.thread([&] {
    auto changes = table.table.changes(base);
    require(changes.has_value(), "changes were refused");
    const auto items = changes->page_of<uint64_t>(1);
    require(items.has_value(), "a page cannot be changed");
    (*items)[1] = 7;
    is_applied = changes->apply().has_value();
  });
  run.go();
  require(table.load(1) == 1 && in(base, 1) == 0, "a store is lost");
  require(table.table.begin<uint64_t>()[page_items + 1] == (is_applied ? 7u : 0u),
          "changes are not what apply() said");
}

const Case cuts{"snapshot.cut", cut, {.deviations = 1, .random = 1000, .in_processes = true}};
const Case ends{"snapshot.ending", ending, {.deviations = 1, .random = 500, .in_processes = true}};
const Case changed{
    "snapshot.changes", changing, {.deviations = 2, .random = 500, .in_processes = true}};

class SnapshotSchedules : public testing::TestWithParam<Case> {};
INSTANTIATE_TEST_SUITE_P(Orders, SnapshotSchedules, testing::Values(cuts, ends, changed),
                         name_of_case);
TEST_P(SnapshotSchedules, AreOfOneMoment) {
  expect_right(GetParam());
}

class SnapshotFaults : public testing::TestWithParam<Planted> {};
INSTANTIATE_TEST_SUITE_P(Planted, SnapshotFaults,
                         testing::Values(Planted{51, &cuts}, Planted{52, &cuts}, Planted{53, &ends},
                                         Planted{54, &ends}, Planted{55, &changed}),
                         name_of_planted);
TEST_P(SnapshotFaults, AreFound) {
  expect_found(GetParam().fault, *GetParam().found_by);
}

}  // namespace
}  // namespace penstock::schedules
