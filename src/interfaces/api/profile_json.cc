#include "interfaces/api/profile_json.h"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace penstock::api {
namespace {

using Json = nlohmann::ordered_json;
using bowtie::DeviceProfile;
using bowtie::Measurement;
using bowtie::SwitchDelay;

constexpr const char* kind = "penstock device profile";
constexpr int version = 1;
constexpr uintmax_t file_bytes_max = 16 << 20;

struct ShortName {
  const char* name;
  const char* profile;
};
constexpr std::array short_names = {ShortName{"array24", "paper-array"},
                                    ShortName{"hdd", "hard-disk"}, ShortName{"nvme", "nvme-ssd"}};
constexpr const char* known_names =
    "array24, hdd, sata-ssd, nvme, or a file that penstock disk has written";

Json delay_json(const SwitchDelay& delay) {
  if (delay.inputs().empty()) return delay.seconds().front();
  Json rows = Json::array();
  for (size_t row = 0; row < delay.inputs().size(); ++row) {
    const auto values = delay.seconds().subspan(row * delay.outputs().size(),  //
                                                delay.outputs().size());
    rows.push_back(std::vector<double>(values.begin(), values.end()));
  }
  return {{"inputs", std::vector<uint32_t>(delay.inputs().begin(), delay.inputs().end())},
          {"outputs", std::vector<uint32_t>(delay.outputs().begin(), delay.outputs().end())},
          {"seconds", rows}};
}

Json fit_json(const bowtie::DelayFit& fit) {
  return {{"seconds", fit.seconds},
          {"low_seconds", fit.low_seconds},
          {"high_seconds", fit.high_seconds},
          {"told_from_zero", fit.significant()},
          {"error", fit.error}};
}

// Reads the fields of a profile's JSON. The first error is kept; fields read after it are empty.
class Reader {
 public:
  explicit Reader(const std::string& subject) : subject_(subject) {}

  Status status() const { return status_; }

  void complain(const std::string& what) {
    if (!status_) return;
    status_ = failure(ErrorCode::corrupt, "use it as a device profile: " + what, subject_,
                      "penstock disk DIR -o PROFILE.json writes one");
  }

  const Json& field(const Json& object, const char* name) {
    static const Json nothing;
    const auto found = object.find(name);
    if (found != object.end()) return *found;
    complain(fmt::format("{} is missing", name));
    return nothing;
  }
  double number(const Json& value, const char* name) {
    if (value.is_number()) return value.get<double>();
    complain(fmt::format("{} is no number", name));
    return 0;
  }
  std::string text(const Json& object, const char* name) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return {};
    if (found->is_string()) return found->get<std::string>();
    complain(fmt::format("{} is no text", name));
    return {};
  }
  uint64_t count(const Json& value, const char* name, uint64_t max) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= max) return value.get<uint64_t>();
    complain(fmt::format("{} is no whole number from 0 to {}", name, max));
    return 0;
  }
  std::vector<uint32_t> streams(const Json& delay, const char* name) {
    const Json& list = field(delay, name);
    if (!list.is_array()) complain(fmt::format("switch_seconds.{} is no list", name));
    std::vector<uint32_t> numbers;
    for (const Json& value : list) {
      numbers.push_back(
          static_cast<uint32_t>(count(value, name, std::numeric_limits<uint32_t>::max())));
    }
    return numbers;
  }
  SwitchDelay delay(const Json& value) {
    if (value.is_number()) return SwitchDelay(value.get<double>());
    if (!value.is_object()) {
      complain("switch_seconds is neither a number nor a table");
      return {};
    }
    std::vector<uint32_t> inputs = streams(value, "inputs");
    std::vector<uint32_t> outputs = streams(value, "outputs");
    std::vector<double> seconds;
    const Json& rows = field(value, "seconds");
    if (rows.size() != inputs.size()) complain("switch_seconds.seconds has not a row for each n");
    for (const Json& row : rows) {
      if (!row.is_array() || row.size() != outputs.size()) {
        complain("a row of switch_seconds.seconds has not a value for each m");
        return {};
      }
      for (const Json& cell : row) seconds.push_back(number(cell, "switch_seconds.seconds"));
    }
    if (!status_) return {};
    auto table = SwitchDelay::table(std::move(inputs), std::move(outputs), std::move(seconds));
    if (table) return *table;
    complain("switch_seconds: " + table.error().hint);
    return {};
  }

 private:
  std::string subject_;
  Status status_;
};

Result<std::string> read_text(const std::string& path) {
  std::error_code problem;
  if (std::filesystem::is_directory(path, problem)) {
    return system_error(EISDIR, "read a device profile", path, "a file in it");
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) return system_error(errno, "open", path);
  if (std::filesystem::is_regular_file(path, problem) &&
      std::filesystem::file_size(path, problem) > file_bytes_max) {
    return failure(ErrorCode::corrupt, "use it as a device profile: it is far too long", path);
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return system_error(EIO, "read", path);
  return std::move(text).str();
}

}  // namespace

