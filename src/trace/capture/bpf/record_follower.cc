#include "trace/capture/bpf/record_follower.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/random.h"
#include "trace/capture/bpf/in_trace.h"
#include "trace/capture/bpf/known_names.h"
#include "trace/capture/decoded_call.h"
#include "trace/capture/proc_files.h"
#include "trace/capture/ring_watch.h"
#include "trace/follow/descriptor_tables.h"

// The conversion of records to events. Records are read milliseconds after their calls.
//
// Descriptors. The descriptor of a record may be closed by now, and a look into /proc would be wrong
// whenever its number was reused. So each record contains the state at that moment: the file, its
// flags and position, and *the open file description*, by its address in the kernel (`place`).
// `tables_` keeps for each descriptor the file that the trace has for it. If a record differs, the
// descriptor came unseen (through a socket, from before the trace, or in a lost record), and a
// `describe` event precedes the call. Two descriptors with one place share their position, so kcmp()
// is not needed as it is with ptrace.
//
//     record -> is it the description that the table has? --no--> `describe`, which names
//                               |                                 another descriptor of it
//                               | yes                                     |
//                               +-----> the event itself <----------------+
//
// Dropped records. Each record contains the number of dropped records so far. If it has grown, some
// are missing between this record and the previous one, and the tables may be wrong. They are
// emptied, so that each descriptor is described once more, with its position. A trace is wrong about
// the calls in the gap, and right again behind it. (The exception is the size of a file that is being
// appended to, which is ignored while a process writes.)
//
// Names. The path of a file comes with its first open. rename() and unlink() have a path alone. The
// kernel's programs cannot look up its file, and a lookup afterwards is too late. So the follower
// keeps the names of all recorded files, and finds the file of such a call by its name.
//
// io_uring. A descriptor may be closed and its number reused while a request is under way. Then, and
// for registered files, the request's file gets a number of its own (1 << 30 and above).

namespace penstock::trace {

using namespace kernel;

namespace {

// The file of a descriptor according to the trace.
struct Entry {
  uint64_t place = 0;  // address of the open file description in the kernel
  uint32_t file = 0;   // number in the trace
  bool empty() const { return place == 0 && file == 0; }
};

struct IdentityHash {
  size_t operator()(const FileIdentity& identity) const {
    return mix64(mix64(identity.inode) ^ (uint64_t{identity.device} << 32 | identity.generation));
  }
};
struct IdentityEqual {
  bool operator()(const FileIdentity& a, const FileIdentity& b) const {
    return a.inode == b.inode && a.device == b.device && a.generation == b.generation;
  }
};

struct KnownFile {
  trace::FileRecord record;
  uint32_t generation = 0;
  uint32_t number = 0;  // number in the trace; 0: no event has named the file
};

}  // namespace

struct RecordFollower::State {
  State(Recorder& recorder, const FollowerOptions& options)
      : recorder_(recorder), options_(options), has_run_(options.running) {}

  void finish(const Counters& counted) {
    std::vector<SubmitRecord> rest;
    for (const auto& [request, submitted] : under_way_) rest.push_back(submitted);
    std::ranges::sort(rest, {}, &SubmitRecord::start_ns);
    for (const SubmitRecord& submitted : rest) record_unconfirmed(submitted);
    recorder_.missed(Unseen::dropped_events, counted.lost);
    recorder_.missed(Unseen::failed_calls, counted.failed_calls);
    recorder_.missed(Unseen::stream_calls, counted.stream_calls);
    recorder_.missed(Unseen::ring_other, counted.other_requests);
  }

  template <class Record>
  static const Record& as(std::span<const std::byte> bytes) {
    return *reinterpret_cast<const Record*>(bytes.data());
  }

