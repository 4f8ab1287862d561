#include "trace/report/glance_section.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "trace/report/advice.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

std::string latency_text(const Latencies& latencies) {
  if (latencies.requests == 0) return "none";
  if (latencies.max_ns == 0) return "not known";  // the log contains no latencies
  // A no-break space keeps a number and its unit on one line.
  auto text = [](uint64_t ns) {
    std::string one = duration_text(static_cast<double>(ns) * 1e-9);
    if (const size_t space = one.find(' '); space != one.npos) one.replace(space, 1, "\u00a0");
    return one;
  };
  return fmt::format("{} · {} · {}", text(latencies.median_ns), text(latencies.p99_ns),
                     text(latencies.max_ns));
}

struct GlanceRow {
  bool wide;
  const char* name;
  const char* explanation;
  std::string (*value)(const TraceSummary&);
  bool of_syncs = false;  // left out if no trace has any
};

const GlanceRow glance_rows[] = {
    {false, "Requests", "reads and writes of files, each of one call",
     [](const TraceSummary& s) { return grouped(s.totals.requests()); }},
    {false, "Seeks", "requests that begin where the one before them, of any file, did not end",
     [](const TraceSummary& s) { return grouped(s.totals.device_seeks); }},
    {false, "Mean run", "bytes from one seek to the next",
     [](const TraceSummary& s) { return bytes_text(s.totals.mean_run_bytes()); }},
    {false, "Seeks within files",
     "requests that begin where the last one of the same file did not end",
     [](const TraceSummary& s) { return grouped(s.totals.file_seeks); }},
    {false, "Read", "bytes that reads returned",
     [](const TraceSummary& s) { return bytes_text(s.totals.read_bytes); }},
    {false, "Written", "bytes that writes took",
     [](const TraceSummary& s) { return bytes_text(s.totals.written_bytes); }},
    {false, "Time", "from the start of the first request to the end of the last",
     [](const TraceSummary& s) { return duration_text(s.seconds()); }},
    {false, "Throughput", "bytes both ways over that time",
     [](const TraceSummary& s) {
       return s.seconds() > 0 ? rate_text(s.bytes_per_s()) : std::string("-");
     }},
    {false, "In calls",
     "part of the time from the beginning of the trace to its end in which a call on a file was "
     "under way",
     [](const TraceSummary& s) {
       if (s.is_part || !has_times(s.conversion)) return std::string("-");
       return share_text(static_cast<double>(s.conversion.busy_ns),
                         static_cast<double>(s.conversion.whole_ns));
     }},
    {false, "Files", "with requests",
     [](const TraceSummary& s) { return grouped(s.files.size()); }},
    {false, "Processes", "with requests",
     [](const TraceSummary& s) { return grouped(s.processes.size()); }},
    {false, "Syncs", "fsync and its like, of files",
     [](const TraceSummary& s) { return grouped(s.sync_latencies.requests); }, true},
    {true, "Read latency", "median, 99 %, largest: from asking to the answer",
     [](const TraceSummary& s) { return latency_text(s.read_latencies); }},
    {true, "Write latency", "median, 99 %, largest",
     [](const TraceSummary& s) { return latency_text(s.write_latencies); }},
    {true, "Sync latency", "median, 99 %, largest",
     [](const TraceSummary& s) { return latency_text(s.sync_latencies); }, true},
};

std::vector<GlanceRow> rows_of(std::span<const TraceSummary> traces) {
  const bool syncs = std::ranges::any_of(
      traces, [](const TraceSummary& trace) { return trace.sync_latencies.requests > 0; });
  std::vector<GlanceRow> rows;
  std::ranges::copy_if(glance_rows, std::back_inserter(rows),
                       [&](const GlanceRow& row) { return syncs || !row.of_syncs; });
  return rows;
}

}  // namespace

void add_glance(Writer& page, std::span<const TraceSummary> traces) {
  const std::vector<GlanceRow> rows = rows_of(traces);
  if (traces.size() == 1) {
    page.raw("<section aria-label=\"At a glance\"><dl class=\"tiles\">\n");
    for (const GlanceRow& row : rows) {
      page.add("<div title=\"{}\"{}><dt>{}{}</dt><dd>{}</dd></div>\n",
               html_escaped(row.explanation), row.wide ? " class=\"wide\"" : "", row.name,
               row.wide ? ": median · 99 % · slowest" : "", row.value(traces[0]));
    }
    page.raw("</dl></section>\n");
    return;
  }
  page.raw(
      "<section><h2>At a glance</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
      "aria-label=\"Traces side by side\"><table class=\"glance\"><thead><tr><td></td>");
  for (const TraceSummary& trace : traces) {
    page.add("<th scope=\"col\" class=\"n\">{}</th>", shown(base_name(trace.path), 60));
  }
  page.raw("</tr></thead>\n<tbody>\n");
  for (const GlanceRow& row : rows) {
    page.add("<tr><th scope=\"row\" title=\"{}\">{}{}</th>", html_escaped(row.explanation),
             row.name, row.wide ? ": median · 99 % · slowest" : "");
    for (const TraceSummary& trace : traces) {
      page.add("<td class=\"n{}\">{}</td>", row.wide ? " wide" : "", row.value(trace));
    }
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></section>\n");
}

}  // namespace penstock::report
