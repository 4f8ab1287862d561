#pragma once

// A trace that a test writes request by request, its plan, and its replay on a model.

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "penstock/trace.h"
#include "trace/format/format.h"
#include "trace/replay/replay.h"

namespace penstock::trace {

// A trace with one descriptor per file, which all threads use.
class ReplayScript {
 public:
  explicit ReplayScript(const std::string& path)
      : path_(path), writer_(*TraceWriter::create(path, {.backend = Backend::synthetic})) {}

  uint32_t file(const std::string& name, uint64_t bytes, FileKind kind = FileKind::regular) {
    const uint32_t id = writer_.add_file({.kind = kind, .bytes = bytes, .path = name});
    EXPECT_TRUE(writer_.add({.result = bytes,
                             .process = 1,
                             .thread = 1,
                             .descriptor = static_cast<int32_t>(id),
                             .file = id,
                             .flags = flag::read | flag::write,
                             .call = Call::open}));
    return id;
  }
  void request(uint32_t file, Access access, uint64_t offset, uint64_t bytes, int32_t thread = 1) {
    request_at(file, access, offset, bytes, thread, time_ += 1000, 500);
  }
  void request_at(uint32_t file, Access access, uint64_t offset, uint64_t bytes, int32_t thread,
                  uint64_t start_ns, uint64_t latency_ns) {
    EXPECT_TRUE(writer_.add({.start_ns = start_ns,
                             .latency_ns = latency_ns,
                             .offset = offset,
                             .bytes = bytes,
                             .result = bytes,
                             .process = 1,
                             .thread = thread,
                             .descriptor = static_cast<int32_t>(file),
                             .call = access == Access::read ? Call::read : Call::write}));
  }
  void sync(uint32_t file, int32_t thread = 1) { sync_at(file, thread, time_ += 1000, 500); }
  void sync_at(uint32_t file, int32_t thread, uint64_t start_ns, uint64_t latency_ns) {
    EXPECT_TRUE(writer_.add({.start_ns = start_ns,
                             .latency_ns = latency_ns,
                             .process = 1,
                             .thread = thread,
                             .descriptor = static_cast<int32_t>(file),
                             .file = file,
                             .call = Call::sync}));
  }
  const std::string& finish() {
    EXPECT_TRUE(writer_.finish({}));
    return path_;
  }

 private:
  const std::string path_;
  TraceWriter writer_;
  uint64_t time_ = 0;
};

inline ReplayPlan planned(const std::string& trace, const ReplayOptions& options = {}) {
  auto plan = plan_replay(trace, options);
  EXPECT_TRUE(plan) << plan.error().message();
  return plan ? std::move(*plan) : ReplayPlan{};
}

inline const bowtie::DeviceProfile device{.name = "test",
                                          .read_bytes_per_s = 100e6,
                                          .write_bytes_per_s = 50e6,
                                          .switch_seconds = bowtie::SwitchDelay(0.01)};

inline ReplayResult simulated(const std::string& trace, const ReplayOptions& options = {}) {
  auto result = simulate_replay(trace, planned(trace, options), device, options);
  EXPECT_TRUE(result) << result.error().message();
  return result ? *result : ReplayResult{};
}

}  // namespace penstock::trace
