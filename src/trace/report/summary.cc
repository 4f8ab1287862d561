#include "trace/report/summary.h"

#include <algorithm>
#include <bit>
#include <unordered_map>
#include <utility>

#include "trace/import/import.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

constexpr size_t timeline_bins = 1024;

// Each finer picture of a close-up shows 1/32 of the requests of the coarser one.
constexpr uint64_t zoom_step = 32;
constexpr uint32_t close_up_columns = 512;
constexpr uint32_t close_up_rows = 512;

// Adds offsets without overflow. Pictures of hostile traces may be nonsense.
uint64_t saturating_sum(uint64_t a, uint64_t b) {
  constexpr uint64_t most = trace::largest_offset;
  return a > most || b > most - a ? most : a + b;
}

class Counting {
 public:
  Counting(const SummaryOptions& options, TraceSummary& summary,
           const std::vector<trace::ConvertedFile>* const& files)
      : options_(options), summary_(summary), files_(files) {}

  Status add(std::span<const trace::Request> batch) {
    for (const trace::Request& request : batch) {
      // A sync belongs to the requests beside it.
      const uint64_t order = request.is_sync() ? seen_ : seen_++;
      if (order < options_.first_request) continue;
      const uint64_t place = order - options_.first_request;
      if (request.is_sync() && place <= options_.requests) {
        count_sync(order, request);
      } else if (place < options_.requests) {
        count(order, request);
      }
    }
    return {};
  }

  void finish() {
    end_run();
    summary_.read_latencies = reads_.latencies();
    summary_.write_latencies = writes_.latencies();
    summary_.sync_latencies = syncs_.latencies();
    summary_.line_end_ns = std::max(summary_.end_ns, last_sync_ns_);
    stack_files();
  }

 private:
  static uint64_t end_of(const trace::Request& request) {
    return std::max(request.start_ns, saturating_sum(request.start_ns, request.latency_ns));
  }

  void count_sync(uint64_t order, const trace::Request& sync) {
    syncs_.add(sync.latency_ns);
    summary_.syncs.add(order, sync.latency_ns);
    last_sync_ns_ = std::max(last_sync_ns_, end_of(sync));
  }

  void count(uint64_t order, const trace::Request& request) {
    TraceSummary& s = summary_;
    const uint64_t end_ns = end_of(request);
    if (s.totals.requests() == 0) {
      s.start_ns = request.start_ns;
      s.slowest_request = order;
    }
    s.start_ns = std::min(s.start_ns, request.start_ns);
    s.end_ns = std::max(s.end_ns, end_ns);
    if (request.latency_ns > slowest_ns_) {
      slowest_ns_ = request.latency_ns;
      s.slowest_request = order;
    }
    (request.access == trace::Access::read ? reads_ : writes_).add(request.latency_ns);
    s.totals.add(request);

    if (request.device_seek) end_run();
    run_bytes_ = saturating_sum(run_bytes_, request.bytes);

    FileFigures& file = figures_of_file(request);
    file.add(request);
    file.low_offset = std::min(file.low_offset, request.offset);
    file.end_offset = std::max(file.end_offset, saturating_sum(request.offset, request.bytes));
    figures_of_process(request.process).add(request);
  }

  FileFigures& figures_of_file(const trace::Request& request) {
    if (request.file >= place_of_file_.size()) place_of_file_.resize(request.file + 1, 0);
    uint32_t& place = place_of_file_[request.file];  // 0: not seen yet
    if (place == 0) {
      FileFigures figures;
      figures.file = request.file;
      const bool device = (*files_)[request.file].kind == trace::FileKind::block_device;
      figures.low_offset = device ? request.offset : 0;
      summary_.files.push_back(figures);
      place = static_cast<uint32_t>(summary_.files.size());
    }
    return summary_.files[place - 1];
  }

  ProcessFigures& figures_of_process(int32_t process) {
    // Successive requests are mostly of one process.
    if (summary_.processes.empty() || summary_.processes[last_process_].process != process) {
      auto [known, added] = place_of_process_.try_emplace(process, summary_.processes.size());
      if (added) {
        ProcessFigures figures;
        figures.process = process;
        summary_.processes.push_back(figures);
      }
      last_process_ = known->second;
    }
    return summary_.processes[last_process_];
  }

  void end_run() {
    if (run_bytes_ != 0) ++summary_.runs[static_cast<size_t>(std::bit_width(run_bytes_) - 1)];
    run_bytes_ = 0;
  }

  void stack_files() {
    std::ranges::sort(summary_.files, {}, &FileFigures::file);
    uint64_t address = 0;
    for (FileFigures& file : summary_.files) {
      file.base_address = address;
      address = saturating_sum(address, file.bytes_shown());
    }
    summary_.addresses = std::max(1.0, static_cast<double>(address));
  }

