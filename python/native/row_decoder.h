#pragma once

// Rows that row_encoder.h made as Arrow's batches again.

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "arrow.h"
#include "row_encoder.h"

namespace penstock::python {

struct BatchLimits {
  size_t rows = 65536;
  size_t bytes = 8 * MiB;  // of the rows that a batch is made of
};

// Grows as a vector, without zeros that are written over, and keeps its memory when it is emptied.
class Buffer {
 public:
  Buffer() = default;
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&&) = delete;
  ~Buffer() { std::free(data_); }

  uint8_t* extend(size_t bytes) {
    if (bytes > capacity_ - size_) grow(bytes);
    size_ += bytes;
    return data_ + size_ - bytes;
  }
  void reserve(size_t bytes) {
    if (bytes > capacity_) resize(bytes);
  }
  void shorten(size_t bytes) { size_ -= bytes; }
  void clear() { size_ = 0; }
  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

 private:
  void grow(size_t bytes);
  void resize(size_t capacity);

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

// The values of a column, as far as they have come, as Arrow has them.
struct Gathered {
  explicit Gathered(const Column& of);
  // As it was made, with the memory that it has.
  void clear();
  // Room for as much as another one has.
  void reserve(const Gathered& as);

  const Column* column;
  size_t length = 0;
  size_t nulls = 0;
  Buffer valid = {};   // bits
  Buffer values = {};  // or bits of booleans, or the offsets of texts and lists
  Buffer text = {};    // or the lengths of views
  std::vector<Gathered> children = {};
};

// The memory of a batch is used again when it is released: fresh memory costs as much as what is done with it.
//
// Thread safety: one thread; batches are released by any.
class RowDecoder {
 public:
  RowDecoder(const Column& table, const std::vector<SortKey>& keys, const BatchLimits& limits);
  RowDecoder(RowDecoder&&) = default;

  // Takes the whole rows that are there, until the batch is full; how many bytes. Errors: corrupt.
  Result<size_t> add(std::span<const std::byte> data);
  size_t rows() const { return gathered_->length; }
  bool is_full() const { return full_; }
  // What was added, which is the caller's to release; the next batch begins.
  ArrowArray finish();

 private:
  struct Row {
    const uint8_t* key;   // what was not taken of it
    const uint8_t* bits;  // behind the key
    const uint8_t* at;    // what was not taken of the payload
    const uint8_t* end;
  };
  struct Spare;

  bool take_key(size_t number);
  void take_column(size_t column, size_t number);
  void begin(const Gathered* before);

  std::unique_ptr<const Column> table_;
  std::vector<SortKey> keys_;
  std::vector<size_t> payload_;
  BatchLimits limits_;
  std::shared_ptr<Spare> spare_;
  std::unique_ptr<Gathered> gathered_;
  size_t bytes_ = 0;  // of the rows that were added
  bool full_ = false;
  std::vector<Row> at_hand_;
};

}  // namespace penstock::python
