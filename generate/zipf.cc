#include "generate/zipf.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"

namespace penstock::generate {
namespace {

constexpr uint64_t head_max = (1u << 14) - 1;

uint64_t threshold_of(double probability) {
  return probability >= 1 ? ~uint64_t{0} : static_cast<uint64_t>(probability * 0x1p64);
}

}  // namespace

Zipf::Zipf(double exponent, uint64_t ranks)
    : exponent_(std::abs(exponent - 1) < 1e-7 ? 1 : exponent),
      ranks_(ranks),
      head_(std::min(ranks, head_max)) {
  PENSTOCK_CHECK(exponent >= 0 && ranks > 0,
                 "Zipf's law needs ranks and an exponent of at least 0");
  std::vector<double> weights(head_);
  for (uint64_t i = 0; i < head_; ++i)
    weights[i] = std::pow(static_cast<double>(i + 1), -exponent_);
  if (ranks_ > head_) {
    tail_begin_ = integral(static_cast<double>(head_) + 0.5);
    tail_end_ = integral(static_cast<double>(ranks_) + 0.5);
    weights.push_back(tail_end_ - tail_begin_);
  }
  build(std::move(weights));
}

// Builds Walker's alias table by Vose's method: heavier entries fill up the lighter ones.
void Zipf::build(std::vector<double> weights) {
  const double mean =
      std::accumulate(weights.rbegin(), weights.rend(), 0.0) / static_cast<double>(weights.size());
  std::vector<uint32_t> light, heavy;
  for (uint32_t i = 0; i < weights.size(); ++i) {
    weights[i] /= mean;
    (weights[i] < 1 ? light : heavy).push_back(i);
  }
  entries_.resize(weights.size());
  while (!light.empty() && !heavy.empty()) {
    const uint32_t small = light.back(), large = heavy.back();
    light.pop_back();
    entries_[small] = {threshold_of(weights[small]), large};
    weights[large] -= 1 - weights[small];
    if (weights[large] < 1) {
      heavy.pop_back();
      light.push_back(large);
    }
  }
  for (const auto* rest : {&light, &heavy}) {
    for (const uint32_t i : *rest) entries_[i] = {threshold_of(1), i};
  }
}

uint64_t Zipf::rank(uint64_t random) const {
  const __uint128_t product = static_cast<__uint128_t>(random) * entries_.size();
  const auto drawn = static_cast<uint64_t>(product >> 64);
  const auto rest = static_cast<uint64_t>(product);
  const uint64_t index = rest < entries_[drawn].threshold ? drawn : entries_[drawn].alias;
  if (index < head_) return index + 1;
  return tail_rank(static_cast<double>(mix64(random) >> 11) * 0x1p-53);
}

uint64_t Zipf::tail_rank(double unit) const {
  const double rank = std::round(inverse(tail_begin_ + unit * (tail_end_ - tail_begin_)));
  return std::clamp(static_cast<uint64_t>(rank), head_ + 1, ranks_);
}

double Zipf::integral(double x) const {
  return exponent_ == 1 ? std::log(x) : std::pow(x, 1 - exponent_) / (1 - exponent_);
}

double Zipf::inverse(double y) const {
  return exponent_ == 1 ? std::exp(y) : std::pow((1 - exponent_) * y, 1 / (1 - exponent_));
}

}  // namespace penstock::generate
