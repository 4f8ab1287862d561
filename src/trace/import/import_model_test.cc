// Test labels: one-thread

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "penstock/trace.h"
#include "trace/export/export.h"
#include "trace/format/format.h"
#include "trace/import/converted_fixture.h"
#include "trace/import/import.h"

// Comparison with a plain model: the same random calls as a trace and as strace's text.

namespace penstock::trace {
namespace {

std::string escaped(std::string_view text, bool annotation) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if ((annotation && (c == '<' || c == '>')) || static_cast<unsigned char>(c) < 0x20 ||
               static_cast<unsigned char>(c) >= 0x7f) {
      // The shortest form, unless a digit follows.
      const bool digit = i + 1 < text.size() && text[i + 1] >= '0' && text[i + 1] <= '9';
      out += digit ? fmt::format("\\{:03o}", static_cast<unsigned char>(c))
                   : fmt::format("\\{:o}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out;
}

struct Style {
  bool annotations;
  bool pid_column;  // otherwise [pid ...]
  bool latencies;
};

// A small model of the kernel that writes its calls in both formats.
class TwoLanguages {
 public:
  TwoLanguages(uint64_t seed, Style style, const std::string& trace_path)
      : random_(seed),
        style_(style),
        writer_(*TraceWriter::create(trace_path, {.backend = Backend::synthetic})) {
    for (int i = 0; i < 5; ++i) {
      inodes_.push_back({.path = fmt::format("/tmp/f{} \"<{}>\n\xff,)-", i, i),
                         .bytes = random_.below(2) * random_.below(5000)});
    }
    processes_[100] = std::make_shared<Table>();
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) step();
    while (!under_way_.empty()) finish(under_way_.begin()->first);
    EXPECT_TRUE(writer_.finish({}));
  }
  const std::string& text() const { return text_; }

 private:
  struct Inode {
    std::string path;
    uint64_t bytes = 0;
    uint32_t id = 0;  // id in the trace; 0 before the first open
    bool has_name = true;
  };
  struct Open {
    size_t inode;
    uint64_t position = 0;
    bool append = false;
  };
  struct Slot {
    std::shared_ptr<Open> open;
    bool close_on_exec = false;
  };
  using Table = std::map<int32_t, Slot>;
  // A call under way.
  struct Call2 {
    uint64_t start_us;
    std::string front;  // first part of the line: "read(3, "
    // Executes the call. Returns the rest of the line, "\"\", 5) = 5", and fills in the event.
    std::function<std::string(Event&)> act;
  };

  std::string shown(int32_t descriptor, const Open* open) const {
    if (!style_.annotations || open == nullptr) return std::to_string(descriptor);
    const Inode& inode = inodes_[open->inode];
    return fmt::format("{}<{}>{}", descriptor, escaped(inode.path, true),
                       inode.has_name ? "" : "(deleted)");
  }
  std::string prefix(int32_t process, uint64_t us) const {
    const std::string time = fmt::format("{}.{:06} ", 1700000000 + us / 1000000, us % 1000000);
    return style_.pid_column ? fmt::format("{} {}", process, time)
                             : fmt::format("[pid {:5}] {}", process, time);
  }
  std::string latency(uint64_t us) const {
    return style_.latencies ? fmt::format(" <{}.{:06}>", us / 1000000, us % 1000000) : "";
  }

  void begin(int32_t process, std::string front, std::function<std::string(Event&)> act) {
    under_way_[process] = {now_us_ += 1 + random_.below(50), std::move(front), std::move(act)};
    // Processes that share a table could close each other's descriptors.
    const auto& table = processes_[process];
    const auto users =
        std::ranges::count_if(processes_, [&](const auto& entry) { return entry.second == table; });
    if (users > 1 || random_.below(4) != 0) {
      finish(process, false);
    } else {
      text_ += prefix(process, now_us_) + under_way_[process].front + " <unfinished ...>\n";
    }
  }
  void finish(int32_t process, bool was_cut = true) {
    Call2 call = std::move(under_way_[process]);
    under_way_.erase(process);
    const uint64_t took_us = was_cut ? (now_us_ += 5) - call.start_us : random_.below(30);
    // Without -T, latencies are known for calls in two pieces alone.
    const uint64_t known_us = was_cut || style_.latencies ? took_us : 0;
    Event event{.start_ns = (call.start_us - first_us()) * 1000,
                .latency_ns = known_us * 1000,
                .process = process,
                .thread = process};
    const std::string rest = call.act(event);
    if (event.call != Call::exit) (void)writer_.add(event);
    const std::string name = call.front.substr(0, call.front.find('('));
    if (was_cut) {
      text_ += fmt::format("{}<... {} resumed>{}{}\n", prefix(process, now_us_), name, rest,
                           latency(took_us));
    } else {
      text_ += prefix(process, call.start_us) + call.front + rest + latency(took_us) + "\n";
    }
    if (after_) std::exchange(after_, nullptr)();
  }
  uint64_t first_us() const { return 1; }

  void step() {
    auto at = processes_.begin();
    std::advance(at, static_cast<long>(random_.below(processes_.size())));
    const int32_t process = at->first;
    if (under_way_.contains(process)) return finish(process);
    if (text_.empty()) {  // the first line is time 0
      now_us_ = 1;
      text_ += prefix(process, 1) + "getpid() = 100\n";
    }
    const auto table = at->second;
    const auto descriptor = static_cast<int32_t>(3 + random_.below(5));
    const auto slot = table->find(descriptor);
    const std::shared_ptr<Open> open = slot == table->end() ? nullptr : slot->second.open;
    const uint64_t choice = random_.below(12);
    if (open == nullptr || choice == 0) return open_file(process, table, descriptor);
    Inode* inode = &inodes_[open->inode];
    const std::string fd = shown(descriptor, open.get());
    switch (choice) {
      case 1:
        return begin(process, fmt::format("close({}", fd), [=](Event& e) {
          table->erase(descriptor);
          e.call = Call::close;
          e.descriptor = descriptor;
          return std::string(") = 0");
        });
      case 2: {
        const auto other = static_cast<int32_t>(3 + random_.below(5));
        if (other == descriptor) return;
        return begin(process, fmt::format("dup2({}, {}", fd, other), [=, this](Event& e) {
          (*table)[other] = {open, false};
          e.call = Call::duplicate;
          e.descriptor = descriptor;
          e.descriptor2 = other;
          return fmt::format(") = {}", shown(other, open.get()));
        });
      }
      case 3: {
        if (processes_.size() > 4) return;
        const int32_t child = next_process_++;
        const bool shares = random_.below(4) == 0;
        return begin(
            process,
            fmt::format("clone(child_stack=NULL, flags={}SIGCHLD", shares ? "CLONE_FILES|" : ""),
            [=, this](Event& e) {
              processes_[child] = shares ? table : std::make_shared<Table>(*table);
              e.call = Call::fork;
              e.child = child;
              if (shares) e.flags = flag::shares_descriptors;
              return fmt::format(") = {}", child);
            });
      }
      case 4: {
        if (random_.below(3) != 0) return;
        return begin(
            process, "execve(\"/bin/x\", [\"x\"], 0x7f /* 1 vars, */", [=, this](Event& e) {
              auto mine = std::make_shared<Table>(*table);
              std::erase_if(*mine, [](const auto& entry) { return entry.second.close_on_exec; });
              processes_[process] = mine;
              e.call = Call::exec;
              return std::string(") = 0");
            });
      }
      case 5: {
        if (processes_.size() == 1 || random_.below(3) != 0) return;
        processes_.erase(at);
        (void)writer_.add({.start_ns = (now_us_ - first_us()) * 1000,
                           .process = process,
                           .thread = process,
                           .call = Call::exit});
        text_ += prefix(process, now_us_) + "+++ exited with 0 +++\n";
        return;
      }
      case 6: {
        const int64_t to = static_cast<int64_t>(random_.below(8000));
        const bool from_end = random_.below(2) == 0;
        const std::string front =
            from_end ? fmt::format("lseek({}, -{}, SEEK_END", fd, std::min<int64_t>(to, 5))
                     : fmt::format("lseek({}, {}, SEEK_SET", fd, to);
        return begin(process, front, [=](Event& e) {
          if (from_end && inode->bytes < 5) {
            e.call = Call::exit;  // marks a failed call, which has no event
            return std::string(") = -1 EINVAL (Invalid argument)");
          }
          open->position = from_end ? inode->bytes - std::min<uint64_t>(to, 5) : to;
          e.call = Call::seek;
          e.descriptor = descriptor;
          e.result = open->position;
          return fmt::format(") = {}", open->position);
        });
      }
      case 7: {
        const uint64_t bytes = random_.below(8000);
        return begin(process, fmt::format("ftruncate({}, {}", fd, bytes), [=](Event& e) {
          inode->bytes = bytes;
          e.call = Call::truncate;
          e.file = inode->id;
          e.result = bytes;
          return std::string(") = 0");
        });
      }
      case 8: {
        const bool marks = random_.below(2) == 0;
        return begin(process, fmt::format("fcntl({}, F_SETFD, {}", fd, marks ? "FD_CLOEXEC" : "0"),
                     [=](Event& e) {
                       if (const auto found = table->find(descriptor); found != table->end()) {
                         found->second.close_on_exec = marks;
                       }
                       e.call = Call::set_flags;
                       e.descriptor = descriptor;
                       e.flags = flag::descriptor_flags | (marks ? flag::close_on_exec : 0);
                       return std::string(") = 0");
                     });
      }
      case 9: {
        // The name is removed, and may come back for another file.
        if (!inode->has_name || random_.below(4) != 0) return;
        return begin(process, fmt::format("unlink(\"{}\"", escaped(inode->path, false)),
                     [=, this, index = open->inode](Event& e) {
                       e.call = Call::exit;
                       if (!inodes_[index].has_name) return std::string(") = -1 ENOENT (No such)");
                       inodes_[index].has_name = false;
                       e.call = Call::unlink;
                       e.file = inodes_[index].id;
                       after_ = [this, path = inodes_[index].path] {
                         inodes_.push_back({.path = path});
                       };
                       return std::string(") = 0");
                     });
      }
      default:
        return transfer(process, descriptor, table, open, fd);
    }
  }

  void open_file(int32_t process, const std::shared_ptr<Table>& table, int32_t descriptor) {
    size_t index = random_.below(inodes_.size());
    if (!inodes_[index].has_name) return;
    const bool append = random_.below(3) == 0, truncates = random_.below(4) == 0;
    const bool close_on_exec = random_.below(2) == 0;
    const std::string path = inodes_[index].path;
    begin(process,
          fmt::format("openat(AT_FDCWD, \"{}\", O_RDWR|O_CREAT{}{}{}, 0666", escaped(path, false),
                      append ? "|O_APPEND" : "", truncates ? "|O_TRUNC" : "",
                      close_on_exec ? "|O_CLOEXEC" : ""),
          [=, this](Event& e) {
            e.call = Call::exit;
            // The name is looked up when the call takes effect.
            size_t found = inodes_.size();
            for (size_t i = 0; i < inodes_.size(); ++i) {
              if (inodes_[i].has_name && inodes_[i].path == path) found = i;
            }
            if (found == inodes_.size()) return std::string(") = -1 ENOENT (No such file)");
            // The kernel returns the smallest free number; the model fails if it is taken.
            if (table->contains(descriptor)) return std::string(") = -1 EMFILE (Too many)");
            Inode& inode = inodes_[found];
            if (truncates) inode.bytes = 0;
            auto open = std::make_shared<Open>(Open{found, 0, append});
            (*table)[descriptor] = {open, close_on_exec};
            if (inode.id == 0) {
              inode.id = writer_.add_file(
                  {.kind = FileKind::regular, .bytes = inode.bytes, .path = inode.path});
            }
            e.call = Call::open;
            e.descriptor = descriptor;
            e.file = inode.id;
            e.result = inode.bytes;
            e.flags = flag::read | flag::write | (append ? flag::append : 0) |
                      (truncates ? flag::truncates : 0) | (close_on_exec ? flag::close_on_exec : 0);
            // strace shows no sizes at an open, so the program calls fstat, with no call in between.
            after_ = [=, this] {
              text_ += prefix(process, ++now_us_) +
                       fmt::format("fstat({}, {{st_mode=S_IFREG|0644, st_size={}, ...}}) = 0\n",
                                   shown(descriptor, open.get()), inodes_[found].bytes);
            };
            return fmt::format(") = {}", shown(descriptor, open.get()));
          });
  }

  void transfer(int32_t process, int32_t descriptor, const std::shared_ptr<Table>& table,
                const std::shared_ptr<Open>& open, const std::string& fd) {
    (void)table;
    const bool writes = random_.below(2) == 0;
    const uint64_t asked = 1 + random_.below(900);
    const uint64_t offset = random_.below(2) == 0 ? random_.below(8000) : no_offset;
    const bool vector = random_.below(4) == 0;
    const std::string name =
        fmt::format("{}{}{}", offset == no_offset ? "" : "p", writes ? "write" : "read",
                    vector                ? "v"
                    : offset == no_offset ? ""
                                          : "64");
    const std::string data =
        vector ? fmt::format("[{{iov_base=\"a,)]}}\\\"\"..., iov_len={}}}], 1", asked)
               : fmt::format("\"\\1(, <\"..., {}", asked);
    begin(process, fmt::format("{}({}, ", name, fd), [=, this](Event& e) {
      Inode& inode = inodes_[open->inode];
      const uint64_t from = writes && open->append ? inode.bytes
                            : offset == no_offset  ? open->position
                                                   : offset;
      uint64_t moved = asked;
      if (!writes) moved = from < inode.bytes ? std::min(asked, inode.bytes - from) : 0;
      if (offset == no_offset) open->position = from + moved;
      if (writes) inode.bytes = std::max(inode.bytes, from + moved);
      e.call = writes ? Call::write : Call::read;
      e.descriptor = descriptor;
      e.offset = offset;
      e.bytes = asked;
      e.result = moved;
      return fmt::format("{}{}) = {}", data, offset == no_offset ? "" : fmt::format(", {}", offset),
                         moved);
    });
  }

  Random random_;
  Style style_;
  TraceWriter writer_;
  std::deque<Inode> inodes_;
  std::map<int32_t, std::shared_ptr<Table>> processes_;
  std::map<int32_t, Call2> under_way_;
  std::function<void()> after_;
  std::string text_;
  uint64_t now_us_ = 1;
  int32_t next_process_ = 101;
};

std::string temporary_name(const char* end) {
  return (std::filesystem::temp_directory_path() /
          ("penstock-import-" + std::to_string(::getpid()) + end))
      .string();
}

// Compares everything but the numbers of files, which are in the order of first sight in both.
void expect_equal(const Converted& log, const Converted& ours) {
  ASSERT_EQ(log.error.message(), ours.error.message());
  ASSERT_EQ(log.requests.size(), ours.requests.size());
  for (size_t i = 0; i < ours.requests.size(); ++i) {
    const Request &a = log.requests[i], &b = ours.requests[i];
    ASSERT_TRUE(a == b) << "request " << i << ": " << a.start_ns << " " << a.latency_ns << " "
                        << a.offset << "+" << a.bytes << " of " << a.file << " by " << a.process
                        << ", not " << b.start_ns << " " << b.latency_ns << " " << b.offset << "+"
                        << b.bytes << " of " << b.file << " by " << b.process;
  }
  ASSERT_EQ(log.conversion.files.size(), ours.conversion.files.size());
  for (size_t i = 0; i < ours.conversion.files.size(); ++i) {
    const ConvertedFile &a = log.conversion.files[i], &b = ours.conversion.files[i];
    EXPECT_EQ(a.first_path, b.first_path);
    EXPECT_EQ(a.first_bytes, b.first_bytes) << i;
    EXPECT_EQ(a.peak_bytes, b.peak_bytes) << i;
    EXPECT_EQ(a.last_bytes, b.last_bytes) << i;
    EXPECT_EQ(a.seeks, b.seeks);
    EXPECT_EQ(a.unlinked, b.unlinked);
  }
}

Converted convert_ours(const std::string& path) {
  Converted converted;
  auto conversion = convert_file(path, {}, [&](std::span<const Request> batch) -> Status {
    converted.requests.insert(converted.requests.end(), batch.begin(), batch.end());
    return {};
  });
  EXPECT_TRUE(conversion) << conversion.error().message();
  if (conversion) converted.conversion = std::move(*conversion);
  return converted;
}

TEST(Strace, EqualsATraceOfTheSameCalls) {
  const std::string path = temporary_name(".trace");
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const Style style{seed % 2 == 0, seed % 3 != 0, seed % 5 != 0};
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoLanguages calls(seed, style, path);
    calls.run(4000);
    const Converted log = convert_log(calls.text());
    const Converted ours = convert_ours(path);
    ASSERT_GT(ours.requests.size(), 100u);
    expect_equal(log, ours);
    if (HasFailure()) break;
  }
  std::filesystem::remove(path);
}

TEST(Iolog, EqualsATraceOfTheSameRequests) {
  const std::string path = temporary_name(".trace");
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    auto writer = TraceWriter::create(path, {.backend = Backend::synthetic});
    ASSERT_TRUE(writer);
    std::string text = "fio version 3 iolog\n";
    std::map<std::string, uint32_t> files;
    uint64_t now_us = 0;
    for (int i = 0; i < 2000; ++i) {
      const std::string name = fmt::format("/d/f {}", random.below(6));
      now_us += random.below(100);
      Event event{.start_ns = now_us * 1000, .process = 1, .thread = 1};
      uint32_t& file = files[name];
      if (file == 0) {
        file = writer->add_file({.kind = FileKind::regular, .path = name});
        event.descriptor = static_cast<int32_t>(file);
        event.file = file;
        event.call = Call::open;
        ASSERT_TRUE(writer->add(event));
        text += fmt::format("{0} {1} add\n{0} {1} open\n", now_us, name);
      }
      event.descriptor = static_cast<int32_t>(file);
      event.file = 0;
      event.offset = random.below(3) == 0 ? 0 : random.next() >> (1 + random.below(60));
      event.bytes = event.result = random.below(1 << 20);
      event.offset = std::min(event.offset, largest_offset - event.bytes);
      event.call = random.below(2) == 0 ? Call::read : Call::write;
      ASSERT_TRUE(writer->add(event));
      text += fmt::format("{} {} {} {} {}\n", now_us, name,
                          event.call == Call::read ? "read" : "write", event.offset, event.bytes);
    }
    ASSERT_TRUE(writer->finish({}));
    expect_equal(convert_log(text), convert_ours(path));
  }
  std::filesystem::remove(path);
}

