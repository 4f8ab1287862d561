#pragma once

// A buffer with its request, of which generate_file and check_file keep some in flight.

#include <memory>
#include <new>

#include "base/run_scope.h"
#include "file/engine.h"
#include "file/file.h"

namespace penstock::record {

inline constexpr unsigned transfers_in_flight = 4;

struct SectorAligned {
  void operator()(std::byte* data) const {
    operator delete[](data, std::align_val_t{file::sector_bytes});
  }
};
using Buffer = std::unique_ptr<std::byte[], SectorAligned>;

// Thread safety: none.
struct Transfer {
  explicit Transfer(size_t bytes)
      : buffer(new(std::align_val_t{file::sector_bytes}) std::byte[bytes]), charge(bytes) {}

  void submit(file::Engine& engine, file::Operation operation, const file::File& file,
              uint64_t offset, size_t bytes) {
    request = {.operation = operation,
               .file = &file,
               .offset = offset,
               .data = buffer.get(),
               .bytes = bytes};
    submitted = true;
    engine.submit(request);
  }

  // The bytes transferred: fewer than asked for at the end of a file. Nothing submitted: 0.
  Result<size_t> wait(file::Engine& engine) {
    if (!submitted) return size_t{0};
    submitted = false;
    engine.wait(request);
    if (request.error == 0) return request.done_bytes;
    return std::unexpected(file::error_of(request));
  }

  Buffer buffer;
  MemoryCharge charge;
  file::Request request;
  bool submitted = false;
};

}  // namespace penstock::record
