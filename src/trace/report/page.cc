#include "trace/report/page.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

#include "trace/report/advice.h"
#include "trace/report/calls_section.h"
#include "trace/report/data.h"
#include "trace/report/glance_section.h"
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

// --- One trace ---------------------------------------------------------------------------------

// Returns the `rows_max` most important rows, by their share of the bytes, of the seeks and of the
// time, sorted by bytes in descending order. Adds the figures of all other rows to `others`.
template <class T>
std::vector<T> most_important(const std::vector<T>& all, const Figures& totals, size_t rows_max,
                              Figures& others,
                              const std::function<double(const T&)>& time_share = {}) {
  auto weight = [&](const T& one) {
    return (time_share ? time_share(one) : 0) +
           static_cast<double>(one.bytes()) / std::max(1.0, static_cast<double>(totals.bytes())) +
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
  page.number_cell(figures.mean_run_bytes(),
                   figures.device_seeks == 0 ? "-" : bytes_text(figures.mean_run_bytes()));
}

void add_others(Writer& page, const Figures& others, size_t count) {
  if (count == 0) return;
  page.add("<tr class=\"others\"><th scope=\"row\">{}</th>", counted(count, "other file"));
  page.raw("<td></td>");
  add_figures(page, others, {});
  page.raw("<td></td><td></td></tr>\n");
}

constexpr const char* seeks_explained = "how often the device had to come here from somewhere else";
constexpr const char* file_seeks_explained = "within one file alone, whatever came between";
constexpr const char* run_explained = "bytes from one seek to the next";

void add_files(Writer& page, const TraceSummary& trace, const std::vector<FileFigures>& listed,
               const Figures& others) {
  page.section("Files", "files");
  page.add("<p>{} with requests{}.</p>\n",
           trace.files.size() == 1 ? "One" : grouped(trace.files.size()),
           listed.size() < trace.files.size()
               ? fmt::format("; the {} with most time, bytes and seeks one by one", listed.size())
               : "");
  page.begin_table("figures", "Table of files");
  page.heading({{"File", ""},
                {"Time", "of all its calls, in the whole trace"},
                {"Read", ""},
                {"Written", ""},
                {"Requests", ""},
                {"Seeks", seeks_explained},
                {"Within", file_seeks_explained},
                {"Mean run", run_explained},
                {"Peak size", "the largest that it became, without space that was only reserved"},
                {"Syncs", "in the whole trace"}});
  page.raw("<tbody>\n");
  const Largest largest = largest_of(listed);
  uint64_t most_ns = 0;
  for (const FileFigures& row : listed)
    most_ns = std::max(most_ns, trace.conversion.files[row.file].calls.all().ns);
  for (const FileFigures& row : listed) {
    const trace::ConvertedFile& file = trace.conversion.files[row.file];
    page.add("<tr><th scope=\"row\"><span class=\"name\">{}</span>{}</th>", shown(file.path),
             file.unlinked ? " <small>deleted</small>" : "");
    const auto ns = static_cast<double>(file.calls.all().ns);
    page.number_cell(ns, ns > 0 ? duration_text(ns * 1e-9) : "-", static_cast<double>(most_ns));
    add_figures(page, row, largest);
    page.number_cell(static_cast<double>(file.used_bytes), bytes_text(file.used_bytes));
    page.number_cell(static_cast<double>(file.syncs), file.syncs > 0 ? grouped(file.syncs) : "-");
    page.raw("</tr>\n");
  }
  add_others(page, others, trace.files.size() - listed.size());
  page.raw("</tbody></table></div></section>\n");
}

void add_processes(Writer& page, const TraceSummary& trace) {
  Figures others;
  const std::vector<ProcessFigures> listed =
      most_important(trace.processes, trace.totals, process_rows_max, others);
  page.section("Processes");
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
    page.add("<tr class=\"others\"><th scope=\"row\">{}</th>",
             counted(trace.processes.size() - listed.size(), "other process", "other processes"));
    add_figures(page, others, {});
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div></section>\n");
}

void add_runs(Writer& page, const TraceSummary& trace) {
  page.section("Lengths of runs");
  page.raw(
      "<p>A run is what the device moves between two seeks. "
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
  page.begin_table("figures", "Throughput, latency, seeks and syncs over time");
  page.heading({{"From", ""},
                {"Reading", ""},
                {"Writing", ""},
                {"Seeks", ""},
                {"Syncs", ""},
                {"Slowest read", ""},
                {"Slowest write", ""},
                {"Slowest sync", ""}});
  page.raw("<tbody>\n");
  const size_t stride = std::max<size_t>(1, bins.size() / timeline_rows);
  const double seconds = static_cast<double>(stride) * trace.timeline.bin_ns() * 1e-9;
  for (size_t begin = 0; begin < bins.size(); begin += stride) {
    Timeline::Bin sum;
    for (size_t i = begin; i < std::min(begin + stride, bins.size()); ++i) {
      sum.read_bytes += bins[i].read_bytes;
      sum.written_bytes += bins[i].written_bytes;
      sum.seeks += bins[i].seeks;
      sum.syncs.requests += bins[i].syncs.requests;
      for (Latencies Timeline::Bin::* side :
           {&Timeline::Bin::reads, &Timeline::Bin::writes, &Timeline::Bin::syncs})
        (sum.*side).max_ns = std::max((sum.*side).max_ns, (bins[i].*side).max_ns);
    }
    const double from = static_cast<double>(begin) * trace.timeline.bin_ns() * 1e-9;
    auto latency = [](uint64_t ns) {
      return ns == 0 ? std::string("-") : duration_text(static_cast<double>(ns) * 1e-9);
    };
    page.add(
        "<tr><th scope=\"row\">{}</th><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>"
        "<td class=\"n\">{}</td><td class=\"n\">{}</td></tr>\n",
        begin == 0 ? "0 s" : duration_text(from), rate_text(rate(sum.read_bytes, seconds)),
        rate_text(rate(sum.written_bytes, seconds)), grouped(sum.seeks),
        grouped(sum.syncs.requests), latency(sum.reads.max_ns), latency(sum.writes.max_ns),
        latency(sum.syncs.max_ns));
  }
  page.raw("</tbody></table></div></details>\n");
}

void add_notes(Writer& page, const TraceSummary& trace) {
  const std::vector<std::string> caveats = trace.conversion.caveats();
  if (caveats.empty()) return;
  page.section("What this trace does not show", "notes");
  page.raw("<ul>\n");
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
      page.add(" · recorded by {}", html_escaped(trace::name_of(trace.header.backend)));
  }
  if (trace.header.wall_ns != 0) {
    page.add(" · {:%Y-%m-%d %H:%M} UTC",
             fmt::gmtime(static_cast<time_t>(trace.header.wall_ns / 1'000'000'000)));
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
  page.sections_have_articles = !alone;
  page.add("<article class=\"trace\" id=\"trace-{}\" data-trace=\"{}\">\n", index, index);
  if (!alone) {
    page.add("<h2>{}</h2>\n", shown(base_name(trace.path), 100));
    add_trace_head(page, trace);
  }
  if (!trace.is_part) add_calls(page, trace.conversion);
  if (trace.totals.requests() == 0 && !trace.under.empty()) {
    page.add(
        "<p class=\"empty\">No request in this trace reads or writes a file whose path begins "
        "with {}.</p>\n",
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
  page.section("Where requests went", "plot order");
  page.add(
      "<p>Requests in the order in which they were issued (to the right), each at its offset in "
      "its "
      "file (upwards); files lie on top of each other. "
      "<span class=\"key read\">reads</span> <span class=\"key write\">writes</span>{}</p>\n",
      trace.syncs.cells().empty()
          ? ""
          : " <span class=\"key sync\">syncs, in the strip above the files</span>");
  page.raw(
      "<div class=\"picture\"><noscript><p class=\"empty\">The picture needs JavaScript. The "
      "tables below need none.</p></noscript></div></section>\n");
  page.section("Over time", "plot time");
  page.raw("<div class=\"curves\"></div>\n");
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
      "{}<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; script-src '{}'; base-uri 'none'; form-action 'none'\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n"
      "<meta name=\"referrer\" content=\"no-referrer\">\n<title>{}</title>\n<style>",
      page_beginning, page_script_hash, title);
  page.raw(page_style);
  page.raw("</style>\n</head>\n");
}

// Returns "Sort of out.u64", or "Trace of run.trace".
std::string title_of(std::span<const TraceSummary> traces, std::span<const SortRun> sorts) {
  std::vector<std::string_view> names;
  for (const TraceSummary& trace : traces) names.push_back(trace.path);
  if (traces.empty()) {
    for (const SortRun& sort : sorts) names.push_back(sort.name);
  }
  std::string title = traces.empty() ? "Sort" : "Trace";
  title += names.size() == 1 ? " of " : "s of ";
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
  add_head(page, title + " · penstock");
  page.add("<body>\n<header><h1>{}</h1></header>\n<main>\n", title);
  if (traces.size() == 1) add_trace_head(page, traces[0]);
  if (!traces.empty()) add_glance(page, traces);
  page.add("<div class=\"traces{}\">\n", traces.size() > 1 ? " several" : "");

  // Tables share the page's room as well: with many traces, each table has fewer rows.
  const size_t rows_max = std::max<size_t>(20, file_rows_max / std::max<size_t>(1, traces.size()));
  std::vector<std::vector<FileFigures>> listed(traces.size());
  for (size_t i = 0; i < traces.size(); ++i) {
    Figures others;
    const auto& whole = traces[i].conversion;
    const bool timed = has_times(whole) && !traces[i].is_part;
    const auto ns_of = [&](const FileFigures& row) { return whole.files[row.file].calls.all().ns; };
    listed[i] = most_important<FileFigures>(
        traces[i].files, traces[i].totals, rows_max, others, [&](const FileFigures& row) {
          return timed ? static_cast<double>(ns_of(row)) /
                             std::max(1.0, static_cast<double>(whole.calls.all().ns))
                       : 0;
        });
    if (timed) std::ranges::stable_sort(listed[i], std::ranges::greater{}, ns_of);
    add_trace(page, traces[i], i, traces.size() == 1, listed[i], others);
  }
  page.raw("</div>\n");
  // Sorts get half of the room if the page has pictures of traces, and all of it otherwise.
  const size_t used_bytes = page.bytes() + page_script.size() + 2000;
  const size_t room_bytes = options.bytes_max > used_bytes ? options.bytes_max - used_bytes : 0;
  add_sorts(page, sorts, traces.empty() && sorts.size() == 1,
            traces.empty() ? room_bytes : room_bytes / 2);
  page.add(
      "</main>\n<footer>Made by penstock {}. This page is self-contained: it loads "
      "nothing from the network.</footer>\n",
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
