#pragma once

// How items stand in a file, one behind the other: where one ends, what is wrong with one, which of
// its bytes are its key, and how messages speak of it. Each kind of item is one file of this
// folder, with one Framing. Callers ask Format::framing() for the property that they need, never
// for the kind: so a new kind of item changes none.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/base.h"

namespace penstock::items {

struct Format;
struct TextOptions;  // text/text_order.h
class KeyOrder;

// Types of items, in the order of their table: numbers, then other items of one length, then those
// that say where they end.
enum class Type { u32, u64, i32, i64, f32, f64, kv64, record, lines, rows, jsonl };

// The first place where an item breaks the rules of its format.
struct ItemFault {
  size_t at = 0;  // byte of the item
  std::string what = {};
  bool is_open = false;        // the item has not ended yet, and what follows may mend it
  bool is_count = false;       // its number of fields is not the header's
  const char* hint = nullptr;  // advice in place of that of Framing::hint_of_fault
};

// Functions get the format of the items, which holds what differs between two files of one kind
// (line end, separator). Items come to them with or without their line end.
//
// Thread safety: immutable.
struct Framing {
  const char* noun = "item";  // word for an item in messages
  // An item ends with Format::line_end, which the last one of a file may lack. Its key is all of it
  // but that end.
  bool has_line_ends = false;
  // A line end may belong to an item, as in quotes.
  bool spans_lines = false;
  // SliceCut::position counts the items in front of one, not their bytes.
  bool counts_positions = false;
  uint32_t short_item_bytes = 1;  // bytes of a short item, for plans of memory

  // Returns the bytes from `at` to the end of the item, which begins at `at` or, if `begun` is not
  // empty, with these bytes in front of it (`quoted`: the quotes in them are odd in number, if
  // Format::counted_quote() has one). The
  // end may lie behind `end`; 0 means that it is not in sight.
  size_t (*item_bytes)(const Format& format, const std::byte* at, const std::byte* end,
                       std::string_view begun, bool quoted) = nullptr;
  // Returns the beginning of the first item in a piece of a file at `offset` > 0, or `end`. A guess
  // is good enough: it serves samples.
  const std::byte* (*first_item)(const Format& format, const std::byte* at, const std::byte* end,
                                 uint64_t offset) = nullptr;
  // Returns the key of an item, and any part of an item that has a fault. nullptr if items have
  // line ends, or a fixed size.
  std::string_view (*key)(const Format& format, std::string_view item) = nullptr;
  // Finds what is wrong with a whole item, and sets `is_even` as fault_of() does. nullptr if items
  // have no rules.
  std::optional<ItemFault> (*fault)(const Format& format, std::string_view item,
                                    bool& is_even) = nullptr;
  // Items are objects, whose members are keys and values (json.h). Not every value is a key, so that
  // fault() looks at Format::keys too.
  bool has_members = false;
  // Returns what to try if there is this fault.
  std::string (*hint_of_fault)(const Format& format, const ItemFault& fault) = nullptr;
  // Refuses text that cannot be read as such items, by the beginning of a file, which may have a
  // byte order mark. nullptr if there is nothing to refuse, and no mark.
  Status (*check_text)(const Format& format, std::string_view data) = nullptr;
  // Returns the names of columns in a line of a header. nullptr if items have no columns.
  std::vector<std::string> (*columns)(const Format& format, std::string_view line) = nullptr;
  // Makes the order of items by the fields that the options name. nullptr if items are no text with
  // fields.
  Result<std::shared_ptr<const KeyOrder>> (*order)(const TextOptions& options) = nullptr;

  // Every line end ends an item, so that items can be found from any place on, and from the end of
  // a file.
  bool is_by_line() const { return has_line_ends && !spans_lines; }
};

extern const Framing fixed_framing;
extern const Framing line_framing;
extern const Framing csv_framing;       // lines with Format::csv
extern const Framing csv_line_framing;  // those of a dialect without quotes
extern const Framing row_framing;
extern const Framing json_framing;

struct TypeRow {
  std::string_view name;  // word of --format
  const Framing* framing;
};
extern const TypeRow type_table[];  // by Type; in format.cc

inline std::string_view name_of(Type type) {
  return type_table[static_cast<size_t>(type)].name;
}

// Functions of lines that other text shares.
const std::byte* first_line(const Format& format, const std::byte* at, const std::byte* end,
                            uint64_t offset);
Result<std::shared_ptr<const KeyOrder>> order_of_fields(const TextOptions& options);

}  // namespace penstock::items
