#pragma once

// What the bytes of a file mean. How items compare is in items.h, the loops over many keys in
// codec.h.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "items/framing/framing.h"
#include "items/key_order.h"
#include "penstock/base.h"

namespace penstock::items {

// One format, as the command line names it (--format, --record, --key).
struct Format {
  Type type = Type::u64;
  uint32_t record_bytes = 8;  // size of an item; 1 for lines and rows, which say where they end
  // The key is bytes [key_offset, key_offset + key_bytes) of an item of fixed size: compared bytewise in a record, the
  // number itself in numeric types (at offset 0). Other items say by their framing what their key is.
  uint32_t key_offset = 0;
  uint32_t key_bytes = 8;
  char line_end = '\n';  // of items that have one
  // Lines are rows of CSV (rows.h), with this between their fields: a line end in quotes ends none.
  std::optional<char> csv = {};
  // The keys by which lines and records are ordered. Nothing: the bytes above, the whole line.
  std::shared_ptr<const KeyOrder> keys = {};
  // So many lines at the beginning of each file belong to no order. `columns`: the keys name columns
  // of the first of them, and with_header() makes their order.
  uint32_t header_lines = 0;
  std::shared_ptr<const TextOptions> columns = {};

  bool numeric() const { return type < Type::record; }
  bool fixed() const { return type < Type::lines; }  // all items are equally long
  const Framing& framing() const {
    return csv ? csv_framing : *type_table[static_cast<size_t>(type)].framing;
  }
  bool has_fields() const { return framing().order != nullptr; }  // items are text
  // A file may begin with what is no item (head_bytes()).
  bool has_head() const { return framing().check_text != nullptr || header_lines > 0; }
  // Items may break the rules of their format, which fault_of() finds.
  bool has_rules() const { return framing().fault != nullptr; }
  // Items of equal keys are equal, byte by byte.
  bool equal_keys_are_equal() const {
    if (keys != nullptr) return keys->is_total();
    return fixed() ? key_bytes == record_bytes : framing().has_line_ends;
  }
  // Items of equal keys are equally long.
  bool equal_keys_are_equally_long() const { return fixed() || equal_keys_are_equal(); }

  bool operator==(const Format&) const = default;
};

// The head of a file is what stands in front of its items: of CSV the byte order mark of UTF-8, if it has
// one, and the lines of the header.
//
// The bytes of the head with which `data` begins; nothing if more of the file has to be seen. `is_all`:
// there is no more; then nothing means that the header has no end. Errors: unsupported, of CSV that is
// UTF-16 or UTF-32, or whose rows end with carriage returns alone. REQUIRES: the format has a head.
Result<std::optional<size_t>> head_bytes(const Format& format, std::string_view data, bool is_all);
// No head is longer: a quote in it that nothing closes would take the whole file.
inline constexpr size_t header_bytes_max = 4 << 20;
// The format of what follows this head, of which all is there. `file` is named where the head breaks the
// rules of rows; an error of a key names the key.
Result<Format> with_header(const Format& format, std::string_view header,
                           const std::string& file = {});
// The first place where a header differs from that of the file `first_file`, for messages. Of CSV the
// names count, however they are quoted, and whatever ends the line.
std::optional<std::string> header_difference(const Format& format, std::string_view header,
                                             std::string_view first, const std::string& first_file);

// The records of the Sort Benchmark, which a record is where nothing else is said.
inline constexpr uint32_t benchmark_record_bytes = 100;

// "u32", "kv64", "record" (with record_bytes and key given as in --record 100 --key 0:10), "lines",
// "rows"; "u128" and "i128" are records of one number.
// Of a record, `record_bytes` 0 means 100, and an empty `key` means its first 10 bytes (all, if it
// has fewer). Other types have neither and take no notice of them.
Result<Format> parse_format(std::string_view name, uint32_t record_bytes = 0,
                            std::string_view key = {});

// ---- key codecs: numbers to unsigned integers of the same width whose order is the number's
// order. Numbers are little-endian in files.
//
// u32, u64, kv64: the number itself. i32, i64: the sign bit flipped. f32, f64: the total order
//   -inf < negative < -0 < +0 < positive < +inf < NaNs without sign bit < NaNs with sign bit,
// where NaNs without sign bit rise with their payload and NaNs with sign bit fall with it. So -inf
// is key 0, every NaN comes last, and every bit pattern keeps its bits.
//
// All are bijections with cheap inverses. A descending order complements the key.
//
// REQUIRES: the type's key has that width.
uint64_t encode_key64(Type type, uint64_t bits);
uint64_t decode_key64(Type type, uint64_t key);
uint32_t encode_key32(Type type, uint32_t bits);
uint32_t decode_key32(Type type, uint32_t key);

// The first 8 bytes (fewer: padded with zeros) as a big-endian number: order of prefixes is order
// of strings, up to ties.
uint64_t prefix_of(const std::byte* data, size_t bytes);

}  // namespace penstock::items
