#include "row_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "items/keys/codec.h"
#include "penstock/files.h"

// A batch is columns, and a row has values of all of them: writing row by row takes a branch on the
// type for each value. So a thousand rows are measured at a time, column by column, and then
// written in the same way: the branch is taken once per column, and the rows stay in the cache
// until the last column has been added.

namespace penstock::python {
namespace {

constexpr size_t rows_encoded_at_once = 1024;

// The values of a column, or of a list's items, in a batch.
struct Values {
  const Column* column;
  const ArrowArray* array;
  int64_t offset;  // index of value 0
  const uint8_t* validity = nullptr;
  std::vector<Values> children = {};

  // `shift` is added to the array's own offset.
  Values(const Column& of, const ArrowArray& from, int64_t shift)
      : column(&of), array(&from), offset(from.offset + shift) {
    const bool has_bits = of.layout != Layout::nothing && from.n_buffers > 0;
    if (has_bits && from.null_count != 0) validity = static_cast<const uint8_t*>(from.buffers[0]);
    const bool in_step = of.layout == Layout::structure;
    for (size_t i = 0; i < of.children.size(); ++i)
      children.emplace_back(of.children[i], *from.children[i], in_step ? offset : 0);
  }

  bool any_null() const { return validity != nullptr || column->layout == Layout::nothing; }
  bool valid(size_t i) const {
    if (column->layout == Layout::nothing) return false;
    return validity == nullptr || bit_at(validity, offset + static_cast<int64_t>(i));
  }
  template <class T>
  const T* buffer(size_t number) const {
    return static_cast<const T*>(array->buffers[number]);
  }
  const uint8_t* fixed(size_t i) const {
    return buffer<uint8_t>(1) +
           (offset + static_cast<int64_t>(i)) * static_cast<int64_t>(column->width);
  }
  bool boolean(size_t i) const {
    return bit_at(array->buffers[1], offset + static_cast<int64_t>(i));
  }
  template <class Offset>
  std::pair<uint64_t, uint64_t> range(size_t i) const {
    const Offset* at = buffer<Offset>(1) + offset + static_cast<int64_t>(i);
    return {static_cast<uint64_t>(at[0]), static_cast<uint64_t>(at[1])};
  }
  template <class Offset>
  std::pair<uint64_t, uint64_t> view(size_t i) const {
    const int64_t at = offset + static_cast<int64_t>(i);
    const auto begin = static_cast<uint64_t>(buffer<Offset>(1)[at]);
    return {begin, begin + static_cast<uint64_t>(buffer<Offset>(2)[at])};
  }
  // The range of a text's bytes, or of a list's items.
  std::pair<uint64_t, uint64_t> range(size_t i) const {
    switch (column->layout) {
      case Layout::text32:
      case Layout::list32:
        return range<int32_t>(i);
      case Layout::view32:
        return view<int32_t>(i);
      case Layout::view64:
        return view<int64_t>(i);
      case Layout::fixed_list: {
        const auto begin = (offset + static_cast<int64_t>(i)) * static_cast<int64_t>(column->width);
        return {begin, begin + static_cast<int64_t>(column->width)};
      }
      default:
        return range<int64_t>(i);
    }
  }
  std::span<const uint8_t> text(size_t i) const {
    const auto [begin, end] = range(i);
    return {buffer<uint8_t>(2) + begin, end - begin};
  }
};

uint8_t* put_bytes(const void* from, size_t bytes, uint8_t* to) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return to + bytes;
}

// ---- One value of any type: its size, and its bytes.

class Measure {
 public:
  explicit Measure(uint64_t& bytes) : bytes_(bytes) {}
  void byte(uint8_t) { ++bytes_; }
  void bytes(const void*, size_t count) { bytes_ += count; }
  uint8_t* bits(size_t count) {
    bytes_ += bytes_of_bits(count);
    return nullptr;
  }
  static void set(uint8_t*, size_t) {}

