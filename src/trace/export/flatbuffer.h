#pragma once

// FlatBuffers, as far as the metadata of Arrow files need them: tables, vectors, strings, structs.
//
// A flatbuffer is a tree of tables whose references are distances forward in the bytes. It is
// therefore built from its end to its beginning: what is referred to exists first, and stands
// behind. Here the bytes grow at the end of a vector in reverse order, and finish() turns them
// round; a position is counted from the end, so that it does not change when more is put in front.
//
//   table     int32: how far back its vtable lies; then its fields
//   vtable    uint16: its bytes; uint16: the table's bytes; uint16 each: where field i is, 0: nowhere
//   vector    uint32: how many; then the items
//   string    a vector of bytes, and a zero behind it
//   root      uint32 at the very beginning: where the root table is
//
// Every number is aligned to its size, counted from the end, where the whole has been padded to a
// multiple of 8. Little-endian machines only, as the rest of the traces.
//
// Thread safety: none. REQUIRES: fields of a table are added between begin_table() and end_table(),
// with nothing else in between.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"

namespace penstock::trace {

class FlatBuffer {
 public:
  using Position = uint32_t;  // from the end; 0: nothing

  Position string(std::string_view text) {
    align(sizeof(uint32_t), text.size() + 1);
    put_bytes("", 1);
    put_bytes(text.data(), text.size());
    put(static_cast<uint32_t>(text.size()));
    return position();
  }
  Position vector(std::span<const Position> items) {
    align(sizeof(uint32_t), items.size() * sizeof(uint32_t));
    for (size_t i = items.size(); i-- > 0;) put_reference(items[i]);
    put(static_cast<uint32_t>(items.size()));
    return position();
  }
  // Of structs that consist of numbers of 8 bytes (a struct is laid out as C does).
  template <class Struct>
  Position structs(std::span<const Struct> items) {
    static_assert(alignof(Struct) == 8);
    align(sizeof(uint32_t), items.size_bytes());
    align(8, items.size_bytes());
    put_bytes(reinterpret_cast<const char*>(items.data()), items.size_bytes());
    put(static_cast<uint32_t>(items.size()));
    return position();
  }

  void begin_table() {
    fields_ = {};
    field_count_ = 0;
    table_end_ = position();
  }
  template <class Number>
  void number(size_t field, Number value) {
    align(sizeof value, 0);
    put(value);
    note(field);
  }
  void reference(size_t field, Position to) {
    align(sizeof(uint32_t), 0);
    put_reference(to);
    note(field);
  }
  Position end_table() {
    align(sizeof(int32_t), 0);
    put(int32_t{0});  // where the vtable is: just in front of the table, known below
    const Position table = position();
    for (size_t i = field_count_; i-- > 0;) {
      put(static_cast<uint16_t>(fields_[i] == 0 ? 0 : table - fields_[i]));
    }
    put(static_cast<uint16_t>(table - table_end_));
    const size_t vtable_bytes = (2 + field_count_) * sizeof(uint16_t);
    put(static_cast<uint16_t>(vtable_bytes));
    // The distance, written into its place: backwards, as all is.
    const auto distance = static_cast<uint32_t>(position() - table);
    for (size_t i = 0; i < sizeof distance; ++i) {
      reversed_[table - 1 - i] = static_cast<char>(distance >> (8 * i));
    }
    return table;
  }

  // The whole, a multiple of 8 bytes.
  std::string finish(Position root) {
    align(8, sizeof(uint32_t));
    put_reference(root);
    std::string bytes(reversed_.rbegin(), reversed_.rend());
    reversed_.clear();
    return bytes;
  }

 private:
  static constexpr size_t fields_max = 16;

  Position position() const { return static_cast<Position>(reversed_.size()); }
  // So that a number of `size` bytes, put after `before` more bytes, is aligned.
  void align(size_t size, size_t before) {
    while ((reversed_.size() + before) % size != 0) reversed_.push_back('\0');
  }
  void put_bytes(const char* bytes, size_t count) {
    for (size_t i = count; i-- > 0;) reversed_.push_back(bytes[i]);
  }
  template <class Number>
  void put(Number value) {
    std::array<char, sizeof value> bytes;
    std::memcpy(bytes.data(), &value, sizeof value);
    put_bytes(bytes.data(), bytes.size());
  }
  void put_reference(Position to) {
    put(static_cast<uint32_t>(position() + sizeof(uint32_t) - to));
  }
  void note(size_t field) {
    PENSTOCK_CHECK(field < fields_max, "a table with more fields than expected");
    fields_[field] = position();
    field_count_ = std::max(field_count_, field + 1);
  }

  std::vector<char> reversed_;
  std::array<Position, fields_max> fields_{};  // of the table that is being made; 0: absent
  size_t field_count_ = 0;
  Position table_end_ = 0;
};

}  // namespace penstock::trace
