#include "files/bowtie/device_measurement.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/random.h"
#include "base/seconds.h"
#include "files/bowtie/model.h"

namespace penstock::bowtie {
namespace {

using io::Operation;

// Quantile of the normal distribution, two-sided: 0.5 % lie outside.
constexpr double normal_quantile = 2.807034;
constexpr uint32_t freedom_min = 3;
constexpr uint64_t visits_min = 8;
constexpr size_t run_lengths_min = 3;

// Quantile of Student's distribution at the same level, by its expansion about the normal one in
// powers of one over the degrees of freedom. With three degrees it is 1.5 % too small, with more it
// is exact enough.
// enough.
double student_quantile(double freedom) {
  const double z = normal_quantile;
  const double z2 = z * z;
  const double terms[] = {
      z,
      z * (z2 + 1) / 4,
      z * ((5 * z2 + 16) * z2 + 3) / 96,
      z * (((3 * z2 + 19) * z2 + 17) * z2 - 15) / 384,
      z * ((((79 * z2 + 776) * z2 + 1482) * z2 - 1920) * z2 - 945) / 92160,
  };
  double quantile = 0;
  double power = 1;
  for (double term : terms) {
    quantile += term * power;
    power /= freedom;
  }
  return quantile;
}

// Lines with a common slope, one per repetition.
class Lines {
 public:
  explicit Lines(std::span<const DelaySample> samples) : samples_(samples) {
    for (const DelaySample& sample : samples) lines_[sample.repetition];
  }

  size_t count() const { return lines_.size(); }

  // Fits by weighted least squares: within each line, x and y are taken relative to their weighted
  // means, which removes the intercepts.
  void fit(const std::vector<double>& weights) {
    for (auto& [repetition, line] : lines_) line = {};
    for (size_t i = 0; i < samples_.size(); ++i) {
      Line& line = lines_[samples_[i].repetition];
      line.weight += weights[i];
      line.x += weights[i] * x(i);
      line.y += weights[i] * y(i);
    }
    for (auto& [repetition, line] : lines_) line.x /= line.weight, line.y /= line.weight;
    spread_ = 0;
    double together = 0;
    for (size_t i = 0; i < samples_.size(); ++i) {
      const Line& line = lines_[samples_[i].repetition];
      spread_ += weights[i] * (x(i) - line.x) * (x(i) - line.x);
      together += weights[i] * (x(i) - line.x) * (y(i) - line.y);
    }
    slope_ = together / spread_;
  }

  double x(size_t i) const { return 1.0 / static_cast<double>(samples_[i].run_bytes); }
  double y(size_t i) const { return samples_[i].seconds_per_byte; }
  double predicted(size_t i) const {
    const Line& line = lines_.at(samples_[i].repetition);
    return line.y + slope_ * (x(i) - line.x);
  }
  double slope() const { return slope_; }
  double spread() const { return spread_; }
  double mean_intercept() const {
    double sum = 0;
    for (const auto& [repetition, line] : lines_) sum += line.y - slope_ * line.x;
    return sum / static_cast<double>(lines_.size());
  }

 private:
  struct Line {
    double weight = 0;
    double x = 0;
    double y = 0;
  };
  std::span<const DelaySample> samples_;
  std::map<uint32_t, Line> lines_;
  double slope_ = 0;
  double spread_ = 0;
};

}  // namespace

Result<DelayFit> fit_delay(std::span<const DelaySample> samples) {
  const char* attempted = "fit a switch delay";
  std::vector<double> weights;
  for (const DelaySample& sample : samples) {
    if (sample.run_bytes == 0 || !(sample.seconds_per_byte > 0)) {
      return failure(ErrorCode::invalid_argument, attempted, "samples", "times above zero");
    }
    weights.push_back(1 / (sample.seconds_per_byte * sample.seconds_per_byte));
  }
  Lines lines(samples);
  if (samples.size() < lines.count() + 1 + freedom_min) {
    return failure(ErrorCode::invalid_argument, attempted, "samples", "more of them");
  }
  lines.fit(weights);
  if (!(lines.spread() > 0)) {
    return failure(ErrorCode::invalid_argument, attempted, "samples", "several run lengths");
  }
  // Weights from measured values favour samples that were fast by chance. So the weights come from
  // the line, and the line is fitted again with them; this converges at once.
  for (int again = 0; again < 3; ++again) {
    for (size_t i = 0; i < samples.size(); ++i) {
      const double expected = std::max(lines.predicted(i), lines.y(i) / 10);
      weights[i] = 1 / (expected * expected);
    }
    lines.fit(weights);
  }

  double squares = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    const double off = lines.y(i) - lines.predicted(i);
    squares += weights[i] * off * off;
  }
  const auto freedom = static_cast<double>(samples.size() - lines.count() - 1);
  const double variance = squares / freedom;
  const double reach = student_quantile(freedom) * std::sqrt(variance / lines.spread());
  return DelayFit{.seconds = lines.slope(),
                  .low_seconds = lines.slope() - reach,
                  .high_seconds = lines.slope() + reach,
                  .seconds_per_byte = lines.mean_intercept(),
                  .error = std::sqrt(variance)};
}

