#pragma once

// A picture of requests in bounded size: the order of requests to the right, addresses upwards
// (figure 5 of Tuxedo).
//
// A dot per request needs more room than a page or a screen has for a trace of a billion requests,
// and a screen shows a thousand columns at once at any zoom. So the picture is a grid: a column
// stands for a number of successive requests, a row for a range of addresses, and a cell counts the
// column's requests that touched its row, reads and writes apart. A request that touches many rows
// counts in each of them.
//
// Requests come in order, so only one column is under construction: two arrays of differences
// (+1 at a request's first row, -1 behind its last row), which are summed up when the column is
// full. A request costs the same whether it is 512 bytes or a terabyte long.
//
// Finished columns are packed: rows that were not touched cost nothing. A picture that is still too
// large for its page is made coarser by joining columns in pairs, which is exact: a request belongs
// to one column.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "penstock/trace.h"

namespace penstock::report {

// Thread safety: none.
class Picture {
 public:
  struct Shape {
    uint64_t first = 0;     // order of the first request
    uint64_t requests = 1;  // requests shown, of order [first, first + requests)
    uint32_t columns = 1;   // upper limit; each column has the same whole number of requests
    uint32_t rows = 1;
    double addresses = 1;  // rows share [0, addresses)
  };

  explicit Picture(const Shape& shape);

  // Adds a request at addresses [low, high). Ignores it if its order is outside of the picture.
  // REQUIRES: orders never fall; low < high.
  void add(uint64_t order, double low, double high, trace::Access access);
  // Ends the picture after the last request.
  void finish();

  // All members below REQUIRE finish().

  // Joins columns in pairs: half as many columns, each for twice as many requests.
  void halve_columns();

  const Shape& shape() const { return shape_; }
  uint32_t columns() const { return columns_; }
  uint64_t requests_per_column() const { return requests_per_column_; }
  // Packed cells: per column the number of non-empty cells, and per cell: rows skipped since the
  // last one, reads, writes; put_number() each.
  const std::string& cells() const { return cells_; }
  // Calls `take` for each non-empty cell, by column, then by row.
  void for_each(const std::function<void(uint32_t column, uint32_t row, uint64_t reads,
                                         uint64_t writes)>& take) const;

  uint32_t row_of(double address) const;

 private:
  struct Cell {
    uint32_t row;
    uint64_t reads, writes;
  };
  void close_column();
  void pack(const std::vector<Cell>& column);
  // Reads the cells of the column at `at`. Returns the position of the next column.
  size_t unpack(size_t at, std::vector<Cell>& column) const;

  Shape shape_;
  uint64_t requests_per_column_;
  uint32_t columns_;
  double rows_per_address_;

  // The column under construction.
  uint32_t column_ = 0;
  bool touched_ = false;
  std::vector<int64_t> read_steps_, write_steps_;  // [rows + 1]

  std::vector<Cell> scratch_;
  std::string cells_;
};

}  // namespace penstock::report
