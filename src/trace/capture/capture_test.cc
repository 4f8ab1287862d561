// Test labels: one-thread

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "base/temporary_folder_fixture.h"
#include "io/engine.h"
#include "io/file.h"
#include "penstock/trace.h"

// Captures of a program with known accesses (target/known_pattern.cc), compared with its own record.

namespace penstock::trace {
namespace {

// A child process that runs `work`. The destructor kills it. Works that are attached to run for
// minutes, because attaching may be slow.
class Child {
 public:
  template <class Work>
  explicit Child(Work&& work) : id_(::fork()) {
    if (id_ == 0) {
      work();
      ::_exit(0);
    }
    EXPECT_GT(id_, 0);
  }
  ~Child() { kill(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  void kill() {
    if (id_ > 0) ::kill(id_, SIGKILL);
    wait();
  }
  // Waits for the end, unless a tracer has waited already.
  void wait() {
    if (id_ > 0) ::waitpid(id_, nullptr, 0);
    id_ = 0;
  }
  bool has_ended() {
    if (id_ > 0 && ::waitpid(id_, nullptr, WNOHANG) == id_) id_ = 0;
    return id_ <= 0;
  }

 private:
  pid_t id_;
};

uint64_t bytes_of(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? uint64_t{0} : size;
}

struct KnownAccess {
  std::string file;
  char access;
  uint64_t offset, bytes;
  bool operator==(const KnownAccess&) const = default;
};
using Accesses = std::vector<KnownAccess>;

void PrintTo(const KnownAccess& a, std::ostream* out) {
  *out << a.file << " " << a.access << " " << a.offset << " " << a.bytes;
}

Accesses expected_of(const TemporaryFolder& folder) {
  Accesses accesses;
  std::ifstream file(folder / "expected");
  KnownAccess a;
  while (file >> a.file >> a.access >> a.offset >> a.bytes) accesses.push_back(a);
  return accesses;
}

struct Traced {
  Captured captured;
  Conversion conversion;
  Accesses accesses;  // accesses to files under the folder, except `expected`
};

Traced trace_of(const TemporaryFolder& folder, const TemporaryFolder& traces,
                CaptureOptions options) {
  options.output = traces / "run.trace";
  const auto captured = capture(options);
  EXPECT_TRUE(captured) << captured.error().message();
  if (!captured) return {};
  Traced traced{.captured = *captured};
  const std::vector<ConvertedFile>* files = nullptr;
  auto conversion = convert_file(
      options.output, {.under = folder.path() + "/"},
      [&](std::span<const Request> batch) -> Status {
        for (const Request& r : batch) {
          const std::string name =
              std::filesystem::path((*files)[r.file].first_path).filename().string();
          if (name == "expected") continue;
          traced.accesses.push_back(
              {name, r.access == Access::read ? 'r' : 'w', r.offset, r.bytes});
        }
        return {};
      },
      &files);
  EXPECT_TRUE(conversion) << conversion.error().message();
  if (conversion) traced.conversion = *conversion;
  return traced;
}

// Splits accesses by the threads' own files: their order is known only within each file.
std::map<std::string, Accesses> by_thread(const Accesses& all) {
  std::map<std::string, Accesses> parts;
  for (const KnownAccess& access : all) {
    parts[access.file.starts_with("thread") ? access.file : ""].push_back(access);
  }
  return parts;
}

void expect_known(const Traced& traced, const TemporaryFolder& folder) {
  const auto wanted = by_thread(expected_of(folder));
  const auto found = by_thread(traced.accesses);
  ASSERT_EQ(wanted.size(), 5u);
  for (const auto& [name, accesses] : wanted) {
    const auto other = found.find(name);
    ASSERT_NE(other, found.end()) << name;
    for (size_t i = 0; i < std::min(accesses.size(), other->second.size()); ++i) {
      ASSERT_EQ(other->second[i], accesses[i]) << name << ", access " << i;
    }
    EXPECT_EQ(other->second.size(), accesses.size()) << name;
  }
}

// Returns why a backend cannot be used here; empty if it can.
std::string why_not(Backend backend) {
  TemporaryFolder folder;
  const auto captured = capture({.output = folder / "t", .backend = backend, .command = {"true"}});
  return captured ? "" : captured.error().message();
}

class EachBackend : public ::testing::TestWithParam<Backend> {
 protected:
  void SetUp() override {
    if (const std::string why = why_not(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};
std::string backend_name(const ::testing::TestParamInfo<Backend>& info) {
  return std::string(name_of(info.param));
}
INSTANTIATE_TEST_SUITE_P(Capture, EachBackend, ::testing::Values(Backend::ptrace, Backend::bpf),
                         backend_name);

#define SKIP_WITHOUT(backend) \
  if (const std::string why = why_not(backend); !why.empty()) GTEST_SKIP() << why

uint64_t unseen(const Traced& traced, Unseen what) {
  return traced.captured.totals.unseen[static_cast<size_t>(what)];
}

TEST_P(EachBackend, SequenceEqualsTheProgramsOwnRecord) {
  TemporaryFolder folder, traces;
  const Traced traced = trace_of(
      folder, traces, {.backend = GetParam(), .command = {PENSTOCK_KNOWN_PATTERN, folder.path()}});
  EXPECT_EQ(traced.captured.totals.exit_code, 17);
  expect_known(traced, folder);
  EXPECT_TRUE(traced.conversion.complete);
  EXPECT_EQ(unseen(traced, Unseen::dropped_events), 0u);
  EXPECT_EQ(unseen(traced, Unseen::unknown_descriptors), 0u);
  EXPECT_EQ(unseen(traced, Unseen::ring_unconfirmed), 0u);
  EXPECT_GE(unseen(traced, Unseen::mapped_files), 1u);
  EXPECT_GE(unseen(traced, Unseen::stream_calls), 4u);
  const auto named = [&](const std::string& name) {
    const auto found = std::ranges::find_if(traced.conversion.files, [&](const ConvertedFile& f) {
      return f.first_path == folder / name;
    });
    EXPECT_NE(found, traced.conversion.files.end()) << name;
    return found == traced.conversion.files.end() ? ConvertedFile{} : *found;
  };
  EXPECT_EQ(named("copy").path, folder / "renamed");
  EXPECT_TRUE(named("copy").unlinked);
  EXPECT_EQ(named("copy").mapped_bytes, 4096u);
  EXPECT_EQ(named("append").peak_bytes, 7010u);
  EXPECT_EQ(named("append").syncs, 2u);
  EXPECT_EQ(named("plain").peak_bytes, 34000u);
}

#if defined(PENSTOCK_KNOWN_PATTERN_STATIC)
TEST_P(EachBackend, StaticProgramIsTracedLikeAnyOther) {
  TemporaryFolder folder, traces;
  const Traced traced =
      trace_of(folder, traces,
               {.backend = GetParam(), .command = {PENSTOCK_KNOWN_PATTERN_STATIC, folder.path()}});
  EXPECT_EQ(traced.captured.totals.exit_code, 17);
  expect_known(traced, folder);
}
#endif

TEST(Capture, OtherCallsDoNotStopUnderPtrace) {
  SKIP_WITHOUT(Backend::ptrace);
  TemporaryFolder traces;
  constexpr long calls = 20000;
  const auto switches = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_nvcsw;  // each stop is a voluntary switch
  };
  const long before = switches();
  const auto captured =
      capture({.output = traces / "t",
               .backend = Backend::ptrace,
               .command = {PENSTOCK_KNOWN_PATTERN, "--unwatched", std::to_string(calls)}});
  ASSERT_TRUE(captured);
  EXPECT_LT(switches() - before, calls / 10);
}

// Returns the output of a script under ptrace.
std::string printed_by(const std::string& script) {
  TemporaryFolder folder;
  const std::string output = folder / "printed";
  const auto captured = capture({.output = folder / "t",
                                 .backend = Backend::ptrace,
                                 .command = {"sh", "-c", "exec > '" + output + "'; " + script}});
  EXPECT_TRUE(captured && captured->totals.exit_code == 0) << script;
  std::ifstream file(output);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(PtraceCapture, ProgramThatIsKeptOnOneProcessorFindsAllOfThem) {
  cpu_set_t before, after;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  const int processors = CPU_COUNT(&before);
  if (processors < 2) GTEST_SKIP() << "one processor is all there is";
  const std::string all = std::to_string(processors) + "\n";

  // /proc shows all of them as well, also after many calls.
  EXPECT_NE(printed_by("dd if=/proc/self/exe of=/dev/null bs=64 2> /dev/null; "
                       "exec grep Cpus_allowed_list /proc/self/status")
                .find_first_of(",-"),
            std::string::npos);
  // The program itself, its children and their children see all of them, and so does a last child.
  EXPECT_EQ(printed_by("exec nproc"), all);
  EXPECT_EQ(printed_by("nproc; (nproc; true) & wait; nproc; exec nproc"), all + all + all + all);
  // Its own choice holds, and passes on to its children; so does its withdrawal.
  std::string first, list;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &before)) continue;
    if (first.empty()) first = std::to_string(i);
    list += (list.empty() ? "" : ",") + std::to_string(i);
  }
  const std::string choose = "taskset -c " + first + " ";
  EXPECT_EQ(printed_by("exec " + choose + "sh -c 'nproc; exec nproc'"), "1\n1\n");
  EXPECT_EQ(printed_by("exec " + choose + "taskset -c " + list + " nproc"), all);
  // The choice of another process holds.
  EXPECT_EQ(printed_by("taskset -cp " + first + " $$ >/dev/null; nproc; exec nproc"), "1\n1\n");

  // One of several threads, the threads that it makes, and a thread that looks at another.
  TemporaryFolder folder;
  const auto captured =
      capture({.output = folder / "t",
               .backend = Backend::ptrace,
               .command = {PENSTOCK_KNOWN_PATTERN, "--processors", std::to_string(processors)}});
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->totals.exit_code, 0);

  ASSERT_EQ(::sched_getaffinity(0, sizeof after, &after), 0);
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST_P(EachBackend, ExitCodesAndSignalsPassThrough) {
  TemporaryFolder traces;
  const auto code_of = [&](const std::string& script) {
    const auto captured =
        capture({.output = traces / "t", .backend = GetParam(), .command = {"sh", "-c", script}});
    return captured ? captured->totals.exit_code : -1;
  };
  EXPECT_EQ(code_of("exit 3"), 3);
  EXPECT_EQ(code_of("kill -TERM $$"), 128 + SIGTERM);
  // A signal that the program handles reaches it; a stopped program goes on after SIGCONT.
  EXPECT_EQ(code_of("trap 'exit 5' USR1; kill -USR1 $$; exit 6"), 5);
  const std::string went_on = "'" + (traces / "went on") + "'";
  EXPECT_EQ(code_of("(until [ -e " + went_on +
                    " ]; do sleep 0.2; kill -CONT $$; done) & "
                    "kill -STOP $$; : > " +
                    went_on + "; exit 7"),
            7);
}

TEST_P(EachBackend, MissingProgramIsAnError) {
  TemporaryFolder traces;
  const auto captured = capture(
      {.output = traces / "t", .backend = GetParam(), .command = {"/nonexistent/program", "x"}});
  ASSERT_FALSE(captured);
  EXPECT_EQ(captured.error().code, ErrorCode::not_found);
  EXPECT_NE(captured.error().message().find("/nonexistent/program"), std::string::npos);
}

TEST_P(EachBackend, InheritedStandardInputIsKnownWithItsPosition) {
  TemporaryFolder folder, traces;
  std::ofstream(folder / "input") << std::string(5000, 'x');
  const std::string script =
      "exec 3<'" + (folder / "input") + "'; head -c 1000 <&3 >/dev/null; exec cat <&3 >/dev/null";
  const auto traced =
      trace_of(folder, traces, {.backend = GetParam(), .command = {"bash", "-c", script}});
  ASSERT_FALSE(traced.accesses.empty());
  uint64_t end = 0;
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access.offset, end);
    end = access.offset + access.bytes;
  }
  EXPECT_EQ(end, 5000u);
}

TEST_P(EachBackend, AttachedProcessIsFollowedUntilTheStopAndRunsOn) {
  TemporaryFolder folder, traces;
  const std::string path = folder / "grown";
  Child child([&] {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 60'000 && ::write(fd, "0123456789", 10) == 10; ++i) ::usleep(5000);
  });
  while (bytes_of(path) < 100) ::usleep(1000);
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    while (!std::filesystem::exists(traces / "run.trace")) ::usleep(1000);
    const uint64_t before = bytes_of(path);
    while (bytes_of(path) < before + 300) ::usleep(1000);
    stop = true;
  });
  const Traced traced =
      trace_of(folder, traces, {.backend = GetParam(), .attach = child.id(), .stop = &stop});
  stopper.join();
  // Accesses are contiguous from the position at which the capture attached.
  ASSERT_GT(traced.accesses.size(), 10u);
  uint64_t end = traced.accesses.front().offset;
  EXPECT_GT(end, 0u);
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access.offset, end);
    EXPECT_EQ(access.bytes, 10u);
    end += 10;
  }
  const uint64_t size = bytes_of(path);
  for (int i = 0; i < 60'000 && bytes_of(path) < size + 100; ++i) ::usleep(1000);
  EXPECT_GE(bytes_of(path), size + 100) << "it does not run on";
}

