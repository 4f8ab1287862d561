#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/capture/backends.h"
#include "trace/capture/call_events.h"
#include "trace/capture/one_processor.h"
#include "trace/capture/proc_files.h"
#include "trace/capture/ring_watch.h"
#include "trace/capture/system_calls.h"
#include "trace/capture/tracee.h"
#include "trace/format/trace_file.h"

// Capture by ptrace.
//
// The naive way (strace's, without --seccomp-bpf) stops a program at the entry and the exit of
// every system call: four changes of process each, also for the calls that nobody wants. Here a
// filter in the kernel lets all calls pass but those that we name, at full speed. A call of
// interest stops at its entry; where its answer matters, at its exit too. Of a close() it does not,
// nor of a read from a pipe.
//
//        runs ---entry---> [look at the arguments] --exit matters--> in call ---exit---> [record]
//          ^                        |                                                       |
//          +------------------------+---------------------------------------------------- --+
//
// What we know of descriptors. An event of a descriptor is worth nothing to a reader who does not
// know what it stands for, and calls that make descriptors are many (pipe, socket, accept, a
// message that carries one, what was open before). So only open() is watched for files; of any
// other descriptor we find out at its first use what it is, from /proc, and say so by a `describe`
// event. `Known` remembers for each process which descriptors have been told. It is a cache, and
// may forget: after exec() it forgets everything, so that it need not know what was closed on the
// way.
//
// Who is stopped while we look: the thread that made the call, and no other. Others may close or
// change the descriptor meanwhile; a trace can then be wrong about the call, as the program itself
// could not say which came first.
//
// Attached to a process that runs there is no filter, and every call stops.
//
// A thread that makes many calls is kept on our processor (one_processor.h). A process that we
// attached to is left alone: it would stay there where we are killed.

namespace penstock::trace {
namespace {

// Which file a descriptor of a process stands for; 0: not known.
class Known {
 public:
  uint32_t file(int32_t descriptor) const {
    const auto index = static_cast<size_t>(descriptor);
    return descriptor >= 0 && index < files_.size() ? files_[index] : 0;
  }
  void set(int32_t descriptor, uint32_t file) {
    if (descriptor < 0 || descriptor >= remembered_max) return;
    const auto index = static_cast<size_t>(descriptor);
    if (index >= files_.size()) files_.resize(index + 1);
    files_[index] = file;
  }
  void forget(int32_t first, int32_t last) {
    const size_t end =
        std::min(files_.size(), static_cast<size_t>(int64_t{std::max(last, -1)} + 1));
    for (auto i = static_cast<size_t>(std::max(first, 0)); i < end; ++i) files_[i] = 0;
  }
  size_t size() const { return files_.size(); }

 private:
  static constexpr int32_t remembered_max = 1 << 20;
  std::vector<uint32_t> files_;
};

struct Process {
  int32_t id = 0;
  // Those that have not ended, the newest last. The first thread may end before the others, and
  // what the kernel tells of a process by its number it tells of the first thread: memory and
  // descriptors are asked for by a thread that is there.
  std::vector<int32_t> threads;
  bool has_called = false;  // something was recorded of it
  bool is_made = false;     // its maker has told of it, or it has none that is traced
  std::shared_ptr<Known> known = std::make_shared<Known>();
  std::map<int32_t, std::shared_ptr<RingWatch>> rings;   // by descriptor
  std::vector<std::shared_ptr<RingWatch>> closed_rings;  // which may still have answers to give
};

struct Thread {
  int32_t id = 0;
  Process* process = nullptr;
  bool in_call = false;
  AskedCall asked;
  uint64_t start_ns = 0;
  uint32_t file = 0;  // that the call is about to unlink
};

class PtraceCapture {
 public:
  PtraceCapture(Recorder& recorder, bool filtered)
      : recorder_(recorder), filtered_(filtered), has_run_(!filtered) {
    if (has_run_) recorder_.program_runs();  // already
  }

  void add_first(int32_t thread, int32_t process) {
    add_thread(thread, process).process->is_made = true;
  }

