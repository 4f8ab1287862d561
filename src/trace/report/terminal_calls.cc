// The calls of a trace and their time, on the terminal.

#include <string>

#include "trace/report/advice.h"
#include "trace/report/terminal.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

using trace::CallKind;
using trace::CallSum;

double seconds_of_calls(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

}  // namespace

std::string terminal_calls(const trace::Conversion& trace, const TerminalOptions& options) {
  Text text;
  add_advice(text, advice_on(trace), options);
  if (!has_times(trace)) return text.take();
  const auto whole_ns = static_cast<double>(trace.whole_ns);
  const auto shown = [&](uint64_t ns) {
    return plain(duration_text(seconds_of_calls(ns)), options.unicode);
  };
  text.line("Where the time went: calls on files were under way for {} of {}",
            share_text(static_cast<double>(trace.busy_ns), whole_ns), shown(trace.whole_ns));
  text.line("  {:<8}{:>12}{:>12}{:>13}{:>12}", "call", "calls", "time", "of the time", "mean");
  for (size_t k = 0; k < trace.calls.size(); ++k) {
    const CallSum& sum = trace.calls[k];
    if (sum.calls == 0) continue;
    text.line("  {:<8}{:>12}{:>12}{:>13}{:>12}", trace::name_of(static_cast<CallKind>(k)),
              grouped(sum.calls), shown(sum.ns), share_text(static_cast<double>(sum.ns), whole_ns),
              shown(sum.ns / sum.calls));
  }
  if (const std::string names = failed_names_text(trace); !names.empty())
    add_sentences(text, "  ", names, options);
  text.line("");
  return text.take();
}

}  // namespace penstock::report
