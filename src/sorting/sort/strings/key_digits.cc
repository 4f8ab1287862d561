#include "sorting/sort/strings/key_digits.h"

#include <algorithm>
#include <cstring>

namespace penstock::sorting {

void KeyDigits::start(size_t from, bool zeros) {
  from_ = from;
  window_ = window_max;
  seen_ = {};
  seen_.zeros = zeros;
}

void KeyDigits::add(const SeenBytes& seen) {
  for (size_t place = 0; place < window_; ++place) {
    for (size_t byte = 0; byte < 256; ++byte) seen_.at[place][byte] |= seen.at[place][byte];
  }
  seen_.bytes_min = std::min(seen_.bytes_min, seen.bytes_min);
  seen_.bytes_max = std::max(seen_.bytes_max, seen.bytes_max);
  seen_.zeros |= seen.zeros;
}

void KeyDigits::narrow() {
  choose();
  const Number& last = has_more() ? more_ : first_;
  if (covered_ < seen_.bytes_max) window_ = last.first + last.window;
}

size_t KeyDigits::places() const {
  return std::min(window_, seen_.bytes_max - std::min(seen_.bytes_max, from_));
}

KeyDigits::Values KeyDigits::values_at(size_t place) const {
  Values values;
  const auto& seen = seen_.at[place];
  const bool some_end = seen_.bytes_min <= from_ + place;
  if (some_end || seen[0] != 0) values.bytes[values.count++] = 0;
  for (size_t first = 0; first < 256; first += sizeof(uint64_t)) {
    uint64_t eight;
    std::memcpy(&eight, &seen[first], sizeof(eight));
    if (eight == 0) continue;
    for (size_t byte = std::max<size_t>(first, 1); byte < first + sizeof(eight); ++byte) {
      values.bytes[values.count] = static_cast<uint8_t>(byte);
      values.count += seen[byte];
    }
  }
  return values;
}

size_t KeyDigits::make(Number& number, size_t first, size_t table, unsigned bits) {
  const uint64_t greatest = ~uint64_t{0} >> (number_bits - bits);
  number = {.first = first, .table = table, .flip = descending_ ? greatest : 0};
  std::array<Values, window_max> values;
  uint64_t most = 0;  // the greatest number so far
  size_t end = first;
  uint64_t room = 0;  // for the last digit, if not all of its values fit
  for (; end < places(); ++end) {
    values[end] = values_at(end);
    const unsigned count = std::max(values[end].count, 1u);
    all_alike_ &= count == 1;
    const __uint128_t next = (__uint128_t{most} + 1) * count - 1;
    if (next > greatest) {
      room = static_cast<uint64_t>((__uint128_t{greatest} + 1) / (__uint128_t{most} + 1));
      break;
    }
    most = static_cast<uint64_t>(next);
  }
  const size_t covered = end;
  if (room > 1) ++end;
  number.window = end - first;
  uint64_t weight = 1;
  for (size_t place = end; place-- > first;) {
    const Values& here = values[place];
    const bool in_part = place == covered;
    auto& worth = worth_[table + place - first].of;
    for (unsigned digit = 0; digit < here.count; ++digit)
      worth[here.bytes[digit]] = weight * (in_part ? digit * room / here.count : digit);
    if (place + 1 == covered) {
      const bool some_end = here.count > 1 && here.bytes[0] == 0 && !seen_.zeros;
      keys_end_ = {.weight = weight, .radix = some_end ? here.count : 0, .flip = number.flip};
    }
    weight *= in_part ? room : std::max(here.count, 1u);
  }
  return covered;
}

void KeyDigits::choose() {
  all_alike_ = true;
  keys_end_ = {};
  more_ = {};
  size_t covered = make(first_, 0, 0, number_bits);
  if (more_bits_ > 0 && covered < places()) {
    const size_t first_covered = covered;
    covered = make(more_, covered, first_.window, more_bits_);
    // Too little room for one more byte.
    if (covered == first_covered) more_ = {};
  }
  covered_ = from_ + covered;
}

void KeyDigits::number(std::span<const std::string_view> keys, uint64_t* numbers,
                       uint64_t* more) const {
  number_keys(keys, from_ + first_.first, first_.window, worth_ + first_.table, numbers);
  if (first_.flip != 0) {
    for (size_t i = 0; i < keys.size(); ++i) numbers[i] ^= first_.flip;
  }
  if (!has_more()) return;
  number_keys(keys, from_ + more_.first, more_.window, worth_ + more_.table, more);
  if (more_.flip != 0) {
    for (size_t i = 0; i < keys.size(); ++i) more[i] ^= more_.flip;
  }
}

}  // namespace penstock::sorting
