#pragma once

// Shared helpers of the tests of streams with two sides.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "penstock/base.h"

namespace penstock {

inline constexpr size_t block = 64 * KiB;

// A load and a store that the compiler keeps where they are written.
inline uint8_t look(const char* at) {
  return *reinterpret_cast<const volatile uint8_t*>(at);
}
inline void touch(char* at, int value = 'x') {
  *static_cast<volatile char*>(at) = static_cast<char>(value);
}

// Whether the condition becomes true within ms_max.
template <class Condition>
bool soon(Condition condition, int ms_max = 60'000) {
  for (int ms = 0; ms < ms_max && !condition(); ++ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return condition();
}
inline constexpr int a_while_ms = 30;

// Threads of a side, each with its part of every block, so that all fault in the same blocks at the
// same time; a barrier keeps them within the comeback of each other. `prepares`: with calls that
// order the threads for the thread sanitizer.
template <class Stream>
void expect_threads_to_share_a_side(Stream (*open)(typename Stream::Options), int groups,
                                    bool prepares) {
  constexpr int group_blocks = 4, threads_per_side = 3;
  constexpr size_t part = block / threads_per_side;
  const int blocks = groups * group_blocks;
  Stream pipe = open({.bytes = blocks * block,
                      .producer_comeback_blocks = group_blocks - 1,
                      .consumer_comeback_blocks = group_blocks - 1});
  std::atomic<int> wrong = 0;
  std::barrier produced(threads_per_side), consumed(threads_per_side);
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < threads_per_side; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < blocks; ++i) {
          char* data = pipe.writer() + i * block + t * part;
          EXPECT_TRUE(!prepares || pipe.prepare_write(data, part));
          std::memset(data, i + t, part);
          if (i % group_blocks == group_blocks - 1) produced.arrive_and_wait();
        }
        if (t == 0) {
          EXPECT_TRUE(pipe.finish(blocks * block));
        }
      });
      threads.emplace_back([&, t] {
        for (int i = 0; i < blocks; ++i) {
          const char* data = pipe.reader() + i * block + t * part;
          EXPECT_TRUE(!prepares || pipe.prepare_read(data, part));
          wrong +=
              data[0] != static_cast<char>(i + t) || data[part - 1] != static_cast<char>(i + t);
          if (i % group_blocks == group_blocks - 1) consumed.arrive_and_wait();
        }
      });
    }
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace penstock
