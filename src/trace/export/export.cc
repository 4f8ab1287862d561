#include "trace/export/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "trace/format/format.h"
#include "trace/format/trace_file.h"

namespace penstock::trace {
namespace {

// A text file, written in pieces.
class ExportText {
 public:
  explicit ExportText(TraceFile file) : file_(std::move(file)) {}

  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(fmt::appender(text_), format, std::forward<T>(values)...);
  }

  Status write_some() { return text_.size() < piece_bytes ? Status{} : write(); }
  Status close() {
    if (Status status = write(); !status) return status;
    return file_.close();
  }

 private:
  static constexpr size_t piece_bytes = 256 * 1024;
  Status write() {
    Status status = file_.write(std::as_bytes(std::span(text_.data(), text_.size())));
    text_.clear();
    return status;
  }

  TraceFile file_;
  fmt::memory_buffer text_;
};

// A writer of requests in one format.
class Exporter {
 public:
  using Files = std::vector<ConvertedFile>;

  virtual ~Exporter() = default;
  virtual void begin(ExportText& out) = 0;
  virtual void request(ExportText& out, const Request& request, const Files& files) = 0;
  virtual void end(ExportText&) {}
};

std::string_view last_part(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

class CsvExporter final : public Exporter {
 public:
  void begin(ExportText& out) override {
    out.add(
        "start_ns,latency_ns,process,thread,access,file,offset,bytes,file_seek,device_seek\r\n");
  }
  void request(ExportText& out, const Request& r, const Files& files) override {
    for (; names_.size() < files.size();) {
      names_.push_back(csv_string(files[names_.size()].first_path));
    }
    out.add("{},{},{},{},{},{},{},{},{},{}\r\n", r.start_ns, r.latency_ns, r.process, r.thread,
            r.access == Access::read ? "read" : "write", names_[r.file], r.offset, r.bytes,
            r.file_seek ? 1 : 0, r.device_seek ? 1 : 0);
  }

 private:
  std::vector<std::string> names_;
};

// Writes fio's iolog. Times are microseconds since the beginning, and must not fall.
class IologExporter final : public Exporter {
 public:
  void begin(ExportText& out) override { out.add("fio version 3 iolog\n"); }
  void request(ExportText& out, const Request& r, const Files& files) override {
    at_us_ = std::max(at_us_, r.start_ns / 1000);
    for (; names_.size() < files.size();) {
      names_.push_back(iolog_name(names_.size(), files[names_.size()].first_path));
    }
    if (opened_.size() < files.size()) opened_.resize(files.size());
    if (!opened_[r.file]) {
      out.add("{0} {1} add\n{0} {1} open\n", at_us_, names_[r.file]);
      opened_[r.file] = true;
    }
    out.add("{} {} {} {} {}\n", at_us_, names_[r.file], r.access == Access::read ? "read" : "write",
            r.offset, r.bytes);
  }
  void end(ExportText& out) override {
    for (size_t i = 0; i < opened_.size(); ++i) {
      if (opened_[i]) out.add("{} {} close\n", at_us_, names_[i]);
    }
  }

 private:
  uint64_t at_us_ = 0;
  std::vector<std::string> names_;
  std::vector<bool> opened_;
};

// Writes trace events for Perfetto. Slices of one thread must be nested or apart, so a request that
// overlaps the previous one (io_uring) becomes an asynchronous slice in a row of its own.
class PerfettoExporter final : public Exporter {
 public:
  void begin(ExportText& out) override {
    out.add("{{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
  }
  void request(ExportText& out, const Request& r, const Files& files) override {
    for (; names_.size() < files.size();) {
      const std::string& path = files[names_.size()].first_path;
      names_.push_back({json_string(last_part(path)), json_string(path)});
    }
    const auto& [name, path] = names_[r.file];
    const char* access = r.access == Access::read ? "read" : "write";
    const uint64_t end_ns = r.start_ns + r.latency_ns;
    uint64_t& busy_until = busy_until_ns_[r.thread];
    out.add("{}", first_ ? "" : ",\n");
    first_ = false;
    const auto arguments = fmt::format(
        "\"args\":{{\"file\":{},\"offset\":{},\"bytes\":{},\"file_seek\":{},\"device_seek\":{}}}",
        path, r.offset, r.bytes, r.file_seek, r.device_seek);
    if (r.start_ns >= busy_until) {
      out.add(
          "{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{},"
          "\"dur\":{},{}}}",
          access, name, r.process, r.thread, microseconds(r.start_ns), microseconds(r.latency_ns),
          arguments);
      busy_until = end_ns;
    } else {
      ++asynchronous_;
      for (const char phase : {'b', 'e'}) {
        out.add(
            "{}{{\"ph\":\"{}\",\"cat\":\"{}\",\"id\":{},\"name\":{},\"pid\":{},\"tid\":{},"
            "\"ts\":{},{}}}",
            phase == 'b' ? "" : ",\n", phase, access, asynchronous_, name, r.process, r.thread,
            microseconds(phase == 'b' ? r.start_ns : end_ns), arguments);
      }
    }
  }
  void end(ExportText& out) override { out.add("\n]}}\n"); }

 private:
  static std::string microseconds(uint64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
  }

  bool first_ = true;
  uint64_t asynchronous_ = 0;
  std::vector<std::pair<std::string, std::string>> names_;
  std::unordered_map<int32_t, uint64_t> busy_until_ns_;
};

std::unique_ptr<Exporter> exporter_of(ExportFormat format) {
  switch (format) {
    case ExportFormat::iolog:
      return std::make_unique<IologExporter>();
    case ExportFormat::perfetto:
      return std::make_unique<PerfettoExporter>();
    case ExportFormat::csv:
    case ExportFormat::trace:
      break;
  }
  return std::make_unique<CsvExporter>();
}

// Copies the events to a trace in our own format. The copy of a trace that was cut off is cut off,
// too.
Result<Conversion> rewrite(TraceReader& trace, ConvertOptions options, const std::string& output) {
  auto writer = TraceWriter::create_whole(output, trace.header());
  if (!writer) return std::unexpected(writer.error());
  size_t written_files = 0;
  std::unordered_map<uint32_t, uint32_t> strings;  // ids in the copy
  options.event_sink = [&](std::span<const Event> events) -> Status {
    for (; written_files < trace.files().size(); ++written_files) {
      (void)writer->add_file(trace.files()[written_files]);
    }
    for (Event event : events) {
      if (event.path != 0) {
        uint32_t& copied = strings[event.path];
        if (copied == 0) copied = writer->add_string(trace.string(event.path));
        event.path = copied;
      }
      if (Status status = writer->add(event); !status) return status;
    }
    return {};
  };
  auto result = convert(trace, options, {});
  if (!result) return result;
  const Status status = result->complete ? writer->finish(trace.totals()) : writer->leave_cut_off();
  if (!status) return std::unexpected(status.error());
  return result;
}

}  // namespace

Result<ExportFormat> export_format_named(std::string_view name) {
  if (name == "csv") return ExportFormat::csv;
  if (name == "iolog") return ExportFormat::iolog;
  if (name == "json") return ExportFormat::perfetto;
  if (name == "trace") return ExportFormat::trace;
  if (name == "arrow") {
    return failure(ErrorCode::invalid_argument, "write this format any more", "arrow",
                   "csv, which pyarrow.csv.read_csv() makes an Arrow table of");
  }
  return failure(ErrorCode::invalid_argument, "write this format", std::string(name),
                 "csv, iolog, json or trace");
}

Result<ExportFormat> export_format_of(const std::string& path) {
  constexpr std::string_view formats[] = {"csv", "iolog", "json", "trace", "arrow"};
  for (const std::string_view name : formats) {
    if (path.ends_with("." + std::string(name))) return export_format_named(name);
  }
  return failure(ErrorCode::invalid_argument, "recognize a format by this name", path,
                 "a name that ends in .csv, .iolog (fio), .json (Perfetto) or .trace, or --format");
}

std::string iolog_name(size_t index, std::string_view path) {
  constexpr size_t kept_max = 64;
  std::string name = fmt::format("{:05}-", index + 1);
  for (const char c : last_part(path).substr(0, kept_max)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '.' || c == '-' || c == '_';
    name += plain ? c : '_';  // fio splits names at colons, and lines at spaces
  }
  return name;
}

Status make_iolog_files(const Conversion& conversion, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  for (size_t i = 0; i < conversion.files.size() && !error; ++i) {
    const ConvertedFile& file = conversion.files[i];
    if (file.reads + file.writes == 0) continue;
    const std::filesystem::path path =
        std::filesystem::path(folder) / iolog_name(i, file.first_path);
    const bool is_there = std::filesystem::exists(path, error);
    if (error) break;
    if (is_there) {
      return failure(ErrorCode::invalid_argument, "make this file: it exists", path.string(),
                     "an empty folder");
    }
    if (!std::ofstream(path)) return system_error(errno, "create", path.string());
    std::filesystem::resize_file(path, file.peak_bytes, error);
  }
  if (error) return system_error(error.value(), "make files in", folder);
  return {};
}

std::string json_string(std::string_view text) {
  std::string quoted = "\"";
  while (!text.empty()) {
    const size_t bytes = first_character(text).bytes;
    const char c = text.front();
    if (bytes == 0) {
      quoted += "\\ufffd";
    } else if (bytes > 1) {
      quoted += text.substr(0, bytes);
    } else if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else {
      quoted += c;
    }
    text.remove_prefix(std::max<size_t>(bytes, 1));
  }
  return quoted + '"';
}

std::string csv_string(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

Result<Conversion> export_requests(TraceReader& trace, const ConvertOptions& options,
                                   ExportFormat format, const std::string& output) {
  if (format == ExportFormat::trace) return rewrite(trace, options, output);
  auto file = TraceFile::create_whole(output);
  if (!file) return std::unexpected(file.error());
  ExportText out(std::move(*file));
  const std::unique_ptr<Exporter> exporter = exporter_of(format);
  exporter->begin(out);
  const Exporter::Files* files = nullptr;
  auto result = convert(
      trace, options,
      [&](std::span<const Request> batch) -> Status {
        for (const Request& request : batch) exporter->request(out, request, *files);
        return out.write_some();
      },
      &files);
  if (!result) return result;
  exporter->end(out);
  if (Status status = out.close(); !status) return std::unexpected(status.error());
  return result;
}

}  // namespace penstock::trace