 private:
  uint64_t& bytes_;
};

class Write {
 public:
  explicit Write(uint8_t*& to) : to_(to) {}
  void byte(uint8_t byte) { *to_++ = byte; }
  void bytes(const void* from, size_t count) { to_ = put_bytes(from, count, to_); }
  uint8_t* bits(size_t count) {
    uint8_t* const bits = to_;
    std::memset(bits, 0, bytes_of_bits(count));
    to_ += bytes_of_bits(count);
    return bits;
  }
  static void set(uint8_t* bits, size_t i) { bits[i / 8] |= static_cast<uint8_t>(1 << i % 8); }

 private:
  uint8_t*& to_;
};

template <class To>
void put_length(uint64_t length, To& to) {
  for (; length >= 128; length >>= 7) to.byte(static_cast<uint8_t>(length | 128));
  to.byte(static_cast<uint8_t>(length));
}

template <class To>
void put(const Values& values, size_t i, To& to);

template <class To>
void put_items(const Values& items, uint64_t begin, uint64_t end, To& to) {
  uint8_t* const bits = to.bits(end - begin);
  const bool as_they_lie = items.column->layout == Layout::fixed && !items.any_null();
  for (uint64_t i = begin; i < end; ++i) {
    if (!items.valid(i)) continue;
    To::set(bits, i - begin);
    if (!as_they_lie) put(items, i, to);
  }
  if (as_they_lie) to.bytes(items.fixed(begin), (end - begin) * items.column->width);
}

// REQUIRES: the value is not null.
template <class To>
void put(const Values& values, size_t i, To& to) {
  switch (values.column->layout) {
    case Layout::nothing:
      return;
    case Layout::boolean:
      return to.byte(values.boolean(i) ? 1 : 0);
    case Layout::fixed:
      return to.bytes(values.fixed(i), values.column->width);
    case Layout::text32:
    case Layout::text64: {
      const auto text = values.text(i);
      put_length(text.size(), to);
      return to.bytes(text.data(), text.size());
    }
    case Layout::list32:
    case Layout::list64:
    case Layout::view32:
    case Layout::view64:
    case Layout::fixed_list: {
      const auto [begin, end] = values.range(i);
      if (values.column->layout != Layout::fixed_list) put_length(end - begin, to);
      return put_items(values.children[0], begin, end, to);
    }
    case Layout::structure: {
      uint8_t* const bits = to.bits(values.children.size());
      for (size_t field = 0; field < values.children.size(); ++field) {
        const Values& child = values.children[field];
        if (!child.valid(i)) continue;
        To::set(bits, field);
        put(child, i, to);
      }
      return;
    }
  }
}

// ---- A column of many rows.

void add_bytes(const Values& values, size_t first, std::span<uint64_t> rows) {
  const bool all = !values.any_null();
  if (values.column->layout == Layout::fixed && all) {
    for (uint64_t& bytes : rows) bytes += values.column->width;
    return;
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    Measure bytes(rows[i]);
    if (all || values.valid(first + i)) put(values, first + i, bytes);
  }
}

template <size_t width>
void put_fixed(const Values& values, size_t first, std::span<uint8_t*> ends) {
  for (size_t i = 0; i < ends.size(); ++i) {
    if (!values.valid(first + i)) continue;
    std::memcpy(ends[i], values.fixed(first + i), width);
    ends[i] += width;
  }
}

void put_column(const Values& values, size_t first, std::span<uint8_t*> ends) {
  if (values.column->layout == Layout::fixed) {
    switch (values.column->width) {
      case 4:
        return put_fixed<4>(values, first, ends);
      case 8:
        return put_fixed<8>(values, first, ends);
      case 16:
        return put_fixed<16>(values, first, ends);
      default:
        break;
    }
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    Write to(ends[i]);
    if (values.valid(first + i)) put(values, first + i, to);
  }
}

// ---- Keys.

constexpr uint8_t null_first = 0;
constexpr uint8_t some_value = 1;
constexpr uint8_t null_last = 2;

struct Key {
  Values values;
  bool descending;
  uint8_t null;
  bool is_last;  // and ascending: a text needs no escapes
};

uint64_t bytes_of_key_text(const Key& key, std::span<const uint8_t> text) {
  if (key.is_last) return text.size();
  uint64_t doubled = 0;
  for (const uint8_t byte : text) doubled += byte <= 1 ? 1 : 0;
  return text.size() + doubled + 1;
}

uint8_t* put_key_text(const Key& key, std::span<const uint8_t> text, uint8_t* to) {
  if (key.is_last) return put_bytes(text.data(), text.size(), to);
  for (const uint8_t byte : text) {
    *to++ = byte <= 1 ? uint8_t{1} : byte;
    *to = static_cast<uint8_t>(byte + 1);  // overwritten, unless the byte is escaped
    to += byte <= 1 ? 1 : 0;
  }
  *to = 0;
  return to + 1;
}

template <class Bits>
uint8_t* put_big_endian(Bits bits, uint8_t* to) {
  bits = std::byteswap(bits);
  return put_bytes(&bits, sizeof bits, to);
}

// Makes equal floats identical (row_encoder.h), and encodes the value as an item of a file.
template <class Codec>
typename Codec::Bits float_key(typename Codec::Bits bits) {
  using Bits = typename Codec::Bits;
  const auto magnitude = static_cast<Bits>(bits & ~Codec::sign);
  if (magnitude > Codec::infinity) return std::numeric_limits<Bits>::max();
  return Codec::encode(magnitude == 0 ? magnitude : bits);
}

template <class Bits>
Bits number_key(Order order, Bits bits) {
  if (order == Order::signed_number) return items::SignedCodec<Bits>::encode(bits);
  if (order == Order::floating) {
    if constexpr (sizeof bits == 2) return float_key<items::FloatCodec<Bits, 10>>(bits);
    if constexpr (sizeof bits == 4) return float_key<items::F32Codec>(bits);
    if constexpr (sizeof bits == 8) return float_key<items::F64Codec>(bits);
  }
  return bits;
}

template <class Bits>
void put_numbers(const Key& key, size_t first, std::span<uint8_t*> ends) {
  const Order order = key.values.column->order;
  const auto flip = static_cast<Bits>(key.descending ? ~Bits{0} : Bits{0});
  for (size_t i = 0; i < ends.size(); ++i) {
    uint8_t* to = ends[i];
    const bool valid = key.values.valid(first + i);
    *to++ = valid ? some_value : key.null;
    if (valid) {
      const auto bits = number_key(order, items::load<Bits>(key.values.fixed(first + i)));
      to = put_big_endian(static_cast<Bits>(bits ^ flip), to);
    }
    ends[i] = to;
  }
}

// Writes a little-endian number (a decimal) in big-endian order.
uint8_t* put_reversed(const uint8_t* from, size_t bytes, uint8_t* to) {
  std::reverse_copy(from, from + bytes, to);
  *to ^= 0x80;
  return to + bytes;
}

uint8_t* put_key_value(const Key& key, size_t i, uint8_t* to) {
  const Column& column = *key.values.column;
  if (column.layout == Layout::boolean) {
    *to = key.values.boolean(i) ? 1 : 0;
    return to + 1;
  }
  if (column.layout != Layout::fixed) return put_key_text(key, key.values.text(i), to);
  const uint8_t* const from = key.values.fixed(i);
  return column.order == Order::bytes ? put_bytes(from, column.width, to)
                                      : put_reversed(from, column.width, to);
}

void put_key(const Key& key, size_t first, std::span<uint8_t*> ends) {
  const Column& column = *key.values.column;
  if (column.layout == Layout::fixed && column.order != Order::bytes) {
    switch (column.width) {
      case 1:
        return put_numbers<uint8_t>(key, first, ends);
      case 2:
        return put_numbers<uint16_t>(key, first, ends);
      case 4:
        return put_numbers<uint32_t>(key, first, ends);
      case 8:
        return put_numbers<uint64_t>(key, first, ends);
      default:
        break;
    }
  }
  for (size_t i = 0; i < ends.size(); ++i) {
    uint8_t* to = ends[i];
    const bool valid = key.values.valid(first + i);
    *to++ = valid ? some_value : key.null;
    uint8_t* const begin = to;
    if (valid) to = put_key_value(key, first + i, to);
    if (key.descending)
      std::for_each(begin, to, [](uint8_t& byte) { byte = static_cast<uint8_t>(~byte); });
    ends[i] = to;
  }
}

void add_key_bytes(const Key& key, size_t first, std::span<uint64_t> rows) {
  const Column& column = *key.values.column;
  const bool is_text = column.layout == Layout::text32 || column.layout == Layout::text64;
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i] += 1;
    if (!key.values.valid(first + i)) continue;
    rows[i] += is_text ? bytes_of_key_text(key, key.values.text(first + i)) : column.width;
  }
}

