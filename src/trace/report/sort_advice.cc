#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "penstock/base.h"
#include "trace/report/advice.h"
#include "trace/report/text.h"

// A sort is limited by the disk or by the processors, makes a number of passes, and was predicted
// well or badly. One figure with a threshold decides each of these:
//
//   the processors   share of the memory whose buckets wait for a sorter. If it is large, the disk
//                    is ahead, and advice on the disk does not help.
//   the disk         share of the time that the prediction attributes to the disk alone; or share
//                    of the sorters' time in which they wait for reads.
//   the passes       the plan contains the memory that would save one.
//   the prediction   measured time over predicted time.

namespace penstock::report {
namespace {

constexpr double waits_for_sorters_min = 0.35;  // one of four stages has more than a third
constexpr double disk_share_min = 0.75;
constexpr double waits_for_reads_min = 0.5;
// Smallest ratio of measured to predicted time that gives advice. Runs differ by less.
constexpr double off_min = 1.33;

std::string percent(double share) {
  return fmt::format("{:.0f} %", 100 * share);
}

// Returns a size for the option -S, rounded up: "768M", "12G".
std::string memory_option(double bytes) {
  const double mib = std::ceil(bytes / static_cast<double>(MiB));
  if (mib < 10 * 1024) return fmt::format("{:.0f}M", mib);
  return fmt::format("{:.0f}G", std::ceil(mib / 1024));
}

// Returns "once", "twice" or "3 times".
std::string times_text(double times) {
  if (times == 1) return "once";
  if (times == 2) return "twice";
  return fmt::format("{:.0f} times", times);
}

// Returns the disk's share of the time of all measured phases, by the prediction. In no phase does
// the disk account for more than the whole phase.
std::optional<double> disk_share(const SortRun& sort) {
  double measured = 0, of_the_disk = 0;
  for (const SortRun::Phase& phase : sort.phases) {
    const double seconds = phase.measured.seconds.value_or(0);
    if (!(seconds > 0)) continue;
    measured += seconds;
    // Older statistics have no disk_seconds: there `seconds` is the disk's time alone.
    const double planned = phase.predicted.seconds.value_or(0);
    const double disk = phase.predicted.disk_seconds.value_or(planned);
    of_the_disk += std::min(seconds, std::max(0.0, disk));
  }
  if (!(measured > 0) || !(of_the_disk > 0)) return std::nullopt;
  return of_the_disk / measured;
}

std::optional<double> share_of_waiting(const SortRun& sort) {
  const double waiting = sort.wait_read_s.value_or(0);
  const double all = waiting + sort.sorters_s.value_or(0);
  if (!sort.wait_read_s || !sort.sorters_s || !(all > 0)) return std::nullopt;
  return waiting / all;
}

std::optional<Advice> advice_on_disk(const SortRun& sort) {
  const auto disk = disk_share(sort), waiting = share_of_waiting(sort);
  Advice advice;
  if (disk.value_or(0) >= disk_share_min) {
    advice.why =
        fmt::format("The disk was the limit: it alone takes {} of the time.", percent(*disk));
  } else if (waiting.value_or(0) >= waits_for_reads_min) {
    advice.why = fmt::format(
        "Sorters waited for reads for {} of their time, so that more of them "
        "would not help.",
        percent(*waiting));
  } else {
    return std::nullopt;
  }
  const bool spills = sort.temp_bytes.value_or(0) > 0;
  advice.what = spills ? "Put temporaries on another disk than input and output, or on several"
                       : "Put the output on another disk than the input";
  advice.how = spills ? "-T DIRECTORY -T DIRECTORY" : "-o FILE";
  return advice;
}

}  // namespace

std::vector<Advice> advice_on(const SortRun& sort) {
  std::vector<Advice> advice;
  const double seconds = sort.seconds.value_or(0);
  if (seconds < judged_seconds_min) return advice;
  using external::BucketStage;
  const double behind = stage_shares(sort.occupancy)[static_cast<size_t>(BucketStage::waiting)];
  const bool processors = behind >= waits_for_sorters_min;
  if (processors) {
    advice.push_back({"Give it more processors, where the machine has them", "--parallel N",
                      fmt::format("Sorters were the limit: {} of the memory held buckets that "
                                  "waited for one.",
                                  percent(behind))});
  }
  if (const double bytes = sort.fewer_passes_bytes.value_or(0); bytes > 0) {
    const double passes = sort.passes.value_or(0);
    advice.push_back({"Give it more memory", "-S " + memory_option(bytes),
                      passes < 2
                          ? std::string("With that it would read the data once less.")
                          : fmt::format("It read the data {}; with that it would read it {}.",
                                        times_text(passes), times_text(passes - 1))});
  }
  if (!processors) {
    if (auto disk = advice_on_disk(sort)) advice.push_back(std::move(*disk));
  }
  const double predicted = sort.predicted_s.value_or(0);
  if (!processors && predicted > 0 && sort.emulated.empty()) {
    const double ratio = seconds / predicted;
    if (ratio >= off_min || ratio <= 1 / off_min) {
      advice.push_back({"Measure the disk, and sort with its profile",
                        "penstock disk DIRECTORY -o disk.json; penstock sort --device disk.json",
                        fmt::format("It took {}; the prediction was {} ({}).",
                                    duration_text(seconds), duration_text(predicted),
                                    sort.device_source.empty() ? "from what is known of the disk"
                                                               : sort.device_source)});
    }
  }
  return advice;
}

}  // namespace penstock::report
