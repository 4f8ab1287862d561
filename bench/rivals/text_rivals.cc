#include "bench/rivals/text_rivals.h"

#include <cstdlib>
#include <filesystem>

#include "bench/harness/child.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

const fs::path project = PENSTOCK_SOURCE_DIR "/bench/rivals/uutils_sort";
const fs::path target = PENSTOCK_BINARY_DIR "/uutils_sort";
const fs::path rows_script = PENSTOCK_SOURCE_DIR "/bench/rivals/external/csv_rows.py";
const fs::path python = PENSTOCK_SOURCE_DIR "/build/rivals/bin/python";

}  // namespace

TextRival uutils_sort(bool builds) {
  TextRival rival{.name = "uutils' sort"};
  const fs::path program = target / "release/uutils_sort";
  std::error_code missing;
  const bool is_built =
      fs::last_write_time(program, missing) > fs::last_write_time(project / "Cargo.lock") &&
      !missing;
  if (!is_built && !builds) {
    rival.problem = "not built yet (a run without --quick builds it)";
  } else if (!is_built && std::system("cargo --version >/dev/null 2>&1") != 0) {
    rival.problem = "there is no cargo";
  } else if (!is_built) {
    const auto built =
        run_child({"cargo", "build", "--release", "--quiet", "--locked", "--manifest-path",
                   project / "Cargo.toml", "--target-dir", target},
                  {"RUSTFLAGS=-Ctarget-cpu=native"});
    if (!built || built->exit_code != 0) rival.problem = "cargo could not build it";
  }
  if (rival.problem.empty()) rival.words = {program};
  return rival;
}

std::vector<TextRival> csv_rivals(const CsvJob& job) {
  std::vector<TextRival> rivals;
  for (const auto& [name, word] : {std::pair("DuckDB", "duckdb"), std::pair("polars", "polars")}) {
    TextRival& rival = rivals.emplace_back(TextRival{.name = name});
    if (!fs::exists(python)) {
      rival.problem = "not installed (tools/setup.sh bench)";
      continue;
    }
    rival.words = {python,
                   rows_script,
                   word,
                   job.input,
                   job.output,
                   std::to_string(job.memory_bytes),
                   std::to_string(job.threads),
                   job.folder};
  }
  return rivals;
}

}  // namespace penstock::bench
