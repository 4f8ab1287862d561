#pragma once

// What every run over files is told, the sort included, and what it tells: penstock/files.h, with the
// words made a format.

#include "bowtie/device_profile.h"
#include "penstock/files.h"
#include "pool/pool.h"
#include "record/items.h"

namespace penstock::files {

using Progress = FilesProgress;
using penstock::FilesStats;
using penstock::Staircase;

struct FilesOptions : penstock::FilesOptions {
  record::Format format;
};

}  // namespace penstock::files
