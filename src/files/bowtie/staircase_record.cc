#include "files/bowtie/staircase_record.h"

#include <algorithm>
#include <functional>

#include "base/check.h"

namespace penstock::bowtie {

void MeasuredStairs::add(const MeasuredStairs& other) {
  if (other.steps == 0) return;
  if (steps == 0) {
    *this = other;
    return;
  }
  PENSTOCK_CHECK(bytes.size() == other.bytes.size(), "staircases of as many streams");
  const auto weight = static_cast<double>(steps), others = static_cast<double>(other.steps);
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = (bytes[i] * weight + other.bytes[i] * others) / (weight + others);
  steps += other.steps;
}

void StaircaseRecord::note(const View& view, const Action& action, bool counts) {
  const bool writes = action.kind == Action::Kind::write &&
                      (action.overlapped || last_kind_ != Action::Kind::write);
  const bool filled =
      action.kind == Action::Kind::read ? action.overlapped : last_kind_ == Action::Kind::read;
  if (counts && writes) output_.add(view.output_bytes);
  if (counts && filled) input_.add(view.input_bytes);
  last_kind_ = action.kind;
}

void StaircaseRecord::Sums::add(std::span<const uint64_t> levels) {
  sorted.assign(levels.begin(), levels.end());
  std::ranges::sort(sorted, std::greater<>());
  bytes.resize(sorted.size());
  for (size_t i = 0; i < sorted.size(); ++i) bytes[i] += static_cast<double>(sorted[i]);
  ++steps;
}

MeasuredStairs StaircaseRecord::Sums::mean() const {
  MeasuredStairs mean{.bytes = bytes, .steps = steps};
  for (double& each : mean.bytes) each /= static_cast<double>(steps);
  return mean;
}

}  // namespace penstock::bowtie