MeasurementPlan MeasurementPlan::full() {
  return {.checks = {{.inputs = 3, .outputs = 5, .run_bytes = 3},
                     {.inputs = 24, .outputs = 1, .run_bytes = 6},
                     {.inputs = 1, .outputs = 48, .run_bytes = 3},
                     {.inputs = 24, .outputs = 40, .run_bytes = 12}}};
}

MeasurementPlan MeasurementPlan::quick() {
  return {.streams = {1, 8},
          .run_requests = {1, 2, 4, 8},
          .checks = {{.inputs = 3, .outputs = 5, .run_bytes = 3}},
          .repetitions = 4,
          .sample_seconds = 0.06};
}

bool Measurement::any_delay() const {
  return std::any_of(shapes.begin(), shapes.end(),
                     [](const Shape& shape) { return shape.fit.significant(); });
}

DeviceProfile Measurement::profile(std::string name, std::string source) const {
  DeviceProfile profile{.name = std::move(name),
                        .source = std::move(source),
                        .read_bytes_per_s = read_bytes_per_s,
                        .write_bytes_per_s = write_bytes_per_s};
  if (!any_delay()) return profile;
  // The shapes are all pairs of the plan's numbers of streams, sorted by inputs.
  std::vector<uint32_t> inputs, outputs;
  std::vector<double> delays;
  for (const Shape& shape : shapes) {
    if (inputs.empty() || inputs.back() != shape.inputs) inputs.push_back(shape.inputs);
    if (inputs.size() == 1) outputs.push_back(shape.outputs);
    delays.push_back(shape.fit.usable_seconds());
  }
  auto table = SwitchDelay::table(std::move(inputs), std::move(outputs), std::move(delays));
  PENSTOCK_CHECK(table.has_value(), "the shapes that were measured are a table");
  profile.switch_seconds = std::move(*table);
  return profile;
}

namespace {

// The experiment: which patterns run how often and in which order, and their results.
class Experiment {
 public:
  Experiment(MeasuredDevice& device, const MeasurementPlan& plan, const std::atomic<bool>* cancel,
             const std::function<void(const MeasurementProgress&)>& progress)
      : device_(device), plan_(plan), cancel_(cancel), progress_(progress), random_(plan.seed) {}

  Status choose_patterns();
  Status fill();
  Status rehearse();
  Status repeat();
  Result<Measurement> evaluate();

 private:
  struct Job {
    Pattern pattern;
    bool check = false;
    std::vector<double> seconds_per_byte;  // one for each repetition
  };
  struct Sweep {
    uint64_t bytes = 0;
    double seconds = 0;
    double bytes_per_s() const { return static_cast<double>(bytes) / seconds; }
  };
  struct Zone {
    double first_write_bytes_per_s = 0;
    Sweep write;
    Sweep read;
  };

  Status run(Job& job);
  Status scan(unsigned zone, Operation operation);
  // The zones that a repetition scans. All zones get scanned, for any numbers of both.
  std::vector<unsigned> zones_of(uint32_t repetition) const;
  uint64_t bytes_of(const Job& job) const { return job.pattern.visits * job.pattern.run_bytes; }
  void count(uint64_t bytes, double read_share);
  void report_progress(const char* phase) {
    phase_ = phase;
    if (progress_) progress_({phase, done_bytes_, total_bytes_});
  }
  Status check_cancel() const {
    // Relaxed: the flag publishes no other data.
    if (cancel_ == nullptr || !cancel_->load(std::memory_order_relaxed)) return {};
    return failure(ErrorCode::interrupted, "measure the disk");
  }

