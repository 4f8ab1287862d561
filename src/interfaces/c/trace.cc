// Traces of programs' file accesses: recording and reading.

#include "penstock/trace.h"

#include <vector>

#include "interfaces/c/guard.h"
#include "interfaces/c/lists.h"

using namespace penstock;
using c_api::guarded;
using c_api::opened;
using c_api::options_of;
using c_api::text_of;

struct penstock_trace {
  trace::Conversion conversion;
};

namespace {

Result<trace::Backend> backend_of(int backend) {
  switch (backend) {
    case PENSTOCK_TRACE_AUTOMATIC:
      return trace::Backend::unknown;
    case PENSTOCK_TRACE_PTRACE:
      return trace::Backend::ptrace;
    case PENSTOCK_TRACE_BPF:
      return trace::Backend::bpf;
    default:
      return failure(ErrorCode::invalid_argument, "record by the backend", std::to_string(backend),
                     "one of enum penstock_trace_backend");
  }
}

penstock_access access_of(const trace::Request& request) {
  return {.start_ns = request.start_ns,
          .latency_ns = request.latency_ns,
          .offset = request.offset,
          .bytes = request.bytes,
          .file = request.file,
          .process = request.process,
          .thread = request.thread,
          .is_write = request.access == trace::Access::write,
          .is_file_seek = request.file_seek,
          .is_device_seek = request.device_seek};
}

}  // namespace

int penstock_trace_record(const penstock_trace_options* options, int* exit_code) {
  return guarded([&]() -> Status {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    const auto backend = backend_of(from->backend);
    if (!backend) return std::unexpected(backend.error());
    auto command = c_api::list_of("command", from->command, from->command_count);
    if (!command) return std::unexpected(command.error());
    trace::CaptureOptions made{
        .backend = *backend, .command = std::move(*command), .attach = from->attach};
    if (made.command.empty() == (made.attach == 0))
      return failure(ErrorCode::invalid_argument, "read the options", "command and attach",
                     "one of the two");
    if (from->output != nullptr) made.output = from->output;
    if (from->cancel != nullptr) made.stop = &from->cancel->requested;
    const auto done = trace::capture(made);
    if (!done) return std::unexpected(done.error());
    if (exit_code != nullptr) *exit_code = done->totals.exit_code;
    return {};
  });
}

int penstock_trace_read(const char* path, const penstock_trace_read_options* options,
                        penstock_trace** trace) {
  return opened(trace, [&]() -> Result<trace::Conversion> {
    const auto from = options_of(options);
    if (!from) return std::unexpected(from.error());
    if (path == nullptr)
      return failure(ErrorCode::invalid_argument, "read", "a trace without a name", "a path");
    std::vector<penstock_access> accesses;
    return trace::convert_file(
        path, {.under = text_of(from->under)},
        [&](std::span<const trace::Request> requests) -> Status {
          if (from->accesses == nullptr) return {};
          accesses.clear();
          for (const trace::Request& request : requests) accesses.push_back(access_of(request));
          if (from->accesses(from->context, accesses.data(), accesses.size()) == 0) return {};
          return failure(ErrorCode::interrupted, "read on", path);
        });
  });
}

uint32_t penstock_trace_files(const penstock_trace* trace) {
  return static_cast<uint32_t>(trace->conversion.files.size());
}

int penstock_trace_file_at(const penstock_trace* trace, uint32_t index,
                           struct penstock_trace_file* file) {
  return guarded([&]() -> Status {
    if (file == nullptr || file->size < sizeof(size_t))
      return failure(ErrorCode::invalid_argument, "describe a file", "size",
                     "sizeof of the structure");
    if (index >= trace->conversion.files.size())
      return failure(ErrorCode::invalid_argument, "describe file " + std::to_string(index), "trace",
                     "less than penstock_trace_files()");
    const trace::ConvertedFile& from = trace->conversion.files[index];
    const struct penstock_trace_file told = {.size = file->size,
                                             .path = from.path.c_str(),
                                             .reads = from.reads,
                                             .writes = from.writes,
                                             .read_bytes = from.read_bytes,
                                             .written_bytes = from.written_bytes,
                                             .seeks = from.seeks,
                                             .peak_bytes = from.peak_bytes};
    std::memcpy(file, &told, std::min(file->size, sizeof told));
    return {};
  });
}

void penstock_trace_close(penstock_trace* trace) {
  delete trace;
}
