#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

// A new file of about so many bytes, by `penstock gen`: of u32, u64, f64, kv64, records of 100 bytes, or lines. `order`: as
// --dist has it. Returns how many items it has.
Result<uint64_t> generate(const std::string& program, const std::string& format, uint64_t bytes,
                          const std::string& path, const std::string& order = "uniform");

}  // namespace penstock::bench
