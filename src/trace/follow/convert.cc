// The conversion of calls to accesses: which bytes of which file were read or written, when, and by
// which process.
//
// A read contains "descriptor 5, at its position". That position depends on the open or dup that
// made descriptor 5, on everybody who moved the same position (a duplicate, a child after fork), on
// seeks, and on the length of the file if O_APPEND was obeyed. The conversion keeps the same state
// as the kernel:
//
//   process -> table of descriptors -> open file description (position, append) -> file (size)
//
// Tables are copied by fork and shared by threads (and by CLONE_FILES); descriptions are shared by
// dup and by fork, and not by two opens of one file. Nothing else decides where an access goes.
//
// Order: requests come in the order in which they were *started*. Events are in the order in which
// they took effect, so a slow call may follow younger ones; a window of `reorder_requests` sorts
// them. A call that took longer than that many others comes late, and is counted.
//
// Memory: per file and per open descriptor, and the window; nothing per request.

#include <algorithm>
#include <bit>
#include <unordered_set>
#include <utility>

#include "base/check.h"
#include "penstock/trace.h"
#include "trace/follow/descriptors.h"
#include "trace/import/import.h"

// The conversion in three steps:
//
//   events -> Follower: follows descriptors, positions and sizes, and finds the bytes of an access
//          -> Window:   sorts requests by their start
//          -> Counter:  compares each with the previous ones (seeks, runs), and counts
//
// Sizes. A write with O_APPEND goes to the end of the file, so the file's size has to be known. An
// open reports it, and later writes and truncations change it. While a traced process has the file
// open for writing, the size that another open reports is ignored: it may already contain the effect
// of a write whose event comes after the open, because its end was seen later. (Writes of a process
// that is not traced stay unseen meanwhile.) Logs of other programs have no sizes at an open; there
// the first call that returned one counts (Call::size), and until then the accesses seen so far.

namespace penstock::trace {
namespace {

constexpr uint32_t no_index = ~uint32_t{0};

class Counter {
 public:
  Counter(Conversion& result, const RequestSink& sink) : result_(result), sink_(sink) {}

  Status add(std::span<Request> batch) {
    for (Request& request : batch) count(request);
    return sink_ ? sink_(batch) : Status{};
  }

  void finish() {
    end_run();
    result_.processes = processes_.size();
  }

 private:
  void count(Request& request) {
    if (request.is_sync()) return;
    ConvertedFile& file = result_.files[request.file];
    if (last_end_.size() < result_.files.size()) last_end_.resize(result_.files.size());
    uint64_t& last_end = last_end_[request.file];
    request.file_seek = request.offset != last_end;
    request.device_seek = request.file_seek || request.file != last_file_;
    last_end = request.offset + request.bytes;

    if (request.device_seek) end_run();
    run_bytes_ += request.bytes;
    last_file_ = request.file;
    if (request.start_ns < last_start_ns_) ++result_.late;
    last_start_ns_ = std::max(last_start_ns_, request.start_ns);

    const bool is_read = request.access == Access::read;
    ++result_.requests;
    ++(is_read ? result_.reads : result_.writes);
    (is_read ? result_.read_bytes : result_.written_bytes) += request.bytes;
    result_.file_seeks += request.file_seek;
    result_.device_seeks += request.device_seek;
    const uint64_t end_ns = request.start_ns + request.latency_ns;
    result_.end_ns = std::max(result_.end_ns, end_ns);
    if (file.reads + file.writes == 0) file.first_ns = request.start_ns;
    ++(is_read ? file.reads : file.writes);
    (is_read ? file.read_bytes : file.written_bytes) += request.bytes;
    file.seeks += request.file_seek;
    file.switches += request.device_seek;
    file.last_ns = std::max(file.last_ns, end_ns);
    if (request.process != last_process_ || processes_.empty()) {
      processes_.insert(request.process);
      last_process_ = request.process;
    }
  }

  void end_run() {
    if (run_bytes_ != 0) ++result_.runs[static_cast<size_t>(std::bit_width(run_bytes_) - 1)];
    run_bytes_ = 0;
  }

  Conversion& result_;
  const RequestSink& sink_;
  std::vector<uint64_t> last_end_;  // [file]: end of its last access
  std::unordered_set<int32_t> processes_;
  uint32_t last_file_ = no_index;
  int32_t last_process_ = 0;
  uint64_t last_start_ns_ = 0;
  uint64_t run_bytes_ = 0;
};

// A window in which requests wait until `wait` younger ones have come. They come nearly in order, so
// insertion from the back takes as many steps as requests were under way at the same time.
//
// If that would take many steps (times that fall or jump about), the request is appended, and the
// window is sorted once before it releases requests: a few steps per request in any order. Both ways
// are stable: requests of one time keep their order.
class Window {
 public:
  Window(size_t wait, Counter& counter) : wait_(std::max<size_t>(wait, 1)), counter_(counter) {
    requests_.reserve(2 * wait_);
  }

