#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <map>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "trace/backends.h"
#include "trace/preload_watch.h"
#include "trace/record_follower.h"
#include "trace/trace_file.h"
#include "trace/tracee.h"

// Capture by a library in the program.
//
// The library (preload/) does each call of interest itself, and writes down in memory that we share
// what it was and what it led to. The program never stops for us, nor goes into the kernel on our
// behalf, but where it opens something: that is what makes this the cheapest way. The records are
// those that the programs in the kernel write for the backend bpf; what they mean is the business
// of record_follower.cc. Three things are ours:
//
// Who is there. Nobody tells us of the end of a process that is killed. So each is remembered from
// its first word (or its parent's) on, and its end is waited for by a descriptor for processes. A
// fork whose child has not spoken yet is remembered too: the trace ends when all have ended and no
// child is owed. (One whose parent was killed at that moment is waited for a little.) Numbers come
// from memory that the program may have written to, or from a container with numbers of its own:
// what began before the program did is none of its processes, and is not waited for.
//
// Who is not. A process says that it is about to run another program; the library there says that
// it does. One that never does (static, set-user-id, of another machine) is counted.
//
// io_uring. The library sees requests and answers, with the program's own number for them, which
// need not be different ones. The first asked is taken for the first answered. One that has an
// answer only where it fails (IOSQE_CQE_SKIP_SUCCESS) is not taken for one that succeeded; whether
// it did is never told, and it is remembered only among the last such ones.

namespace penstock::trace {
namespace {

using namespace kernel;
using Clock = std::chrono::steady_clock;

constexpr int wait_ms = 2;
constexpr size_t silent_max = size_t{1} << 16;
constexpr auto owed_child_wait = std::chrono::milliseconds(500);
// Longer than PreloadWatch waits for one that is in the middle of a record.
constexpr auto hole_wait = std::chrono::seconds(3);

class PreloadCapture {
 public:
  PreloadCapture(Recorder& recorder, PreloadWatch& watch)
      : recorder_(recorder),
        watch_(watch),
        follower_(recorder, {.running = false, .sees_rings = true}) {}

  // Until all that came of it have ended.
  void run(int32_t first) {
    began_ = PreloadWatch::begin_of(first);
    add_process(first);
    Clock::time_point alone_since{}, over_since{};
    bool is_alone = false, is_over = false;
    while (true) {
      // What a process wrote is there before its end is.
      std::vector<int32_t> ended;
      for (auto& [id, process] : processes_) {
        if (process.wait(0)) ended.push_back(id);
      }
      ended.insert(ended.end(), gone_.begin(), gone_.end());
      const auto drained =
          watch_.drain([this](std::span<const std::byte> record) { take(record); });
      recorder_.flush_sometimes(Recorder::now_ns());
      if (drained == PreloadWatch::Drained::some) continue;
      if (drained == PreloadWatch::Drained::all) {
        for (const int32_t id : ended) end_process(id);
      }
      // Where all have ended, nobody will fill the holes that they left.
      if (drained == PreloadWatch::Drained::waits &&
          ended.size() == processes_.size() + gone_.size()) {
        if (!is_over) over_since = Clock::now();
        is_over = true;
        if (Clock::now() - over_since > hole_wait) watch_.give_up();
      } else {
        is_over = false;
      }
      if (processes_.empty() && gone_.empty()) {
        if (owed_.empty()) break;
        if (!is_alone) alone_since = Clock::now();
        is_alone = true;
        if (Clock::now() - alone_since > owed_child_wait) break;
      } else {
        is_alone = false;
      }
      if (processes_.empty() || !ended.empty()) {
        std::this_thread::sleep_for(std::chrono::milliseconds(wait_ms));
      } else {
        (void)processes_.begin()->second.wait(wait_ms);
      }
    }
    const PreloadWatch::Counted counted = watch_.counted();
    follower_.finish(counted.calls);
    recorder_.missed(Unseen::unknown_sharing, counted.unknown_sharing);
    recorder_.missed(Unseen::polled_rings, counted.unseen_rings);
    recorder_.missed(Unseen::untraced_processes, counted.untaken_images);
  }

  bool has_run() const { return follower_.has_run(); }

 private:
  using RingNumber = std::pair<uint64_t, uint64_t>;  // a ring, and the program's number in it
  struct Request {
    uint64_t key = 0;  // 0: of no interest
    bool is_silent = false;
    FileFacts file;
  };

  template <class Record>
  static const Record& as(std::span<const std::byte> bytes) {
    return *reinterpret_cast<const Record*>(bytes.data());
  }
  template <class Record>
  void hand_on(const Record& record) {
    follower_.take(std::as_bytes(std::span(&record, size_t{1})));
  }

  void take(std::span<const std::byte> record) {
    const auto& head = as<RecordHead>(record);
    switch (head.kind) {
      case record_fork_begin:
        owed_.insert(as<ForkPartRecord>(record).number);
        break;
      case record_fork_child:
        owed_.erase(as<ForkPartRecord>(record).number);
        add_process(head.process);
        break;
      case record_fork_end: {
        const auto& told = as<ForkPartRecord>(record);
        owed_.erase(told.number);
        // The child may have said nothing yet, or be gone.
        if (told.other > 0) add_process(static_cast<int32_t>(told.other));
        break;
      }
      case record_exec_begin:
        changing_.insert(head.process);
        return;
      case record_exec_failed:
        changing_.erase(head.process);
        return;
      case record_exec:
        changing_.erase(head.process);
        add_process(head.process);
        break;
      case record_exit:
        said_end_.insert(head.process);
        break;
      case record_ring_asked:
        asked(as<RingAskedRecord>(record));
        return;
      case record_ring_told:
        told(as<RingToldRecord>(record));
        return;
      case record_ring_file: {
        const auto& entry = as<RingFileRecord>(record);
        registered_[{entry.ring, entry.index}] = entry.file;
        return;
      }
      default:
        break;
    }
    follower_.take(record);
  }

