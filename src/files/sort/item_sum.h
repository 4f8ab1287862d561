#pragma once

// Checksum that shows whether exactly the items read came out of a sort. The sum
// (sorting/sort/item_mix.h) does not depend on the order of the items: threads and buckets sum up
// their own, and the totals of the items read and of the items sorted are compared once, at the
// end.
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

// Checksum of a record, a row, or a line with or without its newline.
inline ItemSum sum_of_item(const items::Format& format, std::string_view item) {
  item = items::without_line_end(format, item);
  return {.items = 1, .words = sorting::mix_of_bytes(item.data(), item.size())};
}

}  // namespace penstock::external
