// A program that makes one call a great many times, for bench trace-overhead:
//
//   calls pread FILE COUNT RESULT     4 KiB from FILE, at changing offsets
//   calls getppid FILE COUNT RESULT   a call that is not traced
//
// RESULT gets the nanoseconds of a call: the median of a thousand averages, so that occasional
// disturbances do not count.

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const bool reads = std::strcmp(argv[1], "pread") == 0;
  const long count = std::atol(argv[3]);
  const int fd = ::open(argv[2], O_RDONLY);
  if (fd < 0) return 3;
  static char buffer[4096];
  constexpr long blocks = 256;
  std::array<double, 1000> ns;
  const long in_batch = std::max(1L, count / static_cast<long>(ns.size()));
  for (double& of_batch : ns) {
    const auto start = std::chrono::steady_clock::now();
    for (long i = 0; i < in_batch; ++i) {
      if (!reads) {
        ::syscall(SYS_getppid);
      } else if (::pread(fd, buffer, sizeof buffer, (i % blocks) * 4096) != sizeof buffer) {
        return 4;
      }
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    of_batch = taken.count() / static_cast<double>(in_batch);
  }
  std::ranges::nth_element(ns, ns.begin() + ns.size() / 2);
  std::FILE* result = std::fopen(argv[4], "w");
  if (result == nullptr) return 5;
  std::fprintf(result, "%.3f\n", ns[ns.size() / 2]);
  return std::fclose(result) == 0 ? 0 : 6;
}