  const SummaryOptions& options_;
  TraceSummary& summary_;
  const std::vector<trace::ConvertedFile>* const& files_;  // set when the conversion begins
  uint64_t seen_ = 0;
  uint64_t run_bytes_ = 0;
  uint64_t slowest_ns_ = 0;
  uint64_t last_sync_ns_ = 0;
  LatencyHistogram reads_, writes_, syncs_;
  std::vector<uint32_t> place_of_file_;
  std::unordered_map<int32_t, size_t> place_of_process_;
  size_t last_process_ = 0;
};

class Drawing {
 public:
  Drawing(const SummaryOptions& options, TraceSummary& summary)
      : summary_(summary), first_(summary.first_request), end_(first_ + summary.totals.requests()) {
    const uint64_t requests = summary_.totals.requests();
    uint32_t last_file = 0;
    for (const FileFigures& file : summary_.files) last_file = std::max(last_file, file.file);
    bases_.resize(last_file + 1);
    for (const FileFigures& file : summary_.files) {
      bases_[file.file] = {file.base_address, file.low_offset};
    }
    for (size_t i = 0; i < summary_.processes.size(); ++i) {
      place_of_process_[summary_.processes[i].process] = i;
    }
    summary_.timeline = Timeline(summary_.start_ns, summary_.line_end_ns, timeline_bins);
    summary_.overview.emplace(Picture::Shape{.first = first_,
                                             .requests = requests,
                                             .columns = options.columns,
                                             .rows = options.rows,
                                             .addresses = summary_.addresses});
    summary_.column_start_ns.reserve(summary_.overview->columns());
    choose_close_ups(options);
  }

  Status add(std::span<const trace::Request> batch) {
    for (const trace::Request& request : batch) {
      // A trace that is still being written may have grown since it was counted.
      const uint64_t order = request.is_sync() ? seen_ : seen_++;
      if (order < first_) continue;
      if (request.is_sync() && order <= end_) {
        summary_.timeline.add(request);
      } else if (order < end_) {
        draw(order, request);
      }
    }
    return {};
  }

  void finish() {
    summary_.timeline.finish();
    summary_.overview->finish();
    for (CloseUp& close_up : summary_.close_ups) {
      for (Picture& picture : close_up.pictures) picture.finish();
    }
  }

 private:
  // The requests [first, end) that one picture of a close-up shows, or its single requests.
  struct Window {
    uint64_t first, end;
    size_t close_up;
    size_t picture;  // index of the picture, or the number of pictures for the single requests
  };

  void choose_close_ups(const SummaryOptions& options) {
    const uint64_t requests = end_ - first_;
    if (options.single_requests == 0) return;
    if (requests <= options.single_requests) {
      summary_.all_single = true;
      add_close_up(first_ + requests / 2, requests);
      return;
    }
    const uint64_t singles_wanted = std::min(options.close_up_requests, requests);
    add_close_up(first_, singles_wanted);
    if (options.close_ups > 1) add_close_up(summary_.slowest_request, singles_wanted);
    if (options.close_ups > 2) add_close_up(end_ - 1, singles_wanted);
    const uint64_t between = options.close_ups > 3 ? options.close_ups - 3 : 0;
    for (uint64_t i = 1; i <= between; ++i) {
      add_close_up(first_ + requests / (between + 1) * i, singles_wanted);
    }
    std::ranges::sort(windows_, {}, &Window::first);
  }

  // Returns a window of `requests` requests around `middle`, within the part that is shown.
  Window window(uint64_t middle, uint64_t requests) const {
    const uint64_t first = middle - std::min(middle - first_, requests / 2);
    const uint64_t end = std::min(end_, first + requests);
    return {.first = end - std::min(end - first_, requests), .end = end};
  }

  void add_close_up(uint64_t middle, uint64_t singles_wanted) {
    const Window singles = window(middle, singles_wanted);
    for (const CloseUp& other : summary_.close_ups) {
      if (other.singles.first < singles.end &&
          singles.first < other.singles.first + other.window_requests) {
        return;  // another close-up shows it
      }
    }
    CloseUp close_up;
    close_up.middle = middle;
    close_up.singles.first = singles.first;
    close_up.window_requests = singles.end - singles.first;
    const size_t index = summary_.close_ups.size();
    auto watch = [&](Window at) {
      at.close_up = index;
      at.picture = close_up.pictures.size();
      windows_.push_back(at);
    };
    for (uint64_t requests = (end_ - first_) / zoom_step;
         requests > 2 * singles_wanted && requests > close_up_columns; requests /= zoom_step) {
      const Window shown = window(middle, requests);
      watch(shown);
      close_up.pictures.emplace_back(Picture::Shape{.first = shown.first,
                                                    .requests = shown.end - shown.first,
                                                    .columns = close_up_columns,
                                                    .rows = close_up_rows,
                                                    .addresses = summary_.addresses});
    }
    watch(singles);
    summary_.close_ups.push_back(std::move(close_up));
  }