  void add(std::span<const std::byte> bytes) {
    const auto& head = as<RecordHead>(bytes);
    if (head.lost != lost_) after_gap(head.lost);
    switch (head.kind) {
      case record_file:
        add_file(as<kernel::FileRecord>(bytes));
        return;
      case record_exec:
        executed(as<ExecRecord>(bytes));
        return;
      default:
        break;
    }
    if (!has_run_) return;
    switch (head.kind) {
      case record_name:
        named(as<NameRecord>(bytes));
        break;
      case record_call:
        called(as<CallRecord>(bytes));
        break;
      case record_fork:
        forked(as<ForkRecord>(bytes));
        break;
      case record_exit:
        recorder_.add({.start_ns = since_zero(as<EndRecord>(bytes).start_ns),
                       .process = head.process,
                       .thread = head.thread,
                       .call = Call::exit});
        tables_.forget(head.process);
        break;
      case record_submit:
        submitted(as<SubmitRecord>(bytes));
        break;
      case record_done:
        done(as<DoneRecord>(bytes));
        break;
      default:
        break;
    }
  }

  void after_gap(uint32_t lost) {
    lost_ = lost;
    tables_.clear();
    names_given_.clear();
    // Their completions may be among the dropped records, and their addresses may be reused.
    for (const auto& [request, submitted] : under_way_) record_unconfirmed(submitted);
    under_way_.clear();
  }

  // ---- files

  void add_file(const kernel::FileRecord& record) {
    KnownFile& known = files_[record.identity];
    if (known.record.path.empty()) {
      known.record = record_of(record);
      known.generation = record.identity.generation;
    }
    if (record.is_storage && !record.is_deleted) names_.add(known.record.path, record.identity);
  }

  // Returns the number of a file in the trace; 0 without a record of the file.
  uint32_t number_of(const FileIdentity& identity) {
    const auto found = files_.find(identity);
    if (found == files_.end()) return 0;
    KnownFile& known = found->second;
    if (known.number == 0) known.number = recorder_.file(known.record, known.generation);
    return known.number;
  }

  // ---- descriptors

  bool is_known(int32_t process, int32_t descriptor, const FileFacts& facts) {
    const Entry known = tables_.get(process, descriptor);
    return !known.empty() && known.place == facts.file && known.file == number_of(facts.identity);
  }

  // Returns the descriptor's file in the trace, and describes it first if the trace lacks it.
  uint32_t resolve(const RecordHead& head, int32_t descriptor, const FileFacts& facts,
                   uint64_t start_ns) {
    const uint32_t file = number_of(facts.identity);
    if (file == 0) return 0;
    if (is_known(head.process, descriptor, facts)) return file;
    Event event{.start_ns = start_ns,
                .offset = facts.position,
                .bytes = facts.bytes,
                .result = facts.bytes,
                .process = head.process,
                .thread = head.thread,
                .descriptor = descriptor,
                .file = file,
                .flags = open_flags(facts.flags) & ~(flag::truncates | flag::creates),
                .call = Call::describe};
    event.flags |= facts.close_on_exec ? flag::close_on_exec : 0;
    if (recorder_.is_storage(file)) {
      tables_.find_alias(
          event, [&](int32_t, int32_t, const Entry& other) { return other.place == facts.file; });
    }
    tables_.of(head.process).set(descriptor, {facts.file, file});
    recorder_.add(event);
    return file;
  }

  // ---- processes

  void forked(const ForkRecord& record) {
    tables_.fork(record.head.process, record.child, record.shares_descriptors != 0);
    recorder_.add({.start_ns = since_zero(record.start_ns),
                   .process = record.head.process,
                   .thread = record.head.process,
                   .child = record.child,
                   .flags = record.shares_descriptors ? flag::shares_descriptors : 0,
                   .call = Call::fork});
  }

  void executed(const ExecRecord& record) {
    if (!has_run_) {
      has_run_ = true;
      recorder_.program_runs();
    }
    // The exec may have closed descriptors. All of them are described again at their next use.
    tables_.forget(record.head.process);
    const auto program = files_.find(record.program);
    recorder_.add(
        {.start_ns = since_zero(record.start_ns),
         .process = record.head.process,
         .thread = record.head.process,
         .path = program == files_.end() ? 0 : recorder_.string(program->second.record.path),
         .call = Call::exec});
  }

