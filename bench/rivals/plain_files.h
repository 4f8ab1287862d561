#pragma once

// The usual ways to read and write files. Each reader returns the sum of the file's 64-bit numbers,
// each writer stores 0, 1, 2, ... ; `sync` waits until they are on the disk.

#include <cstdint>
#include <string>

#include "bench/harness/loops.h"
#include "penstock/base.h"

namespace penstock::bench {

struct PlainFile {
  std::string path;
  uint64_t bytes = 0;
  const Loops& loops;
  bool sync = false;
};

Result<uint64_t> read_by_fstream(const PlainFile& file);
Status write_by_fstream(const PlainFile& file);

// read(2) and write(2) of 1 MiB.
Result<uint64_t> read_by_calls(const PlainFile& file);
Status write_by_calls(const PlainFile& file);

enum class Advice { none, sequential, populate };
Result<uint64_t> read_by_mmap(const PlainFile& file, Advice advice);
Status write_by_mmap(const PlainFile& file, Advice advice);

// Untimed helpers, which remove the file's pages from the page cache, or read all of them into it.
Status forget_cached(const std::string& path);
Status bring_into_cache(const std::string& path);

}  // namespace penstock::bench
