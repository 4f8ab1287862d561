// Three ways to fill an array of unknown length without copying its items.
//
//   rewired_vector [NUMBERS]   half of them odd, half of them even (2,000,000 each by default)
//
// push_back() takes pages from a pool as it goes. The append window is a plain pointer: a library's
// function or several threads that write to it find memory there. And splice() moves the pages of
// one vector behind those of another.

#include <penstock/base.h>
#include <penstock/containers.h>
#include <penstock/rewire.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>

using penstock::RewiredVector;

namespace {

int fail(const penstock::Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t numbers = argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 2'000'000;
  auto pool =
      penstock::PagePool::open({.page_bytes = 64 * penstock::KiB,
                                .bytes_max = 4 * numbers * sizeof(uint64_t) + penstock::MiB});
  if (!pool) return fail(pool.error());

  auto odd = RewiredVector<uint64_t>::open(*pool);
  auto even = RewiredVector<uint64_t>::open(*pool);
  if (!odd || !even) return fail((odd ? even : odd).error());

  for (uint64_t i = 0; i < numbers; ++i) odd->push_back(2 * i + 1);
  const uint64_t* const first = odd->data();  // stays valid, however long the vector becomes

  auto window = even->append_window();
  if (!window) return fail(window.error());
  uint64_t* const end =
      std::transform(odd->begin(), odd->end(), *window, [](uint64_t number) { return number + 1; });
  if (auto status = even->append_end(end); !status) return fail(status.error());

  // Fills up to the end of a page, so that pages fit behind each other.
  while (odd->size() * sizeof(uint64_t) % pool->page_bytes() != 0) odd->push_back(0);
  const auto spliced = odd->splice(odd->end(), *even, 0, even->size());
  if (!spliced) return fail(spliced.error());
  std::printf("%llu pages moved, %llu bytes copied\n",
              static_cast<unsigned long long>(spliced->pages_moved),
              static_cast<unsigned long long>(spliced->copied_bytes));

  const uint64_t sum = std::accumulate(first, first + odd->size(), uint64_t{0});
  const bool is_right = sum == numbers * (2 * numbers + 1) && spliced->copied_bytes == 0;
  std::printf("the sum of 1 to %llu is %llu%s\n", static_cast<unsigned long long>(2 * numbers),
              static_cast<unsigned long long>(sum), is_right ? "" : ", which is wrong");
  return is_right ? 0 : 1;
}
