// A sample that mutants_test.py mutates. It has one place of each kind that must be found, and code that must be left alone.

#include <atomic>
#include <cstdlib>

#define EXPECT(condition) \
  if (!(condition)) std::exit(1)

static_assert(sizeof(int) < 8);
constexpr int limit = 3 + 4;
template <typename T>
constexpr bool is_small(T x) {
  if constexpr (sizeof(T) == 1) return {};
  return x < limit;
}

int divide(int a, int b) {
  return a / b;
}
int halves(int n) {
  return divide(n, 2);
}
int sum(int a, int b) {
  return a + b;
}
bool odd(int n) {
  return n % 2 != 0;
}
int next(int n) {
  return n + 1;
}
int published = 0;
std::atomic<int> ready = 0;
void count() {
  ++published;
}
void publish() {
  count();
  ready.store(1, std::memory_order_release);
}
int sign(bool negative) {
  return negative ? -5 : 5;
}
bool answer() {
  return true;
}
bool nobody_asks() {
  return false;
}

int main() {
  static_assert(is_small(limit - 1));
  EXPECT(is_small(6) && !is_small(7));
  EXPECT(halves(8) == 4);
  EXPECT(sum(2, 3) == 5);
  EXPECT(odd(3));
  EXPECT(next(1) == 2);
  publish();
  EXPECT(published == 1);
  EXPECT(sign(true) == -5);
  EXPECT(answer());
}
