#include "trace/report/picture.h"

#include <algorithm>

#include "base/check.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

uint64_t get_number(const std::string& from, size_t& at) {
  uint64_t number = 0;
  for (unsigned shift = 0;; shift += 7) {
    const auto byte = static_cast<uint8_t>(from[at++]);
    number |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return number;
  }
}

}  // namespace

Picture::Picture(const Shape& shape)
    : shape_(shape),
      requests_per_column_(std::max<uint64_t>(
          1, shape.requests / shape.columns + (shape.requests % shape.columns != 0))),
      columns_(static_cast<uint32_t>(shape.requests / requests_per_column_ +
                                     (shape.requests % requests_per_column_ != 0))),
      rows_per_address_(shape.rows / shape.addresses),
      read_steps_(shape.rows + 1),
      write_steps_(shape.rows + 1) {
  PENSTOCK_CHECK(shape.columns > 0 && shape.rows > 0 && shape.addresses > 0,
                 "a picture has columns, rows and addresses");
}

uint32_t Picture::row_of(double address) const {
  const double row = address * rows_per_address_;
  return row <= 0 ? 0 : row >= shape_.rows ? shape_.rows - 1 : static_cast<uint32_t>(row);
}

void Picture::add(uint64_t order, double low, double high, trace::Access access) {
  if (order < shape_.first || order - shape_.first >= shape_.requests) return;
  const auto column = static_cast<uint32_t>((order - shape_.first) / requests_per_column_);
  while (column_ < column) close_column();

  const uint32_t first = row_of(low);
  uint32_t last = row_of(high);
  // A request that ends where a row begins does not touch that row.
  if (last > first && static_cast<double>(last) >= high * rows_per_address_) --last;
  std::vector<int64_t>& steps = access == trace::Access::read ? read_steps_ : write_steps_;
  ++steps[first];
  --steps[last + 1];
  touched_ = true;
}

void Picture::finish() {
  while (column_ < columns_) close_column();
  read_steps_ = {};
  write_steps_ = {};
}

void Picture::close_column() {
  scratch_.clear();
  if (touched_) {
    int64_t reads = 0, writes = 0;
    for (uint32_t row = 0; row < shape_.rows; ++row) {
      reads += read_steps_[row];
      writes += write_steps_[row];
      if (reads + writes > 0) {
        scratch_.push_back({row, static_cast<uint64_t>(reads), static_cast<uint64_t>(writes)});
      }
    }
    std::ranges::fill(read_steps_, 0);
    std::ranges::fill(write_steps_, 0);
    touched_ = false;
  }
  pack(scratch_);
  ++column_;
}

void Picture::pack(const std::vector<Cell>& column) {
  put_number(cells_, column.size());
  uint32_t row = 0;
  for (const Cell& cell : column) {
    put_number(cells_, cell.row - row);
    put_number(cells_, cell.reads);
    put_number(cells_, cell.writes);
    row = cell.row + 1;
  }
}

size_t Picture::unpack(size_t at, std::vector<Cell>& column) const {
  column.resize(get_number(cells_, at));
  uint32_t row = 0;
  for (Cell& cell : column) {
    cell.row = row + static_cast<uint32_t>(get_number(cells_, at));
    cell.reads = get_number(cells_, at);
    cell.writes = get_number(cells_, at);
    row = cell.row + 1;
  }
  return at;
}

void Picture::for_each(
    const std::function<void(uint32_t, uint32_t, uint64_t, uint64_t)>& take) const {
  std::vector<Cell> cells;
  size_t at = 0;
  for (uint32_t column = 0; column < columns_; ++column) {
    at = unpack(at, cells);
    for (const Cell& cell : cells) take(column, cell.row, cell.reads, cell.writes);
  }
}

void Picture::halve_columns() {
  PENSTOCK_CHECK(column_ == columns_, "a picture that is finished");
  Picture coarse({.first = shape_.first, .requests = 0, .rows = shape_.rows, .addresses = 1});
  std::vector<Cell> left, right, both;
  size_t at = 0;
  for (uint32_t column = 0; column < columns_; column += 2) {
    at = unpack(at, left);
    right.clear();
    if (column + 1 < columns_) at = unpack(at, right);
    both.clear();
    auto r = right.begin();
    for (const Cell& cell : left) {
      while (r != right.end() && r->row < cell.row) both.push_back(*r++);
      both.push_back(cell);
      if (r != right.end() && r->row == cell.row) {
        both.back().reads += r->reads;
        both.back().writes += r->writes;
        ++r;
      }
    }
    both.insert(both.end(), r, right.end());
    coarse.pack(both);
  }
  cells_ = std::move(coarse.cells_);
  columns_ = columns_ / 2 + columns_ % 2;
  column_ = columns_;
  requests_per_column_ *= 2;
  shape_.columns = columns_;
}

}  // namespace penstock::report
