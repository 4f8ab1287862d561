#pragma once

// Names and numbers as people read them: on a page, where a name is a stranger's, and on a
// terminal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/amounts.h"
#include "base/printable.h"

namespace penstock::report {

using penstock::bytes_text;
using penstock::duration_text;
using penstock::grouped;
using penstock::printable;
using penstock::rate_text;

// For the text of an element and for attributes in double or single quotes. Expects what
// printable() gives, or text of ours.
std::string html_escaped(std::string_view text);

std::string share_text(double part, double whole);  // "12 %", "< 1 %", "-" of nothing

std::string base64(std::span<const uint8_t> bytes);

// Seven bits a byte, the low ones first, the top bit set on all but the last.
void put_number(std::string& to, uint64_t number);
void put_signed(std::string& to, int64_t number);  // 0, -1, 1, -2, ... as 0, 1, 2, 3, ...

}  // namespace penstock::report
