#include "cli/sort/tables.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "api/option_table.h"
#include "base/misuse.h"
#include "cli/common/command.h"
#include "cli/common/modes.h"

namespace penstock::cli {
namespace {

// What the package's program does not say of itself.
constexpr const char* program = R"python(
import sys
try:
    from penstock.__main__ import main
except ImportError as error:
    print(f"penstock sort: this is what the Python package penstock does, which {sys.executable} does not have: {error} "
          "(try: pip install . in the sources of penstock, and pip install pyarrow)", file=sys.stderr)
    sys.exit(2)
sys.exit(main())
)python";

// The Python beside the program, with which it may have been installed, or the first one on the path.
std::string python() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = self.parent_path() / "python3";
  return !error && ::access(beside.c_str(), X_OK) == 0 ? beside : "python3";
}

// The words of the items by their names in the table of options, as penstock/ray/job.py has them.
std::string json_of(const ItemFormat& items) {
  auto object = nlohmann::json::object();
  api::for_each_option<ItemFormat>([&](const api::OptionText& text, auto field) {
    const auto& value = field(items);
    using Value = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_same_v<Value, std::optional<char>>)
      object[text.name] = value ? nlohmann::json(std::string(1, *value)) : nlohmann::json();
    else if constexpr (requires { value.has_value(); })
      object[text.name] = value ? nlohmann::json(*value) : nlohmann::json();
    else
      object[text.name] = value;
  });
  return object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

int sort_by_package(const Parser& parser, const SortWords& words, const PackageWords& package) {
  const bool cluster = package.engine == "ray";
  if (!cluster && package.engine != "local")
    return report(
        "sort", misuse("sort by this engine", "--engine " + package.engine, "local, ray").error());
  const Mode& mode = !cluster             ? modes::sorts_tables
                     : package.by.empty() ? modes::sorts_on_cluster
                                          : modes::sorts_tables_on_cluster;
  if (Status obeyed = parser.refuse_outside(mode); !obeyed) return report("sort", obeyed.error());
  if (words.inputs.empty() || words.output == "-") {
    return report("sort", cluster ? misuse("sort from or to a pipe on a cluster", "--engine ray",
                                           "penstock sort --engine ray FILE... -o FOLDER")
                                        .error()
                                  : misuse("sort tables from or to a pipe", "--by",
                                           "penstock sort --by COLUMN TABLE -o TABLE")
                                        .error());
  }
  const auto memory = memory_bytes_of(words);
  if (!memory) return report("sort", memory.error());
  std::vector<std::string> arguments = {python(), "-c", program, "sort"};
  auto add = [&](const char* name, const std::string& value) {
    arguments.insert(arguments.end(), {name, value});
  };
  for (const std::string& keys : package.by) add("--by", keys);
  add("--output", words.output);
  // A cluster has other memory, and other processors.
  if (!cluster || parser.given("--buffer-size")) add("--buffer-size", std::to_string(*memory));
  if (!cluster || parser.given("--parallel")) add("--parallel", std::to_string(words.sort.threads));
  if (cluster) {
    add("--engine", package.engine);
    const auto items = words.format.items(words.descending);
    if (!items) return report("sort", items.error());
    add("--items", json_of(*items));
  }
  for (const std::string& folder : words.temp_directories) add("--temporary-directory", folder);
  if (words.sort.top) add("--top", std::to_string(*words.sort.top));
  arguments.emplace_back("--");
  arguments.insert(arguments.end(), words.inputs.begin(), words.inputs.end());
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return report("sort", {ErrorCode::not_found, "start Python, which sorts tables",
                         arguments.front(), errno, "the package python3"});
}

}  // namespace penstock::cli
