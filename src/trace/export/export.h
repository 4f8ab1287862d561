#pragma once

// The sequence of requests in other programs' formats.

#include <string>
#include <string_view>

#include "penstock/base.h"
#include "penstock/trace.h"

namespace penstock::trace {

enum class ExportFormat {
  csv,       // a line per request, a header in front: for spreadsheets, DuckDB, pandas
  iolog,     // fio's, version 3: `fio --read_iolog` replays it
  perfetto,  // JSON of trace events: ui.perfetto.dev and chrome://tracing draw a time line
  trace,     // the events in our own format: another program's log becomes a trace
};

// The format of a name: csv, iolog, json (perfetto) or trace; invalid_argument for another, with
// a hint at CSV for arrow, which was one.
Result<ExportFormat> export_format_named(std::string_view name);
// Finds the format by the end of a file's name: .csv, .iolog, .json, .trace. Errors as above.
Result<ExportFormat> export_format_of(const std::string& path);

// Converts `trace` and writes the requests to `output` ("-": stdout), in bounded memory. What the
// formats cannot say is told in docs/tracing.md. Names of files are escaped as each format asks;
// an iolog has made-up names without folders, so that a replay cannot touch the traced files.
// As a trace all events are written, whatever `under` says. Errors: those of convert() and of
// writing.
Result<Conversion> export_requests(TraceReader& trace, const ConvertOptions& options,
                                   ExportFormat format, const std::string& output);

// The name that file `index` has in an iolog: "00042-part-7.tmp".
std::string iolog_name(size_t index, std::string_view path);
// Makes the files that a replay of the iolog needs, empty (sparse) and as long as each became, in a
// folder that is made when it is not there. Errors: those of the system; a file of such a name that
// exists is one.
Status make_iolog_files(const Conversion& conversion, const std::string& folder);
// Text as a JSON string, with its quotes. Bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// As a field of CSV (RFC 4180), with its quotes.
std::string csv_string(std::string_view text);

}  // namespace penstock::trace
