#include "files/sort/spill/packed_numbers.h"

#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "base/bits.h"
#include "io/file.h"

// A bucket is a range of keys, so its numbers begin with the same bits: four or five of 64 for
// random keys, and half of them for times or row numbers. Their last bits may be the same, too.
// None of these has to go to the disk and come back.
//
// Writing number by number into one stream of bits would let each number wait for the one before
// it. Here a vector of numbers moves at once: lane i holds every L-th number, and each lane has a
// stream of its own, of words side by side in the block (L = 8 for words of 8 bytes, 16 for 4):
//
//   numbers   n0 n1 n2 n3 n4 n5 n6 n7 | n8 n9 ...     one vector | the next one
//   packed    w0 w1 w2 w3 w4 w5 w6 w7 | ...           w0: bits of n0, n8, n16 ... from its lowest
//             ..., the last words, not full | trailer
//
//   trailer   for keys, and then for values if there are any:
//             8 bytes  the shared bits at their positions in a number, and 0 for the others
//             1        number of bits that differ
//             1        number of shared bits below them
//             6        0
//
// So all lanes shift by the same count, which even the oldest processor does in one instruction:
// packing runs at the memory's speed. A group of pairs is two vectors, one of keys and one of
// values, and a lane's stream has a key and a value in turn.
//
// In place. A word of the stream is full when no fewer numbers have been read than it stands for,
// so that packing writes behind the position where it reads. Unpacking runs from the end: the last
// bits of the stream are the last numbers', and unread words stand in front of written numbers.

namespace penstock::external {
namespace {

// Vectors that no register holds are passed between functions of this file alone.
#pragma GCC diagnostic ignored "-Wpsabi"

constexpr size_t vector_bytes = 64;

// Vectors of gcc's extension: the compiler picks the instructions that it may use.
template <class Word>
struct VectorOf {
  using Type [[gnu::vector_size(vector_bytes)]] = Word;
};
template <class Word>
using Vector = typename VectorOf<Word>::Type;

template <class Word>
inline constexpr unsigned word_bits = 8 * sizeof(Word);

// REQUIRES: bits > 0.
template <class Word>
Word low_bits(unsigned bits) {
  return ~Word{0} >> (word_bits<Word> - bits);
}

template <class Word>
Vector<Word> load(const std::byte* at) {
  Vector<Word> vector;
  std::memcpy(&vector, at, vector_bytes);
  return vector;
}
template <class Word>
void store(std::byte* at, Vector<Word> vector) {
  std::memcpy(at, &vector, vector_bytes);
}

// The bits that all words of a column share.
struct Column {
  uint64_t shared = 0;
  uint8_t bits = 0;   // number of bits that differ
  uint8_t below = 0;  // number of shared bits below them
  uint8_t unused[6] = {};
};
static_assert(sizeof(Column) == 16);

template <class Word>
Column column_of(Word first, Word differs) {
  if (differs == 0) return {.shared = first};
  const auto below = static_cast<unsigned>(std::countr_zero(differs));
  const auto bits = static_cast<unsigned>(std::bit_width(differs)) - below;
  const Word mask = low_bits<Word>(bits) << below;
  return {.shared = static_cast<Word>(first & ~mask),
          .bits = static_cast<uint8_t>(bits),
          .below = static_cast<uint8_t>(below)};
}

// A group of `columns` vectors, of words of one column each.
template <class Word, size_t columns>
using Group = std::array<Vector<Word>, columns>;

template <class Word, size_t columns>
Group<Word, columns> load_group(const std::byte* at) {
  if constexpr (columns == 1) {
    return {load<Word>(at)};
  } else {
    const auto a = load<Word>(at);
    const auto b = load<Word>(at + vector_bytes);
    return {__builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14),
            __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15)};
  }
}
template <class Word, size_t columns>
void store_group(std::byte* at, const Group<Word, columns>& group) {
  if constexpr (columns == 1) {
    store<Word>(at, group[0]);
  } else {
    store<Word>(at, __builtin_shufflevector(group[0], group[1], 0, 8, 1, 9, 2, 10, 3, 11));
    store<Word>(at + vector_bytes,
                __builtin_shufflevector(group[0], group[1], 4, 12, 5, 13, 6, 14, 7, 15));
  }
}

// Writes a stream for each lane, from its first bit on.
template <class Word>
class Packer {
 public:
  explicit Packer(std::byte* to) : to_(to) {}

  // REQUIRES: the bits of `words` above the lowest `bits` are 0.
  void add(Vector<Word> words, unsigned bits) {
    filling_ |= words << used_;
    used_ += bits;
    if (used_ < word_bits<Word>) return;
    put();
    used_ -= word_bits<Word>;
    filling_ = used_ > 0 ? words >> (bits - used_) : Vector<Word>{};
  }
  std::byte* finish() {
    if (used_ > 0) put();
    return to_;
  }

 private:
  void put() {
    store<Word>(to_, filling_);
    to_ += vector_bytes;
  }

  std::byte* to_;
  Vector<Word> filling_ = {};
  unsigned used_ = 0;  // bits of filling_
};