  MeasuredDevice& device_;
  const MeasurementPlan& plan_;
  const std::atomic<bool>* cancel_;
  const std::function<void(const MeasurementProgress&)>& progress_;
  Random random_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::vector<Job> jobs_;
  std::vector<Zone> zones_;
  const char* phase_ = "";
  uint64_t done_bytes_ = 0;
  uint64_t total_bytes_ = 0;  // 0 until the rehearsal
  double bytes_read_ = 0;
  double bytes_written_ = 0;
};

uint64_t visits_of_periods(const Pattern& pattern, uint64_t visits) {
  const uint64_t period = pattern.period();
  return (std::max(visits, visits_min) + period - 1) / period * period;
}

Status Experiment::choose_patterns() {
  const uint64_t request_bytes = device_.request_bytes();
  for (uint32_t inputs : plan_.streams) {
    for (uint32_t outputs : plan_.streams) {
      size_t lengths = 0;
      for (uint64_t requests : plan_.run_requests) {
        const uint64_t run_bytes = requests * request_bytes;
        if (run_bytes > device_.stream_bytes(inputs + outputs)) continue;
        ++lengths;
        jobs_.push_back({{inputs, outputs, run_bytes, 0}, false, {}});
      }
      if (lengths < run_lengths_min) {
        return failure(ErrorCode::invalid_argument,
                       fmt::format("measure {} streams with {} run lengths", inputs + outputs,
                                   run_lengths_min),
                       "files of this size", "larger files");
      }
    }
  }
  for (Pattern pattern : plan_.checks) {
    pattern.run_bytes *= request_bytes;
    if (pattern.run_bytes > device_.stream_bytes(pattern.streams())) continue;
    jobs_.push_back({pattern, true, {}});
  }
  for (Job& job : jobs_) job.pattern.visits = visits_of_periods(job.pattern, 0);
  return {};
}

Status Experiment::fill() {
  zones_.resize(device_.zones());
  for (unsigned zone = 0; zone < device_.zones(); ++zone) {
    report_progress("fill");
    if (auto wanted = check_cancel(); !wanted) return wanted;
    auto speed = device_.scan(zone, Operation::write);
    if (!speed) return std::unexpected(speed.error());
    zones_[zone].first_write_bytes_per_s = *speed;
    count(device_.zone_bytes(), 0);
  }
  return {};
}

// Runs every pattern once with few visits, to learn how many visits fill a sample's time.
Status Experiment::rehearse() {
  for (Job& job : jobs_) {
    report_progress("rehearse");
    if (auto done = run(job); !done) return done;
    const double per_visit =
        job.seconds_per_byte.back() * static_cast<double>(job.pattern.run_bytes);
    job.seconds_per_byte.clear();
    job.pattern.visits =
        visits_of_periods(job.pattern, static_cast<uint64_t>(plan_.sample_seconds / per_visit));
  }
  return {};
}

Status Experiment::repeat() {
  total_bytes_ = done_bytes_;
  for (uint32_t repetition = 0; repetition < plan_.repetitions; ++repetition) {
    total_bytes_ += 2 * zones_of(repetition).size() * device_.zone_bytes();
    for (Job& job : jobs_) total_bytes_ += bytes_of(job);
  }
  for (uint32_t repetition = 0; repetition < plan_.repetitions; ++repetition) {
    const std::vector<unsigned> zones = zones_of(repetition);
    // The order holds numbers of jobs, then of zones to read, then of zones to write.
    std::vector<size_t> order(jobs_.size() + 2 * zones.size());
    for (size_t i = 0; i < order.size(); ++i) std::swap(order[i] = i, order[random_.below(i + 1)]);
    for (size_t i : order) {
      report_progress("measure");
      Status done;
      if (i < jobs_.size()) {
        done = run(jobs_[i]);
      } else {
        const size_t scan_number = i - jobs_.size();
        done =
            scan(zones[scan_number / 2], scan_number % 2 == 0 ? Operation::read : Operation::write);
      }
      if (!done) return done;
    }
  }
  report_progress("measure");
  return {};
}

Status Experiment::run(Job& job) {
  if (auto wanted = check_cancel(); !wanted) return wanted;
  auto seconds = device_.interleave(job.pattern);
  if (!seconds) return std::unexpected(seconds.error());
  job.seconds_per_byte.push_back(*seconds / static_cast<double>(bytes_of(job)));
  count(bytes_of(job), job.pattern.read_share());
  return {};
}

Status Experiment::scan(unsigned zone, Operation operation) {
  if (auto wanted = check_cancel(); !wanted) return wanted;
  auto speed = device_.scan(zone, operation);
  if (!speed) return std::unexpected(speed.error());
  Sweep& sweep = operation == Operation::read ? zones_[zone].read : zones_[zone].write;
  sweep.bytes += device_.zone_bytes();
  sweep.seconds += static_cast<double>(device_.zone_bytes()) / *speed;
  count(device_.zone_bytes(), operation == Operation::read ? 1 : 0);
  return {};
}

std::vector<unsigned> Experiment::zones_of(uint32_t repetition) const {
  const unsigned zones = device_.zones();
  std::vector<unsigned> chosen;
  for (unsigned zone = 0; zone < zones; ++zone) {
    if (repetition % zones == zone % plan_.repetitions) chosen.push_back(zone);
  }
  return chosen;
}

void Experiment::count(uint64_t bytes, double read_share) {
  done_bytes_ += bytes;
  bytes_read_ += read_share * static_cast<double>(bytes);
  bytes_written_ += (1 - read_share) * static_cast<double>(bytes);
}

Result<Measurement> Experiment::evaluate() {
  Measurement result;
  Sweep reads, writes;
  for (const Zone& zone : zones_) {
    result.zones.push_back(
        {zone.first_write_bytes_per_s, zone.write.bytes_per_s(), zone.read.bytes_per_s()});
    reads = {reads.bytes + zone.read.bytes, reads.seconds + zone.read.seconds};
    writes = {writes.bytes + zone.write.bytes, writes.seconds + zone.write.seconds};
  }
  result.read_bytes_per_s = reads.bytes_per_s();
  result.write_bytes_per_s = writes.bytes_per_s();

  std::vector<DelaySample> all;
  for (const Job& job : jobs_) {
    if (job.check) continue;
    const Pattern& pattern = job.pattern;
    if (result.shapes.empty() || result.shapes.back().inputs != pattern.inputs ||
        result.shapes.back().outputs != pattern.outputs) {
      result.shapes.push_back({.inputs = pattern.inputs,
                               .outputs = pattern.outputs,
                               .read_share = pattern.read_share()});
    }
    Measurement::Shape& shape = result.shapes.back();
    for (uint32_t i = 0; i < job.seconds_per_byte.size(); ++i) {
      shape.samples.push_back({i, pattern.run_bytes, job.seconds_per_byte[i]});
    }
  }
  for (Measurement::Shape& shape : result.shapes) {
    auto fit = fit_delay(shape.samples);
    if (!fit) return std::unexpected(fit.error());
    shape.fit = *fit;
    const double one_after_the_other = shape.read_share / result.read_bytes_per_s +
                                       (1 - shape.read_share) / result.write_bytes_per_s;
    shape.at_once = one_after_the_other / fit->seconds_per_byte;
    const auto line = static_cast<uint32_t>(all.size());
    for (DelaySample sample : shape.samples) {
      sample.repetition += line;  // one line for each repetition of each shape
      all.push_back(sample);
    }
  }
  auto together = fit_delay(all);
  if (!together) return std::unexpected(together.error());
  result.together = *together;

  const DeviceProfile profile = result.profile({}, {});
  for (const Job& job : jobs_) {
    if (!job.check) continue;
    std::vector<double> sorted = job.seconds_per_byte;
    std::sort(sorted.begin(), sorted.end());
    const double median = (sorted[(sorted.size() - 1) / 2] + sorted[sorted.size() / 2]) / 2;
    const Bowtie bowtie{.inputs = job.pattern.inputs,
                        .outputs = job.pattern.outputs,
                        .input_share = job.pattern.read_share(),
                        .memory_bytes = 1};
    result.checks.push_back(
        {job.pattern, bytes_per_s(bowtie, static_cast<double>(job.pattern.run_bytes), profile),
         1 / median});
  }
  result.seconds = seconds_since(started_);
  result.bytes_read = static_cast<uint64_t>(bytes_read_);
  result.bytes_written = static_cast<uint64_t>(bytes_written_);
  return result;
}

}  // namespace

Result<Measurement> measure(MeasuredDevice& device, const MeasurementPlan& plan,
                            const std::atomic<bool>* cancel,
                            const std::function<void(const MeasurementProgress&)>& progress) {
  Experiment experiment(device, plan, cancel, progress);
  if (auto done = experiment.choose_patterns(); !done) return std::unexpected(done.error());
  if (auto done = experiment.fill(); !done) return std::unexpected(done.error());
  if (auto done = experiment.rehearse(); !done) return std::unexpected(done.error());
  if (auto done = experiment.repeat(); !done) return std::unexpected(done.error());
  return experiment.evaluate();
}

}  // namespace penstock::bowtie