  // ---- calls

  void called(const CallRecord& record) {
    SystemCall call{.number = record.number};
    std::ranges::copy(record.arguments, call.arguments.begin());
    const DecodedCall decoded = decode(call);
    const RecordHead& head = record.head;
    const uint64_t start_ns = since_zero(record.start_ns);
    const auto result = static_cast<uint64_t>(record.result);
    const auto value = static_cast<int32_t>(record.result);
    Event event;
    uint32_t file = 0;
    if (record.result < 0) {
      failed(head, decoded, record);
      return;
    }
    switch (decoded.effect) {
      case Effect::nothing:
      case Effect::ring_register:
        return;
      case Effect::ring_enter:
        recorder_.missed(Unseen::ring_other, decoded.bytes);
        return;
      case Effect::aio_submit:
        recorder_.missed(Unseen::ring_other, decoded.bytes);
        return;
      case Effect::open:
        event.flags = decoded.structure_at != 0 ? open_flags(record.pointed[0]) : decoded.flags;
        event.latency_ns = record.end_ns - record.start_ns;
        record_open(head, value, record.file, event, start_ns);
        return;
      case Effect::close:
        tables_.of(head.process).erase(decoded.descriptor, decoded.descriptor);
        event = {.descriptor = decoded.descriptor, .call = Call::close};
        break;
      case Effect::close_range:
        if ((decoded.flags & flag::close_on_exec) == 0) {
          tables_.of(head.process).erase(decoded.descriptor, decoded.descriptor2);
        }
        event = {.descriptor = decoded.descriptor,
                 .descriptor2 = decoded.descriptor2,
                 .flags = decoded.flags,
                 .call = Call::close_range};
        break;
      case Effect::ring_setup:
        event = {.bytes = decoded.bytes,
                 .result = decoded.bytes,
                 .descriptor = value,
                 // The flag has no effect on this capture, which sees such requests like others.
                 .flags = record.pointed[0] & 2 ? flag::kernel_polls : 0,
                 .call = Call::ring_setup};
        if (!options_.sees_rings) recorder_.missed(Unseen::polled_rings);
        break;
      case Effect::read_size:
      case Effect::stat:
      case Effect::sync:
        event = event_of(decoded, result);
        if (record.file.file != 0)
          event.file = resolve(head, decoded.descriptor, record.file, start_ns);
        break;
      case Effect::truncate_path:
      case Effect::rename:
      case Effect::unlink:
        if (!change_name(head, decoded, event)) return;
        break;
      case Effect::set_flags:
        if (!record.file.is_storage) return;
        [[fallthrough]];
      default:
        file = resolve(head, decoded.descriptor, record.file, start_ns);
        event = event_of(decoded, result);
        if (decoded.effect == Effect::duplicate) {
          tables_.of(head.process).set(value, {record.file.file, file});
        } else if (decoded.effect == Effect::copy) {
          if (record.file2.file != 0) {
            resolve(head, decoded.descriptor2, record.file2, start_ns);
          }
          // After the call, the offset is where the next call would begin.
          if (decoded.offset_at != 0) event.offset = before(record.pointed[0], result);
          if (decoded.offset2_at != 0) event.offset2 = before(record.pointed[1], result);
        } else if (decoded.effect == Effect::allocate) {
          event.result = record.bytes_after;
        }
        if (event.call == Call::truncate || event.call == Call::allocate ||
            event.call == Call::sync || event.call == Call::map) {
          event.file = file;
        }
        if (event.call == Call::map) recorder_.missed(Unseen::mapped_files);
    }
    event.start_ns = start_ns;
    event.latency_ns = record.end_ns - record.start_ns;
    event.process = head.process;
    event.thread = head.thread;
    recorder_.add(event);
  }

