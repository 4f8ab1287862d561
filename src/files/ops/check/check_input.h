#pragma once

// The check of one input: a plain file in parts (items/check_file.h), an in-order input
// (files/source/in_order.h) from front to back.

#include <optional>
#include <string>

#include "files/run/options.h"
#include "items/check_file.h"

namespace penstock::files {

// Checks the bytes that are written to it. It removes the head first, which completes the format of
// the items. Thread safety: that of Sink.
class CheckSink final : public Sink {
 public:
  explicit CheckSink(const items::CheckOptions& options) : options_(options) {
    if (!options_.format.has_head()) checker_.emplace(options_);
  }

  Status write(std::span<const std::byte> from) override;
  Result<items::CheckResult> finish();

 private:
  Status take_header(size_t bytes);

  items::CheckOptions options_;
  std::string head_;
  std::optional<items::Checker> checker_;
};

// Checks the first input of `files`. Errors: corrupt if it is not a whole number of items;
// cancelled if `files.cancel` ends the wait for an in-order input.
Result<items::CheckResult> check_input(const FilesOptions& files,
                                       const items::CheckFileOptions& options);

}  // namespace penstock::files