TEST_P(EachBackend, ChildrenOfAnAttachedProcessAreFollowedToTheirEnd) {
  TemporaryFolder folder, traces;
  const std::string path = folder / "grown";
  Child child([&] {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    // The child works until `go` exists, which the test makes when the trace has begun.
    for (int i = 0; i < 300'000 && !std::filesystem::exists(traces / "go"); ++i) {
      (void)!::write(fd, "0123456789", 10);
      ::usleep(1000);
    }
    if (::fork() == 0) {
      ::usleep(100'000);  // its parent has ended by then
      const int own = ::open((folder / "late").c_str(), O_RDWR | O_CREAT, 0600);
      for (int i = 0; i < 20; ++i) {
        (void)!::write(own, "0123456789", 10);
        ::usleep(5000);
      }
    }
  });
  while (bytes_of(path) < 100) ::usleep(1000);
  std::atomic<bool> stop{false};
  std::thread starter([&] {
    while (!std::filesystem::exists(traces / "run.trace")) ::usleep(1000);
    const uint64_t before = bytes_of(path);
    while (bytes_of(path) < before + 300) ::usleep(1000);
    std::ofstream(traces / "go") << "";
  });
  const Traced traced =
      trace_of(folder, traces, {.backend = GetParam(), .attach = child.id(), .stop = &stop});
  starter.join();
  child.wait();
  EXPECT_EQ(std::ranges::count(traced.accesses, std::string("late"), &KnownAccess::file), 20);
}

Accesses of_file(const Traced& traced, const std::string& name) {
  Accesses accesses;
  for (const KnownAccess& access : traced.accesses) {
    if (access.file == name) accesses.push_back(access);
  }
  return accesses;
}

TEST_P(EachBackend, ThreadsAreSeenAfterTheEndOfTheFirstOne) {
  TemporaryFolder folder, traces;
  const Traced traced = trace_of(
      folder, traces,
      {.backend = GetParam(), .command = {PENSTOCK_ODD_PROCESSES, "no-leader", folder.path()}});
  EXPECT_EQ(traced.captured.totals.exit_code, 0);
  Accesses wanted = {{"from", 'w', 0, 65536}, {"from", 'r', 4096, 1000}};
  // The program reads by an io_uring if it can open one. (It can be watched on Linux 6.9 and later.)
  if (std::filesystem::exists(folder / "by-ring") && unseen(traced, Unseen::polled_rings) == 0) {
    wanted.push_back({"from", 'r', 8192, 2000});
  }
  EXPECT_EQ(of_file(traced, "from"), wanted);
  EXPECT_EQ(std::ranges::count_if(
                traced.conversion.files,
                [&](const ConvertedFile& file) { return file.path == folder / "renamed"; }),
            1);
}

TEST_P(EachBackend, ProcessHasTheFilesOfItsParent) {
  TemporaryFolder folder, traces;
  const Traced traced = trace_of(
      folder, traces,
      {.backend = GetParam(), .command = {PENSTOCK_ODD_PROCESSES, "sibling", folder.path()}});
  EXPECT_EQ(traced.captured.totals.exit_code, 0);
  EXPECT_EQ(of_file(traced, "first"), (Accesses{{"first", 'w', 0, 4096}}));
  EXPECT_EQ(of_file(traced, "second"),
            (Accesses{{"second", 'w', 0, 4096}, {"second", 'r', 1000, 500}}));
}

// The capture runs in a child process, which can be killed if it waits for ever.
TEST_P(EachBackend, FileSystemThatATracedProcessServesIsNotWaitedFor) {
  TemporaryFolder folder, traces;
  const std::string output = traces / "run.trace";
  const pid_t tracer = ::fork();
  if (tracer == 0) {
    const auto captured = capture({.output = output,
                                   .backend = GetParam(),
                                   .command = {PENSTOCK_ODD_PROCESSES, "fuse", folder.path()}});
    ::_exit(captured ? captured->totals.exit_code : 98);
  }
  int status = -1;
  pid_t ended = 0;
  for (int i = 0; i < 60'000 && ended == 0; ++i) {
    ::usleep(1000);
    ended = ::waitpid(tracer, &status, WNOHANG);
  }
  if (ended == 0) {
    ::kill(tracer, SIGKILL);
    ::waitpid(tracer, &status, 0);
    FAIL() << "the tracer waits for the file system that waits for the tracer";
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 18) {
    GTEST_SKIP() << "no file system in user space can be mounted here";
  }
  ASSERT_EQ(status, 0);
  Accesses accesses;
  const auto conversion = convert_file(
      output, {.under = folder / "mounted/"}, [&](std::span<const Request> batch) -> Status {
        for (const Request& r : batch) {
          accesses.push_back({"", r.access == Access::read ? 'r' : 'w', r.offset, r.bytes});
        }
        return {};
      });
  ASSERT_TRUE(conversion) << conversion.error().message();
  EXPECT_EQ(accesses, (Accesses{{"", 'w', 0, 1000}, {"", 'w', 2000, 300}}));
  const auto file =
      std::ranges::find(conversion->files, folder / "mounted/new", &ConvertedFile::first_path);
  ASSERT_NE(file, conversion->files.end());
  EXPECT_EQ(file->path, folder / "mounted/renamed");
  EXPECT_EQ(file->peak_bytes, 8192u);
  EXPECT_TRUE(file->unlinked);
  EXPECT_EQ(conversion->unseen[static_cast<size_t>(Unseen::unknown_names)], 0u);
}

TEST_P(EachBackend, NewTraceBesideAnOldOneTakesAFreeName) {
  TemporaryFolder folder;
  for (const char* name : {"run.trace", "run.trace.starting"}) {
    std::ofstream(folder / name) << "mine";
  }
  EXPECT_TRUE(
      capture({.output = folder / "run.trace", .backend = GetParam(), .command = {"true"}}));
  std::string text;
  std::getline(std::ifstream(folder / "run.trace.starting"), text);
  EXPECT_EQ(text, "mine");
  EXPECT_TRUE(convert_file(folder / "run.trace", {}, {}));
}

TEST_P(EachBackend, ManyChildrenAndThreadsComeToTheirEnd) {
  TemporaryFolder folder, traces;
  const std::string script = "cd '" + folder.path() +
                             "'; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
                             "( echo $i > f$i; cat f$i f$i | wc -c >> all ) & done; wait; "
                             "exit $(wc -l < all)";
  const auto traced =
      trace_of(folder, traces, {.backend = GetParam(), .command = {"bash", "-c", script}});
  EXPECT_EQ(traced.captured.totals.exit_code, 12);
  // Twelve processes append at once: together their accesses leave no hole. (Only the kernel knows
  // their order.)
  std::vector<std::pair<uint64_t, uint64_t>> written;
  for (const KnownAccess& access : traced.accesses) {
    if (access.file == "all" && access.access == 'w') {
      written.emplace_back(access.offset, access.bytes);
    }
  }
  std::ranges::sort(written);
  uint64_t end = 0;
  for (const auto& [offset, bytes] : written) {
    EXPECT_EQ(offset, end);
    end = offset + bytes;
  }
  EXPECT_EQ(written.size(), 12u);
}

TEST_P(EachBackend, OldTraceStaysIfTheProgramCannotRun) {
  TemporaryFolder folder;
  std::ofstream(folder / "run.trace") << "yesterday";
  const auto traced = [&](const std::string& output, const std::string& program) {
    return capture({.output = folder / output, .backend = GetParam(), .command = {program}})
        .has_value();
  };
  EXPECT_FALSE(traced("run.trace", "nonesuch-at-all"));
  std::string text;
  std::getline(std::ifstream(folder / "run.trace"), text);
  EXPECT_EQ(text, "yesterday");
  EXPECT_FALSE(traced("new.trace", "nonesuch-at-all"));
  EXPECT_TRUE(traced("run.trace", "true"));
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_EQ(names, std::vector<std::string>{"run.trace"});
  EXPECT_TRUE(convert_file(folder / "run.trace", {}, {}));
}

// Returns accesses with files numbered by their first access: temporary files have random names.
std::vector<std::tuple<size_t, char, uint64_t, uint64_t>> without_names(const Accesses& all) {
  std::vector<std::tuple<size_t, char, uint64_t, uint64_t>> accesses;
  std::map<std::string, size_t> numbers;
  for (const KnownAccess& a : all) {
    const size_t number = numbers.try_emplace(a.file, numbers.size()).first->second;
    accesses.emplace_back(number, a.access, a.offset, a.bytes);
  }
  return accesses;
}

TEST_P(EachBackend, SeesTheSameOfGnuSortAsPtrace) {
  SKIP_WITHOUT(Backend::ptrace);
  TemporaryFolder folder, traces;
  {
    std::ofstream lines(folder / "in");
    for (uint64_t i = 0; i < 40000; ++i)
      lines << (i * 7919) % 100003 << std::string(60, 'x') << "\n";
  }
  const auto of = [&](Backend backend) {
    return without_names(
        trace_of(folder, traces,
                 {.backend = backend,
                  .command = {"env", "LC_ALL=C", "sort", "--parallel=1", "-S", "500K", "-T",
                              folder.path(), "-o", folder / "out", folder / "in"}})
            .accesses);
  };
  const auto by_ptrace = of(Backend::ptrace);
  const auto by_other = of(GetParam());
  EXPECT_GT(by_ptrace.size(), 500u);
  ASSERT_EQ(by_ptrace.size(), by_other.size());
  for (size_t i = 0; i < by_ptrace.size(); ++i) ASSERT_EQ(by_ptrace[i], by_other[i]) << i;
}

// Traces a shell script.
Traced trace_of_script(const TemporaryFolder& folder, Backend backend, const std::string& script) {
  TemporaryFolder traces;
  return trace_of(
      folder, traces,
      {.backend = backend, .command = {"sh", "-c", "cd '" + folder.path() + "'; " + script}});
}

TEST_P(EachBackend, PositionsStaySharedOverForksAndPrograms) {
  TemporaryFolder folder;
  // Each program inherits the descriptor; the shell itself writes the last word.
  const Traced traced =
      trace_of_script(folder, GetParam(),
                      "exec 5> out; printf 12 >&5; /bin/echo 345 >&5; (/bin/echo 6 >&5); "
                      "env -i /bin/echo 78 >&5; printf 9 >&5");
  EXPECT_EQ(traced.accesses, (Accesses{{"out", 'w', 0, 2},
                                       {"out", 'w', 2, 4},
                                       {"out", 'w', 6, 2},
                                       {"out", 'w', 8, 3},
                                       {"out", 'w', 11, 1}}));
}

TEST_P(EachBackend, KilledProgramLeavesItsAccesses) {
  TemporaryFolder folder;
  const Traced traced = trace_of_script(
      folder, GetParam(), "echo one > a; echo two > b; kill -KILL $$; echo three > c");
  EXPECT_EQ(traced.captured.totals.exit_code, 128 + SIGKILL);
  EXPECT_EQ(traced.accesses, (Accesses{{"a", 'w', 0, 4}, {"b", 'w', 0, 4}}));
  EXPECT_TRUE(traced.conversion.complete);
}

// The program closes its end of the pipe when it ends, and the daemon goes on.
TEST_P(EachBackend, DaemonIsFollowedToItsEnd) {
  TemporaryFolder folder;
  const Traced traced = trace_of_script(folder, GetParam(),
                                        "mkfifo gate; (read nothing < gate; echo late > late) > "
                                        "/dev/null 2>&1 & exec 7> gate; exit 3");
  EXPECT_EQ(traced.captured.totals.exit_code, 3);
  EXPECT_EQ(traced.accesses, (Accesses{{"late", 'w', 0, 5}}));
}

// Processes of a container have other numbers inside: the first one is 1.
TEST(Capture, ContainerWithNumbersOfItsOwnIsFollowedToItsEnd) {
  SKIP_WITHOUT(Backend::ptrace);
  if (std::system("unshare -pf true 2> /dev/null") != 0)
    GTEST_SKIP() << "unshare cannot be used here";
  TemporaryFolder folder;
  const Traced traced = trace_of_script(
      folder, Backend::ptrace, "unshare -pf sh -c '/bin/echo one > a; exit 4' || echo $? > b");
  EXPECT_EQ(traced.accesses, (Accesses{{"a", 'w', 0, 4}, {"b", 'w', 0, 2}}));
}

TEST(Capture, ClosedRingsDoNotStayWithThePtracer) {
  SKIP_WITHOUT(Backend::ptrace);
  TemporaryFolder traces;
  std::atomic<bool> over{false};
  size_t mapped_most = 0;
  std::thread watcher([&] {
    while (!over) {
      size_t mapped = 0;
      std::ifstream maps("/proc/self/maps");
      for (std::string line; std::getline(maps, line);) mapped += line.ends_with("[io_uring]");
      mapped_most = std::max(mapped_most, mapped);
    }
  });
  const auto captured = capture({.output = traces / "t",
                                 .backend = Backend::ptrace,
                                 .command = {PENSTOCK_KNOWN_PATTERN, "--rings", "1000"}});
  over = true;
  watcher.join();
  ASSERT_TRUE(captured) << captured.error().message();
  if (captured->totals.exit_code == 18) GTEST_SKIP() << "no io_uring here";
  EXPECT_LE(mapped_most, 30u);
}

TEST(BpfCapture, LostRecordsAreCountedAndLaterPositionsAreRight) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder, traces;
  constexpr uint64_t reads = 20000, read_bytes = 512;
  std::ofstream(folder / "in") << std::string(reads * read_bytes, 'x');
  const Traced traced = trace_of(folder, traces,
                                 {.backend = Backend::bpf,
                                  .command = {"dd", "if=" + (folder / "in"), "of=/dev/null",
                                              "bs=" + std::to_string(read_bytes), "status=none"},
                                  .ring_bytes = 4096});
  EXPECT_EQ(traced.captured.totals.exit_code, 0);
  const uint64_t lost = unseen(traced, Unseen::dropped_events);
  EXPECT_GT(lost, 0u);
  EXPECT_GE(traced.accesses.size() + lost, reads);
  EXPECT_FALSE(traced.conversion.caveats().empty());
  uint64_t end = 0, gaps = 0;
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access.bytes, read_bytes);
    EXPECT_EQ(access.offset % read_bytes, 0u);
    EXPECT_GE(access.offset, end);
    gaps += access.offset != end;
    end = access.offset + access.bytes;
  }
  EXPECT_GT(gaps, 0u);
  EXPECT_LE(end, reads * read_bytes);
}

