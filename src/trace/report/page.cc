#include "trace/report/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "trace/report/data.h"
#include "trace/report/page_parts.h"
#include "trace/report/page_writer.h"
#include "trace/report/sort_section.h"
#include "trace/report/text.h"

// The page is written from top to bottom into one string. Figures and tables are text, which a
// reader without JavaScript sees, too. The script adds pictures, and takes the files' names from
// the tables.

namespace penstock::report {
namespace {

constexpr size_t file_rows_max = 300;  // rows of a table; one more row sums up the rest
constexpr size_t process_rows_max = 100;
constexpr size_t timeline_rows = 16;

double rate(double bytes, double seconds) {
  return seconds > 0 ? bytes / seconds : 0;
}

double mean_run_bytes(const Figures& figures) {
  return figures.device_seeks == 0
             ? 0
             : static_cast<double>(figures.bytes()) / static_cast<double>(figures.device_seeks);
}

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

// --- At a glance -------------------------------------------------------------------------------

struct GlanceRow {
  bool wide;
  const char* name;
  const char* explanation;
  std::string (*value)(const TraceSummary&);
};

const GlanceRow glance_rows[] = {
    {false, "Requests", "reads and writes of files, each of one call",
     [](const TraceSummary& s) { return grouped(s.totals.requests()); }},
    {false, "Seeks", "requests that begin where the one before them, of any file, did not end",
     [](const TraceSummary& s) { return grouped(s.totals.device_seeks); }},
    {false, "Mean run", "bytes from one seek to the next",
     [](const TraceSummary& s) { return bytes_text(mean_run_bytes(s.totals)); }},
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
       return s.seconds() > 0 ? rate_text(rate(static_cast<double>(s.totals.bytes()), s.seconds()))
                              : std::string("-");
     }},
    {false, "Files", "with requests",
     [](const TraceSummary& s) { return grouped(s.files.size()); }},
    {false, "Processes", "with requests",
     [](const TraceSummary& s) { return grouped(s.processes.size()); }},
    {true, "Read latency", "median, 99 %, largest: from asking to the answer",
     [](const TraceSummary& s) { return latency_text(s.read_latencies); }},
    {true, "Write latency", "median, 99 %, largest",
     [](const TraceSummary& s) { return latency_text(s.write_latencies); }},
};

