#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "trace/calls/call_table.h"
#include "trace/import/import_sources.h"
#include "trace/import/strace_files.h"
#include "trace/import/strace_line.h"

// The conversion of strace's text to events.
//
// A line "read(3, ...) = 100" alone does not say which file was read, nor in which process. Other
// lines do, and lines come in the order in which strace could print them:
//
//   100 vfork( <unfinished ...>                       101 is not known yet
//   101 execve("/bin/cat", ["cat"], ... <unfinished ...>
//   100 <... vfork resumed>) = 101                    101 is a child of 100
//   101 <... execve resumed>) = 0 <0.000183>
//   101 read(3,  <unfinished ...>                     the call begins
//   100 wait4(-1,  <unfinished ...>
//   101 <... read resumed>"...", 4096) = 4096 <...>   the call ends: here the read took effect
//
// A call in two pieces is joined: its event comes at its end, with the time of its start. Lines of an
// unknown process are held while a fork is under way that could have made it. If all forks have ended
// without it, strace was attached to it. Held lines are bounded (held_bytes_max); beyond it, unknown
// processes count as attached.
//
// This file keeps the threads of each process, and the calls under way. strace_files.cc handles what
// the calls mean for files.
//
// A log lacks:
//   - sizes of files: those that fstat or a seek to the end returned become events (Call::size),
//   - positions of descriptors that were open before the log began: they are taken for 0,
//   - the process of a thread whose beginning was not seen: the thread counts as a process,
//   - that two names are one file (symbolic links, without -y; hard links are followed),
//   - requests of io_uring, and of AIO if strace does not decode them: they are counted.
//
// On a terminal strace puts remarks in the middle of lines, and leaves the number of a process out
// while there is only one. Both are parsed; a program's own output between the lines is not.

namespace penstock::trace {
namespace {

using std::string_view;
using Kind = StraceLine::Kind;

constexpr uint64_t ns_per_day = 86400 * ns_per_second;
constexpr uint64_t days_max = 36500;
constexpr size_t held_bytes_max = size_t{4} << 20;
constexpr size_t unfinished_bytes_max = size_t{64} << 20;
constexpr size_t announced_max = 65536;
constexpr int32_t unnamed_thread = 1;  // thread of a log without numbers

bool moves_bytes(const CallRow& row) {
  return row.effect == Effect::read || row.effect == Effect::write || row.effect == Effect::copy;
}
bool makes_process(const CallRow& row) {
  return row.effect == Effect::fork;
}

class StraceSource final : public StraceFiles {
 public:
  StraceSource(Lines lines, string_view head) : StraceFiles(std::move(lines)) {
    header = strace_header(head);
  }

 private:
  struct Unfinished {
    const CallRow* row = nullptr;
    std::string text;
    uint64_t start_ns = 0;
    bool has_time = false;
  };
  struct Thread {
    int32_t process = 0;
    std::optional<Unfinished> unfinished;
  };
  struct Process {
    std::unordered_set<int32_t> threads;
  };
  // A line of the log, with its time and number.
  struct LogLine {
    string_view text;
    uint64_t number = 0;
    uint64_t at_ns = 0;
  };
  struct HeldLine {
    std::string text;
    uint64_t at_ns = 0;
    size_t held_bytes() const { return text.size() + sizeof(HeldLine); }
  };
  using HeldLines = std::map<uint64_t, HeldLine>;  // [line number]

  // ---- lines

  Status add_line(string_view line) override {
    if (const auto remark = parse_strace_remark(line)) {
      if (remark->attached != 0 && announced_.size() < announced_max) {
        announced_.insert(remark->attached);
      }
      broken_ += remark->front;
      if (broken_.size() > Lines::line_bytes_max) broken_.clear();
      return {};
    }
    if (broken_.empty()) return take_whole(line);
    broken_ += line;
    const std::string whole = std::exchange(broken_, {});
    return take_whole(whole);
  }

  Status take_whole(string_view text) {
    const auto line = parse_strace_line(text);
    if (!line) {
      return bad_line(line_number(), text, "no call, signal or end of a process",
                      "strace -o FILE, which keeps the program's own output out of the log");
    }
    const uint64_t at_ns = now(*line);
    if (line->kind == Kind::nothing) return {};
    if (Status status = place(*line, {text, line_number(), at_ns}, false); !status) return status;
    return drain();
  }

