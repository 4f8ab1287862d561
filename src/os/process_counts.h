#pragma once

// The system's counts of this process, for tests. (memory.h and limits.h have others.)

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <thread>

namespace penstock::os {

inline size_t entries_of(const char* folder) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

// Returns the open descriptors, including the one for reading the folder.
inline size_t descriptors() {
  return entries_of("/proc/self/fd");
}

// Returns the threads. A thread that was joined may be counted for a moment longer.
inline size_t threads() {
  return entries_of("/proc/self/task");
}

// Waits until there are at most `before` threads, ten seconds at most.
inline void wait_until_threads_are_gone(size_t before) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (threads() > before && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace penstock::os
