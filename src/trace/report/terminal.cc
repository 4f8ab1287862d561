#include "trace/report/terminal.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <string_view>
#include <vector>

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

void add_head(Text& text, const TraceSummary& s, const TerminalOptions& options) {
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

void add_figures(Text& text, const TraceSummary& s, const TerminalOptions& options) {
  const Figures& t = s.totals;
  const auto bytes = static_cast<double>(t.bytes());
  auto row = [&](const char* a, const std::string& one, const char* b, const std::string& two) {
    text.line("  {:<12}{:>16}    {:<12}{:>16}", a, one, b, two);
  };
  row("requests", grouped(t.requests()), "seeks", grouped(t.device_seeks));
  row("read", bytes_text(t.read_bytes), "mean run",
      bytes_text(bytes / static_cast<double>(std::max<uint64_t>(1, t.device_seeks))));
  row("written", bytes_text(t.written_bytes), "within files", grouped(t.file_seeks));
  row("time", plain(duration_text(s.seconds()), options.unicode), "throughput",
      s.seconds() > 0 ? rate_text(bytes / s.seconds()) : "-");
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
      [](double count) { return grouped(static_cast<uint64_t>(count)) + "/s"; });
}

void add_runs(Text& text, const TraceSummary& s, const TerminalOptions& options) {
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

template <class T>
std::vector<T> busiest(std::vector<T> rows, size_t rows_max) {
  std::ranges::stable_sort(rows, [](const T& a, const T& b) { return a.bytes() > b.bytes(); });
  if (rows.size() > rows_max) rows.erase(rows.begin() + rows_max, rows.end());
  return rows;
}

template <class T, class Name>
void add_table(Text& text, const char* what, const std::vector<T>& all, size_t rows_max,
               Name&& name_of_row) {
  text.line("");
  text.line("  {:>10} {:>10} {:>12} {:>12}  {}", "read", "written", "requests", "seeks", what);
  for (const T& row : busiest(all, rows_max)) {
    auto bytes = [](uint64_t n) { return n == 0 ? "-" : bytes_text(n); };
    text.line("  {:>10} {:>10} {:>12} {:>12}  {}", bytes(row.read_bytes), bytes(row.written_bytes),
              grouped(row.requests()), grouped(row.device_seeks), name_of_row(row));
  }
  if (all.size() > rows_max) text.line("  and {} more", grouped(all.size() - rows_max));
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
  add_head(text, s, options);
  if (s.totals.requests() == 0) {
    text.line("  no request in this trace reads or writes a file{}",
              s.under.empty() ? std::string()
                              : " whose path begins with " + printable(s.under, 100) +
                                    " (in a trace paths begin with /)");
  } else {
    add_figures(text, s, options);
    add_picture(text, s, options);
    add_curves(text, s, options);
    add_runs(text, s, options);
    const size_t name_width = options.width > 76 ? options.width - 55 : 20;
    add_table(text, "file", s.files, files_shown, [&](const FileFigures& row) {
      return fitted(s.conversion.files[row.file].path, name_width, options.unicode);
    });
    if (s.processes.size() > 1) {
      add_table(text, "process", s.processes, processes_shown,
                [](const ProcessFigures& row) { return std::to_string(row.process); });
    }
  }
  for (const std::string& caveat : s.conversion.caveats()) {
    text.line("note: {}", plain(printable(caveat, 400), options.unicode));
  }
  return text.take();
}

}  // namespace penstock::report
