// The cost of updating a table with a snapshot.
//
// A table of 1 GiB of 64-bit numbers is updated, in order or at random, and after a number of
// updates a snapshot is taken, when the one before has ended. The rival is fork(): a child that
// waits, and the kernel copies what the parent writes. Its table is anonymous memory, once on small
// pages and once on transparent huge ones; each row compares with the better of the two; the end of
// its children is not timed, and the end of our snapshots is. (Since Linux 5.8 a write to a huge
// page that is shared after a fork copies 4 KiB of it, and leaves all of it on small pages. So
// fork() copies less for a write here and there, and ends up with a table that takes more misses of
// the TLB. On reserved huge pages of hugetlb, fork() copies 2 MiB as we do; that is not measured.)
// Rewired tables are on pages of 2 MiB, with both kinds of detection.
//
// Rows of `table 3` are the costs of one page: a first write with its copy, and the copy alone
// compared with memcpy(). The paper has 594 us for fork() and 442 us for its rewired copy. Rows of
// `table 4` are updates a second (the paper's gains: 14.5 to 96 % in order, 12 to 25 % at random;
// its fork() was on kernels that copied huge pages whole). Rows of `aside` are other uses of pages.
// Source: tables 3 and 4 and figure 11 of the paper named in penstock/rewire.h.
// Source: tables 3 and 4 and figure 11 of the paper named in penstock/rewire.h.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "memory/rewire/copy_page.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/rewire.h"

namespace penstock::bench {
namespace {

constexpr size_t page_bytes = 2 * MiB;
constexpr size_t page_items = page_bytes / sizeof(uint64_t);

// ---- The contenders.

// A table with one snapshot at a time.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual Status take_snapshot() = 0;
  virtual void end_snapshot() = 0;     // timed
  virtual void end_off_the_clock() {}  // not timed
  // Word `at` in the snapshot, if this process can see it.
  virtual std::optional<uint64_t> frozen(uint64_t at) const = 0;
  uint64_t* live = nullptr;
};

class Forked final : public Contender {
 public:
  static Result<std::unique_ptr<Contender>> open(uint64_t bytes, bool huge) {
    auto table = std::make_unique<Forked>();
    auto memory = anonymous_memory(bytes, huge, true);
    if (!memory) return std::unexpected(memory.error());
    table->memory_ = std::move(*memory);
    table->live = reinterpret_cast<uint64_t*>(table->memory_.begin());
    return table;
  }
  ~Forked() override {
    end_snapshot();
    end_off_the_clock();
  }

  Status take_snapshot() override {
    int ends[2];
    if (pipe(ends) != 0) return system_error(errno, "make a pipe", "bench snapshot");
    child_ = fork();
    if (child_ < 0) return system_error(errno, "fork", "bench snapshot");
    if (child_ == 0) {
      close(ends[1]);
      char byte;
      [[maybe_unused]] const auto none = read(ends[0], &byte, 1);
      _exit(0);
    }
    close(ends[0]);
    signal_end_ = ends[1];
    return {};
  }
  void end_snapshot() override {
    if (signal_end_ >= 0) close(std::exchange(signal_end_, -1));
  }
  void end_off_the_clock() override {
    if (child_ > 0) waitpid(std::exchange(child_, 0), nullptr, 0);
  }
  std::optional<uint64_t> frozen(uint64_t) const override { return std::nullopt; }

 private:
  os::Reservation memory_;
  pid_t child_ = 0;
  int signal_end_ = -1;
};

class Rewired final : public Contender {
 public:
  static Result<std::unique_ptr<Contender>> open(uint64_t bytes, WriteDetection detection) {
    auto pool = PagePool::open({.page_bytes = page_bytes,
                                .bytes_max = 2 * bytes + 16 * page_bytes,
                                .prefault_bytes = 2 * bytes + 16 * page_bytes});
    if (!pool) return std::unexpected(pool.error());
    auto table = RewiredTable::open(*pool, {.bytes = bytes, .detection = detection});
    if (!table) return std::unexpected(table.error());
    auto contender = std::make_unique<Rewired>();
    contender->table_.emplace(std::move(*table));
    contender->live = contender->table_->begin<uint64_t>();
    return contender;
  }
  Status take_snapshot() override {
    auto snapshot = table_->snapshot();
    if (!snapshot) return std::unexpected(snapshot.error());
    snapshot_ = std::move(*snapshot);
    return {};
  }
  void end_snapshot() override { snapshot_ = {}; }
  std::optional<uint64_t> frozen(uint64_t at) const override {
    return snapshot_ ? std::optional(snapshot_.begin<uint64_t>()[at]) : std::nullopt;
  }

