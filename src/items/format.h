#pragma once

// Formats of files, as the command line names them, and codecs of single keys. items.h compares
// items, codec.h loops over many keys.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "items/framing/framing.h"
#include "items/keys/key_order.h"
#include "penstock/base.h"

namespace penstock::items {

// How rows of CSV are written (rows.h).
struct Dialect {
  char separator;
  std::optional<char> quote = '"';  // around fields; nullopt: quotes are text
  // Makes the character after it text, in quotes and outside of them.
  std::optional<char> escape = {};
  // A quote inside a field without quotes is text, and so is what follows the quote that closes one.
  bool is_lenient = false;

  // The dialect of RFC 4180, but for its separator.
  Dialect(char between = ',') : separator(between) {}
  Dialect(bool) = delete;

  // The quotes in front of a line end say whether it ends a row.
  bool counts_quotes() const { return quote && !escape && !is_lenient; }
  // Every line end ends a row.
  bool is_by_line() const { return !quote && !escape; }
  // Rows are read byte by byte.
  bool has_states() const { return escape || (quote && is_lenient); }
  bool operator==(const Dialect&) const = default;
};

// One format, as the command line names it (--format, --record, --key).
struct Format {
  Type type = Type::u64;
  uint32_t record_bytes = 8;  // size of an item; 1 for lines and rows, which say where they end
  // The key is bytes [key_offset, key_offset + key_bytes) of an item of fixed size: compared
  // bytewise in a record, the number itself in numeric types (at offset 0). Other items say by
  // their framing what their key is.
  uint32_t key_offset = 0;
  uint32_t key_bytes = 8;
  char line_end = '\n';  // byte that ends an item, if the framing has line ends
  // The dialect if lines are rows of CSV, in which a quoted line end ends no row.
  std::optional<Dialect> csv = {};
  // Keys that order lines and records; nullptr means the bytes above, or the whole line.
  std::shared_ptr<const KeyOrder> keys = {};
  // Lines at the beginning of each file that are not sorted. If the keys name columns of the first
  // of them, `columns` holds these keys, and with_header() makes their order.
  uint32_t header_lines = 0;
  std::shared_ptr<const TextOptions> columns = {};
  // The number of fields in the header of CSV, which with_header() sets; 0: there is none.
  size_t row_fields = 0;
  // Every row of CSV must have as many.
  bool rows_fit_header = false;

  bool numeric() const { return type < Type::record; }
  bool fixed() const { return type < Type::lines; }  // all items are equally long
  const Framing& framing() const {
    if (csv) return csv->is_by_line() ? csv_line_framing : csv_framing;
    return *type_table[static_cast<size_t>(type)].framing;
  }
  // Framing::has_line_ends, and whether items are of fixed size or plain lines: these are asked for
  // each item, and the common types answer without a look at the framing.
  bool has_line_ends() const {
    return !fixed() && (type == Type::lines || framing().has_line_ends);
  }
  // The quote, if the number of quotes in front of a line end says whether it ends an item.
  std::optional<char> counted_quote() const {
    return csv && csv->counts_quotes() ? csv->quote : std::nullopt;
  }
  bool is_plain() const { return type <= Type::lines && !csv; }
  bool has_fields() const { return framing().order != nullptr; }  // items are text
  // A file may begin with what is no item (head_bytes()).
  bool has_head() const { return framing().check_text != nullptr || header_lines > 0; }
  // Items may break the rules of their format, which fault_of() finds.
  bool has_rules() const { return !is_plain() && framing().fault != nullptr; }
  // Items of equal keys are equal, byte by byte.
  bool equal_keys_are_equal() const {
    if (keys != nullptr) return keys->is_total();
    return fixed() ? key_bytes == record_bytes : has_line_ends();
  }
  // Items of equal keys are equally long.
  bool equal_keys_are_equally_long() const { return fixed() || equal_keys_are_equal(); }

  bool operator==(const Format&) const = default;
};

// Refuses a file `path` of so many bytes that is no whole number of items of fixed size. Errors:
// corrupt.
Status check_size(const Format& format, uint64_t bytes, const std::string& path);

// The head of a file stands in front of its items: the byte order mark of UTF-8, which CSV may
// have, and the lines of the header.
//
// Returns the bytes of the head with which `data` begins, or empty if more of the file has to be
// read. If `is_all`, `data` is the whole file, and empty means that the header has no end. Errors:
// unsupported, if CSV is UTF-16 or UTF-32, or its rows end with carriage returns alone. REQUIRES:
// the format has a head.
Result<std::optional<size_t>> head_bytes(const Format& format, std::string_view data, bool is_all);
// Maximum length of a head: an unclosed quote in it would take the whole file.
inline constexpr size_t header_bytes_max = 4 << 20;
// Returns the format of the items behind this complete head. Errors: corrupt, with `file`, if the
// head breaks the rules of rows; invalid_argument, with the key, if a key names no column.
Result<Format> with_header(const Format& format, std::string_view header,
                           const std::string& file = {});
// Returns the first difference between a header and that of the file `first_file`, for messages.
// Headers of CSV are compared by their names: quotes and line ends may differ.
std::optional<std::string> header_difference(const Format& format, std::string_view header,
                                             std::string_view first, const std::string& first_file);

// Size of the Sort Benchmark's records, the default size of a record.
inline constexpr uint32_t benchmark_record_bytes = 100;

// Reads "u32", "kv64", "record" (with record_bytes and key as in --record 100 --key 0:10), "lines"
// or "rows"; "u128" and "i128" are records of one number. For a record, `record_bytes` 0 means 100,
// and an empty `key` means its first 10 bytes (all, if it has fewer). Other types ignore both.
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

// Returns the first 8 bytes, padded with zeros, as a big-endian number: order of prefixes is order
// of strings, up to ties.
uint64_t prefix_of(const std::byte* data, size_t bytes);

}  // namespace penstock::items
