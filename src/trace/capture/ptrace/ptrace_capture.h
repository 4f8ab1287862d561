#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "trace/capture/backends.h"
#include "trace/capture/decoded_call.h"
#include "trace/capture/one_processor.h"
#include "trace/capture/proc_files.h"
#include "trace/capture/ring_watch.h"
#include "trace/capture/tracee.h"
#include "trace/follow/descriptor_tables.h"

namespace penstock::trace {

// The file of a descriptor according to the trace; 0: not known.
struct DescribedFile {
  uint32_t file = 0;
  bool empty() const { return file == 0; }
};

struct Process {
  int32_t id = 0;
  // Threads that have not ended, the newest last. The first thread may end before the others, and the
  // kernel takes a process's number for that of its first thread: memory and descriptors are read by
  // the number of a living thread.
  std::vector<int32_t> threads;
  bool has_called = false;  // the trace has a call of the process
  bool is_made = false;     // its maker has reported it, or is not traced
  std::map<int32_t, std::shared_ptr<RingWatch>> rings;   // [descriptor]
  std::vector<std::shared_ptr<RingWatch>> closed_rings;  // rings with requests under way
};

struct Thread {
  int32_t id = 0;
  Process* process = nullptr;
  bool in_call = false;
  DecodedCall decoded;
  uint64_t start_ns = 0;
  uint32_t file = 0;  // file that the call is about to unlink
};

// The capture by ptrace; see the essay of capture_ptrace.cc.
class PtraceCapture {
 public:
  PtraceCapture(Recorder& recorder, bool filtered)
      : recorder_(recorder), filtered_(filtered), has_run_(!filtered) {
    if (has_run_) recorder_.program_runs();  // an attached process already runs
  }

  void add_first(int32_t thread, int32_t process);
  // Runs until no thread is left. Returns the exit code of `root`.
  int run(int32_t root, const CaptureOptions& options);
  bool has_run() const { return has_run_; }

 private:
  // ---- threads and processes

  Thread& add_thread(int32_t id, int32_t process_id);
  void remove_thread(int32_t id);
  Thread* find_thread(int32_t id);

  // ---- stops

  void stopped(const Stop& stop);
  void go_on(const Thread& thread, int signal = 0);
  void meet(int32_t id, const Process* maker);
  void inherit(const Process& maker, Process& made);
  Thread& executed(Thread& thread);

  // ---- calls

  void at_call(Thread& thread);
  void think_of_processors(const Thread& thread, const SystemCall& call);
  bool at_entry(Thread& thread);
  void at_exit(Thread& thread, int64_t result, uint64_t end_ns);
  void record_failed(const Thread& thread, uint64_t error, uint64_t end_ns);
  void record_aio(const Thread& thread, uint64_t taken, uint64_t end_ns);
  void stamp(Event& event, const Thread& thread, uint64_t end_ns) const;
  static uint64_t offset_before(const Thread& thread, uint64_t address, uint64_t moved);

  // ---- descriptors

  void record_open(const Thread& thread, Event event, int32_t descriptor);
  void record_close(const Thread& thread, int32_t descriptor);
  uint32_t learn(const Thread& thread, int32_t descriptor);
  void find_alias(Event& event);
  bool is_storage(const Thread& thread, int32_t descriptor);

  // ---- rings

  static RingWatch* find_ring(const Process& process, const DecodedCall& decoded);
  void set_up_ring(const Thread& thread, Event event, int32_t descriptor);
  void register_files(const Thread& thread, const DecodedCall& decoded);
  void alias(const Thread& thread, int32_t descriptor, int32_t other);
  void leave_ring(Process& process, int32_t descriptor);
  void harvest(Process& process, RingWatch& ring);
  void record_ring(Process& process, const RingWatch& ring, const RingRequest& request,
                   int64_t result, uint64_t now);
  bool is_storage_now(const Thread& thread, int32_t descriptor);
  void end_rings(Process& process);

  uint64_t since_zero() const { return recorder_.since_zero(Recorder::now_ns()); }

  Recorder& recorder_;
  const bool filtered_;
  bool detaching_ = false;
  bool has_run_;
  std::unordered_map<int32_t, Thread> threads_;
  std::unordered_map<int32_t, std::unique_ptr<Process>> processes_;
  Thread* last_thread_ = nullptr;
  DescriptorTables<DescribedFile> known_;
  OneProcessor one_processor_;
  PseudoDevices pseudo_;
  std::vector<RingCompletion> completions_;
};

}  // namespace penstock::trace
