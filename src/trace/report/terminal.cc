#include "trace/report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "trace/report/advice.h"
#include "trace/report/terminal_text.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

constexpr size_t picture_lines = 14;
constexpr size_t files_shown = 10;
constexpr size_t processes_shown = 6;

// Returns lines of dots: a dot is set if any request touched its cells. Braille characters are two
// dots wide and four high.
std::vector<std::string> dots(const Picture& picture, size_t width, size_t lines, bool unicode) {
  const size_t across = unicode ? 2 : 1, upwards = unicode ? 4 : 1;
  const size_t columns = width * across, rows = lines * upwards;
  std::vector<std::vector<bool>> set(rows, std::vector<bool>(columns));
  const Picture::Shape& shape = picture.shape();
  // The last column may stand for fewer requests, so the scale is by requests, not by columns.
  const double per_dot = static_cast<double>(shape.requests) / static_cast<double>(columns);
  const auto per_column = static_cast<double>(picture.requests_per_column());
  picture.for_each([&](uint32_t column, uint32_t row, uint64_t, uint64_t) {
    const auto first = static_cast<size_t>(column * per_column / per_dot);
    const auto last = static_cast<size_t>(
        std::min((column + 1) * per_column, static_cast<double>(shape.requests)) / per_dot - 1e-9);
    const size_t height = row * rows / shape.rows;
    for (size_t x = first; x <= std::min(std::max(first, last), columns - 1); ++x) {
      set[rows - 1 - height][x] = true;
    }
  });

  // Bits of a braille character's dots, row by row from the top left.
  static constexpr std::array<std::array<uint32_t, 2>, 4> bits = {
      {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}};
  std::vector<std::string> picture_text(lines);
  for (size_t line = 0; line < lines; ++line) {
    for (size_t x = 0; x < width; ++x) {
      if (!unicode) {
        picture_text[line] += set[line][x] ? '*' : ' ';
        continue;
      }
      uint32_t code = 0x2800;
      for (size_t dy = 0; dy < 4; ++dy) {
        for (size_t dx = 0; dx < 2; ++dx) {
          if (set[line * 4 + dy][x * 2 + dx]) code |= bits[dy][dx];
        }
      }
      picture_text[line] += static_cast<char>(0xe0 | code >> 12);
      picture_text[line] += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      picture_text[line] += static_cast<char>(0x80 | (code & 0x3f));
    }
  }
  return picture_text;
}

std::string bar(double share, size_t width, bool unicode) {
  const double filled = std::clamp(share, 0.0, 1.0) * static_cast<double>(width);
  if (!unicode) return std::string(static_cast<size_t>(std::ceil(filled)), '#');
  static constexpr const char* eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  auto steps = static_cast<size_t>(std::lround(filled * 8));
  if (share > 0) steps = std::max<size_t>(steps, 1);
  std::string text;
  for (size_t i = 0; i < steps / 8; ++i) text += "█";
  return text + eighths[steps % 8];
}

void tell_head(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  auto shown = [&](std::string_view name, size_t characters_max) {
    return fitted(name, characters_max, options.unicode);
  };
  text.line("{}", shown(s.path, options.width));
  if (!s.header.command.empty()) text.line("  {}", shown(s.header.command, options.width - 2));
  if (s.is_part) {
    text.line("  requests {} to {} of {}", grouped(s.first_request),
              grouped(s.first_request + s.totals.requests() - 1), grouped(s.conversion.requests));
  }
}

