// The cost of a stream whose blocks are made in the fault.
//
// A function fills blocks with numbers, a loop sums them up, in one thread. The ceiling calls the
// function on one buffer and sums that, block after block, without any address changing. A
// PullStream does the same behind one long pointer, on every mechanism. The rival is Algorithm 6 of
// the paper to the letter: its handler gives the block behind back to the system and commits a
// fresh one, which the kernel clears before the producer overwrites it.

#include <fmt/format.h>

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "memory/fault/registry.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/stream.h"

namespace penstock::bench {
namespace {

[[gnu::noinline]] void produce(std::span<std::byte> block, uint64_t offset) {
  auto* const items = reinterpret_cast<uint64_t*>(block.data());
  for (uint64_t i = 0; i < block.size() / sizeof(uint64_t); ++i) items[i] = offset + i;
}
[[gnu::noinline]] uint64_t sum(const uint64_t* items, uint64_t count) {
  uint64_t total = 0;
  for (uint64_t i = 0; i < count; ++i) total += items[i];
  return total;
}

struct Shape {
  size_t block_bytes;
  uint64_t bytes;
};
struct Outcome {
  double gb_per_s;
  uint64_t sum;
};

template <class Work>
Outcome measure(const Shape& shape, Work work) {
  Outcome outcome{};
  const double seconds = seconds_of([&] { outcome.sum = work(); });
  outcome.gb_per_s = static_cast<double>(shape.bytes) / seconds / 1e9;
  return outcome;
}

Result<Outcome> one_buffer(const Shape& shape) {
  std::vector<std::byte> block(shape.block_bytes);
  const uint64_t items = shape.block_bytes / sizeof(uint64_t);
  return measure(shape, [&] {
    uint64_t total = 0;
    for (uint64_t offset = 0; offset < shape.bytes; offset += shape.block_bytes) {
      produce(block, offset);
      total += sum(reinterpret_cast<const uint64_t*>(block.data()), items);
    }
    return total;
  });
}

Result<Outcome> pull_stream(const Shape& shape, Mechanism mechanism) {
  auto stream = PullStream::open({.bytes = shape.bytes,
                                  .block_bytes = shape.block_bytes,
                                  .comeback_blocks = 0,
                                  .mechanism = mechanism},
                                 [](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
                                   produce(block, offset);
                                   return block.size();
                                 });
  if (!stream) return std::unexpected(stream.error());
  return measure(shape,
                 [&] { return sum(stream->begin<uint64_t>(), shape.bytes / sizeof(uint64_t)); });
}

// Algorithm 6, with M = 0.
class CommitAndDecommit final : public fault::Handler {
 public:
  CommitAndDecommit(const Shape& shape, std::byte* begin)
      : block_bytes_(shape.block_bytes), begin_(begin) {}
  fault::Outcome on_fault(const fault::Fault& fault) noexcept override {
    const uint64_t offset =
        static_cast<uint64_t>(fault.address - begin_) / block_bytes_ * block_bytes_;
    std::byte* const at = begin_ + offset;
    if (offset > 0 && os::decommit(at - block_bytes_, block_bytes_) != 0)
      return fault::Outcome::decline;
    if (os::commit(at, block_bytes_) != 0) return fault::Outcome::decline;
    produce({at, block_bytes_}, offset);
    return fault::Outcome::retry;
  }

 private:
  const size_t block_bytes_;
  std::byte* const begin_;
};

Result<Outcome> commit_and_decommit(const Shape& shape) {
  auto range = os::Reservation::reserve(shape.bytes);
  if (!range) return std::unexpected(range.error());
  CommitAndDecommit handler(shape, range->begin());
  auto registration = fault::Registration::add(range->begin(), range->bytes(), handler);
  if (!registration) return std::unexpected(registration.error());
  return measure(shape, [&] {
    return sum(reinterpret_cast<const uint64_t*>(range->begin()), shape.bytes / sizeof(uint64_t));
  });
}

Result<Report> run_pull(const Options& options) {
  Report report;
  const unsigned runs = options.runs_or(5);
  const uint64_t bytes = options.quick ? 32 * MiB : 1 * GiB;
  constexpr std::pair<const char*, Mechanism> mechanisms[] = {{"mremap", Mechanism::mremap},
                                                              {"uffd_move", Mechanism::uffd_move},
                                                              {"shared", Mechanism::shared},
                                                              {"automatic", Mechanism::automatic}};
  for (const size_t block_bytes : {64 * KiB, 256 * KiB, 1 * MiB, 2 * MiB}) {
    const Shape shape{block_bytes, bytes};
    std::map<std::string, std::vector<double>> samples;
    auto take = [&](const std::string& what, const Result<Outcome>& outcome) -> Status {
      if (!outcome && outcome.error().code == ErrorCode::unsupported) return {};
      if (!outcome) return std::unexpected(outcome.error());
      samples[what].push_back(outcome->gb_per_s);
      if (samples[what].size() == 1) report.hash(outcome->sum);
      return {};
    };
    for (unsigned run = 0; run < runs; ++run) {
      Status status = take("one buffer (the ceiling)", one_buffer(shape));
      if (status) status = take("commit and decommit", commit_and_decommit(shape));
      for (const auto& [name, mechanism] : mechanisms) {
        if (status)
          status = take(std::string("pull stream, ") + name, pull_stream(shape, mechanism));
      }
      if (!status) return std::unexpected(status.error());
    }
    const std::string size = fmt::format("{} KiB", block_bytes / KiB);
    std::map<std::string, double> medians;
    for (const auto& [what, speeds] : samples)
      medians[what] = report.add(size + " " + what, "GB/s", speeds);
    const double stream = medians["pull stream, automatic"];
    const std::string suffix = fmt::format("{}k", block_bytes / KiB);
    report.ratio("vs_ceiling_" + suffix, stream / medians["one buffer (the ceiling)"]);
    report.ratio("vs_commit_and_decommit_" + suffix, stream / medians["commit and decommit"]);
  }
  return report;
}

const Registration registration{"pull", "a stream whose blocks are made in the fault", run_pull};

}  // namespace
}  // namespace penstock::bench
