#pragma once

// The order of records by typed fields: numbers of either byte order and text, as C structures and
// NumPy's structured arrays lie in files.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "items/keys/key_order.h"
#include "penstock/base.h"

namespace penstock::items {

enum class FieldKind : uint8_t {
  bytes,
  unsigned_integer,
  signed_integer,
  floating,
  complex,      // two floating numbers
  time,         // signed integer whose least value is no time, and comes last
  code_points,  // 32 bits each
};

struct Field {
  std::string name = {};
  uint32_t offset = 0;
  uint32_t bytes = 0;
  FieldKind kind = FieldKind::bytes;
  bool big_endian = false;
};

// A record as NumPy describes it: "<u8,>f4,S10", or [('id', '<u4'), ('', '|V4'), ('x', '<f8',
// (3,))]. Fields are called f0, f1, ... if none has a name. There is no padding but what is
// written.
struct RecordType {
  std::vector<Field> fields;
  uint32_t bytes = 0;
};
Result<RecordType> parse_dtype(std::string_view text);

// Keys, the first of which counts most: "OFFSET:LENGTH[:TYPE][:desc]", or a field of `type` by its
// name, "NAME[:desc]"; ":r" is ":desc"; without a direction a key is as `descending` says. TYPE is u8 u16 u32 u64 u128 i8 to
// i128 f32 f64, little-endian, or so with "be" after it (and f16); or NumPy's: b1, i1 to i8, u1 to
// u8, f2 to f8, c8, c16, M8, m8, S, U, V ("<u4", ">M8[ns]"). Numbers order as numbers: of floating
// ones -0 is before 0 and NaNs are last, those with a sign after the others, as in files of f64;
// complex ones and times as NumPy sorts them (complex with a NaN: those whose imaginary part it is,
// then those whose real part, then both; NaT last). Without a type: byte by byte.
//
// Returns nullptr for one key of bytes, which Format holds itself.
// Errors: invalid_argument, with the key.
Result<std::shared_ptr<const KeyOrder>> field_order(const std::vector<std::string>& keys,
                                                    uint32_t record_bytes,
                                                    const RecordType& type = {},
                                                    bool descending = false);

}  // namespace penstock::items
