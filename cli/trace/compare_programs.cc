#include "cli/trace/compare_programs.h"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/shell_word.h"
#include "penstock/base.h"

namespace penstock::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* no_limit_seconds = "1000000";

fs::path own_program() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? "penstock" : path;
}

// Finds a file of the source or build tree, which contain parts of other people's programs. The
// search goes upwards from this program's folder, and fails for an installed program.
std::optional<fs::path> find_part(const fs::path& relative) {
  std::error_code error;
  for (fs::path folder = own_program().parent_path(); !folder.empty();
       folder = folder.parent_path()) {
    if (fs::exists(folder / relative, error)) return folder / relative;
    if (folder == folder.parent_path()) break;
  }
  return std::nullopt;
}

std::optional<fs::path> find_program(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::string rest = path == nullptr ? "/usr/bin:/bin" : path;
  std::error_code error;
  while (!rest.empty()) {
    const std::string folder = rest.substr(0, rest.find(':'));
    rest.erase(0, folder.size() + 1);
    fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    const auto status = fs::status(candidate, error);
    if (fs::is_regular_file(status) &&
        (status.permissions() & fs::perms::others_exec) != fs::perms::none) {
      return candidate;
    }
  }
  return std::nullopt;
}

std::string make_folder(const std::string& path) {
  std::error_code ignored;
  fs::create_directories(path, ignored);
  return path;
}

// Returns why a program that reads one format alone refuses the requested one; empty if it reads
// it.
std::string refusal(const SharedWork& work, const std::string& format, const char* knows) {
  if (work.format == format) return "";
  return fmt::format("it cannot sort --format {}: {} (try: --format {})", work.format, knows,
                     format);
}
constexpr const char* knows_lines = "it compares lines of text, and knows no binary numbers";

void gnu_sort(ComparedProgram& program, const SharedWork& work, const std::string& folder) {
  program.problem = refusal(work, "lines", knows_lines);
  if (program.problem.empty() && !find_program("sort")) {
    program.problem = "there is no program sort here";
  }
  program.words = {"env",
                   "LC_ALL=C",
                   "sort",
                   "-S",
                   fmt::format("{}b", work.memory_bytes),
                   "-T",
                   make_folder(folder + "/tmp"),
                   fmt::format("--parallel={}", work.threads),
                   "-o",
                   program.output,
                   work.input};
  program.same_bytes = true;
}

void penstock_sort(ComparedProgram& program, const SharedWork& work, const std::string& folder) {
  program.words = {own_program().string(),
                   "sort",
                   "--format",
                   work.format,
                   "-S",
                   fmt::format("{}b", work.memory_bytes),
                   "-T",
                   make_folder(folder + "/tmp"),
                   fmt::format("--parallel={}", work.threads),
                   "-o",
                   program.output,
                   work.input};
  if (!work.device.empty()) program.words.insert(program.words.end(), {"--device", work.device});
  program.same_bytes = true;
}

void duckdb(ComparedProgram& program, const SharedWork& work, const std::string& folder) {
  const auto script = find_part("bench/rivals/external/columns.py");
  const auto python = find_part("build/rivals/bin/python");
  program.problem = refusal(work, "u64", "its input is packed here as one column of numbers");
  if (!program.problem.empty()) return;
  if (!script || !python) {
    program.problem = "it is not installed (tools/setup.sh bench, in the source tree)";
  } else {
    // The program reads an uncompressed Parquet file fastest.
    program.input = folder + "/input.parquet";
    program.output = folder + "/sorted.parquet";
    program.prepare = {python->string(), script->string(), "pack", work.input, program.input};
    program.words = {"env",
                     "PYTHONDONTWRITEBYTECODE=1",
                     python->string(),
                     script->string(),
                     "duckdb",
                     program.input,
                     program.output,
                     std::to_string(work.memory_bytes),
                     std::to_string(work.threads),
                     make_folder(folder + "/tmp"),
                     no_limit_seconds};
  }
}

void stxxl(ComparedProgram& program, const SharedWork& work, const std::string& folder) {
  const auto sorter = find_part("bench/stxxl_sort");
  program.problem =
      refusal(work, "u64", "a template of C++, it is compiled here for 64-bit numbers alone");
  if (!program.problem.empty()) return;
  if (!sorter) {
    program.problem = "it was not built (libstxxl-dev; the target stxxl_sort)";
    return;
  }
  std::error_code missing;
  const uint64_t disk_mib = fs::file_size(work.input, missing) / MiB + 64;
  const std::string config = folder + "/config";
  std::ofstream(config) << fmt::format("disk={}/disk,{}MiB,syscall autogrow delete\n",
                                       make_folder(folder + "/tmp"), disk_mib);
  program.words = {"env",
                   "STXXLCFG=" + config,
                   "STXXLLOGFILE=/dev/null",
                   "STXXLERRLOGFILE=/dev/null",
                   "STXXL_SORT_SYSTEM_CALLS=1",
                   fmt::format("OMP_NUM_THREADS={}", work.threads),
                   sorter->string(),
                   work.input,
                   program.output,
                   std::to_string(work.memory_bytes),
                   no_limit_seconds};
  program.same_bytes = true;
}

