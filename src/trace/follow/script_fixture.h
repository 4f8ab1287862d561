#pragma once

// A trace that a test writes event by event, and its requests.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "penstock/trace.h"
#include "trace/format/format.h"

namespace penstock::trace {

// Times increase automatically.
class Script {
 public:
  Script()
      : path_((std::filesystem::temp_directory_path() /
               ("penstock-convert-" + std::to_string(::getpid()) + ".trace"))
                  .string()),
        writer_(*TraceWriter::create(path_, {.backend = Backend::synthetic})) {}
  ~Script() { std::filesystem::remove(path_); }

  uint32_t file(const std::string& name, uint64_t bytes = 0, FileKind kind = FileKind::regular) {
    return writer_.add_file({.kind = kind, .bytes = bytes, .path = name});
  }
  uint32_t string(const std::string& text) { return writer_.add_string(text); }
  void add(Event event) {
    if (event.start_ns == 0) event.start_ns = time_ += 100;
    if (event.thread == 0) event.thread = event.process;
    ASSERT_TRUE(writer_.add(event));
  }
  void open(int32_t process, int32_t descriptor, uint32_t file, uint64_t bytes = 0,
            uint32_t flags = 0) {
    add({.result = bytes,
         .process = process,
         .descriptor = descriptor,
         .file = file,
         .flags = flags,
         .call = Call::open});
  }
  void read(int32_t process, int32_t descriptor, uint64_t bytes, uint64_t at = no_offset) {
    add({.offset = at,
         .bytes = bytes,
         .result = bytes,
         .process = process,
         .descriptor = descriptor,
         .call = Call::read});
  }
  void write(int32_t process, int32_t descriptor, uint64_t bytes, uint64_t at = no_offset) {
    add({.offset = at,
         .bytes = bytes,
         .result = bytes,
         .process = process,
         .descriptor = descriptor,
         .call = Call::write});
  }
  void seek(int32_t process, int32_t descriptor, uint64_t to) {
    add({.result = to, .process = process, .descriptor = descriptor, .call = Call::seek});
  }

  Conversion convert(const ConvertOptions& options = {}) {
    EXPECT_TRUE(writer_.finish({}));
    requests.clear();
    auto conversion = convert_file(path_, options, [&](std::span<const Request> batch) -> Status {
      requests.insert(requests.end(), batch.begin(), batch.end());
      return {};
    });
    EXPECT_TRUE(conversion) << conversion.error().message();
    return conversion ? *conversion : Conversion{};
  }
  const std::string& path() const { return path_; }

  std::vector<Request> requests;

 private:
  std::string path_;
  TraceWriter writer_;
  uint64_t time_ = 0;
};

}  // namespace penstock::trace
