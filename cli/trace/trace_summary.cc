#include "cli/trace/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/amounts.h"
#include "base/wrapped.h"
#include "cli/common/print.h"
#include "trace/report/advice.h"
#include "trace/report/terminal.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

using report::bytes_text;

constexpr size_t files_shown = 8;
constexpr size_t name_columns = 36;

}  // namespace

std::string runs_text(const trace::RunHistogram& runs) {
  std::string text;
  for (size_t k = 0; k < runs.size(); ++k) {
    if (runs[k] == 0) continue;
    text += fmt::format("{}{}: {}", text.empty() ? "runs from these lengths up: " : ", ",
                        bytes_text(std::ldexp(1.0, static_cast<int>(k))), grouped(runs[k]));
  }
  return text;
}

bool terminal_has_unicode() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const char* value = std::getenv(name);
    if (value == nullptr || *value == 0) continue;
    const std::string_view locale = value;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos ||
           locale.find("utf-8") != locale.npos || locale.find("UTF8") != locale.npos;
  }
  return false;
}

void print_summary(std::FILE* to, const trace::Conversion& c) {
  const report::TerminalOptions options{.unicode = terminal_has_unicode()};
  report::Text text;
  text.add(report::terminal_calls(c, options));
  std::vector<const trace::ConvertedFile*> busiest;
  for (const trace::ConvertedFile& file : c.files) {
    if (file.reads + file.writes > 0) busiest.push_back(&file);
  }
  const size_t used = busiest.size();
  text.line("  {} of {} on {}", counted(c.requests, "request"),
            counted(c.processes, "process", "processes"), counted(used, "file"));
  text.line("  {} ({}), {} ({})", counted(c.reads, "read"), bytes_text(c.read_bytes),
            counted(c.writes, "write"), bytes_text(c.written_bytes));
  text.line("  {} on one disk (mean run {}), {} within files", counted(c.device_seeks, "seek"),
            bytes_text(c.mean_run_bytes()), grouped(c.file_seeks));
  if (c.requests > 0) text.line("{}", wrapped("  " + runs_text(c.runs), 4, 0));

  const bool timed = report::has_times(c);
  const auto weight = [&](const trace::ConvertedFile* file) {
    return timed ? file->calls.all().ns : file->read_bytes + file->written_bytes;
  };
  std::ranges::stable_sort(busiest, std::ranges::greater{}, weight);
  if (busiest.size() > files_shown) busiest.resize(files_shown);
  if (used > 0) {
    text.line("  {}{:>9} {:>9} {:>9}  file", timed ? "     time " : "", "read", "written", "seeks");
  }
  for (const trace::ConvertedFile* file : busiest) {
    const std::string time = report::plain(
        report::duration_text(static_cast<double>(weight(file)) * 1e-9), options.unicode);
    text.line("  {}{:>9} {:>9} {:>9}  {}", timed ? fmt::format("{:>9} ", time) : "",
              bytes_text(file->read_bytes), bytes_text(file->written_bytes),
              grouped(file->switches), report::fitted(file->path, name_columns, options.unicode));
  }
  if (busiest.size() < used) text.line("  ... and {}", counted(used - busiest.size(), "more file"));
  for (const std::string& caveat : c.caveats())
    report::add_sentences(text, "  note: ", caveat, options);
  print_to(to, "{}", text.take());
}

}  // namespace penstock::cli