std::unexpected<Error> unsupported(std::string attempted, std::string subject, std::string hint) {
  return std::unexpected(Error{.code = ErrorCode::unsupported,
                               .attempted = std::move(attempted),
                               .subject = std::move(subject),
                               .hint = std::move(hint)});
}

}  // namespace

bool key_contains_value(const Column& column) {
  return column.layout != Layout::nothing && column.order != Order::floating;
}

std::vector<size_t> payload_columns(const Column& table, const std::vector<SortKey>& keys) {
  std::vector<size_t> columns;
  for (size_t number = 0; number < table.children.size(); ++number) {
    const bool told = key_contains_value(table.children[number]) &&
                      std::ranges::count(keys, number, &SortKey::column) > 0;
    if (!told) columns.push_back(number);
  }
  return columns;
}

Result<RowEncoder> RowEncoder::make(Column table, std::vector<SortKey> keys) {
  for (const SortKey& key : keys) {
    const Column& column = table.children.at(key.column);
    if (column.order == Order::none)
      return unsupported("order values of this type", column.name, "another column to sort by");
  }
  return RowEncoder(std::move(table), std::move(keys));
}

Result<RowEncoder::Encoded> RowEncoder::encode(const ArrowArray& batch, size_t first,
                                               std::span<std::byte> into) {
  const Values table(table_, batch, 0);
  std::vector<Key> keys;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const SortKey& key = keys_[i];
    keys.push_back({.values = table.children[key.column],
                    .descending = key.descending,
                    .null = key.nulls_first ? null_first : null_last,
                    .is_last = i + 1 == keys_.size() && !key.descending});
  }
  const size_t bits_bytes = bytes_of_bits(payload_.size());
  if (first == 0 || first - measured_ >= row_bytes_.size()) {
    measured_ = first;
    const size_t rows = std::min(rows_encoded_at_once, static_cast<size_t>(batch.length) - first);
    key_bytes_.assign(rows, 0);
    for (const Key& key : keys) add_key_bytes(key, first, key_bytes_);
    row_bytes_.assign(rows, RowHead::bytes + bits_bytes);
    for (size_t i = 0; i < rows; ++i) row_bytes_[i] += key_bytes_[i];
    for (const size_t number : payload_) add_bytes(table.children[number], first, row_bytes_);
  }

  auto* at = reinterpret_cast<uint8_t*>(into.data());
  const uint8_t* const end = at + into.size();
  ends_.clear();
  for (size_t i = first - measured_; i < row_bytes_.size(); ++i) {
    if (row_bytes_[i] > std::numeric_limits<uint32_t>::max())
      return unsupported("hold a row of more than 4 GiB", "", "shorter values");
    if (row_bytes_[i] > static_cast<size_t>(end - at)) break;
    RowHead{static_cast<uint32_t>(row_bytes_[i]), static_cast<uint32_t>(key_bytes_[i])}.store(at);
    ends_.push_back(at + RowHead::bytes);
    at += row_bytes_[i];
  }
  const size_t rows = ends_.size();
  if (rows == 0) return Encoded{.rows = 0, .bytes = row_bytes_[first - measured_]};
  for (const Key& key : keys) put_key(key, first, ends_);
  const std::vector<uint8_t*> bits = ends_;  // they lie where the key ends
  for (uint8_t*& end_of_row : ends_) {
    std::memset(end_of_row, 0, bits_bytes);
    end_of_row += bits_bytes;
  }
  for (size_t number = 0; number < payload_.size(); ++number) {
    const Values& column = table.children[payload_[number]];
    const auto bit = static_cast<uint8_t>(1 << number % 8);
    for (size_t i = 0; i < rows; ++i) {
      if (column.valid(first + i)) bits[i][number / 8] |= bit;
    }
    put_column(column, first, ends_);
  }
  return Encoded{.rows = rows, .bytes = into.size() - static_cast<size_t>(end - at)};
}

}  // namespace penstock::python
