#include "row_decoder.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "penstock/files.h"

// Column by column, as they were written: all rows that are at hand give their first value, and then their second.

namespace penstock::python {
namespace {

constexpr size_t rows_at_once = 1024;

uint64_t take_length(const uint8_t*& from) {
  uint64_t length = 0;
  for (int shift = 0;; shift += 7) {
    const uint8_t byte = *from++;
    length |= uint64_t{byte & 127u} << shift;
    if (byte < 128) return length;
  }
}

// ---- One value.

const uint8_t* take(Gathered& to, const uint8_t* from);
void take_null(Gathered& to);

const uint8_t* take_items(Gathered& items, uint64_t count, const uint8_t* from) {
  const uint8_t* const bits = from;
  from += bytes_of_bits(count);
  for (uint64_t i = 0; i < count; ++i) {
    if (bit_at(bits, i)) {
      from = take(items, from);
    } else {
      take_null(items);
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

// What it is made of.
const uint8_t* take_value(Gathered& to, const uint8_t* from) {
  switch (to.column->layout) {
    case Layout::nothing:
      return from;
    case Layout::boolean:
      *to.values.extend(1) = *from;
      return from + 1;
    case Layout::fixed:
      if (to.column->width > 0)
        std::memcpy(to.values.extend(to.column->width), from, to.column->width);
      return from + to.column->width;
    case Layout::text32:
    case Layout::text64: {
      const uint64_t bytes = take_length(from);
      if (bytes > 0) std::memcpy(to.text.extend(bytes), from, bytes);
      put_offset(to, to.text.size());
      return from + bytes;
    }
    case Layout::list32:
    case Layout::list64: {
      const uint64_t count = take_length(from);
      from = take_items(to.children[0], count, from);
      put_offset(to, to.children[0].length);
      return from;
    }
    case Layout::view32:
    case Layout::view64: {
      const uint64_t count = take_length(from);
      put_view(to, to.children[0].length, count);
      return take_items(to.children[0], count, from);
    }
    case Layout::fixed_list:
      return take_items(to.children[0], to.column->width, from);
    case Layout::structure: {
      const uint8_t* const bits = from;
      from += bytes_of_bits(to.children.size());
      for (size_t field = 0; field < to.children.size(); ++field) {
        if (bit_at(bits, field)) {
          from = take(to.children[field], from);
        } else {
          take_null(to.children[field]);
        }
      }
      return from;
    }
  }
  return from;
}

const uint8_t* take(Gathered& to, const uint8_t* from) {
  ++to.length;
  to.valid.push_back(true);
  return take_value(to, from);
}

void take_null(Gathered& to) {
  ++to.length;
  ++to.nulls;
  to.valid.push_back(false);
  switch (to.column->layout) {
    case Layout::nothing:
      break;
    case Layout::boolean:
      to.values.extend(1);
      break;
    case Layout::fixed:
      to.values.extend(to.column->width);
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
      for (size_t i = 0; i < to.column->width; ++i) take_null(to.children[0]);
      break;
    case Layout::structure:
      for (Gathered& child : to.children) take_null(child);
      break;
  }
}

// ---- As Arrow has it.

// What an array holds until it is released. Its children release themselves.
struct Held {
  std::vector<Buffer> buffers;
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

// Bits of bytes.
template <class At>
Buffer packed(size_t count, At at) {
  Buffer bits;
  uint8_t* to = bits.extend(bytes_of_bits(count));
  for (size_t i = 0; i < count; ++i) {
    if (at(i)) to[i / 8] |= static_cast<uint8_t>(1 << i % 8);
  }
  return bits;
}

ArrowArray exported(Gathered& from) {
  auto held = std::make_unique<Held>();
  const Layout layout = from.column->layout;
  const bool has_bits = layout != Layout::nothing;
  const bool any_null = has_bits && from.nulls > 0;
  if (has_bits) {
    held->buffers.push_back(
        any_null ? packed(from.length, [&](size_t i) { return bool(from.valid[i]); }) : Buffer());
  }
  if (layout == Layout::boolean) {
    held->buffers.push_back(
        packed(from.length, [&](size_t i) { return from.values.data()[i] != 0; }));
  } else if (has_bits && layout != Layout::structure && layout != Layout::fixed_list) {
    held->buffers.push_back(std::move(from.values));
  }
  if (layout == Layout::text32 || layout == Layout::text64 || layout == Layout::view32 ||
      layout == Layout::view64)
    held->buffers.push_back(std::move(from.text));
  // No buffer but that of the bits may be missing.
  static constexpr uint64_t nothing = 0;
  for (const Buffer& buffer : held->buffers)
    held->pointers.push_back(buffer.size() > 0 ? static_cast<const void*>(buffer.data())
                                               : &nothing);
  if (has_bits && !any_null) held->pointers[0] = nullptr;
  for (Gathered& child : from.children) {
    held->arrays.push_back(std::make_unique<ArrowArray>(exported(child)));
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

Gathered::Gathered(const Column& of) : column(&of) {
  for (const Column& child : of.children) children.emplace_back(child);
  const bool has_offsets = of.layout == Layout::text32 || of.layout == Layout::text64 ||
                           of.layout == Layout::list32 || of.layout == Layout::list64;
  if (has_offsets) put_offset(*this, 0);
}

Result<size_t> RowDecoder::add(std::span<const std::byte> data, size_t rows_max, size_t bytes_max) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(data.data());
  const size_t bits_bytes = bytes_of_bits(table_.children.size());
  size_t done = 0;
  for (;;) {
    at_hand_.clear();
    const size_t wanted = std::min(rows_at_once, rows_max - std::min(rows_max, rows()));
    while (at_hand_.size() < wanted && bytes_ < bytes_max && data.size() - done >= RowHead::bytes) {
      const RowHead head = RowHead::at(begin + done);
      if (head.row_bytes < RowHead::bytes + bits_bytes ||
          head.key_bytes > head.row_bytes - RowHead::bytes - bits_bytes)
        return damaged();
      if (head.row_bytes > data.size() - done) break;
      const uint8_t* const bits = begin + done + RowHead::bytes + head.key_bytes;
      done += head.row_bytes;
      bytes_ += head.row_bytes;
      at_hand_.push_back({.bits = bits, .at = bits + bits_bytes, .end = begin + done});
    }
    if (at_hand_.empty()) return done;
    for (size_t number = 0; number < table_.children.size(); ++number) {
      Gathered& column = gathered_.children[number];
      for (Row& row : at_hand_) {
        if (bit_at(row.bits, number)) {
          row.at = take(column, row.at);
        } else {
          take_null(column);
        }
      }
    }
    gathered_.length += at_hand_.size();
    if (std::ranges::any_of(at_hand_, [](const Row& row) { return row.at != row.end; }))
      return damaged();
  }
}

ArrowArray RowDecoder::finish() {
  ArrowArray array = exported(gathered_);
  gathered_ = Gathered(table_);
  bytes_ = 0;
  return array;
}

}  // namespace penstock::python
