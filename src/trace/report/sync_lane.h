#pragma once

// The syncs of a trace on the axis of its requests, in bounded memory.
//
// A cell stands for a number of successive requests: it counts the syncs between them. Only cells
// with syncs are kept. When they become too many, neighbours are joined, as the columns of a Picture
// are: a trace with few syncs has each at its place, and one with many has their number.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace penstock::report {

// Thread safety: none.
class SyncLane {
 public:
  struct Cell {
    uint64_t place;  // the cell's requests are [place, place + 1) * requests_per_cell()
    uint64_t syncs;
    uint64_t slowest_ns;
  };

  // Adds a sync in front of the request of this order. REQUIRES: orders never fall.
  void add(uint64_t order, uint64_t latency_ns) {
    put({order / requests_per_cell_, 1, latency_ns});
    while (cells_.size() > cells_max) join();
  }

  uint64_t requests_per_cell() const { return requests_per_cell_; }
  const std::vector<Cell>& cells() const { return cells_; }

  static constexpr size_t cells_max = 16'384;

 private:
  void put(const Cell& cell) {
    if (cells_.empty() || cells_.back().place != cell.place) {
      cells_.push_back(cell);
      return;
    }
    cells_.back().syncs += cell.syncs;
    cells_.back().slowest_ns = std::max(cells_.back().slowest_ns, cell.slowest_ns);
  }
  void join() {
    requests_per_cell_ *= 2;
    std::vector<Cell> fine;
    fine.swap(cells_);
    for (const Cell& cell : fine) put({cell.place / 2, cell.syncs, cell.slowest_ns});
  }

  uint64_t requests_per_cell_ = 1;
  std::vector<Cell> cells_;
};

}  // namespace penstock::report
