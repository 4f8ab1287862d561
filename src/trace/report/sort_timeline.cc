#include "trace/report/sort_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "trace/report/sort_picture.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

using external::Occupancy;

struct Bar {
  std::string name;  // the phase's name
  double begin_s = 0, end_s = 0;
};

std::vector<Bar> bars_of(const SortRun& sort, SortRun::PhaseFigures SortRun::Phase::* side) {
  std::vector<Bar> bars;
  double at = 0;
  for (const SortRun::Phase& phase : sort.phases) {
    const double seconds = (phase.*side).seconds.value_or(0);
    if (!(seconds > 0) || !std::isfinite(at + seconds)) continue;
    bars.push_back({.name = phase.name, .begin_s = at, .end_s = at + seconds});
    at += seconds;
  }
  return bars;
}

// Returns the CSS class for a phase's main activity.
const char* bar_class(const std::string& name) {
  if (name == "distribute" || name == "merge") return "moves";
  if (name.starts_with("sort")) return "sorting";
  return name == "write" ? "writing" : "reading";
}

void add_bars(Writer& page, const char* label, const std::vector<Bar>& bars, double end_s) {
  if (bars.empty()) return;
  std::string words;
  for (const Bar& bar : bars) {
    words += fmt::format("{}{} {}", words.empty() ? "" : ", ", bar.name,
                         duration_text(bar.end_s - bar.begin_s));
  }
  page.add("<div class=\"lane\">{}</div><div class=\"track\" role=\"img\" aria-label=\"{}: {}\">",
           label, label, shown(words, 1000));
  for (const Bar& bar : bars) {
    const double seconds = bar.end_s - bar.begin_s;
    page.add(
        "<div class=\"{}\" style=\"left:{:.2f}%;width:{:.2f}%\" title=\"{}: {}\"><i></i><span>{} "
        "<b>{}</b></span></div>",
        bar_class(bar.name), 100 * bar.begin_s / end_s, 100 * seconds / end_s, shown(bar.name, 100),
        duration_text(seconds), shown(bar.name, 100), duration_text(seconds));
  }
  page.raw("</div>\n");
}

// Adds the names and times of phases whose bars are too short for a label, on a screen that is wide or
// narrow as the CSS class says.
void add_short_phases(Writer& page, const std::vector<Bar>& bars, double end_s,
                      const char* css_class, double share_min) {
  std::string names;
  for (const Bar& bar : bars) {
    const double seconds = bar.end_s - bar.begin_s;
    if (seconds >= share_min * end_s) continue;
    names += fmt::format("{}{} {}", names.empty() ? "" : ", ", bar.name, duration_text(seconds));
  }
  if (!names.empty())
    page.add("<figcaption class=\"{}\">Short phases, measured: {}.</figcaption>", css_class,
             shown(names, 1000));
}

// Adds a lane for each stage. All lanes have one vertical scale.
void add_stage_lanes(Writer& page, const Occupancy& occupancy, double end_s) {
  const size_t bins = occupancy.stage_bytes[0].size();
  double most = 0;
  for (const std::vector<double>& bytes : occupancy.stage_bytes) {
    for (const double held : bytes) most = std::max(most, held);
  }
  if (bins == 0 || !(most > 0) || !std::isfinite(most)) return;
  const auto shares = stage_shares(occupancy);
  const TimeSpan span{.begin_s = 0, .end_s = end_s};
  auto x = [&](size_t bin) {
    return x_of(span, occupancy.start_s + static_cast<double>(bin) * occupancy.bin_s);
  };
  static constexpr std::array<const char*, external::bucket_stages> names = {"read", "wait", "sort",
                                                                             "write"};
  for (size_t stage = 0; stage < external::bucket_stages; ++stage) {
    page.add(
        "<div class=\"lane\">{}</div><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" "
        "role=\"img\" aria-label=\"{}: {:.0f} % of the memory in use\"><title>{}: {:.0f} % of the "
        "memory in use</title><path class=\"{}\" d=\"M{:.1f} {}",
        names[stage], box_width, box_height, bucket_stage_names[stage], 100 * shares[stage],
        bucket_stage_names[stage], 100 * shares[stage], stage_classes[stage], x(0), box_height);
    for (size_t i = 0; i < bins; ++i) {
      page.add("V{:.1f}H{:.1f}", box_height * (1 - occupancy.stage_bytes[stage][i] / most),
               x(i + 1));
    }
    page.add("V{}z\"/></svg>\n", box_height);
  }
}

}  // namespace

void add_across(Writer& page, const std::vector<AxisMark>& marks) {
  page.raw("<div class=\"across\">");
  for (const AxisMark& mark : marks) {
    const char* const edge = mark.share < 0.03   ? " class=\"first\""
                             : mark.share > 0.97 ? " class=\"last\""
                                                 : "";
    page.add("<span{} style=\"left:{:.2f}%\">{}</span>", edge, 100 * mark.share, mark.text);
  }
  page.raw("</div>");
}

void add_timeline(Writer& page, const SortRun& sort, const Occupancy& occupancy) {
  std::vector<Bar> measured = bars_of(sort, &SortRun::Phase::measured);
  const std::vector<Bar> predicted = bars_of(sort, &SortRun::Phase::predicted);
  if (measured.empty()) return;
  const double phases_s = measured.back().end_s;
  double end_s = std::max(phases_s, sort.seconds.value_or(0));
  if (!predicted.empty()) end_s = std::max(end_s, predicted.back().end_s);
  if (!(end_s > 0) || !std::isfinite(end_s)) return;
  page.section("Where the time went", "times");
  page.raw("<p>");
  if (sort.seconds) page.add("{} in all", value_text(SortRun::Unit::seconds, sort.seconds));
  if (sort.seconds && sort.predicted_s.value_or(0) > 0) {
    page.add(", {:.2f} times what was predicted ({})", *sort.seconds / *sort.predicted_s,
             value_text(SortRun::Unit::seconds, sort.predicted_s));
  }
  if (sort.seconds) page.raw(". ");
  const bool lanes = !occupancy.stage_bytes[0].empty();
  page.raw(lanes ? "Below the phases: how much of the memory each stage of the buckets held.</p>\n"
                 : "</p>\n");
  page.raw("<figure class=\"chart\"><div class=\"lanes\">\n");
  add_bars(page, "measured", measured, end_s);
  add_bars(page, "predicted", predicted, end_s);
  add_stage_lanes(page, occupancy, end_s);
  add_across(page, time_marks({.begin_s = 0, .end_s = end_s}));
  page.raw("</div>");
  add_short_phases(page, measured, end_s, "wide-screen", 0.08);
  add_short_phases(page, measured, end_s, "narrow-screen", 0.4);
  page.raw("</figure>\n</section>\n");
}

}  // namespace penstock::report