  void draw(uint64_t order, const trace::Request& request) {
    if (request.file >= bases_.size()) return;  // the trace has grown by a new file
    const auto [base, low_offset] = bases_[request.file];
    if (request.offset < low_offset) return;
    const uint64_t address = saturating_sum(base, request.offset - low_offset);
    const auto low = static_cast<double>(address);
    const auto high = static_cast<double>(saturating_sum(address, request.bytes));

    summary_.timeline.add(request);
    Picture& overview = *summary_.overview;
    if ((order - first_) / overview.requests_per_column() >= summary_.column_start_ns.size()) {
      summary_.column_start_ns.push_back(request.start_ns);
    }
    overview.add(order, low, high, request.access);

    while (next_window_ < windows_.size() && windows_[next_window_].first <= order) {
      open_.push_back(windows_[next_window_++]);
    }
    for (size_t i = 0; i < open_.size();) {
      if (open_[i].end <= order) {
        open_[i] = open_.back();
        open_.pop_back();
        continue;
      }
      CloseUp& close_up = summary_.close_ups[open_[i].close_up];
      if (open_[i].picture < close_up.pictures.size()) {
        close_up.pictures[open_[i].picture].add(order, low, high, request.access);
      } else {
        add_single(close_up.singles, order, address, request);
      }
      ++i;
    }
  }

  void add_single(SingleRequests& singles, uint64_t order, uint64_t address,
                  const trace::Request& request) {
    if (order == singles.first) last_ = {};
    Last& last = last_;
    const uint64_t start = (request.start_ns - std::min(request.start_ns, summary_.start_ns)) / 100;
    put_signed(singles.addresses, static_cast<int64_t>(address - last.end));
    put_signed(singles.bytes, static_cast<int64_t>(request.bytes - last.bytes));
    put_signed(singles.starts, static_cast<int64_t>(start - last.start));
    put_number(singles.latencies, request.latency_ns / 100);
    put_number(singles.kinds, place_of_process_[request.process] * 4 +
                                  (request.device_seek ? 2u : 0u) +
                                  (request.access == trace::Access::write ? 1u : 0u));
    ++singles.requests;
    last = {address + request.bytes, request.bytes, start};
  }

  struct Base {
    uint64_t address = 0;
    uint64_t low_offset = 0;
  };
  // The previous single request, to which the next one is a difference. Close-ups do not overlap.
  struct Last {
    uint64_t end = 0, bytes = 0, start = 0;
  };

  TraceSummary& summary_;
  const uint64_t first_, end_;
  uint64_t seen_ = 0;
  std::vector<Base> bases_;  // [file]
  std::unordered_map<int32_t, size_t> place_of_process_;
  std::vector<Window> windows_;  // sorted by the first request
  size_t next_window_ = 0;
  std::vector<Window> open_;  // windows that have begun; may contain some that have ended
  Last last_;
};

Result<trace::Conversion> pass(const std::string& path, const SummaryOptions& options,
                               trace::Header& header, const trace::RequestSink& sink,
                               const std::vector<trace::ConvertedFile>*& files) {
  auto trace = trace::open_trace(path);
  if (!trace) return std::unexpected(trace.error());
  header = trace->header();
  trace::ConvertOptions convert = options.convert;
  convert.syncs = true;
  return trace::convert(*trace, convert, sink, &files);
}

}  // namespace

void Figures::add(const trace::Request& request) {
  const bool is_read = request.access == trace::Access::read;
  ++(is_read ? reads : writes);
  (is_read ? read_bytes : written_bytes) += request.bytes;
  file_seeks += request.file_seek;
  device_seeks += request.device_seek;
}

Result<TraceSummary> summarize(const std::string& path, const SummaryOptions& options) {
  if (Status twice = trace::check_readable_twice(path); !twice)
    return std::unexpected(twice.error());
  TraceSummary summary;
  summary.path = path;
  summary.under = options.convert.under;
  summary.first_request = options.first_request;
  {
    const std::vector<trace::ConvertedFile>* files = nullptr;
    Counting counting(options, summary, files);
    auto converted = pass(
        path, options, summary.header,
        [&](std::span<const trace::Request> batch) { return counting.add(batch); }, files);
    if (!converted) return std::unexpected(converted.error());
    summary.conversion = std::move(*converted);
    counting.finish();
  }
  const uint64_t all = summary.conversion.requests;
  if (all != 0 && options.first_request >= all) {
    return failure(ErrorCode::invalid_argument,
                   "show requests from number " + grouped(options.first_request) + " on: it has " +
                       grouped(all),
                   path, "--requests 0.." + std::to_string(all));
  }
  summary.is_part = summary.totals.requests() != all;
  if (summary.totals.requests() == 0) return summary;

  trace::Header header;
  const std::vector<trace::ConvertedFile>* files = nullptr;
  Drawing drawing(options, summary);
  auto drawn = pass(
      path, options, header,
      [&](std::span<const trace::Request> batch) { return drawing.add(batch); }, files);
  if (!drawn) return std::unexpected(drawn.error());
  drawing.finish();
  return summary;
}

}  // namespace penstock::report
