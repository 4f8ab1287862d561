#pragma once

// Random requests for the report's tests (runs of random lengths over some files, of several
// processes, as a conversion returns them), and traces that contain them.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/trace.h"
#include "trace/format/format.h"

namespace penstock::report {

// Name of a trace file, which the destructor removes.
class TraceOnDisk {
 public:
  TraceOnDisk() {
    static int number = 0;
    path_ = std::filesystem::temp_directory_path() /
            ("penstock-report-" + std::to_string(::getpid()) + "-" + std::to_string(number++));
  }
  ~TraceOnDisk() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TraceOnDisk(const TraceOnDisk&) = delete;
  TraceOnDisk& operator=(const TraceOnDisk&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct MadeRequest {
  uint32_t file;           // 0-based
  uint64_t offset, bytes;  // 0 bytes: a sync
  trace::Access access;
  int32_t process;
  uint64_t start_ns, latency_ns;
};

inline std::vector<MadeRequest> random_requests(Random& random, size_t count, uint32_t files,
                                                uint32_t processes) {
  std::vector<MadeRequest> requests;
  uint64_t now_ns = 1000;
  while (requests.size() < count) {
    MadeRequest next{.file = static_cast<uint32_t>(random.below(files)),
                     .offset = random.below(1 << 24),
                     .bytes = 1 + random.below(1 << 16),
                     .access = random.below(2) == 0 ? trace::Access::read : trace::Access::write,
                     .process = 100 + static_cast<int32_t>(random.below(processes)),
                     .start_ns = 0,
                     .latency_ns = 0};
    for (uint64_t run = 1 + random.below(9); run > 0 && requests.size() < count; --run) {
      next.start_ns = now_ns;
      next.latency_ns = random.below(3000);
      requests.push_back(next);
      next.offset += next.bytes;
      now_ns += 100 + random.below(2000);
    }
  }
  return requests;
}

// Writes a trace that converts to exactly these requests, each with an explicit offset.
inline void write_trace(const std::string& path, const std::vector<MadeRequest>& requests,
                        const std::vector<std::string>& names, bool complete = true) {
  auto writer = trace::TraceWriter::create(
      path, {.backend = trace::Backend::synthetic, .command = "made <b>up</b>", .host = "Linux"});
  ASSERT_TRUE(writer) << writer.error().message();
  std::vector<int32_t> opened;
  for (uint32_t file = 0; file < names.size(); ++file) {
    const uint32_t id = writer->add_file(
        {.kind = trace::FileKind::regular, .inode = file + 1, .path = names[file]});
    ASSERT_EQ(id, file + 1);
  }
  for (const MadeRequest& request : requests) {
    if (std::ranges::find(opened, request.process) == opened.end()) {
      opened.push_back(request.process);
      for (uint32_t file = 0; file < names.size(); ++file) {
        trace::Event open{.start_ns = request.start_ns,
                          .process = request.process,
                          .thread = request.process,
                          .descriptor = static_cast<int32_t>(file + 3),
                          .file = file + 1,
                          .flags = trace::flag::read | trace::flag::write,
                          .call = trace::Call::open};
        open.offset = trace::no_offset;
        ASSERT_TRUE(writer->add(open));
      }
    }
    const bool sync = request.bytes == 0;
    ASSERT_TRUE(
        writer->add({.start_ns = request.start_ns,
                     .latency_ns = request.latency_ns,
                     .offset = request.offset,
                     .bytes = request.bytes,
                     .result = request.bytes,
                     .process = request.process,
                     .thread = request.process,
                     .descriptor = static_cast<int32_t>(request.file + 3),
                     .file = sync ? request.file + 1 : 0,
                     .call = sync                                    ? trace::Call::sync
                             : request.access == trace::Access::read ? trace::Call::read
                                                                     : trace::Call::write}));
  }
  if (complete) {
    ASSERT_TRUE(writer->finish({}));
  } else {
    ASSERT_TRUE(writer->flush());
  }
}

}  // namespace penstock::report
