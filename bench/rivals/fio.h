#pragma once

// fio with io_uring and direct I/O: what the disk gives to a program that does nothing with the
// data.

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

struct FioRun {
  double bytes_per_s = 0;
  double cpu_seconds = 0;  // of its job, by its own account: starting up does not count
};

struct FioJob {
  std::string file;
  uint64_t bytes = 0;
  bool write = false;
  // Its 8 buffers of 2 MiB lie on transparent huge pages, where glibc can be told so.
  bool huge_pages = false;
};

bool fio_is_installed();
Result<FioRun> run_fio(const FioJob& job);

}  // namespace penstock::bench
