// penstock-bench NAME [--quick] [--json] [--runs N] [-T DIRECTORY]
// penstock-bench --list

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/harness/registry.h"
#include "bench/harness/scratch.h"
#include "io/temporaries.h"
#include "test/support/environment.h"

namespace penstock::bench {
namespace {

struct Arguments {
  std::vector<std::string> names;
  Options options;
  bool json = false;
  bool list = false;
};

constexpr const char* usage =
    "usage: penstock-bench NAME... [--quick] [--json] [--runs N] [-T DIRECTORY] [--program "
    "PENSTOCK]\n"
    "       penstock-bench --list\n";

// Parses the arguments; nullopt if there is an unknown one.
std::optional<Arguments> parse(std::span<char*> words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    std::string_view word = words[i];
    bool has_value = i + 1 < words.size();
    if (word == "--quick") {
      arguments.options.quick = true;
    } else if (word == "--json") {
      arguments.json = true;
    } else if (word == "--list") {
      arguments.list = true;
    } else if (word == "-T" && has_value) {
      arguments.options.directory = words[++i];
    } else if (word == "--program" && has_value) {
      arguments.options.program = words[++i];
    } else if (word == "--runs" && has_value) {
      std::string_view text = words[++i];
      auto [end, problem] =
          std::from_chars(text.data(), text.data() + text.size(), arguments.options.runs);
      bool whole = problem == std::errc{} && end == text.data() + text.size();
      if (!whole || arguments.options.runs == 0) return {};
    } else if (word.starts_with("-")) {
      return {};
    } else {
      arguments.names.emplace_back(word);
    }
  }
  if (!arguments.list && arguments.names.empty()) return {};
  return arguments;
}

// The program penstock in the same build folder.
std::string program_beside_us() {
  std::error_code ignored;
  auto self = std::filesystem::read_symlink("/proc/self/exe", ignored);
  return self.parent_path().parent_path() / "cli" / "penstock";
}

void print_json(const std::string& name, const Report& report) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Row& row : report.rows()) {
    rows.push_back(
        {{"what", row.what}, {"value", row.value}, {"unit", row.unit}, {"samples", row.samples}});
  }
  nlohmann::ordered_json object = {{"bench", name},
                                   {"hash", fmt::format("{:016x}", report.hash())},
                                   {"rows", rows},
                                   {"ratios", nlohmann::ordered_json::object()}};
  for (const auto& [ratio, value] : report.ratios()) object["ratios"][ratio] = value;
  fmt::print("{}\n", object.dump());
}

void print_table(const std::string& name, const Report& report) {
  size_t width = 0;
  for (const Row& row : report.rows()) width = std::max(width, row.what.size());
  for (const auto& [ratio, value] : report.ratios()) width = std::max(width, ratio.size());

  fmt::print("{}  (result hash {:016x})\n", name, report.hash());
  for (const Row& row : report.rows()) {
    fmt::print("  {:<{}}  {:>12.3f} {:<8}", row.what, width, row.value, row.unit);
    if (row.samples.size() > 1) {
      auto [low, high] = std::minmax_element(row.samples.begin(), row.samples.end());
      fmt::print("  of {} runs, {:.3f} to {:.3f}", row.samples.size(), *low, *high);
    }
    fmt::print("\n");
  }
  for (const auto& [ratio, value] : report.ratios()) {
    fmt::print("  {:<{}}  {:>12.2f} x\n", ratio, width, value);
  }
}

// Prints rows as they come to the error output; the tables follow when their benches end.
void tell(const Row& row) {
  fmt::print(stderr, "{}: {:.3f} {}\n", row.what, row.value, row.unit);
}

int run(const Arguments& arguments) {
  if (!arguments.options.quick) listen_to_rows(tell);
  for (const std::string& name : arguments.names) {
    auto bench = registry().find(name);
    if (bench == registry().end()) {
      fmt::print(stderr, "penstock-bench: {}: no such bench (try: --list)\n", name);
      return 2;
    }
    Result<Report> report = bench->second.run(arguments.options);
    if (!report) {
      fmt::print(stderr, "penstock-bench {}: {}\n", name, report.error().message());
      return 2;
    }
    arguments.json ? print_json(name, *report) : print_table(name, *report);
    std::fflush(stdout);
  }
  return 0;
}

void list() {
  for (const auto& [name, bench] : registry()) fmt::print("{:<20}  {}\n", name, bench.question);
}

}  // namespace
}  // namespace penstock::bench

int main(int argc, char** argv) {
  using namespace penstock::bench;
  if (auto status = penstock::io::obey_environment(); !status) {
    fmt::print(stderr, "penstock-bench: {}\n", status.error().message());
    return 2;
  }
  auto arguments = parse(std::span(argv + 1, static_cast<size_t>(argc - 1)));
  if (!arguments) {
    fmt::print(stderr, "{}", usage);
    return 2;
  }
  if (arguments->list) {
    list();
    return 0;
  }
  Options& options = arguments->options;
  if (options.directory.empty()) options.directory = penstock::io::default_temp_directory();
  if (options.program.empty()) options.program = program_beside_us();
  end_cleanly_on_signals();
  return run(*arguments);
}
