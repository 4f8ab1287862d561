#include "papers/bowtie/simulator.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "files/bowtie/staircase_record.h"
#include "papers/bowtie/schedulers.h"
#include "penstock/base.h"

namespace penstock::papers {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();
// Fractions of a byte count as nothing.
constexpr double nothing = 0.5;
// A policy is stuck after this many actions in a row that move nothing.
constexpr int idle_actions_max = 8;

uint64_t whole(double bytes) {
  return bytes <= nothing ? 0 : static_cast<uint64_t>(bytes + 0.5);
}

class Simulation {
 public:
  Simulation(Scheduler& scheduler, Workload& workload, const SimulationOptions& options)
      : scheduler_(scheduler), workload_(workload), options_(options) {
    const size_t inputs = options.input_bytes.size();
    alpha_ = inputs == 0 ? 0 : options.outputs == 0 ? 1 : options.input_share;
    in_.resize(inputs);
    out_.resize(options.outputs);
    for (uint64_t bytes : options.input_bytes) {
      left_.push_back(static_cast<double>(bytes));
      size_.push_back(static_cast<double>(bytes));
    }
    view_in_.resize(inputs);
    view_left_.resize(inputs);
    view_consumed_.resize(inputs);
    view_out_.resize(options.outputs);
    phase_.inputs.resize(inputs);
    phase_.outputs.resize(options.outputs);
    // u, the progress of the computation: bytes consumed and produced.
    double total = static_cast<double>(options.produced_bytes);
    if (inputs > 0) total = std::accumulate(size_.begin(), size_.end(), 0.0) / alpha_;
    total_ = to_do_ = total;
    result_.seed = options.seed;
    result_.run_bytes_min = infinite;
  }

  SimulationResult run() {
    int idle = 0;
    while (idle < idle_actions_max) {
      refresh_view();
      const Action action = scheduler_.next(view_);
      if (options_.observe) options_.observe(view_, action);
      if (action.kind == Action::Kind::finish) break;
      if (options_.record_staircases) stairs_.note(view_, action, steady());
      const double before = moved_ + (total_ - to_do_);
      perform(action);
      ++result_.actions;
      streamed_ = action.kind == Action::Kind::read && action.overlapped ? action.stream : nobody;
      idle = moved_ + (total_ - to_do_) > before ? 0 : idle + 1;
    }
    result_.stuck = idle >= idle_actions_max;
    close_run();
    finish();
    return result_;
  }

 private:
  enum class Direction { none, read, write };
  static constexpr uint32_t nobody = ~uint32_t{0};

  // --- The computation. ---

  bool exhausted(size_t i) const { return in_[i] <= nothing && left_[i] <= nothing; }

  // Begins a new phase, over the inputs that have anything.
  void next_phase() {
    if (phase_left_ <= nothing) {
      picture();
      workload_.next(view_, phase_);
      phase_left_ = phase_.bytes;
    }
    double all = 0;
    size_t live = 0;
    for (size_t i = 0; i < in_.size(); ++i) {
      if (exhausted(i)) phase_.inputs[i] = 0;
      live += !exhausted(i);
      all += phase_.inputs[i];
    }
    // The workload may have no shares for the inputs that are left.
    for (size_t i = 0; i < in_.size(); ++i) {
      if (all > 0) {
        phase_.inputs[i] /= all;
      } else if (!exhausted(i)) {
        phase_.inputs[i] = 1.0 / static_cast<double>(live);
      }
    }
    all = std::accumulate(phase_.outputs.begin(), phase_.outputs.end(), 0.0);
    for (double& share : phase_.outputs) share /= all;
    phase_stale_ = false;
  }