  // ---- processes

  void add_process(int32_t id) {
    if (id <= 0 || processes_.contains(id)) return;
    said_end_.erase(id);
    auto process = WaitedProcess::of(id);
    if (process) {
      const uint64_t began = PreloadWatch::begin_of(id);
      if (began != 0 && began < began_) return;
      processes_.emplace(id, std::move(*process));
    } else if (process.error().system_errno == ESRCH) {
      gone_.insert(id);
    }
    // (Where there are too many to wait for, its end is not seen, but for what it says itself.)
  }

  void end_process(int32_t id) {
    processes_.erase(id);
    gone_.erase(id);
    if (changing_.erase(id) > 0) recorder_.missed(Unseen::untraced_processes);
    if (said_end_.erase(id) > 0) return;
    // It was killed; or ran, in the end, a program that says nothing.
    hand_on(EndRecord{.head = {.kind = record_exit, .lost = 0, .process = id, .thread = id},
                      .start_ns = Recorder::now_ns()});
  }

  // ---- io_uring

  void asked(const RingAskedRecord& record) {
    Request request{.is_silent = record.submit.is_silent != 0, .file = record.file};
    SubmitRecord submitted = record.submit;
    const uint8_t operation = submitted.operation;
    if (operation == op_readv || operation == op_writev || operation == op_read_fixed ||
        operation == op_write_fixed || operation == op_read || operation == op_write ||
        operation == op_fsync || operation == op_fallocate) {
      request.key = ++requests_;
      if (submitted.is_registered != 0) {
        const auto index = static_cast<uint32_t>(submitted.descriptor);
        const auto found = registered_.find({submitted.ring, index});
        if (found != registered_.end()) request.file = found->second;
      }
      submitted.head.kind = record_submit;
      submitted.request = request.key;
      hand_on(submitted);
    }
    const RingNumber number{record.submit.ring, record.submit.request};
    under_way_[number].push_back(request);
    if (!request.is_silent) return;
    silent_.emplace_back(number, request.key);
    if (silent_.size() <= silent_max) return;
    const auto [old, key] = silent_.front();
    silent_.pop_front();
    const auto found = under_way_.find(old);
    if (found == under_way_.end()) return;
    std::erase_if(found->second, [&](const Request& r) { return r.is_silent && r.key == key; });
    if (found->second.empty()) under_way_.erase(found);
  }

  void told(const RingToldRecord& record) {
    const auto found = under_way_.find({record.ring, record.user_data});
    if (found == under_way_.end()) return;  // one of many answers
    if (record.result >= 0) {
      // Those before it have succeeded as well, and stay unconfirmed.
      const auto answered =
          std::ranges::find(found->second, false, [](const Request& r) { return r.is_silent; });
      found->second.erase(found->second.begin(), answered);
      if (found->second.empty()) {
        under_way_.erase(found);
        return;
      }
    }
    const Request request = found->second.front();
    found->second.pop_front();
    if (found->second.empty()) under_way_.erase(found);
    if (request.key == 0) return;
    DoneRecord done{.head = record.head,
                    .request = request.key,
                    .end_ns = record.end_ns,
                    .result = record.result,
                    .file = request.file};
    done.head.kind = record_done;
    hand_on(done);
  }

  Recorder& recorder_;
  PreloadWatch& watch_;
  RecordFollower follower_;
  uint64_t began_ = 0;                          // when the first process did
  std::map<int32_t, WaitedProcess> processes_;  // that run, as far as is known
  std::unordered_set<int32_t> gone_;            // whose end came before we could wait for it
  std::unordered_set<int32_t> said_end_;
  std::unordered_set<int32_t> changing_;  // to another program
  std::unordered_set<uint64_t> owed_;     // forks whose child has not spoken
  uint64_t requests_ = 0;
  std::map<RingNumber, std::deque<Request>> under_way_;
  std::deque<std::pair<RingNumber, uint64_t>> silent_;             // with their keys
  std::map<std::pair<uint64_t, uint64_t>, FileFacts> registered_;  // by ring and index
};

}  // namespace

Result<int> capture_by_preload(const CaptureOptions& options, PreloadWatch& watch,
                               Recorder& recorder) {
  PreloadCapture capture(recorder, watch);
  Result<Launched> launched = [&] {
    const PreloadWatch::Environment environment(watch);
    return launch(options.command, {LaunchAs::ordinary, is_standard_output(options.output)});
  }();
  if (!launched) return std::unexpected(launched.error());
  capture.run(launched->process);
  const int error = capture.has_run() ? 0 : launch_error(*launched);
  const int exit_code = exit_code_of(*launched);
  end_launched(*launched);
  if (error != 0) return system_error(error, "run this program", options.command[0]);
  // It ran without the library.
  if (!capture.has_run()) recorder.missed(Unseen::untraced_processes);
  return exit_code;
}

}  // namespace penstock::trace
