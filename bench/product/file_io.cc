// The cost of a file behind a plain pointer. (Table 3 of the paper.)
//
// Reading sums the 64-bit numbers of a file up, writing stores 0, 1, 2, ... ; each contender is a
// process of its own. The ceilings do nothing with the data: fio (io_uring, direct, 8 requests of 2
// MiB), if it is installed, by default and with its buffers on huge pages, and our own engine in a
// loop without a stream, which needs fewer requests. Each has its ratios, `vs_NAME_read` and so on.
// Disks drift: the ceilings and the contenders that are compared with them take turns, and a ratio
// is the median of those of neighbours.
//
// "cold": the file is not in the page cache; direct I/O is cold by nature. "hot": all of it is. A
// buffered write counts as done when it is in the page cache (hot), or on the disk (cold).
// Processor time is user and system; `cpu_vs_*` is ours, minus the time of the loop over plain
// memory, relative to the ceiling's. Memory is the growth of resident memory, including the page
// cache only if it is mapped.

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/isolated.h"
#include "bench/harness/loops.h"
#include "bench/harness/scratch.h"
#include "bench/rivals/fio.h"
#include "bench/rivals/plain_files.h"
#include "io/engine.h"
#include "os/memory.h"
#include "penstock/base.h"
#include "penstock/file_stream.h"
#include "penstock/stream.h"

