// Passes a file through the library's memory, for the campaign of faults.
//
//   torture_streams KIND INPUT OUTPUT
//
//   threads, guard   two threads, a RemapStream or a GuardStream between them
//   processes        two processes, a ProcessStream between them
//   snapshots        two threads that store to a table, processes that read its snapshots meanwhile
//
// Files are read and written through pointers, too. The output of a stream is the input, each
// byte changed on both sides; for that of a table see Table. Memory: 16 MiB for all
// processes together, with a table 64. Exit code: 0; 2 with a message; 3 for a snapshot of a state that the table never had.

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "os/standard_streams.h"
#include "penstock/file_stream.h"
#include "penstock/rewire.h"
#include "penstock/stream.h"
#include "test/support/environment.h"

namespace {

using penstock::ErrorCode;
using penstock::ErrorPolicy;
using penstock::FileReader;
using penstock::FileWriter;
using penstock::GuardStream;
using penstock::KiB;
using penstock::MiB;
using penstock::PagePool;
using penstock::ProcessStream;
using penstock::RecoveryPoint;
using penstock::RemapStream;
using penstock::RewiredTable;
using penstock::Side;
using penstock::Snapshot;
using penstock::Status;

constexpr size_t block_bytes = 256 * KiB;
constexpr int failed = 2, torn = 3;

int report(const std::string& message, int code = failed) {
  std::fprintf(stderr, "penstock: %s\n", message.c_str());
  return code;
}

penstock::Result<FileReader> open_input(const std::string& path) {
  return FileReader::open(path, {.block_bytes = block_bytes, .policy = ErrorPolicy::recover});
}
penstock::Result<FileWriter> open_output(const std::string& path, uint64_t bytes_max) {
  return FileWriter::open(
      path, {.bytes_max = bytes_max, .block_bytes = block_bytes, .policy = ErrorPolicy::recover});
}

// Turns an exception, in a process or a thread, into an error.
auto guarded(auto&& work, auto&& result_of) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return result_of(error.what());
  }
}
constexpr auto told = [](const char* what) { return report(what); };

// A child process, which is always waited for.
class Child {
 public:
  explicit Child(auto&& work) : pid_(::fork()) {
    if (pid_ == 0) ::_exit(guarded(work, told));
    if (pid_ < 0) throw std::system_error(errno, std::generic_category(), "cannot start a process");
  }
  ~Child() { wait(); }
  Child(Child&&) = delete;

  pid_t pid() const { return pid_; }
  // Waits for the child, and returns its exit code.
  int wait() {
    int status = 0;
    while (pid_ > 0 && ::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
    }
    if (std::exchange(pid_, 0) == 0) return code_;
    code_ = WIFSIGNALED(status)
                ? report("a process was ended by signal " + std::to_string(WTERMSIG(status)))
                : WEXITSTATUS(status);
    return code_;
  }

 private:
  pid_t pid_;
  int code_ = 0;
};

// ---- streams

Status produce(auto& stream, const std::string& input) {
  const auto file = open_input(input);
  if (!file) return std::unexpected(file.error());
  const Status stored = RecoveryPoint::run([&] {
    std::transform(file->begin<uint8_t>(), file->end<uint8_t>(), stream.template writer<uint8_t>(),
                   [](uint8_t byte) { return static_cast<uint8_t>(byte ^ 0x5a); });
  });
  return stored ? stream.finish(file->bytes()) : stored;
}

Status consume(auto& stream, const std::string& output, uint64_t bytes_max) {
  auto file = open_output(output, bytes_max);
  if (!file) return std::unexpected(file.error());
  uint64_t done = 0;
  const Status loaded = RecoveryPoint::run([&]() -> Status {
    const auto* const from = stream.template reader<uint8_t>();
    auto* const to = file->template begin<uint8_t>();
    for (;;) {
      (void)*const_cast<const volatile uint8_t*>(from + done);  // this load waits for the data
      const auto ready = stream.wait_ready(done);
      if (!ready) return std::unexpected(ready.error());
      if (*ready <= done) return {};
      std::transform(from + done, from + *ready, to + done,
                     [](uint8_t byte) { return static_cast<uint8_t>(byte + 1); });
      done = *ready;
    }
  });
  return loaded ? file->finish(done) : loaded;
}

