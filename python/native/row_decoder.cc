#include "row_decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>

#include "items/keys/codec.h"
#include "penstock/files.h"

// Decodes column by column, in the order of encoding: each column of all rows, then the next.

namespace penstock::python {
namespace {

constexpr size_t rows_decoded_at_once = 1024;

uint64_t read_length(const uint8_t*& from) {
  uint64_t length = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t byte = *from++;
    length |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return length;
  }
}

void put_bit(Buffer& bits, size_t i, bool bit) {
  if (i % 8 == 0) *bits.extend(1) = 0;
  bits.data()[i / 8] |= static_cast<uint8_t>(bit ? 1 << i % 8 : 0);
}

void put_zeros(Buffer& to, size_t bytes) {
  if (bytes > 0) std::memset(to.extend(bytes), 0, bytes);
}

void count(Gathered& to, bool valid) {
  if (to.column->layout != Layout::nothing) put_bit(to.valid, to.length, valid);
  ++to.length;
  to.nulls += valid ? 0 : 1;
}

// ---- One value.

const uint8_t* read(Gathered& to, const uint8_t* from);
void append_null(Gathered& to);

const uint8_t* read_items(Gathered& items, uint64_t count, const uint8_t* from) {
  const uint8_t* const bits = from;
  from += bytes_of_bits(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (bit_at(bits, i)) {
      from = read(items, from);
    } else {
      append_null(items);
    }
  }
  return from;
}

template <class Offset>
void put_offset(Gathered& to, uint64_t offset) {
  const auto end = static_cast<Offset>(offset);
  std::memcpy(to.values.extend(sizeof end), &end, sizeof end);
}
void put_offset(Gathered& to, uint64_t offset) {
  const bool is_short = to.column->layout == Layout::text32 || to.column->layout == Layout::list32;
  is_short ? put_offset<int32_t>(to, offset) : put_offset<int64_t>(to, offset);
}

void put_view(Gathered& to, uint64_t offset, uint64_t length) {
  const size_t width = to.column->layout == Layout::view32 ? 4 : 8;
  std::memcpy(to.values.extend(width), &offset, width);
  std::memcpy(to.text.extend(width), &length, width);
}

// Reads a value that is not null.
const uint8_t* read_value(Gathered& to, const uint8_t* from) {
  switch (to.column->layout) {
    case Layout::nothing:
      return from;
    case Layout::boolean:
      put_bit(to.values, to.length - 1, *from != 0);
      return from + 1;
    case Layout::fixed:
      if (to.column->width > 0)
        std::memcpy(to.values.extend(to.column->width), from, to.column->width);
      return from + to.column->width;
    case Layout::text32:
    case Layout::text64: {
      const uint64_t bytes = read_length(from);
      if (bytes > 0) std::memcpy(to.text.extend(bytes), from, bytes);
      put_offset(to, to.text.size());
      return from + bytes;
    }
    case Layout::list32:
    case Layout::list64: {
      const uint64_t count = read_length(from);
      from = read_items(to.children[0], count, from);
      put_offset(to, to.children[0].length);
      return from;
    }
    case Layout::view32:
    case Layout::view64: {
      const uint64_t count = read_length(from);
      put_view(to, to.children[0].length, count);
      return read_items(to.children[0], count, from);
    }
    case Layout::fixed_list:
      return read_items(to.children[0], to.column->width, from);
    case Layout::structure: {
      const uint8_t* const bits = from;
      from += bytes_of_bits(to.children.size());
      for (size_t field = 0; field < to.children.size(); ++field) {
        if (bit_at(bits, field)) {
          from = read(to.children[field], from);
        } else {
          append_null(to.children[field]);
        }
      }
      return from;
    }
  }
  return from;
}

const uint8_t* read(Gathered& to, const uint8_t* from) {
  count(to, true);
  return read_value(to, from);
}

void append_null(Gathered& to) {
  count(to, false);
  switch (to.column->layout) {
    case Layout::nothing:
      break;
    case Layout::boolean:
      put_bit(to.values, to.length - 1, false);
      break;
    case Layout::fixed:
      put_zeros(to.values, to.column->width);
      break;
    case Layout::text32:
    case Layout::text64:
      put_offset(to, to.text.size());
      break;
    case Layout::list32:
    case Layout::list64:
      put_offset(to, to.children[0].length);
      break;
    case Layout::view32:
    case Layout::view64:
      put_view(to, 0, 0);
      break;
    case Layout::fixed_list:
      for (size_t i = 0; i < to.column->width; ++i) append_null(to.children[0]);
      break;
    case Layout::structure:
      for (Gathered& child : to.children) append_null(child);
      break;
  }
}

// ---- Values of keys.

template <class Bits>
void read_number(Order order, const uint8_t* from, uint8_t flip, uint8_t* to) {
  auto bits = std::byteswap(items::load<Bits>(from));
  if (flip != 0) bits = static_cast<Bits>(~bits);
  if (order == Order::signed_number) bits = items::SignedCodec<Bits>::decode(bits);
  std::memcpy(to, &bits, sizeof bits);
}

void read_fixed(const Column& column, const uint8_t* from, uint8_t flip, uint8_t* to) {
  const size_t width = column.width;
  if (column.order != Order::bytes) {
    if (width == 8) return read_number<uint64_t>(column.order, from, flip, to);
    if (width == 4) return read_number<uint32_t>(column.order, from, flip, to);
    if (width == 2) return read_number<uint16_t>(column.order, from, flip, to);
    if (width == 1) return read_number<uint8_t>(column.order, from, flip, to);
  }
  for (size_t i = 0; i < width; ++i) to[i] = from[i] ^ flip;
  if (column.order == Order::bytes) return;
  to[0] ^= 0x80;  // a decimal: little-endian and signed
  std::reverse(to, to + width);
}

// Reads a text that ends before `end`, or at `end` if it is the last of a key, and returns the
// position behind it. Returns nullptr if the text does not end.
const uint8_t* read_text(const uint8_t* from, const uint8_t* end, bool is_last, uint8_t flip,
                         Buffer& to) {
  const auto left = static_cast<size_t>(end - from);
  if (is_last) {
    if (left > 0) std::memcpy(to.extend(left), from, left);
    return end;
  }
  const auto* const stop = static_cast<const uint8_t*>(std::memchr(from, flip, left));
  if (stop == nullptr) return nullptr;
  const auto bytes = static_cast<size_t>(stop - from);
  uint8_t* const begin = to.extend(bytes);
  uint8_t* at = begin;
  while (from < stop) {
    const uint8_t byte = *from++ ^ flip;
    *at++ = byte == 1 && from < stop ? static_cast<uint8_t>((*from++ ^ flip) - 1) : byte;
  }
  to.shorten(bytes - static_cast<size_t>(at - begin));
  return stop + 1;
}

// ---- Export to Arrow.

// The memory that an exported array holds until it is released. Its children release themselves.
struct Held {
  std::shared_ptr<Gathered> batch;
  std::vector<const void*> pointers;
  std::vector<std::unique_ptr<ArrowArray>> arrays;
  std::vector<ArrowArray*> children;
};

void release(ArrowArray* array) {
  auto* const held = static_cast<Held*>(array->private_data);
  for (const auto& child : held->arrays) {
    if (child->release != nullptr) child->release(child.get());
  }
  array->release = nullptr;
  delete held;
}

// `from` is a part of `batch`.
ArrowArray exported(const Gathered& from, const std::shared_ptr<Gathered>& batch) {
  auto held = std::make_unique<Held>();
  held->batch = batch;
  // Only the buffer of validity bits may be null.
  static constexpr uint64_t nothing = 0;
  auto add = [&](const Buffer& buffer) {
    held->pointers.push_back(buffer.size() > 0 ? static_cast<const void*>(buffer.data())
                                               : &nothing);
  };
  const Layout layout = from.column->layout;
  if (layout != Layout::nothing)
    held->pointers.push_back(from.nulls > 0 ? from.valid.data() : nullptr);
  if (layout != Layout::nothing && layout != Layout::structure && layout != Layout::fixed_list)
    add(from.values);
  if (layout == Layout::text32 || layout == Layout::text64 || layout == Layout::view32 ||
      layout == Layout::view64)
    add(from.text);
  for (const Gathered& child : from.children) {
    held->arrays.push_back(std::make_unique<ArrowArray>(exported(child, batch)));
    held->children.push_back(held->arrays.back().get());
  }
  ArrowArray array{};
  array.length = static_cast<int64_t>(from.length);
  array.null_count = static_cast<int64_t>(from.nulls);
  array.n_buffers = static_cast<int64_t>(held->pointers.size());
  array.buffers = held->pointers.data();
  array.n_children = static_cast<int64_t>(held->children.size());
  array.children = held->children.data();
  array.release = release;
  array.private_data = held.release();
  return array;
}

std::unexpected<Error> damaged() {
  return std::unexpected(
      Error{.code = ErrorCode::corrupt,
            .attempted = "take apart the rows that were sorted",
            .hint = "the same once more; if it happens again, a test of the memory"});
}

}  // namespace

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      capacity_(std::exchange(other.capacity_, 0)) {}

