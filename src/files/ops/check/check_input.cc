#include "files/ops/check/check_input.h"

#include <optional>
#include <string>

#include "files/run/input.h"
#include "files/run/odd_items.h"
#include "files/source/in_order.h"

namespace penstock::files {

Status CheckSink::write(std::span<const std::byte> from) {
  if (checker_) {
    checker_->add(from);
    return {};
  }
  head_.append(reinterpret_cast<const char*>(from.data()), from.size());
  const auto bytes = items::head_bytes(options_.format, head_, false);
  if (!bytes) return std::unexpected(bytes.error());
  if (bytes->value_or(head_.size()) > items::header_bytes_max) return endless_header("");
  return *bytes ? take_header(**bytes) : Status{};
}

Result<items::CheckResult> CheckSink::finish() {
  // If the header has not ended, the input has nothing else.
  if (!checker_) {
    const auto bytes = items::head_bytes(options_.format, head_, true);
    if (!bytes) return std::unexpected(bytes.error());
    auto status = take_header(bytes->value_or(head_.size()));
    if (!status) return std::unexpected(status.error());
  }
  return checker_->finish();
}

Status CheckSink::take_header(size_t bytes) {
  auto format = items::with_header(options_.format, std::string_view(head_).substr(0, bytes));
  if (!format) return std::unexpected(format.error());
  options_.format = std::move(*format);
  options_.header_bytes = bytes;
  checker_.emplace(options_);
  checker_->add(std::as_bytes(std::span(head_).subspan(bytes)));
  head_ = {};
  return {};
}

Result<items::CheckResult> check_input(const FilesOptions& files,
                                       const items::CheckFileOptions& options) {
  auto file = open_input(files, 0);
  if (!file) return std::unexpected(file.error());
  const auto arrival = source::arrival_of(*file, files.source);
  if (!arrival) return std::unexpected(arrival.error());
  // Rows and heads can only be found from the front.
  const items::Format& format = options.check.format;
  if (!arrival->in_order && !format.has_rules() && !format.has_head())
    return items::check_file(*file, options);
  auto bytes = source::source_of(*file, files.source, files.cancel);
  if (!bytes) return std::unexpected(bytes.error());
  auto stream = SourceStream::open(std::move(*bytes), file->path(),
                                   {.policy = ErrorPolicy::recover, .strict = false});
  if (!stream) return std::unexpected(stream.error());
  items::CheckOptions check = options.check;
  check.uneven = [&](const items::Format& read, uint64_t number, std::string_view item) {
    if (files.odd_items != nullptr)
      files.odd_items->add(OddKind::length, file->path(), read.header_lines + number + 1, read,
                           item);
  };
  CheckSink sink(check);
  const auto copied = copy(*stream, sink);
  auto result = copied ? sink.finish() : std::unexpected(copied.error());
  if (!result && result.error().subject.empty()) result.error().subject = file->path();
  return result;
}

}  // namespace penstock::files
