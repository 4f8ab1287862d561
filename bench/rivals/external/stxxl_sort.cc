// A rival for the bench external-sort: STXXL sorts a file of u64.
//
// stxxl_sort INPUT OUTPUT MEMORY_BYTES SECONDS_MAX reads the input through a vector over the file,
// sorts it as a stream (runs, then merges), and writes a vector over the output file, with
// MEMORY_BYTES for all of it, direct I/O, and its parallel sort. The file that STXXLCFG names has
// the place of its own disk. Errors are printed to stdout, with exit code 1; SIGALRM ends it after
// SECONDS_MAX.

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <memory>
#include <stxxl/io>
#include <stxxl/sort>
#include <stxxl/stream>
#include <stxxl/vector>

namespace {

struct Less {
  bool operator()(uint64_t a, uint64_t b) const { return a < b; }
  uint64_t min_value() const { return std::numeric_limits<uint64_t>::min(); }
  uint64_t max_value() const { return std::numeric_limits<uint64_t>::max(); }
};

constexpr unsigned block_bytes = 2 << 20;
// Four pages of a block each.
using Numbers = stxxl::vector<uint64_t, 1, stxxl::lru_pager<4>, block_bytes>;
constexpr uint64_t vector_bytes = uint64_t{4} * block_bytes;

// Makes plain system calls, which a trace can see, if STXXL_SORT_SYSTEM_CALLS is set.
std::unique_ptr<stxxl::file> open_file(const char* path, int mode) {
  mode |= stxxl::file::DIRECT;
  if (std::getenv("STXXL_SORT_SYSTEM_CALLS") != nullptr)
    return std::make_unique<stxxl::syscall_file>(path, mode);
  return std::make_unique<stxxl::linuxaio_file>(path, mode);
}

int complain(const char* what) {
  std::printf("%s\n", what);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  // Discards STXXL's messages; ours go to stdout.
  if (std::freopen("/dev/null", "w", stderr) == nullptr) return 2;
  const uint64_t memory_bytes = std::strtoull(argv[3], nullptr, 10);
  alarm(static_cast<unsigned>(std::strtoul(argv[4], nullptr, 10)));
  if (memory_bytes <= 2 * vector_bytes) return complain("too little memory");
  try {
    const auto input_file = open_file(argv[1], stxxl::file::RDONLY);
    const auto output_file =
        open_file(argv[2], stxxl::file::RDWR | stxxl::file::CREAT | stxxl::file::TRUNC);
    const Numbers input(input_file.get());
    Numbers output(output_file.get());
    output.resize(input.size());

    auto source = stxxl::stream::streamify(input.begin(), input.end());
    stxxl::stream::sort<decltype(source), Less, block_bytes> sorted(
        source, Less(), memory_bytes - 2 * vector_bytes);
    const auto end = stxxl::stream::materialize(sorted, output.begin(), output.end());
    if (end != output.end()) return complain("items were lost");
    output.flush();
  } catch (const std::exception& problem) {
    return complain(problem.what());
  }
  return 0;
}
