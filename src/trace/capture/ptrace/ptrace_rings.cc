// The io_urings of a traced program. Their memory is read after each call that may have changed it.

#include <algorithm>
#include <span>
#include <utility>

#include "trace/capture/ptrace/ptrace_capture.h"
#include "trace/format/trace_file.h"

namespace penstock::trace {
namespace {

constexpr uint32_t enter_registered_ring = 1u << 4;  // IORING_ENTER_REGISTERED_RING
constexpr uint32_t kept_index = (1 << 16) - 1;

}  // namespace

RingWatch* PtraceCapture::find_ring(const Process& process, const DecodedCall& decoded) {
  if (decoded.effect == Effect::ring_enter && (decoded.operation & enter_registered_ring) != 0) {
    // The number is an index into a table of the thread's rings, which we cannot read. A single ring
    // must be the one.
    return process.rings.size() == 1 ? process.rings.begin()->second.get() : nullptr;
  }
  const auto found = process.rings.find(decoded.descriptor);
  return found == process.rings.end() ? nullptr : found->second.get();
}

void PtraceCapture::set_up_ring(const Thread& thread, Event event, int32_t descriptor) {
  bool polled = false;
  std::shared_ptr<RingWatch> ring =
      RingWatch::open(thread.id, descriptor, thread.decoded.structure_at, polled);
  if (ring != nullptr) {
    thread.process->rings[descriptor] = std::move(ring);
  } else {
    recorder_.missed(Unseen::polled_rings);
  }
  event.call = Call::ring_setup;
  event.descriptor = descriptor;
  event.flags = polled ? flag::kernel_polls : 0;
  event.result = event.bytes;
  recorder_.add(event);
}

// Gives the files of a ring's own table large descriptor numbers.
void PtraceCapture::register_files(const Thread& thread, const DecodedCall& decoded) {
  constexpr uint32_t register_files = 2, unregister_files = 3, update_files = 6;
  Process& process = *thread.process;
  RingWatch* ring = find_ring(process, decoded);
  if (ring == nullptr) return;
  uint32_t first = 0;
  uint64_t list_at = decoded.structure_at;
  if (decoded.operation == update_files) {
    struct Update {
      uint32_t offset, reserved;
      uint64_t descriptors;
    };
    const auto update = read_value<Update>(thread.id, list_at);
    if (!update) return;
    first = update->offset;
    list_at = update->descriptors;
  } else if (decoded.operation == unregister_files) {
    for (uint32_t i = 0; i < ring->registered_files; ++i) {
      record_close(thread, ring->registered_descriptor(i));
    }
    ring->registered_files = 0;
    return;
  } else if (decoded.operation != register_files) {
    return;
  }
  std::vector<int32_t> list(std::min<uint64_t>(decoded.bytes, 1 << 16));
  if (!read_memory(thread.id, list_at, std::as_writable_bytes(std::span(list)))) return;
  for (uint32_t i = 0; i < list.size(); ++i) {
    const int32_t entry = ring->registered_descriptor(first + i);
    if (list[i] < 0) {
      if (list[i] == -1) record_close(thread, entry);
      continue;
    }
    alias(thread, list[i], entry);
  }
  ring->registered_files =
      std::max(ring->registered_files, first + static_cast<uint32_t>(list.size()));
}

void PtraceCapture::alias(const Thread& thread, int32_t descriptor, int32_t other) {
  learn(thread, descriptor);
  recorder_.add({.start_ns = since_zero(),
                 .process = thread.process->id,
                 .thread = thread.id,
                 .descriptor = descriptor,
                 .descriptor2 = other,
                 .flags = flag::close_on_exec,
                 .call = Call::duplicate});
}

// Handles the close of a descriptor that is a ring, or a file with requests under way.
void PtraceCapture::leave_ring(Process& process, int32_t descriptor) {
  for (auto& [number, ring] : process.rings) {
    harvest(process, *ring);
    bool under_way = false;
    ring->each_under_way([&](RingRequest& request) {
      if (request.registered || request.decoded.descriptor != descriptor) return;
      // The request keeps the file open: the file gets a number of its own.
      request.decoded.descriptor = ring->registered_descriptor(kept_index);
      under_way = true;
    });
    if (under_way) {
      recorder_.add({.start_ns = since_zero(),
                     .process = process.id,
                     .thread = process.id,
                     .descriptor = descriptor,
                     .descriptor2 = ring->registered_descriptor(kept_index),
                     .flags = flag::close_on_exec,
                     .call = Call::duplicate});
    }
  }
  const auto found = process.rings.find(descriptor);
  if (found == process.rings.end()) return;
  process.closed_rings.push_back(std::move(found->second));
  process.rings.erase(found);
  // Idle rings are freed now, since a program may open and close any number of rings.
  std::erase_if(process.closed_rings, [&](const std::shared_ptr<RingWatch>& ring) {
    harvest(process, *ring);
    return ring->is_idle();
  });
}

void PtraceCapture::harvest(Process& process, RingWatch& ring) {
  completions_.clear();
  ring.harvest(completions_);
  const uint64_t now = since_zero();
  for (const RingCompletion& completion : completions_) {
    if (completion.result < 0 && completion.request.decoded.effect != Effect::nothing) {
      recorder_.missed(Unseen::failed_calls);
    } else {
      record_ring(process, ring, completion.request, completion.result, now);
    }
  }
}

void PtraceCapture::record_ring(Process& process, const RingWatch& ring, const RingRequest& request,
                                int64_t result, uint64_t now) {
  const DecodedCall& decoded = request.decoded;
  Event event = event_of(decoded, static_cast<uint64_t>(result));
  event.start_ns = request.start_ns;
  event.latency_ns = now - std::min(now, request.start_ns);
  event.process = process.id;
  event.thread = request.thread;
  if (request.registered) {
    event.descriptor = ring.registered_descriptor(static_cast<uint32_t>(decoded.descriptor));
  }
  // The thread that submitted, or another one if it has ended.
  const bool has_other = !threads_.contains(request.thread) && !process.threads.empty();
  const Thread by{.id = has_other ? process.threads.back() : request.thread, .process = &process};
  switch (decoded.effect) {
    case Effect::open:
      // A file that is opened into the ring's own table (result 0) is not followed.
      if (result > 0) record_open(by, event, static_cast<int32_t>(result));
      return;
    case Effect::close:
      known_.of(process.id).set(decoded.descriptor, {});
      record_close(by, event.descriptor);
      return;
    case Effect::read:
    case Effect::write:
      if (!request.registered && !is_storage_now(by, decoded.descriptor)) {
        recorder_.missed(Unseen::stream_calls);
        return;
      }
      break;
    case Effect::allocate:
      event.result = size_of(by.id, decoded.descriptor).value_or(0);
      [[fallthrough]];
    case Effect::sync:
      event.file = known_.get(process.id, decoded.descriptor).file;
      break;
    default:
      recorder_.missed(Unseen::ring_other);
      return;
  }
  recorder_.add(event);
}

bool PtraceCapture::is_storage_now(const Thread& thread, int32_t descriptor) {
  return descriptor >= (1 << 30) || is_storage(thread, descriptor);
}

void PtraceCapture::end_rings(Process& process) {
  for (auto& [descriptor, ring] : process.rings) process.closed_rings.push_back(ring);
  process.rings.clear();
  for (const auto& ring : process.closed_rings) {
    harvest(process, *ring);
    if (ring.use_count() > 1) continue;  // another process uses it
    for (RingRequest request : ring->rest()) {
      DecodedCall& decoded = request.decoded;
      decoded.flags |= flag::unconfirmed;
      recorder_.missed(Unseen::ring_unconfirmed);
      if (decoded.effect == Effect::read || decoded.effect == Effect::write) {
        record_ring(process, *ring, request, static_cast<int64_t>(decoded.bytes), since_zero());
      }
    }
  }
  process.closed_rings.clear();
}

}  // namespace penstock::trace
