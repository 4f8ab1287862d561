#pragma once

// Names and numbers as text for people, on a page or a terminal. Names are untrusted.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/amounts.h"
#include "base/printable.h"

namespace penstock::report {

using penstock::bytes_text;
using penstock::counted;
using penstock::duration_text;
using penstock::grouped;
using penstock::printable;
using penstock::rate_text;

// Escapes text for an element or an attribute in double or single quotes. REQUIRES: the text comes
// from printable(), or is Penstock's own.
std::string html_escaped(std::string_view text);

std::string share_text(double part, double whole);  // "12 %", "< 1 %", "-" if `whole` is 0

std::string base64(std::span<const uint8_t> bytes);

// Appends a number: seven bits a byte, the low ones first, the top bit set on all but the last.
void put_number(std::string& to, uint64_t number);
void put_signed(std::string& to, int64_t number);  // 0, -1, 1, -2, ... as 0, 1, 2, 3, ...

}  // namespace penstock::report