  // Records an open or a stat that failed, with the name that came before it.
  void failed(const RecordHead& head, const DecodedCall& decoded, const CallRecord& record) {
    const auto given = names_given_.find(head.thread);
    if (given == names_given_.end()) {
      recorder_.missed(Unseen::failed_calls);
      return;
    }
    const std::string name = std::move(given->second[0]);
    names_given_.erase(given);
    recorder_.add_failed({.start_ns = since_zero(record.start_ns),
                          .latency_ns = record.end_ns - record.start_ns,
                          .process = head.process,
                          .thread = head.thread},
                         decoded.effect == Effect::open ? Call::open : Call::stat, name,
                         static_cast<uint64_t>(-record.result));
  }

  // Returns the offset before a call. An offset of 0 could not be read.
  static uint64_t before(uint64_t offset, uint64_t moved) {
    return offset < moved || offset > largest_offset ? no_offset : offset - moved;
  }

  // Records an open. `event` contains the flags and the latency.
  void record_open(const RecordHead& head, int32_t descriptor, const FileFacts& facts, Event event,
                   uint64_t start_ns) {
    const uint32_t file = facts.file == 0 ? 0 : number_of(facts.identity);
    if (file == 0) {
      recorder_.missed(Unseen::unknown_descriptors);
      return;
    }
    tables_.of(head.process).set(descriptor, {facts.file, file});
    event.call = Call::open;
    event.start_ns = start_ns;
    event.process = head.process;
    event.thread = head.thread;
    event.descriptor = descriptor;
    event.file = file;
    event.bytes = event.result = facts.bytes;
    recorder_.add(event);
  }

  // ---- names

  void named(const NameRecord& record) {
    std::string path(record.path, ::strnlen(record.path, record.length));
    if (!path.starts_with('/')) {
      const std::string folder = path_of(record.path + record.length, record.folder_bytes);
      path = folder.ends_with('/') ? folder + path : folder + "/" + path;
    }
    names_given_[record.head.thread][record.index & 1] = std::move(path);
  }

  // Makes the event of a rename, unlink or truncate of a path, whose records have no file. Returns
  // false if the trace does not have the file.
  bool change_name(const RecordHead& head, const DecodedCall& decoded, Event& event) {
    const auto given = names_given_.find(head.thread);
    if (given == names_given_.end()) return false;
    const std::array<std::string, 2> paths = std::move(given->second);
    names_given_.erase(given);
    if (paths[0].empty() || (paths[1].empty() && decoded.effect == Effect::rename)) return false;
    const std::string name = names_.name_of(paths[0]);
    const std::string to = paths[1].empty() ? "" : names_.name_of(paths[1]);
    const auto identity = names_.find(name);
    if (!identity) {
      if (decoded.effect == Effect::rename) names_.rename_folder(name + "/", to + "/");
      return false;
    }
    if (decoded.effect != Effect::truncate_path) names_.remove(name);
    event = event_of(decoded, 0);
    if (decoded.effect == Effect::rename) {
      names_.add(to, *identity);
      event.path = recorder_.string(to);
    }
    event.file = number_of(*identity);
    return event.file != 0;
  }

  // ---- io_uring

  void submitted(const SubmitRecord& record) {
    const auto [place, is_new] = under_way_.try_emplace(record.request, record);
    if (is_new) return;
    // The address of a request without a completion (CQE_SKIP) is reused.
    record_unconfirmed(place->second);
    place->second = record;
  }

  void done(const DoneRecord& record) {
    const auto found = under_way_.find(record.request);
    if (found == under_way_.end()) return;  // submitted before the trace began
    const SubmitRecord submitted = found->second;
    under_way_.erase(found);
    if (record.result < 0) {
      recorder_.missed(Unseen::failed_calls);
      return;
    }
    record_request(submitted, record.file, static_cast<uint64_t>(record.result),
                   since_zero(record.end_ns));
  }

