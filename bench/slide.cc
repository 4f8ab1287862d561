// How fast can one block of memory slide along a range of addresses?
//
// One thread moves a block forward, block by block, and touches it; on every mechanism, with the
// move called by hand, and with the touch faulting and the handler moving. The rival gives the old
// block back to the kernel and commits a new one (Vortex-B): there every page is cleared and
// touched anew. Source: table 2 of the paper.

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "bench/bench.h"
#include "fault/registry.h"
#include "os/memory.h"
#include "penstock/units.h"
#include "pool/pool.h"

namespace penstock::bench {
namespace {

// The block, and where it is.
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
      if (error == 0) error = (*pool)->flush_unmaps();  // late is not never
    });
  }
  (*pool)->release(*range);
  if (error != 0) return system_error(error, "slide a block", pool::name_of(mechanism));
  return static_cast<double>(shape.bytes()) / seconds / 1e9;
}

// Vortex-B: fresh pages for each block.
Result<double> commit_and_decommit(const Shape& shape) {
  auto range = os::Reservation::reserve(shape.bytes());
  if (!range) return std::unexpected(range.error());
  int error = 0;
  double seconds = seconds_of([&] {
    for (uint64_t i = 0; i < shape.blocks && error == 0; ++i) {
      std::byte* at = range->begin() + i * shape.block_bytes;
      error = os::commit(at, shape.block_bytes);
      for (size_t page = 0; page < shape.block_bytes && error == 0; page += os::page_bytes) {
        static_cast<volatile std::byte*>(at)[page] = std::byte{1};
      }
      if (error == 0) error = os::decommit(at, shape.block_bytes);
    }
  });
  if (error != 0) return system_error(error, "commit and decommit", "a block");
  return static_cast<double>(shape.bytes()) / seconds / 1e9;
}

Result<Report> run_slide(const Options& options) {
  Report report;
  const unsigned runs = options.runs_or(5);
  const uint64_t blocks = options.quick ? 100 : 4000;
  constexpr pool::Mechanism mechanisms[] = {pool::Mechanism::mremap, pool::Mechanism::uffd_move,
                                            pool::Mechanism::shared};
  for (size_t block_bytes : {256 * KiB, 1 * MiB, 2 * MiB, 4 * MiB}) {
    std::vector<double> fresh;
    std::vector<double> samples[std::size(mechanisms)][2];
    for (unsigned run = 0; run < runs; ++run) {
      auto rival = commit_and_decommit({block_bytes, blocks / 10});
      if (!rival) return std::unexpected(rival.error());
      fresh.push_back(*rival);
      for (size_t m = 0; m < std::size(mechanisms); ++m) {
        for (bool faults : {false, true}) {
          auto speed = slide(mechanisms[m], {block_bytes, blocks}, faults);
          if (!speed && speed.error().code == ErrorCode::unsupported) continue;
          if (!speed) return std::unexpected(speed.error());
          samples[m][faults].push_back(*speed);
        }
      }
    }
    std::string size = block_bytes < MiB ? fmt::format("{}k", block_bytes / KiB)
                                         : fmt::format("{}m", block_bytes / MiB);
    double rival = report.add(fmt::format("{} commit, touch, decommit", size), "GB/s", fresh);
    double best = 0;
    for (size_t m = 0; m < std::size(mechanisms); ++m) {
      for (bool faults : {false, true}) {
        if (samples[m][faults].empty()) continue;
        double speed = report.add(fmt::format("{} {}{}", size, pool::name_of(mechanisms[m]),
                                              faults ? ", with faults" : ""),
                                  "GB/s", samples[m][faults]);
        if (faults) best = std::max(best, speed);
      }
    }
    report.ratio(fmt::format("vs_best_rival_{}", size), best / rival);
    report.hash(block_bytes);
  }
  return report;
}

const Registration registration{
    "slide", "one block sliding along addresses, with and without faults", run_slide};

}  // namespace
}  // namespace penstock::bench
