#include <memory>
#include <utility>
#include <vector>

#include "trace/capture/decoded_call.h"
#include "trace/capture/ptrace/ptrace_capture.h"
#include "trace/format/trace_file.h"

// Capture by ptrace.
//
// A stop at the entry and the exit of every system call (as strace's without --seccomp-bpf) costs
// four switches of process per call, also for irrelevant calls. Here a filter in the kernel lets
// irrelevant calls pass at full speed. A relevant call stops at its entry, and at its exit if its
// result matters. It does not for close(), nor for a read from a pipe.
//
//        runs ---entry---> [look at the arguments] --exit matters--> in call ---exit---> [record]
//          ^                        |                                                       |
//          +------------------------+---------------------------------------------------- --+
//
// Descriptors. A reader of the trace needs the file of each descriptor, and many calls make
// descriptors (pipe, socket, accept, a message that carries one), or they were open before. So only
// open() is watched for files. The file of any other descriptor is read from /proc at its first use,
// and a `describe` event records it. `known_` contains for each process the descriptors that the
// trace has. It is a cache, and may drop entries: exec() drops all, because it closes some.
//
// Only the calling thread is stopped while its descriptors are read. Others may close or change a
// descriptor meanwhile, and the trace can then be wrong about the call: for the program itself the
// order is undefined, too.
//
// A process that we attach to has no filter, and every call stops.
//
// A thread that makes many calls is kept on our processor (one_processor.h), but not a thread of a
// process that we attached to: it would stay there if we were killed.

