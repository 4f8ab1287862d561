#pragma once

// What the formats of export.h have in common.

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base.h"
#include "penstock/trace.h"
#include "trace/format/trace_file.h"

namespace penstock::trace {

// Text, or bytes, on their way to a file, a piece at a time.
class ExportText {
 public:
  explicit ExportText(TraceFile file) : file_(std::move(file)) {}

  template <class... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<T>(values)...);
  }
  void raw(std::string_view bytes) { text_ += bytes; }
  // Bytes added so far.
  uint64_t position() const { return written_bytes_ + text_.size(); }

  Status write_some() { return text_.size() < piece_bytes ? Status{} : write(); }
  Status close() {
    if (Status status = write(); !status) return status;
    return file_.close();
  }

 private:
  static constexpr size_t piece_bytes = 256 * 1024;
  Status write() {
    Status status = file_.write(std::as_bytes(std::span(text_)));
    written_bytes_ += text_.size();
    text_.clear();
    return status;
  }

  TraceFile file_;
  std::string text_;
  uint64_t written_bytes_ = 0;
};

class Exporter {
 public:
  using Files = std::vector<ConvertedFile>;

  virtual ~Exporter() = default;
  virtual void begin(ExportText& out) = 0;
  virtual void request(ExportText& out, const Request& request, const Files& files) = 0;
  virtual Status end(ExportText& out, const Conversion& result) = 0;
};

std::unique_ptr<Exporter> arrow_exporter();  // export_arrow.cc

}  // namespace penstock::trace
