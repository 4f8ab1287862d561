#include "trace/capture.h"

#include <sys/utsname.h>

#include <chrono>
#include <utility>

#include "trace/backends.h"

namespace penstock::trace {
namespace {

std::string host_name() {
  utsname name = {};
  if (::uname(&name) != 0) return {};
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string command_line(const CaptureOptions& options) {
  if (options.attach != 0) return "process " + std::to_string(options.attach);
  std::string line;
  for (const std::string& word : options.command) line += (line.empty() ? "" : " ") + word;
  return line;
}

}  // namespace

Result<Captured> capture(const CaptureOptions& options) {
  const Backend backend = options.backend == Backend::unknown ? Backend::ptrace : options.backend;
  if ((options.attach != 0) == !options.command.empty()) {
    return failure(ErrorCode::invalid_argument, "trace without one program or process");
  }
  if (backend != Backend::ptrace) {
    return failure(ErrorCode::unsupported, "trace with this backend", std::string(name_of(backend)),
                   "ptrace");
  }
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const uint64_t zero_ns = Recorder::now_ns();
  auto writer = TraceWriter::create(
      options.output, {.backend = backend,
                       .wall_ns = static_cast<uint64_t>(
                           std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count()),
                       .command = command_line(options),
                       .host = host_name()});
  if (!writer) return std::unexpected(writer.error());
  Recorder recorder(std::move(*writer), zero_ns);
  auto exit_code = capture_by_ptrace(options, recorder);
  if (!exit_code) return std::unexpected(exit_code.error());
  auto finished = recorder.finish(*exit_code);
  if (!finished) return std::unexpected(finished.error());
  return Captured{backend, finished->totals, finished->trace_bytes};
}

}  // namespace penstock::trace