// Reads the lanes' streams from their last bits back.
template <class Word>
class Unpacker {
 public:
  Unpacker(const std::byte* from, uint64_t bits)
      : from_(from + bits / word_bits<Word> * vector_bytes) {
    left_ = bits % word_bits<Word>;
    if (left_ > 0) word_ = load<Word>(from_);
  }

  // Returns the last `bits` of each lane, with undefined bits above them. REQUIRES: bits > 0.
  Vector<Word> take(unsigned bits) {
    if (bits <= left_) {
      left_ -= bits;
      return word_ >> left_;
    }
    const unsigned high = left_;
    const Vector<Word> above = word_;
    from_ -= vector_bytes;
    word_ = load<Word>(from_);
    left_ = word_bits<Word> - (bits - high);
    const Vector<Word> words = word_ >> left_;
    return high > 0 ? words | above << (bits - high) : words;
  }

 private:
  const std::byte* from_;
  Vector<Word> word_ = {};
  unsigned left_;  // bits of word_, from its lowest on
};

template <class Word, size_t columns>
struct Packed {
  static constexpr size_t group_bytes = columns * vector_bytes;
  static constexpr size_t item_bytes = columns * sizeof(Word);
  static constexpr size_t items_per_group = group_bytes / item_bytes;

  static uint64_t words_of(size_t groups, uint64_t bits) {
    return ceil_div(groups * bits, uint64_t{word_bits<Word>});
  }

  // Fills the last group up with the first item.
  static size_t groups_of(std::byte* block, size_t bytes) {
    const size_t groups = ceil_div(bytes, group_bytes);
    for (size_t at = bytes; at < groups * group_bytes; at += item_bytes)
      std::memcpy(block + at, block, item_bytes);
    return groups;
  }

  static size_t pack(std::byte* block, size_t bytes) {
    const size_t groups = groups_of(block, bytes);
    const auto first = load_group<Word, columns>(block);
    Group<Word, columns> differs = {};
    for (size_t i = 0; i < groups; ++i) {
      const auto group = load_group<Word, columns>(block + i * group_bytes);
      for (size_t c = 0; c < columns; ++c) differs[c] |= group[c] ^ first[c][0];
    }
    Column shared[columns];
    uint64_t bits = 0;
    for (size_t c = 0; c < columns; ++c) {
      Word any = 0;
      for (size_t lane = 0; lane < items_per_group; ++lane) any |= differs[c][lane];
      shared[c] = column_of<Word>(first[c][0], any);
      bits += shared[c].bits;
    }
    const size_t packed = words_of(groups, bits) * vector_bytes + sizeof(shared);
    if (round_up(packed, io::sector_bytes) >= bytes) return 0;
    Packer<Word> packer(block);
    for (size_t i = 0; i < groups; ++i) {
      const auto group = load_group<Word, columns>(block + i * group_bytes);
      for (size_t c = 0; c < columns; ++c) {
        if (shared[c].bits == 0) continue;
        const Word mask = low_bits<Word>(shared[c].bits);
        packer.add((group[c] >> shared[c].below) & mask, shared[c].bits);
      }
    }
    std::memcpy(packer.finish(), shared, sizeof(shared));
    return packed;
  }

  static bool unpack(std::byte* block, size_t packed_bytes, size_t bytes) {
    const size_t groups = ceil_div(bytes, group_bytes);
    Column shared[columns];
    if (packed_bytes < sizeof(shared)) return false;
    std::memcpy(shared, block + packed_bytes - sizeof(shared), sizeof(shared));
    uint64_t bits = 0;
    for (const Column& column : shared) {
      if (column.bits + column.below > word_bits<Word>) return false;
      bits += column.bits;
    }
    if (words_of(groups, bits) * vector_bytes + sizeof(shared) != packed_bytes) return false;
    Unpacker<Word> unpacker(block, groups * bits);
    for (size_t i = groups; i-- > 0;) {
      Group<Word, columns> group;
      for (size_t c = columns; c-- > 0;) {
        group[c] = Vector<Word>{} + static_cast<Word>(shared[c].shared);
        if (shared[c].bits == 0) continue;
        const Word mask = low_bits<Word>(shared[c].bits);
        group[c] |= (unpacker.take(shared[c].bits) & mask) << shared[c].below;
      }
      store_group<Word, columns>(block + i * group_bytes, group);
    }
    return true;
  }
};

}  // namespace

size_t pack_numbers(size_t item_bytes, std::byte* block, size_t bytes) {
  if (bytes == 0) return 0;
  switch (item_bytes) {
    case 4:
      return Packed<uint32_t, 1>::pack(block, bytes);
    case 8:
      return Packed<uint64_t, 1>::pack(block, bytes);
    default:
      return Packed<uint64_t, 2>::pack(block, bytes);
  }
}

bool unpack_numbers(size_t item_bytes, std::byte* block, size_t packed_bytes, size_t bytes) {
  switch (item_bytes) {
    case 4:
      return Packed<uint32_t, 1>::unpack(block, packed_bytes, bytes);
    case 8:
      return Packed<uint64_t, 1>::unpack(block, packed_bytes, bytes);
    default:
      return Packed<uint64_t, 2>::unpack(block, packed_bytes, bytes);
  }
}

}  // namespace penstock::external
