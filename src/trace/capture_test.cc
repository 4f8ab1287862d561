#include "trace/capture.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "trace/convert.h"

// Captures of a program whose accesses are known (target/known_pattern.cc), compared with what it
// says about itself.

namespace penstock::trace {
namespace {

class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "penstock-trace-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

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

Accesses expected_of(const Folder& folder) {
  Accesses accesses;
  std::ifstream file(folder / "expected");
  KnownAccess a;
  while (file >> a.file >> a.access >> a.offset >> a.bytes) accesses.push_back(a);
  return accesses;
}

struct Traced {
  Captured captured;
  Conversion conversion;
  Accesses accesses;  // under the folder, but for `expected` itself
};

Traced trace_of(const Folder& folder, const Folder& traces, CaptureOptions options) {
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

// Accesses of the threads' own files, apart from the others: only within each file is their order
// known.
std::map<std::string, Accesses> by_thread(const Accesses& all) {
  std::map<std::string, Accesses> parts;
  for (const KnownAccess& access : all) {
    parts[access.file.starts_with("thread") ? access.file : ""].push_back(access);
  }
  return parts;
}

void expect_known(const Traced& traced, const Folder& folder) {
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

bool has_ptrace() {
  Folder folder;
  const auto captured = capture({.output = folder / "t", .command = {"true"}});
  return captured || captured.error().message().find("under ptrace") == std::string::npos;
}
#define SKIP_WITHOUT_PTRACE() \
  if (!has_ptrace()) GTEST_SKIP() << "ptrace is not allowed here"

uint64_t unseen(const Traced& traced, Unseen what) {
  return traced.captured.totals.unseen[static_cast<size_t>(what)];
}

TEST(PtraceCapture, SequenceIsTheOneThatTheProgramKnows) {
  SKIP_WITHOUT_PTRACE();
  Folder folder, traces;
  const Traced traced =
      trace_of(folder, traces, {.command = {PENSTOCK_KNOWN_PATTERN, folder.path()}});
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
TEST(PtraceCapture, StaticProgramIsTracedLikeAnyOther) {
  SKIP_WITHOUT_PTRACE();
  Folder folder, traces;
  const Traced traced =
      trace_of(folder, traces, {.command = {PENSTOCK_KNOWN_PATTERN_STATIC, folder.path()}});
  EXPECT_EQ(traced.captured.totals.exit_code, 17);
  expect_known(traced, folder);
}
#endif

TEST(PtraceCapture, OtherCallsDoNotStop) {
  SKIP_WITHOUT_PTRACE();
  Folder traces;
  constexpr long calls = 20000;
  const auto switches = [] {
    rusage usage = {};
    ::getrusage(RUSAGE_CHILDREN, &usage);
    return usage.ru_nvcsw;  // a stop is one
  };
  const long before = switches();
  const auto captured =
      capture({.output = traces / "t",
               .command = {PENSTOCK_KNOWN_PATTERN, "--unwatched", std::to_string(calls)}});
  ASSERT_TRUE(captured);
  EXPECT_LT(switches() - before, calls / 10);
}

TEST(PtraceCapture, ExitCodesAndSignalsAreHandedThrough) {
  SKIP_WITHOUT_PTRACE();
  Folder traces;
  const auto code_of = [&](const std::string& script) {
    const auto captured = capture({.output = traces / "t", .command = {"sh", "-c", script}});
    return captured ? captured->totals.exit_code : -1;
  };
  EXPECT_EQ(code_of("exit 3"), 3);
  EXPECT_EQ(code_of("kill -TERM $$"), 128 + SIGTERM);
  // A signal that the program handles reaches it; a stopped program goes on when told to.
  EXPECT_EQ(code_of("trap 'exit 5' USR1; kill -USR1 $$; exit 6"), 5);
  EXPECT_EQ(code_of("(sleep 0.2; kill -CONT $$) & kill -STOP $$; wait; exit 7"), 7);
}

TEST(PtraceCapture, ProgramThatIsNotThereIsAnError) {
  SKIP_WITHOUT_PTRACE();
  Folder traces;
  const auto captured = capture({.output = traces / "t", .command = {"/nonexistent/program", "x"}});
  ASSERT_FALSE(captured);
  EXPECT_EQ(captured.error().code, ErrorCode::not_found);
  EXPECT_NE(captured.error().message().find("/nonexistent/program"), std::string::npos);
}

TEST(PtraceCapture, InheritedStandardInputIsKnownWithItsPosition) {
  SKIP_WITHOUT_PTRACE();
  Folder folder, traces;
  std::ofstream(folder / "input") << std::string(5000, 'x');
  const std::string script =
      "exec 3<'" + (folder / "input") + "'; head -c 1000 <&3 >/dev/null; exec cat <&3 >/dev/null";
  const auto traced = trace_of(folder, traces, {.command = {"bash", "-c", script}});
  ASSERT_FALSE(traced.accesses.empty());
  uint64_t end = 0;
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access.offset, end);
    end = access.offset + access.bytes;
  }
  EXPECT_EQ(end, 5000u);
}

TEST(PtraceCapture, AttachedProcessIsFollowedUntilAskedToStopAndRunsOn) {
  SKIP_WITHOUT_PTRACE();
  Folder folder, traces;
  const std::string path = folder / "grown";
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
    for (int i = 0; i < 1000 && ::write(fd, "0123456789", 10) == 10; ++i) ::usleep(5000);
    ::_exit(0);
  }
  while (!std::filesystem::exists(path) || std::filesystem::file_size(path) < 100) ::usleep(1000);
  std::atomic<bool> stop{false};
  std::thread stopper([&] {
    const auto before = std::filesystem::file_size(path);
    while (std::filesystem::file_size(path) < before + 300) ::usleep(1000);
    stop = true;
  });
  const Traced traced = trace_of(folder, traces, {.attach = child, .stop = &stop});
  stopper.join();
  // Contiguous from where it stood when we came.
  ASSERT_GT(traced.accesses.size(), 10u);
  uint64_t end = traced.accesses.front().offset;
  EXPECT_GT(end, 0u);
  for (const KnownAccess& access : traced.accesses) {
    EXPECT_EQ(access.offset, end);
    EXPECT_EQ(access.bytes, 10u);
    end += 10;
  }
  const auto size = std::filesystem::file_size(path);
  for (int i = 0; i < 2000 && std::filesystem::file_size(path) < size + 100; ++i) ::usleep(1000);
  EXPECT_GE(std::filesystem::file_size(path), size + 100) << "it does not run on";
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(PtraceCapture, ManyChildrenAndThreadsComeToTheirEnd) {
  SKIP_WITHOUT_PTRACE();
  Folder folder, traces;
  const std::string script = "cd '" + folder.path() +
                             "'; for i in 1 2 3 4 5 6 7 8 9 10 11 12; do "
                             "( echo $i > f$i; cat f$i f$i | wc -c >> all ) & done; wait; "
                             "exit $(wc -l < all)";
  const auto traced = trace_of(folder, traces, {.command = {"bash", "-c", script}});
  EXPECT_EQ(traced.captured.totals.exit_code, 12);
  // Appended by twelve processes at once: together without a hole. (Which came first is known to
  // the kernel alone.)
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

}  // namespace
}  // namespace penstock::trace
