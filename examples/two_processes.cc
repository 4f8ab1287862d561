// A plain pointer between two processes: the child writes, the parent reads, and nothing is copied.
//
//   two_processes [MEBIBYTES]   amount that the child writes (64 by default)
//
// The child inherits the descriptor here; an unrelated process can get it over a socket
// (SCM_RIGHTS). If either one is killed, the other one gets an error.

#include <penstock/base.h>
#include <penstock/stream.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <numeric>

using penstock::ProcessStream;
using penstock::Side;

namespace {

int produce(int fd, uint64_t numbers) {
  auto stream = ProcessStream::attach(fd, Side::producer);
  if (!stream) return 1;
  std::iota(stream->writer<uint64_t>(), stream->writer<uint64_t>() + numbers, uint64_t{0});
  return stream->finish(numbers * sizeof(uint64_t)) ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const uint64_t bytes = (argc > 1 ? std::strtoull(argv[1], nullptr, 0) : 64) * penstock::MiB;
  const uint64_t numbers = bytes / sizeof(uint64_t);

  auto stream = ProcessStream::open(
      {.bytes = bytes, .policy = penstock::ErrorPolicy::recover, .name = "numbers"},
      Side::consumer);
  if (!stream) {
    std::fprintf(stderr, "%s\n", stream.error().message().c_str());
    return 1;
  }
  const pid_t child = fork();
  if (child == 0) _exit(produce(stream->fd(), numbers));

  const auto* data = stream->reader<uint64_t>();
  auto sum = penstock::RecoveryPoint::run(
      [&] { return std::accumulate(data, data + numbers, uint64_t{0}); });
  waitpid(child, nullptr, 0);
  if (!sum) {
    std::fprintf(stderr, "%s\n", sum.error().message().c_str());
    return 1;
  }
  std::printf("the sum of %llu numbers is %llu; %llu bytes of memory for both processes\n",
              static_cast<unsigned long long>(numbers), static_cast<unsigned long long>(*sum),
              static_cast<unsigned long long>(stream->memory_bytes()));
  return *sum == numbers / 2 * (numbers - 1) ? 0 : 1;
}