  // `has_waited`: the line is not held again, or a log could make each line copy all its lines.
  Status place(const StraceLine& line, const LogLine& source, bool has_waited) {
    const int32_t thread = thread_of(line, has_waited);
    if (thread != 0) return take_line(line, thread, source);
    HeldLine held{std::string(source.text), source.at_ns};
    held_bytes_ += held.held_bytes();
    HeldLines& lines = held_[line.thread];
    if (lines.empty()) held_order_[source.number] = line.thread;
    lines.emplace(source.number, std::move(held));
    return {};
  }

  Status end() override {
    if (Status status = drain(); !status) return status;
    for (const auto& [number, thread] : threads_) {
      if (thread.unfinished && moves_bytes(*thread.unfinished->row)) count(Unseen::dropped_events);
    }
    totals.end_ns = latest_ns_;
    totals.exit_code = exit_code_;
    return {};
  }

  // ---- threads of lines

  // Returns the thread of a line; 0 if it will be known later.
  int32_t thread_of(const StraceLine& line, bool has_waited) {
    const int32_t named = line.thread;
    if (named == 0) {
      // strace leaves the number out while there is only one process.
      if (threads_.contains(last_thread_)) return last_thread_;
      if (threads_.size() == 1) return threads_.begin()->first;
      if (!threads_.contains(unnamed_thread)) add_process(unnamed_thread);
      has_unnamed_ = true;
      return unnamed_thread;
    }
    if (named == number_of_unnamed_) return unnamed_thread;
    if (held_.contains(named)) return 0;
    if (threads_.contains(named)) return named;
    const bool can_be_unnamed =
        has_unnamed_ && number_of_unnamed_ == 0 && !announced_.contains(named);
    // A thread with a call in two pieces is not new.
    if (can_be_unnamed && line.kind == Kind::resumed) return name_unnamed(named);
    if (forks_under_way_ > 0 && !has_waited) return 0;
    if (can_be_unnamed) return name_unnamed(named);
    add_process(named);
    return named;
  }

  int32_t name_unnamed(int32_t number) {
    number_of_unnamed_ = number;
    return unnamed_thread;
  }

  void add_process(int32_t number) {
    threads_[number].process = number;
    processes_[number].threads.insert(number);
    if (first_process_ == 0) first_process_ = number;
  }

  // Makes the held lines of a thread ready, which is known now.
  void release(int32_t named) {
    const auto found = held_.find(named);
    if (found == held_.end()) return;
    held_order_.erase(found->second.begin()->first);
    for (const auto& [number, held] : found->second) held_bytes_ -= held.held_bytes();
    ready_.merge(found->second);
    held_.erase(found);
  }

  // Handles the ready lines in the order of the log, which may make more of them ready. It is a loop
  // because in a log each process may be made by a line of the previous one.
  Status drain() {
    while (true) {
      if (!ready_.empty()) {
        const auto next = ready_.extract(ready_.begin());
        const HeldLine& held = next.mapped();
        const auto line = parse_strace_line(held.text);
        PENSTOCK_CHECK(line.has_value(), "a line that was held could be parsed before");
        if (Status status = place(*line, {held.text, next.key(), held.at_ns}, true); !status) {
          return status;
        }
      } else if (!held_.empty() &&
                 (forks_under_way_ == 0 || text_ended() || held_bytes_ > held_bytes_max)) {
        // No fork will report it any more (or too many lines are held): strace was attached to it.
        const int32_t named = held_order_.begin()->second;
        if (!threads_.contains(named)) add_process(named);
        release(named);
      } else {
        return {};
      }
    }
  }

  void forget_thread(int32_t number) {
    const auto found = threads_.find(number);
    if (found == threads_.end()) return;
    forget_unfinished(found->second);
    const int32_t process = found->second.process;
    threads_.erase(found);
    if (number == unnamed_thread) {  // another process may have its number by now
      number_of_unnamed_ = 0;
      has_unnamed_ = false;
    }
    const auto owner = processes_.find(process);
    if (owner == processes_.end()) return;
    owner->second.threads.erase(number);
    if (!owner->second.threads.empty()) return;
    processes_.erase(owner);
    exit(process, number, latest_ns_);
  }