  // Records a request whose completion was not seen: its file is known at best by its descriptor,
  // and its bytes unless it has vectors.
  void record_unconfirmed(const SubmitRecord& submitted) {
    recorder_.missed(Unseen::ring_unconfirmed);
    const int32_t number = number_in_table(submitted);
    const uint32_t file = tables_.get(submitted.head.process, number).file;
    if (file == 0 || !recorder_.is_storage(file)) return;
    const DecodedCall decoded = decoded_from(submitted);
    if (decoded.effect != Effect::read && decoded.effect != Effect::write) return;
    if (decoded.flags & flag::vector) return;
    Event event = event_of(decoded, decoded.bytes);
    event.process = submitted.head.process;
    event.thread = submitted.head.thread;
    event.flags |= flag::unconfirmed;
    event.descriptor = number;
    recorder_.add(event);
  }

  void record_request(const SubmitRecord& submitted, FileFacts facts, uint64_t result,
                      uint64_t end_ns) {
    const RecordHead& head = submitted.head;
    const uint64_t start_ns = since_zero(submitted.start_ns);
    const uint64_t latency_ns = end_ns - std::min(end_ns, start_ns);
    Event event = event_of(decoded_from(submitted), result);
    event.start_ns = start_ns;
    event.latency_ns = latency_ns;
    event.process = head.process;
    event.thread = head.thread;
    // A file of the ring's own table is described at its first use.
    if (submitted.makes_registered) return;
    if (event.call == Call::open) {
      record_open(head, static_cast<int32_t>(result), facts, event, start_ns);
      return;
    }
    if (event.call == Call::close) {
      if (tables_.find(head.process, submitted.descriptor) == nullptr) return;
      tables_.of(head.process).erase(submitted.descriptor, submitted.descriptor);
      recorder_.add(event);
      return;
    }
    if (facts.file == 0 || !facts.is_storage) {
      recorder_.missed(Unseen::stream_calls);
      return;
    }
    // The record contains the position after the request.
    if (submitted.offset == no_offset) facts.position -= std::min(facts.position, result);
    int32_t number = number_in_table(submitted);
    if (!submitted.is_registered && !is_known(head.process, number, facts)) {
      number = numbers_of_ring(submitted.ring) + kept_index;
    }
    const uint32_t file = resolve(head, number, facts, start_ns);
    if (event.call == Call::sync || event.call == Call::allocate) event.file = file;
    if (event.call == Call::allocate) event.result = facts.bytes;
    event.descriptor = number;
    recorder_.add(event);
  }

  int32_t number_in_table(const SubmitRecord& submitted) {
    if (!submitted.is_registered) return submitted.descriptor;
    return numbers_of_ring(submitted.ring) +
           static_cast<int32_t>(static_cast<uint32_t>(submitted.descriptor) % kept_index);
  }
  int32_t numbers_of_ring(uint64_t ring) {
    const auto [place, is_new] = ring_numbers_.try_emplace(ring, 0);
    if (is_new) place->second = RingWatch::numbers_for_new_ring();
    return place->second;
  }

  uint64_t since_zero(uint64_t ns) const { return recorder_.since_zero(ns); }

  static constexpr int32_t kept_index = (1 << 16) - 1;

  Recorder& recorder_;
  const FollowerOptions options_;
  bool has_run_;
  uint32_t lost_ = 0;
  std::unordered_map<FileIdentity, KnownFile, IdentityHash, IdentityEqual> files_;
  KnownNames names_;  // names of storage seen so far
  DescriptorTables<Entry> tables_;
  std::unordered_map<int32_t, std::array<std::string, 2>> names_given_;  // [thread]
  std::unordered_map<uint64_t, SubmitRecord> under_way_;                 // [request]
  std::unordered_map<uint64_t, int32_t> ring_numbers_;
};

RecordFollower::RecordFollower(Recorder& recorder, const FollowerOptions& options)
    : state_(std::make_unique<State>(recorder, options)) {}
RecordFollower::~RecordFollower() = default;
void RecordFollower::add(std::span<const std::byte> record) {
  state_->add(record);
}
void RecordFollower::finish(const Counters& counted) {
  state_->finish(counted);
}
bool RecordFollower::has_run() const {
  return state_->has_run_;
}

}  // namespace penstock::trace
