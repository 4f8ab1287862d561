#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <utility>

#include "penstock/trace.h"
#include "trace/capture/backends.h"
#include "trace/capture/tracee.h"

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

// The file of the trace. An existing trace is not replaced before the program runs: a misspelt
// program must not cost the previous trace. Until then the new trace has a unique name beside it.
class Output {
 public:
  Output(const std::string& path, bool keeps_old) : path_(path), keeps_old_(keeps_old) {
    std::error_code error;
    // "-" is standard output, even if there is a file of that name.
    existed_ = path == "-" || std::filesystem::exists(path, error);
    if (path == "-" || !std::filesystem::is_regular_file(path, error)) return;  // pipe, /dev/null
    final_ = std::filesystem::canonical(path, error).string();
    if (error) final_.clear();
  }
  ~Output() {
    std::error_code error;
    if (!kept_ && (!existed_ || !final_.empty())) std::filesystem::remove(path_, error);
  }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  Result<TraceWriter> create(const Header& header) {
    // A folder without write permission may contain a writable file.
    if (!final_.empty() && !make_beside()) path_ = std::exchange(final_, {});
    return TraceWriter::create(path_, header);
  }

  // Replaces the existing trace, when the program runs.
  Status keep() {
    kept_ = true;
    if (final_.empty()) return {};
    std::error_code error;
    if (keeps_old_) {
      std::filesystem::rename(final_, final_ + ".old", error);
      kept_old_ = !error;
    }
    std::filesystem::rename(path_, final_, error);
    if (error) return system_error(error.value(), "replace the trace", final_);
    return {};
  }
  bool kept_old() const { return kept_old_; }

 private:
  // The file is hidden: an `ls -l` that is traced would list it and then not find it.
  bool make_beside() {
    const std::filesystem::path final(final_);
    for (int number = 0;; ++number) {
      path_ = final.parent_path() /
              ("." + final.filename().string() + ".starting-" + std::to_string(::getpid()) +
               (number == 0 ? "" : "-" + std::to_string(number)));
      if (std::ofstream(path_, std::ios::out | std::ios::noreplace)) return true;
      std::error_code error;
      if (!std::filesystem::exists(std::filesystem::symlink_status(path_, error))) return false;
    }
  }

  std::string path_;   // current name of the new trace
  std::string final_;  // the file that it replaces; empty: none
  bool existed_ = false;
  bool kept_ = false;
  bool keeps_old_ = false;
  bool kept_old_ = false;
};

}  // namespace

Result<Captured> capture(const CaptureOptions& options) {
  if ((options.attach != 0) == !options.command.empty()) {
    return failure(ErrorCode::invalid_argument, "trace without one program or process");
  }
  Backend backend = options.backend;
  std::string reason;
  std::unique_ptr<KernelWatch> watch;
  std::optional<WaitedProcess> attached;
  if (options.attach != 0) {
    auto process = WaitedProcess::of(options.attach);
    if (!process) return std::unexpected(process.error());
    attached.emplace(std::move(*process));
  }
  if (backend == Backend::unknown || backend == Backend::bpf) {
    auto opened = KernelWatch::open(
        {.ring_bytes = options.ring_bytes == 0 ? WatchOptions{}.ring_bytes : options.ring_bytes,
         .attached = options.attach});
    if (opened) {
      watch = std::move(*opened);
      backend = Backend::bpf;
      // The watch uses the process's number, which another process may have had when it began.
      if (attached && attached->wait(0)) {
        return failure(ErrorCode::not_found, "trace this process: it has ended",
                       "process " + std::to_string(options.attach), "ps, for another one");
      }
    } else if (backend == Backend::bpf) {
      return std::unexpected(opened.error());
    } else {
      reason = opened.error().message();
      backend = Backend::ptrace;
    }
  }
  if (backend != Backend::ptrace && backend != Backend::bpf) {
    return failure(ErrorCode::unsupported, "trace with this backend", std::string(name_of(backend)),
                   "ptrace");
  }
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  const uint64_t zero_ns = Recorder::now_ns();
  Output output(options.output, options.keeps_old);
  auto writer =
      output.create({.backend = backend,
                     .wall_ns = static_cast<uint64_t>(
                         std::chrono::duration_cast<std::chrono::nanoseconds>(wall).count()),
                     .command = command_line(options),
                     .host = host_name()});
  if (!writer) return std::unexpected(writer.error());
  Recorder recorder(std::move(*writer), zero_ns, [&] { return output.keep(); });
  auto exit_code = backend == Backend::bpf
                       ? capture_by_bpf(options, *watch, attached ? &*attached : nullptr, recorder)
                       : capture_by_ptrace(options, recorder);
  if (!exit_code) return std::unexpected(exit_code.error());
  recorder.program_runs();  // in case the backend did not see it
  auto finished = recorder.finish(*exit_code);
  if (!finished) return std::unexpected(finished.error());
  return Captured{.backend = backend,
                  .reason = std::move(reason),
                  .totals = finished->totals,
                  .trace_bytes = finished->trace_bytes,
                  .kept_old = output.kept_old(),
                  .handed_signal = options.attach != 0 ? 0 : handed_signal()};
}

}  // namespace penstock::trace