  // ---- time

  uint64_t now(const StraceLine& line) {
    uint64_t at_ns = latest_ns_;
    switch (line.clock) {
      case StraceLine::Clock::none:
        if (line.kind != Kind::nothing) count(Unseen::untimed_lines);
        break;
      case StraceLine::Clock::since_1970:
        if (!has_base_) base_ns_ = line.time_ns;
        has_base_ = true;
        at_ns = line.time_ns - std::min(base_ns_, line.time_ns);
        break;
      case StraceLine::Clock::of_day: {
        if (!has_base_) base_ns_ = line.time_ns;
        has_base_ = true;
        // A clock that falls by more than half a day has passed midnight.
        if (line.time_ns + ns_per_day / 2 < last_of_day_ns_ && days_ < days_max) ++days_;
        last_of_day_ns_ = line.time_ns;
        const uint64_t since_first_day_ns = line.time_ns + days_ * ns_per_day;
        at_ns = since_first_day_ns - std::min(base_ns_, since_first_day_ns);
        break;
      }
      case StraceLine::Clock::since_last:
        at_ns = std::min(latest_ns_ + (has_base_ ? line.time_ns : 0), time_max);
        has_base_ = true;
        break;
    }
    latest_ns_ = std::max(latest_ns_, at_ns);
    return at_ns;
  }

  // ---- calls in pieces

  void forget_unfinished(Thread& thread) {
    if (!thread.unfinished) return;
    unfinished_bytes_ -= thread.unfinished->text.size();
    if (makes_process(*thread.unfinished->row)) --forks_under_way_;
    thread.unfinished.reset();
  }

  Status take_line(const StraceLine& line, int32_t number, const LogLine& source) {
    last_thread_ = number;
    Thread& thread = threads_[number];
    switch (line.kind) {
      case Kind::nothing:
        return {};
      case Kind::call:
        return call(line.name, number, source.at_ns, line.text, source);
      case Kind::unfinished:
        return begin_call(line, number, source);
      case Kind::resumed: {
        const CallRow* row = logged_call(line.name);
        if (row == nullptr) return {};
        if (!thread.unfinished || thread.unfinished->row != row) {
          // The call began before the log.
          if (moves_bytes(*row)) count(Unseen::dropped_events);
          return {};
        }
        const std::string whole = thread.unfinished->text + std::string(line.text);
        const uint64_t start_ns = thread.unfinished->start_ns;
        const bool timed = thread.unfinished->has_time && line.clock != StraceLine::Clock::none;
        forget_unfinished(thread);
        resumed_latency_ns_ = timed && source.at_ns > start_ns ? source.at_ns - start_ns : 0;
        return call(line.name, number, start_ns, whole, source);
      }
      case Kind::exited:
        if (thread.unfinished && moves_bytes(*thread.unfinished->row)) {
          count(Unseen::dropped_events);
        }
        if (number == first_process_) exit_code_ = line.number;
        forget_thread(number);
        return {};
      case Kind::superseded: {
        // The thread that calls exec takes the first thread's number, and ends its call under it.
        const auto other = threads_.find(known(line.number));
        if (other == threads_.end() || other->first == number) return {};
        if (other->second.unfinished && other->second.unfinished->row->effect == Effect::exec) {
          forget_unfinished(thread);
          thread.unfinished = std::exchange(other->second.unfinished, std::nullopt);
        }
        return {};
      }
      case Kind::child_gone: {
        // A child that strace does not follow has no further lines.
        const auto child = threads_.find(line.number);
        if (line.number != number && child != threads_.end() &&
            child->second.process == line.number) {
          forget_thread(line.number);
        }
        return {};
      }
    }
    return {};
  }

  Status begin_call(const StraceLine& line, int32_t number, const LogLine& source) {
    const CallRow* row = logged_call(line.name);
    const int32_t ending = line.number == 0 ? number : known(line.number);
    if (!threads_.contains(ending)) add_process(ending);
    Thread& thread = threads_[ending];
    forget_unfinished(thread);
    if (row == nullptr) return {};
    thread.unfinished = Unfinished{row, std::string(line.text), source.at_ns,
                                   line.clock != StraceLine::Clock::none};
    unfinished_bytes_ += line.text.size();
    if (makes_process(*row)) ++forks_under_way_;
    if (unfinished_bytes_ <= unfinished_bytes_max) return {};
    return bad_line(source.number, source.text, "too many calls are under way at once");
  }

