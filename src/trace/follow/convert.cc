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
#include <unordered_map>
#include <utility>

#include "base/amounts.h"
#include "base/check.h"
#include "base/printable.h"
#include "penstock/trace.h"
#include "trace/follow/call_tally.h"
#include "trace/follow/descriptors.h"
#include "trace/follow/request_window.h"
#include "trace/import/import.h"

// The conversion in three steps:
//
//   events -> Follower:       follows descriptors, positions and sizes, and finds the bytes of an access
//          -> RequestWindow:  sorts requests by their start
//          -> RequestCounter: compares each with the previous ones (seeks, runs), and counts
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

class Follower {
 public:
  Follower(const TraceReader& trace, const ConvertOptions& options, Conversion& result,
           RequestWindow& window)
      : trace_(trace), options_(options), result_(result), window_(window) {}

  Status follow(const Event& event) {
    ++result_.events;
    result_.whole_ns = std::max(result_.whole_ns, event.start_ns + event.latency_ns);
    learn_files();
    if (event.flags & flag::failed) {
      fail(event);
      return {};
    }
    tally(event, event.file);  // transfer() counts calls whose file is their descriptor's
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
      case Call::stat:
        return {};
    }
    return {};
  }

  bool overflowed() const { return descriptors_.overflowed(); }

  void finish() {
    for (const File& file : files_) {
      if (file.index != no_index) result_.files[file.index].last_bytes = file.bytes;
    }
    tally_.finish();
    name_failures();
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
      if (file.storage && is_wanted(record)) {
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

  // Counts a call on a file: storage, or a folder, which has no sums of its own.
  void tally(const Event& event, uint32_t id) {
    if (id == 0) {
      const bool counts = event.call == Call::stat || event.call == Call::sync;
      if (counts && options_.under.empty()) tally_.add(event, nullptr);
      return;
    }
    const FileRecord& record = trace_.file(id);
    const uint32_t index = files_[id - 1].index;
    if (index != no_index) {
      tally_.add(event, &result_.files[index].calls);
    } else if (record.kind == FileKind::directory && is_wanted(record)) {
      tally_.add(event, nullptr);
    }
  }

  // Counts a call that failed, and its name.
  void fail(const Event& event) {
    const bool named = event.path != 0;
    const std::string_view path = named ? trace_.string(event.path) : std::string_view();
    if (!path.starts_with(options_.under)) return;
    tally_.add(event, nullptr);
    if (named) ++failed_[event.path];
  }

  void name_failures() {
    std::vector<std::pair<uint64_t, uint32_t>> most;  // calls, string
    for (const auto& [path, calls] : failed_) most.emplace_back(calls, path);
    const size_t named = std::min(most.size(), failed_names_max);
    const auto before = [](const auto& a, const auto& b) {
      return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    std::ranges::partial_sort(most, most.begin() + static_cast<ptrdiff_t>(named), before);
    for (size_t i = 0; i < named; ++i) {
      result_.failed_names.push_back(
          {.path = std::string(trace_.string(most[i].second)), .calls = most[i].first});
    }
  }

  bool is_wanted(const FileRecord& record) const { return record.path.starts_with(options_.under); }

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
    tally(event, description->file);
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
  RequestWindow& window_;
  Descriptors descriptors_;
  std::vector<File> files_;  // [id - 1]
  CallTally tally_{result_};
  std::unordered_map<uint32_t, uint64_t> failed_;  // [string]: calls that failed
};

}  // namespace

Result<Conversion> convert(TraceReader& trace, const ConvertOptions& options,
                           const RequestSink& sink,
                           const std::vector<ConvertedFile>** files_so_far) {
  Conversion result;
  if (files_so_far != nullptr) *files_so_far = &result.files;
  RequestCounter counter(result, sink);
  RequestWindow window(options.reorder_requests, counter);
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
    result.whole_ns = std::max(result.whole_ns, trace.totals().end_ns);
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

namespace {

// Returns ": /data/big (1.00 GiB), ...": the files with most bytes mapped.
std::string largest_mappings(std::span<const ConvertedFile> files) {
  constexpr size_t named_max = 3;
  std::vector<const ConvertedFile*> mapped;
  for (const ConvertedFile& file : files) {
    if (file.mapped_bytes > 0) mapped.push_back(&file);
  }
  const size_t named = std::min(mapped.size(), named_max);
  std::ranges::partial_sort(mapped, mapped.begin() + static_cast<ptrdiff_t>(named),
                            std::ranges::greater{}, &ConvertedFile::mapped_part_bytes);
  std::string text;
  for (size_t i = 0; i < named; ++i) {
    text += (i == 0 ? ": " : ", ") + printable(mapped[i]->path, 60) + " (" +
            bytes_text(mapped[i]->mapped_part_bytes()) + ")";
  }
  const size_t more = mapped.size() - named;
  return text + (more > 0 ? " and " + grouped(more) + " more" : "");
}

}  // namespace

std::vector<std::string> Conversion::caveats() const {
  std::vector<std::string> sentences;
  if (!complete) sentences.push_back("The trace was cut off: " + cut_off.message() + ".");
  for (size_t i = 0; i < unseen.size(); ++i) {
    if (unseen[i] == 0) continue;
    const auto what = static_cast<Unseen>(i);
    std::string sentence = grouped(unseen[i]) + " " + std::string(name_of(what, unseen[i]));
    if (what == Unseen::mapped_files) sentence += largest_mappings(files);
    sentences.push_back(sentence + ".");
  }
  if (late != 0) {
    sentences.push_back(counted(late, "request that took so long that it follows younger ones",
                                "requests that took so long that they follow younger ones") +
                        ".");
  }
  return sentences;
}

}  // namespace penstock::trace
