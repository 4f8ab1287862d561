#include <algorithm>
#include <optional>

#include "trace/capture/decoded_call.h"
#include "trace/capture/ptrace/ptrace_capture.h"

// The calls of a stopped thread, at their entry and their exit; see the essay of capture_ptrace.cc.

namespace penstock::trace {

void PtraceCapture::at_call(Thread& thread) {
  if (!has_run_) return;  // a call of our own code before the exec
  const CurrentCall current = current_call(thread.id);
  if (current.stage == CallStage::entry) {
    if (filtered_) {
      think_of_processors(thread, current.call);
      keep_child_traced(thread.id, current.call);
    }
    thread.process->has_called = true;
    thread.decoded = decode(current.call);
    thread.in_call = at_entry(thread);
    // The time is taken last, so that the call's time does not include our work.
    thread.start_ns = Recorder::now_ns();
  } else if (current.stage == CallStage::exit && thread.in_call) {
    thread.in_call = false;
    const uint64_t end_ns = Recorder::now_ns();
    at_exit(thread, current.result, end_ns);
    recorder_.flush_sometimes(end_ns);
  }
}

void PtraceCapture::think_of_processors(const Thread& thread, const SystemCall& call) {
  const auto numbers = OneProcessor::let_go_before();
  if (std::ranges::find(numbers, call.number) != numbers.end()) {
    one_processor_.let_go();
  } else {
    one_processor_.called(thread.id, Recorder::now_ns());
  }
}

// Handles a call's entry. Returns whether its exit is relevant, too.
bool PtraceCapture::at_entry(Thread& thread) {
  DecodedCall& decoded = thread.decoded;
  Process& process = *thread.process;
  switch (decoded.effect) {
    case Effect::close: {
      leave_ring(process, decoded.descriptor);
      const uint32_t file = known_.get(process.id, decoded.descriptor).file;
      known_.of(process.id).set(decoded.descriptor, {});
      if (file == 0 || recorder_.is_storage(file)) record_close(thread, decoded.descriptor);
      return false;
    }
    case Effect::close_range:
      if ((decoded.flags & flag::close_on_exec) == 0) {
        for (auto ring = process.rings.begin(); ring != process.rings.end();) {
          const int32_t descriptor = ring++->first;
          if (descriptor >= decoded.descriptor && descriptor <= decoded.descriptor2) {
            leave_ring(process, descriptor);
          }
        }
        known_.of(process.id).erase(decoded.descriptor, decoded.descriptor2);
      }
      recorder_.add({.start_ns = since_zero(),
                     .process = process.id,
                     .thread = thread.id,
                     .descriptor = decoded.descriptor,
                     .descriptor2 = decoded.descriptor2,
                     .flags = decoded.flags,
                     .call = Call::close_range});
      return false;
    case Effect::read:
    case Effect::write:
      if (is_storage(thread, decoded.descriptor)) return true;
      recorder_.missed(Unseen::stream_calls);
      return false;
    case Effect::seek:
    case Effect::truncate:
    case Effect::allocate:
    case Effect::map:
      return is_storage(thread, decoded.descriptor);
    case Effect::sync: {
      if (decoded.descriptor < 0) return true;
      const uint32_t file = learn(thread, decoded.descriptor);
      return file != 0 &&
             (recorder_.is_storage(file) || recorder_.kind(file) == FileKind::directory);
    }
    case Effect::read_size:
    case Effect::stat:
      return decoded.descriptor < 0 || is_storage(thread, decoded.descriptor);
    case Effect::copy: {
      const bool from = is_storage(thread, decoded.descriptor);
      const bool to = is_storage(thread, decoded.descriptor2);
      if (!from || !to) recorder_.missed(Unseen::stream_calls);
      return from || to;
    }
    case Effect::duplicate:
    case Effect::set_flags:
      learn(thread, decoded.descriptor);
      return true;
    case Effect::unlink: {
      // The name has to be looked up before the call removes it.
      thread.file = 0;
      // If the kernel's cache does not have the name, no process has the file open by it: it is no
      // file of this trace, unless by another name.
      bool in_cache = true;
      if (const auto path = read_string(thread.id, decoded.path_at)) {
        const auto found = file_at(thread.id, decoded.directory, *path, false, pseudo_, in_cache);
        if (found) thread.file = recorder_.file(*found);
        if (found && !trace::is_storage(found->kind)) thread.file = 0;
      }
      return thread.file != 0;
    }
    case Effect::ring_enter: {
      RingWatch* ring = find_ring(process, decoded);
      if (ring == nullptr) {
        recorder_.missed(Unseen::ring_other, decoded.bytes);
        return false;
      }
      harvest(process, *ring);
      ring->look_at_submissions(static_cast<uint32_t>(decoded.bytes), thread.id, since_zero());
      return true;
    }
    default:
      return decoded.effect != Effect::nothing;
  }
}

void PtraceCapture::at_exit(Thread& thread, int64_t result, uint64_t end_ns) {
  const DecodedCall& decoded = thread.decoded;
  Process& process = *thread.process;
  if (decoded.effect == Effect::ring_enter) {
    // A call that failed may have submitted, too: the queue shows how many.
    if (RingWatch* ring = find_ring(process, decoded)) {
      ring->submitted(result > 0 ? static_cast<uint32_t>(result) : 0);
      harvest(process, *ring);
    }
    return;
  }
  if (result < 0) {
    // A call that a signal interrupts, and the kernel starts again (ERESTARTSYS, 512), is no failure.
    if (-result < 512) record_failed(thread, static_cast<uint64_t>(-result), end_ns);
    return;
  }
  const auto value = static_cast<int32_t>(result);
  Event event;
  switch (decoded.effect) {
    case Effect::open:
      event.flags = decoded.flags;
      if (decoded.structure_at != 0) {
        // The flags are the first member of struct open_how.
        const auto flags = read_value<uint64_t>(thread.id, decoded.structure_at);
        event.flags = open_flags(flags.value_or(0));
      }
      stamp(event, thread, end_ns);
      record_open(thread, event, value);
      return;
    case Effect::ring_setup:
      event.bytes = decoded.bytes;
      stamp(event, thread, end_ns);
      set_up_ring(thread, event, value);
      return;
    case Effect::ring_register:
      register_files(thread, decoded);
      return;
    case Effect::aio_submit:
      record_aio(thread, static_cast<uint64_t>(result), end_ns);
      return;
    default:
      event = event_of(decoded, static_cast<uint64_t>(result));
  }
  switch (decoded.effect) {
    case Effect::duplicate:
      known_.of(process.id).set(value, known_.get(process.id, decoded.descriptor));
      if (const auto ring = process.rings.find(decoded.descriptor); ring != process.rings.end()) {
        process.rings[value] = ring->second;
      }
      break;
    case Effect::copy:
      event.offset = offset_before(thread, decoded.offset_at, event.result);
      event.offset2 = offset_before(thread, decoded.offset2_at, event.result);
      break;
    case Effect::truncate_path:
    case Effect::rename: {
      const auto path = read_string(thread.id, decoded.path_at);
      if (!path) return;
      bool in_cache = true;
      const auto found = file_at(thread.id, decoded.directory, *path,
                                 decoded.effect == Effect::truncate_path, pseudo_, in_cache);
      if (!in_cache) recorder_.missed(Unseen::unknown_names);
      if (!found || !trace::is_storage(found->kind)) return;
      event.file = recorder_.file(*found);
      if (decoded.effect == Effect::rename) event.path = recorder_.string(found->path);
      break;
    }
    case Effect::allocate:
      event.result = size_of(thread.id, decoded.descriptor).value_or(0);
      [[fallthrough]];
    case Effect::truncate:
    case Effect::sync:
      if (decoded.descriptor < 0) break;
      event.file = known_.get(process.id, decoded.descriptor).file;
      break;
    case Effect::unlink:
      event.file = thread.file;
      break;
    case Effect::read_size:
      if (decoded.descriptor >= 0) event.file = known_.get(process.id, decoded.descriptor).file;
      break;
    case Effect::map:
      event.file = known_.get(process.id, decoded.descriptor).file;
      recorder_.missed(Unseen::mapped_files);
      break;
    default:
      break;
  }
  stamp(event, thread, end_ns);
  recorder_.add(event);
}

// Records a call that failed, if it looked for a file, and counts it otherwise.
void PtraceCapture::record_failed(const Thread& thread, uint64_t error, uint64_t end_ns) {
  const DecodedCall& decoded = thread.decoded;
  const bool opens = decoded.effect == Effect::open;
  const bool looks = decoded.effect == Effect::read_size || decoded.effect == Effect::stat;
  const auto name = opens || looks ? read_string(thread.id, decoded.path_at) : std::nullopt;
  if (!name) {
    recorder_.missed(Unseen::failed_calls);
    return;
  }
  Event event;
  stamp(event, thread, end_ns);
  recorder_.add_failed(event, opens ? Call::open : Call::stat,
                       absolute_name(thread.id, decoded.directory, *name), error);
}

// Records the first `taken` requests of an io_submit(). Their results come by io_getevents() or by
// shared memory, so each counts with its requested bytes.
void PtraceCapture::record_aio(const Thread& thread, uint64_t taken, uint64_t end_ns) {
  for (uint64_t i = 0; i < taken; ++i) {
    const auto decoded = aio_request(thread.id, thread.decoded.structure_at, i);
    if (!decoded) {
      recorder_.missed(Unseen::ring_other);
      continue;
    }
    const bool syncs = decoded->effect == Effect::sync;
    if (!is_storage(thread, decoded->descriptor)) {
      if (!syncs) recorder_.missed(Unseen::stream_calls);
      continue;
    }
    Event event = event_of(*decoded, decoded->bytes);
    if (syncs) {
      event.file = known_.get(thread.process->id, decoded->descriptor).file;
    } else {
      event.flags |= flag::unconfirmed;
      recorder_.missed(Unseen::ring_unconfirmed);
    }
    stamp(event, thread, end_ns);
    recorder_.add(event);
  }
}

// Sets process, thread and times of an event.
void PtraceCapture::stamp(Event& event, const Thread& thread, uint64_t end_ns) const {
  event.start_ns = recorder_.since_zero(thread.start_ns);
  event.latency_ns = end_ns - thread.start_ns;
  event.process = thread.process->id;
  event.thread = thread.id;
}

// Returns the offset before a sendfile() or its like, which moves it to where the next call begins.
uint64_t PtraceCapture::offset_before(const Thread& thread, uint64_t address, uint64_t moved) {
  if (address == 0) return no_offset;
  const auto after = read_value<uint64_t>(thread.id, address);
  return after ? *after - moved : no_offset;
}

}  // namespace penstock::trace
