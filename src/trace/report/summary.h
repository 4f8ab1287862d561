#pragma once

// The summary of one trace for a report: figures, and pictures in bounded memory.
//
// The trace is converted twice. The axes of all pictures depend on the sizes of the files, the end
// of the last request and the slowest request, which are known only at the end. Keeping the requests
// until then would take memory that grows with the trace. So the first pass counts, and the second
// one draws. Both together take as long as two conversions.
//
// A trace that is larger than its page can be seen in three ways:
//
//   - a short trace is shown completely, request by request;
//   - a longer one has a picture of the whole (Picture, up to 8192 columns), and close-ups at a few
//     places (its beginning and end, the slowest request, evenly between them): pictures of 1/32 of
//     it, of 1/1024, and so on, down to some thousand requests one by one;
//   - any other part needs a report of its own (SummaryOptions::first_request and requests), and
//     the page says how to make it.
//
// Addresses: files lie in a row, in the order in which the trace first saw them, each as long as
// requests reached. A block device begins with its first byte that was used, because mostly only a
// part of it is.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/format/format.h"
#include "trace/report/picture.h"
#include "trace/report/sync_lane.h"
#include "trace/report/timeline.h"

namespace penstock::report {

// Sums over requests: all of a trace, those of a file, or those of a process.
struct Figures {
  uint64_t reads = 0, writes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t file_seeks = 0;
  uint64_t device_seeks = 0;

  uint64_t requests() const { return reads + writes; }
  uint64_t bytes() const { return read_bytes + written_bytes; }
  // Bytes from one seek of the device to the next; 0 without seeks.
  double mean_run_bytes() const {
    return device_seeks == 0 ? 0 : static_cast<double>(bytes()) / static_cast<double>(device_seeks);
  }
  void add(const trace::Request& request);
};

struct FileFigures : Figures {
  uint32_t file = 0;          // index into Conversion::files
  uint64_t low_offset = 0;    // offset of the first byte that the picture shows
  uint64_t end_offset = 0;    // end of the furthest request
  uint64_t base_address = 0;  // address of the first byte that the picture shows
  uint64_t bytes_shown() const { return end_offset - low_offset; }
};

struct ProcessFigures : Figures {
  int32_t process = 0;
};

// Successive requests, packed for the page in columns of small differences.
struct SingleRequests {
  uint64_t first = 0;
  uint64_t requests = 0;
  std::string addresses;  // put_signed(): begin, minus the end of the previous request
  std::string bytes;      // put_signed(): size, minus that of the previous request
  std::string kinds;      // put_number(): process * 4 + device_seek * 2 + write
  std::string starts;     // put_signed(): start in 100 ns, minus that of the previous request
  std::string latencies;  // put_number(): in 100 ns
};

// A part of the trace in detail: pictures from coarse to fine, then single requests.
struct CloseUp {
  uint64_t middle = 0;
  uint64_t window_requests = 0;  // requests that `singles` has in the end
  std::vector<Picture> pictures;
  SingleRequests singles;
};

struct TraceSummary {
  std::string path;
  std::string under;  // shows only files whose path begins so; empty for all
  trace::Header header;
  trace::Conversion conversion;  // conversion of the whole trace

  // All members below describe the part that is shown.
  bool is_part = false;
  uint64_t first_request = 0;
  Figures totals;
  trace::RunHistogram runs{};  // bytes between device seeks; the part's ends also end a run
  uint64_t start_ns = 0, end_ns = 0;
  uint64_t line_end_ns = 0;  // end of the time line: of the last request or sync
  Latencies read_latencies, write_latencies, sync_latencies;
  uint64_t slowest_request = 0;
  std::vector<FileFigures> files;         // files with requests, in order of the picture
  std::vector<ProcessFigures> processes;  // in order of their first request
  Timeline timeline;
  SyncLane syncs;

  double addresses = 1;                   // height of the picture
  std::optional<Picture> overview;        // nullopt if there were no requests
  std::vector<uint64_t> column_start_ns;  // start times of the overview's columns
  bool all_single = false;                // the only close-up contains all requests
  std::vector<CloseUp> close_ups;         // the most important first

  double seconds() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
  // Bytes both ways over that time; 0 if it took none.
  double bytes_per_s() const {
    return seconds() > 0 ? static_cast<double>(totals.bytes()) / seconds() : 0;
  }
};

struct SummaryOptions {
  trace::ConvertOptions convert;
  uint64_t first_request = 0;
  uint64_t requests = ~uint64_t{0};
  uint32_t columns = 8192;
  uint32_t rows = 1024;
  // A part of up to `single_requests` requests is kept one by one. A larger one has `close_ups`
  // close-ups with `close_up_requests` single requests each. 0 keeps none (for a terminal).
  uint64_t single_requests = 200'000;
  uint64_t close_up_requests = 4096;
  uint32_t close_ups = 8;
};

// Summarizes a trace. Errors: those of the conversion; unsupported for a trace that cannot be read
// twice (a pipe); invalid_argument if the requested part begins behind the trace's end.
Result<TraceSummary> summarize(const std::string& path, const SummaryOptions& options = {});

}  // namespace penstock::report
