// A table of a terabyte that is computed where it is read, and keeps a megabyte.
//
//   lazy_table [LOOKUPS]   number of lookups of each of two threads (20000 by default)
//
// The handler of a region computes the block that was touched, in memory that nobody else can see,
// and shows it; when all blocks of the budget are in use it takes back the one that was computed
// the longest ago. (Which one was *read* the longest ago is unknown: reads of present blocks cost
// nothing, and leave no trace.) The two threads see a plain array of doubles.

#include <penstock/base.h>
#include <penstock/region.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <list>
#include <mutex>
#include <thread>

using penstock::BlockPool;
using penstock::Region;

namespace {

constexpr size_t block_bytes = 64 * penstock::KiB;
constexpr uint64_t block_items = block_bytes / sizeof(double);

double f(uint64_t i) {
  return std::sqrt(static_cast<double>(i)) + 1.0 / static_cast<double>(i + 1);
}

// Blocks in the order of computation. Several threads may be in the handler at once, each for a
// block of its own, and share only this. No thread touches the table while it holds the mutex.
class OldestFirst {
 public:
  explicit OldestFirst(BlockPool memory) : memory_(std::move(memory)) {}

  penstock::Status operator()(Region::Blocks& blocks, const Region::Fault& fault) {
    BlockPool::Block block = memory_.take();
    while (!block) block = take_oldest(blocks);
    auto* const items = reinterpret_cast<double*>(block.bytes().data());
    for (uint64_t i = 0; i < block_items; ++i) items[i] = f(fault.index * block_items + i);
    if (const int error = blocks.show(fault.index, std::move(block)); error != 0)
      return penstock::system_error(error, "show a block", "the table");
    const std::lock_guard lock(mutex_);
    order_.push_back(fault.index);
    ++computed_;
    return {};
  }
  uint64_t computed() const { return computed_; }

 private:
  BlockPool::Block take_oldest(Region::Blocks& blocks) {
    const std::lock_guard lock(mutex_);
    if (order_.empty()) return memory_.take();  // the other threads hold all blocks at the moment
    const uint64_t oldest = order_.front();
    order_.pop_front();
    BlockPool::Block block = blocks.hide(oldest);
    if (!block) order_.push_back(oldest);  // another thread is computing it again
    return block;
  }

  const BlockPool memory_;
  std::mutex mutex_;
  std::list<uint64_t> order_;
  uint64_t computed_ = 0;
};

// Looks up values, mostly near the last one, at times far away. Returns the number of wrong values.
uint64_t look_up(const double* table, uint64_t items, uint64_t lookups, uint64_t state) {
  uint64_t wrong = 0, at = state % items;
  for (uint64_t i = 0; i < lookups; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    at = (at + (state >> 61 == 0 ? state : state >> 52)) % items;
    wrong += table[at] != f(at);
  }
  return wrong;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t lookups = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 20000;
  auto memory = BlockPool::open({.block_bytes = block_bytes, .blocks = 16});
  if (!memory) {
    std::fprintf(stderr, "%s\n", memory.error().message().c_str());
    return 1;
  }
  OldestFirst handler(*memory);
  auto table =
      Region::open(*memory, {.bytes = 1 * penstock::TiB, .name = "table of f"}, std::ref(handler));
  if (!table) {
    std::fprintf(stderr, "%s\n", table.error().message().c_str());
    return 1;
  }
  const uint64_t items = table->bytes() / sizeof(double);
  uint64_t wrong[2] = {1, 1};
  {
    std::jthread other([&] { wrong[1] = look_up(table->begin<double>(), items, lookups, 12345); });
    wrong[0] = look_up(table->begin<double>(), items, lookups, 67890);
  }
  std::printf(
      "%llu lookups in a table of %llu values, %llu wrong; %llu blocks computed; %llu bytes "
      "of memory\n",
      2ull * lookups, static_cast<unsigned long long>(items),
      static_cast<unsigned long long>(wrong[0] + wrong[1]),
      static_cast<unsigned long long>(handler.computed()),
      static_cast<unsigned long long>(memory->memory_bytes()));
  return wrong[0] + wrong[1] == 0 ? 0 : 1;
}
