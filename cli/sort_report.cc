#include "cli/sort_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

namespace penstock::cli {
namespace {

using Json = nlohmann::json;
using trace::report::SortRun;
using trace::report::Staircase;

std::optional<double> number_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return std::nullopt;
  const auto value = found->get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

std::string text_of(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

// Lists of objects that have a "phase".
Json phase_named(const Json& object, const std::string& name) {
  const auto found = object.find("phases");
  if (found == object.end() || !found->is_array()) return Json::object();
  for (const Json& phase : *found) {
    if (phase.is_object() && text_of(phase, "phase") == name) return phase;
  }
  return Json::object();
}

std::vector<std::string> phase_names(const Json& object) {
  std::vector<std::string> names;
  const auto found = object.find("phases");
  if (found == object.end() || !found->is_array()) return names;
  for (const Json& phase : *found) {
    if (phase.is_object()) names.push_back(text_of(phase, "phase"));
  }
  return names;
}

// Each phase with its prediction beside it; then what threads did within them. A phase that was
// planned and did not come has its row, too.
void add_phases(const Json& object, const Json& predicted, SortRun& run) {
  std::vector<std::string> names = phase_names(object);
  for (const std::string& name : phase_names(predicted)) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  struct Field {
    const char* what;
    SortRun::Unit unit;
    const char* key;
  };
  static constexpr std::array<Field, 5> fields = {{
      {"time", SortRun::Unit::seconds, "seconds"},
      {"read", SortRun::Unit::bytes, "bytes_read"},
      {"written", SortRun::Unit::bytes, "bytes_written"},
      {"seeks", SortRun::Unit::count, "seeks"},
      {"bytes between two seeks", SortRun::Unit::bytes, "run_bytes"},
  }};
  for (const std::string& name : names) {
    const Json planned = phase_named(predicted, name);
    const Json done = phase_named(object, name);
    for (const Field& field : fields) {
      const auto expected = number_of(planned, field.key);
      const auto measured = number_of(done, field.key);
      if (expected.value_or(0) == 0 && measured.value_or(0) == 0) continue;
      run.rows.push_back({.what = fmt::format("Phase \"{}\": {}", name, field.what),
                          .unit = field.unit,
                          .predicted = expected,
                          .measured = measured});
    }
  }
  const auto seconds = object.find("phase_seconds");
  if (seconds == object.end() || !seconds->is_object()) return;
  for (const auto& [phase, value] : seconds->items()) {
    if (!value.is_number() || std::ranges::find(names, phase) != names.end()) continue;
    run.rows.push_back({.what = "Time of phase: " + phase,
                        .unit = SortRun::Unit::seconds,
                        .predicted = std::nullopt,
                        .measured = value.get<double>()});
  }
}

std::vector<double> numbers_of(const Json& object, const char* key) {
  std::vector<double> numbers;
  const auto found = object.find(key);
  if (found == object.end() || !found->is_array()) return numbers;
  for (const Json& one : *found) {
    if (one.is_number()) numbers.push_back(std::max(0.0, one.get<double>()));
  }
  return numbers;
}

}  // namespace

Result<SortRun> sort_run_of(const std::string& json, const std::string& name) {
  auto refuse = [&](const char* why) {
    return failure(ErrorCode::corrupt, std::string("read the statistics: ") + why, name,
                   "a file that penstock sort --stats wrote");
  };
  const Json object = Json::parse(json, nullptr, false);
  if (object.is_discarded()) return refuse("this is no JSON");
  if (!object.is_object()) return refuse("this is no JSON object");
  if (number_of(object, "version") != 1.0) return refuse("it is not version 1 of them");

  SortRun run{.name = name, .method = text_of(object, "method")};
  const auto found = object.find("predicted");
  const Json predicted = found != object.end() && found->is_object() ? *found : Json::object();
  run.why = text_of(predicted, "why");

  // The prediction calls its peak of memory otherwise.
  struct Field {
    const char* what;
    SortRun::Unit unit;
    const char* predicted;
    const char* measured;
  };
  static constexpr std::array<Field, 8> fields = {{
      {"Time", SortRun::Unit::seconds, "seconds", "seconds"},
      {"Passes", SortRun::Unit::count, "passes", "passes"},
      {"Seeks", SortRun::Unit::count, "seeks", "seeks"},
      {"Bytes between two seeks", SortRun::Unit::bytes, "run_bytes", "run_bytes"},
      {"Read", SortRun::Unit::bytes, "bytes_read", "bytes_read"},
      {"Written", SortRun::Unit::bytes, "bytes_written", "bytes_written"},
      {"Temporary disk space", SortRun::Unit::bytes, "temp_bytes", "temp_bytes"},
      {"Memory", SortRun::Unit::bytes, "memory_bytes", "peak_rss_bytes"},
  }};
  for (const Field& field : fields) {
    run.rows.push_back({.what = field.what,
                        .unit = field.unit,
                        .predicted = number_of(predicted, field.predicted),
                        .measured = number_of(object, field.measured)});
  }
  add_phases(object, predicted, run);
  const auto staircases = object.find("staircases");
  if (staircases != object.end() && staircases->is_array()) {
    for (const Json& one : *staircases) {
      if (!one.is_object()) continue;
      run.staircases.push_back({.title = text_of(one, "title"),
                                .measured_bytes = numbers_of(one, "measured_bytes"),
                                .predicted_bytes = numbers_of(one, "predicted_bytes")});
    }
  }
  return run;
}

}  // namespace penstock::cli
