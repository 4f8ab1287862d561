#pragma once

#include <cstdint>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

// Makes a new file of about this many bytes by `penstock gen`: of u32, u64, f64, kv64, records of
// 100 bytes, or lines. `order` is an argument of --dist. Returns the number of items.
Result<uint64_t> generate(const std::string& program, const std::string& format, uint64_t bytes,
                          const std::string& path, const std::string& order = "uniform");

}  // namespace penstock::bench
