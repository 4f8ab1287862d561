#pragma once

// Did all items that a sort has read come out of it, and no others? Their sum (sorting/sort/item_mix.h)
// does not depend on the order: what was read and what was sorted are summed up, thread by thread
// and bucket by bucket, and compared once, when all is sorted.
//
// Numbers are summed up by their encoded keys, records and lines by their bytes; a line's newline
// does not count, because the last line of an input may lack it.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "items/items.h"
#include "sorting/sort/item_mix.h"
#include "sorting/sort/kernels/kernels.h"

namespace penstock::external {

using sorting::ItemSum;

template <class T>
ItemSum sum_of(std::span<const T> numbers) {
  ItemSum sum;
  sorting::kernels<T>().add_to_sum(numbers.data(), numbers.size(), sum);
  return sum;
}

// A record, a row, or a line with its newline or without.
inline ItemSum sum_of_item(const items::Format& format, std::string_view item) {
  if (format.lines()) item = items::without_line_end(format, item);
  return {.items = 1, .words = sorting::mix_of_bytes(item.data(), item.size())};
}

}  // namespace penstock::external
