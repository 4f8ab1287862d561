#include "bench/rivals/text_rivals.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "bench/harness/child.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

const fs::path tables_script = PENSTOCK_SOURCE_DIR "/bench/rivals/external/tables.py";
const fs::path python = PENSTOCK_SOURCE_DIR "/build/rivals/bin/python";

// A program that cargo builds with these words, unless it is newer than `source`.
Contender built_by_cargo(const std::string& name, const fs::path& program, const fs::path& source,
                         std::vector<std::string> words, bool builds) {
  Contender rival{.name = name};
  std::error_code missing;
  const bool is_built =
      fs::last_write_time(program, missing) > fs::last_write_time(source) && !missing;
  if (!is_built && !builds) {
    rival.problem = "not built yet (a run without --quick builds it)";
  } else if (!is_built && std::system("cargo --version >/dev/null 2>&1") != 0) {
    rival.problem = "there is no cargo";
  } else if (!is_built) {
    words.insert(words.begin(), "cargo");
    const auto built = run_child(words, {"RUSTFLAGS=-Ctarget-cpu=native"});
    if (!built || built->exit_code != 0) rival.problem = "cargo could not build it";
  }
  if (rival.problem.empty()) rival.words = {program};
  return rival;
}

}  // namespace

Contender uutils_sort(bool builds) {
  const fs::path project = PENSTOCK_SOURCE_DIR "/bench/rivals/uutils_sort";
  const fs::path target = PENSTOCK_BINARY_DIR "/uutils_sort";
  return built_by_cargo("uutils' sort", target / "release/uutils_sort", project / "Cargo.lock",
                        {"build", "--release", "--quiet", "--locked", "--manifest-path",
                         project / "Cargo.toml", "--target-dir", target},
                        builds);
}

Contender xan(bool builds) {
  // A program and no library: cargo installs it, with the versions of its own Cargo.lock.
  const fs::path root = PENSTOCK_BINARY_DIR "/xan";
  return built_by_cargo("xan", root / "bin/xan", __FILE__,
                        {"install", "--quiet", "--locked", "--force", "--root", root,
                         "--target-dir", root / "target", "xan@0.61.0"},
                        builds);
}

std::vector<Contender> table_rivals(const TableJob& job) {
  std::vector<Contender> rivals;
  for (const auto& [name, word] : {std::pair("DuckDB", "duckdb"), std::pair("polars", "polars")}) {
    for (const bool has_limit : {true, false}) {
      Contender& rival = rivals.emplace_back(Contender{
          .name = has_limit ? fmt::format("{}, limit {} MiB", name, job.memory_bytes / MiB)
                            : std::string(name)});
      if (!fs::exists(python)) {
        rival.problem = "not installed (tools/setup.sh bench)";
        continue;
      }
      rival.words = {python,
                     tables_script,
                     word,
                     job.word,
                     job.input,
                     job.other_input,
                     job.output,
                     std::to_string(has_limit ? job.memory_bytes : 0),
                     std::to_string(job.threads),
                     job.folder};
      rival.environment = {"PYTHONDONTWRITEBYTECODE=1"};
    }
  }
  return rivals;
}

}  // namespace penstock::bench
