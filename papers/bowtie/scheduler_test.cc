// Test labels: slow-threads, loops

#include "files/bowtie/scheduler.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "papers/bowtie/schedulers.h"
#include "papers/bowtie/simulator.h"
#include "penstock/base.h"

namespace penstock::papers {
namespace {

// --- Adversaries: all bytes go to the stream that hurts most. ---

enum class Spite { emptiest, fullest, one_after_the_other, last_loaded };

class Adversary final : public Workload {
 public:
  Adversary(Spite spite, double phase_bytes, uint64_t seed)
      : spite_(spite), phase_bytes_(phase_bytes), random_(seed) {}

  void next(const View& view, Phase& phase) override {
    std::fill(phase.inputs.begin(), phase.inputs.end(), 0.0);
    std::fill(phase.outputs.begin(), phase.outputs.end(), 0.0);
    if (!phase.inputs.empty()) phase.inputs[pick(view)] = 1;
    // For outputs it is worst that all grow alike, then one alone.
    if (!phase.outputs.empty()) phase.outputs[random_.below(phase.outputs.size())] = 1;
    phase.bytes = phase_bytes_ * (0.1 + random_.unit());
  }

 private:
  size_t pick(const View& view) {
    size_t best = view.input_bytes.size();
    for (size_t i = 0; i < view.input_bytes.size(); ++i) {
      if (view.input_bytes[i] + view.input_left_bytes[i] == 0) continue;
      if (best == view.input_bytes.size() || better(view, i, best)) best = i;
    }
    last_ = best;
    return best == view.input_bytes.size() ? 0 : best;
  }
  bool better(const View& view, size_t i, size_t best) {
    switch (spite_) {
      case Spite::emptiest:
        return view.input_bytes[i] < view.input_bytes[best];
      case Spite::fullest:
        return view.input_bytes[i] > view.input_bytes[best];
      case Spite::one_after_the_other:
        return (i + 1000 - last_) % 1000 < (best + 1000 - last_) % 1000 && i != last_;
      case Spite::last_loaded:
        return view.input_left_bytes[i] < view.input_left_bytes[best];
    }
    return false;
  }

