// The short report of a sort.

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "trace/report/advice.h"
#include "trace/report/terminal.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

using external::Occupancy;
using Unit = SortRun::Unit;

constexpr size_t bucket_lines = 14;
// Columns of the label and the figure beside a line of bars.
constexpr size_t beside_bars = 33;

size_t bars_width(const TerminalOptions& options) {
  return options.width > beside_bars + 18 ? options.width - beside_bars : 18;
}

// Returns bars on a scale whose tallest bar stands for `most`.
std::string bars(const std::vector<double>& values, double most, const TerminalOptions& options) {
  std::vector<double> scaled = joined(values, bars_width(options), Join::mean);
  scaled.push_back(most);
  std::string line = sparkline(scaled, options.unicode);
  line.erase(line.size() - (options.unicode ? std::string_view("█").size() : 1));
  return line;
}

std::string shown(Unit unit, std::optional<double> value, const TerminalOptions& options) {
  return plain(value_text(unit, value), options.unicode);
}

void tell_rows(Text& text, const SortRun& sort, const TerminalOptions& options) {
  text.line("  {:<40}{:>14}{:>14}", "", "predicted", "measured");
  for (const SortRun::Row& row : sort.rows) {
    text.line("  {:<40}{:>14}{:>14}", fitted(row.what, 40, options.unicode),
              shown(row.unit, row.predicted, options), shown(row.unit, row.measured, options));
  }
}

void tell_phases(Text& text, const SortRun& sort, const TerminalOptions& options) {
  if (sort.phases.empty()) return;
  text.line("");
  text.line("  {:<26}{:>10}{:>10}{:>10}{:>11}{:>10}", "phase", "time", "read", "written", "seeks",
            "mean run");
  for (const SortRun::Phase& phase : sort.phases) {
    auto cell = [&](Unit unit, std::optional<double> value) {
      return value.value_or(0) > 0 ? shown(unit, value, options) : std::string("-");
    };
    const SortRun::PhaseFigures& measured = phase.measured;
    text.line("  {:<26}{:>10}{:>10}{:>10}{:>11}{:>10}", fitted(phase.name, 25, options.unicode),
              cell(Unit::seconds, measured.seconds), cell(Unit::bytes, measured.read_bytes),
              cell(Unit::bytes, measured.written_bytes), cell(Unit::count, measured.seeks),
              cell(Unit::bytes, measured.run_bytes));
  }
}

void tell_memory(Text& text, const Occupancy& occupancy, const TerminalOptions& options) {
  const TimeSpan span = time_span(occupancy);
  double most = static_cast<double>(occupancy.memory_bytes);
  for (const std::vector<double>& bytes : occupancy.stage_bytes) {
    for (const double held : bytes) most = std::max(most, held);
  }
  if (occupancy.stage_bytes[0].empty() || !(span.end_s > span.begin_s) || !(most > 0)) return;
  const auto shares = stage_shares(occupancy);
  text.line("");
  text.line("What held the memory ({}), from {} to {}", bytes_text(most),
            plain(duration_text(span.begin_s), options.unicode),
            plain(duration_text(span.end_s), options.unicode));
  for (size_t stage = 0; stage < shares.size(); ++stage) {
    text.line("  {:<20} {} {:>5}", bucket_stage_names[stage],
              bars(occupancy.stage_bytes[stage], most, options),
              fmt::format("{:.0f} %", 100 * shares[stage]));
  }
}

// Returns the bucket in the middle of the part of the output that a line stands for, or else one
// that begins in that part. In a thinned list, the next bucket below stands for the missing ones.
// Returns nullptr if no bucket is there: the line stays blank.
const Occupancy::Bucket* bucket_of_line(const Occupancy& occupancy, size_t line, size_t lines) {
  const double step = static_cast<double>(output_end_bytes(occupancy)) / static_cast<double>(lines);
  const double low = step * static_cast<double>(line), high = low + step;
  const bool thinned = occupancy.buckets.size() < occupancy.buckets_seen;
  const auto above = std::ranges::upper_bound(
      occupancy.buckets, low + step / 2, {},
      [](const Occupancy::Bucket& one) { return static_cast<double>(one.offset_bytes); });
  if (above != occupancy.buckets.begin()) {
    const Occupancy::Bucket& below = *std::prev(above);
    if (thinned || static_cast<double>(below.offset_bytes + below.bytes) > low) return &below;
  }
  const bool begins_in_it =
      above != occupancy.buckets.end() && static_cast<double>(above->offset_bytes) < high;
  return begins_in_it ? &*above : nullptr;
}

