#pragma once

// Addresses, versions and numbers as people write them.
//
// Each function appends bytes whose order is that of the values; none is the beginning of another.
// It returns false, and appends nothing, if the text is no such value. Blanks around it do not count.

#include <string>
#include <string_view>

namespace penstock::items {

// An address of IPv4 or IPv6, such as 10.0.0.1 or fe80::1, with the length of a network's prefix or
// without one, which is an address alone: 10.0.0.0/8 < 10.0.0.0/16 < 10.0.0.0 = 10.0.0.0/32. Those of
// IPv4 come first. Numbers with zeros in front, which some read as octal, and zones (%eth0) are none.
bool append_address(std::string_view text, std::string& to);

// Semantic Versioning 2.0.0 in its order (build metadata do not count), with a "v" in front or without.
bool append_semver(std::string_view text, std::string& to);

// A hexadecimal number of any length, with 0x in front or without.
bool append_hexadecimal(std::string_view text, std::string& to);

// Any text: bytes, in which runs of digits are numbers of any length in place of a digit.
bool append_natural(std::string_view text, std::string& to);

}  // namespace penstock::items
