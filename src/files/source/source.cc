// Files, pipes, sockets and callbacks as sources and sinks.

#include "penstock/source.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <optional>
#include <string>
#include <utility>

#include "base/out_of_memory.h"
#include "base/run_scope.h"
#include "files/source/checked_read.h"
#include "files/source/codec.h"
#include "files/source/encoding.h"
#include "files/source/in_order.h"
#include "io/descriptor.h"
#include "io/engine.h"
#include "io/file.h"
#include "io/input_guard.h"
#include "io/outlet.h"

namespace penstock {

Result<size_t> source::checked_read(Source& source, std::span<std::byte> into) {
  Result<size_t> got = source.read(into);
  if (!got || *got <= into.size()) return got;
  return failure(ErrorCode::invalid_argument,
                 "read " + std::to_string(*got) + " bytes where there is room for " +
                     std::to_string(into.size()),
                 "a source", "a read() that returns how many bytes it stored");
}

namespace {

// The part of a budget that a window may take.
constexpr uint64_t window_part = 8;

class DescriptorSource final : public Source {
 public:
  explicit DescriptorSource(io::Descriptor descriptor) : descriptor_(std::move(descriptor)) {}
  Result<size_t> read(std::span<std::byte> into) override { return descriptor_.read(into); }
  void cancel() override { descriptor_.interrupt(); }

 private:
  io::Descriptor descriptor_;
};

// A caller's source: its code does not belong to the run that reads it, but its bytes do.
class CallersSource final : public Source {
 public:
  explicit CallersSource(std::shared_ptr<Source> source) : source_(std::move(source)) {}
  Result<size_t> read(std::span<std::byte> into) override {
    auto bytes = read_outside(into);
    if (bytes)  // relaxed: a statistic
      current_traffic().bytes_read.fetch_add(*bytes, std::memory_order_relaxed);
    return bytes;
  }
  void cancel() override {
    const NoRunScope callers;
    source_->cancel();
  }

 private:
  Result<size_t> read_outside(std::span<std::byte> into) {
    const NoRunScope callers;
    return source::checked_read(*source_, into);
  }

  const std::shared_ptr<Source> source_;
};

// Writes directly if memory and offset allow it, as for whole blocks of a stream.
class FileSink final : public Sink {
 public:
  explicit FileSink(io::File file) : file_(std::move(file)) {}
  Status write(std::span<const std::byte> from) override {
    // Relaxed: the flag publishes nothing.
    if (cancelled_.load(std::memory_order_relaxed)) {
      return failure(ErrorCode::cancelled, "write on", file_.path());
    }
    Status written = io::write_exactly(file_, offset_, from.data(), from.size());
    offset_ += from.size();
    return written;
  }
  Status close() override { return file_.publish(); }
  void cancel() override {
    cancelled_.store(true, std::memory_order_relaxed);
    file_.cancel_writes();
  }

 private:
  io::File file_;
  uint64_t offset_ = 0;
  std::atomic<bool> cancelled_ = false;
};

Error cancelled_callback() {
  return {ErrorCode::cancelled, "go on", "callback"};
}

class CallbackSource final : public Source {
 public:
  CallbackSource(std::function<Result<size_t>(std::span<std::byte>)> read,
                 std::function<void()> cancel)
      : read_(std::move(read)), cancel_(std::move(cancel)) {}
  Result<size_t> read(std::span<std::byte> into) override {
    if (cancelled_.load(std::memory_order_relaxed)) return std::unexpected(cancelled_callback());
    return read_(into);
  }
  void cancel() override {
    cancelled_.store(true, std::memory_order_relaxed);  // relaxed: as above
    if (cancel_) cancel_();
  }

 private:
  std::function<Result<size_t>(std::span<std::byte>)> read_;
  std::function<void()> cancel_;
  std::atomic<bool> cancelled_ = false;
};

class CallbackSink final : public Sink {
 public:
  CallbackSink(std::function<Status(std::span<const std::byte>)> write,
               std::function<void()> cancel)
      : write_(std::move(write)), cancel_(std::move(cancel)) {}
  Status write(std::span<const std::byte> from) override {
    if (cancelled_.load(std::memory_order_relaxed)) return std::unexpected(cancelled_callback());
    return write_(from);
  }
  void cancel() override {
    cancelled_.store(true, std::memory_order_relaxed);  // relaxed: as above
    if (cancel_) cancel_();
  }

