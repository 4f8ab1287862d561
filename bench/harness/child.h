#pragma once

// Runs a program and measures it from outside.

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base.h"

namespace penstock::bench {

struct ChildRun {
  int exit_code = 0;
  double seconds = 0;  // wall clock, start and end of the process included
  double processor_s = 0;
  std::string output;  // the child's stdout
  // The peak of a memory cgroup of its own, which counts every physical page once, page cache
  // included; 0 if this process may not make one.
  uint64_t cgroup_peak_bytes = 0;
  // The kernel's own account of the resident set: a page that is visible at several addresses
  // counts several times.
  uint64_t resident_peak_bytes = 0;
};

// The variant of penstock that obeys the tests' environment variables (test/support).
std::string with_seams(const std::string& penstock);

// Runs `words` with `environment` ("NAME=VALUE") added to ours. An end by a signal is an error, and
// so is an exit code of 2 or more, which all programs run here use only for errors.
// Thread safety: none (it forks).
Result<ChildRun> run_child(const std::vector<std::string>& words,
                           const std::vector<std::string>& environment = {});

}  // namespace penstock::bench