 private:
  std::optional<RewiredTable> table_;
  Snapshot snapshot_;
};

struct Entry {
  const char* name;
  std::function<Result<std::unique_ptr<Contender>>(uint64_t bytes)> open;
};
constexpr size_t forks = 2;    // the rival: the first two
constexpr size_t rewired = 2;  // the contender that is compared
const Entry entries[] = {
    {"fork, small pages", [](uint64_t bytes) { return Forked::open(bytes, false); }},
    {"fork, huge pages", [](uint64_t bytes) { return Forked::open(bytes, true); }},
    {"rewired, signals",
     [](uint64_t bytes) { return Rewired::open(bytes, WriteDetection::signal); }},
    {"rewired, asynchronous",
     [](uint64_t bytes) { return Rewired::open(bytes, WriteDetection::asynchronous); }},
};

// ---- the updates

[[gnu::noinline]] void update_in_order(uint64_t* items, uint64_t count, uint64_t& at,
                                       uint64_t updates) {
  while (updates > 0) {
    const uint64_t stretch = std::min(updates, count - at);
    for (uint64_t i = at; i < at + stretch; ++i) items[i] += i;
    at = (at + stretch) % count;
    updates -= stretch;
  }
}

// REQUIRES: count is a power of two.
[[gnu::noinline]] void update_at_random(uint64_t* items, uint64_t count, uint64_t& state,
                                        uint64_t updates) {
  const int shift = 64 - std::countr_zero(count);
  for (; updates > 0; --updates) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    items[state >> shift] += updates;
  }
}

using Update = void (*)(uint64_t*, uint64_t, uint64_t&, uint64_t);

struct Workload {
  const char* name;
  Update update;
};
constexpr Workload workloads[] = {{"in order", update_in_order}, {"at random", update_at_random}};

// Updates a second, snapshots included, in the quietest round: other programs only ever slow one
// down.
Result<double> throughput(Contender& table, uint64_t items, const Workload& workload,
                          uint64_t updates, unsigned rounds, uint64_t& state) {
  double seconds = std::numeric_limits<double>::infinity();
  // The first round is not counted: after it the table is as it will be from then on.
  for (unsigned round = 0; round <= rounds; ++round) {
    uint64_t before = 0, frozen = 0;
    for (uint64_t at = 0; at < items; at += page_items) before += table.live[at];
    const double begin = now_seconds();
    if (Status status = table.take_snapshot(); !status) return std::unexpected(status.error());
    workload.update(table.live, items, state, updates);
    const double middle = now_seconds();
    bool is_seen = true;
    for (uint64_t at = 0; at < items; at += page_items) {
      const auto word = table.frozen(at);
      is_seen = word.has_value();
      frozen += word.value_or(0);
    }
    if (is_seen && frozen != before)
      return failure(ErrorCode::corrupt, "keep a snapshot as it was", "bench snapshot");
    const double end = now_seconds();
    table.end_snapshot();
    const double last = now_seconds();
    table.end_off_the_clock();
    if (round > 0) seconds = std::min(seconds, (middle - begin) + (last - end));
  }
  return static_cast<double>(updates) / seconds;
}

uint64_t sum_of(const uint64_t* items, uint64_t count) {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < count; ++i) sum = mix64(sum ^ items[i]);
  return sum;
}

// ---- tables 3 and 4

struct Samples {
  std::vector<double> unwritten_us, written_us, first_write_us, whole_page_us;
};

// A snapshot of a table that has not been written since the last one, one write to each page, then
// one to each 4 KiB, and another snapshot.
Status measure_pages(Contender& table, uint64_t items, Samples& samples) {
  const auto end_snapshot = [&] {
    table.end_snapshot();
    table.end_off_the_clock();
  };
  if (Status status = table.take_snapshot(); !status) return status;
  end_snapshot();
  const double begin = now_seconds();
  if (Status status = table.take_snapshot(); !status) return status;
  const double taken = now_seconds();
  for (uint64_t at = 0; at < items; at += page_items) table.live[at] += 1;
  const double touched = now_seconds();
  for (uint64_t at = 0; at < items; at += 512) table.live[at] += 1;
  const double written = now_seconds();
  end_snapshot();
  const double again = now_seconds();
  if (Status status = table.take_snapshot(); !status) return status;
  const double end = now_seconds();
  end_snapshot();
  const double pages = static_cast<double>(items) / page_items;
  samples.unwritten_us.push_back((taken - begin) * 1e6);
  samples.written_us.push_back((end - again) * 1e6);
  samples.first_write_us.push_back((touched - taken) * 1e6 / pages);
  samples.whole_page_us.push_back((written - taken) * 1e6 / pages);
  return {};
}

