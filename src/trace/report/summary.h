#pragma once

// What a report shows of one trace: figures, and pictures in bounded memory.
//
// The trace is converted twice. How large the files become, when the last request ends and which
// one is the slowest is known only at the end, and the axes of all pictures hang on it; keeping the
// requests in between would take memory that grows with the trace. So the first pass counts, and
// the second one draws. Both together take as long as the conversion does, twice.
//
// How far one can look into a trace that is larger than its page:
//
//   - a short trace is there request by request, all of it;
//   - of a longer one there is a picture of the whole (Picture, up to 8192 columns), and around a
//     few places (its beginning and end, the slowest request, evenly between them) pictures of 1/32
//     of it, of 1/1024, and so on, down to some thousand requests one by one;
//   - anywhere else: a report of that part alone (SummaryOptions::first_request and requests),
//     which the page tells how to make.
//
// Addresses: files lie in a row, in the order in which the trace first saw them, each as long as
// requests reached. A block device, of which mostly a part is used, begins with its first byte that
// was.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/format/format.h"
#include "trace/report/picture.h"
#include "trace/report/timeline.h"

namespace penstock::report {

// Of some requests: all of a trace, those of a file, those of a process.
struct Figures {
  uint64_t reads = 0, writes = 0;
  uint64_t read_bytes = 0, written_bytes = 0;
  uint64_t file_seeks = 0;
  uint64_t device_seeks = 0;

  uint64_t requests() const { return reads + writes; }
  uint64_t bytes() const { return read_bytes + written_bytes; }
  void add(const trace::Request& request);
};

struct FileFigures : Figures {
  uint32_t file = 0;          // index into Conversion::files
  uint64_t low_offset = 0;    // of its first byte in the picture
  uint64_t end_offset = 0;    // where its furthest request ended
  uint64_t base_address = 0;  // where it begins in the picture
  uint64_t bytes_shown() const { return end_offset - low_offset; }
};

struct ProcessFigures : Figures {
  int32_t process = 0;
};

// One after the other, packed for the page in columns of numbers that change little.
struct SingleRequests {
  uint64_t first = 0;
  uint64_t requests = 0;
  std::string addresses;  // where it begins, less where the last one ended: put_signed()
  std::string bytes;      // less those of the last one: put_signed()
  std::string kinds;      // process * 4 + device_seek * 2 + write: put_number()
  std::string starts;     // in 100 ns, less the last one's: put_signed()
  std::string latencies;  // in 100 ns: put_number()
};

// A place that can be looked at closely: pictures from coarse to fine, then single requests.
struct Place {
  uint64_t middle = 0;
  uint64_t window_requests = 0;  // how many of them are to be in `singles`
  std::vector<Picture> pictures;
  SingleRequests singles;
};

struct TraceSummary {
  std::string path;
  std::string under;  // only files whose path begins so; empty: all
  trace::Header header;
  trace::Conversion conversion;  // of all of the trace

  // The rest is of the part that is shown.
  bool is_part = false;
  uint64_t first_request = 0;
  Figures totals;
  trace::RunHistogram runs{};  // bytes between device seeks; what was cut off counts as a run
  uint64_t start_ns = 0, end_ns = 0;
  Latencies read_latencies, write_latencies;
  uint64_t slowest_request = 0;
  std::vector<FileFigures> files;         // those with requests, in order of the picture
  std::vector<ProcessFigures> processes;  // in order of their first request
  Timeline timeline;

  double addresses = 1;                   // the picture's height
  std::optional<Picture> overview;        // none: there were no requests
  std::vector<uint64_t> column_start_ns;  // per column of the overview as it was made
  bool all_single = false;                // `places` has one, with all requests in it
  std::vector<Place> places;              // the most important first

  double seconds() const { return static_cast<double>(end_ns - start_ns) * 1e-9; }
};

struct SummaryOptions {
  trace::ConvertOptions convert;
  uint64_t first_request = 0;
  uint64_t requests = ~uint64_t{0};
  uint32_t columns = 8192;
  uint32_t rows = 1024;
  // A part of up to so many requests is kept one by one; of a larger one, at each of
  // `places` places a stretch of `place_requests`. 0: none at all (a terminal shows none).
  uint64_t single_requests = 200'000;
  uint64_t place_requests = 4096;
  uint32_t places = 8;
};

// Errors: those of the conversion; unsupported for a trace that cannot be read twice (a pipe);
// invalid_argument when the part asked for lies behind the trace's end.
Result<TraceSummary> summarize(const std::string& path, const SummaryOptions& options = {});

}  // namespace penstock::report
