#include "items/cuts.h"

#include <algorithm>
#include <ranges>

#include "items/keys/codec.h"

// The search compares a number, or the eight bytes of a text behind the common prefix of all cuts,
// without a branch that depends on it: no processor can predict in which half it is. If these eight
// bytes equal those of a cut, the lengths decide, and bytes are compared only if both texts go on
// behind them.

namespace penstock::items {

Cuts::Cuts(const ItemOrder& order, std::vector<ItemKey> keys, std::vector<uint64_t> positions)
    : order_(order), positions_(std::move(positions)) {
  if (!keys.empty()) {
    const std::string &first = keys.front().bytes, &last = keys.back().bytes;
    common_.assign(first.begin(), std::ranges::mismatch(first, last).in1);
  }
  for (ItemKey& key : keys) {
    rests_.push_back(key.bytes.erase(0, common_.size()));
    prefixes_.push_back(order_.format().numeric() ? key.prefix
                                                  : order_.prefix_of_bytes(rests_.back()));
    lengths_.push_back(length_of(rests_.back()));
  }
}

// Returns a length in the order's direction. All rests of more than eight bytes have the same.
uint8_t Cuts::length_of(std::string_view rest) const {
  const auto length = static_cast<uint8_t>(std::min(rest.size(), sizeof(uint64_t) + 1));
  return order_.descending() ? static_cast<uint8_t>(~length) : length;
}

// Counts the cuts with a smaller prefix, for several prefixes side by side.
template <size_t count>
void Cuts::search(const uint64_t* prefixes, size_t* cuts) const {
  const uint64_t* const all = prefixes_.data();
  std::fill_n(cuts, count, 0);
  for (size_t left = prefixes_.size(); left > 0;) {
    const size_t half = (left + 1) / 2;
    for (size_t k = 0; k < count; ++k)
      cuts[k] += half & -static_cast<size_t>(all[cuts[k] + half - 1] < prefixes[k]);
    left -= half;
  }
}

// Returns the first cut from `cut` on that is behind the item. REQUIRES: cuts in front of `cut`
// have smaller prefixes.
size_t Cuts::pass_equals(size_t cut, uint64_t prefix, std::string_view rest,
                         uint64_t position) const {
  const uint8_t length = length_of(rest);
  const auto is_passed = [&](size_t i) {
    if (prefixes_[i] != prefix) return false;
    if (lengths_[i] != length) return lengths_[i] < length;
    const int order = rest.size() <= sizeof prefix ? 0 : order_.compare_keys(rests_[i], rest);
    return order < 0 || (order == 0 && (positions_.empty() || positions_[i] <= position));
  };
  // One or two are equal mostly, so the search gallops from the first.
  size_t end = cut;
  for (size_t step = 1; end < prefixes_.size() && is_passed(end); step *= 2) {
    cut = end + 1;
    end += step;
  }
  const auto rest_of_cuts = std::views::iota(cut, std::min(end, prefixes_.size()));
  const auto behind = std::ranges::partition_point(rest_of_cuts, is_passed);
  return cut + static_cast<size_t>(behind - rest_of_cuts.begin());
}

uint32_t Cuts::part_of(std::string_view key, uint64_t position) const {
  const size_t cuts = prefixes_.size();
  const size_t common = common_.size();
  if (const int order = order_.compare_keys(key.substr(0, common), common_); order != 0)
      [[unlikely]]
    return order < 0 ? 0 : static_cast<uint32_t>(cuts);
  const std::string_view rest = key.substr(common);
  const uint64_t prefix = order_.prefix_of_bytes(rest);
  size_t cut = 0;
  search<1>(&prefix, &cut);
  if (cut < cuts && prefixes_[cut] == prefix) cut = pass_equals(cut, prefix, rest, position);
  return static_cast<uint32_t>(cut);
}

bool Cuts::holds_one_key(uint32_t part) const {
  return part > 0 && part < rests_.size() && rests_[part] == rests_[part - 1] + '\0';
}

void Cuts::parts_of(const std::byte* numbers, size_t count, uint64_t position,
                    uint32_t* parts) const {
  with_codec(order_.format().type, [&]<class Codec>(Codec) {
    using Bits = typename Codec::Bits;
    const Bits flip = order_.descending() ? ~Bits{0} : Bits{0};
    const size_t item_bytes = order_.format().record_bytes;
    constexpr size_t at_once = 8;
    uint64_t keys[at_once] = {};
    size_t cuts[at_once] = {};
    for (size_t first = 0; first < count; first += at_once) {
      const size_t here = std::min(at_once, count - first);
      for (size_t k = 0; k < here; ++k)
        keys[k] = Bits(Codec::encode(load<Bits>(numbers + (first + k) * item_bytes)) ^ flip);
      search<at_once>(keys, cuts);
      for (size_t k = 0; k < here; ++k) {
        if (cuts[k] < prefixes_.size() && prefixes_[cuts[k]] == keys[k]) [[unlikely]]
          cuts[k] = pass_equals(cuts[k], keys[k], {}, position + (first + k) * item_bytes);
        parts[first + k] = static_cast<uint32_t>(cuts[k]);
      }
    }
  });
}

}  // namespace penstock::items