namespace penstock::bench {
namespace {

const Loops& loops = items_of_64_bytes;

struct Place {
  std::string path;
  uint64_t bytes;
};

using Work = std::function<Result<uint64_t>(const Place&, Probe&)>;

// ---- The contenders.

constexpr size_t block_bytes = 2 * MiB;

// Blocks of plain memory on huge pages.
Result<os::Reservation> plain_blocks(unsigned blocks) {
  auto memory = os::Reservation::reserve(blocks * block_bytes, os::huge_page_bytes);
  if (!memory) return std::unexpected(memory.error());
  int error = os::commit(memory->begin(), memory->bytes());
  if (error == 0) error = os::advise_huge(memory->begin(), memory->bytes(), true);
  if (error != 0) return system_error(error, "commit memory", "bench");
  loops.fill(memory->begin(), memory->bytes(), 0);
  return memory;
}

// Overlapped direct requests over a whole file, block i at address(i): the loop of our own ceiling,
// and of the RemapStream's side threads. `ready(i)` is called before block i's request starts, when
// that of block i - requests has ended; `ended(i)` when a request has ended, in order.
struct Overlapped {
  io::Operation operation;
  unsigned requests;
  std::function<std::byte*(uint64_t)> address;
  std::function<Status(uint64_t)> ready = [](uint64_t) -> Status { return {}; };
};

Status run_overlapped(const io::File& file, uint64_t bytes, const Overlapped& plan) {
  auto engine = io::Engine::open({.depth = plan.requests});
  if (!engine) return std::unexpected(engine.error());
  std::vector<io::Request> ring(plan.requests);
  const uint64_t blocks = bytes / block_bytes;
  for (uint64_t block = 0; block < blocks + plan.requests; ++block) {
    io::Request& request = ring[block % plan.requests];
    if (block >= plan.requests) {
      (*engine)->wait(request);
      if (request.error != 0) return system_error(request.error, "transfer", file.path());
    }
    if (block >= blocks) continue;
    if (auto ready = plan.ready(block); !ready) return ready;
    request = {.operation = plan.operation,
               .file = &file,
               .offset = block * block_bytes,
               .data = plan.address(block),
               .bytes = block_bytes};
    (*engine)->submit(request);
  }
  return {};
}

// Direct writes without a sync, because fio and the others do not wait for one.
const io::OutputOptions unsynced{.rules = {.sync = false}};

Status engine_loop(io::Operation operation, unsigned requests, const io::File& file,
                   uint64_t bytes) {
  auto memory = plain_blocks(requests);
  if (!memory) return std::unexpected(memory.error());
  return run_overlapped(
      file, bytes, {.operation = operation, .requests = requests, .address = [&](uint64_t block) {
                      return memory->begin() + block % requests * block_bytes;
                    }});
}

Work engine_without_stream(bool write, unsigned requests) {
  return [=](const Place& place, Probe&) -> Result<uint64_t> {
    auto file =
        write ? io::File::create_output(place.path, unsynced) : io::File::open_read(place.path);
    if (!file) return std::unexpected(file.error());
    const auto operation = write ? io::Operation::write : io::Operation::read;
    Status done = engine_loop(operation, requests, *file, place.bytes);
    if (done && write) done = file->publish();
    if (!done) return std::unexpected(done.error());
    return 0;
  };
}

// The loop alone, whose processor time is subtracted, with blocks like the streams'.
Result<uint64_t> loop_over_memory(const Place& place, bool write) {
  constexpr unsigned blocks = 3;
  auto memory = plain_blocks(blocks);
  if (!memory) return std::unexpected(memory.error());
  uint64_t total = 0;
  for (uint64_t at = 0; at < place.bytes; at += block_bytes) {
    std::byte* block = memory->begin() + at % (blocks * block_bytes);
    if (write) {
      loops.fill(block, block_bytes, at / sizeof(uint64_t));
    } else {
      total += loops.sum(block, block_bytes);
    }
  }
  return total;
}

Work read_by_file_reader(const FileReaderOptions& options) {
  return [options](const Place& place, Probe&) -> Result<uint64_t> {
    auto file = FileReader::open(place.path, options);
    if (!file) return std::unexpected(file.error());
    return loops.sum(file->begin(), file->bytes());
  };
}

Work write_by_file_writer(const FileWriterOptions& options) {
  return [options](const Place& place, Probe&) -> Result<uint64_t> {
    auto file = FileWriter::open(place.path, options);
    if (!file) return std::unexpected(file.error());
    loops.fill(file->begin(), place.bytes, 0);
    if (auto done = file->finish(place.bytes); !done) return std::unexpected(done.error());
    return 0;
  };
}

// A: each fault reads its block.
Result<uint64_t> read_by_pull_stream(const Place& place, Probe&) {
  auto file = io::File::open_read(place.path);
  if (!file) return std::unexpected(file.error());
  auto stream =
      PullStream::open({.bytes = place.bytes, .block_bytes = block_bytes, .comeback_blocks = 0},
                       [&](std::span<std::byte> block, uint64_t offset) -> Result<size_t> {
                         auto read = io::read_exactly(*file, offset, block.data(), block.size());
                         if (!read) return std::unexpected(read.error());
                         return block.size();
                       });
  if (!stream) return std::unexpected(stream.error());
  return loops.sum(stream->begin(), place.bytes);
}

// B and C: a thread of its own passes the file's blocks to the loop, or takes them from it.
template <class Stream>
Result<uint64_t> through_threads(Stream& stream, const std::function<Status()>& transfer,
                                 Side transfer_side, const std::function<uint64_t()>& loop) {
  Status done;
  uint64_t total = 0;
  {
    std::jthread thread([&] {
      done = transfer();
      if (!done) stream.fail(transfer_side, done.error());
    });
    total = loop();
  }
  if (!done) return std::unexpected(done.error());
  return total;
}

GuardStream::Options guard_options(uint64_t bytes) {
  return {.bytes = bytes,
          .block_bytes = block_bytes,
          .read_ahead_blocks = 2,
          .producer_comeback_blocks = 0,
          .consumer_comeback_blocks = 0,
          .policy = ErrorPolicy::zeros,
          .name = "file"};
}

Result<uint64_t> read_by_guard_stream(const Place& place, Probe&) {
  auto file = io::File::open_read(place.path);
  if (!file) return std::unexpected(file.error());
  auto stream = GuardStream::open(guard_options(place.bytes));
  if (!stream) return std::unexpected(stream.error());
  auto transfer = [&]() -> Status {
    auto* to = stream->template writer<std::byte>();
    for (uint64_t at = 0; at < place.bytes; at += block_bytes) {
      Status read = stream->prepare_write(to + at, block_bytes);
      if (read) read = io::read_exactly(*file, at, to + at, block_bytes);
      if (!read) return read;
    }
    return stream->finish(place.bytes);
  };
  return through_threads(*stream, transfer, Side::producer,
                         [&] { return loops.sum(stream->reader(), place.bytes); });
}

Result<uint64_t> write_by_guard_stream(const Place& place, Probe&) {
  auto file = io::File::create_output(place.path, unsynced);
  if (!file) return std::unexpected(file.error());
  auto stream = GuardStream::open(guard_options(place.bytes));
  if (!stream) return std::unexpected(stream.error());
  auto transfer = [&]() -> Status {
    auto* from = stream->template reader<std::byte>();
    for (uint64_t at = 0; at < place.bytes; at += block_bytes) {
      Status written = stream->prepare_read(from + at, block_bytes);
      if (written) written = io::write_exactly(*file, at, from + at, block_bytes);
      if (!written) return written;
    }
    return file->publish();
  };
  return through_threads(*stream, transfer, Side::consumer, [&] {
    loops.fill(stream->writer(), place.bytes, 0);
    keep(stream->finish(place.bytes));
    return uint64_t{0};
  });
}

// The requests in flight use the blocks that the side may still come back to.
constexpr uint32_t remap_requests = 3;

RemapStream::Options remap_options(uint64_t bytes, Side transfer_side) {
  const uint32_t comeback = remap_requests - 1;
  return {.bytes = bytes,
          .block_bytes = block_bytes,
          .read_ahead_blocks = 1,
          .producer_comeback_blocks = transfer_side == Side::producer ? comeback : 0,
          .consumer_comeback_blocks = transfer_side == Side::consumer ? comeback : 0,
          .policy = ErrorPolicy::zeros,
          .name = "file"};
}

// Bytes of a pool's pages that are mapped at several addresses.
uint64_t shared_bytes(const RemapStream& stream) {
  return stream.mechanism() == Mechanism::shared ? stream.memory_bytes() : 0;
}

Result<uint64_t> read_by_remap_stream(const Place& place, Probe& probe) {
  auto file = io::File::open_read(place.path);
  if (!file) return std::unexpected(file.error());
  auto stream = RemapStream::open(remap_options(place.bytes, Side::producer));
  if (!stream) return std::unexpected(stream.error());
  auto* to = stream->template writer<std::byte>();
  auto transfer = [&]() -> Status {
    Status done =
        run_overlapped(*file, place.bytes,
                       {.operation = io::Operation::read,
                        .requests = remap_requests,
                        .address = [&](uint64_t block) { return to + block * block_bytes; },
                        .ready =
                            [&](uint64_t block) {
                              return stream->prepare_write(to + block * block_bytes, block_bytes);
                            }});
    return done ? stream->finish(place.bytes) : done;
  };
  auto total = through_threads(*stream, transfer, Side::producer,
                               [&] { return loops.sum(stream->reader(), place.bytes); });
  probe.held(shared_bytes(*stream));
  return total;
}

Result<uint64_t> write_by_remap_stream(const Place& place, Probe& probe) {
  auto file = io::File::create_output(place.path, unsynced);
  if (!file) return std::unexpected(file.error());
  auto stream = RemapStream::open(remap_options(place.bytes, Side::consumer));
  if (!stream) return std::unexpected(stream.error());
  auto* from = stream->template reader<std::byte>();
  auto transfer = [&]() -> Status {
    Status done =
        run_overlapped(*file, place.bytes,
                       {.operation = io::Operation::write,
                        .requests = remap_requests,
                        .address = [&](uint64_t block) { return from + block * block_bytes; },
                        .ready =
                            [&](uint64_t block) {
                              return stream->prepare_read(from + block * block_bytes, block_bytes);
                            }});
    return done ? file->publish() : done;
  };
  auto result = through_threads(*stream, transfer, Side::consumer, [&] {
    loops.fill(stream->writer(), place.bytes, 0);
    keep(stream->finish(place.bytes));
    return uint64_t{0};
  });
  probe.held(shared_bytes(*stream));
  return result;
}

Work plain(Result<uint64_t> (*read)(const PlainFile&)) {
  return [read](const Place& place, Probe&) {
    return read(PlainFile{.path = place.path, .bytes = place.bytes, .loops = loops});
  };
}
Work plain(Status (*write)(const PlainFile&), bool sync) {
  return [=](const Place& place, Probe&) -> Result<uint64_t> {
    auto done =
        write(PlainFile{.path = place.path, .bytes = place.bytes, .loops = loops, .sync = sync});
    if (!done) return std::unexpected(done.error());
    return 0;
  };
}
template <Advice advice>
Result<uint64_t> mapped(const PlainFile& file) {
  return read_by_mmap(file, advice);
}
template <Advice advice>
Status write_mapped(const PlainFile& file) {
  return write_by_mmap(file, advice);
}

// ---- The measurement.

struct Contender {
  std::string name;
  Work work;  // null: fio
  bool sums = true;
  bool huge_fio = false;
  unsigned share = 1;  // only this part of the bytes is moved, and extrapolated
};

struct Measured {
  double bytes_per_s;
  double cpu_seconds;  // for all bytes
  double peak_bytes;
};

using Samples = std::vector<Measured>;

enum class Heat { cold, hot };

class Experiment {
 public:
  Experiment(bool write, uint64_t bytes, const Scratch& scratch, Report& report)
      : write_(write), bytes_(bytes), scratch_(scratch), report_(report) {}