void Buffer::grow(size_t bytes) {
  resize(std::max(size_ + bytes, 2 * capacity_));
}

void Buffer::resize(size_t capacity) {
  void* const more = std::realloc(data_, capacity);
  if (more == nullptr) throw std::bad_alloc();
  data_ = static_cast<uint8_t*>(more);
  capacity_ = capacity;
}

Gathered::Gathered(const Column& of) : column(&of) {
  for (const Column& child : of.children) children.emplace_back(child);
  clear();
}

void Gathered::clear() {
  length = nulls = 0;
  valid.clear();
  values.clear();
  text.clear();
  for (Gathered& child : children) child.clear();
  const Layout layout = column->layout;
  const bool has_offsets = layout == Layout::text32 || layout == Layout::text64 ||
                           layout == Layout::list32 || layout == Layout::list64;
  if (has_offsets) put_offset(*this, 0);
}

void Gathered::reserve(const Gathered& as) {
  valid.reserve(as.valid.size());
  values.reserve(as.values.size());
  text.reserve(as.text.size() + as.text.size() / 16);
  for (size_t i = 0; i < children.size(); ++i) children[i].reserve(as.children[i]);
}

// Released batches, whose memory is used again.
struct RowDecoder::Spare {
  std::mutex mutex;
  std::vector<std::unique_ptr<Gathered>> batches;
};