  // Until there is nobody left. Gives the exit code of `root`.
  int run(int32_t root, const CaptureOptions& options) {
    int exit_code = 0;
    const std::atomic<bool>* stop = filtered_ ? nullptr : options.stop;
    std::atomic<bool>* requests = nullptr;  // to end, once the root has ended
    bool has_asked = false;
    while (true) {
      const Stop told = wait_for_stop(detaching_ ? nullptr : requests != nullptr ? requests : stop);
      if (told.kind == Stop::Kind::none_left) break;
      if (told.kind == Stop::Kind::asked && filtered_) {
        // They cannot run on without us (see launch_options): they are asked to end, and then made.
        requests->store(false, std::memory_order_relaxed);
        for (const auto& [id, process] : processes_) end_process(id, has_asked);
        has_asked = true;
        continue;
      }
      if (told.kind == Stop::Kind::asked) {
        detaching_ = true;
        for (const auto& [id, thread] : threads_) interrupt(id);
        continue;
      }
      if (told.kind == Stop::Kind::exited || told.kind == Stop::Kind::killed) {
        if (told.thread == root) {
          exit_code = told.kind == Stop::Kind::exited ? told.exit_code : 128 + told.signal;
        }
        remove_thread(told.thread);
        if (told.thread == root && filtered_ && !threads_.empty()) {
          requests = &requests_to_end();
          if (options.on_left) options.on_left();
        }
      } else {
        stopped(told);
      }
      if (detaching_ && threads_.empty()) break;
    }
    for (auto& [id, process] : processes_) end_rings(*process);
    return exit_code;
  }

  bool has_run() const { return has_run_; }

 private:
  // ---- who there is