TEST(BpfCapture, PolledRingsAndRegisteredFilesAreSeen) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder, traces;
  const Traced traced = trace_of(
      folder, traces,
      {.backend = Backend::bpf, .command = {PENSTOCK_KNOWN_PATTERN, folder.path(), "--polled"}});
  if (traced.captured.totals.exit_code == 18) GTEST_SKIP() << "no io_uring of this kind here";
  EXPECT_EQ(traced.captured.totals.exit_code, 17);
  EXPECT_EQ(traced.accesses, expected_of(folder));
  EXPECT_EQ(unseen(traced, Unseen::polled_rings), 0u);
  EXPECT_EQ(unseen(traced, Unseen::ring_unconfirmed), 0u);
}

TEST(BpfCapture, RingsOlderThanTheTraceAreSeen) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder, traces;
  const std::string path = folder / "ring";
  Child child([&] {
    auto engine = io::Engine::open({.depth = 1, .kind = io::EngineKind::io_uring});
    auto data = io::File::open_kept(path, io::Caching::buffered);
    if (!engine || !data) ::_exit(18);
    std::array<std::byte, 512> buffer{};
    for (uint64_t i = 0; i < 100'000; ++i) {
      io::Request request{.operation = io::Operation::write,
                          .file = &*data,
                          .offset = i * buffer.size(),
                          .data = buffer.data(),
                          .bytes = buffer.size()};
      (*engine)->submit(request);
      if ((*engine)->wait_any() != &request || request.error != 0) ::_exit(18);
      ::usleep(2000);
    }
  });
  while (bytes_of(path) < 5120) {
    if (child.has_ended()) GTEST_SKIP() << "no io_uring here";
    ::usleep(1000);
  }
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    while (!std::filesystem::exists(traces / "run.trace")) ::usleep(1000);
    const uint64_t before = bytes_of(path);
    while (bytes_of(path) < before + 30 * 512) ::usleep(1000);
    stop = true;
  });
  const Traced traced =
      trace_of(folder, traces, {.backend = Backend::bpf, .attach = child.id(), .stop = &stop});
  stopper.join();
  child.kill();
  ASSERT_GT(traced.accesses.size(), 10u);
  uint64_t end = traced.accesses.front().offset;
  EXPECT_GE(end, 5120u - 512);
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access, (KnownAccess{"ring", 'w', end, 512}));
    end += 512;
  }
}

