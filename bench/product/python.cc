// How fast is the Python package, compared with NumPy's memmap and sorts, and DuckDB's and polars'
// sorts of files?
//
// How fast is penstock.ray, compared with Ray's own sort of datasets, and what does a cluster cost?
//
// python/bench/bench.py (ray_sort.py for the last question) measures, part by part, with the Python
// of build/python and the extension of this build; its output is reported here. Its text says which
// comparisons favour whom.

#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/harness/bench.h"
#include "bench/harness/child.h"
#include "bench/harness/scratch.h"
#include "penstock/base.h"

namespace penstock::bench {
namespace {

namespace fs = std::filesystem;

const fs::path python = PENSTOCK_SOURCE_DIR "/build/python/bin/python";
const fs::path scripts = PENSTOCK_SOURCE_DIR "/python/bench";
const fs::path packages = PENSTOCK_BINARY_DIR "/python";

const std::vector<std::string> all_parts = {"sum", "arrays", "files", "tables"};

// Adds a line of the script's output to the report.
void add_line(const nlohmann::json& line, Report& report) {
  if (line.contains("ratio")) {
    report.ratio(line["ratio"], line["value"]);
  } else if (line.contains("hash")) {
    report.hash(line["hash"].get<uint64_t>());
  } else {
    report.add(line["what"], line["unit"], line["samples"]);
  }
}

Result<Report> run(const Options& options, const std::vector<std::string>& parts) {
  Report report;
  if (!fs::exists(python) || !fs::exists(packages / "penstock/_penstock.pyi")) {
    report.add("python: the extension is not built (tools/setup.sh bench, -DPENSTOCK_PYTHON=AUTO)",
               "", {0});
    return report;
  }
  auto scratch = Scratch::make(options.directory);
  if (!scratch) return std::unexpected(scratch.error());
  for (const std::string& part : parts) {
    const fs::path script = scripts / (part == "ray" ? "ray_sort.py" : "bench.py");
    std::vector<std::string> words = {python, script, part, "--folder", scratch->folder()};
    if (options.quick) words.push_back("--quick");
    if (options.runs != 0) {
      words.push_back("--runs");
      words.push_back(std::to_string(options.runs));
    }
    const auto done =
        run_child(words, {"PYTHONPATH=" + packages.string(), "PYTHONDONTWRITEBYTECODE=1"});
    if (!done) return std::unexpected(done.error());
    if (done->exit_code != 0) return failure(ErrorCode::io, "measure: see above", script);
    std::istringstream lines(done->output);
    for (std::string line; std::getline(lines, line);)
      add_line(nlohmann::json::parse(line), report);
  }
  return report;
}

const Registration registration{"python", "the Python package, beside NumPy, DuckDB and polars",
                                [](const Options& options) { return run(options, all_parts); }};

const Registration ray{"ray", "penstock.ray beside Ray's Dataset.sort and beside one machine",
                       [](const Options& options) { return run(options, {"ray"}); }};

const bool parts_registered = [] {
  for (const std::string& part : all_parts) {
    Registration("python-" + part, "a part of `python`",
                 [part](const Options& options) { return run(options, {part}); });
  }
  return true;
}();

}  // namespace
}  // namespace penstock::bench
