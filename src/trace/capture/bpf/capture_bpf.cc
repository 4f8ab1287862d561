#include "trace/capture/backends.h"
#include "trace/capture/bpf/kernel_watch.h"
#include "trace/capture/bpf/record_follower.h"
#include "trace/capture/tracee.h"
#include "trace/format/trace_file.h"

// Capture by BPF.
//
// ptrace stops a program at its calls and looks at it. Here the program runs on: programs in the
// kernel (bpf/watch.bpf.c) write down each call of interest, and we read that some milliseconds
// later. That is twenty times cheaper for the program. Records carry what the kernel saw at that
// moment: which file, and which open file description, by its address in the kernel. What they mean
// is the business of record_follower.cc.
//
// What if records come faster than we read? The ring is full then, and the kernel counts what it
// drops: a program in the kernel must not wait.

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

  // Whether there may be more.
  bool drain() {
    const bool more =
        watch_.drain([this](std::span<const std::byte> record) { follower_.take(record); });
    recorder_.flush_sometimes(Recorder::now_ns());
    return more;
  }

  // Programs may run on, and faster than we read: what is in the ring by now is enough.
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
    // Its children may outlive it.
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
  // Its children may outlive it.
  std::atomic<bool>* requests = nullptr;  // to end, once it has ended itself
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
