#include "bench/rivals/external_rivals.h"

#include <fmt/core.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "bench/harness/pages.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

const fs::path columns_script = PENSTOCK_SOURCE_DIR "/bench/rivals/external/columns.py";
const fs::path python = PENSTOCK_SOURCE_DIR "/build/rivals/bin/python";

// Files that are removed with this object.
class Files {
 public:
  explicit Files(fs::path folder) : folder_(std::move(folder)) { fs::create_directories(folder_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;
  ~Files() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string file(const std::string& name) const { return folder_ / name; }
  std::string folder() const { return folder_; }

 private:
  fs::path folder_;
};

// The reason why a run failed.
std::string problem_of(const Result<ChildRun>& run, unsigned seconds_max) {
  if (!run) {
    const std::string alarm = fmt::format("signal {}", SIGALRM);
    if (run.error().attempted.ends_with(alarm)) {
      return fmt::format("took more than {} s", seconds_max);
    }
    return run.error().attempted;
  }
  return run->exit_code == 0
             ? ""
             : run->output.substr(run->output.rfind('\n', run->output.size() - 2) + 1);
}

// Runs the sort, has its output verified, and records the result.
void race(const RivalJob& job, const std::vector<std::string>& words,
          const std::vector<std::string>& environment, const std::function<Status()>& verify,
          RivalRun& rival) {
  if (auto ready = prepare_machine(job.memory_bytes, job.input); !ready) {
    rival.problem = ready.error().message();
    return;
  }
  Result<ChildRun> run = run_child(words, environment);
  rival.problem = problem_of(run, job.seconds_max);
  while (rival.problem.ends_with('\n')) rival.problem.pop_back();
  if (!rival.problem.empty()) return;
  if (Status right = verify(); !right) {
    rival.problem = "its output is wrong: " + right.error().message();
    return;
  }
  rival.run = std::move(*run);
}

RivalRun sort_with_stxxl([[maybe_unused]] const RivalJob& job) {
  RivalRun rival{.name = "STXXL", .ratio = "vs_stxxl_u64", .run = {}, .problem = {}};
#ifdef PENSTOCK_STXXL_SORT
  const Files files(fs::path(job.folder) / "stxxl");
  const std::string output = files.file("sorted.u64");
  std::error_code missing;
  const uint64_t disk_mib = fs::file_size(job.input, missing) / (1 << 20) + 64;
  std::ofstream(files.file("config"))
      << fmt::format("disk={},{}MiB,linuxaio autogrow delete\n", files.file("disk"), disk_mib);
  race(
      job,
      {PENSTOCK_STXXL_SORT, job.input, output, std::to_string(job.memory_bytes),
       std::to_string(job.seconds_max)},
      {"STXXLCFG=" + files.file("config"), "STXXLLOGFILE=/dev/null", "STXXLERRLOGFILE=/dev/null",
       fmt::format("OMP_NUM_THREADS={}", job.threads)},
      [&] { return job.verify(output); }, rival);
#else
  rival.problem = "libstxxl-dev was not installed when this was built (tools/setup.sh bench)";
#endif
  return rival;
}

std::vector<RivalRun> sort_columns(const RivalJob& job) {
  std::vector<RivalRun> rivals = {
      {.name = "DuckDB", .ratio = "vs_duckdb_u64", .run = {}, .problem = {}},
      {.name = "polars", .ratio = "vs_polars_u64", .run = {}, .problem = {}}};
  auto fail = [&](const std::string& problem) {
    for (RivalRun& rival : rivals) rival.problem = problem;
    return rivals;
  };
  if (!fs::exists(python)) return fail("not installed (tools/setup.sh bench)");
  const Files files(fs::path(job.folder) / "columns");
  const std::string packed = files.file("input.parquet");
  auto script = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {python, columns_script});
    return words;
  };
  if (auto made = run_child(script({"pack", job.input, packed})); !made || made->exit_code != 0) {
    return fail("no Parquet file could be made: " + problem_of(made, 0));
  }
  for (RivalRun& rival : rivals) {
    const Files temporaries(files.file("temporaries"));
    const std::string sorted = files.file("sorted.parquet");
    const std::string numbers = files.file("sorted.u64");
    auto verify = [&]() -> Status {
      auto unpacked = run_child(script({"unpack", sorted, numbers}));
      fs::remove(sorted);
      if (!unpacked) return std::unexpected(unpacked.error());
      if (unpacked->exit_code != 0) {
        return failure(ErrorCode::corrupt, "read: " + unpacked->output, sorted);
      }
      Status right = job.verify(numbers);
      fs::remove(numbers);
      return right;
    };
    const std::string word = &rival == &rivals[0] ? "duckdb" : "polars";
    race(
        job,
        script({word, packed, sorted, std::to_string(job.memory_bytes), std::to_string(job.threads),
                temporaries.folder(), std::to_string(job.seconds_max)}),
        {"PYTHONDONTWRITEBYTECODE=1"}, verify, rival);
    std::error_code ignored;
    fs::remove(sorted, ignored);
  }
  return rivals;
}

}  // namespace

std::vector<RivalRun> sort_with_rivals(const RivalJob& job) {
  std::vector<RivalRun> all = {sort_with_stxxl(job)};
  for (RivalRun& rival : sort_columns(job)) all.push_back(std::move(rival));
  return all;
}

}  // namespace penstock::bench
