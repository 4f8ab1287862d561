#include "trace/capture/backends.h"
#include "trace/capture/bpf/kernel_watch.h"
#include "trace/capture/bpf/record_follower.h"
#include "trace/capture/tracee.h"
#include "trace/format/trace_file.h"

// Capture by BPF.
//
// ptrace stops a program at its calls and reads its state. Here the program runs on: programs in the
// kernel (watch.bpf.c) record each relevant call, and we read the records some milliseconds later.
// That is twenty times cheaper for the program. A record contains the kernel's state at that moment:
// the file, and the open file description, by its address in the kernel. record_follower.cc makes
// events of the records.
//
// If records come faster than we read, the ring is full, and the kernel counts the dropped records:
// a program in the kernel must not wait.

namespace penstock::trace {
namespace {

using namespace kernel;

constexpr int wait_ms = 5;

class BpfCapture {
 public:
  BpfCapture(Recorder& recorder, KernelWatch& watch, const CaptureOptions& options)
      : recorder_(recorder),
        watch_(watch),
        ring_bytes_(options.ring_bytes == 0 ? WatchOptions{}.ring_bytes : options.ring_bytes),
        follower_(recorder, {.running = options.attach != 0, .sees_rings = watch.sees_rings()}) {}

  // Reads available records. Returns whether there may be more.
  bool drain() {
    const bool more =
        watch_.drain([this](std::span<const std::byte> record) { follower_.add(record); });
    recorder_.flush_sometimes(Recorder::now_ns());
    return more;
  }

  // Reads the records of one full ring. Programs that run on may be faster than we read.
  void finish() {
    for (uint64_t left = ring_bytes_ / sizeof(RecordHead) / KernelWatch::drained_at_once + 1;
         left > 0 && drain(); --left) {
    }
    follower_.finish(watch_.counters());
  }
  bool has_run() const { return follower_.has_run(); }

 private:
  Recorder& recorder_;
  KernelWatch& watch_;
  const uint64_t ring_bytes_;
  RecordFollower follower_;
};

}  // namespace

Result<int> capture_by_bpf(const CaptureOptions& options, KernelWatch& watch,
                           WaitedProcess* attached, Recorder& recorder) {
  BpfCapture capture(recorder, watch, options);
  if (attached != nullptr) {
    recorder.program_runs();
    if (options.on_attached) options.on_attached();
    // Children may outlive the process.
    while ((!attached->wait(wait_ms) || watch.counters().running != 0) &&
           !options.stop->load(std::memory_order_relaxed)) {
      capture.drain();
    }
    capture.finish();
    return 0;
  }
  auto launched = launch(options.command, {LaunchAs::ordinary, is_standard_output(options.output)},
                         [&](int32_t process) { return watch.trace(process); });
  if (!launched) return std::unexpected(launched.error());
  auto process = WaitedProcess::of(launched->process);
  if (!process) return std::unexpected(process.error());
  // Children may outlive the program.
  std::atomic<bool>* requests = nullptr;  // request to end, set once the program has ended
  while (true) {
    const bool has_ended = process->wait(wait_ms);
    if (has_ended && watch.counters().running == 0) break;
    if (has_ended && requests == nullptr) {
      requests = &requests_to_end();
      if (options.on_left) options.on_left();
    }
    if (requests != nullptr && requests->load(std::memory_order_relaxed)) break;
    capture.drain();
  }
  capture.finish();
  const int error = capture.has_run() ? 0 : launch_error(*launched);
  const int exit_code = exit_code_of(*launched);
  end_launched(*launched);
  if (error != 0) return system_error(error, run_program, options.command[0]);
  return exit_code;
}

}  // namespace penstock::trace
