#include "trace/import/import.h"

#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "base/access.h"
#include "io/names.h"
#include "trace/import/import_sources.h"

namespace penstock::trace {
namespace {

constexpr size_t head_bytes = 64 * 1024;
constexpr std::string_view trace_magic = "PENTRACE";
constexpr std::string_view iolog_magic = "fio version ";
// Magic numbers of a record of blktrace, in both byte orders.
constexpr std::string_view blktrace_magics[] = {"\x07tae", "eat\x07"};

Result<LogKind> detect(std::string_view head, const std::string& path) {
  // A trace may be cut off within its magic number.
  if (head.starts_with(trace_magic) || trace_magic.starts_with(head)) return LogKind::trace;
  if (head.starts_with(iolog_magic)) return LogKind::iolog;
  for (const std::string_view magic : blktrace_magics) {
    if (head.starts_with(magic)) {
      return failure(ErrorCode::unsupported, "read a trace of blktrace", path,
                     "fio, which can turn it into an iolog: --read_iolog=... "
                     "--merge_blktrace_file=... --merge-blktrace-only");
    }
  }
  if (looks_like_strace(head)) return LogKind::strace;
  return failure(ErrorCode::corrupt, "read this as a trace: it does not begin as one", path,
                 "a file of penstock trace, of fio --write_iolog, or of strace -f -ttt -T -yy -o; "
                 "where such a file begins with something else, penstock convert --from KIND -o "
                 "x.trace makes a trace of it");
}

std::unique_ptr<EventSource> source_of(LogKind kind, Lines lines, std::string_view head) {
  return kind == LogKind::iolog ? iolog_source(std::move(lines), head)
                                : strace_source(std::move(lines), head);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

Result<LogKind> log_kind_of(std::string_view name) {
  if (name == "trace") return LogKind::trace;
  if (name == "iolog") return LogKind::iolog;
  if (name == "strace") return LogKind::strace;
  return failure(ErrorCode::invalid_argument, "read logs of this kind", std::string(name),
                 "trace, iolog or strace");
}

Status check_readable_twice(const std::string& path) {
  std::error_code ignored;  // a later open reports the error
  const auto status = std::filesystem::status(path, ignored);
  if (path != "-" && (!std::filesystem::exists(status) || std::filesystem::is_directory(status) ||
                      std::filesystem::is_regular_file(status)))
    return {};
  return failure(ErrorCode::unsupported, "read the trace twice", io::shown_input(path),
                 "keep the trace in a file");
}

Result<TraceReader> open_trace(const std::string& path, LogKind kind) {
  auto file = TraceFile::open(path);
  if (!file) return std::unexpected(file.error());
  auto peeked = file->peek(head_bytes);
  if (!peeked) return std::unexpected(peeked.error());
  const std::string head(text_of(*peeked));
  if (kind == LogKind::detect) {
    auto found = detect(head, file->path());
    if (!found) return std::unexpected(found.error());
    kind = *found;
  }
  if (kind == LogKind::trace) return internal::Access::open<TraceReader>(std::move(*file));
  return internal::Access::make<TraceReader>(source_of(kind, Lines(std::move(*file)), head));
}

Result<TraceReader> trace_of_text(std::string_view text, LogKind kind) {
  const std::string_view head = text.substr(0, head_bytes);
  if (kind == LogKind::detect) {
    auto found = detect(head, "a log in memory");
    if (!found) return std::unexpected(found.error());
    kind = *found;
  }
  if (kind == LogKind::trace) return TraceReader::of_memory(std::as_bytes(std::span(text)));
  return internal::Access::make<TraceReader>(source_of(kind, Lines(text), head));
}

}  // namespace penstock::trace
