// How fast can an array grow, and how fast can it be drained again?
//
// Eight gibibytes of 16-byte items are written in order, with stores that bypass the caches, and
// then summed up. The ceiling is a buffer of the right size on huge pages that were touched before.
// Rivals: std::vector, which copies as it grows, onto pages that the kernel has yet to find and
// clear (with a quarter of the items, because it holds two copies); and blocks of 1 MiB in a chain,
// from touched memory, behind an iterator. A vanishing array takes its touched blocks from a pool
// as it is written, and returns them as it is read. Source: table 6 of the paper.
//
// In a virtual machine the host serves the first touch of memory, ten times slower: all memory is
// touched once before anything is measured.

#include <fmt/format.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstring>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/pages.h"
#include "memory/pool/pool.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/region.h"

namespace penstock::bench {
namespace {

#if defined(__SSE2__)
struct Item {
  __m128i words;
};
void store(Item* to, Item item) {
  _mm_stream_si128(&to->words, item.words);
}
Item add(Item a, Item b) {
  return {_mm_add_epi64(a.words, b.words)};
}
Item item_of(uint64_t low, uint64_t high) {
  return {_mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low))};
}
#else
struct alignas(16) Item {
  uint64_t low, high;
};
void store(Item* to, Item item) {
  *to = item;
}
Item add(Item a, Item b) {
  return {a.low + b.low, a.high + b.high};
}
Item item_of(uint64_t low, uint64_t high) {
  return {low, high};
}
#endif

uint64_t hash_of(Item item) {
  uint64_t words[2];
  std::memcpy(words, &item, sizeof words);
  return words[0] ^ words[1];
}

// The loops that plain pointers permit.
[[gnu::noinline]] void fill(Item* data, uint64_t items) {
  Item item = item_of(1, 2);
  const Item step = item_of(3, 5);
  for (uint64_t i = 0; i < items; ++i) {
    store(data + i, item);
    item = add(item, step);
  }
}
[[gnu::noinline]] Item drain(const Item* data, uint64_t items) {
  Item sum = {};
  for (uint64_t i = 0; i < items; ++i) sum = add(sum, data[i]);
  return sum;
}

struct Speeds {
  std::vector<double> fills_gb_per_s;
  std::vector<double> drains_gb_per_s;
  uint64_t sum = 0;
};

// Touching the memory takes longer than using it, so each phase has several passes.
constexpr int passes = 3;

template <class Fill, class Drain>
Speeds measure(uint64_t items, Fill fill_it, Drain drain_it) {
  Speeds speeds;
  const double gigabytes = static_cast<double>(items * sizeof(Item)) / 1e9;
  for (int pass = 0; pass < passes; ++pass) {
    Item sum = {};
    speeds.fills_gb_per_s.push_back(gigabytes / seconds_of(fill_it));
    speeds.drains_gb_per_s.push_back(gigabytes / seconds_of([&] { sum = drain_it(); }));
    speeds.sum = hash_of(sum);
  }
  return speeds;
}

// Touched memory on huge pages.
Result<Speeds> regular_buffer(uint64_t items) {
  auto memory = anonymous_memory(items * sizeof(Item), true, true);
  if (!memory) return std::unexpected(memory.error());
  auto* const data = reinterpret_cast<Item*>(memory->begin());
  return measure(items, [&] { fill(data, items); }, [&] { return drain(data, items); });
}

Result<Speeds> growing_vector(uint64_t items) {
  std::vector<Item> data;
  return measure(
      items,
      [&] {
        data = std::vector<Item>();  // grows anew
        Item item = item_of(1, 2);
        const Item step = item_of(3, 5);
        for (uint64_t i = 0; i < items; ++i) {
          data.push_back(item);
          item = add(item, step);
        }
      },
      [&] { return drain(data.data(), items); });
}

// A chain of blocks, each taken when the one before is full.
class Chain {
 public:
  static constexpr uint64_t block_items = 1 * MiB / sizeof(Item);
  Chain() = default;
  explicit Chain(std::byte* memory) : next_block_(reinterpret_cast<Item*>(memory)) {}
  void push_back(Item item) {
    if (at_ == end_) [[unlikely]]
      next_block();
    store(at_++, item);
  }
  const std::vector<Item*>& blocks() const { return blocks_; }

 private:
  [[gnu::noinline]] void next_block() {
    blocks_.push_back(next_block_);
    at_ = next_block_;
    next_block_ = end_ = at_ + block_items;
  }

  Item* next_block_ = nullptr;
  Item* at_ = nullptr;
  Item* end_ = nullptr;
  std::vector<Item*> blocks_;
};

