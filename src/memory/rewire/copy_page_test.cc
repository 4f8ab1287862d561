#include "memory/rewire/copy_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <random>

namespace penstock::rewire {
namespace {

TEST(CopyPage, CopiesEveryByteAndNoMore) {
  constexpr size_t bytes_max = size_t{2} << 20;
  const auto free_it = [](std::byte* memory) { std::free(memory); };
  const auto memory = [&] {
    return std::unique_ptr<std::byte[], decltype(free_it)>(
        static_cast<std::byte*>(std::aligned_alloc(4096, bytes_max + 4096)), free_it);
  };
  const auto from = memory(), to = memory();
  std::mt19937_64 random(7);
  std::generate(from.get(), from.get() + bytes_max, [&] { return std::byte(random()); });
  for (size_t bytes = 4096; bytes <= bytes_max; bytes *= 2) {
    for (size_t touched : {size_t{0}, bytes / 2 + 17, bytes - 1}) {
      std::fill_n(to.get(), bytes_max + 4096, std::byte(0xee));
      copy_page(to.get(), from.get(), bytes, touched);
      EXPECT_TRUE(std::equal(from.get(), from.get() + bytes, to.get()));
      EXPECT_TRUE(std::all_of(to.get() + bytes, to.get() + bytes_max + 4096,
                              [](std::byte b) { return b == std::byte(0xee); }));
    }
  }
}

}  // namespace
}  // namespace penstock::rewire
