#pragma once

// A number of 64 bits for each of many keys, which tells as much of their order as possible.
//
// Eight bytes of a key are the naive number, but most of their bits are the same in all keys: what all
// have in common says nothing, nor do the separators of a timestamp, and of a digit only four bits
// differ. So many keys are equal in these eight bytes, and have to be looked at again, each at a
// place of its own: two misses of the cache.
//
// Here the number is made of those bits in which the keys are not all alike. To leave out a bit that
// is the same in all of them changes the order of no two, so the numbers are in the order of the keys,
// up to ties. Of "2026-01-05T12:34:56.123456" 54 bits are left, which is all of it.
//
// The keys are looked at through a window: from one byte of them on, `window_bytes`. A key that ends
// before is filled up with zeros.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/cpu.h"
#include "record/codec.h"

namespace penstock::sorting {

class KeyBits {
 public:
  static constexpr size_t window_bytes = 32;
  static constexpr size_t word_bytes = sizeof(uint64_t);

  explicit KeyBits(bool descending, os::CpuTier tier = os::cpu_tier());

  // Forgets all keys. `first`: any of the new ones. REQUIRES: they are alike up to `from`.
  void start(std::string_view first, size_t from);
  // Every key has to be seen before choose().
  void look(std::string_view key) {
    bytes_max_ = key.size() > bytes_max_ ? key.size() : bytes_max_;
    is_ragged_ |= key.size() != first_bytes_;
    // Of longer keys it does not matter, and their ends are far away.
    if (key.size() - 1 < from_ + window_bytes) ends_with_zero_ |= key.back() == '\0';
    for (size_t i = 0, at = from_; i < words && at < key.size(); ++i, at += word_bytes)
      seen_[i] |= word_at(key, at) ^ first_[i];
    // What lies behind its end counts as zeros.
    for (size_t i = words_of(key.size()); i < first_words_; ++i) seen_[i] |= first_[i];
  }
  // What another one saw of the same keys. REQUIRES: it was started with the same first key.
  void add(const KeyBits& other);
  void choose();

  // REQUIRES: the key was looked at.
  uint64_t of(std::string_view key) const;

  // The keys are alike in all of the window; it may begin behind it.
  bool all_alike() const;
  // The first byte in which two keys differ. REQUIRES: there is one in the window.
  size_t first_difference() const;
  // Keys of equal numbers are alike up to here.
  size_t covered() const { return covered_; }
  // Keys of equal numbers are equal.
  bool complete() const { return covered_ >= bytes_max_ && !(is_ragged_ && ends_with_zero_); }
  // All that the window shows is in the number, which has room left: another window may show more.
  bool has_room() const { return has_room_ && covered_ < bytes_max_; }
  size_t bytes_max() const { return bytes_max_; }  // of a key
  size_t from() const { return from_; }            // where the window begins

  // Eight bytes from `at` on, as a big-endian number; behind the end are zeros. REQUIRES: at < key.size().
  static uint64_t word_at(std::string_view key, size_t at) {
    const auto* data = reinterpret_cast<const std::byte*>(key.data());
    const size_t left = key.size() - at;
    if (left >= word_bytes) return record::load_big_endian(data + at);
    if (key.size() < word_bytes) return record::prefix_of(data + at, left);
    return record::load_big_endian(data + key.size() - word_bytes) << 8 * (word_bytes - left);
  }

 private:
  static constexpr size_t words = window_bytes / word_bytes;

  // The bits of a word that are in a mask, side by side.
  struct Extraction {
    uint64_t mask = 0;
    unsigned bits = 0;
    std::array<uint64_t, 6> moves = {};  // where there is no instruction for it
  };
  static Extraction extraction_of(uint64_t mask);
  static uint64_t extract(const Extraction& extraction, uint64_t word);
  uint64_t of_by_instruction(std::string_view key) const;

  // How many words of the window a key of so many bytes has a part in.
  size_t words_of(size_t key_bytes) const {
    if (key_bytes <= from_) return 0;
    const size_t count = (key_bytes - from_ + word_bytes - 1) / word_bytes;
    return count < words ? count : words;
  }

  const uint64_t flip_;
  const bool has_instruction_;
  size_t from_ = 0;
  size_t first_bytes_ = 0;
  size_t first_words_ = 0;
  std::array<uint64_t, words> first_ = {};  // of the first key
  std::array<uint64_t, words> seen_ = {};   // bits that differ from it in some key
  size_t bytes_max_ = 0;
  bool is_ragged_ = false;  // keys are not equally long
  bool ends_with_zero_ = false;
  std::array<Extraction, words> extractions_ = {};
  size_t used_words_ = 0;
  size_t covered_ = 0;
  bool has_room_ = false;
};

}  // namespace penstock::sorting
