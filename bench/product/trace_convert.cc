// The speed of converting a trace to a sequence of requests: 100 million of them, of a synthetic
// merge of 64 files by four processes, in bounded memory.

#include <string>
#include <vector>

#include "base/random.h"
#include "bench/harness/bench.h"
#include "bench/harness/isolated.h"
#include "bench/harness/scratch.h"
#include "penstock/trace.h"
#include "trace/format/format.h"

namespace penstock::bench {
namespace {

constexpr uint32_t files = 64;
constexpr int processes = 4;

// Each file is read in runs of requests from its descriptor's position, which sometimes seeks.
Result<uint64_t> write_trace(const std::string& path, uint64_t requests) {
  auto writer = trace::TraceWriter::create(path, {.backend = trace::Backend::synthetic});
  if (!writer) return std::unexpected(writer.error());
  Random random(1);
  std::vector<uint64_t> positions(files);
  for (uint32_t file = 0; file < files; ++file) {
    const auto id = writer->add_file(
        {.kind = trace::FileKind::regular, .bytes = 1 << 20, .path = std::to_string(file)});
    (void)writer->add({.result = 1 << 20,
                       .process = 1 + static_cast<int32_t>(file) % processes,
                       .descriptor = static_cast<int32_t>(3 + file),
                       .file = id,
                       .call = trace::Call::open});
  }
  trace::Event event{.bytes = 65536, .result = 65536};
  uint32_t file = 0;
  uint64_t left = 0, now = 0;
  for (uint64_t i = 0; i < requests; ++i) {
    if (left == 0) {
      left = 1 + random.below(32);
      file = static_cast<uint32_t>(random.below(files));
      event.process = event.thread = 1 + static_cast<int32_t>(file) % processes;
      event.descriptor = static_cast<int32_t>(3 + file);
      event.call = random.below(4) == 0 ? trace::Call::write : trace::Call::read;
      event.offset = trace::no_offset;
    }
    --left;
    event.latency_ns = 8000 + random.below(8000);
    now += 5000;
    event.start_ns = now - random.below(10000) % now;  // some overlap
    if (Status status = writer->add(event); !status) return std::unexpected(status.error());
  }
  if (Status status = writer->finish({}); !status) return std::unexpected(status.error());
  return writer->file_bytes();
}

Result<Report> run(const Options& options) {
  const uint64_t requests = options.quick ? 200'000 : 100'000'000;
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  const std::string path = scratch->file("made.trace");
  const auto bytes = write_trace(path, requests);
  if (!bytes) return std::unexpected(bytes.error());

  Report report;
  std::vector<double> rates, peaks;
  for (unsigned run = 0; run < options.runs_or(3); ++run) {
    auto converted = run_isolated([&](Probe&) -> Result<uint64_t> {
      uint64_t sum = 0;
      auto conversion = trace::convert_file(path, {}, [&](auto batch) -> Status {
        for (const trace::Request& request : batch) sum += request.offset ^ request.start_ns;
        return {};
      });
      if (!conversion) return std::unexpected(conversion.error());
      if (conversion->requests != requests) {
        return failure(ErrorCode::corrupt, "convert all requests", path);
      }
      return sum + conversion->device_seeks;
    });
    if (!converted) return std::unexpected(converted.error());
    rates.push_back(static_cast<double>(requests) / converted->seconds);
    peaks.push_back(static_cast<double>(converted->peak_bytes) / (1 << 20));
    if (run == 0) report.hash(converted->result);
  }
  report.ratio("requests_per_second", report.add("conversion", "requests/s", rates));
  report.add("peak memory of the conversion", "MiB", peaks);
  report.add("trace, for each request", "bytes",
             {static_cast<double>(*bytes) / static_cast<double>(requests)});
  return report;
}

const Registration registration{"trace-convert", "how fast a trace becomes a sequence of requests",
                                run};

}  // namespace
}  // namespace penstock::bench