void tell_figures(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  const Figures& t = s.totals;
  auto row = [&](const char* a, const std::string& one, const char* b, const std::string& two) {
    text.line("  {:<12}{:>16}    {:<12}{:>16}", a, one, b, two);
  };
  row("requests", grouped(t.requests()), "seeks", grouped(t.device_seeks));
  row("read", bytes_text(t.read_bytes), "mean run", bytes_text(t.mean_run_bytes()));
  row("written", bytes_text(t.written_bytes), "within files", grouped(t.file_seeks));
  row("time", plain(duration_text(s.seconds()), options.unicode), "throughput",
      s.seconds() > 0 ? rate_text(s.bytes_per_s()) : "-");
  auto latency = [&](const char* what, const Latencies& latencies) {
    if (latencies.requests == 0 || latencies.max_ns == 0) return;  // no requests, or not known
    auto of = [&](uint64_t ns) {
      return plain(duration_text(static_cast<double>(ns) * 1e-9), options.unicode);
    };
    text.line("  {}: median {}, 99 % {}, slowest {}", what, of(latencies.median_ns),
              of(latencies.p99_ns), of(latencies.max_ns));
  };
  latency("reads", s.read_latencies);
  latency("writes", s.write_latencies);
  latency("syncs", s.sync_latencies);
}

void add_picture(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  text.line("");
  text.line("Where requests went: in their order to the right, {} of files upwards",
            bytes_text(s.addresses));
  for (const std::string& line :
       dots(*s.overview, options.width - 4, picture_lines, options.unicode)) {
    text.line("  {}{}{}", options.unicode ? "│" : "|", line, options.unicode ? "│" : "|");
  }
}

void add_curves(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  const double seconds = s.timeline.bin_ns() * 1e-9;
  const size_t width = options.width > 50 ? options.width - 32 : 18;
  text.line("");
  text.line("Over time");
  auto curve = [&](const char* what, Join how, auto&& value_of, auto&& text_of) {
    std::vector<double> all;
    for (const Timeline::Bin& bin : s.timeline.bins()) all.push_back(value_of(bin));
    const std::vector<double> values = joined(all, width, how);
    const double most = *std::ranges::max_element(values);
    if (most <= 0) return;
    text.line("  {:<9} {} {:>10} peak", what, sparkline(values, options.unicode),
              plain(text_of(most), options.unicode));
  };
  auto rate = [](double bytes_per_second) { return rate_text(bytes_per_second); };
  auto per_second = [](double count) { return grouped(static_cast<uint64_t>(count)) + "/s"; };
  curve(
      "reading", Join::mean, [&](const Timeline::Bin& bin) { return bin.read_bytes / seconds; },
      rate);
  curve(
      "writing", Join::mean, [&](const Timeline::Bin& bin) { return bin.written_bytes / seconds; },
      rate);
  curve(
      "latency", Join::largest,
      [](const Timeline::Bin& bin) {
        return static_cast<double>(std::max(bin.reads.p99_ns, bin.writes.p99_ns));
      },
      [](double ns) { return duration_text(ns * 1e-9); });
  curve(
      "seeks", Join::mean,
      [&](const Timeline::Bin& bin) { return static_cast<double>(bin.seeks) / seconds; },
      per_second);
  curve(
      "syncs", Join::mean,
      [&](const Timeline::Bin& bin) { return static_cast<double>(bin.syncs.requests) / seconds; },
      per_second);
}

void tell_runs(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  const uint64_t most = *std::ranges::max_element(s.runs);
  text.line("");
  text.line("Lengths of runs, from one seek to the next");
  size_t low = 0, high = s.runs.size();
  while (s.runs[low] == 0) ++low;
  while (s.runs[high - 1] == 0) --high;
  const size_t width = options.width > 50 ? options.width - 34 : 16;
  for (size_t k = low; k < high; ++k) {
    text.line(
        "  from {:>9} {:>12} {}", bytes_text(std::ldexp(1.0, static_cast<int>(k))),
        grouped(s.runs[k]),
        bar(static_cast<double>(s.runs[k]) / static_cast<double>(most), width, options.unicode));
  }
}

