#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/run_scope.h"
#include "penstock/source.h"

namespace penstock::files {

// Writes small pieces to a sink, many at a time. Thread safety: one thread.
class BatchWriter {
 public:
  explicit BatchWriter(std::shared_ptr<Sink> sink) : sink_(std::move(sink)) {}

  Status add(std::string_view bytes) {
    constexpr size_t batch_bytes = 256 << 10;
    bytes_ += bytes.size();
    if (batch_.size() + bytes.size() > batch_bytes) {
      if (Status written = write(batch_); !written) return written;
      batch_.clear();
      if (bytes.size() > batch_bytes) return write(bytes);
    }
    batch_ += bytes;
    return {};
  }
  // Writes the rest; the output gets its name.
  Status close() {
    if (Status written = write(batch_); !written) return written;
    const NoRunScope callers;
    return sink_->close();
  }
  uint64_t bytes() const { return bytes_; }

 private:
  Status write(std::string_view bytes) {
    const NoRunScope callers;
    return bytes.empty() ? Status{} : sink_->write(std::as_bytes(std::span(bytes)));
  }

  const std::shared_ptr<Sink> sink_;
  std::string batch_;
  uint64_t bytes_ = 0;
};

}  // namespace penstock::files
