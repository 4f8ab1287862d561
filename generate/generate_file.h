#pragma once

// Writes a generated input to a file with direct I/O: several threads make blocks, each keeps some
// writes in flight. The file gets its name when it is complete.

#include <atomic>
#include <string>

#include "generate/generator.h"
#include "io/file.h"
#include "penstock/base.h"

namespace penstock::generate {

struct GenerateOptions {
  unsigned threads = 2;
  OutputRules output_rules = {};
  const std::atomic<bool>* stop = nullptr;  // if it becomes true, ends with the error `interrupted`
};

// Returns the bytes written. "-" is stdout. Free space is checked before anything is written.
Result<uint64_t> generate_file(const Generator& generator, const std::string& path,
                               const GenerateOptions& options = {});

}  // namespace penstock::generate
