#pragma once

// The export of requests to other programs' formats.

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

// Finds the format by its name: csv, iolog, json (perfetto) or trace. Returns invalid_argument for
// another name; for arrow, which was a format once, the error hints at CSV.
Result<ExportFormat> export_format_named(std::string_view name);
// Finds the format by the end of a file's name: .csv, .iolog, .json, .trace. Errors: as above.
Result<ExportFormat> export_format_of(const std::string& path);

// Converts `trace` and writes the requests to `output` ("-": stdout), in bounded memory.
// docs/tracing.md lists what each format cannot express. Names of files are escaped for each format;
// an iolog has made-up names without folders, so that a replay cannot touch the traced files. The
// format `trace` contains all events, regardless of `under`. Errors: those of convert() and of
// writing.
Result<Conversion> export_requests(TraceReader& trace, const ConvertOptions& options,
                                   ExportFormat format, const std::string& output);

// Returns the name of file `index` in an iolog: "00042-part-7.tmp".
std::string iolog_name(size_t index, std::string_view path);
// Creates the files that a replay of the iolog needs, sparse and with their peak sizes, in `folder`,
// which is created if missing. Errors: those of the system, also if one of the files exists.
Status make_iolog_files(const Conversion& conversion, const std::string& folder);
// Returns text as a JSON string, with its quotes. Bytes that are no UTF-8 become U+FFFD.
std::string json_string(std::string_view text);
// Returns text as a field of CSV (RFC 4180), with its quotes.
std::string csv_string(std::string_view text);

}  // namespace penstock::trace