  // Runs the contenders in turns. Adds their rows, and returns their samples in the same order.
  Result<std::vector<Samples>> compare(const std::vector<Contender>& contenders, Heat heat,
                                       unsigned runs);

 private:
  std::string path() const { return scratch_.file(write_ ? "written" : "numbers"); }
  Status set_up(Heat heat);
  Result<Measured> run_once(const Contender& contender, Heat heat);
  Status verify(const Contender& contender, const Place& place, uint64_t total);
  void add_rows(const Contender& contender, Heat heat, const Samples& samples);

  const bool write_;
  const uint64_t bytes_;
  const Scratch& scratch_;
  Report& report_;
  std::map<std::string, bool> verified_;
};

// Before writing: removes the file, and waits for its pending writes.
Status Experiment::set_up(Heat heat) {
  if (!write_) return heat == Heat::hot ? bring_into_cache(path()) : forget_cached(path());
  std::error_code ignored;
  std::filesystem::remove(path(), ignored);
  const int folder = ::open(scratch_.folder().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int error = folder < 0 || ::syncfs(folder) != 0 ? errno : 0;
  if (folder >= 0) ::close(folder);
  if (error != 0) return system_error(error, "sync", scratch_.folder());
  return {};
}

Result<Measured> Experiment::run_once(const Contender& contender, Heat heat) {
  if (auto ready = set_up(heat); !ready) return std::unexpected(ready.error());
  const Place place{path(), bytes_ / contender.share};
  if (!contender.work) {
    auto run = run_fio({place.path, place.bytes, write_, contender.huge_fio});
    if (!run) return std::unexpected(run.error());
    return Measured{run->bytes_per_s, run->cpu_seconds, 0};
  }
  auto run = run_isolated([&](Probe& probe) { return contender.work(place, probe); });
  if (!run) return std::unexpected(run.error());
  if (contender.sums) {
    if (auto right = verify(contender, place, run->result); !right)
      return std::unexpected(right.error());
  }
  return Measured{static_cast<double>(place.bytes) / run->seconds,
                  run->cpu_seconds * contender.share, static_cast<double>(run->peak_bytes)};
}

// Reads the file back once for each contender: the first number of each block, and the sum.
Status Experiment::verify(const Contender& contender, const Place& place, uint64_t total) {
  bool right = total == sum_of_numbers(place.bytes);
  if (write_) {
    if (std::exchange(verified_[contender.name], true)) return {};
    auto file = FileReader::open(place.path);
    if (!file) return std::unexpected(file.error());
    right = file->bytes() == place.bytes;
    uint64_t sum = 0;
    for (uint64_t at = 0; right && at < place.bytes; at += block_bytes) {
      right = *(file->begin<uint64_t>() + at / sizeof(uint64_t)) == at / sizeof(uint64_t);
      sum += loops.sum(file->begin() + at, block_bytes);
    }
    right = right && sum == sum_of_numbers(place.bytes);
  }
  if (!right) return failure(ErrorCode::corrupt, "find the numbers of the file", contender.name);
  return {};
}

std::vector<double> values(const Samples& samples, double Measured::* value, double unit) {
  std::vector<double> result;
  for (const Measured& sample : samples) result.push_back(sample.*value / unit);
  return result;
}

void Experiment::add_rows(const Contender& contender, Heat heat, const Samples& samples) {
  const std::string name = fmt::format(
      "{}, {}, {}{}", write_ ? "write" : "read", heat == Heat::hot ? "hot" : "cold", contender.name,
      contender.share == 1 ? "" : fmt::format(" (extrapolated from 1/{})", contender.share));
  report_.add(name, "GB/s", values(samples, &Measured::bytes_per_s, 1e9));
  report_.add(name + ": processor time", "s", values(samples, &Measured::cpu_seconds, 1));
  if (contender.work)
    report_.add(name + ": memory", "MB", values(samples, &Measured::peak_bytes, 1e6));
}

Result<std::vector<Samples>> Experiment::compare(const std::vector<Contender>& contenders,
                                                 Heat heat, unsigned runs) {
  std::vector<Samples> all(contenders.size());
  for (unsigned run = 0; run < runs; ++run) {
    for (size_t i = 0; i < contenders.size(); ++i) {
      auto measured = run_once(contenders[i], heat);
      if (!measured) return std::unexpected(measured.error());
      all[i].push_back(*measured);
    }
  }
  for (size_t i = 0; i < contenders.size(); ++i) add_rows(contenders[i], heat, all[i]);
  return all;
}

// The median of the ratios of neighbours in time.
double ratio(const Samples& ours, const Samples& ceiling) {
  std::vector<double> ratios;
  for (size_t run = 0; run < ours.size(); ++run)
    ratios.push_back(ours[run].bytes_per_s / ceiling[run].bytes_per_s);
  return median(std::move(ratios));
}

Result<double> cpu_seconds_of_loop(bool write, uint64_t bytes, unsigned runs, Report& report) {
  std::vector<double> samples;
  for (unsigned run = 0; run < runs; ++run) {
    auto done =
        run_isolated([&](Probe&) { return loop_over_memory({.path = {}, .bytes = bytes}, write); });
    if (!done) return std::unexpected(done.error());
    samples.push_back(done->cpu_seconds);
  }
  return report.add(
      fmt::format("{}, the loop over plain memory: processor time", write ? "write" : "read"), "s",
      std::move(samples));
}

struct Question {
  bool write;
  std::vector<Contender> against_ceiling;  // the product
  std::vector<Contender> direct;
  std::vector<Contender> cold, hot;  // contenders that use the page cache
};

Status answer(const Question& question, uint64_t bytes, unsigned runs, const Scratch& scratch,
              Report& report) {
  Experiment experiment(question.write, bytes, scratch, report);
  std::vector<Contender> ceilings;
  std::vector<std::string> names;  // names in ratios
  if (fio_is_installed()) {
    ceilings.push_back({.name = "fio, direct, 8 of 2 MiB", .work = {}, .sums = false});
    names.emplace_back("fio");
    ceilings.push_back({.name = "fio, direct, 8 of 2 MiB, buffers on huge pages",
                        .work = {},
                        .sums = false,
                        .huge_fio = true});
    names.emplace_back("fio_on_huge_pages");
  }
  for (unsigned requests : {8u, 2u}) {
    ceilings.push_back(
        {.name = fmt::format("engine without a stream, direct, {} of 2 MiB", requests),
         .work = engine_without_stream(question.write, requests),
         .sums = false});
    names.push_back(fmt::format("engine_{}_requests", requests));
  }
  std::vector<Contender> first = ceilings;
  first.insert(first.end(), question.against_ceiling.begin(), question.against_ceiling.end());
  auto samples = experiment.compare(first, Heat::cold, runs);
  if (!samples) return std::unexpected(samples.error());

  auto loop = cpu_seconds_of_loop(question.write, bytes, runs, report);
  if (!loop) return std::unexpected(loop.error());
  auto cpu = [](const Samples& of) { return median(values(of, &Measured::cpu_seconds, 1)); };
  const Samples& ours = (*samples)[ceilings.size()];
  const char* suffix = question.write ? "write" : "read";
  for (size_t i = 0; i < ceilings.size(); ++i) {
    report.ratio(fmt::format("vs_{}_{}", names[i], suffix), ratio(ours, (*samples)[i]));
    report.ratio(fmt::format("cpu_vs_{}_{}", names[i], suffix),
                 (cpu(ours) - *loop) / cpu((*samples)[i]));
  }

  const unsigned few = std::min(runs, 3u);
  for (const auto& [contenders, heat] :
       {std::pair(&question.direct, Heat::cold), std::pair(&question.cold, Heat::cold),
        std::pair(&question.hot, Heat::hot)}) {
    auto compared = experiment.compare(*contenders, heat, few);
    if (!compared) return std::unexpected(compared.error());
  }
  return {};
}

Question reading(unsigned fstream_share) {
  const std::vector<Contender> buffered{
      {.name = "fstream, per number", .work = plain(read_by_fstream), .share = fstream_share},
      {.name = "read(2), 1 MiB", .work = plain(read_by_calls)},
      {.name = "mmap", .work = plain(mapped<Advice::none>)},
      {.name = "mmap, MADV_SEQUENTIAL", .work = plain(mapped<Advice::sequential>)},
      {.name = "mmap, MADV_POPULATE_READ", .work = plain(mapped<Advice::populate>)}};
  return {.write = false,
          .against_ceiling = {{.name = "FileReader", .work = read_by_file_reader({})}},
          .direct = {{.name = "A: PullStream over pread", .work = read_by_pull_stream},
                     {.name = "B: GuardStream, pread in a thread", .work = read_by_guard_stream},
                     {.name = "C: RemapStream, overlapped reads in a thread",
                      .work = read_by_remap_stream}},
          .cold = buffered,
          .hot = buffered};
}

// The loop's items are aligned: one block is filled, two are being written.
constexpr FileWriterOptions three_blocks{
    .write_behind_blocks = 1, .comeback_blocks = 0, .sync = false};

Question writing(unsigned fstream_share) {
  auto buffered = [&](bool sync) -> std::vector<Contender> {
    return {
        {.name = "fstream, per number",
         .work = plain(write_by_fstream, sync),
         .share = fstream_share},
        {.name = "write(2), 1 MiB", .work = plain(write_by_calls, sync)},
        {.name = "mmap", .work = plain(write_mapped<Advice::none>, sync)},
        {.name = "mmap, MADV_POPULATE_WRITE", .work = plain(write_mapped<Advice::populate>, sync)}};
  };
  return {
      .write = true,
      .against_ceiling = {{.name = "FileWriter, 3 blocks",
                           .work = write_by_file_writer(three_blocks)},
                          {.name = "FileWriter", .work = write_by_file_writer({.sync = false})}},
      .direct = {{.name = "B: GuardStream, pwrite in a thread", .work = write_by_guard_stream},
                 {.name = "C: RemapStream, overlapped writes in a thread",
                  .work = write_by_remap_stream}},
      .cold = buffered(true),
      .hot = buffered(false)};
}

Result<Report> run_file_io(const Options& options) {
  const uint64_t bytes = options.quick ? 64 * MiB : 8 * GiB;
  const unsigned fstream_share = options.quick ? 4 : 16;
  const unsigned runs = options.runs_or(5);
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  Report report;
  report.hash(sum_of_numbers(bytes));

  // The input file; it also touches the disk's blocks first.
  const Place numbers{scratch->file("numbers"), bytes};
  auto made = run_isolated(
      [&](Probe& probe) { return write_by_file_writer(FileWriterOptions{})(numbers, probe); });
  if (!made) return std::unexpected(made.error());
  auto read = answer(reading(fstream_share), bytes, runs, *scratch, report);
  if (!read) return std::unexpected(read.error());
  std::filesystem::remove(scratch->file("numbers"));
  auto written = answer(writing(fstream_share), bytes, runs, *scratch, report);
  if (!written) return std::unexpected(written.error());
  return report;
}

const Registration registration{
    "file-io", "a file as a pointer, beside fio, mmap, read and write, and fstream", run_file_io};

}  // namespace
}  // namespace penstock::bench