  // Returns the reason for which the computation cannot run. `except` is the input being read: it
  // is named only if nothing else is in the way.
  Stall stall(uint32_t except = nobody) {
    if (to_do_ <= 1) return Stall::finished;
    if (phase_stale_ || phase_left_ <= nothing) next_phase();
    for (;;) {
      bool ended = false;
      waited_ = nobody;
      for (uint32_t i = 0; i < in_.size(); ++i) {
        if (phase_.inputs[i] <= 0 || in_[i] > nothing) continue;
        if (left_[i] <= nothing) {
          ended = true;
        } else if (waited_ == nobody || waited_ == except) {
          waited_ = i;
        }
      }
      if (!ended) break;
      bool anything = false;
      for (size_t i = 0; i < in_.size(); ++i) anything |= !exhausted(i);
      if (!anything) {
        to_do_ = 0;
        return Stall::finished;
      }
      next_phase();
    }
    const bool full =
        !out_.empty() && alpha_ < 1 &&
        held_out_ >= static_cast<double>(scheduler_.layout().output_memory_bytes) - nothing;
    if (waited_ != nobody && (waited_ != except || !full)) return Stall::input;
    return full ? Stall::outputs : Stall::none;
  }

  // Returns the progress until the next event. Input `fed` gets bytes as they are read; if outputs
  // are drained, they make room as they are written.
  double progress_to_event(uint32_t fed, bool outputs_drained) const {
    double u = std::min(phase_left_, to_do_);
    for (uint32_t i = 0; i < in_.size(); ++i) {
      if (phase_.inputs[i] <= 0) continue;
      u = std::min(u, (i == fed ? left_[i] : in_[i]) / (alpha_ * phase_.inputs[i]));
    }
    if (!out_.empty() && alpha_ < 1 && !outputs_drained) {
      const double room = static_cast<double>(scheduler_.layout().output_memory_bytes) - held_out_;
      u = std::min(u, std::max(0.0, room) / (1 - alpha_));
    }
    return u;
  }

  void progress(double u, uint32_t fed) {
    for (uint32_t i = 0; i < in_.size(); ++i) {
      if (i == fed) continue;
      in_[i] -= u * alpha_ * phase_.inputs[i];
      if (in_[i] < nothing) in_[i] = 0;
    }
    if (alpha_ < 1 && !out_.empty()) {
      held_out_ = 0;
      for (size_t j = 0; j < out_.size(); ++j) {
        out_[j] += u * (1 - alpha_) * phase_.outputs[j];
        held_out_ += out_[j];
      }
    }
    phase_left_ -= u;
    to_do_ -= u;
    computed_now_ += u;
  }

  void run_computation(uint32_t except = nobody) {
    while (stall(except) == Stall::none) {
      progress(progress_to_event(nobody, false), nobody);
      result_.output_bytes_peak = std::max(result_.output_bytes_peak, whole(held_out_));
    }
  }

  // --- The device. ---

  void transfer(Direction direction, uint32_t stream, double bytes) {
    if (bytes <= 0) return;
    if (direction != direction_ || stream != stream_) {
      close_run();
      mark_steady();
      (direction == Direction::read ? result_.read_switches : result_.write_switches) += 1;
      direction_ = direction;
      stream_ = stream;
    }
    run_now_ += bytes;
    moved_ += bytes;
    io_now_ += bytes;
    (direction == Direction::read ? result_.read_bytes : result_.written_bytes) += bytes;
  }

  void close_run() {
    if (run_now_ > 0) {
      result_.run_bytes_min = std::min(result_.run_bytes_min, run_now_);
      result_.run_bytes_max = std::max(result_.run_bytes_max, run_now_);
    }
    run_now_ = 0;
  }

  bool steady() const {
    return moved_ >= options_.steady_from * total_ && moved_ <= options_.steady_to * total_;
  }

  // Marks the beginning of a run: the window of whole runs in the steady state.
  void mark_steady() {
    if (!steady()) return;
    if (first_moved_ < 0) {
      first_moved_ = moved_;
      first_switches_ = result_.switches();
    }
    last_moved_ = moved_;
    last_switches_ = result_.switches();
  }

  void read(const Action& action) {
    const uint32_t i = action.stream;
    PENSTOCK_CHECK(i < in_.size(), "an input that is not there");
    if (!action.overlapped) {
      const double bytes = std::min(static_cast<double>(action.bytes), left_[i]);
      in_[i] += bytes;
      left_[i] -= bytes;
      if (left_[i] <= nothing) left_[i] = 0;
      transfer(Direction::read, i, bytes);
      note_inputs();
      return;
    }
    while (left_[i] > nothing) {
      run_computation(i);
      if (stall(i) != Stall::input || waited_ != i) break;
      const double u = progress_to_event(i, false);
      const double bytes = u * alpha_ * phase_.inputs[i];
      left_[i] -= bytes;
      if (left_[i] <= nothing) left_[i] = 0;
      progress(u, i);
      in_[i] = 0;
      transfer(Direction::read, i, bytes);
    }
  }

