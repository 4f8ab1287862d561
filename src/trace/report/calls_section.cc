#include "trace/report/calls_section.h"

#include <algorithm>
#include <string>

#include "trace/report/advice.h"
#include "trace/report/page_advice.h"
#include "trace/report/text.h"

namespace penstock::report {

void add_calls(Writer& page, const trace::Conversion& trace) {
  if (!has_times(trace)) return;
  add_advice(page, advice_on(trace));
  page.section("Where the time went");
  page.add(
      "<p>Calls on files were under way for <b>{}</b> of {}. Times are from request to answer, of "
      "all threads together: calls that overlap may have more than 100 % of the time.</p>\n",
      share_text(static_cast<double>(trace.busy_ns), static_cast<double>(trace.whole_ns)),
      duration_text(static_cast<double>(trace.whole_ns) * 1e-9));
  page.begin_table("figures calls", "Calls and their time");
  page.heading(
      {{"Call", ""},
       {"Time", "from request to answer, of all threads together"},
       {"Of the time", "the time of the clock, from the beginning of the trace to its end"},
       {"Calls", ""},
       {"Mean", "time of a call"}});
  page.raw("<tbody>\n");
  uint64_t most_ns = 0;
  for (const trace::CallSum& sum : trace.calls) most_ns = std::max(most_ns, sum.ns);
  for (size_t k = 0; k < trace.calls.size(); ++k) {
    const trace::CallSum& sum = trace.calls[k];
    if (sum.calls == 0) continue;
    const auto ns = static_cast<double>(sum.ns), calls = static_cast<double>(sum.calls);
    page.add("<tr><th scope=\"row\">{}</th>", trace::name_of(static_cast<trace::CallKind>(k)));
    page.number_cell(ns, duration_text(ns * 1e-9), static_cast<double>(most_ns));
    page.number_cell(ns, share_text(ns, static_cast<double>(trace.whole_ns)));
    page.number_cell(calls, grouped(sum.calls));
    page.number_cell(ns / calls, duration_text(ns / calls * 1e-9));
    page.raw("</tr>\n");
  }
  page.raw("</tbody></table></div>\n");
  if (const std::string names = failed_names_text(trace); !names.empty())
    page.add("<p>{}</p>\n", shown(names, 1000));
  page.raw("</section>\n");
}

}  // namespace penstock::report
