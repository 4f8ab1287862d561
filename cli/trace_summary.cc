#include "cli/trace_summary.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "cli/print.h"

namespace penstock::cli {
namespace {

constexpr size_t files_shown = 8;
constexpr size_t path_shown_bytes = 60;

// Of a path that is too long its end, which tells more. Control characters would reach the
// terminal.
std::string shown(const std::string& path) {
  std::string text = path.size() <= path_shown_bytes
                         ? path
                         : "..." + path.substr(path.size() - (path_shown_bytes - 3));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  return text;
}

std::string runs_line(const trace::RunHistogram& runs) {
  std::string line;
  for (size_t k = 0; k < runs.size(); ++k) {
    if (runs[k] == 0) continue;
    line += fmt::format("{}{}: {}", line.empty() ? "" : ", ", readable_bytes(uint64_t{1} << k),
                        runs[k]);
  }
  return line;
}

}  // namespace

std::string readable_bytes(uint64_t bytes) {
  constexpr std::array<std::string_view, 7> units = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  if (unit == 0 || value == static_cast<double>(static_cast<uint64_t>(value))) {
    return fmt::format("{:.0f} {}", value, units[unit]);
  }
  return fmt::format("{:.1f} {}", value, units[unit]);
}

void print_summary(std::FILE* to, const trace::Conversion& c) {
  const auto used = static_cast<size_t>(std::ranges::count_if(
      c.files, [](const trace::ConvertedFile& file) { return file.reads + file.writes > 0; }));
  print_to(to, "  {} requests of {} processes on {} files: {} reads ({}), {} writes ({})\n",
           c.requests, c.processes, used, c.reads, readable_bytes(c.read_bytes), c.writes,
           readable_bytes(c.written_bytes));
  print_to(to, "  {} seeks on one disk (mean run {}), {} within files\n", c.device_seeks,
           readable_bytes(static_cast<uint64_t>(c.mean_run_bytes())), c.file_seeks);
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
    print_to(to, "  {:>10} read {:>10} written {:>8} seeks  {}\n", readable_bytes(file->read_bytes),
             readable_bytes(file->written_bytes), file->seeks, shown(file->path));
  }
  if (busiest.size() < used) print_to(to, "  ... and {} more files\n", used - busiest.size());
  for (const std::string& caveat : c.caveats()) print_to(to, "  note: {}\n", caveat);
}

}  // namespace penstock::cli