  void write(const Action& action) {
    const uint32_t j = action.stream;
    PENSTOCK_CHECK(j < out_.size(), "an output that is not there");
    if (!action.overlapped) {
      double bytes = static_cast<double>(std::min<uint64_t>(action.bytes, 1ull << 62));
      if (bytes > out_[j] - 1) bytes = out_[j];
      out_[j] -= bytes;
      held_out_ -= bytes;
      transfer(Direction::write, j, bytes);
      return;
    }
    for (;;) {
      run_computation();
      if (stall() != Stall::outputs) break;
      if (!action.stay && out_[j] <= nothing) break;
      // The memory stays full: bytes that leave bucket j make room for as many.
      double u = progress_to_event(nobody, true);
      const double falls = (1 - alpha_) * (1 - phase_.outputs[j]);
      if (!action.stay && falls > 0) u = std::min(u, out_[j] / falls);
      const double bytes = u * (1 - alpha_);
      progress(u, nobody);
      out_[j] -= bytes;
      if (out_[j] < nothing) out_[j] = 0;
      held_out_ -= bytes;
      transfer(Direction::write, j, bytes);
      if (!action.stay && out_[j] <= nothing) break;
    }
  }

  void perform(const Action& action) {
    io_now_ = computed_now_ = 0;
    switch (action.kind) {
      case Action::Kind::read:
        read(action);
        break;
      case Action::Kind::write:
        write(action);
        break;
      default:
        run_computation();
    }
    count_seconds(action);
  }

  void count_seconds(const Action& action) {
    double io = 0;
    if (options_.device != nullptr) {
      io = io_now_ / (action.kind == Action::Kind::read ? options_.device->read_bytes_per_s
                                                        : options_.device->write_bytes_per_s);
    }
    const double computing =
        options_.compute_bytes_per_s > 0 ? computed_now_ / options_.compute_bytes_per_s : 0;
    result_.seconds += std::max(io, computing);
    result_.seconds_computing_alone += std::max(0.0, computing - io);
  }

  // --- The policy's view, and records. ---

  // Pictures the buckets without the input that the computation waits for.
  void picture() {
    for (size_t i = 0; i < in_.size(); ++i) {
      view_in_[i] = whole(in_[i]);
      view_left_[i] = whole(left_[i]);
      // Fractions of a byte are dropped, which must not look as if bytes came back.
      view_consumed_[i] = std::max(view_consumed_[i], whole(size_[i] - left_[i] - in_[i]));
    }
    for (size_t j = 0; j < out_.size(); ++j) view_out_[j] = whole(out_[j]);
    view_.input_bytes = view_in_;
    view_.input_left_bytes = view_left_;
    view_.input_consumed_bytes = view_consumed_;
    view_.output_bytes = view_out_;
  }

  void refresh_view() {
    view_.stall = stall(streamed_);
    view_.stalled_input = waited_;
    picture();
  }

  void note_inputs() {
    double held = 0;
    for (double bytes : in_) held += bytes;
    result_.input_bytes_peak = std::max(result_.input_bytes_peak, whole(held));
  }

  void finish() {
    const double switches = static_cast<double>(result_.switches());
    if (switches > 0) result_.run_bytes = moved_ / switches;
    if (last_switches_ > first_switches_) {
      result_.steady_run_bytes =
          (last_moved_ - first_moved_) / static_cast<double>(last_switches_ - first_switches_);
    }
    if (result_.run_bytes_max == 0) result_.run_bytes_min = 0;
    if (options_.device != nullptr) {
      result_.seconds += switches * options_.device->switch_seconds.at(
                                        static_cast<uint32_t>(in_.size()), options_.outputs);
    }
    result_.input_staircase = stairs_.inputs().bytes;
    result_.output_staircase = stairs_.outputs().bytes;
  }