void add_glance(Writer& page, std::span<const TraceSummary> traces) {
  if (traces.size() == 1) {
    page.raw("<section aria-label=\"At a glance\"><dl class=\"tiles\">\n");
    for (const GlanceRow& row : glance_rows) {
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
  for (const GlanceRow& row : glance_rows) {
    page.add("<tr><th scope=\"row\" title=\"{}\">{}{}</th>", html_escaped(row.explanation),
             row.name, row.wide ? ": median · 99 % · slowest" : "");
    for (const TraceSummary& trace : traces) {
      page.add("<td class=\"n{}\">{}</td>", row.wide ? " wide" : "", row.value(trace));
    }
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></section>\n");
}

// --- One trace ---------------------------------------------------------------------------------

// Returns the `rows_max` most important rows, by their share of the bytes and of the seeks, sorted
// by bytes in descending order. Adds the figures of all other rows to `others`.
template <class T>
std::vector<T> most_important(const std::vector<T>& all, const Figures& totals, size_t rows_max,
                              Figures& others) {
  auto weight = [&](const T& one) {
    return static_cast<double>(one.bytes()) / std::max(1.0, static_cast<double>(totals.bytes())) +
           static_cast<double>(one.device_seeks) /
               std::max(1.0, static_cast<double>(totals.device_seeks));
  };
  std::vector<T> listed = all;
  std::ranges::stable_sort(listed, [&](const T& a, const T& b) { return weight(a) > weight(b); });
  for (size_t i = rows_max; i < listed.size(); ++i) {
    others.reads += listed[i].reads;
    others.writes += listed[i].writes;
    others.read_bytes += listed[i].read_bytes;
    others.written_bytes += listed[i].written_bytes;
    others.file_seeks += listed[i].file_seeks;
    others.device_seeks += listed[i].device_seeks;
  }
  if (listed.size() > rows_max) listed.erase(listed.begin() + rows_max, listed.end());
  std::ranges::stable_sort(listed, [](const T& a, const T& b) { return a.bytes() > b.bytes(); });
  return listed;
}

struct Largest {
  double requests = 0, read = 0, written = 0, seeks = 0;
};
template <class T>
Largest largest_of(const std::vector<T>& rows) {
  Largest largest;
  for (const T& row : rows) {
    largest.requests = std::max(largest.requests, static_cast<double>(row.requests()));
    largest.read = std::max(largest.read, static_cast<double>(row.read_bytes));
    largest.written = std::max(largest.written, static_cast<double>(row.written_bytes));
    largest.seeks = std::max(largest.seeks, static_cast<double>(row.device_seeks));
  }
  return largest;
}

void add_figures(Writer& page, const Figures& figures, const Largest& largest) {
  auto bytes = [](uint64_t n) { return n == 0 ? "-" : bytes_text(n); };
  page.number_cell(static_cast<double>(figures.read_bytes), bytes(figures.read_bytes),
                   largest.read);
  page.number_cell(static_cast<double>(figures.written_bytes), bytes(figures.written_bytes),
                   largest.written);
  page.number_cell(static_cast<double>(figures.requests()), grouped(figures.requests()),
                   largest.requests);
  page.number_cell(static_cast<double>(figures.device_seeks), grouped(figures.device_seeks),
                   largest.seeks);
  page.number_cell(static_cast<double>(figures.file_seeks), grouped(figures.file_seeks));
  page.number_cell(mean_run_bytes(figures),
                   figures.device_seeks == 0 ? "-" : bytes_text(mean_run_bytes(figures)));
}

void add_others(Writer& page, const Figures& others, size_t count, const char* what) {
  if (count == 0) return;
  page.add("<tr class=\"others\"><th scope=\"row\">{} other {}</th>", grouped(count), what);
  add_figures(page, others, {});
  page.raw("<td></td></tr>\n");
}

constexpr const char* seeks_explained = "how often the device had to come here from somewhere else";
constexpr const char* file_seeks_explained = "within one file alone, whatever came between";
constexpr const char* run_explained = "bytes from one seek to the next";

void add_files(Writer& page, const TraceSummary& trace, const std::vector<FileFigures>& listed,
               const Figures& others) {
  page.add("<section class=\"files\"><h3>Files</h3>\n<p>{} with requests{}.</p>\n",
           trace.files.size() == 1 ? "One" : grouped(trace.files.size()),
           listed.size() < trace.files.size()
               ? fmt::format("; the {} with most bytes and seeks one by one", listed.size())
               : "");
  page.begin_table("figures", "Table of files");
  page.heading({{"File", ""},
                {"Read", ""},
                {"Written", ""},
                {"Requests", ""},
                {"Seeks", seeks_explained},
                {"Within", file_seeks_explained},
                {"Mean run", run_explained},
                {"Peak size", "the largest that it became"}});
  page.raw("<tbody>\n");
  const Largest largest = largest_of(listed);
  for (const FileFigures& row : listed) {
    const trace::ConvertedFile& file = trace.conversion.files[row.file];
    page.add("<tr><th scope=\"row\"><span class=\"name\">{}</span>{}</th>", shown(file.path),
             file.unlinked ? " <small>deleted</small>" : "");
    add_figures(page, row, largest);
    page.number_cell(static_cast<double>(file.peak_bytes), bytes_text(file.peak_bytes));
    page.raw("</tr>\n");
  }
  add_others(page, others, trace.files.size() - listed.size(), "files");
  page.raw("</tbody></table></div></section>\n");
}

void add_processes(Writer& page, const TraceSummary& trace) {
  Figures others;
  const std::vector<ProcessFigures> listed =
      most_important(trace.processes, trace.totals, process_rows_max, others);
  page.raw("<section><h3>Processes</h3>\n");
  page.begin_table("figures", "Table of processes");
  page.heading({{"Process", ""},
                {"Read", ""},
                {"Written", ""},
                {"Requests", ""},
                {"Seeks", "requests of this process that the device had to seek for"},
                {"Within", "requests that begin where the last one of the same file did not end"},
                {"Mean run", run_explained}});
  page.raw("<tbody>\n");
  const Largest largest = largest_of(listed);
  for (const ProcessFigures& row : listed) {
    page.add("<tr><th scope=\"row\">{}</th>", row.process);
    add_figures(page, row, largest);
    page.raw("</tr>\n");
  }
  if (listed.size() < trace.processes.size()) {
    page.add("<tr class=\"others\"><th scope=\"row\">{} other processes</th>",
             grouped(trace.processes.size() - listed.size()));
    add_figures(page, others, {});
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></section>\n");
}

void add_runs(Writer& page, const TraceSummary& trace) {
  page.raw(
      "<section><h3>Lengths of runs</h3>\n<p>A run is what the device moves between two seeks. "
      "Long ones are good.</p>\n");
  page.begin_table("runs", "Histogram of run lengths");
  page.heading({{"Bytes", ""}, {"Runs", ""}, {"", ""}});
  page.raw("<tbody>\n");
  size_t low = 0, high = trace.runs.size();
  while (low < high && trace.runs[low] == 0) ++low;
  while (high > low && trace.runs[high - 1] == 0) --high;
  uint64_t all = 0;
  for (const uint64_t count : trace.runs) all += count;
  const uint64_t most = *std::ranges::max_element(trace.runs);
  for (size_t k = low; k < high; ++k) {
    const auto count = static_cast<double>(trace.runs[k]);
    page.add("<tr><th scope=\"row\">from {}</th>",
             bytes_text(std::ldexp(1.0, static_cast<int>(k))));
    page.number_cell(count, grouped(trace.runs[k]), static_cast<double>(most));
    page.add("<td class=\"n\">{}</td></tr>\n", share_text(count, static_cast<double>(all)));
  }
  page.raw("</tbody></table></div></section>\n");
}

void add_timeline_table(Writer& page, const TraceSummary& trace) {
  const std::vector<Timeline::Bin>& bins = trace.timeline.bins();
  page.raw("<details><summary>Over time, as a table</summary>\n");
  page.begin_table("figures", "Throughput, latency and seeks over time");
  page.heading({{"From", ""},
                {"Reading", ""},
                {"Writing", ""},
                {"Seeks", ""},
                {"Slowest read", ""},
                {"Slowest write", ""}});
  page.raw("<tbody>\n");
  const size_t stride = std::max<size_t>(1, bins.size() / timeline_rows);
  const double seconds = static_cast<double>(stride) * trace.timeline.bin_ns() * 1e-9;
  for (size_t begin = 0; begin < bins.size(); begin += stride) {
    Timeline::Bin sum;
    for (size_t i = begin; i < std::min(begin + stride, bins.size()); ++i) {
      sum.read_bytes += bins[i].read_bytes;
      sum.written_bytes += bins[i].written_bytes;
      sum.seeks += bins[i].seeks;
      sum.reads.max_ns = std::max(sum.reads.max_ns, bins[i].reads.max_ns);
      sum.writes.max_ns = std::max(sum.writes.max_ns, bins[i].writes.max_ns);
    }
    const double from = static_cast<double>(begin) * trace.timeline.bin_ns() * 1e-9;
    auto latency = [](uint64_t ns) {
      return ns == 0 ? std::string("-") : duration_text(static_cast<double>(ns) * 1e-9);
    };
    page.add(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        begin == 0 ? "0 s" : duration_text(from), rate_text(rate(sum.read_bytes, seconds)),
        rate_text(rate(sum.written_bytes, seconds)), grouped(sum.seeks), latency(sum.reads.max_ns),
        latency(sum.writes.max_ns));
  }
  page.raw("</tbody></table></div></details>\n");
}

void add_notes(Writer& page, const TraceSummary& trace) {
  const std::vector<std::string> caveats = trace.conversion.caveats();
  if (caveats.empty()) return;
  page.raw("<section class=\"notes\"><h3>What this trace does not show</h3>\n<ul>\n");
  for (const std::string& caveat : caveats) page.add("<li>{}</li>\n", shown(caveat, 2000));
  page.raw("</ul></section>\n");
}

void add_trace_head(Writer& page, const TraceSummary& trace) {
  page.raw("<p class=\"about\">");
  if (!trace.header.command.empty()) {
    page.add("<code>{}</code> ", shown(trace.header.command, 400));
  }
  if (!trace.header.host.empty()) page.add("on {}", shown(trace.header.host, 100));
  switch (trace.header.backend) {
    case trace::Backend::unknown:
      break;
    case trace::Backend::import:
      page.raw(" · from another program's log");
      break;
    case trace::Backend::synthetic:
      page.raw(" · made up");
      break;
    default:
      page.add(" · seen by {}", html_escaped(trace::name_of(trace.header.backend)));
  }
  page.raw("</p>\n");
  if (trace.is_part) {
    page.add("<p class=\"part\">A part of the trace: requests {} to {} of {}.</p>\n",
             grouped(trace.first_request),
             grouped(trace.first_request + trace.totals.requests() - 1),
             grouped(trace.conversion.requests));
  }
}

void add_trace(Writer& page, const TraceSummary& trace, size_t index, bool alone,
               const std::vector<FileFigures>& listed, const Figures& others) {
  page.add("<article class=\"trace\" id=\"trace-{}\" data-trace=\"{}\">\n", index, index);
  if (!alone) {
    page.add("<h2>{}</h2>\n", shown(base_name(trace.path), 100));
    add_trace_head(page, trace);
  }
  if (trace.totals.requests() == 0 && !trace.under.empty()) {
    page.add(
        "<p class=\"empty\">No request in this trace reads or writes a file whose path begins "
        "with {} (in a trace paths begin with /).</p>\n",
        shown(trace.under, 100));
    add_notes(page, trace);
    page.raw("</article>\n");
    return;
  }
  if (trace.totals.requests() == 0) {
    page.raw(
        "<p class=\"empty\">No request in this trace reads or writes a file. Was the program's "
        "work done by a process that could not be followed, through a mapping, or through pipes "
        "and sockets?</p>\n");
    add_notes(page, trace);
    page.raw("</article>\n");
    return;
  }
  page.add(
      "<section class=\"plot order\"><h3>Where requests went</h3>\n"
      "<p>Requests in the order in which they were issued, each at its address; files lie on top "
      "of each other. <span class=\"key read\">reads</span> <span class=\"key write\">writes</span>"
      "</p>\n<div class=\"picture\"><noscript><p class=\"empty\">The picture needs JavaScript. The "
      "tables below need none.</p></noscript></div></section>\n"
      "<section class=\"plot time\"><h3>Over time</h3>\n<div class=\"curves\"></div>\n");
  add_timeline_table(page, trace);
  page.raw("</section>\n");
  add_runs(page, trace);
  add_files(page, trace, listed, others);
  add_processes(page, trace);
  add_notes(page, trace);
  page.raw("</article>\n");
}

void add_head(Writer& page, const std::string& title) {
  page.add(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>",
      page_script_hash, title);
  page.raw(page_style);
  page.raw("</style>\n</head>\n");
}

std::string title_of(std::span<const TraceSummary> traces, std::span<const SortRun> sorts) {
  std::vector<std::string_view> names;
  for (const TraceSummary& trace : traces) names.push_back(trace.path);
  if (traces.empty()) {
    for (const SortRun& sort : sorts) names.push_back(sort.name);
  }
  std::string title;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 3); ++i)
    title += (i > 0 ? ", " : "") + shown(base_name(names[i]), 60);
  if (names.size() > 3) title += fmt::format(" and {} more", names.size() - 3);
  return title;
}

}  // namespace

std::string make_page(std::span<const TraceSummary> traces, std::span<const SortRun> sorts,
                      const PageOptions& options) {
  Writer page;
  const std::string title = title_of(traces, sorts);
  add_head(page, title + " · where the seeks go");
  page.add("<body>\n<header><p class=\"kicker\">{}</p><h1>{}</h1></header>\n<main>\n",
           traces.empty() ? "What a sort did" : "Where the seeks go", title);
  if (traces.size() == 1) add_trace_head(page, traces[0]);
  if (!traces.empty()) add_glance(page, traces);
  page.add("<div class=\"traces{}\">\n", traces.size() > 1 ? " several" : "");

  // Tables share the page's room as well: with many traces, each table has fewer rows.
  const size_t rows_max = std::max<size_t>(20, file_rows_max / std::max<size_t>(1, traces.size()));
  std::vector<std::vector<FileFigures>> listed(traces.size());
  for (size_t i = 0; i < traces.size(); ++i) {
    Figures others;
    listed[i] = most_important(traces[i].files, traces[i].totals, rows_max, others);
    add_trace(page, traces[i], i, traces.size() == 1, listed[i], others);
  }
  page.raw("</div>\n");
  // Sorts get half of the room if the page has pictures of traces, and all of it otherwise.
  const size_t used_bytes = page.bytes() + page_script.size() + 2000;
  const size_t room_bytes = options.bytes_max > used_bytes ? options.bytes_max - used_bytes : 0;
  add_sorts(page, sorts, traces.empty() && sorts.size() == 1,
            traces.empty() ? room_bytes : room_bytes / 2);
  page.add(
      "</main>\n<footer>Made by penstock {}. This page is complete: it asks the network for "
      "nothing.</footer>\n",
      html_escaped(options.version));

  const size_t spent_bytes = page.bytes() + page_script.size() + 1000;
  size_t left_bytes = options.bytes_max > spent_bytes ? options.bytes_max - spent_bytes : 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    if (traces[i].totals.requests() == 0) continue;
    // Base64 makes four bytes of three. The next traces share the bytes that this one leaves.
    const size_t share_bytes = left_bytes / (traces.size() - i) / 4 * 3;
    const std::string data = pack_data(traces[i], listed[i], share_bytes);
    const std::string text = base64({reinterpret_cast<const uint8_t*>(data.data()), data.size()});
    left_bytes -= std::min(left_bytes, text.size());
    page.add("<script type=\"text/plain\" id=\"data-{}\">{}</script>\n", i, text);
  }
  page.raw("<script>");
  page.raw(page_script);
  page.raw("</script>\n</body>\n</html>\n");
  return page.take();
}

}  // namespace penstock::report
