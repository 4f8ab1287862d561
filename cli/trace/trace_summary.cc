#include "cli/trace/trace_summary.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "cli/common/print.h"
#include "trace/report/text.h"

namespace penstock::cli {
namespace {

using report::bytes_text;
using report::printable;

constexpr size_t files_shown = 8;

std::string runs_line(const trace::RunHistogram& runs) {
  std::string line;
  for (size_t k = 0; k < runs.size(); ++k) {
    if (runs[k] == 0) continue;
    line += fmt::format("{}{}: {}", line.empty() ? "" : ", ",
                        bytes_text(std::ldexp(1.0, static_cast<int>(k))), runs[k]);
  }
  return line;
}

}  // namespace

void print_summary(std::FILE* to, const trace::Conversion& c) {
  const auto used = static_cast<size_t>(std::ranges::count_if(
      c.files, [](const trace::ConvertedFile& file) { return file.reads + file.writes > 0; }));
  print_to(to, "  {} requests of {} processes on {} files: {} reads ({}), {} writes ({})\n",
           c.requests, c.processes, used, c.reads, bytes_text(c.read_bytes), c.writes,
           bytes_text(c.written_bytes));
  print_to(to, "  {} seeks on one disk (mean run {}), {} within files\n", c.device_seeks,
           bytes_text(c.mean_run_bytes()), c.file_seeks);
  if (c.requests > 0) print_to(to, "  runs from these lengths up: {}\n", runs_line(c.runs));

  std::vector<const trace::ConvertedFile*> busiest;
  for (const trace::ConvertedFile& file : c.files) {
    if (file.reads + file.writes > 0) busiest.push_back(&file);
  }
  const auto moved = [](const trace::ConvertedFile* file) {
    return file->read_bytes + file->written_bytes;
  };
  std::ranges::stable_sort(busiest, std::ranges::greater{}, moved);
  if (busiest.size() > files_shown) busiest.resize(files_shown);
  for (const trace::ConvertedFile* file : busiest) {
    print_to(to, "  {:>10} read {:>10} written {:>8} seeks  {}\n", bytes_text(file->read_bytes),
             bytes_text(file->written_bytes), file->switches,
             printable(file->path, path_shown_characters));
  }
  if (busiest.size() < used) print_to(to, "  ... and {} more files\n", used - busiest.size());
  for (const std::string& caveat : c.caveats()) print_to(to, "  note: {}\n", caveat);
}

}  // namespace penstock::cli