  Thread& add_thread(int32_t id, int32_t process_id) {
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

  void remove_thread(int32_t id) {
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
    processes_.erase(process.id);
  }

  Thread* find_thread(int32_t id) {
    if (last_thread_ != nullptr && last_thread_->id == id) return last_thread_;
    const auto found = threads_.find(id);
    if (found == threads_.end()) return nullptr;
    return last_thread_ = &found->second;
  }

  // ---- what stops

  void stopped(const Stop& told) {
    Thread* thread = find_thread(told.thread);
    if (thread == nullptr) {
      // A child may be seen before its maker has told of it, which never does if it is killed.
      meet(told.thread, nullptr);
      thread = find_thread(told.thread);
    }
    int signal = 0;
    switch (told.kind) {
      case Stop::Kind::call:
        at_call(*thread);
        break;
      case Stop::Kind::child:
        one_processor_.made(told.child);
        meet(told.child, thread->process);
        thread = find_thread(told.thread);
        break;
      case Stop::Kind::exec:
        thread = &executed(*thread);
        break;
      case Stop::Kind::signal:
        signal = told.signal;
        break;
      case Stop::Kind::group:
        if (detaching_) break;
        stay_stopped(told.thread);
        return;
      default:
        break;
    }
    if (detaching_) {
      detach(told.thread, signal);
      threads_.erase(told.thread);
      last_thread_ = nullptr;
      return;
    }
    go_on(*thread, signal);
  }

  void go_on(const Thread& thread, int signal = 0) {
    const bool every_call = !filtered_ || thread.in_call;
    resume(thread.id, every_call ? Until::next_call : Until::call_of_interest, signal);
  }

  // A thread, or the first thread of a process, that is new. Whose descriptors a process has, only
  // its maker tells: its parent may be another one (CLONE_PARENT). Until then nothing is known of
  // them, and they are described at their first use.
  void meet(int32_t id, const Process* maker) {
    last_thread_ = nullptr;
    const auto met = threads_.find(id);
    Process* made = met == threads_.end() ? nullptr : met->second.process;
    if (made == nullptr) {
      const int32_t process = process_of(id);
      made = add_thread(id, process == 0 ? id : process).process;  // 0: gone, as will be told
    }
    if (maker == nullptr || made == maker || made->is_made) return;
    made->is_made = true;
    inherit(*maker, *made);
  }

  void inherit(const Process& maker, Process& made) {
    const auto told_shares = share_descriptors(maker.threads.back(), made.threads.back());
    if (!told_shares) recorder_.missed(Unseen::unknown_sharing);
    const bool shares = told_shares.value_or(false);
    if (made.rings.empty()) made.rings = maker.rings;
    if (made.has_called) {
      // It was faster than its maker's word, and has described what it used. With one table for
      // both, what either of them did to it must not be taken for known by the other.
      if (!shares) return;
      maker.known->forget(0, INT32_MAX);
    }
    made.known = shares ? maker.known : std::make_shared<Known>(*maker.known);
    recorder_.add({.start_ns = since_zero(),
                   .process = maker.id,
                   .thread = maker.id,
                   .child = made.id,
                   .flags = shares ? flag::shares_descriptors : 0,
                   .call = Call::fork});
  }

  Thread& executed(Thread& thread) {
    // All other threads are gone, and the one that called has the process's own number now.
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
    process.known = std::make_shared<Known>();
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

  // ---- calls

  void at_call(Thread& thread) {
    if (!has_run_) return;  // our own, on the way to the program
    const CurrentCall current = current_call(thread.id);
    if (current.stage == CallStage::entry) {
      if (filtered_) think_of_processors(thread, current.call);
      thread.process->has_called = true;
      thread.asked = decode(current.call);
      thread.in_call = at_entry(thread);
      // The last thing before it goes on: what we did is no part of the call's time.
      thread.start_ns = Recorder::now_ns();
    } else if (current.stage == CallStage::exit && thread.in_call) {
      thread.in_call = false;
      const uint64_t end_ns = Recorder::now_ns();
      at_exit(thread, current.result, end_ns);
      recorder_.flush_sometimes(end_ns);
    }
  }

  void think_of_processors(const Thread& thread, const SystemCall& call) {
    const auto numbers = OneProcessor::let_go_before();
    if (std::ranges::find(numbers, call.number) != numbers.end()) {
      one_processor_.let_go();
    } else {
      one_processor_.called(thread.id, Recorder::now_ns());
    }
  }

  // Whether the exit is of interest as well.
  bool at_entry(Thread& thread) {
    AskedCall& asked = thread.asked;
    Process& process = *thread.process;
    switch (asked.what) {
      case Asked::nothing:
        return false;
      case Asked::open:
        return true;
      case Asked::close: {
        leave_ring(process, asked.descriptor);
        const uint32_t file = process.known->file(asked.descriptor);
        process.known->set(asked.descriptor, 0);
        if (file == 0 || recorder_.is_storage(file)) record_close(thread, asked.descriptor);
        return false;
      }
      case Asked::close_range:
        if ((asked.flags & flag::close_on_exec) == 0) {
          for (auto ring = process.rings.begin(); ring != process.rings.end();) {
            const int32_t descriptor = ring++->first;
            if (descriptor >= asked.descriptor && descriptor <= asked.descriptor2) {
              leave_ring(process, descriptor);
            }
          }
          process.known->forget(asked.descriptor, asked.descriptor2);
        }
        recorder_.add({.start_ns = since_zero(),
                       .process = process.id,
                       .thread = thread.id,
                       .descriptor = asked.descriptor,
                       .descriptor2 = asked.descriptor2,
                       .flags = asked.flags,
                       .call = Call::close_range});
        return false;
      case Asked::read:
      case Asked::write:
        if (is_storage(thread, asked.descriptor)) return true;
        recorder_.missed(Unseen::stream_calls);
        return false;
      case Asked::seek:
      case Asked::truncate:
      case Asked::allocate:
      case Asked::sync:
        return is_storage(thread, asked.descriptor);
      case Asked::map:
        return is_storage(thread, asked.descriptor);
      case Asked::copy: {
        const bool from = is_storage(thread, asked.descriptor);
        const bool to = is_storage(thread, asked.descriptor2);
        if (!from || !to) recorder_.missed(Unseen::stream_calls);
        return from || to;
      }
      case Asked::duplicate:
      case Asked::set_flags:
        learn(thread, asked.descriptor);
        return true;
      case Asked::truncate_path:
      case Asked::rename:
        return true;
      case Asked::unlink: {
        // Afterwards its name leads nowhere.
        thread.file = 0;
        // Where the kernel's cache does not know the name, nobody has the file open by it: it is no
        // file of this trace, unless by another name.
        bool in_cache = true;
        if (const auto path = read_string(thread.id, asked.path_at)) {
          const auto found = file_at(thread.id, asked.directory, *path, false, pseudo_, in_cache);
          if (found) thread.file = recorder_.file(*found);
          if (found && !trace::is_storage(found->kind)) thread.file = 0;
        }
        return thread.file != 0;
      }
      case Asked::ring_setup:
      case Asked::ring_register:
        return true;
      case Asked::ring_enter: {
        RingWatch* ring = find_ring(process, asked);
        if (ring == nullptr) {
          recorder_.missed(Unseen::ring_other, asked.bytes);
          return false;
        }
        harvest(process, *ring);
        ring->look_at_submissions(static_cast<uint32_t>(asked.bytes), thread.id, since_zero());
        return true;
      }
    }
    return false;
  }

  void at_exit(Thread& thread, int64_t result, uint64_t end_ns) {
    const AskedCall& asked = thread.asked;
    Process& process = *thread.process;
    if (asked.what == Asked::ring_enter) {
      // Also one that failed may have submitted: the queue says how much was taken.
      if (RingWatch* ring = find_ring(process, asked)) {
        ring->submitted(result > 0 ? static_cast<uint32_t>(result) : 0);
        harvest(process, *ring);
      }
      return;
    }
    if (result < 0) {
      recorder_.missed(Unseen::failed_calls);
      return;
    }
    const auto value = static_cast<int32_t>(result);
    Event event;
    switch (asked.what) {
      case Asked::open:
        event.flags = asked.flags;
        if (asked.structure_at != 0) {
          uint64_t flags = 0;  // the first member of struct open_how
          (void)read_memory(thread.id, asked.structure_at,
                            std::as_writable_bytes(std::span(&flags, size_t{1})));
          event.flags = open_flags(flags);
        }
        stamp(event, thread, end_ns);
        record_open(thread, event, value);
        return;
      case Asked::ring_setup:
        event.bytes = asked.bytes;
        stamp(event, thread, end_ns);
        set_up_ring(thread, event, value);
        return;
      case Asked::ring_register:
        register_files(thread, asked);
        return;
      default:
        event = event_of(asked, static_cast<uint64_t>(result));
    }
    switch (asked.what) {
      case Asked::duplicate:
        process.known->set(value, process.known->file(asked.descriptor));
        if (const auto ring = process.rings.find(asked.descriptor); ring != process.rings.end()) {
          process.rings[value] = ring->second;
        }
        break;
      case Asked::copy:
        event.offset = offset_before(thread, asked.offset_at, event.result);
        event.offset2 = offset_before(thread, asked.offset2_at, event.result);
        break;
      case Asked::truncate_path:
      case Asked::rename: {
        const auto path = read_string(thread.id, asked.path_at);
        if (!path) return;
        bool in_cache = true;
        const auto found = file_at(thread.id, asked.directory, *path,
                                   asked.what == Asked::truncate_path, pseudo_, in_cache);
        if (!in_cache) recorder_.missed(Unseen::unknown_names);
        if (!found || !trace::is_storage(found->kind)) return;
        event.file = recorder_.file(*found);
        if (asked.what == Asked::rename) event.path = recorder_.string(found->path);
        break;
      }
      case Asked::allocate:
        event.file = process.known->file(asked.descriptor);
        event.result = size_of(thread.id, asked.descriptor).value_or(0);
        break;
      case Asked::truncate:
      case Asked::sync:
        event.file = process.known->file(asked.descriptor);
        break;
      case Asked::unlink:
        event.file = thread.file;
        break;
      case Asked::map:
        event.file = process.known->file(asked.descriptor);
        recorder_.missed(Unseen::mapped_files);
        break;
      default:
        break;
    }
    stamp(event, thread, end_ns);
    recorder_.add(event);
  }

  // By whom and when.
  void stamp(Event& event, const Thread& thread, uint64_t end_ns) const {
    event.start_ns = recorder_.since_zero(thread.start_ns);
    event.latency_ns = end_ns - thread.start_ns;
    event.process = thread.process->id;
    event.thread = thread.id;
  }

  // sendfile() and its like leave the offset where the next call would begin.
  static uint64_t offset_before(const Thread& thread, uint64_t address, uint64_t moved) {
    uint64_t after = 0;
    if (address == 0 ||
        !read_memory(thread.id, address, std::as_writable_bytes(std::span(&after, size_t{1})))) {
      return no_offset;
    }
    return after - moved;
  }

  // ---- descriptors

  void record_open(const Thread& thread, Event event, int32_t descriptor) {
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
    thread.process->known->set(descriptor, event.file);
    recorder_.add(event);
  }

  void record_close(const Thread& thread, int32_t descriptor) {
    recorder_.add({.start_ns = since_zero(),
                   .process = thread.process->id,
                   .thread = thread.id,
                   .descriptor = descriptor,
                   .call = Call::close});
  }

  // Finds out what a descriptor stands for that nothing is known about, and records it.
  uint32_t learn(const Thread& thread, int32_t descriptor) {
    Process& process = *thread.process;
    if (const uint32_t file = process.known->file(descriptor); file != 0) return file;
    const auto found = open_file_of(thread.id, descriptor, Detail::and_position, pseudo_);
    if (!found) return 0;  // the call will fail
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
    process.known->set(descriptor, event.file);
    recorder_.add(event);
    return event.file;
  }

  // A descriptor of ours that shares its position with the one of the event, if there is one.
  void find_alias(Event& event) {
    bool untold = false;
    for (const auto& [id, process] : processes_) {
      for (int32_t other = 0; other < static_cast<int32_t>(process->known->size()); ++other) {
        if (process->known->file(other) != event.file) continue;
        if (id == event.process && other == event.descriptor) continue;
        const auto is_same =
            is_same_description(event.thread, event.descriptor, process->threads.back(), other);
        untold |= !is_same.has_value();
        if (!is_same.value_or(false)) continue;
        event.child = id;
        event.descriptor2 = other;
        return;
      }
    }
    if (untold) recorder_.missed(Unseen::unknown_sharing);
  }

  bool is_storage(const Thread& thread, int32_t descriptor) {
    const uint32_t file = learn(thread, descriptor);
    return file != 0 && recorder_.is_storage(file);
  }

  // ---- rings

  static constexpr uint32_t enter_registered_ring = 1u << 4;  // IORING_ENTER_REGISTERED_RING

  static RingWatch* find_ring(const Process& process, const AskedCall& asked) {
    if (asked.what == Asked::ring_enter && (asked.operation & enter_registered_ring) != 0) {
      // The number is one of a table that the ring's thread keeps: with one ring it is that one.
      return process.rings.size() == 1 ? process.rings.begin()->second.get() : nullptr;
    }
    const auto found = process.rings.find(asked.descriptor);
    return found == process.rings.end() ? nullptr : found->second.get();
  }

  void set_up_ring(const Thread& thread, Event event, int32_t descriptor) {
    bool polled = false;
    std::shared_ptr<RingWatch> ring =
        RingWatch::open(thread.id, descriptor, thread.asked.structure_at, polled);
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

  // Files that a ring has a table of its own for become descriptors of large numbers.
  void register_files(const Thread& thread, const AskedCall& asked) {
    constexpr uint32_t register_files = 2, unregister_files = 3, update_files = 6;
    Process& process = *thread.process;
    RingWatch* ring = find_ring(process, asked);
    if (ring == nullptr) return;
    uint32_t first = 0;
    uint64_t list_at = asked.structure_at;
    if (asked.operation == update_files) {
      struct {
        uint32_t offset, reserved;
        uint64_t descriptors;
      } update = {};
      if (!read_memory(thread.id, list_at, std::as_writable_bytes(std::span(&update, size_t{1})))) {
        return;
      }
      first = update.offset;
      list_at = update.descriptors;
    } else if (asked.operation == unregister_files) {
      for (uint32_t i = 0; i < ring->registered_files; ++i) {
        record_close(thread, ring->registered_descriptor(i));
      }
      ring->registered_files = 0;
      return;
    } else if (asked.operation != register_files) {
      return;
    }
    std::vector<int32_t> list(std::min<uint64_t>(asked.bytes, 1 << 16));
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

  void alias(const Thread& thread, int32_t descriptor, int32_t other) {
    learn(thread, descriptor);
    recorder_.add({.start_ns = since_zero(),
                   .process = thread.process->id,
                   .thread = thread.id,
                   .descriptor = descriptor,
                   .descriptor2 = other,
                   .flags = flag::close_on_exec,
                   .call = Call::duplicate});
  }

  // A descriptor is about to be closed: a ring, or a file that rings still work on.
  void leave_ring(Process& process, int32_t descriptor) {
    for (auto& [number, ring] : process.rings) {
      harvest(process, *ring);
      bool under_way = false;
      ring->each_under_way([&](RingRequest& request) {
        if (request.registered || request.descriptor != descriptor) return;
        // The request keeps the file: give that a number of its own.
        request.descriptor = ring->registered_descriptor(kept_index);
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
    // A program may make and close rings as often as it likes: those that owe nothing go now.
    std::erase_if(process.closed_rings, [&](const std::shared_ptr<RingWatch>& ring) {
      harvest(process, *ring);
      return ring->is_idle();
    });
  }

  void harvest(Process& process, RingWatch& ring) {
    completions_.clear();
    ring.harvest(completions_);
    const uint64_t now = since_zero();
    for (const RingCompletion& completion : completions_) {
      if (completion.result < 0 && completion.request.asks != RingAsks::other) {
        recorder_.missed(Unseen::failed_calls);
      } else {
        record_ring(process, ring, completion.request, completion.result, now);
      }
    }
  }

  void record_ring(Process& process, const RingWatch& ring, const RingRequest& request,
                   int64_t result, uint64_t now) {
    Event event{.start_ns = request.start_ns,
                .latency_ns = now - std::min(now, request.start_ns),
                .offset = request.offset,
                .bytes = request.bytes,
                .result = static_cast<uint64_t>(result),
                .process = process.id,
                .thread = request.thread,
                .descriptor = request.registered ? ring.registered_descriptor(
                                                       static_cast<uint32_t>(request.descriptor))
                                                 : request.descriptor,
                .flags = request.flags};
    // The one that asked, or where it has ended another one.
    const bool has_other = !threads_.contains(request.thread) && !process.threads.empty();
    const Thread by{.id = has_other ? process.threads.back() : request.thread, .process = &process};
    switch (request.asks) {
      case RingAsks::other:
        recorder_.missed(Unseen::ring_other);
        return;
      case RingAsks::open:
        event.offset = no_offset;
        // A file that goes to the ring's own table (result 0) is not followed.
        if (result > 0) record_open(by, event, static_cast<int32_t>(result));
        return;
      case RingAsks::close:
        process.known->set(request.descriptor, 0);
        record_close(by, event.descriptor);
        return;
      case RingAsks::read:
      case RingAsks::write:
        if (!request.registered && !is_storage_now(by, request.descriptor)) {
          recorder_.missed(Unseen::stream_calls);
          return;
        }
        event.call = request.asks == RingAsks::read ? Call::read : Call::write;
        if (event.flags & flag::vector) event.bytes = event.result;
        break;
      case RingAsks::sync:
        event.call = Call::sync;
        event.file = process.known->file(request.descriptor);
        break;
      case RingAsks::allocate:
        event.call = Call::allocate;
        event.file = process.known->file(request.descriptor);
        event.result = size_of(by.id, request.descriptor).value_or(0);
        break;
    }
    recorder_.add(event);
  }

  bool is_storage_now(const Thread& thread, int32_t descriptor) {
    return descriptor >= (1 << 30) || is_storage(thread, descriptor);
  }

  void end_rings(Process& process) {
    for (auto& [descriptor, ring] : process.rings) process.closed_rings.push_back(ring);
    process.rings.clear();
    for (const auto& ring : process.closed_rings) {
      harvest(process, *ring);
      if (ring.use_count() > 1) continue;  // another process goes on with it
      for (RingRequest request : ring->rest()) {
        request.flags |= flag::unconfirmed;
        recorder_.missed(Unseen::ring_unconfirmed);
        if (request.asks == RingAsks::read || request.asks == RingAsks::write) {
          record_ring(process, *ring, request, static_cast<int64_t>(request.bytes), since_zero());
        }
      }
    }
    process.closed_rings.clear();
  }

  uint64_t since_zero() const { return recorder_.since_zero(Recorder::now_ns()); }

  static constexpr uint32_t kept_index = (1 << 16) - 1;

  Recorder& recorder_;
  const bool filtered_;
  bool detaching_ = false;
  bool has_run_;
  std::unordered_map<int32_t, Thread> threads_;
  std::unordered_map<int32_t, std::unique_ptr<Process>> processes_;
  Thread* last_thread_ = nullptr;
  OneProcessor one_processor_;
  PseudoDevices pseudo_;
  std::vector<RingCompletion> completions_;
};

}  // namespace

Result<int> capture_by_ptrace(const CaptureOptions& options, Recorder& recorder) {
  if (options.attach != 0) {
    auto threads = attach(options.attach);
    if (!threads) return std::unexpected(threads.error());
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
  if (error != 0) return system_error(error, "run this program", options.command[0]);
  return exit_code;
}

}  // namespace penstock::trace
