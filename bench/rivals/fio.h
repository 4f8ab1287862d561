#pragma once

// fio with io_uring and direct I/O: the disk's speed for a program that does nothing with the data.

#include <cstdint>
#include <optional>
#include <string>

#include "penstock/base.h"

namespace penstock::bench {

struct FioRun {
  double bytes_per_s = 0;
  double cpu_seconds = 0;  // time of its job by its own account, without the start
};

struct FioJob {
  std::string file;
  uint64_t bytes = 0;
  bool write = false;
  // Puts its 8 buffers of 2 MiB on transparent huge pages, if glibc supports it.
  bool huge_pages = false;
};

bool fio_is_installed();
Result<FioRun> run_fio(const FioJob& job);

}  // namespace penstock::bench
