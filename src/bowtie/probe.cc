#include "bowtie/probe.h"

#include <chrono>
#include <memory>
#include <new>
#include <vector>

#include "file/engine.h"
#include "penstock/units.h"

namespace penstock::bowtie {
namespace {

constexpr size_t request_bytes = 1 * MiB;
constexpr unsigned depth = 8;

Result<double> transfer(file::Engine& engine, const file::File& file, file::Operation operation,
                        std::byte* buffer, uint64_t bytes) {
  auto start = std::chrono::steady_clock::now();
  std::vector<file::Request> requests(depth);
  uint64_t count = bytes / request_bytes;
  for (uint64_t i = 0; i < count + depth; ++i) {
    file::Request& request = requests[i % depth];
    if (i >= depth) {
      engine.wait(request);
      if (request.error != 0) return system_error(request.error, "probe the disk", file.path());
    }
    if (i >= count) continue;
    request = {.operation = operation,
               .file = &file,
               .offset = i * request_bytes,
               .data = buffer + (i % depth) * request_bytes,
               .bytes = request_bytes};
    engine.submit(request);
  }
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  return static_cast<double>(bytes) / seconds.count();
}

}  // namespace

Result<DiskSpeed> probe_disk(const std::string& directory, uint64_t bytes) {
  auto file = file::File::create_temporary(directory);
  if (!file) return std::unexpected(file.error());
  auto engine = file::Engine::open({.depth = depth});
  if (!engine) return std::unexpected(engine.error());
  std::unique_ptr<std::byte[], void (*)(std::byte*)> buffer(
      new (std::align_val_t{file::sector_bytes}) std::byte[depth * request_bytes](),
      [](std::byte* memory) { operator delete[](memory, std::align_val_t{file::sector_bytes}); });
  auto write = transfer(**engine, *file, file::Operation::write, buffer.get(), bytes);
  if (!write) return std::unexpected(write.error());
  auto read = transfer(**engine, *file, file::Operation::read, buffer.get(), bytes);
  if (!read) return std::unexpected(read.error());
  return DiskSpeed{*read, *write};
}

}  // namespace penstock::bowtie
