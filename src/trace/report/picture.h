#pragma once

// Where requests went, as a picture of bounded size: the order of requests to the right, addresses
// upwards (figure 5 of Tuxedo).
//
// The naive way draws a dot per request. A trace of a billion requests has no room for that, in a
// page or on a screen, and a screen shows a thousand columns at once however far one looks. So the
// picture is a grid: a column stands for a number of successive requests, a row for a stretch of
// addresses, and a cell says how many of the column's requests touched its row, reads and writes
// apart. A request that touches many rows counts in each of them.
//
// Requests come in order, so that only one column is under construction: two arrays of differences
// (+1 at the row where a request begins, -1 behind the one where it ends), which are summed up when
// the column is full. A request costs the same whether it is 512 bytes or a terabyte long.
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
    uint64_t first = 0;     // the order of its first request
    uint64_t requests = 1;  // how many it shows: those of order [first, first + requests)
    uint32_t columns = 1;   // at most: each has the same whole number of requests
    uint32_t rows = 1;
    double addresses = 1;  // rows share [0, addresses)
  };

  explicit Picture(const Shape& shape);

  // A request at addresses [low, high). One outside of the picture's range of orders changes
  // nothing. REQUIRES: orders never fall; low < high.
  void add(uint64_t order, double low, double high, trace::Access access);
  // After the last request.
  void finish();

  // The rest: REQUIRES finish().

  // Half as many columns, each for twice as many requests.
  void halve_columns();

  const Shape& shape() const { return shape_; }
  uint32_t columns() const { return columns_; }
  uint64_t requests_per_column() const { return requests_per_column_; }
  // Per column the number of cells that are not empty, and per cell: rows skipped since the last
  // one, reads, writes; put_number() each.
  const std::string& cells() const { return cells_; }
  // The cells that are not empty, by column, then by row.
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
  // Reads one column's cells from `at` on; returns where the next one's begin.
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