// Adds lines of letters. A line stands for a part of the output, a column for a time, and the letter
// for the stage of that part's bucket.
void tell_buckets(Text& text, const Occupancy& occupancy, const TerminalOptions& options) {
  const TimeSpan span = time_span(occupancy);
  const auto end_bytes = static_cast<double>(output_end_bytes(occupancy));
  if (occupancy.buckets.empty() || end_bytes <= 0 || !(span.end_s > span.begin_s)) return;
  text.line("");
  text.line("{}: time to the right, the output upwards", counted(occupancy.buckets_seen, "bucket"));
  text.line("  (r being read, . waiting for a sorter, s being sorted, w being written)");
  const char* wall = options.unicode ? "│" : "|";
  const size_t width = options.width - 4;
  const size_t lines = std::min(bucket_lines, occupancy.buckets.size());
  for (size_t line = lines; line-- > 0;) {
    const Occupancy::Bucket* bucket = bucket_of_line(occupancy, line, lines);
    if (bucket == nullptr) {
      text.line("  {}{}{}", wall, std::string(width, ' '), wall);
      continue;
    }
    const std::array<double, external::bucket_stages> ends = {bucket->read_s, bucket->waited_s,
                                                              bucket->sorted_s, bucket->written_s};
    std::string cells;
    for (size_t x = 0; x < width; ++x) {
      const double at = span.begin_s + (span.end_s - span.begin_s) *
                                           (static_cast<double>(x) + 0.5) /
                                           static_cast<double>(width);
      const auto stage = static_cast<size_t>(std::ranges::upper_bound(ends, at) - ends.begin());
      cells += at < bucket->begin_s || stage == ends.size() ? ' ' : "r.sw"[stage];
    }
    text.line("  {}{}{}", wall, cells, wall);
  }
}

void tell_staircases(Text& text, const std::vector<external::Staircase>& staircases,
                     const TerminalOptions& options) {
  bool any = false;
  for (const external::Staircase& stairs : staircases) {
    double most = 0;
    for (const std::vector<double>* bytes : {&stairs.measured_bytes, &stairs.predicted_bytes}) {
      for (const double each : *bytes) most = std::max(most, each);
    }
    if (!(most > 0)) continue;
    if (!any) {
      text.line("");
      text.line("How full the buckets were, the fullest first");
    }
    any = true;
    text.line("  {}", fitted(stairs.title, options.width - 2, options.unicode));
    // Both lines have the same scales, although one may have fewer values.
    const size_t points = std::max(stairs.measured_bytes.size(), stairs.predicted_bytes.size());
    auto line = [&](const char* what, std::vector<double> bytes) {
      if (bytes.empty()) return;
      const double largest = *std::ranges::max_element(bytes);
      bytes.resize(points);
      text.line("  {:<20} {} {:>9}", what, bars(bytes, most, options), bytes_text(largest));
    };
    line("measured", stairs.measured_bytes);
    line("predicted", stairs.predicted_bytes);
  }
}

}  // namespace

std::string terminal_report(const SortRun& sort, const TerminalOptions& wanted) {
  const TerminalOptions options = bounded(wanted);
  Text text;
  text.line("{}", fitted(sort.name, options.width, options.unicode));
  const bool both = !sort.method.empty() && !sort.why.empty();
  const std::string how = sort.method + (both ? ": " : "") + sort.why;
  if (!how.empty()) text.line("  {}", fitted(how, options.width - 2, options.unicode));
  if (!sort.emulated.empty())
    text.line("  on an {}", fitted(sort.emulated, options.width - 8, options.unicode));
  text.line("");
  add_advice(text, advice_on(sort), options);
  tell_rows(text, sort, options);
  tell_phases(text, sort, options);
  tell_memory(text, sort.occupancy, options);
  tell_buckets(text, sort.occupancy, options);
  tell_staircases(text, sort.staircases, options);
  return text.take();
}

}  // namespace penstock::report
