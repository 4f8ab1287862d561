#pragma once

// What traces are replayed on, and how: the options that `replay` and `compare` share, and the work
// between them and src/trace/replay/replay.h.

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
  std::string simulate;  // a profile: no disk at all
  std::string emulate;
  bool buffered = false;
  bool no_fill = false;
  bool no_sync = false;
  std::string room = "peak";
  // What makes the trace smaller, in words of the command ("--under FOLDER"); empty: nothing.
  std::string smaller_hint;

  // What is simulated or emulated, if it is a profile: its name or file.
  std::string profile() const;
};

// `words` must outlive the parsing.
void add_stage_options(Parser& parser, StageWords& words);

// Thread safety: none.
class Stage {
 public:
  // What can be known to be wrong before anything is read: no place, two of them, no such profile.
  static Result<Stage> choose(const StageWords& words);

  bool simulated() const { return profile_.has_value(); }
  trace::Room room() const { return room_; }
  bool buffered() const { return buffered_; }
  bool sync() const { return sync_; }

  // What a plan needs; call it for each before prepare().
  void make_room_for(const trace::ReplayPlan& plan);
  // "1.50 GiB on /data, of 20.1 GiB that are free": what prepare() will take. Nothing for a
  // simulation, or a device.
  std::optional<std::string> needed_room() const;
  // Makes and fills the region; nothing for a simulation. Errors: out_of_space, with what would
  // help, before anything is written.
  Status prepare(const std::atomic<bool>* cancel);

  // REQUIRES: room was made for this plan.
  Result<trace::ReplayResult> replay(const std::string& trace, const trace::ReplayPlan& plan,
                                     const trace::ReplayOptions& options);

  // "region of 1.50 GiB on /data, in one piece at 74.1 GiB, filled in 1.2 s"; empty for a
  // simulation.
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
  std::optional<bowtie::DeviceProfile> profile_;           // simulated on
  std::optional<bowtie::DeviceProfile> emulated_profile_;  // its delay depends on the plan
  std::optional<io::EmulatedDevice> emulated_;
  uint64_t bytes_needed_ = 0;
  uint64_t touched_bytes_needed_ = 0;  // with Room::touched
  std::optional<trace::ReplayRegion> region_;
  double fill_seconds_ = 0;
};

nlohmann::ordered_json figures_json(const trace::ReplayFigures& figures);
nlohmann::ordered_json result_json(const trace::ReplayResult& result);
// "1.00 MiB: 12, 2.00 MiB: 7", of runs at least so long; "-" of none.
std::string runs_text(const trace::RunHistogram& runs);
// What should be known before the figures are believed, a sentence each.
std::vector<std::string> replay_notes(const trace::ReplayPlan& plan,
                                      const trace::ReplayResult& result,
                                      const trace::ReplayOptions& options);

}  // namespace penstock::cli