  Status add(const Request& request) {
    const size_t count = requests_.size();
    const size_t nearest = count - std::min(count, steps_max);
    size_t place = count;
    while (place > nearest && requests_[place - 1].start_ns > request.start_ns) --place;
    if (place == nearest && place > 0 && requests_[place - 1].start_ns > request.start_ns) {
      in_order_ = false;
      place = count;
    }
    requests_.insert(requests_.begin() + static_cast<ptrdiff_t>(place), request);
    if (requests_.size() < 2 * wait_) return {};
    return release(wait_);
  }

  Status finish() { return release(requests_.size()); }

 private:
  Status release(size_t count) {
    if (count == 0) return {};
    if (!in_order_) std::ranges::stable_sort(requests_, {}, &Request::start_ns);
    in_order_ = true;
    Status status = counter_.add(std::span(requests_).first(count));
    requests_.erase(requests_.begin(), requests_.begin() + static_cast<ptrdiff_t>(count));
    return status;
  }

  static constexpr size_t steps_max = 64;

  const size_t wait_;
  Counter& counter_;
  std::vector<Request> requests_;
  bool in_order_ = true;
};

class Follower {
 public:
  Follower(const TraceReader& trace, const ConvertOptions& options, Conversion& result,
           Window& window)
      : trace_(trace), options_(options), result_(result), window_(window) {}

  Status follow(const Event& event) {
    ++result_.events;
    learn_files();
    switch (event.call) {
      case Call::open:
      case Call::describe:
        return open(event);
      case Call::close:
        descriptors_.close(event.process, event.descriptor);
        return {};
      case Call::close_range:
        if (event.flags & flag::close_on_exec) {
          descriptors_.mark_range(event.process, event.descriptor, event.descriptor2, true);
        } else {
          descriptors_.close_range(event.process, event.descriptor, event.descriptor2);
        }
        return {};
      case Call::duplicate:
        return duplicate(event);
      case Call::set_flags:
        return set_flags(event);
      case Call::read:
        return transfer(event, event.descriptor, event.offset, Access::read);
      case Call::write:
        return transfer(event, event.descriptor, event.offset, Access::write);
      case Call::copy:
        if (Status status = transfer(event, event.descriptor, event.offset, Access::read);
            !status) {
          return status;
        }
        return transfer(event, event.descriptor2, event.offset2, Access::write);
      case Call::seek:
        if (Description* description = find(event, event.descriptor)) {
          description->position = event.result;
        }
        return {};
      case Call::fork:
        descriptors_.fork(event.process, event.child, event.flags & flag::shares_descriptors);
        return {};
      case Call::exec:
        descriptors_.exec(event.process);
        return {};
      case Call::exit:
        descriptors_.exit(event.process);
        return {};
      case Call::truncate:
      case Call::allocate:
      case Call::rename:
      case Call::unlink:
      case Call::map:
      case Call::size:
        change_file(event);
        return {};
      case Call::sync:
        change_file(event);
        return sync(event);
      case Call::ring_setup:
        return {};
    }
    return {};
  }

  bool overflowed() const { return descriptors_.overflowed(); }

  void finish() {
    for (const File& file : files_) {
      if (file.index != no_index) result_.files[file.index].last_bytes = file.bytes;
    }
  }

 private:
  struct File {
    uint64_t bytes = 0;
    uint64_t reserved_bytes = 0;  // largest size that a call set without writing bytes
    bool bytes_known = false;     // a call reported `bytes`; else they follow from accesses
    uint32_t index = no_index;    // into Conversion::files; no_index: not wanted, or no storage
    bool storage = false;
  };

  void learn_files() {
    const std::vector<FileRecord>& known = trace_.files();
    while (files_.size() < known.size()) {
      const FileRecord& record = known[files_.size()];
      File file{.bytes = record.bytes, .storage = is_storage(record.kind)};
      if (file.storage && record.path.starts_with(options_.under)) {
        file.index = static_cast<uint32_t>(result_.files.size());
        result_.files.push_back({.path = record.path,
                                 .first_path = record.path,
                                 .kind = record.kind,
                                 .device = record.device,
                                 .inode = record.inode,
                                 .first_bytes = record.bytes,
                                 .peak_bytes = record.bytes,
                                 .used_bytes = record.bytes});
      }
      files_.push_back(file);
    }
  }