  Spite spite_;
  double phase_bytes_;
  size_t last_ = 0;
  Random random_;
};

struct Case {
  Schedule schedule;
  SimulationOptions options;
};

Case random_case(Random& random) {
  Case made;
  Bowtie b{.inputs = static_cast<uint32_t>(random.below(12)),
           .outputs = static_cast<uint32_t>(random.below(12)),
           .input_share = 0.1 + 0.8 * random.unit(),
           .memory_bytes = 0};
  if (b.inputs + b.outputs == 0) b.outputs = 1;
  // From hardly enough to plenty, in blocks of 1000.
  b.memory_bytes = 1000 * (b.inputs + 3 + random.below(100));
  if (b.inputs == 0 || b.outputs == 0) {
    made.schedule = best_schedule(b);
  } else {
    const Groups groups{static_cast<uint32_t>(random.below(b.inputs) + 1),
                        static_cast<uint32_t>(random.below(b.outputs) + 1)};
    const uint64_t which = random.below(4);
    made.schedule = which == 0   ? schedule_with(b, Algorithm::a5, groups)
                    : which == 1 ? schedule_with(b, Algorithm::a6r, {1, groups.outputs})
                    : which == 2 ? schedule_with(b, Algorithm::a6w, {groups.inputs, 1})
                                 : best_schedule(b);
  }
  made.options.outputs = b.outputs;
  made.options.input_share = b.input_share;
  made.options.produced_bytes = random.below(3'000'000);
  for (uint32_t i = 0; i < b.inputs; ++i) {
    const uint64_t kind = random.below(6);  // empty ones, tiny ones, a giant
    made.options.input_bytes.push_back(kind == 0   ? 0
                                       : kind == 1 ? random.below(20)
                                       : kind == 2 ? random.below(3'000'000)
                                                   : random.below(300'000));
  }
  return made;
}

void expect_complete(const SimulationResult& result, const Case& made, const Layout& layout,
                     const std::string& what) {
  const SimulationOptions& options = made.options;
  const uint64_t input =
      std::accumulate(options.input_bytes.begin(), options.input_bytes.end(), uint64_t{0});
  const double output =
      options.outputs == 0 ? 0
      : options.input_bytes.empty()
          ? static_cast<double>(options.produced_bytes)
          : static_cast<double>(input) * (1 - options.input_share) / options.input_share;
  ASSERT_FALSE(result.stuck) << what;
  // The simulator drops fractions of a byte.
  const double slack = 20.0 + static_cast<double>(result.actions);
  ASSERT_NEAR(result.read_bytes, static_cast<double>(input), slack) << what;
  ASSERT_NEAR(result.written_bytes, output, slack / options.input_share) << what;
  ASSERT_LE(result.input_bytes_peak, layout.input_memory_bytes + options.input_bytes.size())
      << what;
  ASSERT_LE(result.output_bytes_peak, layout.output_memory_bytes + 1) << what;
}

TEST(StairScheduler, NoDrainDeadlocksIt) {
  for (uint64_t seed = 1; seed <= 1500; ++seed) {
    Random random(seed);
    Case made = random_case(random);
    auto scheduler = StairScheduler::open(made.schedule, {.block_bytes = 1000});
    ASSERT_TRUE(scheduler.has_value()) << "seed " << seed;
    const double phase = 100 + static_cast<double>(random.below(200'000));
    const WorkloadOptions streams{.inputs = made.schedule.bowtie.inputs,
                                  .outputs = made.schedule.bowtie.outputs,
                                  .seed = seed};
    std::unique_ptr<Workload> workload;
    const uint64_t kind = random.below(8);
    if (kind < 4) {
      workload = std::make_unique<Adversary>(static_cast<Spite>(kind), phase, seed);
    } else if (kind == 4) {
      workload = bursty_workload(streams, phase, 0.95);
    } else if (kind == 5) {
      workload = sorted_runs_workload(streams, phase);
    } else if (kind == 6) {
      workload = skewed_workload(streams, 1.5);
    } else {
      workload = uniform_workload(streams, phase, 8);
    }
    const SimulationResult result = simulate(**scheduler, *workload, made.options);
    expect_complete(
        result, made, (*scheduler)->layout(),
        fmt::format("seed {}: {} {} x {}, workload {}", seed, name_of(made.schedule.algorithm),
                    made.schedule.bowtie.inputs, made.schedule.bowtie.outputs, kind));
    if (HasFatalFailure()) return;
  }
}

// Checks the invariant of input_stairs.h at every action.
TEST(StairScheduler, EveryInputCanAlwaysHaveABlock) {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    Random random(seed + 10'000);
    Case made = random_case(random);
    auto scheduler = StairScheduler::open(made.schedule, {.block_bytes = 1000});
    ASSERT_TRUE(scheduler.has_value());
    const uint64_t memory = (*scheduler)->layout().input_memory_bytes;
    made.options.observe = [&](const View& view, const Action&) {
      uint64_t counted = 0;
      for (size_t i = 0; i < view.input_bytes.size(); ++i) {
        const uint64_t reserved =
            std::min<uint64_t>(1000, view.input_bytes[i] + view.input_left_bytes[i]);
        counted += std::max(view.input_bytes[i], reserved);
      }
      ASSERT_LE(counted, memory + view.input_bytes.size()) << "seed " << seed;
    };
    Adversary workload(static_cast<Spite>(seed % 4), 50'000, seed);
    (void)simulate(**scheduler, workload, made.options);
    if (HasFatalFailure()) return;
  }
}

TEST(StairScheduler, TooLittleMemoryIsAnError) {
  const Schedule schedule = best_schedule({.inputs = 10, .outputs = 3, .memory_bytes = 13'000});
  EXPECT_TRUE(StairScheduler::open(schedule, {.block_bytes = 1000}).has_value());
  EXPECT_FALSE(StairScheduler::open(schedule, {.block_bytes = 1001}).has_value());
  EXPECT_FALSE(StairScheduler::open(schedule, {.block_bytes = 0}).has_value());
}

TEST(StairScheduler, OneStreamIsOneRun) {
  for (Bowtie b : {Bowtie{.inputs = 1, .memory_bytes = MiB}, {.outputs = 1, .memory_bytes = MiB}}) {
    const auto result = simulate(best_schedule(b), BowtieRun{.bytes = 1e9});
    ASSERT_TRUE(result.has_value());
    EXPECT_EQ(result->switches(), 1u);
  }
}

TEST(StairScheduler, NothingToReadNothingToWrite) {
  for (auto [n, m] : {std::pair{3u, 2u}, {1u, 0u}, {0u, 1u}, {1u, 1u}}) {
    auto scheduler =
        StairScheduler::open(best_schedule({.inputs = n, .outputs = m, .memory_bytes = MiB}));
    ASSERT_TRUE(scheduler.has_value());
    SimulationOptions options;
    options.input_bytes.assign(n, 0);
    options.outputs = m;
    auto workload = uniform_workload({.inputs = n, .outputs = m}, 0, 8);
    const SimulationResult result = simulate(**scheduler, *workload, options);
    EXPECT_EQ(result.switches(), 0u);
    EXPECT_FALSE(result.stuck);
  }
}

// A uniform workload, but for a while at the beginning an adversary drains the fullest bucket until
// all are alike: the state of which section III.C warns.
class LevelledThenUniform final : public Workload {
 public:
  LevelledThenUniform(uint32_t streams, double levelled_bytes)
      : adversary_(Spite::fullest, levelled_bytes / 500, 1),
        uniform_(uniform_workload({.inputs = streams}, levelled_bytes / 50, 8)),
        left_(levelled_bytes) {}
  void next(const View& view, Phase& phase) override {
    (left_ > 0 ? static_cast<Workload&>(adversary_) : *uniform_).next(view, phase);
    left_ -= phase.bytes;
  }

 private:
  Adversary adversary_;
  std::unique_ptr<Workload> uniform_;
  double left_;
};

TEST(StairScheduler, TheStaircaseStandsAgainAfterAnAdversary) {
  for (uint32_t n : {3u, 8u, 40u}) {
    const Bowtie b{.inputs = n, .memory_bytes = GiB};
    const Schedule schedule = best_schedule(b);
    SimulationOptions options;
    options.input_bytes.assign(n, 60 * GiB / n * 3);
    auto run_length_of_theory = [&](Scheduler& scheduler) {
      LevelledThenUniform workload(n, 10.0 * GiB);
      const SimulationResult result = simulate(scheduler, workload, options);
      EXPECT_FALSE(result.stuck);
      return result.steady_run_bytes / run_bytes_a3(b);
    };
    auto scheduler = StairScheduler::open(schedule, {.block_bytes = KiB});
    ASSERT_TRUE(scheduler.has_value());
    EXPECT_GT(run_length_of_theory(**scheduler), 0.98) << n;
    // "Fill the memory" never recovers.
    FillingScheduler filling({.inputs = n, .memory_bytes = b.memory_bytes, .block_bytes = KiB});
    const double filled = run_length_of_theory(filling);
    EXPECT_LT(filled, 0.9) << n;
    EXPECT_GT(filled, 0.2) << n;
  }
}

// Files of different sizes drain in proportion, and are loaded so: the staircase is one of time.
TEST(StairScheduler, UnequalInputsRunAsLongAsTheirSharesAllow) {
  const uint32_t n = 20;
  std::vector<double> weights(n);
  for (uint32_t i = 0; i < n; ++i) weights[i] = 1 + i % 4;
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  double squares = 0;
  SimulationOptions options;
  for (double weight : weights) {
    squares += weight * weight / all / all;
    options.input_bytes.push_back(static_cast<uint64_t>(weight * 10.0 * GiB));
  }
  const Bowtie b{.inputs = n, .memory_bytes = GiB};
  auto scheduler = StairScheduler::open(best_schedule(b), {.block_bytes = KiB});
  ASSERT_TRUE(scheduler.has_value());
  auto workload = uniform_workload({.inputs = n, .input_weights = weights}, GiB / 16.0, 8);
  const SimulationResult result = simulate(**scheduler, *workload, options);
  // A round of D bytes visits each once: M = D (1 - sum r^2) / 2.
  EXPECT_NEAR(result.steady_run_bytes / (2.0 * GiB / (1 - squares) / n), 1, 0.02);
}

// --- A driver with items, blocks and a computation of finite speed. ---

struct Item {
  uint32_t key;
};
constexpr uint64_t item_bytes = sizeof(uint32_t);

// Merges sorted inputs and deals the items to outputs by a hash of the key.
class ItemDriver {
 public:
  ItemDriver(std::vector<std::vector<uint32_t>> inputs, uint32_t outputs, uint64_t block_bytes,
             uint64_t items_per_block, bool sizes_known)
      : files_(std::move(inputs)),
        read_(files_.size()),
        used_(files_.size()),
        buckets_(outputs),
        written(outputs),
        block_items_(block_bytes / item_bytes),
        speed_(items_per_block),
        sizes_known_(sizes_known) {}

  void run(Scheduler& scheduler) {
    memory_out_ = scheduler.layout().output_memory_bytes;
    memory_in_ = scheduler.layout().input_memory_bytes;
    for (uint64_t step = 0;; ++step) {
      ASSERT_LT(step, 1'000'000u) << "it goes on for ever";
      refresh();
      const Action action = scheduler.next(view_);
      if (action.kind == Action::Kind::finish) return;
      if (action.kind == Action::Kind::compute) compute(~uint64_t{0});
      if (action.kind == Action::Kind::read) read(action);
      if (action.kind == Action::Kind::write) write(action);
      uint64_t held = 0;
      for (size_t i = 0; i < files_.size(); ++i) held += (read_[i] - used_[i]) * item_bytes;
      ASSERT_LE(held, memory_in_);
    }
  }

 private:
  Stall stall(uint32_t* input) const {
    bool anything = false;
    for (uint32_t i = 0; i < files_.size(); ++i) {
      anything |= used_[i] < files_[i].size();
      if (read_[i] == used_[i] && read_[i] < files_[i].size()) {
        *input = i;
        return Stall::input;
      }
    }
    if (!anything) return Stall::finished;
    if (!buckets_.empty() && held_out_ + item_bytes > memory_out_) return Stall::outputs;
    return Stall::none;
  }

  void compute(uint64_t items) {
    uint32_t input = 0;
    while (items-- > 0 && stall(&input) == Stall::none) {
      size_t least = files_.size();
      for (size_t i = 0; i < files_.size(); ++i) {
        if (used_[i] == files_[i].size()) continue;
        if (least == files_.size() || files_[i][used_[i]] < files_[least][used_[least]]) least = i;
      }
      const uint32_t key = files_[least][used_[least]++];
      if (buckets_.empty()) {
        consumed.push_back(key);
        continue;
      }
      buckets_[mix64(key) % buckets_.size()].push_back(key);
      held_out_ += item_bytes;
    }
  }

  void read(const Action& action) {
    const uint32_t i = action.stream;
    auto block = [&](uint64_t most) {
      const uint64_t items = std::min<uint64_t>(most, files_[i].size() - read_[i]);
      read_[i] += items;
    };
    if (!action.overlapped) {
      // Whole blocks, but at least something.
      const uint64_t items = action.bytes / item_bytes;
      block(std::max<uint64_t>(items / block_items_ * block_items_, std::min(items, block_items_)));
      ASSERT_GT(items, 0u) << "a read of nothing";
      return;
    }
    uint32_t waited = i;
    Stall why = stall(&waited);
    while (read_[i] < files_[i].size() &&
           (why == Stall::none || (why == Stall::input && waited == i))) {
      const uint64_t next = std::min<uint64_t>(block_items_, files_[i].size() - read_[i]);
      if ((read_[i] - used_[i] + next) * item_bytes <= action.bytes) block(next);
      compute(speed_);
      why = stall(&waited);
    }
  }

  void write(const Action& action) {
    const uint32_t j = action.stream;
    auto block = [&](uint64_t most) {
      const uint64_t items = std::min<uint64_t>(most, buckets_[j].size());
      written[j].insert(written[j].end(), buckets_[j].begin(),
                        buckets_[j].begin() + static_cast<ptrdiff_t>(items));
      buckets_[j].erase(buckets_[j].begin(), buckets_[j].begin() + static_cast<ptrdiff_t>(items));
      held_out_ -= items * item_bytes;
    };
    if (!action.overlapped) return block(action.bytes / item_bytes);
    uint32_t waited = 0;
    for (;;) {
      if (!action.stay && buckets_[j].empty()) return;
      block(block_items_);
      compute(speed_);
      const Stall why = stall(&waited);
      if (why == Stall::input || why == Stall::finished) return;
    }
  }

  void refresh() {
    in_.resize(files_.size());
    left_.resize(files_.size());
    consumed_.resize(files_.size());
    out_.resize(buckets_.size());
    for (size_t i = 0; i < files_.size(); ++i) {
      in_[i] = (read_[i] - used_[i]) * item_bytes;
      const uint64_t left = (files_[i].size() - read_[i]) * item_bytes;
      left_[i] = left == 0 || sizes_known_ ? left : unknown_bytes;
      consumed_[i] = used_[i] * item_bytes;
    }
    for (size_t j = 0; j < buckets_.size(); ++j) out_[j] = buckets_[j].size() * item_bytes;
    view_ = {in_, left_, consumed_, out_, Stall::none, 0};
    view_.stall = stall(&view_.stalled_input);
  }

  std::vector<std::vector<uint32_t>> files_;
  std::vector<size_t> read_, used_;
  std::vector<std::vector<uint32_t>> buckets_;

 public:
  std::vector<std::vector<uint32_t>> written;
  std::vector<uint32_t> consumed;

 private:
  uint64_t block_items_;
  uint64_t speed_;
  bool sizes_known_;
  uint64_t memory_in_ = 0;
  uint64_t memory_out_ = 0;
  uint64_t held_out_ = 0;
  std::vector<uint64_t> in_, left_, consumed_, out_;
  View view_;
};

TEST(StairScheduler, DrivesAMergeOfItemsAtAnySpeed) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    Case made = random_case(random);
    if (made.schedule.bowtie.inputs == 0) continue;
    SCOPED_TRACE(fmt::format("seed {}: {} {} x {}", seed, name_of(made.schedule.algorithm),
                             made.schedule.bowtie.inputs, made.schedule.bowtie.outputs));
    std::vector<std::vector<uint32_t>> inputs(made.schedule.bowtie.inputs);
    std::vector<uint32_t> all;
    const bool runs = random.below(3) == 0;  // one input after the other
    for (size_t i = 0; i < inputs.size(); ++i) {
      inputs[i].resize(random.below(5) == 0 ? 0 : random.below(8000));
      for (uint32_t& key : inputs[i]) {
        key = static_cast<uint32_t>(random.below(1u << 20)) +
              (runs ? static_cast<uint32_t>(i) << 20 : 0);
      }
      std::sort(inputs[i].begin(), inputs[i].end());
      all.insert(all.end(), inputs[i].begin(), inputs[i].end());
    }
    std::sort(all.begin(), all.end());
    auto scheduler = StairScheduler::open(made.schedule, {.block_bytes = 1000});
    ASSERT_TRUE(scheduler.has_value());
    const uint64_t speeds[] = {1, 100, 250, 3000, ~uint64_t{0}};
    ItemDriver driver(inputs, made.schedule.bowtie.outputs, 1000, speeds[random.below(5)],
                      random.below(3) != 0);
    driver.run(**scheduler);
    if (HasFatalFailure()) return;
    if (made.schedule.bowtie.outputs == 0) {
      ASSERT_EQ(driver.consumed, all);
      continue;
    }
    std::vector<uint32_t> gathered;
    for (const auto& output : driver.written) {
      ASSERT_TRUE(std::is_sorted(output.begin(), output.end()));
      gathered.insert(gathered.end(), output.begin(), output.end());
    }
    std::sort(gathered.begin(), gathered.end());
    ASSERT_EQ(gathered, all);
  }
}

TEST(BlockScheduler, ReadsABlockAtATime) {
  SimulationOptions options;
  options.input_bytes.assign(16, 64 * MiB);
  options.outputs = 1;
  BlockScheduler scheduler({.inputs = 16, .block_bytes = MiB, .write_batch_bytes = 32 * MiB});
  auto workload = uniform_workload({.inputs = 16, .outputs = 1}, 4.0 * MiB, 8);
  const SimulationResult result = simulate(scheduler, *workload, options);
  EXPECT_FALSE(result.stuck);
  // Every block comes from another input, except by chance, and a part of one of each at the
  // beginning; 1 GiB is written 32 MiB at a time.
  EXPECT_GE(result.read_switches, 1000u);
  EXPECT_LE(result.read_switches, 1024u + 16);
  EXPECT_EQ(result.write_switches, 32u);
  EXPECT_DOUBLE_EQ(result.read_bytes, 1024.0 * MiB);
}

}  // namespace
}  // namespace penstock::papers
