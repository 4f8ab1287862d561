#include "generate/lines.h"

#include <string_view>

namespace penstock::generate {

LineWriter& LineWriter::words(Random& random, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    if (i > 0) put(' ');
    word(random);
  }
  return *this;
}

void LineWriter::word(Random& random) {
  uint64_t bits = random.next();
  if (bits % 32 == 0) {
    for (const char byte : std::string_view("\xc3\xa9")) put(byte);  // "e" with an acute accent
  }
  bits >>= 5;
  const uint64_t letters = 1 + bits % 11;
  bits >>= 4;
  for (uint64_t i = 0; i < letters; ++i, bits >>= 5) {
    put("aabcdeeefghiijklmnoopqrsttuvwxyz"[bits % 32]);
  }
}

LineWriter& LineWriter::number(uint64_t value) {
  constexpr int digits = 20;
  char text[digits];
  for (int i = digits - 1; i >= 0; --i, value /= 10) text[i] = static_cast<char>('0' + value % 10);
  for (const char digit : text) put(digit);
  put(' ');
  return *this;
}

LineWriter& LineWriter::prefix(uint64_t which) {
  for (uint64_t i = 0; i <= which; ++i) {
    for (const char letter :
         std::string_view("https://example.org/a/path/that/many/lines/share/")) {
      put(letter);
    }
  }
  return *this;
}

LineWriter& LineWriter::text(Random& random) {
  const uint64_t kind = random.below(64);
  if (kind == 0) return *this;
  return words(random, kind == 1 ? 20 + random.below(130) : 1 + random.below(10));
}

size_t LineWriter::finish() {
  *end_++ = '\n';
  return static_cast<size_t>(end_ - begin_);
}

}  // namespace penstock::generate
