#pragma once

// A plan of penstock plan, and its output: as text, and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "files/bowtie/planner.h"
#include "interfaces/api/profile_json.h"
#include "penstock/files.h"

namespace penstock::cli {

// A phase: a pass of the planner, or the sort of the buckets.
struct PlanPhase {
  std::string name;
  bowtie::Pass pass;
  bool sorts_buckets = false;
  std::vector<std::string> notes;  // conditions that the model does not cover
};

struct PartitioningChoice {
  std::string name;
  std::string factors;
  size_t passes = 0;
  double seconds = 0;
  double switches = 0;
  bool exceeds_memory = false;
};

struct DeviceView {
  api::ProfileFile device;
  std::string how_known;  // source of a profile that is not from a file
  uint64_t memory_bytes = 0;
  double bytes = 0;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  bool coarse = false;
  std::vector<PlanPhase> phases;
  PartitioningChoice best;
  double disk_bytes_max = 0;
  std::vector<PartitioningChoice> choices;
};

struct Plans {
  std::optional<SortPlan> sort;
  DeviceView view;
  std::string temp_directory;   // a plan of files has one
  bool has_header = false;      // figures are of the input without its header
  bool output_is_whole = true;  // the output is as large as the input: neither --top nor -u
  bool sorts_size = false;      // a sort of --size
};

// Prints the sort's own plan; if `verbose`, or without one, also the device's view.
void print_plans(const Plans& plans, bool verbose);

std::string plans_json(const Plans& plans);

}  // namespace penstock::cli