 private:
  std::function<Status(std::span<const std::byte>)> write_;
  std::function<void()> cancel_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace

Result<std::unique_ptr<Source>> descriptor_source(int fd, std::string name) {
  return or_out_of_memory([&]() -> Result<std::unique_ptr<Source>> {
    auto descriptor = io::Descriptor::duplicate(fd, std::move(name));
    if (!descriptor) return std::unexpected(descriptor.error());
    return std::make_unique<DescriptorSource>(std::move(*descriptor));
  });
}

Result<std::unique_ptr<Sink>> descriptor_sink(int fd, std::string name) {
  return or_out_of_memory([&]() -> Result<std::unique_ptr<Sink>> {
    auto descriptor = io::Descriptor::duplicate(fd, std::move(name));
    if (!descriptor) return std::unexpected(descriptor.error());
    return std::make_unique<io::DescriptorSink>(std::move(*descriptor));
  });
}

Result<std::unique_ptr<Source>> open_source(const std::string& path, const SourceOptions& options) {
  return or_out_of_memory([&]() -> Result<std::unique_ptr<Source>> {
    auto file = io::File::open_input(path, io::Caching::buffered);
    if (!file) return std::unexpected(file.error());
    return source::source_of(*file, options);
  });
}

Result<source::Arrival> source::arrival_of(const io::File& file, const SourceOptions& options) {
  const uint64_t filter_bytes = (options.filter != nullptr ? options.filter->memory_bytes() : 0) +
                                (options.encoding.empty() ? 0 : decoder_bytes);
  if (!file.seekable()) return Arrival{.in_order = true, .decoding_bytes = filter_bytes};
  const auto bytes = file.size();
  if (!bytes) return std::unexpected(bytes.error());
  const Arrival plain{.in_order = filter_bytes > 0, .decoding_bytes = filter_bytes};
  if (!options.decompress) return plain;
  std::array<std::byte, head_bytes> room;
  const std::span head = std::span(room).first(std::min<uint64_t>(room.size(), *bytes));
  if (Status read = io::read_exactly(file, 0, head.data(), head.size()); !read)
    return std::unexpected(read.error());
  const auto decoding = decoding_bytes(head);
  if (!decoding) return plain;
  if (*decoding > decoding_bytes_max(options))
    return failure(
        ErrorCode::out_of_memory,
        "decompress it: it takes " + std::to_string(*decoding / MiB) + " MiB, more than allowed",
        file.path(), hint_of_window(*decoding));
  return Arrival{.in_order = true, .decoding_bytes = *decoding + filter_bytes};
}

// (A window of zstd may have the next power of two.)
std::string source::hint_of_window(uint64_t decoding_bytes) {
  return "-S " + std::to_string(window_part * std::bit_ceil(std::min(decoding_bytes, TiB)) / MiB) +
         "M of the program, window_bytes_max of the library";
}

SourceOptions source::within_memory(SourceOptions options, uint64_t memory_bytes) {
  constexpr uint64_t usual_window_bytes = 8 * MiB;  // RFC 8878, 3.1.1.1.2
  options.window_bytes_max =
      std::min(options.window_bytes_max, std::max(memory_bytes / window_part, usual_window_bytes));
  return options;
}

Result<std::unique_ptr<Source>> source::source_of(const io::File& file,
                                                  const SourceOptions& options,
                                                  const std::atomic<bool>* cancel) {
  const auto filtered = [&](std::unique_ptr<Source> bytes) -> Result<std::unique_ptr<Source>> {
    auto text = decoded(std::move(bytes), file.path(), options.encoding);
    if (!text || options.filter == nullptr) return text;
    return options.filter->filtered(std::move(*text), file.path());
  };
  if (file.source() != nullptr) {
    auto text = std::make_unique<CallersSource>(file.source());
    if (options.filter == nullptr) return text;
    return options.filter->filtered(std::move(text), file.path());
  }
  const auto begin = file.seekable() ? std::optional<uint64_t>(0) : std::nullopt;
  auto descriptor = io::Descriptor::duplicate(file.buffered_descriptor(), file.path(), begin);
  if (!descriptor) return std::unexpected(descriptor.error());
  descriptor->set_cancel(cancel);
  return filtered(
      decompress(std::make_unique<DescriptorSource>(std::move(*descriptor)), file.path(), options));
}

namespace {

Result<std::unique_ptr<Sink>> open_plain_sink(const std::string& path, const SinkOptions& options) {
  auto inputs = std::make_shared<io::InputGuard>();
  for (const std::string& input : options.inputs) inputs->add(input);
  auto file = io::File::create_output(
      path, {.rules = {.overwrite_device = options.overwrite_device, .sync = options.sync},
             .inputs = std::move(inputs)});
  if (!file) return std::unexpected(file.error());
  return std::make_unique<FileSink>(std::move(*file));
}

}  // namespace

Result<std::unique_ptr<Sink>> open_sink(const std::string& path, const SinkOptions& options) {
  return or_out_of_memory([&]() -> Result<std::unique_ptr<Sink>> {
    auto sink = open_plain_sink(path, options);
    if (!sink || !options.compressed) return sink;
    return compress(std::move(*sink), *options.compressed);
  });
}

std::unique_ptr<Source> callback_source(std::function<Result<size_t>(std::span<std::byte>)> read,
                                        std::function<void()> cancel) {
  return std::make_unique<CallbackSource>(std::move(read), std::move(cancel));
}

std::unique_ptr<Sink> callback_sink(std::function<Status(std::span<const std::byte>)> write,
                                    std::function<void()> cancel) {
  return std::make_unique<CallbackSink>(std::move(write), std::move(cancel));
}

}  // namespace penstock