  int32_t known(int32_t named) const {
    return named == number_of_unnamed_ && named != 0 ? unnamed_thread : named;
  }

  // ---- calls

  Status call(string_view name, int32_t thread, uint64_t start_ns, string_view text,
              const LogLine& source) {
    const uint64_t latency_ns = std::exchange(resumed_latency_ns_, 0);
    const CallRow* row = logged_call(name);
    if (row == nullptr) return {};
    const auto parsed = parse_strace_call(text);
    if (!parsed) return bad_line(source.number, source.text, "a call that does not end");
    if (parsed->failed && !parsed->not_found) {
      count(Unseen::failed_calls);
      return {};
    }
    if (parsed->result > largest_offset && row->effect != Effect::map) {
      return bad_line(source.number, source.text, "a result that cannot be");
    }
    const Context context{.thread = thread,
                          .process = threads_[thread].process,
                          .start_ns = start_ns,
                          .latency_ns = parsed->latency_ns.value_or(latency_ns)};
    if (parsed->failed) {
      fail(context, *row, *parsed);
      return {};
    }
    if (makes_process(*row)) {
      made(context, *parsed, text);
    } else if (const auto understood = add(context, *row, *parsed); !understood) {
      return bad_line(source.number, source.text, understood.error());
    }
    if (row->effect == Effect::exec) only_thread_stays(context);
    if (overflowed()) {
      return failure(ErrorCode::corrupt, "follow more than 16 million open descriptors",
                     trace_path);
    }
    return {};
  }

  // ---- processes

  // Removes all threads but one, after an exec.
  void only_thread_stays(const Context& context) {
    Process& process = processes_[context.process];
    for (const int32_t number : process.threads) {
      if (number == context.thread) continue;
      const auto found = threads_.find(number);
      if (found == threads_.end()) continue;
      forget_unfinished(found->second);
      threads_.erase(found);
    }
    process.threads = {context.thread};
  }

  // Adds the child whose number a fork, vfork or clone has returned.
  void made(const Context& context, const StraceCall& c, string_view text) {
    if (c.result == 0 || c.result > std::numeric_limits<int32_t>::max()) return;
    const auto child = static_cast<int32_t>(c.result);
    if (child == context.thread || child == context.process) return;
    const string_view flags = strace_member(text.substr(text.find('(') + 1), "flags");
    announced_.erase(child);
    forget_thread(child);  // an earlier thread of that number, whose end was not seen
    if (strace_has_flag(flags, "CLONE_THREAD")) {
      threads_[child].process = context.process;
      processes_[context.process].threads.insert(child);
    } else {
      add_process(child);
      fork(context, child, strace_has_flag(flags, "CLONE_FILES"));
    }
    release(child);
  }

  std::string broken_;  // front of a line that a remark of strace has split
  std::unordered_map<int32_t, Thread> threads_;
  std::unordered_map<int32_t, Process> processes_;
  std::unordered_map<int32_t, HeldLines> held_;  // [process number in the lines]
  std::map<uint64_t, int32_t> held_order_;       // process numbers by the first held line
  HeldLines ready_;                              // lines whose process is known now
  std::unordered_set<int32_t> announced_;        // attached processes that no fork has reported yet
  size_t held_bytes_ = 0;
  size_t unfinished_bytes_ = 0;
  size_t forks_under_way_ = 0;
  int32_t last_thread_ = 0;
  int32_t first_process_ = 0;
  int32_t number_of_unnamed_ = 0;  // number of the first process, once a line has it
  bool has_unnamed_ = false;
  int32_t exit_code_ = 0;

  bool has_base_ = false;
  uint64_t base_ns_ = 0;  // clock at time 0
  uint64_t last_of_day_ns_ = 0;
  uint64_t days_ = 0;
  uint64_t latest_ns_ = 0;
  uint64_t resumed_latency_ns_ = 0;  // latency of the current call, if it is in two pieces
};

}  // namespace

std::unique_ptr<EventSource> strace_source(Lines lines, string_view head) {
  return std::make_unique<StraceSource>(std::move(lines), head);
}

}  // namespace penstock::trace