// Runs the work of a side, which gives up if the work fails.
Status side(auto& stream, Side which, auto&& work) {
  Status done = guarded(work, [](const char* what) -> Status {
    return penstock::failure(ErrorCode::out_of_memory, what);
  });
  if (done) return done;
  if constexpr (requires { stream.side(); })
    stream.fail(done.error());
  else
    stream.fail(which, done.error());
  return done;
}

template <class Stream>
int between_threads(const std::string& input, const std::string& output, uint64_t bytes) {
  auto stream =
      Stream::open({.bytes = bytes, .block_bytes = block_bytes, .policy = ErrorPolicy::recover});
  if (!stream) return report(stream.error().message());
  std::jthread producer(
      [&] { (void)side(*stream, Side::producer, [&] { return produce(*stream, input); }); });
  const Status done =
      side(*stream, Side::consumer, [&] { return consume(*stream, output, bytes); });
  return done ? 0 : report(done.error().message());
}

int between_processes(const std::string& input, const std::string& output, uint64_t bytes) {
  auto stream = ProcessStream::open({.bytes = bytes,
                                     .block_bytes = block_bytes,
                                     .policy = ErrorPolicy::recover,
                                     .attach_ms_max = 5000},
                                    Side::consumer);
  if (!stream) return report(stream.error().message());
  // The child's errors arrive here as the stream's.
  Child producer([&] {
    auto ours =
        ProcessStream::attach(stream->fd(), Side::producer, {.policy = ErrorPolicy::recover});
    return ours && side(*ours, Side::producer, [&] { return produce(*ours, input); }) ? 0 : failed;
  });
  const Status done =
      side(*stream, Side::consumer, [&] { return consume(*stream, output, bytes); });
  return done ? 0 : report(done.error().message());
}

// ---- snapshots

constexpr uint64_t writers = 2, cells = 1 << 18;

// The input consists of words: the first half is for one writer, the rest for the other. For its
// n-th word (from 1), a writer stores n in its own cell [word % cells]. So the largest number in a
// writer's cells is the number of its stores, and determines all its cells.
struct Table {
  uint64_t cells_of[writers][cells];
};
using Words = std::vector<uint64_t>;

uint64_t first_of(const Words& words, uint64_t writer) {
  return words.size() * writer / writers;
}

void store(const uint64_t* words, uint64_t begin, uint64_t end, uint64_t* table_cells) {
  for (uint64_t n = begin; n < end; ++n)
    std::atomic_ref(table_cells[words[n] % cells]).store(n + 1, std::memory_order_release);
}

// Whether the table ever had this state.
bool could_be(const Table& table, const Words& words) {
  for (uint64_t writer = 0; writer < writers; ++writer) {
    const uint64_t* const found = table.cells_of[writer];
    const uint64_t first = first_of(words, writer);
    const uint64_t stored = *std::max_element(found, found + cells);
    if (stored > first_of(words, writer + 1) - first) return false;
    std::vector<uint64_t> wanted(cells);
    store(words.data() + first, 0, stored, wanted.data());
    if (!std::equal(wanted.begin(), wanted.end(), found)) return false;
  }
  return true;
}

int write_out(const Table& table, const std::string& output) {
  auto file = open_output(output, sizeof(Table));
  if (!file) return report(file.error().message());
  const Status copied = RecoveryPoint::run([&] {
    for (size_t at = 0; at < sizeof(Table); at += block_bytes)
      std::memcpy(file->begin() + at, reinterpret_cast<const std::byte*>(&table) + at, block_bytes);
  });
  const Status done = copied ? file->finish(sizeof(Table)) : copied;
  return done ? 0 : report(done.error().message());
}

