#include "sort/strings/key_bits.h"

#include <algorithm>
#include <bit>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace penstock::sorting {
namespace {

constexpr unsigned number_bits = 64;

// Processors with AVX-512 have an instruction for it that is fast; of the older ones some need hundreds
// of cycles.
bool extracts(os::CpuTier tier) {
#if defined(__x86_64__)
  return tier == os::CpuTier::avx512;
#else
  (void)tier;
  return false;
#endif
}

}  // namespace

KeyBits::KeyBits(bool descending, os::CpuTier tier)
    : flip_(descending ? ~uint64_t{0} : 0), has_instruction_(extracts(tier)) {}

void KeyBits::start(std::string_view first, size_t from) {
  from_ = from;
  first_bytes_ = first.size();
  first_words_ = words_of(first.size());
  first_ = {};
  for (size_t i = 0; i < first_words_; ++i) first_[i] = word_at(first, from + i * word_bytes);
  seen_ = {};
  bytes_max_ = 0;
  is_ragged_ = false;
  ends_with_zero_ = false;
}

void KeyBits::add(const KeyBits& other) {
  for (size_t i = 0; i < words; ++i) seen_[i] |= other.seen_[i];
  bytes_max_ = std::max(bytes_max_, other.bytes_max_);
  is_ragged_ |= other.is_ragged_;
  ends_with_zero_ |= other.ends_with_zero_;
}

void KeyBits::choose() {
  unsigned room = number_bits;
  covered_ = from_;
  used_words_ = 0;
  has_room_ = true;
  for (uint64_t mask : seen_) {
    const auto bits = static_cast<unsigned>(std::popcount(mask));
    uint64_t left_out = 0;
    for (unsigned excess = bits > room ? bits - room : 0; excess > 0; --excess) {
      left_out |= mask & -mask;
      mask &= mask - 1;
    }
    extractions_[used_words_++] = extraction_of(mask);
    room -= extractions_[used_words_ - 1].bits;
    covered_ += left_out == 0 ? word_bytes : static_cast<size_t>(std::countl_zero(left_out)) / 8;
    if (left_out != 0) {
      has_room_ = false;
      break;
    }
  }
}

bool KeyBits::all_alike() const {
  for (const uint64_t word : seen_) {
    if (word != 0) return false;
  }
  return true;
}

size_t KeyBits::first_difference() const {
  size_t at = from_;
  for (const uint64_t word : seen_) {
    if (word != 0) return at + static_cast<size_t>(std::countl_zero(word)) / 8;
    at += word_bytes;
  }
  return at;
}

// By "compress" of Hacker's Delight, 7-4: each bit that is kept moves right by the number of bits that
// are not, in six steps, one for each bit of that number. `moves` are the bits that each step moves.
KeyBits::Extraction KeyBits::extraction_of(uint64_t mask) {
  Extraction made{.mask = mask, .bits = static_cast<unsigned>(std::popcount(mask))};
  uint64_t dropped = ~mask << 1;  // to the right of each bit
  for (size_t step = 0; step < made.moves.size(); ++step) {
    uint64_t parity = dropped;  // of the dropped bits to the right
    for (unsigned shift = 1; shift < number_bits; shift *= 2) parity ^= parity << shift;
    const uint64_t move = parity & mask;
    made.moves[step] = move;
    mask = (mask ^ move) | (move >> (1u << step));
    dropped &= ~parity;
  }
  return made;
}

uint64_t KeyBits::extract(const Extraction& extraction, uint64_t word) {
  word &= extraction.mask;
  for (size_t step = 0; step < extraction.moves.size(); ++step) {
    const uint64_t moved = word & extraction.moves[step];
    word = (word ^ moved) | (moved >> (1u << step));
  }
  return word;
}

uint64_t KeyBits::of(std::string_view key) const {
  if (has_instruction_) return of_by_instruction(key);
  uint64_t number = 0;
  for (size_t i = 0, at = from_; i < used_words_; ++i, at += word_bytes) {
    const Extraction& extraction = extractions_[i];
    if (extraction.bits == 0) continue;
    if (extraction.bits < number_bits) number <<= extraction.bits;
    if (at < key.size()) number |= extract(extraction, word_at(key, at));
  }
  return number ^ flip_;
}

#if defined(__x86_64__)
__attribute__((target("bmi2"))) uint64_t KeyBits::of_by_instruction(std::string_view key) const {
  uint64_t number = 0;
  for (size_t i = 0, at = from_; i < used_words_; ++i, at += word_bytes) {
    const Extraction& extraction = extractions_[i];
    if (extraction.bits == 0) continue;
    if (extraction.bits < number_bits) number <<= extraction.bits;
    if (at < key.size()) number |= _pext_u64(word_at(key, at), extraction.mask);
  }
  return number ^ flip_;
}
#else
uint64_t KeyBits::of_by_instruction(std::string_view) const {
  return 0;
}
#endif

}  // namespace penstock::sorting