Json profile_json(const ProfileFile& file, const Json& measurement) {
  const DeviceProfile& profile = file.profile;
  Json json = {{"kind", kind},
               {"version", version},
               {"name", profile.name},
               {"source", profile.source},
               {"emulated", file.emulated.empty() ? Json(nullptr) : Json(file.emulated)},
               {"read_bytes_per_s", profile.read_bytes_per_s},
               {"write_bytes_per_s", profile.write_bytes_per_s},
               {"switch_seconds", delay_json(profile.switch_seconds)},
               {"cache_bytes", profile.cache_bytes}};
  if (!measurement.is_null()) json["measurement"] = measurement;
  return json;
}

Json measurement_json(const Measurement& measurement) {
  Json json = {{"seconds", measurement.seconds},
               {"bytes_read", measurement.bytes_read},
               {"bytes_written", measurement.bytes_written},
               {"zones", Json::array()},
               {"delay_of_all", fit_json(measurement.together)},
               {"shapes", Json::array()},
               {"checks", Json::array()}};
  for (const Measurement::Zone& zone : measurement.zones) {
    json["zones"].push_back({{"read_bytes_per_s", zone.read_bytes_per_s},
                             {"write_bytes_per_s", zone.write_bytes_per_s},
                             {"first_write_bytes_per_s", zone.first_write_bytes_per_s}});
  }
  for (const Measurement::Shape& shape : measurement.shapes) {
    Json samples = Json::array();
    for (const bowtie::DelaySample& sample : shape.samples) {
      samples.push_back({sample.repetition, sample.run_bytes, sample.seconds_per_byte});
    }
    json["shapes"].push_back({{"inputs", shape.inputs},
                              {"outputs", shape.outputs},
                              {"read_share", shape.read_share},
                              {"delay", fit_json(shape.fit)},
                              {"at_once", shape.at_once},
                              {"samples", std::move(samples)}});
  }
  for (const Measurement::Check& check : measurement.checks) {
    json["checks"].push_back({{"inputs", check.pattern.inputs},
                              {"outputs", check.pattern.outputs},
                              {"run_bytes", check.pattern.run_bytes},
                              {"predicted_bytes_per_s", check.predicted_bytes_per_s},
                              {"measured_bytes_per_s", check.measured_bytes_per_s}});
  }
  return json;
}

Result<ProfileFile> parse_profile(const std::string& text, const std::string& subject) {
  Reader reader(subject);
  const Json json = Json::parse(text, nullptr, false);
  // Not value(), which copies: untrusted JSON may be nested deeper than the stack allows.
  const auto kind_of = json.find("kind");
  if (!json.is_object() || kind_of == json.end() || *kind_of != kind) {
    reader.complain("it is none");
    return std::unexpected(reader.status().error());
  }
  if (const Json& found = reader.field(json, "version"); found != version) {
    reader.complain(fmt::format("it has version {}, this program knows version {}",
                                found.dump(-1, ' ', true, Json::error_handler_t::replace),
                                version));
  }
  ProfileFile file;
  DeviceProfile& profile = file.profile;
  profile.name = reader.text(json, "name");
  if (profile.name.empty()) profile.name = subject;
  profile.source = reader.text(json, "source");
  file.emulated = reader.text(json, "emulated");
  profile.read_bytes_per_s =
      reader.number(reader.field(json, "read_bytes_per_s"), "read_bytes_per_s");
  profile.write_bytes_per_s =
      reader.number(reader.field(json, "write_bytes_per_s"), "write_bytes_per_s");
  profile.switch_seconds = reader.delay(reader.field(json, "switch_seconds"));
  if (json.contains("cache_bytes")) {
    profile.cache_bytes = reader.count(json["cache_bytes"], "cache_bytes", ~uint64_t{0});
  }
  if (reader.status()) {
    if (auto usable = profile.check(); !usable) reader.complain(usable.error().hint);
  }
  if (auto status = reader.status(); !status) return std::unexpected(status.error());
  return file;
}

Result<ProfileFile> load_device(const std::string& name) {
  for (const ShortName& known : short_names) {
    if (name == known.name) return ProfileFile{*bowtie::find_profile(known.profile), {}};
  }
  if (const DeviceProfile* found = bowtie::find_profile(name)) return ProfileFile{*found, {}};
  std::error_code problem;
  if (name.find('/') == std::string::npos && !std::filesystem::exists(name, problem)) {
    return failure(ErrorCode::not_found, "find this device", name, known_names);
  }
  auto text = read_text(name);
  if (!text) return std::unexpected(text.error());
  return parse_profile(*text, name);
}

}  // namespace penstock::api

namespace penstock {

Result<DeviceProfile> load_profile(const std::string& name) {
  auto loaded = api::load_device(name);
  if (!loaded) return std::unexpected(loaded.error());
  return std::move(loaded->profile);
}

}  // namespace penstock