  File* file_of(uint32_t id) { return id == 0 ? nullptr : &files_[id - 1]; }

  void set_size(File& file, uint64_t bytes) {
    file.bytes = bytes;
    if (file.index == no_index) return;
    ConvertedFile& converted = result_.files[file.index];
    converted.peak_bytes = std::max(converted.peak_bytes, bytes);
    // Reserved space contains no bytes, however often its size is reported.
    if (bytes > file.reserved_bytes) use(file, bytes);
  }
  void use(File& file, uint64_t bytes) {
    if (file.index == no_index) return;
    uint64_t& used_bytes = result_.files[file.index].used_bytes;
    used_bytes = std::max(used_bytes, bytes);
  }
  void learn_size(File& file, uint64_t bytes) {
    set_size(file, bytes);
    file.bytes_known = true;
  }
  void reserve(File& file, uint64_t bytes) {
    file.reserved_bytes = std::max(file.reserved_bytes, bytes);
  }
  void grow(File& file, uint64_t bytes) {
    if (bytes > file.bytes) set_size(file, bytes);
  }

  Description* find(const Event& event, int32_t descriptor) {
    Description* found = descriptors_.find(event.process, descriptor);
    if (found == nullptr) ++result_.unseen[static_cast<size_t>(Unseen::unknown_descriptors)];
    return found;
  }

  Status open(const Event& event) {
    File* file = file_of(event.file);
    if (file == nullptr) return {};
    const bool size_known = (event.flags & flag::size_unknown) == 0;
    if (size_known &&
        ((event.flags & flag::truncates) != 0 || descriptors_.writers(event.file) == 0)) {
      learn_size(*file, event.result);
    }
    const bool close_on_exec = event.flags & flag::close_on_exec;
    const Description made{.position = event.offset == no_offset ? 0 : event.offset,
                           .file = event.file,
                           .append = (event.flags & flag::append) != 0,
                           .writes = (event.flags & flag::write) != 0};
    if (event.call == Call::describe) {
      // A known descriptor keeps sharing its position with the same others.
      Description* known = descriptors_.find(event.process, event.descriptor);
      if (known != nullptr && known->file == event.file) {
        follow_known(*known, made);
        return {};
      }
      if (event.child != 0) {
        Description* other = descriptors_.find(event.child, event.descriptor2);
        if (other != nullptr && other->file == event.file) {
          follow_known(*other, made);
          descriptors_.share(event.process, event.descriptor, event.child, event.descriptor2,
                             close_on_exec);
          return {};
        }
      }
    }
    descriptors_.open(event.process, event.descriptor, made, close_on_exec);
    return {};
  }

  // Updates a description to its reported state. Its mode of opening does not change.
  static void follow_known(Description& known, const Description& now) {
    known.position = now.position;
    known.append = now.append;
  }

  Status duplicate(const Event& event) {
    if (event.descriptor == event.descriptor2) return {};
    if (!descriptors_.share(event.process, event.descriptor2, event.process, event.descriptor,
                            event.flags & flag::close_on_exec)) {
      // A copy of an unknown descriptor is unknown.
      descriptors_.close(event.process, event.descriptor2);
    }
    return {};
  }

  Status set_flags(const Event& event) {
    if (event.flags & flag::descriptor_flags) {
      descriptors_.mark_range(event.process, event.descriptor, event.descriptor,
                              event.flags & flag::close_on_exec);
    }
    if (event.flags & flag::status_flags) {
      if (Description* description = descriptors_.find(event.process, event.descriptor)) {
        description->append = event.flags & flag::append;
      }
    }
    return {};
  }

  // Follows an access to a descriptor, at `offset` or at its position.
  Status transfer(const Event& event, int32_t descriptor, uint64_t offset, Access access) {
    Description* description = find(event, descriptor);
    if (description == nullptr) return {};
    File& file = files_[description->file - 1];
    if (!file.storage) return {};
    uint64_t from = offset == no_offset ? description->position : offset;
    // Linux appends with O_APPEND even if pwrite() has an offset.
    if (access == Access::write && (description->append || (event.flags & flag::append))) {
      from = file.bytes;
    }
    if (from > largest_offset - event.result) {
      return failure(ErrorCode::corrupt, "follow an access beyond 2^63 bytes", trace_.path());
    }
    if (offset == no_offset) description->position = from + event.result;
    if (event.result == 0) return {};
    grow(file, from + event.result);
    use(file, from + event.result);
    if (file.index == no_index) return {};
    return window_.add({.start_ns = event.start_ns,
                        .latency_ns = event.latency_ns,
                        .offset = from,
                        .bytes = event.result,
                        .file = file.index,
                        .process = event.process,
                        .thread = event.thread,
                        .access = access});
  }