  Scheduler& scheduler_;
  Workload& workload_;
  const SimulationOptions& options_;
  double alpha_ = 0;
  double total_ = 0;
  double to_do_ = 0;

  std::vector<double> in_, left_, size_, out_;
  double held_out_ = 0;
  Phase phase_;
  double phase_left_ = 0;
  bool phase_stale_ = true;
  uint32_t waited_ = 0;

  Direction direction_ = Direction::none;
  uint32_t stream_ = 0;
  double run_now_ = 0;
  double moved_ = 0;
  double io_now_ = 0;
  double computed_now_ = 0;
  double first_moved_ = -1;
  double last_moved_ = 0;
  uint64_t first_switches_ = 0;
  uint64_t last_switches_ = 0;
  uint32_t streamed_ = nobody;  // by the last action: the computation waits for another one, if any

  std::vector<uint64_t> view_in_, view_left_, view_consumed_, view_out_;
  View view_;
  StaircaseRecord stairs_;
  SimulationResult result_;
};

// A block so small that reserving one for each input changes nothing measurable.
uint64_t small_block(const Bowtie& bowtie) {
  const uint64_t fair = bowtie.memory_bytes / (uint64_t{bowtie.inputs} + bowtie.outputs + 4);
  return std::clamp<uint64_t>(fair / 256, 1, 64 * KiB);
}

struct BlockPass {
  double moved_bytes = 0;
  double switches = 0;
};

// Simulates one bowtie of a block-wise merge. It is the same all the time, so the beginning of a
// long one represents the whole.
BlockPass merge_blocks(const BlockMerge& merge, uint32_t fan_in, double bytes) {
  constexpr double blocks_max = 1 << 14;
  const auto block = static_cast<double>(merge.block_bytes);
  const double run_bytes = bytes / fan_in;
  const double simulated =
      std::min(run_bytes, block * std::ceil(std::max(16.0, blocks_max / fan_in)));
  SimulationOptions options;
  options.input_bytes.assign(fan_in, static_cast<uint64_t>(simulated));
  options.outputs = 1;
  BlockScheduler scheduler({.inputs = fan_in,
                            .block_bytes = merge.block_bytes,
                            .write_batch_bytes = merge.write_batch_bytes});
  const auto workload =
      uniform_workload({.inputs = fan_in, .outputs = 1, .seed = merge.seed}, block * fan_in / 4, 8);
  const SimulationResult result = simulate(scheduler, *workload, options);
  PENSTOCK_CHECK(!result.stuck, "a merge by blocks goes on");
  // Each input's first, partial block comes once, the rest repeat.
  const double once = fan_in;
  const double switches = static_cast<double>(result.switches());
  return {2 * bytes, once + (switches - once) * (run_bytes / simulated)};
}

}  // namespace

SimulationResult simulate(Scheduler& scheduler, Workload& workload,
                          const SimulationOptions& options) {
  return Simulation(scheduler, workload, options).run();
}

Result<SimulationResult> simulate(const Schedule& schedule, const BowtieRun& run) {
  const Bowtie& bowtie = schedule.bowtie;
  auto scheduler = StairScheduler::open(schedule, {.block_bytes = small_block(bowtie)});
  if (!scheduler) return std::unexpected(scheduler.error());
  SimulationOptions options;
  options.input_bytes.assign(bowtie.inputs, static_cast<uint64_t>(run.bytes * bowtie.input_share /
                                                                  std::max(1u, bowtie.inputs)));
  options.produced_bytes = static_cast<uint64_t>(run.bytes * (1 - bowtie.input_share));
  options.outputs = bowtie.outputs;
  options.input_share = bowtie.input_share;
  options.device = run.device;
  options.record_staircases = run.record_staircases;
  options.seed = run.seed;
  // Shares change a few times between two visits of a stream.
  const double phase_bytes = run.exact_shares ? 0 : static_cast<double>(bowtie.memory_bytes) / 16;
  const auto workload = uniform_workload(
      {.inputs = bowtie.inputs, .outputs = bowtie.outputs, .seed = run.seed}, phase_bytes, 8);
  return simulate(**scheduler, *workload, options);
}