namespace penstock::trace {

void PtraceCapture::add_first(int32_t thread, int32_t process) {
  add_thread(thread, process).process->is_made = true;
}

int PtraceCapture::run(int32_t root, const CaptureOptions& options) {
  int exit_code = 0;
  const std::atomic<bool>* stop_flag = filtered_ ? nullptr : options.stop;
  std::atomic<bool>* requests = nullptr;  // request to end, set once the root has ended
  bool has_requested_end = false;
  while (true) {
    const Stop stop = wait_for_stop(detaching_            ? nullptr
                                    : requests != nullptr ? requests
                                                          : stop_flag);
    if (stop.kind == Stop::Kind::none_left) break;
    if (stop.kind == Stop::Kind::stop_requested && requests != nullptr) {
      // They cannot run on without us (see launch_options): the first request sends SIGTERM, the
      // next one SIGKILL.
      requests->store(false, std::memory_order_relaxed);
      for (const auto& [id, process] : processes_) end_process(id, has_requested_end);
      has_requested_end = true;
      continue;
    }
    if (stop.kind == Stop::Kind::stop_requested) {
      detaching_ = true;
      for (const auto& [id, thread] : threads_) interrupt(id);
      continue;
    }
    if (stop.kind == Stop::Kind::exited || stop.kind == Stop::Kind::killed) {
      if (stop.thread == root) {
        exit_code = stop.kind == Stop::Kind::exited ? stop.exit_code : 128 + stop.signal;
      }
      remove_thread(stop.thread);
      if (stop.thread == root && filtered_ && !threads_.empty()) {
        requests = &requests_to_end();
        if (options.on_left) options.on_left();
      }
    } else {
      stopped(stop);
    }
    if (detaching_ && threads_.empty()) break;
  }
  for (auto& [id, process] : processes_) end_rings(*process);
  return exit_code;
}

Thread& PtraceCapture::add_thread(int32_t id, int32_t process_id) {
  std::unique_ptr<Process>& process = processes_[process_id];
  if (process == nullptr) {
    process = std::make_unique<Process>();
    process->id = process_id;
  }
  Thread& thread = threads_[id];
  if (thread.process == nullptr) process->threads.push_back(id);
  thread.id = id;
  thread.process = process.get();
  return thread;
}

void PtraceCapture::remove_thread(int32_t id) {
  const auto found = threads_.find(id);
  if (found == threads_.end()) return;
  Process& process = *found->second.process;
  one_processor_.ended(id);
  last_thread_ = nullptr;
  threads_.erase(found);
  std::erase(process.threads, id);
  if (!process.threads.empty()) return;
  end_rings(process);
  recorder_.add(
      {.start_ns = since_zero(), .process = process.id, .thread = id, .call = Call::exit});
  known_.forget(process.id);
  processes_.erase(process.id);
}

Thread* PtraceCapture::find_thread(int32_t id) {
  if (last_thread_ != nullptr && last_thread_->id == id) return last_thread_;
  const auto found = threads_.find(id);
  if (found == threads_.end()) return nullptr;
  return last_thread_ = &found->second;
}

void PtraceCapture::stopped(const Stop& stop) {
  Thread* thread = find_thread(stop.thread);
  if (thread == nullptr) {
    // A child may stop before its maker reports it, and a killed maker never does.
    meet(stop.thread, nullptr);
    thread = find_thread(stop.thread);
  }
  int signal = 0;
  switch (stop.kind) {
    case Stop::Kind::call:
      at_call(*thread);
      break;
    case Stop::Kind::child:
      one_processor_.made(stop.child);
      meet(stop.child, thread->process);
      thread = find_thread(stop.thread);
      break;
    case Stop::Kind::exec:
      thread = &executed(*thread);
      break;
    case Stop::Kind::signal:
      signal = stop.signal;
      break;
    case Stop::Kind::group:
      if (detaching_) break;
      stay_stopped(stop.thread);
      return;
    default:
      break;
  }
  if (detaching_) {
    detach(stop.thread, signal);
    threads_.erase(stop.thread);
    last_thread_ = nullptr;
    return;
  }
  go_on(*thread, signal);
}

void PtraceCapture::go_on(const Thread& thread, int signal) {
  const bool every_call = !filtered_ || thread.in_call;
  resume(thread.id, every_call ? Until::next_call : Until::call_of_interest, signal);
}

// Adds a new thread, or the first thread of a new process. A process has its maker's descriptors,
// and its parent may be another process (CLONE_PARENT). Until the maker is known, descriptors are
// unknown, and are described at their first use.
void PtraceCapture::meet(int32_t id, const Process* maker) {
  last_thread_ = nullptr;
  const auto met = threads_.find(id);
  Process* made = met == threads_.end() ? nullptr : met->second.process;
  if (made == nullptr) {
    const int32_t process = process_of(id);
    made = add_thread(id, process == 0 ? id : process).process;  // 0: ended; its stop will follow
  }
  if (maker == nullptr || made == maker || made->is_made) return;
  made->is_made = true;
  inherit(*maker, *made);
}

void PtraceCapture::inherit(const Process& maker, Process& made) {
  const auto known_shares = share_descriptors(maker.threads.back(), made.threads.back());
  if (!known_shares) recorder_.missed(Unseen::unknown_sharing);
  const bool shares = known_shares.value_or(false);
  if (made.rings.empty()) made.rings = maker.rings;
  if (made.has_called) {
    // The child has called before its maker reported it, and has described descriptors. In a shared
    // table, entries of one process may be outdated by calls of the other: they are dropped.
    if (!shares) return;
    known_.of(maker.id).erase(0, INT32_MAX);
  }
  known_.fork(maker.id, made.id, shares);
  recorder_.add({.start_ns = since_zero(),
                 .process = maker.id,
                 .thread = maker.id,
                 .child = made.id,
                 .flags = shares ? flag::shares_descriptors : 0,
                 .call = Call::fork});
}

Thread& PtraceCapture::executed(Thread& thread) {
  // All other threads have ended, and the calling thread has the process's own number now.
  Process& process = *thread.process;
  for (auto at = threads_.begin(); at != threads_.end();) {
    const bool other = at->second.process == &process && at->first != thread.id;
    if (at->second.process == &process) one_processor_.ended(at->first);
    at = other ? threads_.erase(at) : std::next(at);
  }
  last_thread_ = nullptr;
  if (!has_run_) recorder_.program_runs();
  has_run_ = true;
  process.threads = {process.id};
  process.has_called = true;
  known_.forget(process.id);
  end_rings(process);
  Thread& only = threads_[process.id];
  only = {.id = process.id, .process = &process};
  recorder_.add({.start_ns = since_zero(),
                 .process = process.id,
                 .thread = only.id,
                 .path = recorder_.string(program_of(process.id)),
                 .call = Call::exec});
  return only;
}

void PtraceCapture::record_open(const Thread& thread, Event event, int32_t descriptor) {
  const auto opened = open_file_of(thread.id, descriptor, Detail::identity, pseudo_);
  if (!opened) {
    recorder_.missed(Unseen::unknown_descriptors);
    return;
  }
  if (opened->record.path.starts_with("/proc/")) one_processor_.let_go();
  event.call = Call::open;
  event.descriptor = descriptor;
  event.file = recorder_.file(opened->record);
  event.bytes = event.result = opened->record.bytes;
  known_.of(thread.process->id).set(descriptor, {event.file});
  recorder_.add(event);
}

void PtraceCapture::record_close(const Thread& thread, int32_t descriptor) {
  recorder_.add({.start_ns = since_zero(),
                 .process = thread.process->id,
                 .thread = thread.id,
                 .descriptor = descriptor,
                 .call = Call::close});
}

// Returns the file of a descriptor. Reads and describes it if it is not known.
uint32_t PtraceCapture::learn(const Thread& thread, int32_t descriptor) {
  Process& process = *thread.process;
  if (const uint32_t file = known_.get(process.id, descriptor).file; file != 0) return file;
  const auto found = open_file_of(thread.id, descriptor, Detail::and_position, pseudo_);
  if (!found) return 0;  // not open: the call will fail
  Event event{.start_ns = since_zero(),
              .offset = found->position,
              .bytes = found->record.bytes,
              .result = found->record.bytes,
              .process = process.id,
              .thread = thread.id,
              .descriptor = descriptor,
              .file = recorder_.file(found->record),
              .flags = found->flags & ~(flag::truncates | flag::creates),
              .call = Call::describe};
  if (recorder_.is_storage(event.file)) find_alias(event);
  known_.of(process.id).set(descriptor, {event.file});
  recorder_.add(event);
  return event.file;
}

// Names in the event a known descriptor that shares the position of the event's own, if there is one.
void PtraceCapture::find_alias(Event& event) {
  bool unknown = false;
  const auto is_same = [&](int32_t process, int32_t other, const DescribedFile&) {
    const auto there = processes_.find(process);
    if (there == processes_.end()) return false;
    const auto same =
        is_same_description(event.thread, event.descriptor, there->second->threads.back(), other);
    unknown |= !same.has_value();
    return same.value_or(false);
  };
  if (!known_.find_alias(event, is_same) && unknown) recorder_.missed(Unseen::unknown_sharing);
}

bool PtraceCapture::is_storage(const Thread& thread, int32_t descriptor) {
  const uint32_t file = learn(thread, descriptor);
  return file != 0 && recorder_.is_storage(file);
}

Result<int> capture_by_ptrace(const CaptureOptions& options, Recorder& recorder) {
  if (options.attach != 0) {
    auto threads = attach(options.attach);
    if (!threads) return std::unexpected(threads.error());
    if (options.on_attached) options.on_attached();
    PtraceCapture capture(recorder, false);
    for (const int32_t thread : *threads) capture.add_first(thread, options.attach);
    return capture.run(options.attach, options);
  }
  auto launched = launch(options.command, {LaunchAs::tracee, is_standard_output(options.output)});
  if (!launched) return std::unexpected(launched.error());
  PtraceCapture capture(recorder, true);
  capture.add_first(launched->process, launched->process);
  const int exit_code = capture.run(launched->process, options);
  const int error = capture.has_run() ? 0 : launch_error(*launched);
  end_launched(*launched);
  if (error != 0) return system_error(error, run_program, options.command[0]);
  return exit_code;
}

}  // namespace penstock::trace