Result<Speeds> chained_blocks(uint64_t items) {
  auto memory = anonymous_memory(items * sizeof(Item), true, true);
  if (!memory) return std::unexpected(memory.error());
  Chain chain;
  return measure(
      items,
      [&] {
        chain = Chain(memory->begin());
        Item item = item_of(1, 2);
        const Item step = item_of(3, 5);
        for (uint64_t i = 0; i < items; ++i) {
          chain.push_back(item);
          item = add(item, step);
        }
      },
      [&] {
        Item sum = {};
        for (const Item* block : chain.blocks()) sum = add(sum, drain(block, Chain::block_items));
        return sum;
      });
}

Result<Speeds> vanishing_array(uint64_t items, size_t block_bytes, Mechanism mechanism) {
  const uint64_t blocks = items * sizeof(Item) / block_bytes;
  auto pool = BlockPool::open({.block_bytes = block_bytes,
                               .blocks = static_cast<uint32_t>(blocks),
                               .mechanism = mechanism});
  if (!pool) return std::unexpected(pool.error());
  auto array = VanishingArray::open(*pool, {.bytes = items * sizeof(Item)});
  if (!array) return std::unexpected(array.error());
  std::vector<BlockPool::Block> touched;  // by the pool, when a block is first taken
  for (uint64_t i = 0; i < blocks; ++i) {
    touched.push_back(pool->take());
    if (!touched.back())
      return failure(ErrorCode::out_of_memory, fmt::format("touch {} blocks", blocks),
                     "bench vector");
  }
  touched.clear();
  auto* const data = array->begin<Item>();
  return measure(items, [&] { fill(data, items); }, [&] { return drain(data, items); });
}

struct Contender {
  std::string what;
  uint64_t items;
  std::function<Result<Speeds>(uint64_t items)> run;
  std::vector<double> fills = {}, drains = {};
};

Contender array_of(uint64_t items, size_t block_bytes, Mechanism mechanism) {
  return {fmt::format("vanishing array, {} MiB, {}", block_bytes / MiB, pool::name_of(mechanism)),
          items, [=](uint64_t n) { return vanishing_array(n, block_bytes, mechanism); }};
}

// A block costs a fault and two moves, 10 to 25 us for any size: below 5 % of the time to write or
// read 16 MiB, and half of that at 32 MiB.
constexpr size_t best_block_bytes = 32 * MiB;

Result<Report> run_vector(const Options& options) {
  const uint64_t bytes = options.quick ? 128 * MiB : 8 * GiB;
  const uint64_t items = bytes / sizeof(Item);
  const unsigned runs = options.runs_or(5);
  {
    auto memory = anonymous_memory(bytes, true, true);
    if (!memory) return std::unexpected(memory.error());
  }

  std::vector<Contender> contenders;
  contenders.push_back({"regular buffer, touched (the ceiling)", items, regular_buffer});
  contenders.push_back(array_of(items, best_block_bytes, Mechanism::automatic));
  contenders.push_back({"chained blocks, touched", items, chained_blocks});
  contenders.push_back({"std::vector, untouched", items / 4, growing_vector});
  for (size_t block_bytes : {2 * MiB, 8 * MiB, 16 * MiB})
    contenders.push_back(array_of(items, block_bytes, Mechanism::automatic));
  for (Mechanism mechanism : {Mechanism::uffd_move, Mechanism::shared})
    contenders.push_back(array_of(items, best_block_bytes, mechanism));

  Report report;
  for (unsigned run = 0; run < runs; ++run) {
    for (Contender& contender : contenders) {
      const auto speeds = contender.run(contender.items);
      if (!speeds && speeds.error().code == ErrorCode::unsupported) continue;
      if (!speeds) return std::unexpected(speeds.error());
      contender.fills.insert(contender.fills.end(), speeds->fills_gb_per_s.begin(),
                             speeds->fills_gb_per_s.end());
      contender.drains.insert(contender.drains.end(), speeds->drains_gb_per_s.begin(),
                              speeds->drains_gb_per_s.end());
      if (run == 0) report.hash(speeds->sum);
    }
  }

  std::vector<std::pair<double, double>> medians;
  for (Contender& contender : contenders) {
    if (contender.fills.empty()) continue;
    const double filled = report.add(contender.what + ": fill", "GB/s", contender.fills);
    medians.emplace_back(filled, report.add(contender.what + ": drain", "GB/s", contender.drains));
  }
  const auto& [ceiling, array, chain] = std::tie(medians[0], medians[1], medians[2]);
  report.ratio("vs_ceiling_fill", array.first / ceiling.first);
  report.ratio("vs_ceiling_drain", array.second / ceiling.second);
  report.ratio("vs_best_rival_fill", array.first / chain.first);
  report.ratio("vs_best_rival_drain", array.second / chain.second);
  return report;
}

const Registration registration{"vector", "filling and draining an array that nobody sized",
                                run_vector};

}  // namespace
}  // namespace penstock::bench
