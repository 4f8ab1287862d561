// How fast can one block of memory slide along a range of addresses? (Table 2 of the paper.)
//
// Vortex-C: one thread moves a block forward, block by block, on every mechanism; by hand, and with
// a touch that faults and a handler that moves. Vortex-B: it commits a block of fresh pages,
// touches each, and releases them; by hand on small and on huge pages, and as GuardStream does it,
// with two faults a block (the store's and the load's). All with the thread alone, and with the
// other core computing in the same address space, which has to be interrupted when a mapping is
// removed.
//
// vs_best_rival_SIZE: the best of C with faults relative to the best of B by hand.
// vs_paper_linux_*: the best, thread alone, blocks of 1 MiB or more, relative to the paper's
// figures for Linux (275 GB/s, 228 with faults, and 5.9 for B, where ours is GuardStream's, faults
// included).

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "memory/fault/registry.h"
#include "memory/pool/pool.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::bench {
namespace {

// The block and its position.
class Slider final : public fault::Handler {
 public:
  Slider(pool::Pool& pool, std::byte* begin) : pool_(pool), begin_(begin), block_(pool.take()) {}
  ~Slider() {
    if (at_ != nullptr) keep(pool_.unmap(block_, at_));
    pool_.give(block_);
  }
  int slide_to(std::byte* to) noexcept {
    int error = at_ == nullptr ? pool_.map(block_, to) : pool_.remap(block_, at_, to);
    if (error == 0) at_ = to;
    return error;
  }
  fault::Outcome on_fault(const fault::Fault& fault) noexcept override {
    auto position = static_cast<size_t>(fault.address - begin_) / pool_.block_bytes();
    return slide_to(begin_ + position * pool_.block_bytes()) == 0 ? fault::Outcome::retry
                                                                  : fault::Outcome::decline;
  }

