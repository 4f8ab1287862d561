#include "bench/harness/disk_speed.h"

#include <array>
#include <cstring>
#include <vector>

#include "base/random.h"
#include "bench/bench.h"
#include "file/engine.h"
#include "os/memory.h"
#include "penstock/units.h"

namespace penstock::bench {
namespace {

constexpr size_t request_bytes = 2 * MiB;
constexpr unsigned depth = 8;

// Runs `operation` over the whole file, `depth` requests in flight. Returns the seconds it took.
Result<double> sweep(file::Engine& engine, const file::File& file, file::Operation operation,
                     std::byte* buffers, uint64_t bytes) {
  std::array<file::Request, depth> requests;
  double start = now_seconds();
  uint64_t offset = 0;
  auto submit = [&](file::Request& request) {
    request.offset = offset;
    offset += request_bytes;
    engine.submit(request);
  };
  for (unsigned i = 0; i < depth; ++i) {
    requests[i] = {.operation = operation,
                   .file = &file,
                   .data = buffers + i * request_bytes,
                   .bytes = request_bytes};
    if (offset < bytes) submit(requests[i]);
  }
  while (file::Request* done = engine.wait_any()) {
    if (done->error != 0) return system_error(done->error, "measure the disk", file.path());
    if (offset < bytes) submit(*done);
  }
  return now_seconds() - start;
}

}  // namespace

Result<DiskSpeed> measure_disk(const std::string& directory, uint64_t bytes) {
  Result<os::Reservation> memory = os::Reservation::reserve(depth * request_bytes);
  if (!memory) return std::unexpected(memory.error());
  if (int error = os::commit(memory->begin(), memory->bytes()); error != 0) {
    return system_error(error, "commit memory", "buffers");
  }
  Random random(1);
  for (size_t i = 0; i < memory->bytes(); i += sizeof(uint64_t)) {
    uint64_t word = random.next();
    std::memcpy(memory->begin() + i, &word, sizeof word);
  }
  Result<file::File> file = file::File::create_temporary(directory);
  if (!file) return std::unexpected(file.error());
  Result<std::unique_ptr<file::Engine>> engine = file::Engine::open({.depth = depth});
  if (!engine) return std::unexpected(engine.error());

  bytes = bytes / request_bytes * request_bytes;
  Result<double> write_seconds =
      sweep(**engine, *file, file::Operation::write, memory->begin(), bytes);
  if (!write_seconds) return std::unexpected(write_seconds.error());
  Result<double> read_seconds =
      sweep(**engine, *file, file::Operation::read, memory->begin(), bytes);
  if (!read_seconds) return std::unexpected(read_seconds.error());
  return DiskSpeed{.write_bytes_per_s = static_cast<double>(bytes) / *write_seconds,
                   .read_bytes_per_s = static_cast<double>(bytes) / *read_seconds};
}

}  // namespace penstock::bench