penstock::Result<Words> words_of(const std::string& input) {
  const auto file = open_input(input);
  if (!file) return std::unexpected(file.error());
  Words words(file->bytes() / sizeof(uint64_t));
  const Status copied = RecoveryPoint::run(
      [&] { std::copy(file->begin<uint64_t>(), file->end<uint64_t>(), words.begin()); });
  if (!copied) return std::unexpected(copied.error());
  return words;
}

// Reads a snapshot in a child process, while this one goes on without it.
int in_a_child(Snapshot snapshot, auto&& work) {
  Child reader([&] { return work(*snapshot.begin<Table>()); });
  if (const Status kept = snapshot.keep_while(reader.pid()); !kept)
    return report(kept.error().message());
  snapshot = {};
  return reader.wait();
}

int snapshots(const std::string& input, const std::string& output, uint64_t) {
  constexpr uint64_t rounds = 4;
  const auto words = words_of(input);
  if (!words) return report(words.error().message());
  const auto pool = PagePool::open({.page_bytes = 64 * KiB, .bytes_max = 4 * sizeof(Table)});
  if (!pool) return report(pool.error().message());
  auto table = RewiredTable::open(*pool, {.bytes = sizeof(Table), .policy = ErrorPolicy::recover});
  if (!table) return report(table.error().message());

  std::atomic<uint64_t> round = 0;  // number of stores that the writers may make
  Status stored[writers];
  std::vector<std::jthread> threads;
  const auto go_on = [&](uint64_t to) {
    round = to;
    round.notify_all();
  };
  // On every path, the writers end before the objects that they use.
  const struct AtTheEnd {
    const decltype(go_on)& let;
    ~AtTheEnd() { let(rounds); }
  } at_the_end{go_on};
  for (uint64_t writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      const uint64_t first = first_of(*words, writer);
      const uint64_t count = first_of(*words, writer + 1) - first;
      for (uint64_t mine = 0; mine < rounds && stored[writer]; ++mine) {
        for (uint64_t now = round; now <= mine; now = round) round.wait(now);
        stored[writer] = RecoveryPoint::run([&] {
          store(words->data() + first, count * mine / rounds, count * (mine + 1) / rounds,
                table->begin<Table>()->cells_of[writer]);
        });
      }
    });
  }
  const auto look = [&](auto&& work) {
    auto snapshot = table->snapshot();
    return snapshot ? in_a_child(std::move(*snapshot), work) : report(snapshot.error().message());
  };
  for (uint64_t now = 1; now <= rounds; ++now) {
    go_on(now);
    const int code = look([&](const Table& seen) {
      return could_be(seen, *words) ? 0 : report("a snapshot of what the table never held", torn);
    });
    if (code != 0) return code;
  }
  for (std::jthread& thread : threads) thread.join();
  for (const Status& status : stored)
    if (!status) return report(status.error().message());
  if (const auto merged = table->merge_equal_pages(); !merged)
    return report(merged.error().message());
  return look([&](const Table& seen) { return write_out(seen, output); });
}

int run(int argc, char** argv) {
  if (const Status status = penstock::io::obey_environment(); !status)
    return report(status.error().message());
  constexpr std::pair<const char*, int (*)(const std::string&, const std::string&, uint64_t)>
      kinds[] = {{"threads", between_threads<RemapStream>},
                 {"guard", between_threads<GuardStream>},
                 {"processes", between_processes},
                 {"snapshots", snapshots}};
  for (const auto& [name, kind] : kinds) {
    // (The stream has room for an input that grows.)
    if (argc == 4 && std::strcmp(argv[1], name) == 0)
      return kind(argv[2], argv[3], std::filesystem::file_size(argv[2]) + MiB);
  }
  return report("usage: torture_streams threads|guard|processes|snapshots INPUT OUTPUT");
}

}  // namespace

int main(int argc, char** argv) {
  penstock::os::occupy_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // makes it an error of the write
  return guarded([&] { return run(argc, argv); }, told);
}
