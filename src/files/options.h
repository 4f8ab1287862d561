#pragma once

// What every run over files is told, the sort included, and what it tells.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bowtie/device_profile.h"
#include "file/file.h"
#include "penstock/source.h"
#include "penstock/units.h"
#include "pool/pool.h"
#include "record/items.h"

namespace penstock::files {

struct Progress {
  const char* phase;     // "sample", "distribute", "sort", "merge"
  uint64_t done_bytes;   // of all reading and writing of the run
  uint64_t total_bytes;  // 0: not known
};

struct FilesOptions {
  std::vector<std::string> inputs;  // "-" is stdin; at least one
  std::string output = "-";         // "-" is stdout; may name an input
  record::Format format;
  uint64_t memory_bytes = 1 * GiB;            // hard: resident memory of the whole process
  std::vector<std::string> temp_directories;  // empty: file::default_temp_directory(output)
  // The disk, as penstock disk measured it: what plans of several passes reckon with. Nothing: the
  // published NVMe profile; a sort looks at the disk by itself.
  std::shared_ptr<const bowtie::DeviceProfile> device = {};
  const std::atomic<bool>* cancel = nullptr;  // set it, and the run ends: ErrorCode::interrupted
  // Called from the run's own threads, some ten times a second at most.
  std::function<void(const Progress&)> progress = {};
  // Told, in a sentence, where temporaries lie if that is not as usual, and what a resumed sort
  // takes over, or leaves when it fails. From the thread that called the run.
  std::function<void(const std::string&)> notice = {};
  // Of what is not the executor's, which chooses by itself.
  pool::Mechanism mechanism = pool::Mechanism::automatic;
  // How full the buckets of the executor are: a look at all of them for every run of the device.
  bool record_staircases = false;
  file::OutputRules output_rules = {};
  SourceOptions source = {};  // of the inputs
};

// How full the buckets of a side of the executor are in the steady state, the fullest first, mean
// over many steps, beside the theorem's. Of very many streams each value is the mean of neighbours.
struct Staircase {
  std::string title;
  uint64_t streams = 0;
  uint64_t steps = 0;                   // that the mean is of
  std::vector<double> measured_bytes;   // of a stream
  std::vector<double> predicted_bytes;  // the same; empty: there is no theorem for it
};

// What a run did, all its passes together.
struct FilesStats {
  double seconds = 0;
  uint32_t passes = 0;  // times that the data are read, at most
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
  uint64_t temp_bytes = 0;         // written to temporaries
  uint64_t temp_memory_bytes = 0;  // of these, to such in memory, beside the budget (tmpfs)
  // How often the device went on to another file, and the bytes between two such times.
  uint64_t switches = 0;
  double run_bytes = 0;
  size_t block_bytes = 0;  // of the last pass
  uint64_t peak_rss_bytes = 0;
  uint64_t budget_bytes = 0;
  std::string emulated;               // the emulated device on which this happened; empty: none
  std::vector<Staircase> staircases;  // with FilesOptions::record_staircases
};

}  // namespace penstock::files
