// penstock disk: measures a disk, and saves the results as a profile for penstock plan.

#include <fmt/chrono.h>
#include <fmt/core.h>

#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "base/wrapped.h"
#include "cli/common/command.h"
#include "cli/common/output_words.h"
#include "cli/common/print.h"
#include "cli/common/progress_line.h"
#include "cli/common/size.h"
#include "cli/common/stop_signals.h"
#include "cli/common/write_file.h"
#include "files/bowtie/device_measurement.h"
#include "interfaces/api/profile_json.h"
#include "io/emulation.h"
#include "penstock/base.h"

namespace penstock::cli {
namespace {

using Json = nlohmann::ordered_json;
using bowtie::DelayFit;
using bowtie::FileDevice;
using bowtie::Measurement;

constexpr const char* usual_size = "4G";
constexpr const char* quick_size = "512M";
// The relative deviation of the samples beyond which the table warns.
constexpr double noise_max = 0.1;

struct DiskArguments {
  std::string directory;
  std::string size;
  std::string name;
  std::string output;
  bool quick = false;
  bool json = false;
  OutputRules output_rules;
};

// The measurement, and the places of its files on the disk.
struct Found {
  Measurement measurement;
  std::vector<std::optional<FileDevice::ZoneExtent>> places;
  api::ProfileFile file;
  uint64_t bytes = 0;
};

double gb(double bytes_per_s) {
  return bytes_per_s / 1e9;
}
double in_gib(uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(GiB);
}

std::string place_text(const std::optional<FileDevice::ZoneExtent>& place) {
  if (!place) return "place unknown";
  if (place->pieces == 1) return fmt::format("in one piece, at {:.1f} GiB", in_gib(place->begin));
  return fmt::format("{} pieces, from {:.1f} GiB on", place->pieces, in_gib(place->begin));
}

std::string delay_text(const DelayFit& fit) {
  return fmt::format("{:>9.1f}  {:>9.1f} to {:>9.1f}   {:<11} {:>4.1f} %", fit.seconds * 1e6,
                     fit.low_seconds * 1e6, fit.high_seconds * 1e6,
                     fit.significant() ? "yes" : "no", fit.error * 100);
}

// The result in a sentence or two.
std::string verdict(const Measurement& measurement) {
  const DelayFit& fit = measurement.together;
  const double lost = fit.high_seconds / (fit.seconds_per_byte * 2.0 * static_cast<double>(MiB));
  if (!measurement.any_delay()) {
    return fmt::format(
        "The switch delay is too small to measure: over all shapes it is at most {:.1f} us, "
        "which costs runs of 2 MiB {:.1f} %. The profile says 0: on this disk, plan for few "
        "passes, not for long runs.",
        std::max(0.0, fit.high_seconds) * 1e6, std::max(0.0, lost) * 100);
  }
  size_t told = 0;
  double most = 0;
  for (const Measurement::Shape& shape : measurement.shapes) {
    told += shape.fit.significant() ? 1 : 0;
    most = std::max(most, shape.fit.usable_seconds());
  }
  const std::string others = told == measurement.shapes.size()
                                 ? ""
                                 : "The others are too small to measure, and 0 in the profile. ";
  return fmt::format(
      "A switch delay was found in {} of {} shapes, {:.3g} ms at most. {}Runs of {:.2f} MiB lose "
      "half of the speed.",
      told, measurement.shapes.size(), most * 1e3, others,
      most / fit.seconds_per_byte / static_cast<double>(MiB));
}

void print_speeds(const DiskArguments& arguments, const Found& found) {
  const Measurement& measured = found.measurement;
  if (!found.file.emulated.empty()) print("EMULATED, not the real disk: {}\n", found.file.emulated);
  print("{}: {:.2f} GiB in {} files, direct, random data\n\n", printable(arguments.directory),
        in_gib(found.bytes), measured.zones.size());

  print("GB/s        read     write   first write\n");
  for (size_t i = 0; i < measured.zones.size(); ++i) {
    const Measurement::Zone& zone = measured.zones[i];
    print("zone {:<3}{:>8.3f}  {:>8.3f}      {:>8.3f}   {}\n", i + 1, gb(zone.read_bytes_per_s),
          gb(zone.write_bytes_per_s), gb(zone.first_write_bytes_per_s),
          place_text(found.places[i]));
  }
  print("all     {:>8.3f}  {:>8.3f}\n\n", gb(measured.read_bytes_per_s),
        gb(measured.write_bytes_per_s));

  print(
      "switch delay in us: the slope of time per byte over 1 / run length, and its\n"
      "interval of 99.5 %; at once: reads and writes together\n"
      "inputs  outputs     delay       from        to      is not 0  noise  at once\n");
  for (const Measurement::Shape& shape : measured.shapes) {
    print("{:>6}  {:>7} {}   {:.2f} x\n", shape.inputs, shape.outputs, delay_text(shape.fit),
          shape.at_once);
  }
  print("all together    {}\n", delay_text(measured.together));
  print("{}\n", wrapped(verdict(measured), 0));
  if (measured.together.error > noise_max) {
    print(
        "The times vary by {:.0f} %: other programs use the disk or the processors.\nMeasure "
        "again.\n",
        measured.together.error * 100);
  }

  if (!measured.checks.empty()) {
    print("\ncheck: patterns that were not fitted, GB/s\n");
    print("inputs  outputs   run, MiB   predicted   measured   measured / predicted\n");
  }
  for (const Measurement::Check& check : measured.checks) {
    print("{:>6}  {:>7}   {:>8.2f}   {:>9.3f}   {:>8.3f}   {:.2f}\n", check.pattern.inputs,
          check.pattern.outputs,
          static_cast<double>(check.pattern.run_bytes) / static_cast<double>(MiB),
          gb(check.predicted_bytes_per_s), gb(check.measured_bytes_per_s),
          check.measured_bytes_per_s / check.predicted_bytes_per_s);
  }
  print("\nTook {:.0f} s, {:.1f} GB read, {:.1f} GB written.\n", measured.seconds,
        static_cast<double>(measured.bytes_read) / 1e9,
        static_cast<double>(measured.bytes_written) / 1e9);
}

Json json_of(const Found& found) {
  Json measurement = api::measurement_json(found.measurement);
  measurement["bytes"] = found.bytes;
  for (size_t i = 0; i < found.places.size(); ++i) {
    const auto& place = found.places[i];
    measurement["zones"][i]["pieces"] = place ? Json(place->pieces) : Json(nullptr);
    measurement["zones"][i]["place_bytes"] = place ? Json(place->begin) : Json(nullptr);
  }
  return api::profile_json(found.file, measurement);
}

std::string today() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  return fmt::format("{:%Y-%m-%d}", fmt::localtime(now));
}

Result<Found> measure_disk(const DiskArguments& arguments, const StopSignals& signals) {
  std::string size = arguments.size;
  if (size.empty()) size = arguments.quick ? quick_size : usual_size;
  auto bytes = parse_size("--size", size, 0);
  if (!bytes) return std::unexpected(bytes.error());
  auto device = FileDevice::open({.directory = arguments.directory,  //
                                  .bytes = *bytes,
                                  .cancel = &signals.flag()});
  if (!device) return std::unexpected(device.error());

  ProgressLine line;
  std::function<void(const bowtie::MeasurementProgress&)> show;
  if (line.wanted()) {
    show = [&](const bowtie::MeasurementProgress& now) {
      line.show({now.phase, now.done_bytes, now.total_bytes});
    };
  }
  const auto plan =
      arguments.quick ? bowtie::MeasurementPlan::quick() : bowtie::MeasurementPlan::full();
  auto measured = bowtie::measure(**device, plan, &signals.flag(), show);
  if (!measured) {
    if (measured.error().code == ErrorCode::invalid_argument) {
      measured.error().subject = arguments.directory;
      measured.error().hint = "a larger --size";
    }
    return std::unexpected(measured.error());
  }
  Found found{.measurement = std::move(*measured), .bytes = *bytes};
  for (unsigned zone = 0; zone < (*device)->zones(); ++zone) {
    found.places.push_back((*device)->extent(zone));
  }
  const std::string name =
      arguments.name.empty() ? "disk of " + arguments.directory : arguments.name;
  const std::string source = fmt::format("measured by penstock disk{} --size {}, {}",
                                         arguments.quick ? " --quick" : "", size, today());
  found.file.profile = found.measurement.profile(name, source);
  if (auto emulated = io::emulated()) found.file.emulated = emulated->describe();
  return found;
}

int run_disk(const DiskArguments& arguments) {
  const StopSignals signals(
      {.command = "disk", .outcome = "its files are removed, and nothing was saved"});
  // The output is created first, so that a bad path fails before minutes of measuring. An output
  // that is not published leaves nothing behind.
  io::File output;
  if (!arguments.output.empty()) {
    auto created = io::File::create_output(
        arguments.output, {.caching = io::Caching::buffered, .rules = arguments.output_rules});
    if (!created) return report("disk", created.error());
    output = std::move(*created);
  }
  Result<Found> found = measure_disk(arguments, signals);
  if (!found) {
    if (found.error().code == ErrorCode::interrupted && signals.caught() != 0) return signals.die();
    return report("disk", found.error());
  }
  // A path need not be UTF-8.
  const std::string json =
      json_of(*found).dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  if (!arguments.output.empty()) {
    if (auto written = write_file(output, json); !written) {
      return report("disk", written.error());
    }
  }
  if (arguments.json) {
    print("{}", json);
  } else {
    print_speeds(arguments, *found);
  }
  return exit_ok;
}

}  // namespace

