#pragma once

// The numbers of one trace as the page's script reads them: one row of put_number(), compressed
// with zlib. Names are not among them: they stand in the page's tables, as text.
//
// The order (report.js reads the same; `s` marks put_signed, times are in units of 100 ns):
//
//   2 (the version), first request, requests, addresses
//   files: count; for each: base address, bytes shown, first offset, in order of the table
//   processes: count; the id (s) of each, in order of their first request (the first 4096)
//   time line: bins, the start, nanoseconds of a bin times 1000; per bin, all of one column before
//     the next column: bytes read, bytes written, seeks, syncs; median, 99 % and largest latency in
//     ns of reads, then of writes, then of syncs
//   starts: requests between two entries, count, differences between successive times (s)
//   syncs: requests per cell, count of cells; for each: difference to the place of the one before,
//     syncs, the slowest (SyncLane)
//   pictures: count; for each: first request, requests, columns, rows, requests per column,
//     bytes of its cells, the cells (Picture::cells)
//   close-ups: count; for each: first request, requests, and five columns (SingleRequests), each
//     after its size in bytes

#include <cstddef>
#include <span>
#include <string>

#include "penstock/base.h"
#include "trace/report/summary.h"

namespace penstock::report {

// Packs a trace into at most `bytes_max`, or as little as possible: the picture of the whole loses
// columns, and the least important close-ups are left out.
std::string pack_data(const TraceSummary& summary, std::span<const FileFigures> listed,
                      size_t bytes_max);

}  // namespace penstock::report
