// penstock/trace.h in a build with PENSTOCK_TRACE=OFF.
//
// All functions of the header are there, so that programs, the C interface and its symbols are the
// same in every build. The functions that record or read a trace return `unsupported`. No
// TraceReader can be made.

#include "base/check.h"
#include "penstock/trace.h"

namespace penstock::trace {

class EventSource {};

namespace {

std::unexpected<Error> not_built(std::string subject) {
  return failure(ErrorCode::unsupported, "record or read traces: this build has no tracing",
                 std::move(subject), "a build with -DPENSTOCK_TRACE=ON");
}

[[noreturn]] void no_reader() {
  check_failed("source_ != nullptr", __FILE__, __LINE__, "a reader in a build without tracing");
}

}  // namespace

TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;
TraceReader::~TraceReader() = default;

Result<TraceReader> TraceReader::open(const std::string& path) {
  return not_built(path);
}
Result<TraceReader> TraceReader::of_memory(std::span<const std::byte>) {
  return not_built("a trace in memory");
}
const Header& TraceReader::header() const {
  no_reader();
}
const std::string& TraceReader::path() const {
  no_reader();
}
Result<size_t> TraceReader::next(std::span<Event>) {
  no_reader();
}
const std::vector<FileRecord>& TraceReader::files() const {
  no_reader();
}
const FileRecord& TraceReader::file(uint32_t) const {
  no_reader();
}
std::string_view TraceReader::string(uint32_t) const {
  no_reader();
}
const Totals& TraceReader::totals() const {
  no_reader();
}
const UnseenCounts& TraceReader::unseen() const {
  no_reader();
}
bool TraceReader::complete() const {
  no_reader();
}
bool TraceReader::cut_off() const {
  no_reader();
}

Result<Captured> capture(const CaptureOptions& options) {
  return not_built(options.output);
}

Result<TraceReader> open_trace(const std::string& path, LogKind) {
  return not_built(path);
}

Result<Conversion> convert(TraceReader&, const ConvertOptions&, const RequestSink&,
                           const std::vector<ConvertedFile>**) {
  no_reader();
}

Result<Conversion> convert_file(const std::string& path, const ConvertOptions&, const RequestSink&,
                                const std::vector<ConvertedFile>**) {
  return not_built(path);
}

std::vector<std::string> Conversion::caveats() const {
  return {};
}

}  // namespace penstock::trace