 private:
  pool::Pool& pool_;
  std::byte* begin_;
  pool::BlockId block_;
  std::byte* at_ = nullptr;
};

struct Shape {
  size_t block_bytes;
  uint64_t blocks;
  uint64_t bytes() const { return block_bytes * blocks; }
};

Result<double> slide(pool::Mechanism mechanism, const Shape& shape, bool faults) {
  auto pool =
      pool::Pool::open({.block_bytes = shape.block_bytes, .blocks_max = 1, .mechanism = mechanism});
  if (!pool) return std::unexpected(pool.error());
  auto range = (*pool)->reserve(shape.bytes());
  if (!range) return std::unexpected(range.error());
  double seconds = 0;
  int error = 0;
  {
    Slider slider(**pool, range->begin());
    fault::Registration registration;
    if (faults) {
      auto added = fault::Registration::add(range->begin(), range->bytes(), slider);
      if (!added) return std::unexpected(added.error());
      registration = std::move(*added);
    }
    seconds = seconds_of([&] {
      for (uint64_t i = 0; i < shape.blocks && error == 0; ++i) {
        std::byte* to = range->begin() + i * shape.block_bytes;
        if (!faults) error = slider.slide_to(to);
        if (error == 0) *static_cast<volatile std::byte*>(to) = std::byte{1};
      }
      if (error == 0) error = (*pool)->flush_unmaps();  // deferred unmaps count, too
    });
  }
  (*pool)->release(*range);
  if (error != 0) return system_error(error, "slide a block", pool::name_of(mechanism));
  return static_cast<double>(shape.bytes()) / seconds / 1e9;
}

void touch_each_page(std::byte* block, size_t bytes) {
  for (size_t page = 0; page < bytes; page += os::page_bytes) {
    static_cast<volatile std::byte*>(block)[page] = std::byte{1};
  }
}

// Vortex-B by hand: fresh pages for each block.
Result<double> commit_and_decommit(const Shape& shape, bool huge) {
  auto range = os::Reservation::reserve(shape.bytes());
  if (!range) return std::unexpected(range.error());
  int error = 0;
  double seconds = seconds_of([&] {
    for (uint64_t i = 0; i < shape.blocks && error == 0; ++i) {
      std::byte* at = range->begin() + i * shape.block_bytes;
      error = os::commit(at, shape.block_bytes);
      if (error == 0) error = os::advise_huge(at, shape.block_bytes, huge);
      if (error == 0) touch_each_page(at, shape.block_bytes);
      if (error == 0) error = os::decommit(at, shape.block_bytes);
    }
  });
  if (error != 0) return system_error(error, "commit and decommit", "a block");
  return static_cast<double>(shape.bytes()) / seconds / 1e9;
}

// Vortex-B as a stream, with one thread on both sides: the load stays two blocks behind the store,
// the least that guards allow.
Result<double> guard_stream(const Shape& shape) {
  auto pipe = GuardStream::open({.bytes = shape.bytes(),
                                 .block_bytes = shape.block_bytes,
                                 .read_ahead_blocks = 3,
                                 .producer_comeback_blocks = 0,
                                 .consumer_comeback_blocks = 0});
  if (!pipe) return std::unexpected(pipe.error());
  auto* data = pipe->writer<std::byte>();
  double seconds = seconds_of([&] {
    for (uint64_t i = 0; i < shape.blocks; ++i) {
      touch_each_page(data + i * shape.block_bytes, shape.block_bytes);
      if (i < 2) continue;
      [[maybe_unused]] volatile std::byte seen = data[(i - 2) * shape.block_bytes];
    }
  });
  return static_cast<double>(shape.bytes()) / seconds / 1e9;
}

// Keeps another core busy with code of this process that touches no memory, during its lifetime.
class Companion {
 public:
  Companion()
      : thread_([this] {
          uint64_t state = 1;
          while (!stop_.load(std::memory_order_relaxed)) state = state * 6364136223846793005u + 1;
          keep(state);
        }) {}
  ~Companion() { stop_.store(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> stop_ = false;  // set by the destructor, read by the loop; publishes no data
  std::jthread thread_;             // last member: it uses stop_
};

enum class Kind { b_by_hand, b_stream, c, c_with_faults };

struct Contender {
  std::string what;
  Kind kind;
  std::function<Result<double>()> run;
};

std::vector<Contender> contenders(size_t block_bytes, bool quick) {
  // Moving costs a few microseconds a block, fresh pages cost by the byte.
  const Shape moved{block_bytes, quick ? 50 : std::min<uint64_t>(2000, 8 * GiB / block_bytes)};
  const Shape fresh{block_bytes, quick ? 4 : std::max<uint64_t>(16, 128 * MiB / block_bytes)};
  std::vector<Contender> all;
  all.push_back({"B commit, touch, decommit", Kind::b_by_hand,
                 [=] { return commit_and_decommit(fresh, false); }});
  if (block_bytes >= os::huge_page_bytes) {
    all.push_back({"B commit, touch, decommit, huge pages", Kind::b_by_hand,
                   [=] { return commit_and_decommit(fresh, true); }});
  }
  all.push_back(
      {"B guard stream, with faults", Kind::b_stream, [=] { return guard_stream(fresh); }});
  for (pool::Mechanism mechanism :
       {pool::Mechanism::mremap, pool::Mechanism::uffd_move, pool::Mechanism::shared}) {
    all.push_back({fmt::format("C {}", pool::name_of(mechanism)), Kind::c,
                   [=] { return slide(mechanism, moved, false); }});
    all.push_back({fmt::format("C {}, with faults", pool::name_of(mechanism)), Kind::c_with_faults,
                   [=] { return slide(mechanism, moved, true); }});
  }
  return all;
}

std::string name_of(size_t block_bytes) {
  return block_bytes < MiB ? fmt::format("{}k", block_bytes / KiB)
                           : fmt::format("{}m", block_bytes / MiB);
}

// The best of each kind at one block size. The contenders take turns, so that a drift of the
// machine hits all of them alike.
Result<std::map<Kind, double>> measure(size_t block_bytes, bool busy, const Options& options,
                                       Report& report) {
  const std::vector<Contender> all = contenders(block_bytes, options.quick);
  std::vector<std::vector<double>> samples(all.size());
  // The first run does not count: a virtual machine gets new memory at a tenth of the speed.
  for (unsigned run = 0; run <= options.runs_or(5); ++run) {
    for (size_t i = 0; i < all.size(); ++i) {
      std::optional<Companion> companion;
      if (busy) companion.emplace();
      auto speed = all[i].run();
      if (!speed && speed.error().code == ErrorCode::unsupported) continue;
      if (!speed) return std::unexpected(speed.error());
      if (run > 0) samples[i].push_back(*speed);
    }
  }
  std::map<Kind, double> best;
  for (size_t i = 0; i < all.size(); ++i) {
    if (samples[i].empty()) continue;
    const double speed = report.add(
        fmt::format("{} {}{}", name_of(block_bytes), all[i].what, busy ? ", other core busy" : ""),
        "GB/s", samples[i]);
    best[all[i].kind] = std::max(best[all[i].kind], speed);
  }
  return best;
}

Result<Report> run_slide(const Options& options) {
  Report report;
  std::map<Kind, double> best;  // thread alone, 1 MiB or more
  for (size_t block_bytes : {256 * KiB, 1 * MiB, 2 * MiB, 4 * MiB, 16 * MiB}) {
    for (bool busy : {false, true}) {
      auto here = measure(block_bytes, busy, options, report);
      if (!here) return std::unexpected(here.error());
      report.hash(block_bytes);
      if (busy) continue;
      report.ratio("vs_best_rival_" + name_of(block_bytes),
                   (*here)[Kind::c_with_faults] / (*here)[Kind::b_by_hand]);
      if (block_bytes < MiB) continue;
      for (auto [kind, speed] : *here) best[kind] = std::max(best[kind], speed);
    }
  }
  report.ratio("vs_paper_linux_b", best[Kind::b_stream] / 5.9);
  report.ratio("vs_paper_linux_c", best[Kind::c] / 275);
  report.ratio("vs_paper_linux_c_faults", best[Kind::c_with_faults] / 228);
  return report;
}

const Registration registration{
    "slide", "one block sliding along addresses, with and without faults", run_slide};

}  // namespace
}  // namespace penstock::bench