TEST(Import, LogBecomesAnEqualTrace) {
  const std::string ours = temporary_name(".trace"), copy = temporary_name(".copy");
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    TwoLanguages calls(seed, {true, true, true}, ours);
    calls.run(1000);
    const Converted log = convert_log(calls.text());
    auto trace = trace_of_text(calls.text());
    ASSERT_TRUE(trace);
    const auto written = export_requests(*trace, {}, ExportFormat::trace, copy);
    ASSERT_TRUE(written) << written.error().message();
    expect_equal(convert_ours(copy), log);
    // A log that was cut off becomes a trace that is cut off.
    auto cut = trace_of_text(std::string_view(calls.text()).substr(0, calls.text().size() / 2));
    ASSERT_TRUE(cut);
    const auto half = export_requests(*cut, {}, ExportFormat::trace, copy);
    ASSERT_TRUE(half);
    const Converted read_again = convert_ours(copy);
    EXPECT_EQ(read_again.requests.size(), half->requests);
    EXPECT_EQ(read_again.conversion.complete, half->complete);
  }
  std::filesystem::remove(ours);
  std::filesystem::remove(copy);
}

// A damaged log becomes valid requests, or an error with the number of a line.
TEST(Import, DamagedLogsEndInRequestsOrAnError) {
  const std::string path = temporary_name(".trace");
  TwoLanguages calls(7, {true, false, true}, path);
  calls.run(300);
  std::filesystem::remove(path);
  const std::vector<std::string> logs = {
      calls.text(),
      "fio version 3 iolog\n1 a add\n2 a open\n3 a read 0 10\n4 a write 5 5\n5 a sync 0 0\n"
      "6 b trim 0 5\n7 a close\n",
      "fio version 2 iolog\na add\na open\na read 0 10\na wait 100 0\na close\n"};
  const std::string_view pieces[] = {"\n",
                                     "<",
                                     ">",
                                     "\"",
                                     "(",
                                     ")",
                                     " = ",
                                     "<unfinished ...>",
                                     "<... read resumed>",
                                     "18446744073709551615",
                                     "-1",
                                     "\\",
                                     "[",
                                     "100 ",
                                     " vfork() = 101\n",
                                     "0x",
                                     ",",
                                     "+++ exited with 0 +++"};
  Random random(1);
  uint64_t errors = 0;
  for (int round = 0; round < 3000; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    std::string log = logs[random.below(logs.size())];
    for (uint64_t changes = 1 + random.below(4); changes > 0 && !log.empty(); --changes) {
      const size_t at = random.below(log.size());
      switch (random.below(5)) {
        case 0:
          log[at] = static_cast<char>(random.next());
          break;
        case 1:
          log.erase(at, 1 + random.below(40));
          break;
        case 2:
          log.insert(at, pieces[random.below(std::size(pieces))]);
          break;
        case 3:
          log.insert(at, log.substr(random.below(log.size()), random.below(200)));
          break;
        case 4:
          log.resize(at);
          break;
      }
    }
    for (const LogKind kind : {LogKind::detect, LogKind::strace, LogKind::iolog}) {
      const Converted c = convert_log(log, kind);
      for (const Request& r : c.requests) {
        ASSERT_GT(r.bytes, 0u);
        ASSERT_LE(r.bytes, largest_offset);
        ASSERT_LE(r.offset, largest_offset - r.bytes);
        ASSERT_LE(r.start_ns, uint64_t{1} << 62);
      }
      if (!c.error.attempted.empty()) ++errors;
    }
  }
  EXPECT_GT(errors, 3000u);
}

}  // namespace
}  // namespace penstock::trace
