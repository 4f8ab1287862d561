#include "trace/report/sort_section.h"

#include <fmt/chrono.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <ctime>
#include <string>
#include <vector>

#include "trace/report/axis_marks.h"
#include "trace/report/page_advice.h"
#include "trace/report/sort_picture.h"
#include "trace/report/sort_timeline.h"

// A sort on a page, from top to bottom: figures, pictures, tables. Pictures are SVG and need no
// script: shapes in a box that is stretched to the page's width, with their scales beside the box
// as text, which is not stretched.
//
// Statistics may contain pictures of any number of points, and a page any number of sorts. Each
// sort gets an equal share of the page's room, and is drawn as finely as fits there, or without
// pictures. Sorts that do not fit even without pictures are left out, from the last one on.

namespace penstock::report {
namespace {

using external::BucketStage;
using external::Occupancy;
using external::Staircase;

// Smallest height of a bar that can be seen and pointed at.
constexpr double least_height = 1.5;
constexpr size_t table_rows = 16;
// Largest number of points of a picture. More could not be told apart.
constexpr size_t points_max = 1024;
constexpr size_t points_min = 32;

// ---- Figures.

void add_tiles(Writer& page, const SortRun& sort) {
  auto tile = [&](const char* name, const char* explanation, const std::string& value) {
    page.add("<div title=\"{}\"><dt>{}</dt><dd>{}</dd></div>\n", html_escaped(explanation), name,
             value);
  };
  using Unit = SortRun::Unit;
  page.raw("<dl class=\"tiles\">\n");
  if (sort.items) tile("Items", "of the output", value_text(Unit::count, sort.items));
  if (sort.bytes) tile("Output", "bytes", value_text(Unit::bytes, sort.bytes));
  if (sort.seconds)
    tile("Time", "from start to the output's name", value_text(Unit::seconds, sort.seconds));
  if (sort.bytes && sort.seconds && *sort.seconds > 0) {
    tile("Speed", "bytes of the output over the time", rate_text(*sort.bytes / *sort.seconds));
  }
  if (sort.peak_bytes) {
    const std::string given =
        sort.budget_bytes ? "Memory of " + value_text(Unit::bytes, sort.budget_bytes) : "Memory";
    tile(given.c_str(), "resident at the peak, and what it was given",
         value_text(Unit::bytes, sort.peak_bytes));
  }
  if (sort.passes)
    tile("Passes", "times that the data were read", value_text(Unit::count, sort.passes));
  if (sort.seeks && sort.seeks_cost()) {
    tile("Seeks", "requests that did not begin where the one before them ended",
         value_text(Unit::count, sort.seeks));
  }
  if (sort.run_bytes && sort.seeks_cost())
    tile("Mean run", "bytes between two seeks", value_text(Unit::bytes, sort.run_bytes));
  page.raw("</dl>\n");
}

// ---- Pictures.

void add_stage_keys(Writer& page) {
  for (size_t stage = 0; stage < external::bucket_stages; ++stage)
    page.add(" <span class=\"key {}\">{}</span>", stage_classes[stage], bucket_stage_names[stage]);
}

// Begins a picture's box, whose vertical scale ends at `most` bytes.
void begin_box(Writer& page, double most, const std::string& label) {
  const std::vector<AxisMark> marks = byte_marks(most);
  page.raw("<div class=\"boxed\"><div class=\"up\">");
  for (const AxisMark& mark : marks)
    page.add("<span style=\"top:{:.2f}%\">{}</span>", 100 * (1 - mark.share), mark.text);
  page.add(
      "</div><svg viewBox=\"0 0 {} {}\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\"><path class=\"grid\" d=\"",
      box_width, box_height, html_escaped(label));
  for (const AxisMark& mark : marks)
    page.add("M0 {:.1f}H{}", box_height * (1 - mark.share), box_width);
  page.raw("\"/>");
}

void end_box(Writer& page, const std::vector<AxisMark>& across) {
  page.raw("</svg>");
  add_across(page, across);
  page.raw("</div>");
}

std::string shares_text(const Occupancy& occupancy) {
  const auto shares = stage_shares(occupancy);
  std::string text;
  for (size_t stage = 0; stage < shares.size(); ++stage) {
    text += fmt::format("{}{:.0f}\u00a0% {}",
                        stage == 0                   ? ""
                        : stage + 1 == shares.size() ? " and "
                                                     : ", ",
                        100 * shares[stage], bucket_stage_names[stage]);
  }
  return text;
}

void add_memory_table(Writer& page, const Occupancy& occupancy) {
  const size_t bins = occupancy.stage_bytes[0].size();
  const size_t stride = (bins + table_rows - 1) / table_rows;
  page.raw("<details><summary>As a table</summary>\n");
  page.begin_table("figures", "What held the memory, over time");
  page.heading({{"From", ""}, {"Read", ""}, {"Waiting", ""}, {"Sorted", ""}, {"Written", ""}});
  page.raw("<tbody>\n");
  for (size_t begin = 0; begin < bins; begin += stride) {
    const size_t end = std::min(begin + stride, bins);
    page.add("<tr><th scope=\"row\">{}</th>",
             seconds_text(occupancy.start_s + static_cast<double>(begin) * occupancy.bin_s));
    for (const std::vector<double>& bytes : occupancy.stage_bytes) {
      double sum = 0;
      for (size_t i = begin; i < end; ++i) sum += bytes[i];
      page.add("<td class=\"n\">{}</td>",
               sum > 0 ? bytes_text(sum / static_cast<double>(end - begin)) : "-");
    }
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></details>\n");
}

// Adds the picture of the memory: stages stacked as steps, the stage nearest to the output lowest.
void add_memory(Writer& page, const Occupancy& occupancy) {
  const TimeSpan span = time_span(occupancy);
  const size_t bins = occupancy.stage_bytes[0].size();
  if (bins == 0 || !(span.end_s > span.begin_s)) return;
  std::vector<double> below(bins);
  double most = static_cast<double>(occupancy.memory_bytes);
  for (size_t i = 0; i < bins; ++i) {
    double held = 0;
    for (const std::vector<double>& bytes : occupancy.stage_bytes) held += bytes[i];
    most = std::max(most, held);
  }
  if (!(most > 0) || !std::isfinite(most)) return;
  page.section("What held the memory");
  page.add(
      "<p>While buckets were sorted: {}. Much of it "
      "waiting "
      "says that the processors were the limit; much of it being read or written, that the disk "
      "was.</p>\n<figure class=\"chart\"><figcaption>",
      shares_text(occupancy));
  add_stage_keys(page);
  page.raw("</figcaption>\n");
  begin_box(page, most, "Memory over time: " + shares_text(occupancy));
  for (const BucketStage stage :
       {BucketStage::writing, BucketStage::sorting, BucketStage::waiting, BucketStage::reading}) {
    const std::vector<double>& bytes = occupancy.stage_bytes[static_cast<size_t>(stage)];
    auto x = [&](size_t bin) {
      return x_of(span, occupancy.start_s + static_cast<double>(bin) * occupancy.bin_s);
    };
    auto y = [&](double held) { return box_height * (1 - held / most); };
    page.add("<path class=\"{}\" d=\"M0 {:.1f}", stage_classes[static_cast<size_t>(stage)],
             y(below[0]));
    std::vector<double> above = below;
    for (size_t i = 0; i < bins; ++i) {
      above[i] += bytes[i];
      page.add("V{:.1f}H{:.1f}", y(above[i]), x(i + 1));
    }
    for (size_t i = bins; i-- > 0;) page.add("V{:.1f}H{:.1f}", y(below[i]), x(i));
    page.raw("z\"/>");
    below = std::move(above);
  }
  end_box(page, time_marks(span));
  page.raw("</figure>\n");
  add_memory_table(page, occupancy);
  page.raw("</section>\n");
}

// Adds the picture of buckets: time to the right, the output upwards, a bar for each bucket.
void add_buckets(Writer& page, const Occupancy& occupancy) {
  const TimeSpan span = time_span(occupancy);
  const auto end_bytes = static_cast<double>(output_end_bytes(occupancy));
  if (occupancy.buckets.empty() || end_bytes <= 0 || !(span.end_s > span.begin_s)) return;
  page.section("Bucket by bucket");
  page.add("<p>{}{}, each at its place in the output: ", counted(occupancy.buckets_seen, "bucket"),
           occupancy.buckets.size() < occupancy.buckets_seen
               ? fmt::format(" (shown: {})", grouped(occupancy.buckets.size()))
               : "");
  page.raw(
      "from the left end of a bar to the right one it has memory. Point at one for its times.</p>\n"
      "<figure class=\"chart tall\"><figcaption>");
  add_stage_keys(page);
  page.raw("</figcaption>\n");
  begin_box(page, end_bytes, "Buckets: time to the right, their place in the output upwards");
  for (const Occupancy::Bucket& bucket : occupancy.buckets) {
    const double full = box_height * static_cast<double>(bucket.bytes) / end_bytes;
    const double height = std::max(full * 0.9, std::min(full, least_height));
    const double top =
        box_height * (1 - static_cast<double>(bucket.offset_bytes + bucket.bytes) / end_bytes);
    const std::array<double, 5> times = {bucket.begin_s, bucket.read_s, bucket.waited_s,
                                         bucket.sorted_s, bucket.written_s};
    page.add("<g><title>{} at {}: ", bytes_text(bucket.bytes), bytes_text(bucket.offset_bytes));
    for (size_t stage = 0; stage < external::bucket_stages; ++stage) {
      page.add("{}{} {}", stage == 0 ? "" : ", ", seconds_text(times[stage + 1] - times[stage]),
               bucket_stage_names[stage]);
    }
    page.raw("</title>");
    for (size_t stage = 0; stage < external::bucket_stages; ++stage) {
      const double left = x_of(span, times[stage]), right = x_of(span, times[stage + 1]);
      if (right <= left) continue;
      page.add("<path class=\"{}\" d=\"M{:.1f} {:.2f}h{:.1f}v{:.2f}h{:.1f}z\"/>",
               stage_classes[stage], left, top, right - left, std::max(height, least_height),
               left - right);
    }
    page.raw("</g>");
  }
  end_box(page, time_marks(span));
  page.raw("</figure></section>\n");
}

// Adds a staircase: measured buckets as bars, the theorem's prediction as a line over them.
void add_staircase(Writer& page, const Staircase& stairs) {
  const size_t points = std::max(stairs.measured_bytes.size(), stairs.predicted_bytes.size());
  double most = 0;
  for (const double bytes : stairs.measured_bytes) most = std::max(most, bytes);
  for (const double bytes : stairs.predicted_bytes) most = std::max(most, bytes);
  if (points == 0 || !(most > 0) || !std::isfinite(most)) return;
  most *= 1.05;  // keeps the line's highest step within the box
  const double step = box_width / static_cast<double>(points);
  auto y = [&](double bytes) { return box_height * (1 - std::clamp(bytes / most, 0.0, 1.0)); };
  page.add(
      "<figure class=\"chart stairs\"><figcaption>{}{} <span class=\"key "
      "measured\">measured</span>",
      shown(stairs.title, 100),
      stairs.steps > 0 ? ", mean of " + counted(stairs.steps, "step") : "");
  if (!stairs.predicted_bytes.empty()) page.raw(" <span class=\"key predicted\">predicted</span>");
  page.raw("</figcaption>\n");
  begin_box(page, most, "Bytes in each bucket, the fullest first");
  const double gap = step > 4 ? step * 0.12 : 0;
  page.raw("<path class=\"measured\" d=\"");
  for (size_t i = 0; i < stairs.measured_bytes.size(); ++i) {
    const double left = static_cast<double>(i) * step + gap / 2;
    page.add("M{:.1f} {}V{:.1f}H{:.1f}V{}z", left, box_height, y(stairs.measured_bytes[i]),
             left + step - gap, box_height);
  }
  page.raw("\"/><path class=\"predicted\" d=\"");
  for (size_t i = 0; i < stairs.predicted_bytes.size(); ++i) {
    page.add("{}{:.1f} {:.1f}H{:.1f}", i == 0 ? "M" : "L", static_cast<double>(i) * step,
             y(stairs.predicted_bytes[i]), static_cast<double>(i + 1) * step);
  }
  page.raw("\"/>");
  const uint64_t streams = std::max<uint64_t>(stairs.streams, points);
  end_box(page, {{0, "the fullest"}, {0.5, counted(streams, "bucket")}, {1, "the emptiest"}});
  page.raw("</figure>\n");
}

void add_staircases(Writer& page, const std::vector<Staircase>& staircases) {
  bool any = false;
  for (const Staircase& stairs : staircases)
    any |= !stairs.measured_bytes.empty() || !stairs.predicted_bytes.empty();
  if (!any) return;
  page.section("How full the buckets were");
  page.raw(
      "<p>In the steady state, sorted by what they "
      "hold. "
      "The steps are what makes runs long: the fullest is emptied, and the others have moved up by "
      "one when it is full again.</p>\n");
  for (const Staircase& stairs : staircases) add_staircase(page, stairs);
  page.raw("</section>\n");
}

// ---- Tables.

void add_rows(Writer& page, const SortRun& sort) {
  page.section("Predicted against measured");
  page.begin_table("figures", "Predicted against measured");
  page.heading({{"", ""}, {"Predicted", ""}, {"Measured", ""}, {"Measured / predicted", ""}});
  page.raw("<tbody>\n");
  for (const SortRun::Row& row : sort.rows) {
    const bool both = row.predicted && row.measured && *row.predicted > 0;
    page.add(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td></tr>\n",
        shown(row.what, 100), value_text(row.unit, row.predicted),
        value_text(row.unit, row.measured),
        both ? fmt::format("{:.2f}", *row.measured / *row.predicted) : "-");
  }
  page.raw("</tbody></table></div></section>\n");
}

void add_phases(Writer& page, const SortRun& sort) {
  if (sort.phases.empty()) return;
  page.section("Phases");
  page.begin_table("figures phases", "Phases");
  std::vector<std::pair<const char*, const char*>> columns = {
      {"Phase", ""},
      {"Time", "of the clock"},
      {"Processors", "time of all threads together"},
      {"Read", ""},
      {"Written", ""}};
  if (sort.seeks_cost())
    columns.insert(columns.end(), {{"Seeks", ""}, {"Mean run", "bytes between two seeks"}});
  page.heading(columns);
  page.raw("<tbody>\n");
  for (const SortRun::Phase& phase : sort.phases) {
    page.add("<tr><th scope=\"row\">{}</th>", shown(phase.name, 100));
    size_t column = 0;
    auto cell = [&](SortRun::Unit unit, std::optional<double> SortRun::PhaseFigures::* figure) {
      const auto measured = phase.measured.*figure, predicted = phase.predicted.*figure;
      page.add("<td class=\"n\" data-column=\"{}\">{}", columns[++column].first,
               measured.value_or(0) > 0 ? value_text(unit, measured) : "-");
      if (predicted.value_or(0) > 0)
        page.add("<small>predicted {}</small>", value_text(unit, predicted));
      page.raw("</td>");
    };
    cell(SortRun::Unit::seconds, &SortRun::PhaseFigures::seconds);
    cell(SortRun::Unit::seconds, &SortRun::PhaseFigures::processor_seconds);
    cell(SortRun::Unit::bytes, &SortRun::PhaseFigures::read_bytes);
    cell(SortRun::Unit::bytes, &SortRun::PhaseFigures::written_bytes);
    if (sort.seeks_cost()) {
      cell(SortRun::Unit::count, &SortRun::PhaseFigures::seeks);
      cell(SortRun::Unit::bytes, &SortRun::PhaseFigures::run_bytes);
    }
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></section>\n");
}

bool has_pictures(const SortRun& sort) {
  return !sort.occupancy.stage_bytes[0].empty() || !sort.occupancy.buckets.empty() ||
         !sort.staircases.empty();
}

// Adds a sort with pictures of at most `points` points; 0 leaves the pictures out.
void add_sort(Writer& page, const SortRun& sort, bool alone, size_t points) {
  page.sections_have_articles = !alone;
  page.raw("<article class=\"sort\">\n");
  if (!alone) page.add("<h2>{}</h2>\n", shown(base_name(sort.name), 100));
  if (!sort.command.empty())
    page.add("<p class=\"about\"><code>{}</code>{}</p>\n", shown(sort.command, 400),
             sort.end_s == 0
                 ? ""
                 : fmt::format(" · {:%Y-%m-%d %H:%M} UTC", fmt::gmtime(time_t{sort.end_s})));
  if (!sort.machine.empty()) page.add("<p class=\"about\">{}</p>\n", shown(sort.machine, 400));
  if (!sort.method.empty() || !sort.why.empty()) {
    page.add("<p class=\"about\">{}{}{}</p>\n", shown(sort.method, 100),
             sort.method.empty() || sort.why.empty() ? "" : ": ", shown(sort.why, 400));
  }
  if (!sort.emulated.empty())
    page.add("<p class=\"part\">On an {}.</p>\n", shown(sort.emulated, 200));
  add_tiles(page, sort);
  if (sort.seconds && *sort.seconds < judged_seconds_min) {
    add_advice(page, {}, "Nothing: a run of less than a second is not judged.");
  } else if (sort.seconds) {
    add_advice(page, advice_on(sort));
  }
  const Occupancy occupancy = thinned(sort.occupancy, points);
  add_timeline(page, sort, occupancy);
  add_memory(page, occupancy);
  add_buckets(page, occupancy);
  add_staircases(page, thinned(sort.staircases, points));
  if (points == 0 && has_pictures(sort))
    page.raw("<p class=\"part\">There is no room for its pictures on this page.</p>\n");
  add_phases(page, sort);
  add_rows(page, sort);
  page.raw("</article>\n");
}

}  // namespace

void add_sorts(Writer& page, std::span<const SortRun> sorts, bool alone, size_t room_bytes) {
  size_t left_out = 0;
  for (size_t i = 0; i < sorts.size(); ++i) {
    const size_t share_bytes = room_bytes / (sorts.size() - i);
    for (size_t points = points_max;; points = points > points_min ? points / 2 : 0) {
      Writer part;
      add_sort(part, sorts[i], alone, points);
      if (part.bytes() <= (points > 0 ? share_bytes : room_bytes)) {
        room_bytes -= part.bytes();
        page.raw(part.take());
        break;
      }
      if (points > 0) continue;
      ++left_out;
      break;
    }
  }
  if (left_out > 0) {
    page.add("<p class=\"part\">There is no room for {} on this page.</p>\n",
             counted(left_out, "more sort"));
  }
}

}  // namespace penstock::report