// Adds a table of files or processes: those with most time first, or with most bytes where `ns_of`
// is nullptr.
template <class T, class Name>
void add_table(Text& text, const char* what, std::vector<T> rows, size_t rows_max,
               const std::function<uint64_t(const T&)>& ns_of, const TerminalOptions& options,
               Name&& name_of_row) {
  const auto weight = [&](const T& row) { return ns_of ? ns_of(row) : row.bytes(); };
  std::ranges::stable_sort(rows, std::ranges::greater{}, weight);
  const size_t more = rows.size() - std::min(rows.size(), rows_max);
  rows.erase(rows.end() - static_cast<ptrdiff_t>(more), rows.end());
  const auto bytes = [](uint64_t n) { return n == 0 ? "-" : bytes_text(n); };
  const auto time = [&](const T& row) {
    if (!ns_of) return std::string();
    return fmt::format(
        "{:>9}", plain(duration_text(static_cast<double>(ns_of(row)) * 1e-9), options.unicode));
  };
  text.line("");
  text.line("  {}{:>9} {:>9} {:>10} {:>10}  {}", ns_of ? "     time" : "", "read", "written",
            "requests", "seeks", what);
  for (const T& row : rows) {
    text.line("  {}{:>9} {:>9} {:>10} {:>10}  {}", time(row), bytes(row.read_bytes),
              bytes(row.written_bytes), grouped(row.requests()), grouped(row.device_seeks),
              name_of_row(row));
  }
  if (more > 0) text.line("  and {} more", grouped(more));
}

}  // namespace

std::vector<double> joined(const std::vector<double>& values, size_t width, Join how) {
  std::vector<double> shown(std::min(width, values.size()));
  for (size_t i = 0; i < shown.size(); ++i) {
    const size_t begin = i * values.size() / shown.size();
    const size_t end = (i + 1) * values.size() / shown.size();
    double sum = 0, most = 0;
    for (size_t k = begin; k < end; ++k) {
      sum += values[k];
      most = std::max(most, values[k]);
    }
    shown[i] = how == Join::mean ? sum / static_cast<double>(end - begin) : most;
  }
  return shown;
}

std::string sparkline(const std::vector<double>& values, bool unicode) {
  static constexpr const char* blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  static constexpr const char* letters[] = {" ", ".", ":", "-", "=", "+", "*", "%", "#"};
  const double most = values.empty() ? 0 : *std::ranges::max_element(values);
  std::string line;
  for (const double value : values) {
    size_t level = 0;
    if (value > 0) {
      level = std::clamp<size_t>(static_cast<size_t>(std::ceil(value / most * 8)), 1, 8);
    }
    line += unicode ? blocks[level] : letters[level];
  }
  return line;
}

TerminalOptions bounded(TerminalOptions options) {
  options.width = std::clamp<size_t>(options.width, 40, 240);
  return options;
}

std::string terminal_report(const TraceSummary& s, const TerminalOptions& wanted) {
  const TerminalOptions options = bounded(wanted);
  Text text;
  tell_head(text, s, options);
  text.line("");
  if (!s.is_part) text.add(terminal_calls(s.conversion, options));
  if (s.totals.requests() == 0) {
    std::string nothing = "no request in this trace reads or writes a file";
    if (!s.under.empty()) nothing += " whose path begins with " + s.under;
    if (!s.under.empty() && !s.under.starts_with('/'))
      nothing += " (in a trace paths begin with /)";
    add_sentences(text, "  ", nothing, options);
  } else {
    tell_figures(text, s, options);
    add_picture(text, s, options);
    add_curves(text, s, options);
    tell_runs(text, s, options);
    const size_t name_width = options.width > 76 ? options.width - 54 : 20;
    const auto file_of = [&](const FileFigures& row) -> const trace::ConvertedFile& {
      return s.conversion.files[row.file];
    };
    // Times are those of the whole trace.
    std::function<uint64_t(const FileFigures&)> ns_of;
    if (has_times(s.conversion) && !s.is_part)
      ns_of = [&](const FileFigures& row) { return file_of(row).calls.all().ns; };
    add_table<FileFigures>(text, "file", s.files, files_shown, ns_of, options,
                           [&](const FileFigures& row) {
                             return fitted(file_of(row).path, name_width, options.unicode);
                           });
    if (s.processes.size() > 1) {
      add_table<ProcessFigures>(
          text, "process", s.processes, processes_shown, nullptr, options,
          [](const ProcessFigures& row) { return std::to_string(row.process); });
    }
  }
  for (const std::string& caveat : s.conversion.caveats()) {
    add_sentences(text, "note: ", caveat, options);
  }
  return text.take();
}

}  // namespace penstock::report
