#include "external/probe.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <vector>

#include "base/random.h"
#include "file/engine.h"
#include "os/memory.h"

namespace penstock::external {
namespace {

// Runs `operation` over the whole file. Returns bytes a second.
Result<double> sweep(file::Engine& engine, const file::File& file, file::Operation operation,
                     std::byte* buffers, const DiskProbe& probe) {
  std::vector<file::Request> requests(probe.depth);
  auto start = std::chrono::steady_clock::now();
  uint64_t offset = 0;
  auto submit = [&](file::Request& request) {
    request.offset = offset;
    offset += probe.request_bytes;
    engine.submit(request);
  };
  for (unsigned i = 0; i < probe.depth; ++i) {
    requests[i] = {.operation = operation,
                   .file = &file,
                   .data = buffers + i * probe.request_bytes,
                   .bytes = probe.request_bytes};
    if (offset < probe.bytes) submit(requests[i]);
  }
  while (file::Request* done = engine.wait_any()) {
    if (done->error != 0) return system_error(done->error, "probe the disk", file.path());
    if (offset < probe.bytes) submit(*done);
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(offset) / seconds.count();
}

}  // namespace

Result<DiskSpeed> probe_disk(const std::string& directory, const DiskProbe& probe) {
  auto memory = os::Reservation::reserve(probe.depth * probe.request_bytes);
  if (!memory) return std::unexpected(memory.error());
  if (int error = os::commit(memory->begin(), memory->bytes()); error != 0) {
    return system_error(error, "commit memory", "buffers");
  }
  (void)os::advise_huge(memory->begin(), memory->bytes(), true);
  Random random(1);  // a disk that compresses shall not profit
  for (size_t i = 0; i < memory->bytes(); i += sizeof(uint64_t)) {
    uint64_t word = random.next();
    std::memcpy(memory->begin() + i, &word, sizeof word);
  }
  auto file = file::File::create_temporary(directory);
  if (!file) return std::unexpected(file.error());
  auto engine = file::Engine::open({.depth = probe.depth});
  if (!engine) return std::unexpected(engine.error());
  auto write = sweep(**engine, *file, file::Operation::write, memory->begin(), probe);
  if (!write) return std::unexpected(write.error());
  auto read = sweep(**engine, *file, file::Operation::read, memory->begin(), probe);
  if (!read) return std::unexpected(read.error());
  return DiskSpeed{.write_bytes_per_s = *write, .read_bytes_per_s = *read};
}

}  // namespace penstock::external
