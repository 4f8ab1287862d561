#pragma once

// Encoder of input numbers into keys that compare like unsigned numbers, a chunk at a time.

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

#include "items/keys/codec.h"

namespace penstock::external {

// Thread safety: one thread. The result of encode() is valid until the next call, or is the input.
template <class T>
class NumberEncoder {
 public:
  // `is_plain`: the input's numbers already compare like unsigned numbers.
  NumberEncoder(items::Type type, bool descending, bool is_plain)
      : type_(type), descending_(descending), is_plain_(is_plain) {}
  NumberEncoder(const NumberEncoder& other)
      : NumberEncoder(other.type_, other.descending_, other.is_plain_) {}
  NumberEncoder(items::Type type, bool descending)
      : NumberEncoder(type, descending, items::keys_are_plain(type, descending)) {}

  // Returns all items if they are plain, otherwise a first part of them, not empty if count > 0.
  std::span<const T> encode(const std::byte* items, size_t count) {
    if (is_plain_) return {reinterpret_cast<const T*>(items), count};
    const size_t here = std::min(count, std::size(encoded_));
    std::memcpy(static_cast<void*>(encoded_), items, here * sizeof(T));
    items::encode_keys(type_, reinterpret_cast<std::byte*>(encoded_), here, descending_);
    return {encoded_, here};
  }

 private:
  const items::Type type_;
  const bool descending_;
  const bool is_plain_;
  alignas(64) T encoded_[2048];
};

}  // namespace penstock::external
