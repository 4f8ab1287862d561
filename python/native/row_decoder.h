#pragma once

// Rows that row_encoder.h made as Arrow's batches again.

#include <cstdint>
#include <span>
#include <vector>

#include "arrow.h"

namespace penstock::python {

// Grows as a vector, without zeros that are written over.
class Buffer {
 public:
  uint8_t* extend(size_t bytes) {
    const size_t begin = bytes_.size();
    bytes_.resize(begin + bytes);
    return bytes_.data() + begin;
  }
  const uint8_t* data() const { return bytes_.data(); }
  size_t size() const { return bytes_.size(); }

 private:
  std::vector<uint8_t> bytes_;
};

// The values of a column, as far as they have come.
struct Gathered {
  explicit Gathered(const Column& of);

  const Column* column;
  size_t length = 0;
  size_t nulls = 0;
  std::vector<bool> valid = {};
  Buffer values = {};  // or the offsets of texts and lists
  Buffer text = {};    // or the lengths of views
  std::vector<Gathered> children = {};
};

// Thread safety: one thread.
class RowDecoder {
 public:
  explicit RowDecoder(Column table) : table_(std::move(table)), gathered_(table_) {}
  RowDecoder(const RowDecoder&) = delete;
  RowDecoder& operator=(const RowDecoder&) = delete;

  // Takes the whole rows that are there, until `rows_max` or `bytes_max` is reached; how many bytes. Errors: corrupt.
  Result<size_t> add(std::span<const std::byte> data, size_t rows_max, size_t bytes_max);
  size_t rows() const { return gathered_.length; }
  // Of the rows that were added.
  size_t bytes() const { return bytes_; }
  // What was added, which is the caller's to release; the next batch begins.
  ArrowArray finish();

 private:
  Column table_;
  Gathered gathered_;
  size_t bytes_ = 0;
  struct Row {
    const uint8_t* bits;
    const uint8_t* at;  // what was not taken yet
    const uint8_t* end;
  };
  std::vector<Row> at_hand_;
};

}  // namespace penstock::python