  Status sync(const Event& event) {
    const File* file = file_of(event.file);
    if (!options_.syncs || file == nullptr || file->index == no_index) return {};
    return window_.add({.start_ns = event.start_ns,
                        .latency_ns = event.latency_ns,
                        .file = file->index,
                        .process = event.process,
                        .thread = event.thread,
                        .access = Access::write});
  }

  void change_file(const Event& event) {
    File* file = file_of(event.file);
    if (file == nullptr) return;
    if (event.flags & flag::size_unknown) {
      if (event.call == Call::allocate && (event.flags & flag::keep_size) == 0 &&
          event.offset != no_offset) {
        const uint64_t end = std::min(event.offset + event.bytes, largest_offset);
        reserve(*file, end);
        grow(*file, end);
      }
    } else if (event.call == Call::truncate || event.call == Call::allocate) {
      reserve(*file, event.result);
      learn_size(*file, event.result);
    } else if (event.call == Call::size &&
               (!file->bytes_known || descriptors_.writers(event.file) == 0)) {
      if (file->index != no_index && !file->bytes_known && file->bytes == 0) {
        result_.files[file->index].first_bytes = event.result;
      }
      learn_size(*file, event.result);
    }
    if (file->index == no_index) return;
    ConvertedFile& converted = result_.files[file->index];
    if (event.call == Call::sync) ++converted.syncs;
    if (event.call == Call::map) converted.mapped_bytes += event.bytes;
    if (event.call == Call::unlink) converted.unlinked = true;
    if (event.call == Call::rename && event.path != 0) {
      converted.path = std::string(trace_.string(event.path));
    }
  }

  const TraceReader& trace_;
  const ConvertOptions& options_;
  Conversion& result_;
  Window& window_;
  Descriptors descriptors_;
  std::vector<File> files_;  // [id - 1]
};

}  // namespace

Result<Conversion> convert(TraceReader& trace, const ConvertOptions& options,
                           const RequestSink& sink,
                           const std::vector<ConvertedFile>** files_so_far) {
  Conversion result;
  if (files_so_far != nullptr) *files_so_far = &result.files;
  Counter counter(result, sink);
  Window window(options.reorder_requests, counter);
  Follower follower(trace, options, result, window);
  std::vector<Event> events(1024);
  while (true) {
    // Relaxed order: the flag guards no other data.
    if (options.cancel != nullptr && options.cancel->load(std::memory_order_relaxed))
      return failure(ErrorCode::interrupted, "convert to the end: it was asked to stop",
                     trace.path());
    auto got = trace.next(events);
    if (!got) {
      if (!trace.cut_off()) return std::unexpected(got.error());
      result.cut_off = got.error();
      break;
    }
    if (*got == 0) break;
    if (options.event_sink) {
      if (Status status = options.event_sink(std::span(events).first(*got)); !status) {
        return std::unexpected(status.error());
      }
    }
    for (size_t i = 0; i < *got; ++i) {
      if (Status status = follower.follow(events[i]); !status) {
        return std::unexpected(status.error());
      }
    }
    if (follower.overflowed()) {
      return failure(ErrorCode::corrupt, "follow more than 16 million open descriptors",
                     trace.path());
    }
  }
  if (Status status = window.finish(); !status) return std::unexpected(status.error());
  counter.finish();
  follower.finish();
  if (trace.complete()) {
    result.complete = true;
    result.exit_code = trace.totals().exit_code;
  }
  for (size_t i = 0; i < result.unseen.size(); ++i) result.unseen[i] += trace.unseen()[i];
  return result;
}

Result<Conversion> convert_file(const std::string& path, const ConvertOptions& options,
                                const RequestSink& sink,
                                const std::vector<ConvertedFile>** files_so_far) {
  auto trace = open_trace(path);
  if (!trace) return std::unexpected(trace.error());
  return convert(*trace, options, sink, files_so_far);
}

std::vector<std::string> Conversion::caveats() const {
  std::vector<std::string> sentences;
  if (!complete) sentences.push_back("The trace was cut off: " + cut_off.message() + ".");
  for (size_t i = 0; i < unseen.size(); ++i) {
    if (unseen[i] == 0) continue;
    sentences.push_back(std::to_string(unseen[i]) + " " +
                        std::string(name_of(static_cast<Unseen>(i))) + ".");
  }
  if (late != 0) {
    sentences.push_back(std::to_string(late) +
                        " requests took so long that they stand behind younger ones.");
  }
  return sentences;
}

}  // namespace penstock::trace
