#pragma once

// Names and numbers as people read them: on a page, where a name is a stranger's, and on a
// terminal.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/printable.h"

namespace penstock::report {

using penstock::printable;

// For the text of an element and for attributes in double or single quotes. Expects what
// printable() gives, or text of ours.
std::string html_escaped(std::string_view text);

std::string grouped(uint64_t number);               // "1,234,567"
std::string bytes_text(double bytes);               // "1.50 GiB", "612 B"
std::string rate_text(double bytes_per_second);     // "1.50 GB/s": speeds count in powers of 1000
std::string duration_text(double seconds);          // "1.50 ms", "12.3 s", "1:05:07"
std::string share_text(double part, double whole);  // "12 %", "< 1 %", "-" of nothing

std::string base64(std::span<const uint8_t> bytes);

// Seven bits a byte, the low ones first, the top bit set on all but the last.
void put_number(std::string& to, uint64_t number);
void put_signed(std::string& to, int64_t number);  // 0, -1, 1, -2, ... as 0, 1, 2, 3, ...

}  // namespace penstock::report