// The system reuses the number of a process that has ended.
TEST(BpfCapture, ProcessThatGetsTheNumberOfAnAttachedOneIsNotTraced) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder, traces;
  const auto has = [&](const char* name) { return std::filesystem::exists(folder / name); };
  const auto wait_until_there = [&](const char* name) {
    for (int i = 0; i < 60'000 && !has(name); ++i) ::usleep(1000);
  };
  const auto write_file = [](const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    (void)!::write(fd, "0123456789", 10);
    ::close(fd);
  };
  const std::string first = folder / "first", second = folder / "second";
  Child attached([&] {
    wait_until_there("go");
    write_file(first);
    // This child keeps the capture going after the end of its parent.
    if (::fork() == 0) wait_until_there("end");
  });
  const pid_t number = attached.id();
  std::atomic<bool> stop{false};
  bool numbered = false;
  std::thread others([&] {
    while (!std::filesystem::exists(traces / "run.trace")) ::usleep(1000);
    std::ofstream(folder / "go") << "";
    attached.wait();
    pid_t wanted = number;
    clone_args arguments = {};
    arguments.exit_signal = SIGCHLD;
    arguments.set_tid = reinterpret_cast<uint64_t>(&wanted);
    arguments.set_tid_size = 1;
    const auto made = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
    if (made == 0) {
      write_file(second);
      ::_exit(0);
    }
    numbered = made == number;
    if (made > 0) ::waitpid(made, nullptr, 0);
    std::ofstream(folder / "end") << "";
  });
  const Traced traced =
      trace_of(folder, traces, {.backend = Backend::bpf, .attach = number, .stop = &stop});
  others.join();
  if (!numbered) GTEST_SKIP() << "the number of a process cannot be chosen here";
  EXPECT_EQ(of_file(traced, "first"), (Accesses{{"first", 'w', 0, 10}}));
  EXPECT_EQ(of_file(traced, "second"), Accesses{});
}

