#include "trace/report/data.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"
#include "trace/report/text.h"

namespace penstock::report {
namespace {

// Most numbers are small and repeat. Higher levels take much longer and save 5 %.
constexpr int compression_level = 4;
constexpr uint32_t least_columns = 256;
constexpr size_t starts_max = 2048;
constexpr size_t processes_max = 4096;  // single requests refer to no further processes

std::string compressed(const std::string& plain) {
  uLongf bytes = compressBound(static_cast<uLong>(plain.size()));
  std::string packed(bytes, '\0');
  const int done = compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes,
                             reinterpret_cast<const Bytef*>(plain.data()),
                             static_cast<uLong>(plain.size()), compression_level);
  PENSTOCK_CHECK(done == Z_OK, "zlib compresses into compressBound() bytes");
  packed.resize(bytes);
  return packed;
}

void put_column(std::string& to, const std::string& column) {
  put_number(to, column.size());
  to += column;
}

void put_picture(std::string& to, const Picture& picture) {
  put_number(to, picture.shape().first);
  put_number(to, picture.shape().requests);
  put_number(to, picture.columns());
  put_number(to, picture.shape().rows);
  put_number(to, picture.requests_per_column());
  put_column(to, picture.cells());
}

void put_singles(std::string& to, const SingleRequests& singles) {
  put_number(to, singles.first);
  put_number(to, singles.requests);
  put_column(to, singles.addresses);
  put_column(to, singles.bytes);
  put_column(to, singles.kinds);
  put_column(to, singles.starts);
  put_column(to, singles.latencies);
}

void put_timeline(std::string& to, const Timeline& timeline, uint64_t start_ns) {
  const std::vector<Timeline::Bin>& bins = timeline.bins();
  put_number(to, bins.size());
  put_number(to, start_ns / 100);
  put_number(to, static_cast<uint64_t>(std::llround(timeline.bin_ns() * 1000)));
  auto column = [&](auto&& value_of) {
    for (const Timeline::Bin& bin : bins) put_number(to, value_of(bin));
  };
  auto rounded = [](double bytes) { return static_cast<uint64_t>(std::llround(bytes)); };
  column([&](const Timeline::Bin& bin) { return rounded(bin.read_bytes); });
  column([&](const Timeline::Bin& bin) { return rounded(bin.written_bytes); });
  column([](const Timeline::Bin& bin) { return bin.seeks; });
  column([](const Timeline::Bin& bin) { return bin.syncs.requests; });
  for (const Latencies Timeline::Bin::* side :
       {&Timeline::Bin::reads, &Timeline::Bin::writes, &Timeline::Bin::syncs}) {
    column([&](const Timeline::Bin& bin) { return (bin.*side).median_ns; });
    column([&](const Timeline::Bin& bin) { return (bin.*side).p99_ns; });
    column([&](const Timeline::Bin& bin) { return (bin.*side).max_ns; });
  }
}

// Writes the start times of the picture's columns, thinned.
void put_starts(std::string& to, const TraceSummary& summary) {
  const std::vector<uint64_t>& starts = summary.column_start_ns;
  const size_t stride = std::max<size_t>(1, (starts.size() + starts_max - 1) / starts_max);
  const uint64_t per_column = summary.overview ? summary.overview->requests_per_column() : 1;
  put_number(to, per_column * stride);
  put_number(to, (starts.size() + stride - 1) / stride);
  uint64_t last = 0;
  for (size_t i = 0; i < starts.size(); i += stride) {
    const uint64_t start = starts[i] / 100;
    put_signed(to, static_cast<int64_t>(start - last));
    last = start;
  }
}

void put_syncs(std::string& to, const SyncLane& syncs) {
  put_number(to, syncs.requests_per_cell());
  put_number(to, syncs.cells().size());
  uint64_t last = 0;
  for (const SyncLane::Cell& cell : syncs.cells()) {
    put_number(to, cell.place - last);
    put_number(to, cell.syncs);
    put_number(to, cell.slowest_ns / 100);
    last = cell.place;
  }
}

std::string head_of(const TraceSummary& summary, std::span<const FileFigures> listed) {
  std::string head;
  put_number(head, 2);
  put_number(head, summary.first_request);
  put_number(head, summary.totals.requests());
  put_number(head, static_cast<uint64_t>(summary.addresses));
  put_number(head, listed.size());
  for (const FileFigures& file : listed) {
    put_number(head, file.base_address);
    put_number(head, file.bytes_shown());
    put_number(head, file.low_offset);
  }
  const size_t processes = std::min(summary.processes.size(), processes_max);
  put_number(head, processes);
  for (size_t i = 0; i < processes; ++i) put_signed(head, summary.processes[i].process);
  put_timeline(head, summary.timeline, summary.start_ns);
  put_starts(head, summary);
  put_syncs(head, summary.syncs);
  return head;
}

}  // namespace

std::string pack_data(const TraceSummary& summary, std::span<const FileFigures> listed,
                      size_t bytes_max) {
  const std::string head = head_of(summary, listed);
  size_t spent_bytes = compressed(head).size() + 64;

  std::string pictures, singles;
  uint64_t picture_count = 0, single_count = 0;
  if (summary.overview && !summary.all_single) {
    // The picture of the whole gets half of the bytes, the close-ups get the rest.
    const size_t share = summary.close_ups.empty() ? bytes_max : bytes_max / 2;
    const size_t allowed = share > spent_bytes ? share - spent_bytes : 0;
    std::optional<Picture> coarse;
    const Picture* overview = &*summary.overview;
    std::string packed;
    for (;;) {
      packed.clear();
      put_picture(packed, *overview);
      const size_t packed_bytes = compressed(packed).size();
      if (packed_bytes <= allowed || overview->columns() <= least_columns) {
        spent_bytes += packed_bytes;
        break;
      }
      if (!coarse) coarse = *summary.overview;
      // Neighbouring columns are alike, so half of the columns take more than half of the bytes.
      coarse->halve_columns();
      overview = &*coarse;
    }
    pictures += packed;
    ++picture_count;
  }
  for (const CloseUp& close_up : summary.close_ups) {
    std::string close_up_pictures, close_up_singles;
    for (const Picture& picture : close_up.pictures) put_picture(close_up_pictures, picture);
    put_singles(close_up_singles, close_up.singles);
    const size_t packed_bytes = compressed(close_up_pictures + close_up_singles).size();
    if (spent_bytes + packed_bytes > bytes_max) continue;  // a smaller one may fit
    spent_bytes += packed_bytes;
    pictures += close_up_pictures;
    singles += close_up_singles;
    picture_count += close_up.pictures.size();
    ++single_count;
  }

  std::string all = head;
  put_number(all, picture_count);
  all += pictures;
  put_number(all, single_count);
  all += singles;
  return compressed(all);
}

}  // namespace penstock::report