RowDecoder::RowDecoder(const Column& table, const std::vector<SortKey>& keys,
                       const BatchLimits& limits)
    : table_(std::make_unique<const Column>(table)),
      keys_(keys),
      payload_(payload_columns(table, keys)),
      limits_(limits),
      spare_(std::make_shared<Spare>()) {
  begin(nullptr);
}

void RowDecoder::begin(const Gathered* before) {
  bytes_ = 0;
  full_ = false;
  {
    const std::lock_guard lock(spare_->mutex);
    if (!spare_->batches.empty()) {
      gathered_ = std::move(spare_->batches.back());
      spare_->batches.pop_back();
    }
  }
  if (gathered_ != nullptr) {
    gathered_->clear();
  } else {
    gathered_ = std::make_unique<Gathered>(*table_);
    if (before != nullptr) gathered_->reserve(*before);
  }
}

Result<size_t> RowDecoder::add(std::span<const std::byte> data) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(data.data());
  const size_t bits_bytes = bytes_of_bits(payload_.size());
  size_t done = 0;
  for (;;) {
    at_hand_.clear();
    while (at_hand_.size() < rows_decoded_at_once && !full_ &&
           data.size() - done >= RowHead::bytes) {
      const RowHead head = RowHead::at(begin + done);
      if (head.row_bytes < RowHead::bytes + bits_bytes ||
          head.key_bytes > head.row_bytes - RowHead::bytes - bits_bytes)
        return damaged();
      const size_t rows = this->rows() + at_hand_.size();
      full_ = rows > 0 && bytes_ + head.row_bytes > limits_.bytes;
      if (full_ || head.row_bytes > data.size() - done) break;
      const uint8_t* const key = begin + done + RowHead::bytes;
      const uint8_t* const bits = key + head.key_bytes;
      done += head.row_bytes;
      bytes_ += head.row_bytes;
      at_hand_.push_back({.key = key, .bits = bits, .at = bits + bits_bytes, .end = begin + done});
      full_ = rows + 1 == limits_.rows;
    }
    if (at_hand_.empty()) return done;
    for (size_t number = 0; number < keys_.size(); ++number) {
      if (!read_key(number)) return damaged();
    }
    for (size_t number = 0; number < payload_.size(); ++number)
      read_column(payload_[number], number);
    gathered_->length += at_hand_.size();
    if (std::ranges::any_of(
            at_hand_, [](const Row& row) { return row.key != row.bits || row.at != row.end; }))
      return damaged();
  }
}

// Returns false if the values do not end where the key ends.
bool RowDecoder::read_key(size_t number) {
  const SortKey& key = keys_[number];
  Gathered& to = gathered_->children[key.column];
  const Column& column = *to.column;
  const bool is_text = column.layout == Layout::text32 || column.layout == Layout::text64;
  const bool is_last = number + 1 == keys_.size() && !key.descending;
  const bool in_key = key_contains_value(column);
  const uint8_t flip = key.descending ? 0xff : 0;
  const size_t width = is_text || column.layout == Layout::nothing ? 0 : column.width;
  for (Row& row : at_hand_) {
    if (row.key == row.bits) return false;
    const bool valid = *row.key++ == 1;
    if (valid && static_cast<size_t>(row.bits - row.key) < width) return false;
    if (in_key && !valid) append_null(to);
    if (!valid) continue;
    if (in_key) count(to, true);
    if (is_text) {
      row.key = read_text(row.key, row.bits, is_last, flip, to.text);
      if (row.key == nullptr) return false;
      put_offset(to, to.text.size());
      continue;
    }
    if (in_key && column.layout == Layout::boolean)
      put_bit(to.values, to.length - 1, *row.key != flip);
    else if (in_key)
      read_fixed(column, row.key, flip, to.values.extend(width));
    row.key += width;
  }
  return true;
}

void RowDecoder::read_column(size_t column, size_t number) {
  Gathered& to = gathered_->children[column];
  for (Row& row : at_hand_) {
    if (bit_at(row.bits, number)) {
      row.at = read(to, row.at);
    } else {
      append_null(to);
    }
  }
}

ArrowArray RowDecoder::finish() {
  const std::shared_ptr<Gathered> batch(gathered_.release(), [spare = spare_](Gathered* done) {
    const std::lock_guard lock(spare->mutex);
    spare->batches.emplace_back(done);
  });
  const ArrowArray array = exported(*batch, batch);
  begin(batch.get());
  return array;
}

}  // namespace penstock::python