Result<PlanSimulation> simulate(const Plan& plan, const DeviceProfile& device, uint64_t seed) {
  PlanSimulation all;
  for (const Pass& pass : plan.passes) {
    const auto bowties = static_cast<double>(pass.bowties);
    auto one =
        simulate(pass.schedule, BowtieRun{.bytes = (pass.read_bytes + pass.written_bytes) / bowties,
                                          .seed = seed + all.passes,
                                          .device = &device});
    if (!one) return std::unexpected(one.error());
    PENSTOCK_CHECK(!one->stuck, "a bowtie goes on");
    ++all.passes;
    all.read_bytes += one->read_bytes * bowties;
    all.written_bytes += one->written_bytes * bowties;
    all.switches += static_cast<double>(one->switches()) * bowties;
    all.seconds += one->seconds * bowties;
  }
  return all;
}

BlockMergeResult simulate(const BlockMerge& merge) {
  PENSTOCK_CHECK(merge.runs > 0 && merge.fan_in_max >= 2,
                 "a merge has runs, and more than one fits");
  const auto bytes = static_cast<double>(merge.bytes);
  BlockMergeResult result;
  auto add = [&](uint32_t fan_in, double of_bytes, double times) {
    const BlockPass pass = merge_blocks(merge, fan_in, of_bytes);
    result.moved_bytes += times * pass.moved_bytes;
    result.switches += times * pass.switches;
  };
  if (merge.runs <= merge.fan_in_max) {
    add(merge.runs, bytes, 1);
  } else if (merge.rule == BlockMerge::Rule::equal_passes) {
    const double passes = std::ceil(std::log(merge.runs) / std::log(merge.fan_in_max) - 1e-9);
    const auto k = static_cast<uint32_t>(std::ceil(std::pow(merge.runs, 1 / passes) - 1e-9));
    for (uint32_t files = merge.runs; files > 1;) {
      const uint32_t left = (files + k - 1) / k;
      add(std::min(k, files), bytes / left, left);
      files = left;
    }
  } else {
    // Each merge of F files leaves F - 1 fewer; the first one may be smaller.
    uint32_t files = merge.runs;
    double merged = 0;
    while (files > merge.fan_in_max) {
      const uint32_t fan_in = std::min(merge.fan_in_max, files - merge.fan_in_max + 1);
      const double share = static_cast<double>(fan_in) / merge.runs;
      if (merged + share > 1) {  // all are merged once: the rest is a pass over everything again
        break;
      }
      add(fan_in, bytes * share, 1);
      merged += share;
      files -= fan_in - 1;
    }
    add(std::min(files, merge.fan_in_max), bytes, 1);
  }
  result.passes = result.moved_bytes / (2 * bytes);
  return result;
}

BlockMerge stxxl_merge(uint64_t bytes, uint64_t memory_bytes) {
  BlockMerge merge;
  merge.bytes = bytes;
  merge.runs = static_cast<uint32_t>(std::max<uint64_t>(1, 2 * bytes / memory_bytes));
  merge.block_bytes = 2 * MiB;
  merge.write_batch_bytes = std::max<uint64_t>(merge.block_bytes, memory_bytes / 8);
  merge.fan_in_max = static_cast<uint32_t>(memory_bytes / merge.block_bytes);
  return merge;
}

BlockMerge nsort_like_merge(uint64_t bytes, uint64_t memory_bytes) {
  BlockMerge merge;
  merge.bytes = bytes;
  merge.runs = static_cast<uint32_t>(
      std::ceil(static_cast<double>(bytes) / (0.98 * static_cast<double>(memory_bytes))));
  merge.block_bytes = 1 * MiB;
  merge.write_batch_bytes = std::max<uint64_t>(merge.block_bytes, 3 * memory_bytes / 1024);
  merge.fan_in_max =
      static_cast<uint32_t>((memory_bytes - std::min(memory_bytes / 2, 320 * MiB)) / (16 * MiB));
  merge.rule = BlockMerge::Rule::few_first;
  return merge;
}

}  // namespace penstock::papers