// Returns the files that are seen on a file system where number and generation of an inode do not
// identify a file. `script` mounts it on "m" in a namespace of its own.
std::vector<std::string> files_of_mounted(const TemporaryFolder& folder,
                                          const std::string& script) {
  TemporaryFolder traces;
  const Traced traced = trace_of(
      folder, traces,
      {.backend = Backend::bpf,
       .command = {"unshare", "-m", "sh", "-ec", "cd '" + folder.path() + "'; mkdir m;" + script}});
  if (traced.captured.totals.exit_code != 0) return {};
  std::vector<std::string> names;
  for (const ConvertedFile& file : traced.conversion.files) {
    if (file.first_path.starts_with(folder / "m/")) {
      names.push_back(std::filesystem::path(file.first_path).filename());
    }
  }
  std::ranges::sort(names);
  return names;
}

TEST(BpfCapture, FilesOfAnOverlayAreToldApart) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder;
  for (const char* name : {"lower", "other", "upper", "work"}) {
    std::filesystem::create_directory(folder / name);
  }
  std::ofstream(folder / "lower/low") << "low\n";
  std::ofstream(folder / "other/lower") << "lower\n";
  // The next file gets the number of a removed one.
  const auto names = files_of_mounted(
      folder,
      "mount -t overlay overlay -o lowerdir=lower:other,upperdir=upper,workdir=work m;"
      "cat m/low m/lower; cat m/low;"
      "for i in 1 2 3; do echo $i > m/a$i; cat m/a$i; rm m/a$i; done");
  if (names.empty()) GTEST_SKIP() << "no overlay can be mounted here";
  EXPECT_EQ(names, (std::vector<std::string>{"a1", "a2", "a3", "low", "lower"}));
}

TEST(BpfCapture, FilesOfSubvolumesAreToldApart) {
  SKIP_WITHOUT(Backend::bpf);
  TemporaryFolder folder;
  const auto names =
      files_of_mounted(folder,
                       "truncate -s 128M disk; mkfs.btrfs -q disk; mount -o loop disk m;"
                       "for i in 1 2 3; do btrfs -q subvolume create m/v$i; done;"
                       "for i in 1 2 3; do echo $i > m/v$i/a$i; cat m/v$i/a$i; done");
  if (names.empty()) GTEST_SKIP() << "no btrfs can be mounted here";
  EXPECT_EQ(names, (std::vector<std::string>{"a1", "a2", "a3"}));
}

TEST(Capture, AutomaticBackendIsReportedWithItsReason) {
  TemporaryFolder folder;
  const auto captured = capture({.output = folder / "t", .command = {"true"}});
  if (!captured) GTEST_SKIP() << captured.error().message();
  EXPECT_EQ(captured->backend == Backend::bpf, captured->reason.empty());
  EXPECT_EQ(captured->backend, why_not(Backend::bpf).empty() ? Backend::bpf : Backend::ptrace);
}

}  // namespace
}  // namespace penstock::trace
