#pragma once

// Converts rows of row_encoder.h back to Arrow's batches.

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
  size_t bytes = 8 * MiB;  // bytes of the rows in a batch
};

// A vector that grows without zeroing, and keeps its memory when it is emptied.
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

// The values of a column so far, in Arrow's layout.
struct Gathered {
  explicit Gathered(const Column& of);
  // Empties it, and keeps its memory.
  void clear();
  // Reserves as much room as another one has.
  void reserve(const Gathered& as);

  const Column* column;
  size_t length = 0;
  size_t nulls = 0;
  Buffer valid = {};   // bits
  Buffer values = {};  // or bits of booleans, or the offsets of texts and lists
  Buffer text = {};    // or the lengths of views
  std::vector<Gathered> children = {};
};

// The memory of a batch is used again when it is released, because touching fresh memory costs as
// much as decoding into it.
//
// Thread safety: one thread; batches may be released by any thread.
class RowDecoder {
 public:
  RowDecoder(const Column& table, const std::vector<SortKey>& keys, const BatchLimits& limits);
  RowDecoder(RowDecoder&&) = default;

  // Adds whole rows of `data` until the batch is full, and returns their bytes. Errors: corrupt.
  Result<size_t> add(std::span<const std::byte> data);
  size_t rows() const { return gathered_->length; }
  bool is_full() const { return full_; }
  // Returns the rows added so far, which the caller has to release, and begins the next batch.
  ArrowArray finish();

 private:
  struct Row {
    const uint8_t* key;   // the part of the key that is not read yet
    const uint8_t* bits;  // end of the key
    const uint8_t* at;    // the part of the payload that is not read yet
    const uint8_t* end;
  };
  struct Spare;

  bool read_key(size_t number);
  void read_column(size_t column, size_t number);
  void begin(const Gathered* before);

  std::unique_ptr<const Column> table_;
  std::vector<SortKey> keys_;
  std::vector<size_t> payload_;
  BatchLimits limits_;
  std::shared_ptr<Spare> spare_;
  std::unique_ptr<Gathered> gathered_;
  size_t bytes_ = 0;  // bytes of the rows added
  bool full_ = false;
  std::vector<Row> at_hand_;
};

}  // namespace penstock::python
