#pragma once

// The check of one input, whatever it is: a file in parts (items/check_file.h), and what comes in
// order (files/source/in_order.h) from front to back.

#include <optional>
#include <string>

#include "files/run/options.h"
#include "items/check_file.h"

namespace penstock::files {

// Checks what is written to it. The head is taken off first: what follows is of the format that it makes.
// Thread safety: that of Sink.
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

// The first input of `files`. What is no whole number of items is an error (code corrupt). `files.cancel` ends
// the wait for what comes in order: ErrorCode::cancelled.
Result<items::CheckResult> check_input(const penstock::FilesOptions& files,
                                       const items::CheckFileOptions& options);

}  // namespace penstock::files