Status measure_table_3(const Options& options, uint64_t bytes, Report& report) {
  std::vector<Samples> all(std::size(entries));
  for (unsigned run = 0; run < options.runs_or(5); ++run) {
    for (size_t i = 0; i < std::size(entries); ++i) {
      auto table = entries[i].open(bytes);
      if (!table && table.error().code == ErrorCode::unsupported) continue;
      if (!table) return std::unexpected(table.error());
      if (Status status = measure_pages(**table, bytes / sizeof(uint64_t), all[i]); !status)
        return status;
    }
  }
  for (size_t i = 0; i < std::size(entries); ++i) {
    if (all[i].written_us.empty()) continue;
    const auto add = [&](const char* what, const char* unit, std::vector<double>& samples) {
      report.add(fmt::format("table 3: {}: {}", entries[i].name, what), unit, samples);
    };
    add("snapshot, nothing written since the last", "us", all[i].unwritten_us);
    add("snapshot, all written since the last", "us", all[i].written_us);
    add("one word of each 2 MiB", "us/page", all[i].first_write_us);
    add("one word of each 4 KiB", "us/2 MiB", all[i].whole_page_us);
  }
  return {};
}

Status measure_copies(const Options& options, uint64_t bytes, Report& report) {
  auto pool = PagePool::open({.page_bytes = page_bytes, .bytes_max = 2 * bytes});
  if (!pool) return std::unexpected(pool.error());
  auto pages = pool->take(static_cast<uint32_t>(2 * bytes / page_bytes));
  if (!pages) return std::unexpected(pages.error());
  const uint32_t half = pages->size() / 2;
  for (uint32_t i = 0; i < 2 * half; ++i) std::memset(pages->bytes(i).data(), 1, page_bytes);
  std::vector<double> ours, theirs;
  for (unsigned run = 0; run < 3 * options.runs_or(5); ++run) {
    const double begin = now_seconds();
    for (uint32_t i = 0; i < half; ++i)
      std::memcpy(pages->bytes(half + i).data(), pages->bytes(i).data(), page_bytes);
    const double middle = now_seconds();
    for (uint32_t i = 0; i < half; ++i)
      rewire::copy_page(pages->bytes(half + i).data(), pages->bytes(i).data(), page_bytes, 0);
    const double end = now_seconds();
    theirs.push_back((middle - begin) * 1e6 / half);
    ours.push_back((end - middle) * 1e6 / half);
  }
  const double memcpy_us = report.add("table 3: memcpy of 2 MiB", "us", theirs);
  const double copy_us = report.add("table 3: our copy of 2 MiB", "us", ours);
  report.ratio("page_copy_vs_memcpy", memcpy_us / copy_us);
  return {};
}