Command add_disk(Parser& program) {
  auto arguments = std::make_shared<DiskArguments>();
  DiskArguments& a = *arguments;
  Parser parser = program.add_subcommand("disk", "measure the speeds and the seeks of a disk");
  parser.describe(
      {.examples = {{"penstock disk . -o profile.json",
                     "measure the disk of this directory, for penstock plan --device"},
                    {"penstock disk . --quick", "a rough measurement: seconds on a fast disk"}},
       .notes = {"Writes random data to nameless files in DIR and reads them back, several times, "
                 "past the page cache. The files vanish when the program ends, even by a signal. "
                 "Takes about a minute on a fast disk, some minutes on a slow one. docs/disks.md "
                 "explains the table and the file."}});
  parser.add_option("DIR", a.directory, "a directory on the disk").required("/tmp");
  parser.add_option(
      "--size", a.size,
      "space to use; should be several times the disk's caches (default 4G, with --quick 512M)");
  parser.add_option("-o,--output", a.output, "save the profile, for penstock plan --device");
  add_output_words(parser, a.output_rules);
  parser.add_option("--name", a.name, "name of the profile (default: \"disk of DIR\")");
  parser.add_flag("--quick", a.quick,
                  "measure roughly: fewer streams and repetitions, some 10 GB of traffic");
  parser.add_flag("--json", a.json, "print the profile and all measurements as JSON");
  return {parser, [arguments] { return run_disk(*arguments); }};
}

}  // namespace penstock::cli
