#pragma once

// The stage of replays: the options that `replay` and `compare` share, and the work between them and
// src/trace/replay/replay.h.

#include <atomic>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/common/parser.h"
#include "files/bowtie/device_profile.h"
#include "io/emulation.h"
#include "penstock/base.h"
#include "trace/replay/replay.h"

namespace penstock::cli {

struct StageWords {
  std::string on;  // a directory, or a block device
  bool overwrite_device = false;
  std::string simulate;  // a profile to simulate instead of a disk
  std::string emulate;
  bool buffered = false;
  bool no_fill = false;
  bool no_sync = false;
  std::string room = "peak";
  // Options of the command that make the trace smaller ("--under FOLDER"); empty if there are none.
  std::string smaller_hint;

  // Returns the name or file of the simulated or emulated profile.
  std::string profile() const;
};

// Adds the options. REQUIRES: `words` outlives the parsing.
void add_stage_options(Parser& parser, StageWords& words);

// Thread safety: none.
class Stage {
 public:
  // Checks the options before anything is read: no place, two places, an unknown profile.
  static Result<Stage> choose(const StageWords& words);

  bool simulated() const { return profile_.has_value(); }
  trace::Room room() const { return room_; }
  bool buffered() const { return buffered_; }
  bool sync() const { return sync_; }

  // Enlarges the region for a plan. REQUIRES: prepare() comes later.
  void make_room_for(const trace::ReplayPlan& plan);
  // Returns the space that prepare() will take: "1.50 GiB on /data, of 20.1 GiB that are free".
  // Returns nullopt for a simulation, or a device.
  std::optional<std::string> needed_room() const;
  // Makes and fills the region, except for a simulation. Errors: out_of_space, with a remedy, before
  // anything is written.
  Status prepare(const std::atomic<bool>* cancel);

  // Replays a trace. REQUIRES: make_room_for() had this plan.
  Result<trace::ReplayResult> replay(const std::string& trace, const trace::ReplayPlan& plan,
                                     const trace::ReplayOptions& options);

  // Describes the region: "region of 1.50 GiB on /data, in one piece at 74.1 GiB, filled in 1.2 s".
  // Returns an empty text for a simulation.
  std::string description() const;
  std::optional<uint64_t> pieces() const;
  uint64_t region_bytes() const { return region_ ? region_->bytes() : 0; }

 private:
  Status use_emulated_device(const trace::ReplayPlan& plan);

  std::string on_;
  bool is_device_ = false;
  bool buffered_ = false;
  bool fill_ = true;
  bool sync_ = true;
  trace::Room room_ = trace::Room::peak;
  std::string smaller_hint_;
  std::optional<bowtie::DeviceProfile> profile_;           // the profile to simulate
  std::optional<bowtie::DeviceProfile> emulated_profile_;  // the plan decides its delay
  std::optional<io::EmulatedDevice> emulated_;
  uint64_t bytes_needed_ = 0;
  uint64_t touched_bytes_needed_ = 0;  // bytes needed with Room::touched
  std::optional<trace::ReplayRegion> region_;
  double fill_seconds_ = 0;
};

nlohmann::ordered_json figures_json(const trace::ReplayFigures& figures);
nlohmann::ordered_json result_json(const trace::ReplayResult& result);
// Returns notes that a reader of the figures needs, a sentence each.
std::vector<std::string> replay_notes(const trace::ReplayPlan& plan,
                                      const trace::ReplayResult& result,
                                      const trace::ReplayOptions& options);

}  // namespace penstock::cli