// Sets up Spark in one JVM, which sorts lines by their bytes, as the other programs do.
void spark(ComparedProgram& program, const SharedWork& work, const std::string& folder) {
  const auto submit = find_program("spark-submit");
  // Spark does not start with less than 450 MiB of heap. A quarter of the memory is not heap.
  constexpr uint64_t heap_mib_min = 480;
  const uint64_t heap_mib = work.memory_bytes / MiB * 3 / 4;
  program.problem = refusal(work, "lines", knows_lines);
  if (!program.problem.empty()) return;
  if (!submit) {
    program.problem = "there is no program spark-submit here (pip install pyspark)";
  } else if (!find_program("java") && std::getenv("JAVA_HOME") == nullptr) {
    program.problem = "it needs a JVM, and there is no program java here";
  } else if (heap_mib < heap_mib_min) {
    program.problem = fmt::format("it needs --memory {}M at least", heap_mib_min * 4 / 3);
  } else {
    const std::string script = folder + "/spark_sort.py";
    std::ofstream(script) << "import sys\n"
                             "from pyspark.sql import SparkSession\n"
                             "SparkSession.builder.getOrCreate().read.text(sys.argv[1])"
                             ".sort('value').write.text(sys.argv[2])\n";
    program.words = {submit->string(),
                     "--master",
                     fmt::format("local[{}]", work.threads),
                     "--driver-memory",
                     fmt::format("{}m", heap_mib),
                     "--conf",
                     "spark.local.dir=" + make_folder(folder + "/tmp"),
                     "--conf",
                     "spark.ui.enabled=false",
                     script,
                     work.input,
                     program.output};
  }
}

using Prepare = void (*)(ComparedProgram&, const SharedWork&, const std::string&);
constexpr std::array<std::pair<const char*, Prepare>, 5> presets = {
    std::pair{"gnu-sort", &gnu_sort}, std::pair{"penstock", &penstock_sort},
    std::pair{"duckdb", &duckdb}, std::pair{"stxxl", &stxxl}, std::pair{"spark", &spark}};

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, prepare] : presets) names.emplace_back(name);
  return names;
}

Result<ComparedProgram> preset(const std::string& name, const SharedWork& work,
                               const std::string& folder) {
  for (const auto& [known, prepare] : presets) {
    if (name != known) continue;
    ComparedProgram program{.name = name, .input = work.input, .output = folder + "/sorted"};
    prepare(program, work, folder);
    return program;
  }
  return failure(ErrorCode::invalid_argument, "run this program: it is not prepared", name,
                 fmt::format("{}; or --run '{}=COMMAND {{input}} {{output}}'",
                             fmt::join(preset_names(), ", "), name));
}

Result<ComparedProgram> user_program(const std::string& name_and_command, const SharedWork& work,
                                     const std::string& folder) {
  const size_t equals = name_and_command.find('=');
  if (equals == 0 || equals == std::string::npos || equals + 1 == name_and_command.size()) {
    return failure(ErrorCode::invalid_argument, "read this as a program",
                   "--run " + name_and_command,
                   "--run 'NAME=COMMAND {input} {output} {memory} {tmp}'");
  }
  ComparedProgram program{.name = name_and_command.substr(0, equals),
                          .input = work.input,
                          .output = folder + "/output"};
  const std::array<std::pair<std::string_view, std::string>, 5> places = {
      std::pair{std::string_view("{input}"), shell_word(work.input)},
      std::pair{std::string_view("{output}"), shell_word(program.output)},
      std::pair{std::string_view("{memory}"), std::to_string(work.memory_bytes)},
      std::pair{std::string_view("{threads}"), std::to_string(work.threads)},
      std::pair{std::string_view("{tmp}"), shell_word(make_folder(folder + "/tmp"))}};
  std::string command;
  std::string_view rest = std::string_view(name_and_command).substr(equals + 1);
  while (!rest.empty()) {
    bool replaced = false;
    for (const auto& [place, value] : places) {
      if (!rest.starts_with(place)) continue;
      command += value;
      rest.remove_prefix(place.size());
      replaced = true;
      break;
    }
    if (replaced) continue;
    command += rest.front();
    rest.remove_prefix(1);
  }
  program.words = {"sh", "-c", command};
  return program;
}

}  // namespace penstock::cli
