#pragma once

// JSON objects: the rules of RFC 8259, and the values of members.
//
// A line is checked and its members are found in one walk from its front to its back, which takes no
// memory that grows with the line, but for a name with escapes. A library was tried first, simdjson 3.0: its DOM refuses numbers
// of more than 64 bits and forgets how a number was written, so that 0.1 and 0.10000000000000000001
// are one; its On-Demand interface finds the same members in damaged lines, such as
// {"id":1,"x":tru}; and both hold an index of four bytes for each byte of a line, which a budget of
// memory would have to count. So the walk is our own. Eight bytes of a string are looked at together,
// and a name is compared as it is written unless it has escapes.
//
// Choices where the grammar leaves one:
//   - the last of several members of one name counts, as in jq, Python and JavaScript;
//   - bytes above 0x7f are text, whether or not they are UTF-8, and are compared as they are;
//   - half of a surrogate pair is a character of three bytes, in the order of its code;
//   - a line of nothing but blanks has no members, as a blank row of CSV has no fields;
//   - objects and arrays are nested up to `json_depth_max`.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "items/framing/framing.h"
#include "items/keys/text/key_bytes.h"

namespace penstock::items {

inline constexpr size_t json_depth_max = 1024;

// Names of members, from the outermost object on, without escapes.
using JsonPath = std::vector<std::string>;

// Types in the order of their values.
enum class JsonType : uint8_t { missing, null, no, yes, number, string, array, object };

// A value in its line.
struct JsonValue {
  JsonType type = JsonType::missing;
  std::string_view written;  // quotes and escapes included; empty if it is missing

  // Returns the text of a string, a part of the line or made in `room`; the written text of another
  // value; and nothing for null.
  std::string_view text(std::string& room) const;
  // Returns the text, but a number without its exponent, if that makes it no longer than a few
  // hundred digits.
  std::string_view decimal(std::string& room) const;
  // Returns empty if the number's exponent has too many digits. REQUIRES: it is a number.
  std::optional<Number> number() const;
};

// Stores the value of each path in the object `line`, which may have blanks around it. Returns its
// first fault, behind which nothing is found.
std::optional<ItemFault> find_members(std::string_view line, std::span<const JsonPath> paths,
                                      std::vector<JsonValue>& values);

// Returns the text as a string of JSON, in quotes.
std::string json_string(std::string_view text);

}  // namespace penstock::items
