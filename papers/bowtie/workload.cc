#include "papers/bowtie/workload.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace penstock::papers {
namespace {

constexpr double forever = std::numeric_limits<double>::infinity();

std::vector<double> shares_of(std::vector<double> weights, uint32_t streams) {
  weights.resize(streams, 1.0);
  const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
  for (double& weight : weights) weight /= all;
  return weights;
}

// A standard normal number, by Box and Muller.
double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.unit()));
  return radius * std::cos(2 * 3.14159265358979323846 * random.unit());
}

class Uniform final : public Workload {
 public:
  Uniform(const WorkloadOptions& options, double phase_bytes, double item_bytes)
      : inputs_(shares_of(options.input_weights, options.inputs)),
        outputs_(shares_of(options.output_weights, options.outputs)),
        phase_bytes_(phase_bytes),
        item_bytes_(item_bytes),
        random_(options.seed) {}

  void next(const View&, Phase& phase) override {
    vary(inputs_, phase.inputs);
    vary(outputs_, phase.outputs);
    phase.bytes = phase_bytes_ > 0 ? phase_bytes_ : forever;
  }

 private:
  // Varies shares like counts of k throws: mean k p, variance about k p.
  void vary(const std::vector<double>& shares, std::vector<double>& out) {
    out = shares;
    if (phase_bytes_ <= 0) return;
    const double items = phase_bytes_ / item_bytes_;
    for (double& share : out)
      share = std::max(share / 64, share + std::sqrt(share / items) * normal(random_));
  }

  std::vector<double> inputs_;
  std::vector<double> outputs_;
  double phase_bytes_;
  double item_bytes_;
  Random random_;
};

std::vector<double> zipf(uint32_t streams, double exponent, Random& random) {
  std::vector<double> weights(streams);
  for (uint32_t i = 0; i < streams; ++i) weights[i] = std::pow(i + 1.0, -exponent);
  for (uint32_t i = streams; i > 1; --i) std::swap(weights[i - 1], weights[random.below(i)]);
  return weights;
}

class Bursty final : public Workload {
 public:
  Bursty(const WorkloadOptions& options, double burst_bytes, double burst_share)
      : burst_bytes_(burst_bytes), burst_share_(burst_share), random_(options.seed) {}

  void next(const View&, Phase& phase) override {
    burst(phase.inputs);
    burst(phase.outputs);
    phase.bytes = std::max(1.0, -burst_bytes_ * std::log(1 - random_.unit()));
  }

 private:
  void burst(std::vector<double>& shares) {
    if (shares.empty()) return;
    std::fill(shares.begin(), shares.end(),
              (1 - burst_share_) / static_cast<double>(shares.size()));
    shares[random_.below(shares.size())] += burst_share_;
  }

  double burst_bytes_;
  double burst_share_;
  Random random_;
};

class SortedRuns final : public Workload {
 public:
  SortedRuns(const WorkloadOptions& options, double output_bytes) : output_bytes_(output_bytes) {
    Random random(options.seed);
    order_.resize(options.inputs);
    std::iota(order_.begin(), order_.end(), 0);
    for (uint32_t i = options.inputs; i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
  }

  void next(const View& view, Phase& phase) override {
    std::fill(phase.inputs.begin(), phase.inputs.end(), 0.0);
    for (uint32_t input : order_) {
      if (view.input_bytes[input] + view.input_left_bytes[input] == 0) continue;
      phase.inputs[input] = 1;
      break;
    }
    std::fill(phase.outputs.begin(), phase.outputs.end(), 0.0);
    if (!phase.outputs.empty()) phase.outputs[output_++ % phase.outputs.size()] = 1;
    phase.bytes = output_bytes_;
  }

 private:
  double output_bytes_;
  std::vector<uint32_t> order_;
  size_t output_ = 0;
};

}  // namespace

std::unique_ptr<Workload> uniform_workload(const WorkloadOptions& options, double phase_bytes,
                                           double item_bytes) {
  return std::make_unique<Uniform>(options, phase_bytes, item_bytes);
}

std::unique_ptr<Workload> skewed_workload(const WorkloadOptions& options, double exponent) {
  Random random(options.seed);
  WorkloadOptions weighted = options;
  weighted.input_weights = zipf(options.inputs, exponent, random);
  weighted.output_weights = zipf(options.outputs, exponent, random);
  return std::make_unique<Uniform>(weighted, 0, 1);
}

std::unique_ptr<Workload> bursty_workload(const WorkloadOptions& options, double burst_bytes,
                                          double burst_share) {
  return std::make_unique<Bursty>(options, burst_bytes, burst_share);
}

std::unique_ptr<Workload> sorted_runs_workload(const WorkloadOptions& options,
                                               double output_bytes) {
  return std::make_unique<SortedRuns>(options, output_bytes);
}

}  // namespace penstock::papers