Status measure_table_4(const Options& options, uint64_t bytes, Report& report) {
  struct Step {
    uint64_t updates;
    unsigned rounds;
  };
  const std::vector<Step> steps =
      options.quick
          ? std::vector<Step>{{10'000, 3}, {100'000, 3}}
          : std::vector<Step>{{100'000, 5}, {1'000'000, 3}, {10'000'000, 3}, {100'000'000, 2}};
  const uint64_t items = bytes / sizeof(uint64_t);
  for (const Workload& workload : workloads) {
    // Speeds of each contender, for each step.
    std::vector<std::vector<std::vector<double>>> speeds(
        std::size(entries), std::vector<std::vector<double>>(steps.size()));
    for (unsigned run = 0; run < options.runs_or(3); ++run) {
      std::optional<uint64_t> sum;
      for (size_t i = 0; i < std::size(entries); ++i) {
        auto table = entries[i].open(bytes);
        if (!table && table.error().code == ErrorCode::unsupported) continue;
        if (!table) return std::unexpected(table.error());
        uint64_t state = 0;
        for (size_t step = 0; step < steps.size(); ++step) {
          const auto speed =
              throughput(**table, items, workload, steps[step].updates, steps[step].rounds, state);
          if (!speed) return std::unexpected(speed.error());
          speeds[i][step].push_back(*speed / 1e6);
        }
        const uint64_t sum_here = sum_of((*table)->live, items);
        if (!sum && run == 0) report.hash(sum_here);
        if (sum.value_or(sum_here) != sum_here)
          return failure(ErrorCode::corrupt, "update all tables to the same", entries[i].name);
        sum = sum_here;
      }
    }
    std::vector<double> gains;
    for (size_t step = 0; step < steps.size(); ++step) {
      std::vector<double> medians;
      for (size_t i = 0; i < std::size(entries); ++i) {
        if (speeds[i][step].empty()) continue;
        medians.push_back(
            report.add(fmt::format("table 4: {}, {:.0e} updates a snapshot: {}", workload.name,
                                   static_cast<double>(steps[step].updates), entries[i].name),
                       "M/s", speeds[i][step]));
      }
      gains.push_back(medians[rewired] /
                      *std::max_element(medians.begin(), medians.begin() + forks));
    }
    const char* const kind = workload.update == update_in_order ? "sequential" : "random";
    report.ratio(fmt::format("gain_{}_min", kind), *std::min_element(gains.begin(), gains.end()));
    report.ratio(fmt::format("gain_{}_max", kind), *std::max_element(gains.begin(), gains.end()));
  }
  return {};
}

// ---- other uses of rewired pages

// A snapshot is alive, and an eighth of the table's pages get new contents: stored into the table,
// or made aside and applied.
Status measure_changes(const Options& options, uint64_t bytes, Report& report) {
  auto pool = PagePool::open(
      {.page_bytes = page_bytes, .bytes_max = 2 * bytes, .prefault_bytes = 2 * bytes});
  if (!pool) return std::unexpected(pool.error());
  auto table = RewiredTable::open(*pool, {.bytes = bytes});
  if (!table) return std::unexpected(table.error());
  const uint64_t pages = table->pages(), changed = pages / 8;
  std::vector<double> in_place, aside, applied;
  for (unsigned run = 0; run < 3 * options.runs_or(5); ++run) {
    {
      const auto snapshot = table->snapshot();
      if (!snapshot) return std::unexpected(snapshot.error());
      const double begin = now_seconds();
      for (uint64_t page = 0; page < changed; ++page)
        std::memset(table->begin() + page * page_bytes, static_cast<int>(run), page_bytes);
      in_place.push_back((now_seconds() - begin) * 1e6 / static_cast<double>(changed));
    }
    const auto snapshot = table->snapshot();
    auto changes = table->changes();
    if (!snapshot || !changes)
      return std::unexpected(snapshot ? changes.error() : snapshot.error());
    const double begin = now_seconds();
    for (uint64_t page = 0; page < changed; ++page) {
      const auto copy = changes->page(page);
      if (!copy) return std::unexpected(copy.error());
      std::memset(*copy, static_cast<int>(run), page_bytes);
    }
    const double made = now_seconds();
    if (Status status = changes->apply(); !status) return status;
    const double end = now_seconds();
    aside.push_back((end - begin) * 1e6 / static_cast<double>(changed));
    applied.push_back((end - made) * 1e6);
  }
  report.add("aside: new contents stored into a table with a snapshot", "us/page", in_place);
  report.add("aside: made in copies and applied", "us/page", aside);
  report.add(fmt::format("aside: of which applying {} pages, all at once", changed), "us", applied);

  // Three of four pages are equal.
  for (uint64_t page = 0; page < pages; ++page) {
    std::memset(table->begin() + page * page_bytes, 7, page_bytes);
    if (page % 4 == 0) table->begin<uint64_t>()[page * page_items] = page;
  }
  const double begin = now_seconds();
  const auto merged = table->merge_equal_pages();
  if (!merged) return std::unexpected(merged.error());
  const double seconds = now_seconds() - begin;
  report.add("aside: equal pages merged, three of four", "GB/s",
             {static_cast<double>(bytes) / 1e9 / seconds});
  report.add("aside: of which went back to the pool", "pages",
             {static_cast<double>(merged->pages_freed)});
  report.hash(merged->pages_freed);
  return {};
}

Result<Report> run_snapshot(const Options& options) {
  const uint64_t bytes = options.quick ? 32 * MiB : 1 * GiB;
  Report report;
  // Memory that a virtual machine touches for the first time ever is the host's business.
  if (auto warm = Rewired::open(bytes, WriteDetection::signal); !warm)
    return std::unexpected(warm.error());
  for (const auto& part : {measure_table_3, measure_copies, measure_table_4, measure_changes})
    if (Status status = part(options, bytes, report); !status)
      return std::unexpected(status.error());
  return report;
}

const Registration registration{"snapshot", "updating a table of which somebody has a snapshot",
                                run_snapshot};

}  // namespace
}  // namespace penstock::bench
